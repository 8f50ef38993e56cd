//! The same where only events tell of results: whoever works and whoever takes the events are killed again and again.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::common::{Simulator, gleaner};
use super::evidence::{Evidence, Paid};
use super::{kill, run, wait, write_some_jobs};

const JOBS: usize = 400;
const KILLS: usize = 20;

/// A process that is killed when the test is over, however it ends.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        kill(&mut self.0);
    }
}

fn called(mut command: Command, url: &str) -> Command {
    command
        .env("GLEANER_WEBHOOK_URL", url)
        .env("GLEANER_POLL_MIN", "1h")
        .env("GLEANER_POLL_MAX", "1h")
        // For creates that were never sent. An event comes within a second or two.
        .env("GLEANER_UNCLEAR_GRACE", "10s");
    command
}

fn serve(folder: &Path, simulator: &Simulator, port: u16) -> Served {
    let mut command = gleaner(folder);
    command.args(["--data", "data", "webhook", "serve", "--port", &port.to_string()]);
    command.env("GEMINI_BASE_URL", &simulator.base_url).stdout(Stdio::null()).stderr(Stdio::null());
    Served(command.spawn().unwrap())
}

#[test]
fn killed_again_and_again_events_lose_nothing_and_bring_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    write_some_jobs(folder.path(), JOBS);
    let faults = ["--fault", "create-drop=0.2", "event-twice=0.2", "event-bad-signature=0.1"];
    let simulator = Simulator::start(
        &[&["--seed", "5", "--polls", "0", "--latency", "300ms", "--event-retry", "100ms"], &faults[..]].concat(),
    );
    // Free a moment ago; whoever takes it meanwhile makes `serve` end, and the test fail.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/webhook");
    let again = || called(run(folder.path(), &simulator), &url);
    let mut dice = StdRng::seed_from_u64(7);
    let mut served = serve(folder.path(), &simulator, port);
    let mut killed = 0;
    while killed < KILLS {
        let count = if dice.random_bool(0.3) { 2 } else { 1 };
        let children: Vec<Child> = (0..count).map(|_| again().spawn().unwrap()).collect();
        for mut child in children {
            wait(Duration::from_millis(dice.random_range(30..500)));
            kill(&mut child);
            killed += 1;
        }
        if dice.random_bool(0.5) {
            drop(served);
            wait(Duration::from_millis(dice.random_range(0..300)));
            served = serve(folder.path(), &simulator, port);
            killed += 1;
        }
    }
    let output = again().output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let evidence = Evidence::gather(&folder.path().join("data"), &folder.path().join("jobs.jsonl"), &simulator);
    evidence.check_sums(&report, JOBS);
    evidence.check_results();
    let Paid { accepted, beyond_one, told, .. } = evidence.check_paid_work();
    eprintln!("{killed} kills; accepted {accepted}, beyond one a job {beyond_one}, possible duplicates told {told}");
    assert_eq!(report["consumed"].as_u64(), Some(JOBS as u64));
}
