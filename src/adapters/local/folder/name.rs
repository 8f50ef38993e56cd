//! Names of objects.

use super::TMP;
use crate::ports::objects::ObjectError;

/// Whether `name` is one: parts of `[A-Za-z0-9._-]` joined by `/`, none of them empty, `.` or `..`.
pub fn check(name: &str) -> Result<(), ObjectError> {
    let refuse = |why: &str| Err(ObjectError::NeedsPerson(format!("{name:?} is no name for an object: {why}")));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if !name.bytes().all(allowed) {
        return refuse("only A-Z a-z 0-9 . _ - and / may be in it");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return refuse("a part of it is empty, . or ..");
    }
    if name.split('/').next() == Some(TMP) {
        return refuse("the folder tmp is for files that are being written");
    }
    Ok(())
}
