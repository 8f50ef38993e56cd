//! `/upload/{v}/files`: the resumable upload (gemini-api, section 4.1), streamed to disk.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;

use super::super::faults::{Fault, Phase, hash};
use super::super::refusal::{Dialect, Kind, Refusal};
use super::super::request;
use super::super::wire::Line;
use super::super::world::{World, aside};
use super::describe;
use super::shelf::{Stored, is_id};
use crate::domain::job::KeyId;

/// The paths below `/upload/{version}`.
pub(in super::super) fn routes(version: &'static str) -> Router<Arc<World>> {
    let upload = move |world, line, session, headers, body| upload(version, world, line, session, headers, body);
    Router::new().route("/files", post(upload))
}

#[derive(Debug, Deserialize)]
struct Session {
    upload_id: Option<String>,
}

async fn upload(
    version: &str,
    State(world): State<Arc<World>>,
    ConnectInfo(line): ConnectInfo<Line>,
    Query(session): Query<Session>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let outcome = match session.upload_id {
        Some(id) => {
            world.count("upload");
            go_on(&world, &line, &id, &headers, body).await
        }
        None => {
            world.count("upload-start");
            match world.admit(&headers) {
                Ok(key) => start(&world, key, version, &headers, body).await,
                Err(refusal) => Err(refusal),
            }
        }
    };
    outcome.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Kind::InvalidRequest, message)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn number(headers: &HeaderMap, name: &str) -> Result<Option<u64>, Refusal> {
    let read = |text: &str| text.trim().parse().map_err(|_| invalid(format!("{name} must be a number, not '{text}'.")));
    text(headers, name).map(read).transpose()
}

/// A description of a file is small.
const LONGEST_START: usize = 1 << 16;

async fn start(
    world: &Arc<World>,
    key: KeyId,
    version: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if text(headers, "x-goog-upload-protocol") != Some("resumable") {
        return Err(invalid("The simulator takes only uploads with 'X-Goog-Upload-Protocol: resumable'."));
    }
    if text(headers, "x-goog-upload-command") != Some("start") {
        return Err(invalid("'X-Goog-Upload-Command: start' is expected where there is no upload_id."));
    }
    let body = axum::body::to_bytes(body, LONGEST_START).await.map_err(|error| invalid(format!("Body: {error}")))?;
    let fields = if body.trim_ascii().is_empty() { Map::new() } else { request::object(&body)? };
    let file = described(&fields, key, world, headers)?;
    world.check_space(&file).await?;
    let shelf = world.shelf();
    let begun = tokio::task::spawn_blocking(move || shelf.begin(file)).await.map_err(io::Error::other).flatten();
    let file = match begun {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Refusal::new(Kind::AlreadyExists, "A file of that name exists already."));
        }
        begun => begun.map_err(|error| Refusal::disk(&error))?,
    };
    let host = text(headers, "host").unwrap_or("127.0.0.1");
    let url = format!("http://{host}/upload/{version}/files?upload_id={}&upload_protocol=resumable", file.id);
    let head = [("x-goog-upload-url", url.as_str()), ("x-goog-upload-status", "active")];
    Ok((head, "").into_response())
}

/// The file that the start of an upload announces.
fn described(fields: &Map<String, Value>, key: KeyId, world: &World, headers: &HeaderMap) -> Result<Stored, Refusal> {
    let none = Map::new();
    let file = fields.get("file").and_then(Value::as_object).unwrap_or(&none);
    let field = |camel, snake| file.get(camel).or_else(|| file.get(snake)).and_then(Value::as_str);
    let display_name = field("displayName", "display_name").map(str::to_owned);
    if display_name.as_ref().is_some_and(|name| name.chars().count() > 512) {
        return Err(invalid("* CreateFileRequest.file.display_name: at most 512 characters."));
    }
    let id = field("name", "name").map_or("", |name| name.strip_prefix("files/").unwrap_or(name));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.len() > 40 || !id.chars().all(plain) || id.starts_with('-') || id.ends_with('-') {
        return Err(invalid(format!("* CreateFileRequest.file.name: '{id}' is no file id.")));
    }
    let mime = text(headers, "x-goog-upload-header-content-type").or_else(|| field("mimeType", "mime_type"));
    let mime = mime.unwrap_or("application/octet-stream").to_owned();
    let taken = ["application/jsonl", "jsonl", "application/json", "application/x-jsonlines", "application/pdf"];
    let families = ["text/", "image/", "audio/", "video/"];
    if !taken.contains(&mime.as_str()) && !families.iter().any(|family| mime.starts_with(family)) {
        return Err(invalid(format!("Unsupported MIME type: {mime}")));
    }
    Ok(Stored {
        id: id.to_owned(),
        display_name,
        mime,
        bytes: number(headers, "x-goog-upload-header-content-length")?,
        created: world.now(),
        key,
        sha256: None,
    })
}

/// Where an upload stands, and what of it is here.
fn progress(status: &'static str, arrived: u64) -> [(&'static str, String); 2] {
    [("x-goog-upload-status", status.to_owned()), ("x-goog-upload-size-received", arrived.to_string())]
}

async fn go_on(
    world: &Arc<World>,
    line: &Line,
    id: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if !is_id(id) {
        return Err(invalid("There is no upload_id of that form."));
    }
    let lock = world.lock_of(id);
    // One request at a time: the next one must see all bytes of a broken one.
    let _alone = lock.lock().await;
    let command = text(headers, "x-goog-upload-command").unwrap_or_default();
    let commands: Vec<&str> = command.split(',').map(str::trim).collect();
    let (shelf, name) = (world.shelf(), id.to_owned());
    let found = aside(move || {
        let under_way = shelf.under_way(&name)?;
        let file = shelf.read::<Stored>(&name, "file.json")?;
        Ok((under_way, file))
    });
    let (file, arrived) = match found.await? {
        (Some(under_way), _) => under_way,
        // Finished: the answer of the last command may have been lost.
        (None, Some(file)) if commands == ["query"] => {
            return Ok((progress("final", file.bytes.unwrap_or(0)), file_answer(&file)).into_response());
        }
        (None, _) => return Err(Refusal::new(Kind::NotFound, "There is no such upload.")),
    };
    if commands == ["query"] {
        return Ok((progress("active", arrived), "").into_response());
    }
    if !matches!(commands.as_slice(), ["upload"] | ["upload", "finalize"] | ["finalize"]) {
        return Err(invalid(format!("X-Goog-Upload-Command '{command}' is none of upload, finalize and query.")));
    }
    let fault = world.draw_upload(&file, arrived, commands.contains(&"finalize"));
    if fault == Some(Fault::Upload503) {
        return Err(Refusal::unavailable());
    }
    let mut arrived = arrived;
    if commands.contains(&"upload") {
        let offset = number(headers, "x-goog-upload-offset")?;
        if offset != Some(arrived) {
            let message = format!("X-Goog-Upload-Offset must be {arrived}, the size received.");
            return Ok((progress("active", arrived), invalid(message).answer(Dialect::Legacy)).into_response());
        }
        let Some(received) = receive(world, &file, arrived, body, fault == Some(Fault::UploadDrop)).await? else {
            return Ok(line.hang_up());
        };
        arrived = received;
    }
    if !commands.contains(&"finalize") {
        return Ok((progress("active", arrived), "").into_response());
    }
    finalize(world, file, arrived, fault).await
}

/// Writes a chunk behind what is there, and says how much is there now. None when the fault `upload-drop` was met.
async fn receive(
    world: &World,
    file: &Stored,
    mut arrived: u64,
    body: Body,
    drop: bool,
) -> Result<Option<u64>, Refusal> {
    let limit = file.bytes.unwrap_or(u64::MAX).min(world.config.file_bytes);
    let failed = |error: io::Error| Refusal::disk(&error);
    let part = world.shelf().path(&file.id, "part");
    let mut part = OpenOptions::new().append(true).open(part).await.map_err(failed)?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| invalid(format!("The chunk broke off: {error}")))?;
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if arrived.saturating_add(length) > limit {
            return Err(invalid(format!(
                "The upload holds more than the {limit} bytes that are announced or allowed."
            )));
        }
        part.write_all(&piece).await.map_err(failed)?;
        arrived += length;
        if drop {
            part.flush().await.map_err(failed)?;
            return Ok(None);
        }
    }
    part.flush().await.map_err(failed)?;
    Ok(Some(arrived))
}

async fn finalize(world: &Arc<World>, file: Stored, arrived: u64, fault: Option<Fault>) -> Result<Response, Refusal> {
    if let Some(announced) = file.bytes.filter(|announced| *announced != arrived) {
        let message = format!("{announced} bytes were announced, and {arrived} arrived.");
        return Ok((progress("active", arrived), invalid(message).answer(Dialect::Legacy)).into_response());
    }
    if fault == Some(Fault::UploadMime) {
        let message = format!("Unsupported MIME type: {}", file.mime);
        let error = json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}});
        let shelf = world.shelf();
        aside(move || shelf.give_up(&file.id)).await?;
        return Ok((progress("final", arrived), axum::Json(error)).into_response());
    }
    let shelf = world.shelf();
    let file = aside(move || shelf.finish(file, arrived)).await?;
    world.forget_lock(&file.id);
    if fault == Some(Fault::UploadNoFile) {
        return Ok((progress("final", arrived), axum::Json(json!({}))).into_response());
    }
    Ok((progress("final", arrived), file_answer(&file)).into_response())
}

fn file_answer(file: &Stored) -> Response {
    let body = json!({"file": describe(file)});
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

impl World {
    /// The fault that a request of an upload meets: drawn anew for each upload and each chunk's try.
    fn draw_upload(&self, file: &Stored, arrived: u64, last: bool) -> Option<Fault> {
        let name = file.display_name.as_deref().unwrap_or_default();
        let subject = hash(self.config.seed, name, arrived, &[]);
        let tries = self.sent(subject);
        let fault = self.faults().draw(self.config.seed, Phase::Upload, subject, &[tries])?;
        let can_be = match fault {
            Fault::UploadMime => last && file.mime.ends_with("jsonl"),
            Fault::UploadNoFile => last,
            _ => true,
        };
        if !can_be {
            return None;
        }
        self.count_faults([fault]);
        Some(fault)
    }
}
