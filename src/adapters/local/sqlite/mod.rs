//! The ledger in SQLite, one file, which several processes may use at once.
//!
//! - **Writes** of one process go through one thread with one connection. It takes what waits, judges each write by
//!   itself in one transaction, commits once for all of them, and only then answers: many writes share one `fsync`.
//! - **Reads** have threads and connections of their own. Write-ahead logging lets them read while somebody writes.
//! - Processes exclude each other by SQLite's own locks and take turns by a lock file, `<path>-turn`. Who can't write
//!   within about [`PATIENCE`] is told [`LedgerError::Busy`].
//!
//! A [queue](SqliteQueue) is a file of its own; it is small work, and each call makes its own transaction.
//!
//! The folder must be on a local disk: write-ahead logging needs memory that processes share
//! (<https://www.sqlite.org/wal.html>).

mod fault;
mod file;
mod group;
mod queue;
mod reads;
mod row;
mod turn;
mod writes;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use self::fault::Fault;
pub use self::queue::SqliteQueue;
use self::reads::Readers;
use self::row::Row;
use self::writes::{Verdict, Writer};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Rev, State};
use crate::domain::time::Millis;
use crate::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};

/// How long a call waits for its turn among several processes before it is told that the ledger is busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What can be tuned; the tests make these small.
#[derive(Debug, Clone, Copy)]
struct Options {
    /// Writes that share one transaction at most.
    group: usize,
    /// The length in bytes at which the write-ahead log is written back and cut, waiting for readers if it must.
    log_bytes: u64,
    /// The pages of 4 KB that the file may have; none: as many as the disk holds.
    pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { group: 256, log_bytes: 64 << 20, pages: None }
    }
}

/// The ledger of one data folder.
///
/// A handle that is already on record for another item stays with that item: the write goes through, [`by_handle`]
/// keeps answering with the first one, and the log warns of it.
///
/// Dropping it finishes the writes that wait, closes the file, and returns after that.
///
/// [`by_handle`]: Ledger::by_handle
#[derive(Debug)]
pub struct SqliteLedger {
    writer: Writer,
    readers: Readers,
    path: PathBuf,
}

impl SqliteLedger {
    /// Opens the ledger in the file `path`, made if it isn't there; its folder must be. Blocks.
    ///
    /// # Errors
    /// [`LedgerError::NeedsPerson`] for a file that is no ledger, one of a newer version, a folder that can't be
    /// written, a full disk; nothing was changed. [`LedgerError::Busy`] when other processes keep it locked.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        Self::open_with(path.as_ref(), Options::default())
    }

    /// The same with a file that may not grow beyond `pages` of 4 KB each: beyond that, writes fail as on a full disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(any(test, feature = "testing"))]
    pub fn open_small(path: impl AsRef<Path>, pages: u32) -> Result<Self, LedgerError> {
        Self::open_with(path.as_ref(), Options { pages: Some(pages), ..Options::default() })
    }

    fn open_with(path: &Path, options: Options) -> Result<Self, LedgerError> {
        let named = |fault: Fault| fault.of(path);
        let writing = file::open_for_writing(path).map_err(named)?;
        if let Some(pages) = options.pages {
            file::limit(&writing, pages).map_err(named)?;
        }
        let readers = Readers::start(path)?;
        let writer = Writer::start(writing, path, options)?;
        Ok(Self { writer, readers, path: path.to_owned() })
    }

    /// The file it lies in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn create(&self, item: &Item) -> Result<(), CreateError> {
        match self.writer.write(None, Row::of(item)?).await? {
            Verdict::Written => Ok(()),
            Verdict::InTheWay(Some(stored)) => Err(CreateError::Exists(Box::new(stored.read()?))),
            Verdict::InTheWay(None) => Err(LedgerError::NeedsPerson(format!(
                "{}: an item is in the way of a new one and isn't there, which can't be",
                self.path.display()
            ))
            .into()),
        }
    }

    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
        if item.rev() == read {
            // It would look like a call that was made before, and the change would be lost without a word.
            let message = format!("a change of {} carries the rev that it read instead of a fresh one", item.id());
            return Err(LedgerError::NeedsPerson(message).into());
        }
        match self.writer.write(Some(read.clone()), Row::of(item)?).await? {
            Verdict::Written => Ok(()),
            Verdict::InTheWay(None) => Err(ReplaceError::Stale(None)),
            Verdict::InTheWay(Some(stored)) => Err(ReplaceError::Stale(Some(Box::new(stored.read()?)))),
        }
    }

    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError> {
        let id = id.0.clone();
        self.readers.read(move |connection| reads::get(connection, &id)).await
    }

    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError> {
        let ids = ids.to_vec();
        self.readers.read(move |connection| reads::get_many(connection, &ids)).await
    }

    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
        let states = states.to_vec();
        self.readers.read(move |connection| reads::due(connection, &states, now, limit)).await
    }

    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError> {
        let states = states.to_vec();
        self.readers.read(move |connection| reads::next_due(connection, &states)).await
    }

    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError> {
        let after = after.cloned();
        self.readers.read(move |connection| reads::in_state(connection, state, after.as_ref(), limit)).await
    }

    async fn counts(&self) -> Result<Counts, LedgerError> {
        let items = self.readers.read(reads::counts).await?;
        Ok(Counts { items, has_closed: true })
    }

    async fn totals(&self, intake: &str) -> Result<Option<Vec<Total>>, LedgerError> {
        let intake = intake.to_owned();
        self.readers.read(move |connection| reads::totals(connection, &intake)).await.map(Some)
    }

    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError> {
        let handle = handle.to_owned();
        self.readers.read(move |connection| reads::by_handle(connection, &handle)).await
    }

    /// Asks first, without a write: a ledger in which nothing has expired is only read.
    async fn forget(&self, now: Millis, limit: usize) -> Result<u64, LedgerError> {
        if limit == 0 || !self.readers.read(move |connection| reads::has_expired(connection, now)).await? {
            return Ok(0);
        }
        self.writer.forget(now.0, reads::sql_limit(limit)).await
    }
}

#[cfg(test)]
mod tests;
