//! The whole application on an emulator: template, functions, schedule, queues, bucket, table.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod books;
mod deployed;
#[path = "../emulator/mod.rs"]
mod emulator;
mod events;
mod letters;
#[path = "../program/mod.rs"]
mod program;
mod roles;
mod runs;
#[path = "../simulated/mod.rs"]
mod simulated;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use deployed::{Deployed, eventually};
use gleaner::domain::job::State;
use gleaner::domain::line::{Header, parse_line};
use gleaner::ports::ledger::Ledger;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

/// Lines of jobs `from..to`, each with an input of its own.
fn lines(from: u32, to: u32) -> String {
    (from..to).fold(String::new(), |mut text, n| {
        writeln!(text, "{}", json!({"input": format!("say number {n} 値"), "n": n})).unwrap();
        text
    })
}

/// The keys of lines, with their inputs.
fn keys(lines: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let job = parse_line(line.as_bytes(), &Header::default()).unwrap().unwrap();
        let input = serde_json::from_str::<Value>(line).unwrap()["input"].as_str().unwrap().to_owned();
        (job.key.0, input)
    };
    lines.lines().map(line).collect()
}

/// Each of these jobs has its own result: the simulator's answers carry a digest of their input.
fn assert_own(results: &BTreeMap<String, Value>, jobs: &BTreeMap<String, String>) {
    for (key, input) in jobs {
        let result = results.get(key).unwrap_or_else(|| panic!("{input} has no result"));
        assert_eq!(result["idempotency_key"], *key);
        let digest = Digest::of(&json!(input));
        assert!(result["value"].as_str().unwrap().contains(&digest.to_string()), "{input}: {}", result["value"]);
    }
}

/// A file put into the inbox is all that a person does; the schedule does the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schedule_takes_a_file_to_its_end() {
    let stack = Deployed::new(&[], &[]).await;
    let good = lines(0, 40);
    let jobs = keys(&good);
    // A repeat, a line that is no JSON, and one that sets what is gleaner's own.
    let repeat = good.lines().next().unwrap();
    let file = format!("{good}{repeat}\nnot json\n{{\"input\": \"x\", \"store\": true}}\n");
    stack.put("tonight/質問 1.jsonl", file.clone()).await;

    eventually("every job has a result", async || {
        let results = stack.names("results/").await.len();
        if results == jobs.len() { Ok(()) } else { Err(format!("{results} results; open: {:?}", stack.open().await)) }
    })
    .await;
    assert_own(&stack.results().await, &jobs);
    assert_eq!(stack.names("inbox/").await, [] as [&str; 0], "what has landed is removed");
    let accepted: u64 = stack.accepted().await.values().sum();
    assert_eq!(accepted, 40, "nothing is paid for twice");
    eventually("the ledger is all closed", async || {
        let open = stack.open().await;
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
    })
    .await;

    let path = stack.folder.path().join("again.jsonl");
    std::fs::write(&path, file).unwrap();
    let run = stack.gleaner().args(["--json", "run", "again.jsonl"]).output().unwrap();
    let told: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    assert_eq!(run.status.code(), Some(3), "bad lines are dead letters: {run:?}");
    let expected = json!({
        "jobs": 40, "consumed": 40, "parked": 0, "recovered": 0, "discarded": 0, "open": 0, "repeats": 1,
        "bad_lines": 2, "possible_duplicates": 0,
    });
    assert_eq!(told, expected);
    let dead = stack.gleaner().args(["--json", "dead"]).output().unwrap();
    let dead: Value = serde_json::from_slice(&dead.stdout).unwrap_or_else(|_| panic!("{dead:?}"));
    let classes: Vec<&str> =
        dead["dead"].as_array().unwrap().iter().map(|dead| dead["class"].as_str().unwrap()).collect();
    assert_eq!(classes, ["bad_line:json", "bad_line:field"]);
}

/// Three ticks at once, again and again, beside the schedule's, while a fifth of all calls to Gemini fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_and_overlapping_ticks_lose_nothing_and_consume_nothing_twice() {
    const JOBS: u32 = 300;
    let stack = Deployed::new(&["passing=0.2"], &[("MaxAttempts", "12")]).await;
    let file = lines(0, JOBS);
    let jobs = keys(&file);
    stack.put("jobs.jsonl", file).await;
    let schedule = json!({"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}});
    eventually("every job has ended", async || {
        let ticks = (0..3).map(|_| stack.invoke("tick", &schedule));
        for outcome in futures::future::join_all(ticks).await {
            outcome?;
        }
        let open = stack.open().await;
        let landed = stack.names("inbox/").await.is_empty();
        if open.is_empty() && landed { Ok(()) } else { Err(format!("{open:?}")) }
    })
    .await;
    let results = stack.results().await;
    assert_own(&results, &jobs);
    assert_eq!(results.len(), jobs.len(), "every job was answered, and nothing else was");
    // Each time that Gemini accepted a job beyond the first is told, or was after a failure that Gemini told.
    let accepted = stack.accepted().await;
    let ledger = stack.ledger();
    for key in jobs.keys() {
        let id = gleaner::domain::item::ItemId::job(&gleaner::domain::job::JobKey(key.clone()));
        let Some(gleaner::domain::item::Item::Job(job)) = ledger.get(&id).await.unwrap() else {
            panic!("{key} is lost")
        };
        assert_eq!(job.state, State::Consumed, "{key}");
        assert_eq!(job.history.iter().filter(|moment| moment.1 == State::Consumed).count(), 1);
        let told = u64::from(job.possible_duplicates);
        let failed =
            job.handles.iter().filter(|handle| handle.fate == gleaner::domain::job::Fate::Ended).count() as u64;
        let times = accepted.get(key).copied().unwrap_or_default();
        assert!((1..=1 + told + failed).contains(&times), "{key}: accepted {times}, told {told}, failed {failed}");
    }
    let ticks: BTreeSet<String> = stack
        .logs("tick")
        .await
        .iter()
        .filter_map(|line| Some(line["span"]["request.id"].as_str()?.to_owned()))
        .collect();
    assert!(ticks.len() >= 6, "{} ticks were logged", ticks.len());
}
