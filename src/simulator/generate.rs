//! `POST /{v}/models/{model}:generateContent`: a plain call, answered when it is done. The create of a batch has
//! its path here too.

use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::accepted::{Accepted, Work};
use super::answer::Question;
use super::batches;
use super::content::{Shape, Source, response};
use super::faults::{Fault, hash};
use super::interactions::{refused, spoilt};
use super::refusal::{Dialect, Kind, Named, Refusal};
use super::request;
use super::wire::Line;
use super::world::{Called, New, World};
use crate::domain::job::KeyId;

/// The fields of a request. Only these spellings: the simulator doesn't take snake_case here.
const FIELDS: &[&str] = &[
    "cachedContent",
    "contents",
    "generationConfig",
    "labels",
    "model",
    "safetySettings",
    "serviceTier",
    "store",
    "systemInstruction",
    "toolConfig",
    "tools",
];

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new().route("/models/{call}", post(call))
}

async fn call(
    State(world): State<Arc<World>>,
    ConnectInfo(line): ConnectInfo<Line>,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if let Some(model) = call.strip_suffix(":batchGenerateContent") {
        return batches::create(&world, &line, model, &headers, body).await;
    }
    let Some(model) = call.strip_suffix(":generateContent") else {
        world.count("other");
        return Refusal::no_such_path(&call).answer(Dialect::Legacy);
    };
    world.count("generate");
    let (at, mut digest) = (world.now().0, None);
    let outcome = match world.admit(&headers) {
        Ok(key) => generate(&world, &line, model, key, body, &mut digest).await,
        Err(refusal) => Err(refusal),
    };
    let (answer, is_silent) = outcome.unwrap_or_else(|refusal| (refusal.answer(Dialect::Legacy), false));
    let delay = answer.extensions().get::<Named>().map(|named| named.0.clone());
    let status = (!is_silent).then_some(answer.status().as_u16());
    world.note_call(Called { at, input_digest: digest, status, delay });
    answer
}

/// The answer, and whether the connection is closed without it.
async fn generate(
    world: &World,
    line: &Line,
    model: &str,
    key: KeyId,
    body: Result<Bytes, BytesRejection>,
    digest: &mut Option<String>,
) -> Result<(Response, bool), Refusal> {
    let body = request::bytes(body)?;
    let fields = request::object(&body)?;
    check(model, &fields)?;
    let question = Question::of_contents(&Value::Object(fields));
    *digest = Some(question.digest.to_string());
    let fault = world.draw_call(&question);
    let is_silent = matches!(fault, Some(Fault::CreateResetBefore | Fault::CreateDrop));
    match fault {
        Some(Fault::Call503) => return Err(Refusal::unavailable()),
        Some(Fault::Call429) => {
            let among = [Some("7s"), Some("45.25s"), None];
            let place = hash(world.config.seed, "call-429", question.digest.0, &[]) % 3;
            let delay = usize::try_from(place).ok().and_then(|place| among.get(place).copied().flatten());
            return Err(Refusal::rate_limit(delay));
        }
        _ => {}
    }
    if let Some(refused) =
        fault.and_then(|fault| refused(world.config.seed, fault, question.digest.0, line, Dialect::Legacy))
    {
        return Ok((refused, is_silent));
    }
    let work = Work::Call { model: model.to_owned() };
    let new = New { work, body, question: question.clone(), key, create: fault, stored: false };
    let work = world.accept(new)?;
    world.pause(world.config.latency).await;
    if fault == Some(Fault::Call500) {
        return Err(Refusal::new(Kind::Internal, "An internal error has occurred."));
    }
    if let Some(spoilt) = spoilt(world, fault, line, Dialect::Legacy).await {
        return Ok((spoilt, is_silent));
    }
    Ok((Json(answer(world, model, &work, &question)).into_response(), false))
}

fn check(model: &str, fields: &Map<String, Value>) -> Result<(), Refusal> {
    request::check_model(model)?;
    let invalid = |message: String| Err(Refusal::new(Kind::InvalidRequest, message));
    if model.starts_with("deep-research") {
        return invalid(format!("{model} only supports the Interactions API."));
    }
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        return invalid(format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."));
    }
    if fields.get("contents").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        return invalid("* GenerateContentRequest.contents: contents is not specified".to_owned());
    }
    Ok(())
}

fn answer(world: &World, model: &str, work: &Accepted, question: &Question) -> Value {
    let source = Source { model, id: &work.id, at_least: world.config.answer_bytes };
    response(source, question, Shape::of(work.plan.outcome))
}
