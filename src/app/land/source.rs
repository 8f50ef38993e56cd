//! Where the bytes of an intake come from: a file, an arrival in the inbox, or lines at hand.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncRead;

use super::LandError;
use crate::app::engine::Trouble;
use crate::ports::inbox::{Arrival, Inbox};

/// A stream of bytes.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Bytes that are read twice: once for their name, once to be stored.
#[async_trait]
pub trait Source: Send + Sync {
    /// What messages call it.
    fn shown(&self) -> String;

    /// The file's name as the ledger keeps it.
    fn file(&self) -> String;

    /// Its bytes from the start.
    async fn open(&self) -> Result<Reader, LandError>;

    /// What a reader's error means.
    fn broken(&self, error: io::Error) -> LandError;
}

/// A file on this machine.
#[derive(Debug)]
pub struct LocalFile<'a>(pub &'a Path);

impl LocalFile<'_> {
    fn unusable(&self, why: &str) -> LandError {
        LandError::Unusable(format!("{}: {why}", self.shown()))
    }

    /// Opens a regular file that holds something.
    pub(super) async fn open_file(&self) -> Result<File, LandError> {
        let path = self.0;
        let meta = tokio::fs::metadata(path).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if path == Path::new("-") => self.unusable(
                "standard input can't be used, since a run reads its jobs again; put the lines into a file first",
            ),
            _ => self.broken(error),
        })?;
        if meta.is_dir() {
            return Err(self.unusable("it is a directory; name a file of jobs, one JSON object a line"));
        }
        if !meta.is_file() {
            return Err(self.unusable("it is no regular file; put the jobs into a file first"));
        }
        if meta.len() == 0 {
            return Err(self.unusable("the file is empty"));
        }
        File::open(path).await.map_err(|error| self.broken(error))
    }
}

#[async_trait]
impl Source for LocalFile<'_> {
    fn shown(&self) -> String {
        self.0.display().to_string()
    }

    fn file(&self) -> String {
        self.0.file_name().map_or_else(|| self.shown(), |name| name.to_string_lossy().into_owned())
    }

    async fn open(&self) -> Result<Reader, LandError> {
        Ok(Box::new(self.open_file().await?))
    }

    fn broken(&self, error: io::Error) -> LandError {
        match error.kind() {
            io::ErrorKind::NotFound => self.unusable("there is no such file"),
            io::ErrorKind::PermissionDenied => self.unusable("the file may not be read (permissions)"),
            _ => self.unusable(&error.to_string()),
        }
    }
}

/// A file in the inbox.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The inbox.
    pub inbox: &'a dyn Inbox,
    /// Which of its files.
    pub arrival: &'a Arrival,
}

#[async_trait]
impl Source for Arrived<'_> {
    fn shown(&self) -> String {
        format!("inbox/{}", self.arrival.name)
    }

    fn file(&self) -> String {
        self.arrival.name.clone()
    }

    async fn open(&self) -> Result<Reader, LandError> {
        Ok(self.inbox.open(self.arrival).await?)
    }

    /// The reader has tried for itself: what stayed passes by itself or needs a person, and the file stays where it is.
    fn broken(&self, error: io::Error) -> LandError {
        Trouble::Passing(format!("{}: {error}", self.shown())).into()
    }
}

/// Lines at hand.
#[derive(Debug)]
pub struct Lines {
    /// What to call them.
    pub file: String,
    /// JSONL.
    pub bytes: Bytes,
}

#[async_trait]
impl Source for Lines {
    fn shown(&self) -> String {
        self.file.clone()
    }

    fn file(&self) -> String {
        self.file.clone()
    }

    async fn open(&self) -> Result<Reader, LandError> {
        Ok(Box::new(io::Cursor::new(self.bytes.clone())))
    }

    fn broken(&self, error: io::Error) -> LandError {
        LandError::Unusable(format!("{}: {error}", self.file))
    }
}
