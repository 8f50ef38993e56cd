//! Gemini's webhooks resource, as far as the commands need it, with the failures that a test wants.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is done, and the answer says nothing about it.
    AnswerLost,
    /// It is refused.
    Refused,
}

type Meanwhile = Box<dyn Fn() + Send>;

#[derive(Default)]
struct World {
    webhooks: Vec<Value>,
    secrets: Vec<String>,
    calls: Vec<(String, Value)>,
    wrong: Vec<(Method, &'static str, Wrong)>,
    meanwhile: Option<Meanwhile>,
}

/// The server. It ends with the test.
pub struct Gemini {
    pub url: String,
    world: Arc<Mutex<World>>,
    _runtime: Runtime,
}

impl Gemini {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let world = Arc::<Mutex<World>>::default();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&world));
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Self { url, world, _runtime: runtime }
    }

    /// Lets calls of that method on a path with that end go wrong from now on.
    pub fn breaks(&self, method: Method, end: &'static str, wrong: Wrong) {
        self.world.lock().unwrap().wrong.push((method, end, wrong));
    }

    /// Nothing goes wrong from now on.
    pub fn mend(&self) {
        self.world.lock().unwrap().wrong.clear();
    }

    /// Does this while a secret is being made.
    pub fn meanwhile(&self, act: impl Fn() + Send + 'static) {
        self.world.lock().unwrap().meanwhile = Some(Box::new(act));
    }

    pub fn webhooks(&self) -> Vec<Value> {
        self.world.lock().unwrap().webhooks.clone()
    }

    pub fn add(&self, webhook: Value) {
        self.world.lock().unwrap().webhooks.push(webhook);
    }

    pub fn set(&self, webhook: usize, field: &str, value: &str) {
        self.world.lock().unwrap().webhooks[webhook][field] = json!(value);
    }

    /// All secrets that were made, oldest first.
    pub fn secrets(&self) -> Vec<String> {
        self.world.lock().unwrap().secrets.clone()
    }

    /// Method, path and query, and the body of each call.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.world.lock().unwrap().calls.clone()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|(made, _)| made == call).count()
    }
}

async fn answer(State(world): State<Arc<Mutex<World>>>, method: Method, uri: Uri, body: Bytes) -> (StatusCode, String) {
    let mut world = world.lock().unwrap();
    let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
    world.calls.push((format!("{method} {uri}"), json));
    let wrong = world.wrong.iter().find(|(of, end, _)| *of == method && uri.path().ends_with(end));
    let wrong = wrong.map(|(_, _, wrong)| *wrong);
    if wrong == Some(Wrong::Refused) {
        return (StatusCode::FORBIDDEN, json!({"error": {"code": 403, "message": "not today"}}).to_string());
    }
    let (status, answer) = world.done(&method, uri.path());
    if wrong == Some(Wrong::AnswerLost) {
        // The worst that a server in between can do: an error that quotes what it should not.
        return (StatusCode::BAD_GATEWAY, format!("bad gateway, it said {answer}"));
    }
    (status, answer.to_string())
}

impl World {
    fn done(&mut self, method: &Method, path: &str) -> (StatusCode, Value) {
        let path = path.strip_prefix("/v1beta/webhooks").unwrap().trim_start_matches('/').to_owned();
        let (id, act) = path.split_once(':').unwrap_or((path.as_str(), ""));
        let place = self.webhooks.iter().position(|webhook| webhook["id"] == id);
        match (method.as_str(), act, place) {
            ("GET", "", None) if id.is_empty() => (StatusCode::OK, json!({"webhooks": self.webhooks})),
            ("POST", "", None) if id.is_empty() => {
                let mut webhook = self.calls.last().unwrap().1.clone();
                webhook["id"] = json!(format!("hook-{}", self.secrets.len()));
                webhook["state"] = json!("enabled");
                self.webhooks.push(webhook.clone());
                webhook["new_signing_secret"] = json!(self.secret());
                (StatusCode::OK, webhook)
            }
            ("PATCH", "", Some(place)) => {
                self.webhooks[place]["state"] = self.calls.last().unwrap().1["state"].clone();
                (StatusCode::OK, self.webhooks[place].clone())
            }
            ("DELETE", "", Some(place)) => {
                self.webhooks.remove(place);
                (StatusCode::OK, json!({}))
            }
            ("POST", "ping", Some(_)) => (StatusCode::OK, json!({})),
            ("POST", "rotateSigningSecret", Some(_)) => (StatusCode::OK, json!({"secret": self.secret()})),
            _ => (StatusCode::NOT_FOUND, json!({"error": {"code": 404, "message": "no such webhook"}})),
        }
    }

    fn secret(&mut self) -> String {
        let secret = format!("whsec_{}", STANDARD.encode(format!("the secret number {}", self.secrets.len())));
        self.secrets.push(secret.clone());
        if let Some(act) = &self.meanwhile {
            act();
        }
        secret
    }
}
