//! Gemini's batch jobs and files. Each error says what is known about the remote side.

use std::fmt;

use async_trait::async_trait;
use tokio::io::AsyncRead;

use super::gemini::{CreateError, ReadError};
use super::objects::Objects;
use crate::domain::batch::{Batch, Page};
use crate::domain::job::KeyId;

/// An object that is to become a file at Gemini.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// Where it lies.
    pub objects: &'a dyn Objects,
    /// Its name there.
    pub object: &'a str,
    /// Its length in bytes.
    pub bytes: u64,
    /// What to call it at Gemini.
    pub display_name: &'a str,
}

/// A file that is coming down.
pub struct Download {
    /// Its bytes. A read error, and nothing else, says that they broke off; an end may be one too when `bytes` is none.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// How many bytes are announced.
    pub bytes: Option<u64>,
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Gemini's batch jobs and files. Creates are never repeated; uploads repeat a chunk that was not taken.
#[async_trait]
pub trait Batches: fmt::Debug + Send + Sync {
    /// Uploads an object as a JSONL file, with the creating key, and returns the file's name (`files/…`). Nothing is paid
    /// for an upload, so that one without an answer may simply be made again.
    async fn upload(&self, upload: Upload<'_>) -> Result<String, ReadError>;

    /// Creates a batch job of `model` over an uploaded file.
    async fn create_batch(&self, model: &str, file: &str, display_name: &str) -> Result<Batch, CreateError>;

    /// Looks at a batch job, with the key that created it when it is at hand, else with the creating one.
    async fn get_batch(&self, name: &str, created_by: &KeyId) -> Result<Batch, ReadError>;

    /// A page of the creating key's batch jobs, the first one or that of a token.
    async fn list_batches(&self, page: Option<&str>) -> Result<Page, ReadError>;

    /// Asks Gemini to cancel it.
    async fn cancel_batch(&self, name: &str, created_by: &KeyId) -> Result<(), ReadError>;

    /// Begins to download a batch job's output.
    async fn download(&self, file: &str, created_by: &KeyId) -> Result<Download, ReadError>;

    /// Deletes an uploaded file.
    async fn delete_file(&self, file: &str, created_by: &KeyId) -> Result<(), ReadError>;
}
