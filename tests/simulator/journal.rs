//! The log holds all that was paid for, and the journal keeps it.

use std::collections::BTreeSet;
use std::path::Path;

use gleaner::simulator::answer::Digest;
use gleaner::simulator::faults::Faults;
use gleaner::simulator::{Config, JournalConfig};
use reqwest::Method;
use serde_json::json;

use crate::simulated::Sim;
use crate::{CREATE, background, path_of, still_clock, with};

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

pub fn journalled(folder: &Path, writer: &str) -> Config {
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
