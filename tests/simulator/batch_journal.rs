//! What was accepted, uploaded and cancelled outlives the process, and is shared with others on the same journal.

use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;
use reqwest::Method;
use serde_json::{Value, json};

use crate::batch_client::{head, jsonl, path, read, some_rows, state_of};
use crate::journal::journalled;
use crate::simulated::Sim;

#[tokio::test]
async fn batches_outlive_their_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::parse(["row-error-13=0.3", "output-repeated=0.5", "output-shuffled=0.5", "create-drop=0.5"]);
    let one = Config { faults: faults.unwrap(), answer_bytes: 500, ..journalled(folder.path(), "one") };
    let sim = Sim::start(one).await;
    let file = sim.upload(&jsonl(&some_rows(30))).await;
    for n in 0..6 {
        let batch = json!({"batch": {"displayName": format!("batch {n}"), "inputConfig": {"fileName": file}}});
        // Half of the answers are lost, as in a kill after the acceptance.
        drop(sim.send(Method::POST, "/v1/models/m:batchGenerateContent", Some(&batch)).await);
    }
    let (log, rows) = (sim.get("/simulator/log").await, sim.get("/simulator/rows").await);
    let mut known = Vec::new();
    for operation in sim.get("/v1/batches").await["operations"].as_array().unwrap() {
        let ended = sim.batch_end(operation).await;
        // Of some the output was never asked for before.
        let output = if known.len() % 2 == 0 { Some(sim.output(&ended).await.unwrap()) } else { None };
        known.push((ended, output));
    }
    assert_eq!(known.len(), 6);
    assert_eq!(sim.json(Method::DELETE, &format!("/v1/{file}"), None).await.0, 200, "the input is kept all the same");
    sim.running.stop().await.unwrap();

    // The next one was told of no faults and of another size, and still knows how the old work ends.
    let sim = Sim::start(journalled(folder.path(), "two")).await;
    assert_eq!((sim.get("/simulator/log").await, sim.get("/simulator/rows").await), (log, rows));
    for (ended, output) in &known {
        assert_eq!(&sim.batch_end(ended).await, ended);
        let again = sim.output(ended).await.unwrap();
        assert_eq!(again.0, 200);
        assert!(output.as_ref().is_none_or(|output| *output == again));
        assert!(again.1.len() > 20 * 500);
    }
    let again = sim.batch("batch 0", &some_rows(1)).await;
    assert!(known.iter().all(|(before, _)| before["name"] != again["name"]));
    let log = sim.get("/simulator/log?after=6").await;
    let first = &sim.get("/simulator/rows").await["entries"][0];
    assert_eq!((&log["entries"][0]["nth"], &first["key"], &first["accepted"]), (&json!(1), &json!("row-0"), &json!(7)));
}

#[tokio::test]
async fn an_upload_goes_on_at_the_next_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = jsonl(&some_rows(50));
    let sim = Sim::start(journalled(folder.path(), "one")).await;
    let (_, url) = sim.begin("x", "text/plain", bytes.len()).await;
    assert_eq!(sim.chunk(&url, "upload", 0, &bytes[..700]).await.unwrap().status(), 200);
    let before = sim.running.base_url();
    sim.running.stop().await.unwrap();

    let sim = Sim::start(journalled(folder.path(), "two")).await;
    let url = url.replace(&before, &sim.running.base_url());
    let asked = sim.chunk(&url, "query", 0, b"").await.unwrap();
    assert_eq!(head(&asked, "x-goog-upload-size-received"), "700");
    let file = read(sim.chunk(&url, "upload, finalize", 700, &bytes[700..]).await.unwrap()).await.1;
    let (_, created) = sim.create_batch("x", file["file"]["name"].as_str().unwrap()).await;
    sim.batch_end(&created).await;
    assert_eq!(sim.output_lines(&created).await.len(), 50);
}

#[tokio::test]
async fn two_simulators_share_batches_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let config = |writer| Config { polls_until_done: 3, ..journalled(folder.path(), writer) };
    let (one, two) = (Sim::start(config("one")).await, Sim::start(config("two")).await);
    let file = one.upload(&jsonl(&some_rows(3))).await;
    let (first, second) = (one.create_batch("x", &file).await.1, two.create_batch("x", &file).await.1);
    assert_ne!(first["name"], second["name"]);
    let names = |list: Value| {
        let operations = list["operations"].as_array().unwrap().clone();
        operations.into_iter().map(|operation| operation["name"].clone()).collect::<Vec<_>>()
    };
    let both = vec![second["name"].clone(), first["name"].clone()];
    assert_eq!(names(one.get("/v1/batches").await), both);
    assert_eq!(names(two.get("/v1/batches").await), both);
    assert_eq!(one.get("/simulator/stats").await["batches"], json!({"x": 2}));
    assert_eq!(one.get("/simulator/rows").await["entries"][0]["accepted"], 2);
    two.json(Method::POST, &format!("{}:cancel", path(&first)), None).await;
    assert_eq!(state_of(&one.get(&path(&first)).await), "BATCH_STATE_CANCELLED");
    one.json(Method::DELETE, &path(&second), None).await;
    assert_eq!(two.json(Method::GET, &path(&second), None).await.0, 404);
}

#[tokio::test]
async fn a_withheld_name_is_shown_in_the_end_whoever_looks() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::parse(["batch-unnamed=1"]).unwrap();
    let config = |writer| Config { faults: faults.clone(), polls_until_done: 0, ..journalled(folder.path(), writer) };
    let mut created = Value::Null;
    for (n, writer) in ["one", "two", "three"].into_iter().enumerate() {
        let sim = Sim::start(config(writer)).await;
        if n == 0 {
            created = sim.batch("x", &some_rows(1)).await;
        }
        let seen = sim.get(&path(&created)).await;
        assert_eq!((state_of(&seen).as_str(), seen["response"].is_object()), ("BATCH_STATE_SUCCEEDED", n == 2));
        sim.running.stop().await.unwrap();
    }
}
