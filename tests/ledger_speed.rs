//! How fast the ledger in SQLite and the folder of objects are. Run it alone, with optimisation:
//! `cargo test --release --test ledger_speed -- --ignored --nocapture`.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "it measures real time")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::join_all;
use gleaner::adapters::local::DataFolder;
use gleaner::adapters::system::SystemIds;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{JobKey, Rev, State};
use gleaner::domain::time::Millis;
use gleaner::ports::conformance::sample::{self, minute};
use gleaner::ports::ids::Ids;
use gleaner::ports::ledger::Ledger;
use gleaner::ports::objects::{Objects, Put};

const TASKS: usize = 16;
const OPEN: [State; 6] =
    [State::Reserving, State::Unclear, State::Submitted, State::Done, State::Retryable, State::Reading];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and takes minutes"]
async fn speed() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let data = DataFolder::open(folder.path(), Millis(0)).unwrap();
    for round in 0..2 {
        jobs(&data, 2000, round).await;
    }
    objects(&data, 500).await;
    drop(data);
    let full = DataFolder::open(folder.path().join("full"), Millis(0)).unwrap();
    close_a_million(full.ledger.path());
    let empty = DataFolder::open(folder.path().join("empty"), Millis(0)).unwrap();
    looks(&empty, &full).await;
    jobs(&full, 500, 3).await;
}

/// What a job's life costs: a create and three replaces, in 16 tasks.
async fn jobs(data: &DataFolder, each: usize, round: usize) {
    let begun = Instant::now();
    let tasks = (0..TASKS).map(|_| {
        let ledger = Arc::clone(&data.ledger);
        tokio::spawn(async move {
            for _ in 0..each {
                let mut job = sample::job(&SystemIds.token(), Rev(SystemIds.token()));
                ledger.create(&Item::Job(job.clone())).await.unwrap();
                for state in [State::Submitted, State::Done, State::Consumed] {
                    let read = std::mem::replace(&mut job.rev, Rev(SystemIds.token()));
                    job.enter(state, (state != State::Consumed).then(|| minute(9)), minute(1));
                    if state == State::Submitted {
                        job.handles.push(sample::handle(&format!("v1_{}", SystemIds.token())));
                    }
                    ledger.replace(&read, &Item::Job(job.clone())).await.unwrap();
                }
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    let writes = (each * TASKS * 4) as f64 / begun.elapsed().as_secs_f64();
    println!("round {round}: {writes:.0} creates and replaces per second ({:.0} jobs)", writes / 4.0);
}

async fn objects(data: &DataFolder, each: usize) {
    let begun = Instant::now();
    let tasks = (0..TASKS).map(|_| {
        let objects = Arc::clone(&data.objects);
        tokio::spawn(async move {
            for _ in 0..each {
                let name = format!("results/{}.json", SystemIds.token());
                assert_eq!(objects.put(&name, Bytes::from(vec![b'x'; 1500])).await.unwrap(), Put::Written);
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    println!("{:.0} small objects per second", (each * TASKS) as f64 / begun.elapsed().as_secs_f64());
}

/// What a tick with nothing due asks, of both ledgers in turn, so that other work on the machine slows both.
async fn looks(empty: &DataFolder, full: &DataFolder) {
    let (mut due, mut rest) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..5000 {
        for ((data, due), rest) in [empty, full].into_iter().zip(&mut due).zip(&mut rest) {
            let begun = Instant::now();
            assert_eq!(data.ledger.due(&OPEN, minute(9), 100).await.unwrap(), []);
            due.push(begun.elapsed());
            let begun = Instant::now();
            assert_eq!(data.ledger.next_due(&OPEN).await.unwrap(), None);
            let held: u64 = data.ledger.counts().await.unwrap().items.iter().map(|count| count.items).sum();
            let id = ItemId::job(&JobKey(SystemIds.token()));
            assert_eq!(data.ledger.get(&id).await.unwrap(), None);
            rest.push(begun.elapsed());
            assert!(held == 0 || held == 1_000_000);
        }
    }
    for (closed, (mut due, mut rest)) in [0, 1_000_000].into_iter().zip(due.into_iter().zip(rest)) {
        println!("{closed} closed items: due {:?}; next_due, counts and get {:?}", median(&mut due), median(&mut rest));
    }
}

fn median(took: &mut [std::time::Duration]) -> std::time::Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap()
}

/// Writes a million closed jobs past the ledger, which would take an hour.
fn close_a_million(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let job =
        sample::job_in("<key>", Rev("0123456789abcdef0123456789abcdef".to_owned()), State::Consumed, minute(1), None);
    let doc = serde_json::to_string(&Item::Job(job)).unwrap();
    connection
        .execute(
            "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 999999),
                  key (n, key) AS (SELECT n, printf('%08x%024x', n * 2654435761 % 4294967296, n) FROM n)
             INSERT INTO items (id, kind, state, rev, due_at, since, intake, possible_duplicates, doc)
             SELECT 'job/' || key, 'job', 'consumed', '0123456789abcdef0123456789abcdef', NULL, ?1 + n, ?2, 0,
                    replace(?3, '<key>', key) FROM key",
            (minute(1).0, sample::INTAKE, doc),
        )
        .unwrap();
    connection
        .execute_batch(&format!(
            "INSERT INTO tallies VALUES ('', 'job', 'consumed', 1000000, 0),
                                        ('{}', 'job', 'consumed', 1000000, 0)",
            sample::INTAKE
        ))
        .unwrap();
}
