//! 1,000 dead letters of five classes.

use std::collections::BTreeMap;
use std::path::Path;

use gleaner::app::replay::{Outcome, Replay};
use gleaner::app::report::{dead, every};
use gleaner::domain::job::{Job, State};
use gleaner::simulator::Config;
use rusqlite::types::Value as Cell;

use super::{apply, outcomes, replay_by};
use crate::world::{MINUTE, Maker, World, json_line};

const OF_EACH: usize = 200;

/// The five ways in which they die, and the classes.
const WAYS: [(&str, &str); 5] = [
    ("incomplete=1", "truncated"),
    ("requires-action=1", "requires_action"),
    ("blocked=1", "blocked:SAFETY"),
    ("bad-json=1", "extract:json"),
    ("failed-silent=1", "exhausted:unknown"),
];

/// They died in five nights, one class after the other.
async fn world() -> World {
    let mut maker = Maker::default();
    maker.settings.max_attempts = 1;
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, maker).await;
    for (night, (fault, class)) in WAYS.into_iter().enumerate() {
        world.set_faults(&[fault]).await;
        let lines: String = (0..OF_EACH).map(|n| json_line(&format!("Night {night}, page {n}."))).collect();
        let intake = world.try_land(&format!("{night}.jsonl"), lines).await.unwrap().intake.sha256;
        while !world.progress(&intake).await.is_over() {
            world.tick().await;
            world.skip().await;
        }
        assert_eq!(dead(&world.engine, Some(class), None, usize::MAX).await.unwrap().len(), OF_EACH, "{class}");
    }
    // Each has its message.
    world.tick().await;
    world.set_faults(&[]).await;
    world
}

/// Every cell of every table of a file, and its bytes and those of its log.
fn content(file: &Path) -> (Vec<Vec<Cell>>, Vec<Vec<u8>>) {
    let log = file.with_extension("db-wal");
    let bytes = [file, &log].map(|path| std::fs::read(path).unwrap_or_default());
    let connection = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
    let tables: Vec<String> =
        connection.prepare(names).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut cells = Vec::new();
    for table in tables {
        let mut all = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
        let width = all.column_count();
        let rows = all.query_map([], |row| (0..width).map(|n| row.get(n)).collect::<Result<Vec<Cell>, _>>()).unwrap();
        cells.extend(rows.map(Result::unwrap));
    }
    (cells, bytes.to_vec())
}

/// Names and sizes of everything in the folder of objects.
fn objects(world: &World) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![world.data()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if !entry.path().to_string_lossy().contains(".db") {
                found.insert(entry.path().display().to_string(), metadata.len());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_dry_run_lists_the_oldest_and_changes_nothing() {
    let world = world().await;
    let state = |world: &World| {
        let files = ["ledger.db", "dead-letters.db"].map(|name| content(&world.data().join(name)));
        (files, objects(world))
    };
    let (before, asked) = (state(&world), world.sim.get("/simulator/stats").await);
    assert!(before.0[1].0.len() >= 1000, "each has its message, with the count of its receipts");
    let listed = dead(&world.engine, None, None, 20).await.unwrap();
    let dry = replay_by(&world.engine, &Replay::default()).await;
    assert_eq!((dry.scanned, dry.dry_run, dry.resubmitted + dry.recovered + dry.still_failing), (20, true, 0));
    assert!(dry.items.iter().map(|item| &item.id).eq(listed.iter().map(|letter| &letter.id)), "as `dead` lists them");
    assert!(dry.items.iter().all(|item| item.outcome == Outcome::WouldReplay && item.class == "truncated"));
    for class in ["blocked", "extract:json", "exhausted"] {
        let request = Replay {
            limit: 1000,
            error_class: Some(class.to_owned()),
            model: Some("gemini-pro-latest".to_owned()),
            ..Replay::default()
        };
        assert_eq!(replay_by(&world.engine, &request).await.scanned as usize, OF_EACH, "{class}");
    }
    let all = replay_by(&world.engine, &Replay { limit: 1000, ..Replay::default() }).await;
    assert_eq!(all.items.len(), 1000);
    let after = state(&world);
    assert!(before == after, "something was written");
    assert_eq!(world.sim.get("/simulator/stats").await, asked, "Gemini was asked");
}

#[tokio::test]
async fn a_filter_and_a_limit_touch_just_those() {
    let world = world().await;
    let before = world.revs().await;
    let blocked = dead(&world.engine, Some("blocked"), None, 30).await.unwrap();
    world.advance(MINUTE);
    let request = Replay { limit: 30, error_class: Some("blocked".to_owned()), ..apply() };
    let replayed = replay_by(&world.engine, &request).await;
    assert_eq!((replayed.scanned, replayed.resubmitted), (30, 30), "{:?}", outcomes(&replayed));
    let expected: Vec<String> = blocked.into_iter().map(|letter| letter.id).collect();
    assert_eq!(replayed.items.iter().map(|item| item.id.clone()).collect::<Vec<_>>(), expected);
    let touched = world.revs().await.into_iter().filter(|(id, rev)| before.get(id) != Some(rev));
    let mut touched: Vec<String> = touched.filter_map(|(id, _)| id.strip_prefix("job/").map(str::to_owned)).collect();
    let mut expected = expected;
    touched.sort();
    expected.sort();
    assert_eq!(touched, expected);
    assert_eq!(world.accepted().await, 1030);
}

/// Two that meet the same dead letters: each job is taken by one of them, and sent once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_at_once_submit_nothing_twice() {
    let world = world().await;
    world.advance(MINUTE);
    let (one, other) = (world.second(), world.second());
    let request = Replay { limit: 1000, ..apply() };
    let (one, other) = tokio::join!(replay_by(&one, &request), replay_by(&other, &request));
    assert_eq!(one.resubmitted + other.resubmitted, 1000, "{:?} {:?}", outcomes(&one), outcomes(&other));
    assert!(one.items.iter().chain(&other.items).all(|item| match item.outcome {
        Outcome::Resubmitted => true,
        Outcome::Left => item.why.as_deref().unwrap().starts_with("somebody else took it up meanwhile"),
        _ => false,
    }));
    let mut sent: BTreeMap<String, usize> = BTreeMap::new();
    for entry in world.log().await {
        *sent.entry(entry["labels"]["gleaner"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(sent.len() == 1000 && sent.values().all(|times| *times == 2), "each once when it died, once now");
    let jobs: Vec<Job> = world.jobs().await;
    assert!(jobs.iter().all(|job| (job.replays, job.attempts, job.possible_duplicates) == (1, 2, 0)));
    while !every(&world.engine, State::Submitted, 1).await.unwrap().is_empty() {
        world.tick().await;
        world.skip().await;
    }
    assert!(world.jobs().await.iter().all(|job| job.state == State::Recovered));
    assert_eq!(world.hands.count(), 1000);
    world.check().await;
}
