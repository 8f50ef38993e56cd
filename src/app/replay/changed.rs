//! Request fields that take the place of a line's own: checked before anything is written, and kept as an object that the job
//! names.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::app::engine::{Engine, Trouble};
use crate::app::lines::usable;
use crate::domain::changes::Changes;
use crate::domain::job::Job;

/// The object that holds changes, by their bytes.
fn object(bytes: &[u8]) -> String {
    format!("replays/{}.json", hex::encode(Sha256::digest(bytes)))
}

/// Whether a job's line is still one with these changes; what is wrong with it, in words.
///
/// # Errors
/// Trouble with the objects.
pub(super) async fn check(engine: &Engine, job: &Job, asked: &Changes) -> Result<Result<(), String>, Trouble> {
    if asked.request.is_none() {
        return Ok(Ok(()));
    }
    // They take the place of what an earlier replay changed.
    let (line, _) = engine.line_of(&Job { changes: None, ..job.clone() }).await?;
    let changed = line.changed(asked).and_then(|line| usable(&line).map(drop));
    Ok(changed.map_err(|error| format!("its line would be bad: {}", error.message)))
}

/// Keeps the changes as an object, whose name the job is to have. None: nothing of the request changes, and what an earlier
/// replay changed of it stays. Another model stands on the job itself.
///
/// # Errors
/// Trouble with the objects.
pub(super) async fn keep(engine: &Engine, asked: &Changes) -> Result<Option<String>, Trouble> {
    if asked.request.is_none() {
        return Ok(None);
    }
    let changes = Changes { model: None, request: asked.request.clone() };
    let bytes = serde_json::to_vec(&changes)
        .map_err(|error| Trouble::NeedsPerson(format!("the changes can't be written as JSON: {error}")))?;
    let name = object(&bytes);
    engine.objects.put(&name, Bytes::from(bytes)).await?;
    Ok(Some(name))
}
