//! The ledgers of the seed scripts, taken over by a stack.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::deployed::{Deployed, eventually};

/// All three ledgers in one file, made by the scripts' rules: what is at Gemini is collected by the schedule, and nothing is
/// sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seeds_ledger_is_taken_over_and_its_open_jobs_are_collected() {
    let stack = Deployed::new(&[], &[]).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/seed_ledgers.py");
    let python = std::env::var_os("GLEANER_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let arguments = ["all", "seed.db", &stack.sim.running.base_url()];
    // The simulator lives in this process, and must not be kept from answering the script.
    let mut made = tokio::process::Command::new(python);
    let made = made.current_dir(&stack.folder).arg(script).args(arguments).output().await.unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{made:?}"));
    let paid = stack.sim.get("/simulator/stats").await["accepted"].clone();
    let import = || {
        let run = stack.gleaner().args(["--json", "import-seed", "seed.db"]).output().unwrap();
        serde_json::from_slice::<Value>(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
    };
    let told = import();
    assert_eq!(told["jobs"], json!({"consumed": 2, "failed": 1, "no_payload": 2, "submitted": 7}));
    assert_eq!(told["rows"], json!({"succeeded": 20, "dead": 12, "retryable": 4, "pending": 4}));
    assert_eq!((&told["held"], &told["unfinished"], &told["refused"]), (&json!(true), &json!(false), &json!([])));
    let again = import();
    assert_eq!((&again["jobs"], &again["rows"]), (&json!({"before": 12}), &json!({"before": 40})));

    let run = told["run"].as_str().unwrap();
    let open: Vec<&Value> = made["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|job| job["status"] == "submitted" || job["status"] == "done")
        .collect();
    eventually("every open job has its result", async || {
        let names = stack.names("results/").await;
        let there = |job: &&&Value| names.contains(&format!("results/{}.json", job["key"].as_str().unwrap()));
        let results = open.iter().filter(there).count();
        if results == 7 { Ok(()) } else { Err(format!("{results} results")) }
    })
    .await;
    assert_eq!(stack.sim.get("/simulator/stats").await["accepted"], paid, "nothing was sent");
    let dead = stack.gleaner().args(["--json", "dead"]).output().unwrap();
    let dead: Value = serde_json::from_slice(&dead.stdout).unwrap_or_else(|_| panic!("{dead:?}"));
    assert_eq!(dead["dead"].as_array().unwrap().len(), 1 + 2 + 6 + 12);
    let merged = stack.gleaner().args(["results", run]).output().unwrap();
    assert_eq!(String::from_utf8(merged.stdout).unwrap().lines().count(), 20);
}
