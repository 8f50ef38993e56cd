//! Names of objects.

use super::TMP;
use crate::ports::objects::{ObjectError, check_name};

/// Whether `name` is one, and not in the folder that is this store's own.
pub fn check(name: &str) -> Result<(), ObjectError> {
    check_name(name)?;
    if name.split('/').next() == Some(TMP) {
        let why = "the folder tmp is for files that are being written";
        return Err(ObjectError::NeedsPerson(format!("{name:?} is no name for an object: {why}")));
    }
    Ok(())
}
