//! Which ends are told, to whom, and when.

use std::time::Duration;

use gleaner::simulator::{Config, JournalConfig};
use reqwest::Method;
use serde_json::{Value, json};

use crate::batch_client::{MODEL, jsonl, path, some_rows};
use crate::receiver::{Receiver, WEBHOOKS, told, webhook_path};
use crate::simulated::Sim;
use crate::{background, path_of, with};

fn at_once(faults: &[&str]) -> Config {
    Config { polls_until_done: 0, ..with(faults) }
}

#[tokio::test]
async fn ends_of_interactions_are_told_as_documented() {
    let receiver = Receiver::start().await;
    for (fault, kind, code) in [
        ("none", Some("interaction.completed"), false),
        ("failed-errors", Some("interaction.failed"), true),
        ("failed-step", Some("interaction.failed"), true),
        ("failed-silent", Some("interaction.failed"), false),
        ("blocked", Some("interaction.failed"), true),
        ("empty-answer", Some("interaction.completed"), false),
        ("requires-action", Some("interaction.requires_action"), false),
        ("cancelled-remote", Some("interaction.cancelled"), false),
        ("incomplete", None, false),
        ("budget-exceeded", None, false),
    ] {
        let set = format!("{fault}=1");
        let faults: &[&str] = if fault == "none" { &[] } else { &[&set] };
        let sim = Sim::start(at_once(faults)).await;
        let created = sim.create(&told(fault, &receiver.uri(&format!("/{fault}")))).await;
        // A look that finds the end has told it.
        sim.get(&path_of(&created)).await;
        let events = sim.events(usize::from(kind.is_some())).await;
        let got: Vec<_> = receiver.got().into_iter().filter(|got| got.path == format!("/{fault}")).collect();
        assert_eq!(got.len(), events.len(), "{fault}");
        let Some(kind) = kind else { continue };
        let event = got[0].json();
        assert_eq!(got[0].about(), (kind.to_owned(), created["id"].as_str().unwrap().to_owned()), "{fault}");
        assert_eq!((&event["version"], &event["user_metadata"]), (&json!("v1"), &json!({"key": fault})));
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(event["data"]["error_code"].is_null(), !code, "{fault}: {event}");
        assert_eq!(event["data"]["error_message"].is_null(), !code);
        let seen = &events[0];
        assert_eq!((&seen["id"], &seen["type"], &seen["about"]), (&json!(got[0].id), &json!(kind), &created["id"]));
        assert_eq!((&seen["form"], &seen["outcome"]), (&json!("v1a"), &json!("accepted")));
        assert_eq!((seen["tries"].as_array().unwrap().len(), &seen["tries"][0]["status"]), (1, &json!(200)));
    }
}

#[tokio::test]
async fn an_end_is_noticed_without_a_look_and_told_once() {
    let (receiver, latency) = (Receiver::start().await, Duration::from_millis(60));
    let sim = Sim::start(Config { latency, ..at_once(&[]) }).await;
    let created = sim.create(&told("x", &receiver.uri("/"))).await;
    receiver.wait(1).await;
    assert_eq!(sim.get("/simulator/stats").await["requests"]["get"], Value::Null, "nobody asked for it");
    assert_eq!(sim.get(&path_of(&created)).await["status"], "completed");
    sim.get(&path_of(&created)).await;
    assert_eq!(sim.events(1).await[0]["gets"], 2);
    assert_eq!(receiver.got().len(), 1);
    let counts = sim.get("/simulator/stats").await["events"].clone();
    let expected = json!({"made": 1, "sent": 1, "accepted": 1, "refused": 0, "undeliverable": 0, "lost": 0, "given_up": 0,
        "dropped": 0, "waiting": 0});
    assert_eq!(counts, expected);
}

#[tokio::test]
async fn looks_end_work_that_needs_them() {
    let receiver = Receiver::start().await;
    let sim = Sim::start(Config { polls_until_done: 2, ..Config::default() }).await;
    let created = sim.create(&told("x", &receiver.uri("/"))).await;
    assert_eq!(sim.get(&path_of(&created)).await["status"], "in_progress");
    sim.events(0).await;
    assert_eq!(sim.get(&path_of(&created)).await["status"], "in_progress");
    assert_eq!(receiver.wait(1).await[0].about().0, "interaction.completed");
}

#[tokio::test]
async fn cancelled_work_is_told_and_deleted_or_foreground_work_is_not() {
    let receiver = Receiver::start().await;
    let sim = Sim::start(Config::default()).await;
    let cancelled = sim.create(&told("cancelled", &receiver.uri("/"))).await;
    let deleted = sim.create(&told("deleted", &receiver.uri("/"))).await;
    sim.register(&receiver.uri("/static")).await;
    sim.json(Method::DELETE, &path_of(&deleted), None).await;
    sim.create(&json!({"model": "m", "input": "foreground"})).await;
    sim.json(Method::POST, &format!("{}/cancel", path_of(&cancelled)), None).await;
    let got = receiver.wait(1).await;
    assert_eq!(got[0].about(), ("interaction.cancelled".into(), cancelled["id"].as_str().unwrap().into()));
    sim.events(1).await;
}

#[tokio::test]
async fn a_request_for_events_must_be_in_order() {
    let sim = Sim::start(Config::default()).await;
    let mut foreground = told("x", "http://127.0.0.1:1/");
    foreground["background"] = json!(false);
    assert_eq!(sim.json(Method::POST, "/v1/interactions", Some(&foreground)).await.0, 400);
    let bad = told("x", "not an address");
    assert_eq!(sim.json(Method::POST, "/v1/interactions", Some(&bad)).await.0, 400);
    let file = sim.upload(&jsonl(&some_rows(1))).await;
    let batch =
        json!({"batch": {"displayName": "x", "inputConfig": {"fileName": file}, "webhookConfig": {"uris": "x"}}});
    assert_eq!(sim.json(Method::POST, &format!("/v1/models/{MODEL}:batchGenerateContent"), Some(&batch)).await.0, 400);
    assert_eq!(sim.accepted().await, 0);
}

impl Sim {
    /// A batch that wants its events there.
    async fn told_batch(&self, config: &str, uri: &str, inline: bool) -> Value {
        let rows = some_rows(2);
        let input = if inline {
            let rows: Vec<Value> = rows.iter().map(|row| json!({"request": row["request"]})).collect();
            json!({"requests": {"requests": rows}})
        } else {
            json!({"fileName": self.upload(&jsonl(&rows)).await})
        };
        let metadata = if config == "webhookConfig" { "userMetadata" } else { "user_metadata" };
        let mut batch = json!({"displayName": "told", "inputConfig": input});
        batch[config] = json!({"uris": [uri], metadata: {"run": "r", "n": 7}});
        let create = format!("/v1/models/{MODEL}:batchGenerateContent");
        let (status, operation) = self.json(Method::POST, &create, Some(&json!({"batch": batch}))).await;
        assert_eq!(status, 200, "{operation}");
        operation
    }
}

#[tokio::test]
async fn ends_of_batches_are_told_as_documented() {
    let receiver = Receiver::start().await;
    for (fault, kind) in [
        ("none", "batch.succeeded"),
        ("inline", "batch.succeeded"),
        ("batch-partly", "batch.succeeded"),
        ("batch-failed", "batch.failed"),
        ("batch-cancelled", "batch.cancelled"),
        ("batch-expired", "batch.expired"),
        ("batch-stuck", "batch.expired"),
        ("a cancel", "batch.cancelled"),
    ] {
        let set = format!("{fault}=1");
        let faults: &[&str] = if fault.starts_with("batch") { &[&set] } else { &[] };
        let polls = u32::from(fault == "a cancel");
        let batch_expiry = (fault == "batch-stuck").then_some(Duration::from_millis(50));
        let sim = Sim::start(Config { polls_until_done: polls, batch_expiry, ..with(faults) }).await;
        let config = if fault == "none" { "webhook_config" } else { "webhookConfig" };
        let uri = receiver.uri(&format!("/{}", fault.replace(' ', "-")));
        let batch = sim.told_batch(config, &uri, fault == "inline").await;
        if fault == "a cancel" {
            assert_eq!(sim.json(Method::POST, &format!("{}:cancel", path(&batch)), None).await.0, 200);
        }
        let events = sim.events(1).await;
        let got = receiver.got().pop().unwrap();
        let name = batch["name"].as_str().unwrap();
        assert_eq!(got.about(), (kind.to_owned(), name.to_owned()), "{fault}");
        assert_eq!((&got.json()["user_metadata"], &events[0]["about"]), (&json!({"run": "r", "n": 7}), &json!(name)));
        let data = got.json()["data"].clone();
        let file = (kind == "batch.succeeded" && fault != "inline").then(|| name.replace("batches/", "files/batch-"));
        assert_eq!(data["output_file_uri"], json!(file), "{fault}");
        assert_eq!(data["error_code"], if kind == "batch.failed" { json!(13) } else { Value::Null }, "{fault}");
        assert_eq!(data["error_message"].is_string(), kind == "batch.failed");
    }
}

#[tokio::test]
async fn an_own_webhook_replaces_the_registered_ones() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(at_once(&[])).await);
    let one = sim.register(&receiver.uri("/one")).await;
    let two = sim.register(&receiver.uri("/two")).await;
    let narrow = json!({"uri": receiver.uri("/narrow"), "subscribed_events": ["interaction.failed"]});
    sim.json(Method::POST, WEBHOOKS, Some(&narrow)).await;
    let other = json!({"uri": receiver.uri("/other-key"), "subscribed_events": ["interaction.completed"]});
    sim.send_as(Some("other"), Method::POST, WEBHOOKS, Some(&other)).await.unwrap();

    // Registered ones: both that want it, each by its own secret; and without the user metadata, as far as anybody knows.
    let mut body = told("static", "http://127.0.0.1:1/");
    body["webhook_config"]["uris"] = json!([]);
    sim.create(&body).await;
    let mut got = receiver.wait(2).await;
    got.sort_by(|a, b| a.path.cmp(&b.path));
    for (got, webhook) in got.iter().zip([&one, &two]) {
        assert_eq!(json!(receiver.uri(&got.path)), webhook["uri"]);
        assert_eq!(got.proved_by(webhook["new_signing_secret"].as_str().unwrap()), [true]);
        assert_eq!(got.json().get("user_metadata"), None);
    }
    assert_eq!(got[0].id, got[1].id, "one event, two addresses");

    // A request's own: those only.
    let mut body = told("dynamic", &receiver.uri("/dynamic-1"));
    body["webhook_config"]["uris"] = json!([receiver.uri("/dynamic-1"), receiver.uri("/dynamic-2")]);
    sim.create(&body).await;
    let got = receiver.wait(4).await;
    let mut paths: Vec<&str> = got[2..].iter().map(|got| got.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/dynamic-1", "/dynamic-2"]);

    // Neither disabled nor deleted ones, until they are enabled again.
    let state = async |state: &str| {
        let (status, _) = sim.json(Method::PATCH, &webhook_path(&one), Some(&json!({"state": state}))).await;
        assert_eq!(status, 200);
    };
    state("disabled").await;
    sim.json(Method::DELETE, &webhook_path(&two), None).await;
    let unheard = sim.create(&background("nobody")).await;
    sim.get(&path_of(&unheard)).await;
    state("enabled").await;
    sim.create(&background("somebody")).await;
    let got = receiver.wait(5).await;
    assert_eq!(got[4].path, "/one");
    let events = sim.events(5).await;
    assert_eq!((&events[0]["webhook"], &events[2]["webhook"]), (&one["id"], &Value::Null));
}

#[tokio::test]
async fn a_new_webhook_is_told_of_what_ends_from_then_on() {
    let receiver = Receiver::start().await;
    let sim = Sim::start(Config::default()).await;
    let ended = sim.create(&background("ended")).await;
    let running = sim.create(&background("running")).await;
    sim.get(&path_of(&ended)).await;
    sim.register(&receiver.uri("/")).await;
    sim.get(&path_of(&ended)).await;
    sim.get(&path_of(&running)).await;
    assert_eq!(receiver.wait(1).await[0].about().1, running["id"].as_str().unwrap());
    sim.events(1).await;

    // By time, too.
    let (latency, polls_until_done) = (Duration::from_millis(200), 0);
    let sim = Sim::start(Config { latency, polls_until_done, ..Config::default() }).await;
    let running = sim.create(&background("late")).await;
    sim.register(&receiver.uri("/")).await;
    assert_eq!(receiver.wait(2).await[1].about().1, running["id"].as_str().unwrap());
}

#[tokio::test]
async fn metadata_comes_back_as_it_is() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(at_once(&[])).await);
    let metadata =
        json!({"z": 1, "a": {"深い": [1.5, null, true, "\u{1f30a}\n"]}, "n": 9_007_199_254_740_993_u64, "": ""});
    let mut body = told("x", &receiver.uri("/"));
    body["webhook_config"]["user_metadata"] = metadata.clone();
    sim.create(&body).await;
    assert_eq!(receiver.wait(1).await[0].json()["user_metadata"], metadata);
}

#[tokio::test]
async fn what_a_journal_remembers_is_not_told() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let journalled = |writer: &str| {
        let path = folder.path().join("journal.jsonl");
        Config { journal: Some(JournalConfig { path, writer: writer.into() }), ..Config::default() }
    };
    let sim = Sim::start(journalled("one")).await;
    let before = sim.create(&told("before", &receiver.uri("/"))).await;
    sim.running.stop().await.unwrap();
    let sim = Sim::start(journalled("two")).await;
    assert_eq!(sim.get(WEBHOOKS).await, json!({}));
    for status in ["in_progress", "completed"] {
        assert_eq!(sim.get(&path_of(&before)).await["status"], status);
    }
    sim.events(0).await;
    let after = sim.create(&told("after", &receiver.uri("/"))).await;
    sim.get(&path_of(&after)).await;
    assert_eq!(receiver.wait(1).await[0].about().1, after["id"].as_str().unwrap());
}
