//! The simulator keeps its own promises: every fault happens when told to and only then, the same seed gives the
//! same world whatever the concurrency, and the log holds all that was paid for.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

mod batch_client;
mod batch_faults;
mod batch_journal;
mod batches;
mod faults;
mod journal;
mod receiver;
mod row_faults;
#[path = "../simulated/mod.rs"]
mod simulated;
mod webhook_events;
mod webhook_faults;
mod webhook_resource;
mod webhook_tries;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gleaner::domain::time::Millis;
use gleaner::ports::clock::Clock;
use gleaner::simulator::Config;
use gleaner::simulator::answer::Digest;
use gleaner::simulator::faults::Faults;
use reqwest::Method;
use serde_json::{Value, json};
use simulated::Sim;

/// A clock that stands still but for those who sleep by it.
#[derive(Debug)]
struct StillClock(AtomicI64);

impl StillClock {
    fn pass(&self, wait: Duration) {
        self.0.fetch_add(i64::try_from(wait.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, wait: Duration) {
        self.pass(wait);
    }
}

fn still_clock() -> Arc<StillClock> {
    Arc::new(StillClock(AtomicI64::new(1_764_000_000_000)))
}

fn background(input: &str) -> Value {
    json!({"model": "gemini-flash-latest", "input": input, "background": true, "labels": {"task": "t"}})
}

const CREATE: &str = "/v1/interactions";

fn path_of(interaction: &Value) -> String {
    format!("{CREATE}/{}", interaction["id"].as_str().unwrap())
}

fn with(faults: &[&str]) -> Config {
    Config { faults: Faults::parse(faults.iter().copied()).unwrap(), ..Config::default() }
}

impl Sim {
    /// A create that must succeed.
    async fn create(&self, body: &Value) -> Value {
        let (status, answer) = self.send(Method::POST, CREATE, Some(body)).await.unwrap();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    /// Status and JSON of any request.
    async fn json(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let (status, answer) = self.send(method, path, body).await.unwrap();
        (status, serde_json::from_slice(&answer).unwrap())
    }

    async fn accepted(&self) -> u64 {
        self.get("/simulator/log").await["accepted"].as_u64().unwrap()
    }

    async fn faults_made(&self) -> BTreeMap<String, u64> {
        serde_json::from_value(self.get("/simulator/stats").await["faults"].clone()).unwrap()
    }

    /// Polls to the end, or to a GET that isn't an interaction.
    async fn end(&self, created: &Value) -> (u16, Value) {
        for _ in 0..5 {
            let (status, found) = self.json(Method::GET, &path_of(created), None).await;
            if status != 200 || !["queued", "in_progress", "warming_up"].contains(&found["status"].as_str().unwrap()) {
                return (status, found);
            }
        }
        panic!("{created} does not end");
    }
}

#[tokio::test]
async fn an_interaction_lives_as_at_gemini() {
    let clock = still_clock();
    let config = Config { latency: Duration::from_secs(40), polls_until_done: 2, ..Config::default() };
    let sim = Sim::start_at(config, clock.clone()).await;
    let created = sim.create(&background("潮")).await;
    assert_eq!(created["status"], "in_progress");
    assert_eq!(created["steps"], Value::Null);
    let path = path_of(&created);
    for _ in 0..3 {
        assert_eq!(sim.get(&path).await["status"], "in_progress", "the latency is not over");
    }
    clock.pass(Duration::from_secs(40));
    let first = sim.send(Method::GET, &path, None).await.unwrap();
    clock.pass(Duration::from_secs(60));
    let second = sim.send(Method::GET, &path, None).await.unwrap();
    assert_eq!(first, second, "an ended interaction never changes");
    let done: Value = serde_json::from_slice(&first.1).unwrap();
    let kinds: Vec<_> = done["steps"].as_array().unwrap().iter().map(|step| step["type"].as_str().unwrap()).collect();
    assert_eq!((done["status"].as_str().unwrap(), kinds), ("completed", vec!["user_input", "thought", "model_output"]));
    assert_eq!(done["steps"][2]["content"][0]["text"], format!("sim {}: 潮", Digest::of(&json!("潮"))));
    assert!(done["updated"].as_str() > done["created"].as_str());

    let fast = sim.create(&background("other")).await;
    clock.pass(Duration::from_secs(60));
    let seen = [sim.get(&path_of(&fast)).await, sim.get(&path_of(&fast)).await, sim.get(&path_of(&fast)).await];
    let seen = seen.map(|found| found["status"].as_str().unwrap().to_owned());
    assert_eq!(seen, ["in_progress", "in_progress", "completed"], "the polls count too");

    let before = clock.now();
    let foreground = sim.create(&json!({"model": "m", "input": "now"})).await;
    assert_eq!(clock.now().since(before), Duration::from_secs(40), "a foreground create waits for its answer");
    assert_eq!(foreground["steps"][0]["type"], "thought", "the answer of a create has only output steps");
    sim.running.stop().await.unwrap();
}

#[tokio::test]
async fn cancel_and_delete() {
    let sim = Sim::start(Config::default()).await;
    let created = sim.create(&background("a")).await;
    let cancel = format!("{}/cancel", path_of(&created));
    let (status, cancelled) = sim.json(Method::POST, &cancel, None).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));
    assert_eq!(sim.get(&path_of(&created)).await, cancelled);
    let (status, again) = sim.json(Method::POST, &cancel, None).await;
    assert_eq!((status, &again["error"]["code"]), (400, &json!("failed_precondition")));
    assert_eq!(sim.json(Method::DELETE, &path_of(&created), None).await, (200, json!({})));
    for (method, path) in
        [(Method::GET, path_of(&created)), (Method::DELETE, path_of(&created)), (Method::POST, cancel)]
    {
        let (status, gone) = sim.json(method, &path, None).await;
        assert_eq!((status, &gone["error"]["code"]), (404, &json!("not_found")));
    }
    let unstored = sim.create(&json!({"model": "m", "input": "x", "store": false})).await;
    assert_eq!(sim.json(Method::GET, &path_of(&unstored), None).await.0, 404);

    let lenient = Sim::start(Config { cancel_ended: true, ..Config::default() }).await;
    let ended = lenient.create(&json!({"model": "m", "input": "x"})).await;
    let (status, answer) = lenient.json(Method::POST, &format!("{}/cancel", path_of(&ended)), None).await;
    assert_eq!((status, &answer["status"]), (200, &json!("completed")));
}

#[tokio::test]
async fn refusals_speak_the_right_dialect() {
    let sim = Sim::start(Config::default()).await;
    let body = background("x");
    let send = async |key: Option<&str>, path: &str, body: &Value| {
        let (status, answer) = sim.send_as(key, Method::POST, path, Some(body)).await.unwrap();
        (status, serde_json::from_slice::<Value>(&answer).unwrap())
    };
    let (status, bad) = send(Some("bad-key"), CREATE, &body).await;
    assert_eq!((status, &bad[0]["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
    assert_eq!(bad[0]["error"]["details"][0]["reason"], "API_KEY_INVALID");
    let (status, missing) = send(None, CREATE, &body).await;
    assert_eq!((status, &missing[0]["error"]["status"]), (401, &json!("UNAUTHENTICATED")));
    let (status, unknown) = send(Some("k"), CREATE, &json!({"model": "m", "input": "x", "metadata": {}})).await;
    assert_eq!((status, &unknown["error"]["code"]), (400, &json!("parameter_unknown")));
    let (status, model) = send(Some("k"), "/v1beta/interactions", &json!({"model": "no-such", "input": "x"})).await;
    assert_eq!((status, &model["error"]["code"]), (404, &json!("model_not_found")));
    let (status, chained) =
        send(Some("k"), CREATE, &json!({"model": "m", "input": "x", "previous_interaction_id": "v1_"})).await;
    assert_eq!((status, &chained["error"]["code"]), (404, &json!("not_found")));
    let (status, call) = send(Some("k"), "/v1/models/m:generateContent", &json!({"contents": []})).await;
    assert_eq!((status, &call["error"]["code"]), (400, &json!(400)));
    for path in ["/v1/models", "/v2/interactions", "/v1/models/m:countTokens", "/", "/v1/interactions/x"] {
        let (status, lost) = send(Some("k"), path, &body).await;
        assert_eq!((status, &lost["error"]["status"]), (404, &json!("NOT_FOUND")), "{path}");
    }
    assert_eq!(sim.accepted().await, 0);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_slow() {
    let sim = Sim::start(Config { late: Duration::from_secs(3600), ..with(&["create-delay=1"]) }).await;
    let (body, seen) = (background("x"), tokio::sync::Notify::new());
    let slow = async {
        let send = sim.send(Method::POST, CREATE, Some(&body));
        tokio::pin!(send);
        while sim.accepted().await == 0 {
            assert!(futures::poll!(&mut send).is_pending());
        }
        seen.notify_one();
        send.await.unwrap().0
    };
    let stop = async {
        seen.notified().await;
        sim.running.close();
    };
    assert_eq!(futures::join!(slow, stop).0, 200);
}

#[tokio::test]
async fn calls_answer_and_fail_too() {
    let call = "/v1beta/models/gemini-flash-latest:generateContent";
    let contents = json!([{"role": "user", "parts": [{"text": "hi"}]}]);
    let body = json!({"contents": contents});
    let sim = Sim::start(Config::default()).await;
    let (_, answer) = sim.json(Method::POST, call, Some(&body)).await;
    let text = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(text, &json!(format!("sim {}: hi", Digest::of(&contents))));
    let log = sim.get("/simulator/log").await;
    let entry = &log["entries"][0];
    assert_eq!((&entry["kind"], &entry["model"]), (&json!("call"), &json!("gemini-flash-latest")));
    let id = format!("{CREATE}/{}", answer["responseId"].as_str().unwrap());
    assert_eq!(sim.json(Method::GET, &id, None).await.0, 404, "a call is no interaction");

    let met = async |fault: &str| {
        let sim = Sim::start(with(&[&format!("{fault}=1")])).await;
        sim.json(Method::POST, call, Some(&body)).await
    };
    assert_eq!(met("create-429").await.1["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(met("blocked").await.1["promptFeedback"]["blockReason"], "PROHIBITED_CONTENT");
    assert_eq!(met("incomplete").await.1["candidates"][0]["finishReason"], "MAX_TOKENS");
    assert_eq!(met("empty-answer").await.1["candidates"][0]["content"], json!({"role": "model"}));
}
