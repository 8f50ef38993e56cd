//! An attempt's files: its input at Gemini, Gemini's raw output here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, ReadBuf};
use tracing::{debug, warn};

use super::blocks::{BLOCK, Block, Blocks};
use super::items::attempt_of;
use crate::app::engine::{Engine, Trouble};
use crate::domain::job::Job;
use crate::ports::gemini::ReadError;
use crate::ports::objects::Objects;

/// Deletes an attempt's input file at Gemini, where nothing needs it any more. Gemini deletes it after two days by itself,
/// so that trouble with it is only told.
pub async fn delete_input(engine: &Engine, job: &Job, ended: bool) {
    let file = job.batch.as_deref().and_then(|batch| batch.file.as_ref());
    let (Some(file), true) = (file, ended) else { return };
    let key = job.handles.last().map_or_else(|| engine.gemini.creates_as(), |handle| &handle.key);
    match engine.gemini.delete_file(&file.name, key).await {
        Ok(()) => debug!(job.key = %job.key, file = file.name, "its input file is deleted at Gemini"),
        Err(error) => {
            warn!(job.key = %job.key, file = file.name, %error, "its input file stays at Gemini for up to two days");
        }
    }
}

/// The object of a download of an attempt's output.
fn raw_object(job: &Job, handle: &str, download: u32) -> String {
    let digest = hex::encode(Sha256::digest(handle.as_bytes()));
    format!("answers/{}.{}.{download}.jsonl", job.key, digest.get(..12).unwrap_or(&digest))
}

/// Why an output did not come down.
#[derive(Debug)]
pub enum NoOutput {
    /// Gemini says that it isn't there, or refuses it.
    Refused(String),
    /// It broke off, or Gemini is out of reach.
    Passing(String),
    /// Trouble with the objects.
    Trouble(Trouble),
}

/// Brings Gemini's raw output down, whole, into an object that is the `download`th of it. One that is there already is
/// not brought again.
///
/// # Errors
/// It did not come down; nothing of it is kept.
pub async fn bring_down(engine: &Engine, job: &Job, handle: &str, download: u32) -> Result<String, NoOutput> {
    let name = raw_object(job, handle, download);
    let attempt = attempt_of(job).map_err(NoOutput::Trouble)?;
    let Some(output) = &attempt.output else {
        return Err(NoOutput::Passing("its output is not known".to_owned()));
    };
    if engine.objects.size(&name).await.map_err(|error| NoOutput::Trouble(error.into()))?.is_some() {
        return Ok(name);
    }
    let key = job.handle(handle).map_or_else(|| engine.gemini.creates_as(), |handle| &handle.key);
    let coming = engine.gemini.download(&output.file, key).await.map_err(|error| match error {
        ReadError::Refused(failure)
            if failure.http.is_some_and(|http| matches!(http, 400..=499) && http != 408 && http != 429) =>
        {
            NoOutput::Refused(failure.summary())
        }
        error => NoOutput::Passing(error.to_string()),
    })?;
    let mut counted = Counted { reader: coming.reader, announced: coming.bytes, read: 0 };
    match engine.objects.put_stream(&name, &mut counted).await {
        Ok(_) => Ok(name),
        Err(error @ crate::ports::objects::ObjectError::NeedsPerson(_)) => Err(NoOutput::Trouble(error.into())),
        Err(error) => Err(NoOutput::Passing(format!("it broke off after {} bytes: {error}", counted.read))),
    }
}

/// A reader that fails when it ends before as many bytes as were announced.
struct Counted {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    announced: Option<u64>,
    read: u64,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let fresh = buffer.filled().len() - before;
        self.read += fresh as u64;
        let ended = fresh == 0 && buffer.remaining() > 0;
        match self.announced {
            Some(announced) if ended && announced != self.read => Poll::Ready(Err(std::io::Error::other(format!(
                "{} bytes came of the {announced} that were announced",
                self.read
            )))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// Whether two objects hold the same bytes.
///
/// # Errors
/// Trouble with the objects.
pub async fn alike(objects: &Arc<dyn Objects>, one: &str, other: &str) -> Result<bool, Trouble> {
    let length = objects.size(one).await?;
    if length != objects.size(other).await? {
        return Ok(false);
    }
    let (length, mut at) = (length.unwrap_or(0), 0);
    while at < length {
        let end = (at + BLOCK).min(length);
        let (left, right) = tokio::try_join!(objects.read(one, at..end), objects.read(other, at..end))?;
        if left != right {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}

/// Writes an object that says of each refused line of an attempt's input what Gemini said, in the form of an output.
/// Returns its name, and how many rows are in it.
///
/// # Errors
/// Trouble with the objects.
pub async fn refused_rows(
    engine: &Engine,
    job: &Job,
    lines: &std::collections::BTreeMap<u64, String>,
    code: i64,
) -> Result<(String, u64), Trouble> {
    let attempt = attempt_of(job)?;
    let mut blocks = Blocks::of(&engine.objects, &attempt.rows_at);
    let (mut number, mut rows, mut text) = (0, 0, Vec::new());
    while let Some(block) = blocks.next().await? {
        let Block::Lines { bytes, .. } = block else {
            return Err(Trouble::NeedsPerson(format!("{} has a line that is longer than any row", attempt.rows_at)));
        };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            number += 1;
            let Some(message) = lines.get(&number) else { continue };
            #[derive(serde::Deserialize)]
            struct Key<'a> {
                #[serde(borrow)]
                key: std::borrow::Cow<'a, str>,
            }
            let key: Key<'_> = serde_json::from_slice(line).map_err(|error| {
                Trouble::NeedsPerson(format!("{} line {number} can't be read any more: {error}", attempt.rows_at))
            })?;
            let said = serde_json::json!({"key": key.key, "error": {"code": code, "message": message}});
            text.extend_from_slice(said.to_string().as_bytes());
            text.push(b'\n');
            rows += 1;
        }
    }
    let digest = hex::encode(Sha256::digest(&text));
    let name = format!("answers/{}.refused.{}.jsonl", job.key, digest.get(..12).unwrap_or(&digest));
    if rows > 0 {
        engine.objects.put(&name, text.into()).await?;
    }
    Ok((name, rows))
}
