//! Batch runs in the stack: by its functions, by two workers at once, and with functions killed in between.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gleaner::adapters::gemini::Offline;
use gleaner::adapters::system::{SystemClock, SystemIds};
use gleaner::app::engine::Engine;
use gleaner::app::report::{Progress, every, progress};
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::State;
use gleaner::domain::part::attempt_key;
use gleaner::ports::handover::Nobody;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::books::{audit, file};
use super::deployed::{Deployed, eventually};

/// An engine on the stack that only looks.
pub fn looking(stack: &Deployed) -> Engine {
    Engine {
        ledger: stack.parts.ledger.clone(),
        objects: stack.parts.objects.clone(),
        gemini: Arc::new(Offline::default()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        work_queue: None,
        left_work: None,
        dead_letters: stack.parts.dead_letters.clone(),
        ends: None,
        handover: Arc::new(Nobody),
        settings: Default::default(),
        headers: Default::default(),
        sweeps: Default::default(),
        stopping: Default::default(),
    }
}

pub fn sha256_of(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// How far a run is; none before it has landed.
pub async fn how_far(engine: &Engine, sha256: &str) -> Option<Progress> {
    let landed = engine.ledger.get(&ItemId::intake(sha256)).await.unwrap()?;
    assert!(matches!(landed, Item::Intake(_)));
    Some(progress(engine, sha256).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_rows_goes_from_the_inbox_to_its_results() {
    let stack = Deployed::new(&[], &[("TickState", "DISABLED"), ("PartRows", "60")]).await;
    let text = file(200);
    stack.put("tonight/rows.jsonl", text.clone()).await;
    let (engine, run) = (looking(&stack), sha256_of(&text));
    eventually("the run is over", async || {
        let told = stack.invoke("tick", &json!({})).await?;
        assert_eq!(told["troubles"], json!([]), "{told}");
        match how_far(&engine, &run).await {
            Some(progress) if progress.is_over() => Ok(()),
            progress => Err(format!("{progress:?}")),
        }
    })
    .await;
    let over = progress(&engine, &run).await.unwrap();
    let books = audit(&engine, &over, &text).await;
    assert_eq!((books.values.len(), books.dead.len()), (200, 0));
    assert_eq!(over.run.unwrap().parts.len(), 4);
    assert_eq!(stack.names("inbox/").await, [] as [&str; 0]);
    // What takes long is not the tick's: the worker uploads rows and makes passes.
    let said = |lines: &[Value], what: &str| lines.iter().filter(|line| line["message"] == what).count();
    let (ticks, works) = (stack.logs("tick").await, stack.logs("worker").await);
    assert_eq!((said(&ticks, "uploaded"), said(&ticks, "counted")), (0, 0));
    assert_eq!((said(&works, "uploaded"), said(&works, "counted")), (4, 4));
}

/// An event of the work queue that names every part that is open, and the latest attempt of each.
async fn all_work(engine: &Engine) -> Value {
    let mut items = Vec::new();
    for state in [State::Waiting, State::UnderWay] {
        for item in every(engine, state, usize::MAX).await.unwrap() {
            let Item::Part(part) = &item else { continue };
            items.push(item.id());
            let latest = part.latest().map(|latest| attempt_key(&part.run, &part.part, latest.number));
            items.extend(latest.map(|key| ItemId::job(&key)));
        }
    }
    let record = |(n, id): (usize, &ItemId)| {
        json!({"messageId": n.to_string(), "receiptHandle": n.to_string(), "body": json!({"item": id}).to_string(),
            "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:work", "awsRegion": "us-east-1"})
    };
    json!({"Records": items.iter().enumerate().map(record).collect::<Vec<_>>()})
}

/// The functions' processes: what the emulator has started, and runs the built program.
fn processes(emulator: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if program.file_name() == Some("bootstrap".as_ref()) && is_below(pid, emulator) {
            found.push(pid);
        }
    }
    found
}

fn is_below(mut pid: u32, ancestor: u32) -> bool {
    while pid > 1 {
        if pid == ancestor {
            return true;
        }
        let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
        // Behind the name, which is in brackets: the state, then the parent.
        let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        pid = parent.and_then(|parent| parent.parse().ok()).unwrap_or(0);
    }
    false
}

/// Kills one of the functions' processes, wherever it is. False: there was none.
fn kill_one(emulator: u32, dice: &TestIds) -> bool {
    let running = processes(emulator);
    let chosen = running.get((dice.fraction() * running.len() as f64) as usize);
    // The standard library kills only its own children.
    chosen.is_some_and(|pid| Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success())
}

/// Must end with each row once, although every call to Gemini may fail, two workers are sent the same work at once beside
/// those that take it from the queue, and processes are killed in the midst of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_at_once_and_kills_lose_no_row_and_settle_none_twice() {
    const ROWS: usize = 2000;
    let faults = [
        "passing=0.1",
        "row-safety=0.02",
        "row-error-3=0.02",
        "row-bad-json=0.02",
        "row-refused=0.002",
        "batch-stuck=0.05",
        "get-404-forever=0.05",
    ];
    let parameters = [
        ("TickState", "DISABLED"),
        ("PartRows", "250"),
        ("SubmitLease", "5s"),
        ("ListGap", "1s"),
        ("HttpTimeout", "5s"),
        ("Deadline", "20s"),
    ];
    let stack = Deployed::new(&faults, &parameters).await;
    let text = file(ROWS);
    stack.put("rows.jsonl", text.clone()).await;
    let (engine, run, dice) = (looking(&stack), sha256_of(&text), TestIds::new(4));
    let (mut kills, mut worked) = (0, [0, 0]);
    eventually("the run is over", async || {
        let work = all_work(&engine).await;
        let invoked = async {
            let (bare, worker) = (json!({}), || stack.invoke("worker", &work));
            tokio::join!(stack.invoke("tick", &bare), worker(), worker())
        };
        let killing = async {
            for _ in 0..2 {
                a_moment((dice.fraction() * 600.0) as u64).await;
                // A run that is killed all the time never ends.
                if kills < 25 && kill_one(stack.emulator.id(), &dice) {
                    kills += 1;
                }
            }
        };
        let ((_, first, second), ()) = tokio::join!(invoked, killing);
        for (count, answer) in worked.iter_mut().zip([first, second]) {
            *count += u32::from(answer.is_ok());
        }
        match how_far(&engine, &run).await {
            Some(progress) if progress.is_over() => Ok(()),
            Some(progress) => Err(format!("{:?}", progress.tally)),
            None => Err("it has not landed".to_owned()),
        }
    })
    .await;
    let over = progress(&engine, &run).await.unwrap();
    let books = audit(&engine, &over, &text).await;
    assert_eq!(books.values.len() + books.dead.len(), ROWS);
    println!(
        "{kills} kills, answers of the two workers: {worked:?}, {} succeeded, {} dead, {} attempts",
        books.values.len(),
        books.dead.len(),
        over.run.as_ref().unwrap().attempts()
    );
    assert!(kills >= 10, "{kills} kills");
    assert!(worked.iter().all(|answers| *answers > 2), "{worked:?}");
    assert!(books.values.len() > ROWS / 2, "{:?}", books.dead);
    for (key, (class, attempts)) in &books.dead {
        assert!(!class.starts_with("exhausted:") || *attempts == 4, "{key}: {class} after {attempts} attempts");
    }
}

#[expect(clippy::disallowed_methods, reason = "processes take real time")]
async fn a_moment(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
