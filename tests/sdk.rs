//! Google's own client, unchanged, works against the simulator, and reads the same values as this program.

#![expect(clippy::unwrap_used, reason = "a test says what it found by failing")]

mod simulated;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gleaner::domain::extract::{Expectation, extract};
use gleaner::domain::interaction::{Interaction, Standing};
use gleaner::simulator::Config;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};
use simulated::Sim;
use tokio::process::Command;

/// An interpreter that has what `requirements-test.txt` names: `GLEANER_TEST_PYTHON`, else the one that `make test` sets up.
async fn python() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
    let python = std::env::var_os("GLEANER_TEST_PYTHON").map_or_else(own, PathBuf::from);
    let probe =
        Command::new(&python).args(["-c", "import cryptography, google.genai, standardwebhooks"]).output().await;
    assert!(
        probe.as_ref().is_ok_and(|probe| probe.status.success()),
        "{} lacks google-genai, standardwebhooks or cryptography; `make test` installs them ({probe:?})",
        python.display()
    );
    python
}

/// What the script printed of what it left.
async fn run_script(python: &Path, script: &str, sim: &Sim, version: &str) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let mut run = Command::new(python);
    run.arg(script).args([&sim.running.base_url(), version]);
    run.env_remove("GOOGLE_API_KEY").env_remove("GEMINI_API_KEY").env("NO_PROXY", "127.0.0.1");
    let output = run.env("PYTHONIOENCODING", "utf-8").output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the script failed with version {version}: {said}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What this program takes from an interaction, as GET returns it: the value of a completed one, else its text so far.
fn our_value(body: &[u8]) -> String {
    let interaction = Interaction::parse(body).unwrap();
    if interaction.standing() != Standing::Completed {
        return interaction.output_text();
    }
    let value = extract(&interaction, &Expectation::default()).unwrap();
    serde_json::from_str(value.get()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn googles_client_works_unchanged_and_reads_the_same_values() {
    let python = python().await;
    let sim = Sim::start(Config { polls_until_done: 2, latency: Duration::from_millis(30), ..Config::default() }).await;
    for version in ["default", "v1", "v1beta"] {
        let lines = run_script(&python, "sdk_interactions.py", &sim, version).await;
        let statuses: Vec<_> = lines.iter().map(|line| line["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["completed", "completed", "completed", "completed", "completed", "cancelled"]);
        for line in &lines {
            let path = format!("/v1/interactions/{}", line["id"].as_str().unwrap());
            let (_, body) = sim.send(reqwest::Method::GET, &path, None).await.unwrap();
            assert_eq!(line["output_text"], our_value(&body), "{line}");
            if line["status"] == "completed" {
                let digest = Digest::of(&line["input"]).to_string();
                assert!(line["output_text"].as_str().unwrap().contains(&digest), "{line} does not carry {digest}");
            }
        }
    }
    // The client's own retries of creates did not come into play: each create was accepted once.
    let stats = sim.get("/simulator/stats").await;
    assert_eq!(stats["accepted"], json!(3 * (7 + 2)));
    assert_eq!(stats["requests"]["other"], Value::Null, "the client asked for a path that is not there: {stats}");
    sim.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn googles_client_uploads_creates_lists_gets_and_downloads() {
    let python = python().await;
    let sim = Sim::start(Config { polls_until_done: 2, latency: Duration::from_millis(30), ..Config::default() }).await;
    for version in ["default", "v1", "v1beta"] {
        let rows = run_script(&python, "sdk_batches.py", &sim, version).await;
        assert_eq!(rows.len(), 5 + 1 + 1 + 3);
        for row in &rows {
            let digest = Digest::of(&row["contents"]).to_string();
            assert!(row["text"].as_str().unwrap().starts_with(&format!("sim {digest}: ")), "{row}");
        }
    }
    // Each create was accepted once: three that were collected, one inline, one that was cancelled.
    let stats = sim.get("/simulator/stats").await;
    assert_eq!(stats["batches"]["inline"], 3);
    assert_eq!((&stats["accepted"], &stats["rows"]), (&json!(3 * 5), &json!(3 * (5 + 1 + 1 + 3 + 2))));
    assert_eq!(stats["requests"]["other"], Value::Null, "the client asked for a path that is not there: {stats}");
    sim.running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn googles_client_registers_webhooks_and_other_packages_prove_their_events() {
    let python = python().await;
    let sim = Sim::start(Config { polls_until_done: 0, ..Config::default() }).await;
    for version in ["default", "v1", "v1beta"] {
        let events = run_script(&python, "sdk_webhooks.py", &sim, version).await;
        let forms: Vec<_> = events.iter().map(|event| event["form"].as_str().unwrap()).collect();
        assert_eq!(forms, ["v1", "v1", "v1a", "v1a", "jwt"]);
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(
            (kinds[3], kinds.iter().filter(|kind| **kind == "interaction.completed").count()),
            ("batch.succeeded", 4)
        );
    }
    let stats = sim.get("/simulator/stats").await;
    assert_eq!(stats["requests"]["other"], Value::Null, "the client asked for a path that is not there: {stats}");
    assert_eq!((&stats["accepted"], &stats["events"]["made"]), (&json!(3 * 5), &json!(3 * 6)));
    assert_eq!((&stats["events"]["accepted"], &stats["events"]["refused"]), (&json!(3 * 6), &json!(0)));
    sim.running.stop().await.unwrap();
}
