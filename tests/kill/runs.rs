//! Batch runs under SIGKILL: 10,000 rows, every fault there is, processes that die at random moments and sometimes work
//! two at a time.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gleaner::adapters::gemini::Offline;
use gleaner::adapters::local::DataFolder;
use gleaner::adapters::system::{SystemClock, SystemIds};
use gleaner::app::engine::Engine;
use gleaner::app::report::{every, progress};
use gleaner::app::settings::Settings;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::ports::clock::Clock;
use gleaner::ports::handover::Nobody;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::books::{Books, audit, rows};
use crate::common::{Simulator, gleaner};
use crate::{kill, wait};

const ROWS: usize = 10_000;
const KILLS: usize = 20;

fn run(folder: &Path, simulator: &Simulator) -> Command {
    let mut command = gleaner(folder);
    command
        .args(["--data", "data", "run", "rows.jsonl", "--mode", "batch", "--json"])
        .env("GEMINI_BASE_URL", &simulator.base_url)
        .env("GEMINI_API_KEY", "kill-test")
        .env("GLEANER_PART_ROWS", "800")
        .env("GLEANER_SUBMIT_LEASE", "1s")
        .env("GLEANER_NOT_FOUND_GRACE", "2s")
        .env("GLEANER_LIST_GAP", "500ms")
        .env("GLEANER_POLL_MIN", "50ms")
        .env("GLEANER_POLL_MAX", "400ms")
        .env("GLEANER_BACKOFF_BASE", "50ms")
        .env("GLEANER_BACKOFF_MAX", "400ms")
        .env("GLEANER_GATE_WAIT", "50ms")
        .env("GLEANER_GATE_WAIT_MAX", "200ms")
        .env("GLEANER_HTTP_TIMEOUT", "3s")
        .env("GLEANER_LOG", "error")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// The engine of who only looks.
fn looking(data: &Path) -> Engine {
    let folder = DataFolder::open(data, SystemClock.now()).unwrap();
    let dead_letters = Arc::new(folder.dead_letters(Arc::new(SystemClock)).unwrap());
    Engine {
        ledger: folder.ledger,
        objects: folder.objects,
        gemini: Arc::new(Offline::default()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        work_queue: None,
        left_work: None,
        dead_letters,
        ends: None,
        handover: Arc::new(Nobody),
        settings: Settings::default(),
        headers: Default::default(),
        sweeps: Default::default(),
        stopping: Default::default(),
    }
}

async fn look(data: &Path, text: &str) -> (Books, u64) {
    let engine = looking(data);
    let intakes = every(&engine, State::Read, 10).await.unwrap();
    let [Item::Intake(intake)] = intakes.as_slice() else { panic!("{intakes:?}") };
    let progress = progress(&engine, &intake.sha256).await.unwrap();
    assert!(progress.is_over());
    let books = audit(&engine, &progress, text).await;
    (books, progress.tally.possible_duplicates)
}

#[test]
fn killed_at_random_moments_every_row_is_accounted_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = rows(ROWS);
    std::fs::write(folder.path().join("rows.jsonl"), &text).unwrap();
    // Every passing fault there is, 10 % of each occasion; and rows whose faults last.
    let faults = ["passing=0.1", "row-safety=0.025", "row-error-3=0.025", "row-max-tokens=0.025", "row-refused=0.02"];
    let mut options = vec!["--seed", "5", "--latency", "100ms"];
    options.extend(faults.iter().flat_map(|fault| ["--fault", fault]));
    let simulator = Simulator::start(&options);
    let mut dice = StdRng::seed_from_u64(2026);
    let mut killed = 0;
    while killed < KILLS {
        let count = if dice.random_bool(0.3) { 2 } else { 1 };
        let children: Vec<Child> = (0..count).map(|_| run(folder.path(), &simulator).spawn().unwrap()).collect();
        for mut child in children {
            wait(Duration::from_millis(dice.random_range(30..400)));
            assert!(kill(&mut child), "a run came to its end after {killed} kills: the test must be slower than that");
            killed += 1;
        }
    }
    let output = run(folder.path(), &simulator).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (books, told) = runtime.block_on(look(&folder.path().join("data"), &text));
    eprintln!("{killed} kills; {report}");
    assert_eq!(report["rows"].as_u64(), Some(ROWS as u64));
    assert_eq!(report["succeeded"].as_u64(), Some(books.values.len() as u64));
    assert_eq!(report["dead"].as_u64(), Some(books.dead.len() as u64));
    assert_eq!(books.values.len() + books.dead.len(), ROWS);
    paid_twice_is_told(&simulator, told);
    // A create whose sender is killed four times uses its rows' attempts up, as it should: what is sent without an answer
    // may be paid for.
    let of = |fits: fn(&str) -> bool| books.dead.values().filter(|(class, _)| fits(class)).count();
    let by_kills = of(|class| class == "exhausted:unclear");
    let otherwise = of(|class| class.starts_with("exhausted:") && class != "exhausted:unclear");
    eprintln!("{} dead, {by_kills} of them by kills of their senders, {otherwise} by passing faults", books.dead.len());
    // About one row in eleven has a fault that lasts; few die otherwise.
    assert!((400..1500).contains(&(books.dead.len() - by_kills)), "{}", books.dead.len());
    assert!(otherwise < 400 && by_kills < ROWS / 2, "{otherwise} {by_kills}");
}

/// No attempt was accepted more often than was told.
fn paid_twice_is_told(simulator: &Simulator, told: u64) {
    let log = simulator.log();
    let mut accepted: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for entry in &log {
        *accepted.entry(entry["display_name"].as_str().unwrap()).or_default() += 1;
    }
    let beyond_one: u64 = accepted.values().map(|times| times - 1).sum();
    eprintln!("{} batches accepted, {beyond_one} beyond one an attempt, {told} told", log.len());
    assert!(beyond_one <= told, "{beyond_one} accepted beyond one an attempt, {told} told");
}
