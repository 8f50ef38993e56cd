//! The inbox: where files are put by whoever has work, and taken from by the next tick (design, section 4).

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncRead;

use super::objects::ObjectError;

/// One version of one file in the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arrival {
    /// Its name, without the inbox's own.
    pub name: String,
    /// Which version of it: a newer file of the same name is another arrival.
    pub version: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Files that were handed in.
#[async_trait]
pub trait Inbox: fmt::Debug + Send + Sync {
    /// At most `limit` files, by name; of each name the newest version.
    async fn list(&self, limit: usize) -> Result<Vec<Arrival>, ObjectError>;

    /// Its bytes from the start, in bounded memory. They are that version's, whatever is put beside it meanwhile; a
    /// read that breaks is gone on with inside, so that an error of the reader is one that stayed; it carries an
    /// [`ObjectError`].
    async fn open(&self, arrival: &Arrival) -> Result<Box<dyn AsyncRead + Send + Unpin>, ObjectError>;

    /// Removes that version and no other. One that is gone is a success.
    async fn remove(&self, arrival: &Arrival) -> Result<(), ObjectError>;
}
