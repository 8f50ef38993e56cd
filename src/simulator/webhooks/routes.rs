//! `/{v}/webhooks`: create, list, get, update, delete, `:ping`, `:rotateSigningSecret`; and the key set.

use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::refusal::{Dialect, Kind, Refusal};
use super::super::request;
use super::super::world::World;
use super::keys::{self, Rsa};
use super::registered::Draft;
use super::watch::{after_registering, before_registering, ping};
use crate::domain::job::KeyId;

pub(in super::super) fn routes() -> Router<Arc<World>> {
    let one = get(look).patch(change).delete(delete).post(act);
    Router::new().route("/webhooks", get(list).post(create)).route("/webhooks/{id}", one)
}

type Body = Result<Bytes, BytesRejection>;

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Kind::InvalidRequest, message)
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(Kind::NotFound, format!("Webhook '{id}' was not found."))
}

/// Counts a request, lets it in, and answers it.
fn answer(
    world: &Arc<World>,
    kind: &'static str,
    headers: &HeaderMap,
    work: impl FnOnce(KeyId) -> Result<Value, Refusal>,
) -> Response {
    world.count(kind);
    match world.admit(headers) {
        Ok(key) => {
            work(key).map_or_else(|refusal| refusal.answer(Dialect::Words), |answer| Json(answer).into_response())
        }
        Err(refusal) => refusal.answer(Dialect::LegacyArray),
    }
}

/// The fields of a body, of which there may be none.
fn fields(body: Body) -> Result<Map<String, Value>, Refusal> {
    let body = request::bytes(body)?;
    if body.trim_ascii().is_empty() { Ok(Map::new()) } else { request::object(&body) }
}

async fn create(State(world): State<Arc<World>>, headers: HeaderMap, body: Body) -> Response {
    answer(&world, "webhook-create", &headers, |key| {
        let draft = Draft::new(&fields(body)?).map_err(invalid)?;
        before_registering(&world, &key);
        let names = (world.config.seed, world.writer());
        let webhook = world.hub().registered.add(key.clone(), draft, names, world.now());
        after_registering(&world, &key);
        Ok(webhook)
    })
}

#[derive(Debug, Deserialize)]
struct Page {
    page_size: Option<usize>,
    page_token: Option<String>,
}

/// Webhooks in one answer: unless another number is asked for, and at most.
const PAGE: (usize, usize) = (50, 1000);

/// In the order of creation. The token is the number of the next one.
async fn list(State(world): State<Arc<World>>, Query(page): Query<Page>, headers: HeaderMap) -> Response {
    answer(&world, "webhook-list", &headers, |key| {
        let token = page.page_token.filter(|token| !token.is_empty());
        let from = token.map_or(Ok(0), |token| token.parse()).map_err(|_| invalid("The page token is not valid."))?;
        let size = page.page_size.filter(|size| *size > 0).unwrap_or(PAGE.0).min(PAGE.1);
        let (webhooks, next) = world.hub().registered.page(&key, from, size, world.now());
        // Empty fields are left out.
        let mut answer = Map::new();
        if !webhooks.is_empty() {
            answer.insert("webhooks".into(), webhooks.into());
        }
        answer.extend(next.map(|next| ("next_page_token".into(), json!(next.to_string()))));
        Ok(answer.into())
    })
}

async fn look(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    answer(&world, "webhook-get", &headers, |key| {
        world.hub().registered.get(&key, &id, world.now()).ok_or_else(|| not_found(&id))
    })
}

#[derive(Debug, Deserialize)]
struct Mask {
    update_mask: Option<String>,
}

/// Changes the fields that the mask names, or, without one, those of the body.
async fn change(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(mask): Query<Mask>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&world, "webhook-update", &headers, |key| {
        let fields = fields(body)?;
        let mask = mask.update_mask.filter(|mask| !mask.trim().is_empty());
        let named: Vec<String> = match &mask {
            Some(mask) => {
                mask.split(',').map(|name| name.trim().replace("subscribedEvents", "subscribed_events")).collect()
            }
            None => fields.keys().cloned().collect(),
        };
        let changed = world.hub().registered.change(&key, &id, world.now(), |draft| {
            named.iter().try_for_each(|name| draft.set(name, &fields)).map_err(invalid)
        });
        changed.ok_or_else(|| not_found(&id))?
    })
}

async fn delete(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    answer(&world, "webhook-delete", &headers, |key| {
        if world.hub().registered.remove(&key, &id) { Ok(json!({})) } else { Err(not_found(&id)) }
    })
}

async fn act(State(world): State<Arc<World>>, Path(path): Path<String>, headers: HeaderMap, body: Body) -> Response {
    match path.split_once(':') {
        Some((id, "ping")) => answer(&world, "webhook-ping", &headers, |key| {
            let found = world.hub().registered.get(&key, id, world.now());
            found.ok_or_else(|| not_found(id))?;
            ping(&world, id);
            Ok(json!({}))
        }),
        Some((id, "rotateSigningSecret")) => answer(&world, "webhook-rotate", &headers, |key| {
            let at_once = revokes_at_once(&fields(body)?)?;
            let names = (world.config.seed, world.writer());
            let secret = world.hub().registered.rotate(&key, id, names, at_once, world.now());
            secret.map(|secret| json!({"secret": secret})).ok_or_else(|| not_found(id))
        }),
        _ => {
            world.count("other");
            Refusal::no_such_path(&path).answer(Dialect::Legacy)
        }
    }
}

/// What becomes of the secrets before. In capitals too, as in one of the documentation's samples; and what happens when
/// nothing is said is not documented, so that nothing is lost then.
fn revokes_at_once(fields: &Map<String, Value>) -> Result<bool, Refusal> {
    if let Some(name) = fields.keys().find(|name| *name != "revocation_behavior") {
        return Err(Refusal::new(Kind::ParameterUnknown, format!("Unknown parameter: '{name}'.")));
    }
    match fields.get("revocation_behavior").map(|value| value.as_str().unwrap_or_default().to_ascii_lowercase()) {
        None => Ok(false),
        Some(behavior) if behavior == "revoke_previous_secrets_after_h24" => Ok(false),
        Some(behavior) if behavior == "revoke_previous_secrets_immediately" => Ok(true),
        Some(_) => Err(invalid("Invalid value at 'revocation_behavior'.")),
    }
}

/// `GET /.well-known/jwks.json`, which needs no key.
pub(in super::super) async fn jwks(State(world): State<Arc<World>>) -> Response {
    world.count("jwks");
    match Rsa::get().await {
        Ok(rsa) => Json(keys::set(&world.hub().ed25519, rsa)).into_response(),
        Err(error) => Refusal::new(Kind::Internal, error.to_string()).answer(Dialect::Legacy),
    }
}
