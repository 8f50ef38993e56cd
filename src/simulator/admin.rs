//! `/simulator/…`: what the simulator itself can be asked and told. Needs no API key.

use std::collections::BTreeMap;
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
use super::faults::Faults;
use super::refusal::{Dialect, Kind, Refusal};
use super::request;
use super::world::World;

/// Entries of the log in one answer, unless fewer are asked for.
const PAGE: usize = 10_000;

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new().route("/log", get(log)).route("/stats", get(stats)).route("/faults", get(faults).put(set_faults))
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

fn entry(seq: usize, work: &Accepted) -> Value {
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

/// `{"accepted","requests":{kind: n},"faults":{name: n}}`. A fault of a course or an outcome counts when its work is
/// accepted, any other at each request that meets it.
async fn stats(State(world): State<Arc<World>>) -> Response {
    if let Err(refusal) = world.refresh().await {
        return refusal.answer(Dialect::Words);
    }
    let (accepted, _) = world.log(0, 0);
    let mut stats = json!(world.counts());
    if let Some(stats) = stats.as_object_mut() {
        stats.insert("accepted".into(), json!(accepted));
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
