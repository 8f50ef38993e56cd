//! `/simulator/…`: what the simulator itself can be asked and told. Needs no API key.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accepted::{Accepted, Work};
use super::batches::{Job, Row};
use super::faults::Faults;
use super::faults::Stay;
use super::refusal::{Dialect, Kind, Refusal};
use super::request;
use super::world::{Paid, World, aside};

/// Entries of the log in one answer, unless fewer are asked for.
const PAGE: usize = 10_000;

pub(super) fn routes() -> Router<Arc<World>> {
    let faults = get(faults).put(set_faults);
    let told = Router::new().route("/log", get(log)).route("/rows", get(rows)).route("/events", get(events));
    let told = told.route("/calls", get(calls));
    told.route("/stats", get(stats)).route("/faults", faults)
}

#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    after: usize,
    limit: Option<usize>,
}

/// What was accepted, in order: `{"accepted","next","entries"}`. `next` is the `after` of the next page, or null.
async fn log(State(world): State<Arc<World>>, Query(page): Query<Page>) -> Response {
    if let Err(refusal) = world.refresh().await {
        return refusal.answer(Dialect::Words);
    }
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let (accepted, entries) = world.log(page.after, limit);
    let next = page.after + entries.len();
    let entries: Vec<Value> = entries.iter().zip(page.after..).map(|(work, seq)| entry(seq, work)).collect();
    Json(json!({"accepted": accepted, "next": (next < accepted).then_some(next), "entries": entries})).into_response()
}

fn entry(seq: usize, paid: &Paid) -> Value {
    match paid {
        Paid::Work(work) => work_entry(seq, work),
        Paid::Batch(job) => batch_entry(seq, job),
    }
}

fn batch_entry(seq: usize, job: &Job) -> Value {
    let batch = &job.record;
    let webhook = batch.webhook_config.as_ref();
    let metadata = webhook.and_then(|config| config.get("userMetadata").or_else(|| config.get("user_metadata")));
    json!({
        "seq": seq, "id": batch.id, "kind": "batch", "display_name": batch.display_name, "nth": batch.nth,
        "model": batch.model, "file": batch.file, "rows": batch.rows, "row_faults": batch.row_faults,
        "user_metadata": metadata, "at": batch.at.0, "key": batch.key, "faults": batch.faults().collect::<Vec<_>>(),
    })
}

fn work_entry(seq: usize, work: &Accepted) -> Value {
    let request = request::object(&work.body).unwrap_or_default();
    let (kind, model) = match &work.work {
        Work::Call { model } => ("call", Some(json!(model))),
        Work::Interaction { .. } => ("interaction", request.get("model").or_else(|| request.get("agent")).cloned()),
    };
    // The webhook's user metadata carries a client's own key and nonce.
    let metadata = request.get("webhook_config").and_then(|config| config.get("user_metadata"));
    json!({
        "seq": seq, "id": &*work.id, "kind": kind, "input_digest": work.digest.to_string(), "nth": work.nth,
        "labels": request.get("labels"), "user_metadata": metadata, "model": model, "at": work.at.0, "key": work.key,
        "outcome": work.plan.outcome.map_or("success", |fault| fault.name()),
        "faults": work.plan.faults().collect::<Vec<_>>(),
    })
}

/// What is known of the rows of one key and one digest.
#[derive(Debug, Default)]
struct Same {
    accepted: u64,
    /// What became of each, by name; null for a good answer.
    faults: Vec<Value>,
    lasting: Option<&'static str>,
}

/// The accepted rows of all batches, by key and digest: `{"rows","next","entries"}`, where `rows` is how many entries
/// there are. An entry is `{"key","input_digest","accepted","faults","lasting"}`: how often it was accepted, the fault
/// that each of these met, or null, and the lasting one, or null.
async fn rows(State(world): State<Arc<World>>, Query(page): Query<Page>) -> Response {
    if let Err(refusal) = world.refresh().await {
        return refusal.answer(Dialect::Words);
    }
    let known = aside(move || known_rows(&world)).await;
    let known = match known {
        Ok(known) => known,
        Err(refusal) => return refusal.answer(Dialect::Words),
    };
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let shown = known.iter().skip(page.after).take(limit);
    let entries: Vec<Value> = shown
        .map(|((key, digest), same)| {
            json!({
                "key": key, "input_digest": format!("{digest:016x}"), "accepted": same.accepted,
                "faults": same.faults, "lasting": same.lasting,
            })
        })
        .collect();
    let next = page.after + entries.len();
    let next = (next < known.len()).then_some(next);
    Json(json!({"rows": known.len(), "next": next, "entries": entries})).into_response()
}

fn known_rows(world: &World) -> io::Result<BTreeMap<(Option<String>, u64), Same>> {
    let (shelf, mut known) = (world.shelf(), BTreeMap::<_, Same>::new());
    for job in world.all_batches() {
        for row in Row::all(&shelf.path(&job.record.id, "rows"))? {
            let row = row?;
            let same = known.entry((row.key, row.digest)).or_default();
            same.accepted += 1;
            same.faults.push(json!(row.fault));
            let lasting = row.fault.filter(|fault| fault.stay() == Stay::Lasting);
            same.lasting = lasting.map(|fault| fault.name()).or(same.lasting);
        }
    }
    Ok(known)
}

/// The events for each address, in the order in which their work ended: `{"events","next","entries"}`. An entry is
/// `{"seq","id","type","about","gets","uri","webhook","form","fault","at","outcome","tries":[{"at","status","error"}]}`:
/// `about` is an interaction's id or `batches/…`, `gets` how often that was asked for (null for a ping), `webhook`
/// the registered one's id or null, `form` is `v1`, `v1a` or `jwt`, and `outcome` null while it is under way, else `accepted`, `undeliverable`, `lost`, `given_up` or `dropped`.
async fn events(State(world): State<Arc<World>>, Query(page): Query<Page>) -> Response {
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let (made, mut entries) = world.hub().shown(page.after, limit);
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        let gets = entry.get("about").and_then(Value::as_str).and_then(|about| world.gets(about));
        entry.insert("gets".into(), json!(gets));
    }
    let next = page.after + entries.len();
    Json(json!({"events": made, "next": (next < made).then_some(next), "entries": entries})).into_response()
}

/// The `generateContent` calls that this process answered, in order: `{"calls","next","entries"}`. An entry is
/// `{"at","input_digest","status","delay"}`: when it came, and what it was answered with; no status when the connection was
/// closed without an answer, and no digest when it was refused unread.
async fn calls(State(world): State<Arc<World>>, Query(page): Query<Page>) -> Response {
    let limit = page.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let (made, entries) = world.calls(page.after, limit);
    let next = page.after + entries.len();
    Json(json!({"calls": made, "next": (next < made).then_some(next), "entries": entries})).into_response()
}

/// `{"accepted","batches":{display name: n},"rows","requests":{kind: n},"faults":{name: n},"events":{what: n}}`: how
/// often a batch of each display name was accepted, and how many rows in all. Of events, for each address: `made`, and
/// of these `undeliverable`, `lost`, `given_up`, `dropped` and `waiting`; of the requests with them: `sent`, and of these
/// `accepted` and `refused`. A fault of a course, an outcome, an output or a row counts
/// when its work is accepted, any other at each request that meets it.
async fn stats(State(world): State<Arc<World>>) -> Response {
    if let Err(refusal) = world.refresh().await {
        return refusal.answer(Dialect::Words);
    }
    let (accepted, _) = world.log(0, 0);
    let mut stats = json!(world.counts());
    if let Some(stats) = stats.as_object_mut() {
        stats.insert("accepted".into(), json!(accepted));
        let (mut batches, mut rows) = (BTreeMap::<String, u64>::new(), 0);
        for job in world.all_batches() {
            *batches.entry(job.record.display_name.clone()).or_default() += 1;
            rows += job.record.rows;
        }
        stats.insert("batches".into(), json!(batches));
        stats.insert("rows".into(), json!(rows));
        stats.insert("events".into(), json!(world.hub().counts()));
    }
    Json(stats).into_response()
}

async fn faults(State(world): State<Arc<World>>) -> Response {
    Json(&*world.faults()).into_response()
}

/// Puts a whole new set in place: `{"create-drop": 0.2, …}`. Work that was accepted keeps its plan.
async fn set_faults(State(world): State<Arc<World>>, body: Result<Bytes, BytesRejection>) -> Response {
    let read = || {
        let rates: BTreeMap<String, f64> = serde_json::from_slice(&request::bytes(body)?)
            .map_err(|error| Refusal::new(Kind::InvalidRequest, format!("An object of rates is expected: {error}")))?;
        Faults::from_rates(rates.iter().map(|(name, rate)| (name.as_str(), *rate)))
            .map_err(|error| Refusal::new(Kind::InvalidRequest, error.to_string()))
    };
    match read() {
        Ok(faults) => {
            world.set_faults(faults.clone());
            Json(faults).into_response()
        }
        Err(refusal) => refusal.answer(Dialect::Words),
    }
}
