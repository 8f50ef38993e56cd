//! `/{v}/batches` and `:batchGenerateContent`: create, get, list, cancel, delete.

use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::faults::{Fault, Phase, hash};
use super::super::interactions::{get_fault, refused, spoilt};
use super::super::refusal::{Dialect, Kind, Refusal};
use super::super::request;
use super::super::webhooks::{self, WebhookConfig};
use super::super::wire::{Line, cut_off};
use super::super::world::{World, aside};
use super::accept::{New, Source};
use super::job::{Job, Standing};
use super::operation::{Sight, State as Words, operation};
use super::output;
use crate::domain::job::KeyId;

pub(in super::super) fn routes() -> Router<Arc<World>> {
    Router::new().route("/batches", get(list)).route("/batches/{id}", get(look).delete(delete).post(cancel))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Kind::InvalidRequest, message)
}

fn unknown_name(name: &str, place: &str) -> Refusal {
    invalid(format!("Invalid JSON payload received. Unknown name \"{name}\" at '{place}': Cannot find field."))
}

/// What a create asks for.
#[derive(Debug)]
struct Asked {
    display_name: String,
    source: Source,
    webhook_config: Option<Value>,
}

impl Asked {
    fn read(fields: &Map<String, Value>) -> Result<Self, Refusal> {
        if let Some(name) = fields.keys().find(|name| name.as_str() != "batch") {
            return Err(unknown_name(name, ""));
        }
        let batch = fields.get("batch").and_then(Value::as_object).ok_or_else(|| invalid("'batch' is missing."))?;
        let (mut display_name, mut source, mut webhook_config) = (String::new(), None, None);
        for (name, value) in batch.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "displayName" | "display_name" => value.as_str().unwrap_or_default().clone_into(&mut display_name),
                "inputConfig" | "input_config" => source = Some(source_of(value)?),
                "webhookConfig" | "webhook_config" => {
                    WebhookConfig::read(value)?;
                    webhook_config = Some(value.clone());
                }
                "priority" | "model" | "name" => {}
                other => return Err(unknown_name(other, "batch")),
            }
        }
        let source = source.ok_or_else(|| invalid("* BatchGenerateContentRequest.batch.input_config: is missing"))?;
        Ok(Self { display_name, source, webhook_config })
    }
}

fn source_of(config: &Value) -> Result<Source, Refusal> {
    let field = |camel, snake| config.get(camel).or_else(|| config.get(snake));
    if let Some(file) = field("fileName", "file_name").and_then(Value::as_str) {
        let id =
            file.strip_prefix("files/").ok_or_else(|| invalid(format!("'{file}' is not of the form files/ID.")))?;
        return Ok(Source::File(id.to_owned()));
    }
    let requests = config.pointer("/requests/requests").and_then(Value::as_array);
    let requests = requests.ok_or_else(|| invalid("One of 'file_name' and 'requests' is expected in input_config."))?;
    let lines = requests.iter().flat_map(|request| [request.to_string(), "\n".to_owned()]);
    Ok(Source::Inline(lines.collect::<String>().into_bytes()))
}

/// `POST /{v}/models/{model}:batchGenerateContent`.
pub(in super::super) async fn create(
    world: &Arc<World>,
    line: &Line,
    model: &str,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    world.count("batch-create");
    let outcome = match world.admit(headers) {
        Ok(key) => create_as(world, line, model, key, body).await,
        Err(refusal) => Err(refusal),
    };
    outcome.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

async fn create_as(
    world: &Arc<World>,
    line: &Line,
    model: &str,
    key: KeyId,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let body = request::bytes(body)?;
    let Asked { display_name, source, webhook_config } = Asked::read(&request::object(&body)?)?;
    request::check_model(model)?;
    // The display name is what a client knows a create by. Without one the whole request is.
    let named =
        if display_name.is_empty() { String::from_utf8_lossy(&body).into_owned() } else { display_name.clone() };
    let subject = hash(world.config.seed, &format!("batch/{named}"), 0, &[]);
    let fault = world.draw(Phase::Create, subject, &[world.sent(subject)]);
    if let Some(refused) = fault.and_then(|fault| refused(world.config.seed, fault, subject, line, Dialect::Legacy)) {
        return Ok(refused);
    }
    if let Source::File(id) = &source {
        world.file_of(&key, id).await?;
    }
    world.refresh().await?;
    let new = New { display_name, model: model.to_owned(), key, subject, source, webhook_config, create: fault };
    let taker = Arc::clone(world);
    let job = aside(move || taker.accept_batch(new)).await??;
    webhooks::watch(world, webhooks::Work::Batch(Arc::clone(&job)), job.record.webhook_config.as_ref());
    if let Some(spoilt) = spoilt(world, fault, line, Dialect::Legacy).await {
        return Ok(spoilt);
    }
    let sight = Sight { standing: Standing::Pending, changed: job.record.at, inline: None, unnamed: 0 };
    Ok(Json(operation(&job.record, sight)).into_response())
}

/// What a GET or a list shows of a batch that stands so.
async fn shown(world: &Arc<World>, job: &Arc<Job>, standing: Standing, inline: bool) -> Result<Value, Refusal> {
    let record = &job.record;
    let changed = match standing {
        Standing::Pending => record.at,
        Standing::Cancelled(at) => at,
        Standing::Expired => record.at.plus(world.config.batch_expiry.unwrap_or_default()),
        Standing::Running | Standing::Ended(_) => record.at.plus(world.config.latency),
    };
    let inline = if inline && record.file.is_none() && Words::of(record, standing).yields() {
        let (shelf, job) = (world.shelf(), Arc::clone(job));
        Some(aside(move || output::inline(&shelf, &job.record)).await?)
    } else {
        None
    };
    Ok(operation(record, Sight { standing, changed, inline, unnamed: world.config.unnamed_polls }))
}

async fn look(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    world.count("batch-get");
    let looked = match world.admit(&headers) {
        Ok(key) => look_at(&world, &key, &id).await,
        Err(refusal) => Err(refusal),
    };
    looked.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

async fn look_at(world: &Arc<World>, key: &KeyId, id: &str) -> Result<Response, Refusal> {
    let job = world.batch_of(key, id).await?;
    hiding(world, &job)?;
    let fault = world.draw(Phase::Get, job.record.subject, &[job.record.nth, job.ask()]);
    if let Some(spoilt) = fault.and_then(|fault| get_fault(fault, Dialect::Legacy)) {
        return Ok(spoilt);
    }
    let standing = job.poll(&world.shelf(), world.course()).map_err(|error| Refusal::disk(&error))?;
    webhooks::look(world, id);
    let body = Bytes::from(shown(world, &job, standing, true).await?.to_string());
    if fault == Some(Fault::GetCut) {
        return Ok(cut_off(&body));
    }
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// The refusal that a request meets while a batch is hidden.
fn hiding(world: &World, job: &Job) -> Result<(), Refusal> {
    let at_first = world.now().since(job.record.at) < world.config.hidden;
    let refusal = match job.record.plan.hidden {
        Some(Fault::Get404Forever) => not_found(&job.record.id),
        Some(Fault::Get404) if at_first => not_found(&job.record.id),
        Some(Fault::Get403) if at_first => {
            Refusal::new(Kind::PermissionDenied, "You do not have permission to access the batch.")
        }
        _ => return Ok(()),
    };
    world.count_faults(job.record.plan.hidden);
    Err(refusal)
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(Kind::NotFound, format!("Batch 'batches/{id}' was not found."))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    page_size: Option<usize>,
    page_token: Option<String>,
}

/// Batches in one answer: unless fewer are asked for, and at most. Neither is documented.
const PAGE: (usize, usize) = (50, 100);

async fn list(State(world): State<Arc<World>>, Query(page): Query<Page>, headers: HeaderMap) -> Response {
    world.count("batch-list");
    let listed = match world.admit(&headers) {
        Ok(key) => list_page(&world, &key, page).await,
        Err(refusal) => Err(refusal),
    };
    listed.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

/// Newest first. The token is how many batches are older than the page before, so new ones move no page.
async fn list_page(world: &Arc<World>, key: &KeyId, page: Page) -> Result<Response, Refusal> {
    world.refresh().await?;
    let subject = hash(world.config.seed, "list", 0, &[]);
    if world.draw(Phase::List, subject, &[world.sent(subject)]).is_some() {
        return Err(Refusal::unavailable());
    }
    let all = world.all_batches();
    let end = match page.page_token.filter(|token| !token.is_empty()) {
        None => all.len(),
        Some(token) => token.parse().map_err(|_| invalid("The page token is not valid."))?,
    };
    let size = page.page_size.filter(|size| *size > 0).unwrap_or(PAGE.0).min(PAGE.1);
    let (shelf, now) = (world.shelf(), world.now());
    let lag = |job: &Job| job.record.plan.unlisted.is_some() && now.since(job.record.at) < world.config.list_lag;
    let (mut operations, mut next) = (Vec::new(), None);
    for (place, job) in all.iter().enumerate().take(end).rev() {
        if job.record.key != *key || job.gone(&shelf) {
            continue;
        }
        if lag(job) {
            world.count_faults(job.record.plan.unlisted);
            continue;
        }
        if operations.len() == size {
            next = Some(place + 1);
            break;
        }
        let standing = job.standing(&shelf, world.course()).map_err(|error| Refusal::disk(&error))?;
        operations.push(shown(world, job, standing, false).await?);
    }
    let mut answer = json!({});
    if let Some(answer) = answer.as_object_mut() {
        if !operations.is_empty() {
            answer.insert("operations".into(), operations.into());
        }
        answer.extend(next.map(|next| ("nextPageToken".into(), json!(next.to_string()))));
    }
    Ok(Json(answer).into_response())
}

async fn cancel(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let Some(id) = id.strip_suffix(":cancel") else {
        world.count("other");
        return Refusal::no_such_path(&id).answer(Dialect::Legacy);
    };
    world.count("batch-cancel");
    let cancelled = async {
        let key = world.admit(&headers)?;
        let job = world.batch_of(&key, id).await?;
        hiding(&world, &job)?;
        let failed = |error: std::io::Error| Refusal::disk(&error);
        let standing = job.standing(&world.shelf(), world.course()).map_err(failed)?;
        match standing {
            Standing::Pending | Standing::Running => {
                world.count_faults(job.record.plan.cancel);
                job.cancel(&world.shelf(), world.now()).map_err(failed)?;
                webhooks::look(&world, id);
                Ok(())
            }
            _ if world.config.cancel_ended => Ok(()),
            _ => Err(Refusal::new(Kind::FailedPrecondition, "The batch has ended and can't be cancelled.")),
        }
    };
    empty(cancelled.await)
}

async fn delete(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    world.count("batch-delete");
    let deleted = async {
        let key = world.admit(&headers)?;
        let job = world.batch_of(&key, &id).await?;
        hiding(&world, &job)?;
        job.delete(&world.shelf()).map_err(|error| Refusal::disk(&error))
    };
    empty(deleted.await)
}

fn empty(done: Result<(), Refusal>) -> Response {
    done.map_or_else(|refusal| refusal.answer(Dialect::Legacy), |()| Json(json!({})).into_response())
}

impl World {
    /// The batch of that id, which another key may not see. Another process may have accepted it.
    pub(super) async fn batch_of(self: &Arc<Self>, key: &KeyId, id: &str) -> Result<Arc<Job>, Refusal> {
        let mut found = self.batch(id);
        if found.is_none() {
            self.refresh().await?;
            found = self.batch(id);
        }
        let shelf = self.shelf();
        found.filter(|job| job.record.key == *key && !job.gone(&shelf)).ok_or_else(|| not_found(id))
    }
}
