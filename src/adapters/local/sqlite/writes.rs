//! The thread that writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::fault::Fault;
use super::group::{self, Broken};
use super::row::{Row, Stored};
use super::turn::Turn;
use super::{Options, file};
use crate::domain::job::Rev;
use crate::ports::ledger::LedgerError;

/// How long cutting the log may wait for readers. Short, since writes wait meanwhile, and it is tried again.
const CUTTING: Duration = Duration::from_millis(200);

/// One write and who waits for it.
#[derive(Debug)]
pub struct Write {
    /// The rev that must be stored; none: no item must be.
    pub read: Option<Rev>,
    /// What to store.
    pub row: Row,
    answer: oneshot::Sender<Result<Verdict, LedgerError>>,
}

#[cfg(test)]
impl Write {
    /// One that nobody waits for.
    pub fn for_test(read: Option<Rev>, row: Row) -> Self {
        Self { read, row, answer: oneshot::channel().0 }
    }
}

/// What became of a write.
#[derive(Debug)]
pub enum Verdict {
    /// It is durable.
    Written,
    /// Its condition doesn't hold: this is stored.
    InTheWay(Option<Stored>),
}

/// What the thread is asked for.
#[derive(Debug)]
enum Asked {
    Write(Box<Write>),
    Forget { now: i64, limit: i64, answer: oneshot::Sender<Result<u64, LedgerError>> },
}

/// The way to the thread that writes. Dropping it waits until that thread has done what it was asked for.
#[derive(Debug)]
pub struct Writer {
    queue: Option<mpsc::Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl Writer {
    /// Starts the thread.
    pub fn start(connection: Connection, path: &Path, options: Options) -> Result<Self, LedgerError> {
        let (queue, waiting) = mpsc::channel(options.group);
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let turn = Turn::open(path).map_err(|error| Fault::Turn(error).of(path))?;
        let work = Work { connection, turn, path: path.to_owned(), log, options, cut_at: options.log_bytes };
        let thread = super::reads::spawn("ledger-writer", move || work.run(waiting))?;
        Ok(Self { queue: Some(queue), thread: Some(thread), path: path.to_owned() })
    }

    /// Queues a write and waits until it is durable, or found to be in vain. A caller that doesn't wait for the end
    /// doesn't stop it.
    pub async fn write(&self, read: Option<Rev>, row: Row) -> Result<Verdict, LedgerError> {
        self.ask(|answer| Asked::Write(Box::new(Write { read, row, answer }))).await
    }

    /// Queues the deletion of at most `limit` items that have expired at `now`, and waits until it is durable. Says how
    /// many there were.
    pub async fn forget(&self, now: i64, limit: i64) -> Result<u64, LedgerError> {
        self.ask(|answer| Asked::Forget { now, limit, answer }).await
    }

    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, LedgerError>>) -> Asked,
    ) -> Result<T, LedgerError> {
        let (answer, settled) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(|| super::reads::ended(&self.path))?;
        queue.send(ask(answer)).await.map_err(|_| super::reads::ended(&self.path))?;
        settled.await.map_err(|_| super::reads::ended(&self.path))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        super::reads::join(self.thread.take());
    }
}

struct Work {
    connection: Connection,
    turn: Turn,
    path: PathBuf,
    log: OsString,
    options: Options,
    /// The length of the log at which it is tried to be cut next.
    cut_at: u64,
}

impl Work {
    fn run(mut self, mut waiting: mpsc::Receiver<Asked>) {
        while let Some(first) = waiting.blocking_recv() {
            let (mut writes, mut next) = (Vec::new(), Some(first));
            while let Some(asked) = next {
                match asked {
                    Asked::Write(write) => writes.push(*write),
                    Asked::Forget { now, limit, answer } => self.forget(now, limit, answer),
                }
                next = if writes.len() < self.options.group { waiting.try_recv().ok() } else { None };
            }
            if !writes.is_empty() {
                self.settle(writes);
            }
            if let Err(error) = self.contain_log() {
                // What was answered is durable all the same, and the next write meets the reason if it stays.
                tracing::warn!(%error, path = %self.path.display(), "the ledger's write-ahead log could not be cut");
            }
        }
    }

    fn settle(&self, writes: Vec<Write>) {
        match group::commit(&self.connection, &self.turn, &writes) {
            Ok(verdicts) => {
                for (write, verdict) in writes.into_iter().zip(verdicts) {
                    answer(write, Ok(verdict));
                }
            }
            Err(Broken::InAWrite(_)) if writes.len() > 1 => {
                // One of them must not be the end of the others.
                for write in writes {
                    self.settle(vec![write]);
                }
            }
            Err(Broken::InAWrite(error) | Broken::Whole(error)) => {
                let fault = Fault::Sqlite(error);
                for write in writes {
                    answer(write, Err(fault.of(&self.path)));
                }
            }
        }
    }

    fn forget(&self, now: i64, limit: i64, answer: oneshot::Sender<Result<u64, LedgerError>>) {
        let forgotten = group::forget(&self.connection, &self.turn, now, limit);
        let forgotten =
            forgotten.map_err(|(Broken::InAWrite(error) | Broken::Whole(error))| Fault::Sqlite(error).of(&self.path));
        if answer.send(forgotten).is_err() {
            tracing::debug!("nobody waits any more for what was forgotten");
        }
    }

    /// SQLite writes the log back into the file by itself, and starts it anew when no reader is in it. When readers
    /// overlap without a gap that never happens and it grows: then it is cut here, waiting for them.
    fn contain_log(&mut self) -> Result<(), Fault> {
        let length = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        if length < self.cut_at {
            return Ok(());
        }
        self.connection.busy_timeout(CUTTING)?;
        let cut = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        file::wait_for_locks(&mut self.connection)?;
        // A reader that stays for long (a person with a tool) must not make every write wait.
        self.cut_at = if cut? { length.saturating_add(self.options.log_bytes) } else { self.options.log_bytes };
        Ok(())
    }
}

fn answer(write: Write, verdict: Result<Verdict, LedgerError>) {
    if write.answer.send(verdict).is_err() {
        tracing::debug!(id = write.row.id, "nobody waits for this write any more");
    }
}
