//! What takes the place of a line's own model and request fields: checked before anything is written, and kept as an object
//! that the job names.

use bytes::Bytes;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::app::engine::{Engine, Trouble};
use crate::domain::changes::Changes;
use crate::domain::job::Job;
use crate::domain::json::quoted;
use crate::domain::line::{Header, JobLine, LineError, parse_line};

/// The object that holds changes, by their bytes.
fn object(bytes: &[u8]) -> String {
    format!("replays/{}.json", hex::encode(Sha256::digest(bytes)))
}

/// What a job's line would be changed by: what is asked for now, and for what is not, what an earlier replay changed.
async fn together(engine: &Engine, job: &Job, asked: &Changes) -> Result<Changes, Trouble> {
    let Some(earlier) = &job.changes else { return Ok(asked.clone()) };
    let bytes = engine.objects.get(earlier).await?;
    let earlier: Changes = serde_json::from_slice(&bytes)
        .map_err(|error| Trouble::NeedsPerson(format!("{earlier} can't be read: {error}")))?;
    Ok(Changes { model: asked.model.clone().or(earlier.model), request: asked.request.clone().or(earlier.request) })
}

/// Whether a job's line is still one with these changes; what is wrong with it, in words.
///
/// # Errors
/// Trouble with the objects.
pub(super) async fn check(engine: &Engine, job: &Job, asked: &Changes) -> Result<Result<(), String>, Trouble> {
    if asked.is_none() {
        return Ok(Ok(()));
    }
    let changes = together(engine, job, asked).await?;
    let (line, _) = engine.line_of(&Job { changes: None, ..job.clone() }).await?;
    Ok(changed(&line, &changes).map(drop).map_err(|error| format!("with these changes its line is bad: {error}")))
}

/// The line with the changes merged into its request.
fn changed(line: &JobLine, changes: &Changes) -> Result<JobLine, LineError> {
    let own =
        line.request.iter().filter(|(name, _)| changes.model.is_none() || !matches!(name.as_str(), "model" | "agent"));
    let own: Vec<String> = own.map(|(name, value)| format!("{}:{}", quoted(name), value.get())).collect();
    let mut text = changes.apply(&format!("{{{}}}", own.join(",")))?;
    if let Some(model) = &changes.model {
        let model =
            Changes { model: None, request: RawValue::from_string(format!("{{\"model\":{}}}", quoted(model))).ok() };
        text = model.apply(&text)?;
    }
    let bad = |message: String| LineError { class: "bad_line:field", message };
    let parsed =
        parse_line(text.as_bytes(), &Header::default())?.ok_or_else(|| bad("nothing is left of it".to_owned()))?;
    match parsed.unsent.first() {
        Some(unsent) => Err(bad(format!("{unsent}: Gemini's create call has no such field"))),
        None => Ok(parsed),
    }
}

/// Keeps the changes as an object, whose name the job is to have. None: nothing changes.
///
/// # Errors
/// Trouble with the objects.
pub(super) async fn keep(engine: &Engine, job: &Job, asked: &Changes) -> Result<Option<String>, Trouble> {
    if asked.is_none() {
        return Ok(None);
    }
    let changes = together(engine, job, asked).await?;
    let bytes = serde_json::to_vec(&changes)
        .map_err(|error| Trouble::NeedsPerson(format!("the changes can't be written as JSON: {error}")))?;
    let name = object(&bytes);
    engine.objects.put(&name, Bytes::from(bytes)).await?;
    Ok(Some(name))
}
