//! Gemini's batch jobs and files. Each error says what is known about the remote side.

use std::fmt;

use async_trait::async_trait;
use thiserror::Error;
use tokio::io::AsyncRead;

use super::gemini::{CreateError, ReadError};
use super::objects::{ObjectError, Objects};
use crate::domain::batch::{Batch, Page};
use crate::domain::job::KeyId;
use crate::domain::webhook::Hook;

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

/// Why an object did not become a file.
#[derive(Debug, Error)]
pub enum UploadError {
    /// The object could not be read: its own error says what may be done.
    #[error("what is to be uploaded can't be read: {0}")]
    Object(#[from] ObjectError),
    /// Gemini did not take it. The upload may be begun anew, unless it is `Refused` for good.
    #[error(transparent)]
    Gemini(#[from] ReadError),
}

/// A file that is coming down.
pub struct Download {
    /// Its bytes. A read error says that they broke off, and so does every read after it. An end is an end, but for a
    /// body that ends with its connection (no length, not chunked): there nothing tells the two apart.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// How many bytes are announced; fewer are a read error.
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
    async fn upload(&self, upload: Upload<'_>) -> Result<String, UploadError>;

    /// Creates a batch job of `model` over an uploaded file.
    async fn create_batch(
        &self,
        model: &str,
        file: &str,
        display_name: &str,
        hook: Option<&Hook<'_>>,
    ) -> Result<Batch, CreateError>;

    /// Looks at a batch job, with the key that created it when it is at hand, else with the creating one.
    async fn get_batch(&self, name: &str, created_by: &KeyId) -> Result<Batch, ReadError>;

    /// A page of the creating key's batch jobs, the first one or that of a token.
    async fn list_batches(&self, page: Option<&str>) -> Result<Page, ReadError>;

    /// Asks Gemini to cancel it. `Ok` says that Gemini took the wish: the job may still succeed.
    async fn cancel_batch(&self, name: &str, created_by: &KeyId) -> Result<(), ReadError>;

    /// Begins to download a batch job's output.
    async fn download(&self, file: &str, created_by: &KeyId) -> Result<Download, ReadError>;

    /// Deletes an uploaded file. One that is not found is deleted already, if `created_by` is at hand.
    async fn delete_file(&self, file: &str, created_by: &KeyId) -> Result<(), ReadError>;
}
