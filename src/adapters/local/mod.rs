//! One machine: the ledger in SQLite, objects in a folder.

pub mod command;
pub mod folder;
pub mod seed;
pub mod signing_secrets;
pub mod sqlite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use self::folder::FolderObjects;
use self::sqlite::{SqliteLedger, SqliteQueue};
use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::ledger::LedgerError;
use crate::ports::objects::ObjectError;
use crate::ports::queue::QueueError;

/// The ledger's file in a data folder.
pub const LEDGER: &str = "ledger.db";

/// The file of the queue of work that one process leaves for another: that of the events which came.
pub const WORK: &str = "work.db";

/// The file of the queue of dead letters: the messages that stand for them.
pub const DEAD_LETTERS: &str = "dead-letters.db";

/// The file of signing secrets of webhooks.
pub const WEBHOOK_SECRETS: &str = "webhook-secrets.json";

/// The folders of a data folder that hold objects, by the first part of their names.
pub const FOLDERS: [&str; 3] = ["intakes", "results", "answers"];

/// Why a data folder could not be opened. Whatever was in it is as it was.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder itself, or its objects.
    #[error(transparent)]
    Objects(#[from] ObjectError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A data folder: `ledger.db`, the folders of objects (`intakes/`, `results/`, `answers/`), `work.db` for what one
/// process leaves for another, `dead-letters.db` with the messages of dead letters, and `tmp/` for what is being written. Several processes may have it open at once.
#[derive(Debug, Clone)]
pub struct DataFolder {
    /// Where it lies.
    pub root: PathBuf,
    /// Its ledger.
    pub ledger: Arc<SqliteLedger>,
    /// Its objects.
    pub objects: Arc<FolderObjects>,
}

impl DataFolder {
    /// Opens the data folder at `root`; what isn't there yet is made. `now` is the clock's. Blocks.
    ///
    /// # Errors
    /// In words that name the path and say what to do: a file in the place of the folder, a folder that can't be
    /// written, a full disk, a ledger that can't be used (see [`SqliteLedger::open`]).
    pub fn open(root: impl AsRef<Path>, now: Millis) -> Result<Self, OpenError> {
        let objects = FolderObjects::open(root, now)?;
        for folder in FOLDERS {
            objects.make_folder(folder)?;
        }
        let root = objects.root().to_owned();
        let ledger = SqliteLedger::open(root.join(LEDGER))?;
        Ok(Self { root, ledger: Arc::new(ledger), objects: Arc::new(objects) })
    }

    /// Opens its queue of work that one process leaves for another, made if it isn't there. Blocks.
    ///
    /// # Errors
    /// As [`SqliteQueue::open`].
    pub fn work_queue(&self, clock: Arc<dyn Clock>) -> Result<SqliteQueue, QueueError> {
        SqliteQueue::open(self.root.join(WORK), clock)
    }

    /// Opens its queue of dead letters, made if it isn't there. Blocks.
    ///
    /// # Errors
    /// As [`SqliteQueue::open`].
    pub fn dead_letters(&self, clock: Arc<dyn Clock>) -> Result<SqliteQueue, QueueError> {
        SqliteQueue::open(self.root.join(DEAD_LETTERS), clock)
    }
}
