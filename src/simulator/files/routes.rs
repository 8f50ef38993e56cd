//! `/{v}/files`: get, list, delete. Uploaded files can't be downloaded, as at Gemini.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::batches;
use super::super::refusal::{Dialect, Kind, Refusal};
use super::super::world::{World, aside};
use super::shelf::{KEPT, Stored, is_id};
use crate::domain::job::KeyId;

/// The longest id of a file (gemini-api, section 4.2). Those of results are longer, so that `files.get` refuses them.
const LONGEST_ID: usize = 40;

pub(in super::super) fn routes() -> Router<Arc<World>> {
    Router::new().route("/files", get(list)).route("/files/{id}", get(look).delete(delete))
}

/// The file resource.
pub(in super::super) fn describe(file: &Stored) -> Value {
    let mut resource = json!({
        "name": format!("files/{}", file.id), "mimeType": file.mime,
        "sizeBytes": file.bytes.unwrap_or(0).to_string(), "createTime": batches::time(file.created),
        "updateTime": batches::time(file.created), "expirationTime": batches::time(file.created.plus(KEPT)),
        "uri": format!("https://generativelanguage.googleapis.com/v1beta/files/{}", file.id),
        "sha256Hash": file.sha256, "state": "ACTIVE", "source": "UPLOADED",
    });
    if let (Some(name), Some(fields)) = (&file.display_name, resource.as_object_mut()) {
        fields.insert("displayName".into(), json!(name));
    }
    resource
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    page_size: Option<usize>,
    page_token: Option<String>,
}

async fn list(State(world): State<Arc<World>>, Query(page): Query<Page>, headers: HeaderMap) -> Response {
    world.count("file-list");
    let listed = match world.admit(&headers) {
        Ok(key) => list_page(&world, &key, page).await,
        Err(refusal) => Err(refusal),
    };
    listed.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

async fn list_page(world: &Arc<World>, key: &KeyId, page: Page) -> Result<Response, Refusal> {
    let (shelf, now) = (world.shelf(), world.now());
    let mut files = aside(move || shelf.list(now)).await?;
    files.retain(|file| file.key == *key);
    let size = page.page_size.filter(|size| *size > 0).unwrap_or(10).min(100);
    // The token is the id of the last file of the page before. Gone by now, it would hide the rest: so is its time.
    let from = page.page_token.filter(|token| !token.is_empty()).map_or(Some(0), |token| {
        let (created, id) = token.split_once('-')?;
        let last = (created.parse::<i64>().ok()?, id);
        Some(files.partition_point(|file| (file.created.0, file.id.as_str()) >= last))
    });
    let Some(from) = from else {
        return Err(Refusal::new(Kind::InvalidRequest, "The page token is not valid."));
    };
    let shown: Vec<&Stored> = files.iter().skip(from).take(size).collect();
    let mut answer = json!({});
    if let Some(answer) = answer.as_object_mut() {
        if !shown.is_empty() {
            answer.insert("files".into(), shown.iter().map(|file| describe(file)).collect());
        }
        if let Some(last) = shown.last().filter(|_| from + shown.len() < files.len()) {
            answer.insert("nextPageToken".into(), json!(format!("{}-{}", last.created.0, last.id)));
        }
    }
    Ok(Json(answer).into_response())
}

async fn look(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(query): Query<batches::Media>,
    headers: HeaderMap,
) -> Response {
    if let Some(id) = id.strip_suffix(":download") {
        return batches::download(&world, id, &query, &headers, batches::Form::Short).await;
    }
    world.count("file-get");
    let found = match world.admit(&headers) {
        Ok(key) => found(&world, &key, &id).await,
        Err(refusal) => Err(refusal),
    };
    found.map_or_else(|refusal| refusal.answer(Dialect::Legacy), |file| Json(describe(&file)).into_response())
}

/// The file of that id, if it is the key's.
async fn found(world: &Arc<World>, key: &KeyId, id: &str) -> Result<Stored, Refusal> {
    if id.len() > LONGEST_ID {
        let message = format!("* GetFileRequest.name: file id must be at most {LONGEST_ID} characters: files/{id}");
        return Err(Refusal::new(Kind::InvalidRequest, message));
    }
    world.file_of(key, id).await
}

async fn delete(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    world.count("file-delete");
    let deleted = async {
        let key = world.admit(&headers)?;
        found(&world, &key, &id).await?;
        let shelf = world.shelf();
        aside(move || shelf.delete(&id)).await
    };
    let deleted = deleted.await;
    deleted.map_or_else(|refusal| refusal.answer(Dialect::Legacy), |()| Json(json!({})).into_response())
}

impl World {
    /// The uploaded file of that id, which another key may not see.
    pub(in super::super) async fn file_of(self: &Arc<Self>, key: &KeyId, id: &str) -> Result<Stored, Refusal> {
        let (shelf, name, now) = (self.shelf(), id.to_owned(), self.now());
        let file = if is_id(id) { aside(move || shelf.get(&name, now)).await? } else { None };
        match file {
            Some(file) if file.key == *key => Ok(file),
            Some(_) => {
                let message = format!("You do not have permission to access the File {id} or it may not exist.");
                Err(Refusal::new(Kind::PermissionDenied, message))
            }
            None => Err(Refusal::new(Kind::NotFound, format!("File '{id}' was not found."))),
        }
    }

    /// Refuses a file that is too large, or beyond what a key may keep.
    pub(in super::super) async fn check_space(self: &Arc<Self>, file: &Stored) -> Result<(), Refusal> {
        let bytes = file.bytes.unwrap_or(0);
        if bytes > self.config.file_bytes {
            let message = format!("The file has {bytes} bytes; at most {} are allowed.", self.config.file_bytes);
            return Err(Refusal::new(Kind::InvalidRequest, message));
        }
        let (shelf, now, key) = (self.shelf(), self.now(), file.key.clone());
        let files = aside(move || shelf.list(now)).await?;
        let kept: u64 = files.iter().filter(|file| file.key == key).filter_map(|file| file.bytes).sum();
        if kept.saturating_add(bytes) > self.config.file_quota {
            let message =
                "You have exceeded the file storage quota of your project. Delete files, or wait for their expiry.";
            return Err(Refusal::new(Kind::RateLimit, message));
        }
        Ok(())
    }
}
