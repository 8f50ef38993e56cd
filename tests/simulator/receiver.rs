//! Somebody who is sent events, and who proves them without any code of this crate.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::watch;

use crate::simulated::Sim;

/// How long something may take that happens at once, before a test gives up.
const LONG: Duration = Duration::from_secs(30);

/// One request that came.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub host: String,
    pub id: String,
    pub timestamp: i64,
    pub signature: String,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The type of the event and the id in its data.
    pub fn about(&self) -> (String, String) {
        let event = self.json();
        (event["type"].as_str().unwrap().into(), event["data"]["id"].as_str().unwrap_or_default().into())
    }

    fn signed(&self) -> Vec<u8> {
        [format!("{}.{}.", self.id, self.timestamp).as_bytes(), &self.body].concat()
    }

    /// Which of its signatures a secret proves, in their order.
    pub fn proved_by(&self, secret: &str) -> Vec<bool> {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        assert_eq!(key.len(), 32);
        let proves = |signature: &str| {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            mac.update(&self.signed());
            mac.verify_slice(&STANDARD.decode(signature.strip_prefix("v1,").unwrap()).unwrap()).is_ok()
        };
        self.signature.split(' ').map(proves).collect()
    }

    /// By which of the service's Ed25519 keys each of its signatures is.
    pub fn keys_of(&self, jwks: &Value) -> Vec<Option<usize>> {
        let keys: Vec<Vec<u8>> = (jwks["keys"].as_array().unwrap().iter())
            .filter(|key| key["kty"] == "OKP" && key["crv"] == "Ed25519" && key["kid"].is_null())
            .map(|key| URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(keys.len(), 3);
        let by = |signature: &str| {
            let signature = STANDARD.decode(signature.strip_prefix("v1a,").unwrap()).unwrap();
            keys.iter().position(|key| UnparsedPublicKey::new(&ED25519, key).verify(&self.signed(), &signature).is_ok())
        };
        self.signature.split(' ').map(by).collect()
    }

    /// The claims of its token, which must be good.
    pub fn claims(&self, jwks: &Value, audience: &str) -> Value {
        let head = jsonwebtoken::decode_header(&self.signature).unwrap();
        let named = |key: &&Value| key["kid"].as_str() == head.kid.as_deref();
        let key = jwks["keys"].as_array().unwrap().iter().find(named).unwrap();
        assert_eq!((head.alg, &key["kty"], &key["alg"]), (Algorithm::RS256, &json!("RSA"), &json!("RS256")));
        let part = |name: &str| key[name].as_str().unwrap();
        let key = DecodingKey::from_rsa_components(part("n"), part("e")).unwrap();
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_audience(&[audience]);
        jsonwebtoken::decode::<Value>(&self.signature, &key, &validation).unwrap().claims
    }
}

#[derive(Debug, Clone, Default)]
struct Desk {
    got: Arc<Mutex<Vec<Got>>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    /// How many are being answered now, and at most.
    under_way: Arc<Mutex<(usize, usize)>>,
    count: watch::Sender<usize>,
}

/// A server that takes events.
#[derive(Debug)]
pub struct Receiver {
    pub port: u16,
    desk: Desk,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(desk): State<Desk>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    {
        let mut under_way = desk.under_way.lock().unwrap();
        under_way.0 += 1;
        under_way.1 = under_way.1.max(under_way.0);
    }
    // Others come in meanwhile.
    tokio::task::yield_now().await;
    let head = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    assert_eq!(head("content-type"), "application/json");
    let status = desk.answers.lock().unwrap().pop_front().unwrap_or(200);
    let (id, signature, host) = (head("webhook-id"), head("webhook-signature"), head("host"));
    let timestamp = head("webhook-timestamp").parse().unwrap();
    let got = Got { path: uri.path().into(), host, id, timestamp, signature, body: body.to_vec() };
    desk.got.lock().unwrap().push(got);
    desk.count.send_modify(|count| *count += 1);
    desk.under_way.lock().unwrap().0 -= 1;
    (StatusCode::from_u16(status).unwrap(), [(header::LOCATION, "/elsewhere")]).into_response()
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, desk) = (listener.local_addr().unwrap().port(), Desk::default());
        let app = Router::new().fallback(take).with_state(desk.clone());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { port, desk, server }
    }

    pub fn uri(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What the next requests are answered with; after these all with 200.
    pub fn answer(&self, statuses: impl IntoIterator<Item = u16>) {
        self.desk.answers.lock().unwrap().extend(statuses);
    }

    /// All that came.
    pub fn got(&self) -> Vec<Got> {
        self.desk.got.lock().unwrap().clone()
    }

    /// The same, once it is at least that much.
    pub async fn wait(&self, count: usize) -> Vec<Got> {
        let mut seen = self.desk.count.subscribe();
        tokio::select! {
            seen = seen.wait_for(|seen| *seen >= count) => drop(seen.unwrap()),
            () = SystemClock.sleep(LONG) => panic!("only {} of {count} requests came", self.got().len()),
        }
        self.got()
    }

    /// How many requests were under way at once at most.
    pub fn at_once(&self) -> usize {
        self.desk.under_way.lock().unwrap().1
    }
}

pub const WEBHOOKS: &str = "/v1/webhooks";

pub const EVENTS: [&str; 8] = [
    "batch.succeeded",
    "batch.cancelled",
    "batch.expired",
    "batch.failed",
    "interaction.completed",
    "interaction.failed",
    "interaction.requires_action",
    "interaction.cancelled",
];

/// A background create that wants its events there.
pub fn told(input: &str, uri: &str) -> Value {
    let mut body = crate::background(input);
    body["webhook_config"] = json!({"uris": [uri], "user_metadata": {"key": input}});
    body
}

impl Sim {
    /// Registers a webhook for all events.
    pub async fn register(&self, uri: &str) -> Value {
        let body = json!({"uri": uri, "subscribed_events": EVENTS});
        let (status, webhook) = self.json(Method::POST, WEBHOOKS, Some(&body)).await;
        assert_eq!(status, 200, "{webhook}");
        webhook
    }

    /// The events, once there are that many and none waits.
    pub async fn events(&self, made: usize) -> Vec<Value> {
        let begun = SystemClock.now();
        loop {
            let counts = self.get("/simulator/stats").await["events"].clone();
            if counts["made"].as_u64().unwrap() >= made as u64 && counts["waiting"] == 0 {
                let (mut events, mut after) = (Vec::new(), json!(0));
                while !after.is_null() {
                    let page = self.get(&format!("/simulator/events?limit=2500&after={after}")).await;
                    events.extend(page["entries"].as_array().unwrap().clone());
                    after = page["next"].clone();
                }
                assert_eq!(events.len(), made);
                return events;
            }
            assert!(SystemClock.now().since(begun) < LONG, "no {made} events: {counts}");
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn jwks(&self) -> Value {
        self.get("/.well-known/jwks.json").await
    }
}

pub fn webhook_path(webhook: &Value) -> String {
    format!("{WEBHOOKS}/{}", webhook["id"].as_str().unwrap())
}
