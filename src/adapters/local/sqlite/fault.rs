//! What went wrong in SQLite, in words that say what to do.

use std::path::Path;

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::ports::ledger::LedgerError;

/// What went wrong, before the file's name is added.
#[derive(Debug, Error)]
pub enum Fault {
    /// SQLite says so.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// What is stored under this id can't be read.
    #[error("{id} can't be read: {reason}")]
    Document {
        /// The item, or the row of a counter.
        id: String,
        /// Why not.
        reason: String,
    },
    /// The file is fine as such, and not for this program; the rest of the sentence after its name.
    #[error("{0}")]
    NotOurs(String),
    /// The file beside it, by which processes take turns, can't be opened.
    #[error(transparent)]
    Turn(std::io::Error),
}

impl Fault {
    /// The ledger's error, which names the file at `path` and says what to do.
    pub fn of(&self, path: &Path) -> LedgerError {
        let file = path.display();
        match self {
            Self::Sqlite(error) => of_sqlite(error, path),
            Self::Document { id, reason } => LedgerError::NeedsPerson(format!(
                "{file}: what is stored as {id} can't be read ({reason}); restore the file from a copy, or mend it \
                 with the sqlite3 program"
            )),
            Self::Turn(error) => LedgerError::NeedsPerson(format!(
                "{file}-turn can't be opened; its folder must be one in which this user may write ({error})"
            )),
            Self::NotOurs(sentence) => LedgerError::NeedsPerson(format!("{file} {sentence}")),
        }
    }
}

fn of_sqlite(error: &rusqlite::Error, path: &Path) -> LedgerError {
    let file = path.display();
    let folder = path.parent().unwrap_or(path).display();
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            return LedgerError::Busy(format!("{file} is locked by another process ({error})"));
        }
        Some(ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => {
            return LedgerError::Busy(format!("{file}: {error}"));
        }
        Some(ErrorCode::DiskFull) => format!("the disk is full; free some space on the disk of {folder}"),
        Some(ErrorCode::ReadOnly) => {
            format!("it can't be written; make the file and its folder {folder} writable for this user")
        }
        Some(ErrorCode::PermissionDenied) => format!("no permission; allow this user to read and write in {folder}"),
        Some(ErrorCode::CannotOpen) if path.is_dir() => {
            "it is a folder, and the ledger is a file; name another data folder, or move this one away".to_owned()
        }
        Some(ErrorCode::CannotOpen) => {
            format!("it can't be opened; {folder} must be a folder in which this user may write")
        }
        Some(ErrorCode::NotADatabase) => {
            "it is no database, so no ledger and no queue; name another data folder, or move the file away if nobody \
             needs it"
                .to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "the file is damaged; keep it, and restore a copy or save what is left with `sqlite3 … .recover`".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => format!(
            "reading or writing failed; look at the free space and the health of the disk of {folder}, which must \
             be a local one"
        ),
        _ => "this is not expected; please report it".to_owned(),
    };
    LedgerError::NeedsPerson(format!("{file}: {advice} ({error})"))
}
