//! `/{v}/interactions`: create, get, cancel, delete. There is no list, as at Gemini.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::accepted::{Accepted, Standing, Work};
use super::answer::Question;
use super::faults::{Fault, Phase};
use super::refusal::{Dialect, Kind, Refusal};
use super::request::{self, Create};
use super::timeline::{Timeline, View};
use super::webhooks::{self, Data, End};
use super::wire::{Line, cut_off};
use super::world::{New, World};
use crate::domain::job::KeyId;

pub(super) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/interactions", post(create))
        .route("/interactions/{id}", get(look).delete(delete))
        .route("/interactions/{id}/cancel", post(cancel))
}

type Body = Result<Bytes, BytesRejection>;

async fn create(
    State(world): State<Arc<World>>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    world.count("create");
    let key = match world.admit(&headers) {
        Ok(key) => key,
        Err(refusal) => return refusal.answer(Dialect::LegacyArray),
    };
    create_as(&world, &line, key, body).await.unwrap_or_else(|refusal| refusal.answer(Dialect::Words))
}

async fn create_as(world: &Arc<World>, line: &Line, key: KeyId, body: Body) -> Result<Response, Refusal> {
    let body = request::bytes(body)?;
    let Create { body: request, background, store, previous } = Create::read(request::object(&body)?)?;
    if let Some(previous) = previous {
        let previous = world.find(&previous).await?;
        if previous.standing(world.pace(), world.now()) != Standing::Ended {
            return Err(Refusal::new(Kind::FailedPrecondition, "The previous interaction is not completed."));
        }
    }
    let question = Question::of_interaction(&request);
    let fault = world.draw_create(&question);
    if let Some(refused) =
        fault.and_then(|fault| refused(world.config.seed, fault, question.digest.0, line, Dialect::Words))
    {
        return Ok(refused);
    }
    let work = Work::Interaction { background };
    let new = New { work, body, question: question.clone(), key, create: fault, stored: store };
    let work = world.accept(new)?;
    if background {
        webhooks::watch(world, webhooks::Work::Interaction(Arc::clone(&work)), request.get("webhook_config"));
    } else {
        world.pause(world.config.latency).await;
    }
    if let Some(spoilt) = spoilt(world, fault, line, Dialect::Words).await {
        return Ok(spoilt);
    }
    // The answer says how it began, however late it comes.
    let standing = if background { Standing::Running(0) } else { Standing::Ended };
    Ok(answer(&timeline(world, &work, &request, question).resource(standing, View::Post)))
}

/// What a create fault answers without accepting anything.
pub(super) fn refused(seed: u64, fault: Fault, subject: u64, line: &Line, dialect: Dialect) -> Option<Response> {
    let refusal = match fault {
        Fault::CreateResetBefore => return Some(line.hang_up()),
        Fault::CreateArray => return Some(Refusal::unavailable().answer(Dialect::LegacyArray)),
        Fault::Create503Refused => Refusal::unavailable(),
        Fault::Create409 => Refusal::new(Kind::Aborted, "The operation was aborted."),
        Fault::Create429 => match super::faults::hash(seed, "429", subject, &[]) % 3 {
            0 => Refusal::rate_limit(Some("1s")),
            1 => Refusal::rate_limit(Some("0.25s")),
            _ => Refusal::rate_limit(None),
        },
        Fault::Create429Long => Refusal::rate_limit(Some("52758s")),
        Fault::Create429Daily => Refusal::daily_quota(),
        _ => return None,
    };
    Some(refusal.answer(dialect))
}

/// What a create fault makes of the answer for accepted work.
pub(super) async fn spoilt(world: &World, fault: Option<Fault>, line: &Line, dialect: Dialect) -> Option<Response> {
    match fault? {
        Fault::CreateDrop => Some(line.hang_up()),
        Fault::Create503 => Some(Refusal::unavailable().answer(dialect)),
        Fault::Create408 => Some(Refusal::new(Kind::TimedOut, "The request timed out.").answer(dialect)),
        Fault::CreateDelay => {
            world.pause(world.config.late).await;
            None
        }
        _ => None,
    }
}

fn timeline<'a>(world: &World, work: &'a Accepted, request: &'a Value, question: Question) -> Timeline<'a> {
    Timeline { work, request, question, seed: world.config.seed, latency: world.config.latency }
}

fn answer(resource: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], resource.to_string()).into_response()
}

/// The whole timeline of an accepted interaction.
fn shown(world: &World, work: &Accepted, standing: Standing) -> Result<Value, Refusal> {
    let request = Value::Object(request::object(&work.body)?);
    let question = Question::of_interaction(&request);
    Ok(timeline(world, work, &request, question).resource(standing, View::Get))
}

/// How an interaction has ended, as an event tells it; None while it runs. Of a deleted one there is nothing to tell.
pub(super) fn end(world: &World, work: &Accepted) -> Option<End> {
    let standing = work.standing(world.pace(), world.now());
    if matches!(standing, Standing::Running(_)) {
        return None;
    }
    let resource = shown(world, work, standing).unwrap_or_default();
    let kind = match resource.get("status").and_then(Value::as_str).filter(|_| !work.gone()) {
        Some("completed") => Some("interaction.completed"),
        Some("failed") => Some("interaction.failed"),
        Some("requires_action") => Some("interaction.requires_action"),
        Some("cancelled") => Some("interaction.cancelled"),
        _ => None,
    };
    let last = resource.pointer("/steps").and_then(Value::as_array).and_then(|steps| steps.last()?.get("error"));
    let error = resource.pointer("/errors/0").or(last).filter(|_| kind == Some("interaction.failed"));
    let part = |name: &str| error.and_then(|error| error.get(name)).cloned();
    let (error_code, error_message) = (part("code"), part("message"));
    Some(End { kind, data: Data { id: work.id.to_string(), output_file_uri: None, error_code, error_message } })
}

#[derive(Debug, Deserialize)]
struct Look {
    #[serde(default)]
    stream: Option<String>,
}

async fn look(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(query): Query<Look>,
    headers: HeaderMap,
) -> Response {
    world.count("get");
    if let Err(refusal) = world.admit(&headers) {
        return refusal.answer(Dialect::LegacyArray);
    }
    let streams = query.stream.as_deref().is_some_and(|stream| stream != "false");
    look_at(&world, &id, streams).await.unwrap_or_else(|refusal| refusal.answer(Dialect::Words))
}

async fn look_at(world: &Arc<World>, id: &str, streams: bool) -> Result<Response, Refusal> {
    if streams {
        return Err(Refusal::new(Kind::Unimplemented, "The simulator does not stream."));
    }
    let work = found(world, id).await?;
    let fault = world.draw(Phase::Get, work.digest.0, &[work.nth, work.ask()]);
    if let Some(spoilt) = fault.and_then(|fault| get_fault(fault, Dialect::Words)) {
        return Ok(spoilt);
    }
    let resource = shown(world, &work, work.poll(world.pace(), world.now()))?;
    webhooks::look(world, id);
    if fault == Some(Fault::GetCut) {
        return Ok(cut_off(&Bytes::from(resource.to_string())));
    }
    Ok(answer(&resource))
}

/// What a GET fault answers in place of the resource.
pub(super) fn get_fault(fault: Fault, dialect: Dialect) -> Option<Response> {
    Some(match fault {
        Fault::Get503 => Refusal::unavailable().answer(dialect),
        Fault::Get429 => Refusal::rate_limit(None).answer(dialect),
        Fault::GetArray => Refusal::unavailable().answer(Dialect::LegacyArray),
        Fault::GetHtml => html(),
        _ => return None,
    })
}

/// The interaction of that id, unless it is hidden.
async fn found(world: &Arc<World>, id: &str) -> Result<Arc<Accepted>, Refusal> {
    let work = world.find(id).await?;
    world.hiding(&work).map_or(Ok(work), Err)
}

/// A gateway's page.
fn html() -> Response {
    let page = "<!DOCTYPE html>\n<html lang=en>\n<title>Error 502 (Server Error)!!1</title>\n\
        <p><b>502.</b> <ins>That’s an error.</ins>\n<p>The server encountered a temporary error.\n</html>\n";
    (StatusCode::BAD_GATEWAY, [(header::CONTENT_TYPE, "text/html; charset=UTF-8")], page).into_response()
}

async fn cancel(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    world.count("cancel");
    if let Err(refusal) = world.admit(&headers) {
        return refusal.answer(Dialect::LegacyArray);
    }
    cancel_it(&world, &id).await.unwrap_or_else(|refusal| refusal.answer(Dialect::Words))
}

async fn cancel_it(world: &Arc<World>, id: &str) -> Result<Response, Refusal> {
    let work = found(world, id).await?;
    let now = world.now();
    if !work.cancel(world.pace(), now) && !world.config.cancel_ended {
        return Err(Refusal::new(Kind::FailedPrecondition, "The interaction has ended and can't be cancelled."));
    }
    webhooks::look(world, id);
    Ok(answer(&shown(world, &work, work.standing(world.pace(), now))?))
}

async fn delete(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    world.count("delete");
    if let Err(refusal) = world.admit(&headers) {
        return refusal.answer(Dialect::LegacyArray);
    }
    match found(&world, &id).await {
        Ok(work) => {
            work.delete();
            answer(&json!({}))
        }
        Err(refusal) => refusal.answer(Dialect::Words),
    }
}
