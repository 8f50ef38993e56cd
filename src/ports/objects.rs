//! Objects: immutable bytes under names, in a bucket or a folder.

use std::fmt;
use std::io;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use tokio::io::AsyncRead;

/// Why an object could not be read or written.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// There is no such object.
    #[error("there is no object {0}")]
    NotFound(String),
    /// Busy or out of reach for now. The same call may be made again.
    #[error("the objects are out of reach: {0}")]
    Busy(String),
    /// A person must act: a full disk, a folder that can't be written. Nothing was left under the name.
    #[error("{0}")]
    NeedsPerson(String),
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The object is there now, by this call.
    Written,
    /// An object of that name was there before; it was left as it is.
    AlreadyThere,
}

/// Whether `name` is a name for an object: parts of `[A-Za-z0-9._-]` joined by `/`, none of them empty, `.` or `..`.
///
/// # Errors
/// [`ObjectError::NeedsPerson`] that says what is wrong with it.
pub fn check_name(name: &str) -> Result<(), ObjectError> {
    let refuse = |why: &str| Err(ObjectError::NeedsPerson(format!("{name:?} is no name for an object: {why}")));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if !name.bytes().all(allowed) {
        return refuse("only A-Z a-z 0-9 . _ - and / may be in it");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return refuse("a part of it is empty, . or ..");
    }
    Ok(())
}

/// What a stream's error means for the object that it was to become: the [`ObjectError`] that it carries, or else that
/// it may be tried again.
#[must_use]
pub fn broke_off(name: &str, error: io::Error) -> ObjectError {
    let words = format!("what was to become {name} broke off: {error}");
    match error.into_inner().map(|inner| inner.downcast::<ObjectError>()) {
        Some(Ok(carried)) => *carried,
        _ => ObjectError::Busy(words),
    }
}

/// Immutable bytes under names that [`check_name`] lets pass; every call refuses others.
#[async_trait]
pub trait Objects: fmt::Debug + Send + Sync {
    /// Writes a whole object if none of that name is there. Durable when it returns; never seen half written.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Put, ObjectError>;

    /// The same from a stream, in bounded memory. An error of `source` leaves nothing under the name; one that carries an
    /// [`ObjectError`], as those of an [inbox](super::inbox::Inbox::open)'s reader do, comes back as that one.
    async fn put_stream(&self, name: &str, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError>;

    /// The whole object.
    async fn get(&self, name: &str) -> Result<Bytes, ObjectError>;

    /// The bytes of `range` that exist; fewer when the object ends before.
    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError>;

    /// Its length in bytes, or none when there is no such object.
    async fn size(&self, name: &str) -> Result<Option<u64>, ObjectError>;
}
