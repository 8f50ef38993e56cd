//! The simulator keeps its own promises: every fault happens when told to and only then, the same seed gives the
//! same world whatever the concurrency, and the log holds all that was paid for.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use gleaner::domain::time::Millis;
use gleaner::ports::clock::Clock;
use gleaner::simulator::answer::Digest;
use gleaner::simulator::faults::{Fault, Faults, Phase};
use gleaner::simulator::{Config, JournalConfig};
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
    for path in ["/v1/batches", "/v2/interactions", "/v1/models/m:countTokens", "/", "/v1/interactions/x"] {
        let (status, lost) = send(Some("k"), path, &body).await;
        assert_eq!((status, &lost["error"]["status"]), (404, &json!("NOT_FOUND")), "{path}");
    }
    assert_eq!(sim.accepted().await, 0);
}

/// What a create met: the HTTP status and the error's code, or nothing when there was no whole answer.
async fn met_on_create(fault: Fault, body: &Value) -> (Option<(u16, Value)>, u64) {
    let sim = Sim::start(with(&[&format!("{fault}=1")])).await;
    let answer = sim.send(Method::POST, CREATE, Some(body)).await.ok();
    let answer = answer.map(|(status, body)| (status, serde_json::from_slice(&body).unwrap()));
    assert_eq!(sim.faults_made().await, BTreeMap::from([(fault.name().to_owned(), 1)]));
    (answer, sim.accepted().await)
}

#[tokio::test]
async fn create_faults_happen() {
    let body = background("x");
    for fault in Fault::ALL.iter().filter(|fault| fault.phase() == Phase::Create) {
        let (answer, accepted) = met_on_create(*fault, &body).await;
        let error = |status, code: Value, accepted| (Some((status, code)), accepted);
        let expected = match fault {
            Fault::CreateDrop => (None, 1),
            Fault::CreateResetBefore => (None, 0),
            Fault::Create503 => error(503, json!("service_unavailable"), 1),
            Fault::Create503Refused => error(503, json!("service_unavailable"), 0),
            Fault::CreateArray => error(503, json!(503), 0),
            Fault::Create408 => error(408, json!("deadline_exceeded"), 1),
            Fault::Create409 => error(409, json!("aborted"), 0),
            Fault::CreateDelay => error(200, Value::Null, 1),
            Fault::Create429Daily => error(429, json!("quota_exceeded"), 0),
            _ => error(429, json!("rate_limit_exceeded"), 0),
        };
        let code = |body: &Value| body.get(0).unwrap_or(body)["error"]["code"].clone();
        let answer = answer.map(|(status, body)| (status, code(&body)));
        assert_eq!((answer, accepted), expected, "{fault}");
    }
}

#[tokio::test]
async fn a_delayed_create_waits_by_the_clock() {
    let clock = still_clock();
    let config = Config { late: Duration::from_secs(90), ..with(&["create-delay=1"]) };
    let sim = Sim::start_at(config, clock.clone()).await;
    let before = clock.now();
    sim.create(&background("x")).await;
    assert_eq!(clock.now().since(before), Duration::from_secs(90));
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
async fn rate_limits_name_their_delays_in_different_ways() {
    let sim = Sim::start(with(&["create-429=1"])).await;
    let mut delays = BTreeSet::new();
    for n in 0..40 {
        let (_, refused) = sim.json(Method::POST, CREATE, Some(&background(&format!("input {n}")))).await;
        let details = refused["error"]["details"].as_array().unwrap();
        delays.insert(details.iter().find_map(|detail| Some(detail.get("retryDelay")?.as_str()?.to_owned())));
    }
    assert_eq!(delays, BTreeSet::from([None, Some("0.25s".into()), Some("1s".into())]));
    let (long, _) = met_on_create(Fault::Create429Long, &background("x")).await;
    assert_eq!(long.unwrap().1["error"]["details"][1]["retryDelay"], "52758s");
    let (daily, _) = met_on_create(Fault::Create429Daily, &background("x")).await;
    assert!(daily.unwrap().1.to_string().contains("PerDay"));
}

#[tokio::test]
async fn hidden_interactions_show_up_later_or_never() {
    for (fault, status, later) in
        [(Fault::Get404, 404, 200), (Fault::Get403, 403, 200), (Fault::Get404Forever, 404, 404)]
    {
        let clock = still_clock();
        let sim = Sim::start_at(with(&[&format!("{fault}=1")]), clock.clone()).await;
        let created = sim.create(&background("x")).await;
        for _ in 0..2 {
            assert_eq!(sim.json(Method::GET, &path_of(&created), None).await.0, status, "{fault}");
        }
        clock.pass(Duration::from_secs(1));
        assert_eq!(sim.json(Method::GET, &path_of(&created), None).await.0, later, "{fault}");
        assert_eq!(sim.faults_made().await[fault.name()], if later == 404 { 3 } else { 2 });
    }
}

#[tokio::test]
async fn get_faults_happen() {
    for fault in Fault::ALL.iter().filter(|fault| fault.phase() == Phase::Get) {
        let sim = Sim::start(with(&[&format!("{fault}=1")])).await;
        let created = sim.create(&background("x")).await;
        let answer = sim.send(Method::GET, &path_of(&created), None).await;
        match (fault, answer) {
            (Fault::GetCut, answer) => {
                // The head arrives, half of the body, and then nothing more.
                let error = answer.unwrap_err();
                assert!(error.is_body() || error.is_decode(), "{error:?}");
            }
            (Fault::GetHtml, answer) => {
                let (status, body) = answer.unwrap();
                assert!(status == 502 && body.starts_with(b"<!DOCTYPE html>"));
            }
            (_, answer) => {
                let (status, body) = answer.unwrap();
                let expected = match fault {
                    Fault::Get503 => (503, json!("service_unavailable")),
                    Fault::Get429 => (429, json!("rate_limit_exceeded")),
                    _ => (503, json!(503)),
                };
                let body: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!((status, body.get(0).unwrap_or(&body)["error"]["code"].clone()), expected, "{fault}");
            }
        }
        assert_eq!(sim.faults_made().await, BTreeMap::from([(fault.name().to_owned(), 1)]));
    }
}

#[tokio::test]
async fn courses_show_other_statuses_first() {
    for (fault, statuses) in [
        (Fault::Queued, ["queued", "queued", "in_progress", "completed"]),
        (Fault::StatusUnknown, ["warming_up", "warming_up", "warming_up", "completed"]),
    ] {
        let sim = Sim::start(Config { polls_until_done: 2, ..with(&[&format!("{fault}=1")]) }).await;
        let created = sim.create(&background("x")).await;
        let mut seen = vec![created["status"].clone()];
        for _ in 0..3 {
            seen.push(sim.get(&path_of(&created)).await["status"].clone());
        }
        assert_eq!(seen, statuses, "{fault}");
    }
}

#[tokio::test]
async fn outcomes_are_as_told() {
    let mut body = background("x");
    body["response_format"] = json!({"type": "text", "mime_type": "application/json", "schema": {"type": "integer"}});
    for fault in Fault::ALL.iter().filter(|fault| fault.phase() == Phase::Outcome) {
        let sim = Sim::start(with(&[&format!("{fault}=1")])).await;
        let (_, ended) = sim.end(&sim.create(&body).await).await;
        let last = ended["steps"].as_array().unwrap().last().unwrap();
        let text = last["content"][0]["text"].as_str().unwrap_or_default();
        let (status, as_told) = match fault {
            Fault::FailedErrors => ("failed", !ended["errors"][0]["code"].is_null()),
            Fault::FailedStep => ("failed", last["error"]["code"].is_i64() && ended["errors"].is_null()),
            Fault::FailedSilent => ("failed", last["type"] == "user_input" && ended["errors"].is_null()),
            Fault::Blocked => ("failed", ended["errors"][0]["code"] == "safety"),
            Fault::CancelledRemote => ("cancelled", last["type"] == "user_input"),
            Fault::EmptyAnswer => ("completed", text.is_empty() && last["type"] != "user_input"),
            Fault::Incomplete => ("incomplete", last["type"] == "model_output"),
            Fault::BudgetExceeded => ("budget_exceeded", last["type"] == "thought"),
            Fault::RequiresAction => ("requires_action", last["type"] == "function_call"),
            _ => ("completed", !text.is_empty() && serde_json::from_str::<Value>(text).is_err()),
        };
        assert_eq!(ended["status"], status, "{fault}");
        assert!(as_told, "{fault}: {ended}");
        assert_eq!(sim.get("/simulator/log").await["entries"][0]["outcome"], fault.name());
    }
    // Broken JSON needs a request for JSON.
    let sim = Sim::start(with(&["bad-json=1"])).await;
    let (_, ended) = sim.end(&sim.create(&background("x")).await).await;
    assert!(ended["steps"][2]["content"][0]["text"].as_str().unwrap().ends_with(": x"));
}

#[tokio::test]
async fn failures_and_empty_answers_come_in_every_variety() {
    let variety = async |fault: Fault, pick: fn(&Value) -> Value| {
        let sim = Sim::start(with(&[&format!("{fault}=1")])).await;
        let mut seen = BTreeSet::new();
        for n in 0..60 {
            let (_, ended) = sim.end(&sim.create(&background(&format!("input {n}"))).await).await;
            seen.insert(pick(&ended).to_string());
        }
        seen
    };
    let codes = variety(Fault::FailedErrors, |ended| ended["errors"][0]["code"].clone()).await;
    assert_eq!(
        codes,
        ["\"api_error\"", "\"deadline_exceeded\"", "\"service_unavailable\"", "13"].map(String::from).into()
    );
    let codes = variety(Fault::FailedStep, |ended| ended["steps"][1]["error"]["code"].clone()).await;
    assert_eq!(codes, ["13", "14", "4", "8"].map(String::from).into());
    let empties = variety(Fault::EmptyAnswer, |ended| ended["steps"][2]["content"].clone()).await;
    assert_eq!(empties, ["null", "[]", r#"[{"text":"","type":"text"}]"#].map(String::from).into());
}

#[tokio::test]
async fn a_key_can_be_rejected_at_run_time() {
    let sim = Sim::start(Config::default()).await;
    let created = sim.create(&background("x")).await;
    let put = async |faults: Value| sim.json(Method::PUT, "/simulator/faults", Some(&faults)).await;
    assert_eq!(put(json!({"key-rejected": 1.0})).await, (200, json!({"key-rejected": 1.0})));
    let (status, refused) = sim.json(Method::GET, &path_of(&created), None).await;
    assert_eq!((status, &refused[0]["error"]["details"][0]["reason"]), (400, &json!("API_KEY_INVALID")));
    let (status, mistake) = put(json!({"create-dorp": 1.0})).await;
    assert!(status == 400 && mistake["error"]["message"].as_str().unwrap().contains("create-drop"));
    assert_eq!(sim.get("/simulator/faults").await, json!({"key-rejected": 1.0}), "a bad set changes nothing");
    assert_eq!(put(json!({})).await, (200, json!({})));
    assert_eq!(sim.end(&created).await.1["status"], "completed");
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

/// Everything that one client sees of one input: of four creates in a row, and of six GETs of each.
async fn story(sim: &Sim, input: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..4 {
        let created = sim.send(Method::POST, CREATE, Some(&background(input))).await;
        let Ok((status, body)) = created else {
            seen.push("no answer".into());
            continue;
        };
        seen.push(format!("{status} {}", String::from_utf8_lossy(&body)));
        let interaction = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        if status == 200 {
            for _ in 0..6 {
                let got = sim.send(Method::GET, &path_of(&interaction), None).await;
                seen.push(
                    got.map_or("cut".into(), |(status, body)| format!("{status} {}", String::from_utf8_lossy(&body))),
                );
            }
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_seed_gives_the_same_world_whatever_the_concurrency() {
    let world = async |seed: u64, at_once: usize, backwards: bool| {
        let faults = Faults::parse(["passing=0.3", "incomplete=0.1", "bad-json=0.1"]).unwrap();
        // Hidden for ever, so that no fault ends by the time that the test takes.
        let (late, hidden) = (Duration::ZERO, Duration::from_secs(3600));
        let sim = Sim::start_at(Config { seed, faults, late, hidden, ..Config::default() }, still_clock()).await;
        let mut inputs: Vec<_> = (0..60).map(|n| format!("input {n}")).collect();
        if backwards {
            inputs.reverse();
        }
        let stories = stream::iter(&inputs).map(|input| async { (input.clone(), story(&sim, input).await) });
        let stories: BTreeMap<_, _> = stories.buffer_unordered(at_once).collect().await;
        (stories, sim.faults_made().await, sim.accepted().await)
    };
    let one = world(7, 1, false).await;
    assert_eq!(one, world(7, 16, true).await);
    assert!(one.1.len() > 15, "few faults were made: {:?}", one.1);
    assert_ne!(one.0, world(8, 1, false).await.0);
}

#[tokio::test]
async fn without_faults_none_is_made() {
    let sim = Sim::start(with(&["passing=0", "blocked=0"])).await;
    for n in 0..50 {
        let (status, ended) = sim.end(&sim.create(&background(&format!("input {n}"))).await).await;
        assert_eq!((status, &ended["status"]), (200, &json!("completed")));
    }
    assert_eq!(sim.faults_made().await, BTreeMap::new());
    assert_eq!(sim.accepted().await, 50);
}

#[tokio::test]
async fn the_log_counts_paid_work() {
    let sim = Sim::start(with(&["create-drop=0.5", "create-503-refused=0.5"])).await;
    let mut refused = 0;
    for n in 0..40 {
        let mut body = background(&format!("input {n}"));
        body["webhook_config"] = json!({"uris": [], "user_metadata": {"key": n.to_string()}});
        refused += u64::from(sim.send(Method::POST, CREATE, Some(&body)).await.is_ok());
    }
    assert!(refused > 5, "some were refused");
    assert_eq!(sim.accepted().await, 40 - refused, "what was dropped was paid for");
    let (mut entries, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = sim.get(&format!("/simulator/log?limit=7&after={after}")).await;
        entries.extend(page["entries"].as_array().unwrap().clone());
        after = page["next"].clone();
    }
    let ids: BTreeSet<_> = entries.iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(u64::try_from(ids.len()).unwrap(), 40 - refused);
    for (seq, entry) in entries.iter().enumerate() {
        let input = format!("input {}", entry["user_metadata"]["key"].as_str().unwrap());
        assert_eq!(entry["input_digest"], Digest::of(&json!(input)).to_string());
        assert_eq!((&entry["seq"], &entry["labels"]), (&json!(seq), &json!({"task": "t"})));
        assert_eq!((&entry["faults"], &entry["outcome"]), (&json!(["create-drop"]), &json!("success")));
        assert_eq!(entry["key"].as_str().unwrap().len(), 12);
    }
}

fn journalled(folder: &Path, writer: &str) -> Config {
    let journal = JournalConfig { path: folder.join("sub/journal.jsonl"), writer: writer.into() };
    Config { journal: Some(journal), ..Config::default() }
}

#[tokio::test]
async fn a_journal_outlives_its_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = journalled(folder.path(), "one");
    config.faults = Faults::parse(["failed-silent=0.5"]).unwrap();
    let sim = Sim::start(config).await;
    let mut ended = Vec::new();
    for n in 0..20 {
        ended.push(sim.end(&sim.create(&background(&format!("input\n{n}"))).await).await.1);
    }
    let log = sim.get("/simulator/log").await;
    sim.running.stop().await.unwrap();

    // The next one was told of no faults, and still knows how the old work ends.
    let sim = Sim::start(journalled(folder.path(), "two")).await;
    assert_eq!(sim.get("/simulator/log").await, log);
    for before in &ended {
        assert_eq!(&sim.end(before).await.1, before);
    }
    let again = sim.create(&background("input\n0")).await;
    assert!(ended.iter().all(|before| before["id"] != again["id"]));
    assert_eq!(sim.get("/simulator/log?after=20").await["entries"][0]["nth"], 1);
}

#[tokio::test]
async fn two_simulators_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let one = Sim::start(journalled(folder.path(), "one")).await;
    let two = Sim::start(journalled(folder.path(), "two")).await;
    let (first, second) = (one.create(&background("x")).await, two.create(&background("x")).await);
    assert_ne!(first["id"], second["id"], "the same input at both");
    assert_eq!(two.end(&first).await.1["status"], "completed");
    assert_eq!(one.end(&second).await.1["status"], "completed");
    assert_eq!((one.accepted().await, two.accepted().await), (2, 2));
    assert_eq!(one.json(Method::DELETE, &path_of(&first), None).await.0, 200);
    one.create(&background("y")).await;
    assert_eq!(one.json(Method::GET, &path_of(&first), None).await.0, 404, "the journal brings nothing deleted back");
}

#[tokio::test]
async fn a_line_that_a_killed_process_left_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let sim = Sim::start(journalled(folder.path(), "one")).await;
    let kept = sim.create(&background("kept")).await;
    let lost = sim.create(&background("lost")).await;
    sim.running.stop().await.unwrap();
    let path = folder.path().join("sub/journal.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();

    let sim = Sim::start(journalled(folder.path(), "two")).await;
    let after = sim.create(&background("after")).await;
    sim.running.stop().await.unwrap();
    let sim = Sim::start(journalled(folder.path(), "three")).await;
    assert_eq!(sim.end(&kept).await.1["status"], "completed");
    assert_eq!(sim.end(&after).await.1["status"], "completed");
    assert_eq!(sim.json(Method::GET, &path_of(&lost), None).await.0, 404);
}

#[tokio::test]
async fn a_journal_that_can_not_be_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("sub/journal.jsonl")).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let started = gleaner::simulator::start(listener, journalled(folder.path(), "one"), still_clock()).await;
    assert!(started.is_err());
}
