//! Taking turns among processes.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use super::PATIENCE;
use super::file::{NAP, nap};

/// The turn to begin a transaction.
///
/// SQLite's lock is not fair: a process that writes without a pause takes it again before one that waits has looked,
/// which then waits for minutes. So a process waits for SQLite's lock while it holds this one, and who has just
/// written has to wait for this one first. Nothing but fairness rests on it: when it can't be had, SQLite's lock decides.
#[derive(Debug)]
pub struct Turn(File);

impl Turn {
    /// The turn of the ledger at `path`, a file beside it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push("-turn");
        File::options().create(true).truncate(false).write(true).open(name).map(Self)
    }

    /// Runs `begin` while nobody else runs theirs.
    pub fn take<T>(&self, begin: impl FnOnce() -> T) -> T {
        let mine = self.wait();
        let begun = begin();
        if mine && let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the turn to write into the ledger could not be passed on");
        }
        begun
    }

    /// Waits, but not for ever: who holds it may have been stopped by a person.
    fn wait(&self) -> bool {
        for _ in 0..PATIENCE.as_millis() / NAP.as_millis() {
            match self.0.try_lock() {
                Ok(()) => return true,
                Err(TryLockError::WouldBlock) => nap(),
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(%error, "no turns on this file system");
                    return false;
                }
            }
        }
        false
    }
}
