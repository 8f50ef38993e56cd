//! Every fault happens when told to and only then, and the same seed gives the same of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use gleaner::ports::clock::Clock;
use gleaner::simulator::Config;
use gleaner::simulator::faults::{Fault, Faults, Phase};
use reqwest::Method;
use serde_json::{Value, json};

use crate::simulated::Sim;
use crate::{CREATE, background, path_of, still_clock, with};

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
