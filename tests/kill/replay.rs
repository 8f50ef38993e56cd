//! Replays under SIGKILL: dead letters are replayed by processes that die at random moments, sometimes two at a time, while
//! Gemini fails in every passing way.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::common::Simulator;
use crate::evidence::{Evidence, Paid};
use crate::{finish, kill, run, wait, write_some_jobs};

const JOBS: usize = 1000;
const KILLS: usize = 20;

/// The command with other arguments, and the waits that runs have.
fn command(folder: &Path, simulator: &Simulator, arguments: &[&str]) -> std::process::Command {
    let base = run(folder, simulator);
    let mut command = std::process::Command::new(base.get_program());
    for (name, value) in base.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(base.get_current_dir().unwrap_or(folder)).args(["--data", "data", "--json"]).args(arguments);
    // Slow enough to be met in the middle.
    command.env("GLEANER_CONCURRENCY", "2").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    command
}

fn set_faults(simulator: &Simulator, faults: &Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let put = reqwest::Client::builder().no_proxy().build().unwrap();
    let put = put.put(format!("{}/simulator/faults", simulator.base_url)).body(faults.to_string());
    let put = put.header("content-type", "application/json");
    assert!(runtime.block_on(async { put.send().await }).unwrap().status().is_success());
}

fn blocked(folder: &Path, simulator: &Simulator) -> usize {
    let output = command(folder, simulator, &["dead", "--class", "blocked"]).output().unwrap();
    let dead: Value = serde_json::from_slice(&output.stdout).unwrap();
    dead["dead"].as_array().unwrap().len()
}

#[test]
fn killed_at_random_moments_each_dead_letter_is_replayed_once() {
    let folder = tempfile::tempdir().unwrap();
    write_some_jobs(folder.path(), JOBS);
    let simulator = Simulator::start(&["--seed", "3", "--latency", "20ms", "--fault", "blocked=1"]);
    assert_eq!(finish(folder.path(), &simulator)["parked"], json!(JOBS));
    let accepted = simulator.log().len();
    let faults = ["create-drop", "create-503-refused", "get-503", "get-cut", "failed-silent", "empty-answer"];
    set_faults(&simulator, &faults.iter().map(|fault| ((*fault).to_owned(), json!(0.1))).collect());
    let mut dice = StdRng::seed_from_u64(2026);
    let replay = |limit| ["replay", "--class", "blocked", "--limit", limit, "--reason", "mended", "--apply"];
    let (mut killed, mut left) = (0, JOBS);
    // However quick the machine is, a few at a time give many moments to be killed at.
    while killed < KILLS && left > 0 {
        let count = if dice.random_bool(0.3) { 2 } else { 1 };
        let children: Vec<Child> =
            (0..count).map(|_| command(folder.path(), &simulator, &replay("100")).spawn().unwrap()).collect();
        for mut child in children {
            wait(Duration::from_millis(dice.random_range(30..400)));
            killed += usize::from(kill(&mut child));
        }
        let now = blocked(folder.path(), &simulator);
        assert!(now <= left, "what was claimed is none of that class any more: {left}, then {now}");
        left = now;
    }
    assert!(killed >= 4, "only {killed} were killed before all were replayed");
    let again = command(folder.path(), &simulator, &replay("1000")).output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["scanned"], json!(left), "{again}");
    assert_eq!(blocked(folder.path(), &simulator), 0);
    set_faults(&simulator, &json!({}));
    let report = finish(folder.path(), &simulator);
    let evidence = Evidence::gather(&folder.path().join("data"), &folder.path().join("jobs.jsonl"), &simulator);
    evidence.check_sums(&report, JOBS);
    evidence.check_results();
    evidence.check_replays(1);
    let Paid { beyond_one, failed, told, .. } = evidence.check_paid_work();
    eprintln!(
        "{killed} kills, {left} left for the last replay; {report}; accepted {} more, {beyond_one} beyond one a job: {failed} \
         after a failure that Gemini told, {told} possible duplicates told",
        simulator.log().len() - accepted
    );
}
