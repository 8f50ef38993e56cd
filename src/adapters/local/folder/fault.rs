//! What went wrong in the file system, in words that say what to do.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::ports::objects::ObjectError;

/// The error of a call on `path`.
pub fn fault(error: &io::Error, path: &Path) -> ObjectError {
    let path = path.display();
    let advice = match error.kind() {
        ErrorKind::StorageFull => "the disk is full; free some space on it",
        ErrorKind::QuotaExceeded => "this user's quota on the disk is used up; free some space",
        ErrorKind::FileTooLarge => "no file may be that large here; raise the limit (`ulimit -f`), or use another disk",
        ErrorKind::ReadOnlyFilesystem => "the disk is mounted read-only; name a data folder that can be written",
        ErrorKind::PermissionDenied => "no permission; allow this user to read and write there",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is where a folder is needed; name another data folder, or move the file away"
        }
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ResourceBusy => {
            return ObjectError::Busy(format!("{path}: {error}"));
        }
        // Too many open files has no kind of its own: 24 in this process, 23 in the whole system.
        _ if cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24)) => {
            return ObjectError::Busy(format!("{path}: {error}"));
        }
        _ => "reading or writing failed; look at the path and the health of the disk",
    };
    ObjectError::NeedsPerson(format!("{path}: {advice} ({error})"))
}
