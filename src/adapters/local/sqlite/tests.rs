use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use rusqlite::Connection;

use super::*;
use crate::ports::conformance::ledger::assert_recount;
use crate::ports::conformance::sample;
use crate::ports::testing::TestIds;

mod expiry;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn job(key: &str, revs: &TestIds) -> Item {
    Item::Job(sample::job(key, revs.rev()))
}

/// What SQLite does for a query, a line per step.
fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![""; explained.parameter_count()];
    let steps = explained.query_map(rusqlite::params_from_iter(parameters), |step| step.get("detail")).unwrap();
    steps.map(Result::unwrap).collect()
}

#[test]
fn every_query_is_led_by_an_index_and_none_sorts() {
    let folder = folder();
    let connection = file::open_for_writing(&folder.path().join("ledger.db")).unwrap();
    let queries = [
        (reads::due_sql(1), "items_due (state=? AND due_at<?)"),
        (reads::due_sql(10), "items_due (state=? AND due_at<?)"),
        (reads::next_due_sql(1), "items_due (state=? AND due_at>?)"),
        (reads::next_due_sql(10), "items_due (state=? AND due_at>?)"),
        (reads::in_state_sql(), "items_in_state (kind=? AND state=? AND (since,id)>(?,?))"),
        (reads::COUNTS.to_owned(), "items_in_state (kind=? AND state=?)"),
        (reads::COUNTS.to_owned(), "PRIMARY KEY (intake=?)"),
        (reads::TOTALS.to_owned(), "PRIMARY KEY (intake=?)"),
        (reads::HAS_EXPIRED.to_owned(), "items_expires (expires<?)"),
        (group::FORGET.to_owned(), "items_expires (expires<?)"),
        (group::FORGET.to_owned(), "INTEGER PRIMARY KEY (rowid=?)"),
    ];
    for (sql, index) in queries {
        let steps = plan(&connection, &sql);
        assert!(steps.iter().any(|step| step.starts_with("SEARCH") && step.contains(index)), "{sql}\n{steps:#?}");
        let costly =
            |step: &String| (step.starts_with("SCAN") && step != "SCAN CONSTANT ROW") || step.contains("TEMP B-TREE");
        assert!(!steps.iter().any(costly), "{sql}\n{steps:#?}");
    }
}

#[test]
fn a_commit_is_on_the_disk_when_it_returns() {
    let folder = folder();
    let connection = file::open_for_writing(&folder.path().join("ledger.db")).unwrap();
    let synchronous: i32 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    // In this mode only FULL (2) syncs the log at each commit: https://www.sqlite.org/pragma.html#pragma_synchronous
    assert_eq!((synchronous, mode.as_str()), (2, "wal"));
}

#[tokio::test]
async fn the_log_does_not_grow_while_readers_overlap() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let limit = 1 << 20;
    let options = Options { log_bytes: limit, ..Options::default() };
    let ledger = SqliteLedger::open_with(&path, options).unwrap();
    let log = || std::fs::metadata(folder.path().join("ledger.db-wal")).unwrap().len();

    // Readers of which one is always in the log.
    let ended = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (path, ended) = (path.clone(), Arc::clone(&ended));
            std::thread::spawn(move || {
                let connection = file::open_for_reading(&path).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    reads::in_state(&connection, State::Reserving, None, 200).unwrap();
                }
            })
        })
        .collect();
    let revs = TestIds::new(1);
    let (mut longest, mut written) = (0, 0_u64);
    for round in 0..150 {
        let jobs: Vec<Item> = (0..16).map(|n| job(&format!("{round}-{n}"), &revs)).collect();
        join_all(jobs.iter().map(|item| ledger.create(item))).await.into_iter().for_each(Result::unwrap);
        written += 16;
        longest = longest.max(log());
    }
    ended.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    // It passed the limit again and again, and was cut each time, late by some writes when a reader was in the way.
    assert!(longest > limit, "the test writes too little to see anything: {longest}");
    assert!(longest < 6 * limit, "{longest} bytes for {written} writes");
}

#[tokio::test]
async fn a_write_that_breaks_the_transaction_is_alone_in_failing() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path).unwrap());
    let breaker = Connection::open(&path).unwrap();
    breaker
        .execute_batch(
            "CREATE TRIGGER no BEFORE INSERT ON items WHEN new.id = 'job/3' BEGIN SELECT raise(ROLLBACK, 'no'); END",
        )
        .unwrap();
    // While the lock is taken, the writes gather into one group.
    breaker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writes = (0..8).map(|n| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move { ledger.create(&job(&n.to_string(), &TestIds::new(n))).await.is_ok() })
    });
    let writes: Vec<_> = writes.collect();
    tokio::task::yield_now().await;
    breaker.execute_batch("COMMIT").unwrap();
    let outcomes: Vec<bool> = join_all(writes).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes, [true, true, true, false, true, true, true, true]);
    assert_eq!(assert_recount(&*ledger).await, 7);
}

#[test]
fn a_group_that_cannot_commit_leaves_nothing_and_no_open_transaction() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let connection = file::open_for_writing(&path).unwrap();
    // The check of a deferred foreign key fails at the commit, and leaves the transaction open.
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE child (id TEXT REFERENCES handles (handle) DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER orphan AFTER INSERT ON items WHEN new.id = 'job/bad'
             BEGIN INSERT INTO child VALUES ('nobody'); END;",
        )
        .unwrap();
    let turn = turn::Turn::open(&path).unwrap();
    let write = |key: &str| writes::Write::for_test(None, Row::of(&job(key, &TestIds::new(1))).unwrap());
    let outcome = group::commit(&connection, &turn, &[write("good"), write("bad")]);
    assert!(matches!(outcome, Err(group::Broken::Whole(_))), "{outcome:?}");
    assert!(connection.is_autocommit());
    assert!(reads::get(&connection, "job/good").unwrap().is_none());
    assert_eq!(reads::counts(&connection).unwrap(), []);
    assert!(matches!(group::commit(&connection, &turn, &[write("good")]).unwrap()[..], [Verdict::Written]));
    assert!(reads::get(&connection, "job/good").unwrap().is_some());
}

#[tokio::test]
async fn an_unreadable_item_is_named_wherever_it_is_met() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    let revs = TestIds::new(1);
    for key in ["good", "cut", "moved"] {
        ledger.create(&job(key, &revs)).await.unwrap();
    }
    let other = Connection::open(&path).unwrap();
    other.execute("UPDATE items SET doc = substr(doc, 1, 50) WHERE id = 'job/cut'", []).unwrap();
    other.execute("UPDATE items SET doc = replace(doc, 'moved', 'other') WHERE id = 'job/moved'", []).unwrap();

    let names = |error: LedgerError, id: &str| {
        assert!(matches!(&error, LedgerError::NeedsPerson(why) if why.contains(id)), "{error}");
    };
    for key in ["job/cut", "job/moved"] {
        names(ledger.get(&ItemId(key.to_owned())).await.unwrap_err(), key);
    }
    names(ledger.in_state(State::Reserving, None, 10).await.unwrap_err(), "job/cut");
    names(ledger.due(&[State::Reserving], sample::minute(9), 10).await.unwrap_err(), "job/cut");
    match ledger.create(&job("cut", &revs)).await {
        Err(CreateError::Ledger(error)) => names(error, "job/cut"),
        other => panic!("{other:?}"),
    }
    assert!(ledger.get(&ItemId("job/good".to_owned())).await.unwrap().is_some());
}

#[tokio::test]
async fn dropping_the_ledger_finishes_what_was_asked_for() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    let revs = TestIds::new(1);
    let jobs: Vec<Item> = (0..50).map(|n| job(&n.to_string(), &revs)).collect();
    for item in &jobs {
        // Asked once, then forgotten: the write is queued and nobody waits for it.
        let forgotten = futures::poll!(ledger.create(item));
        assert!(forgotten.is_pending());
    }
    drop(ledger);
    assert!(!folder.path().join("ledger.db-wal").exists(), "the last one to leave writes the log back");
    assert_eq!(assert_recount(&SqliteLedger::open(&path).unwrap()).await, 50);
}

#[tokio::test]
async fn a_lock_that_stays_is_told_as_busy() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let connection = file::open_for_writing(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let turn = turn::Turn::open(&path).unwrap();
    connection.busy_timeout(Duration::from_millis(1)).unwrap();
    let write = writes::Write::for_test(None, Row::of(&job("a", &TestIds::new(1))).unwrap());
    let Err(group::Broken::Whole(error)) = group::commit(&connection, &turn, &[write]) else {
        panic!("it was not locked")
    };
    assert!(matches!(Fault::Sqlite(error).of(&path), LedgerError::Busy(why) if why.contains("ledger.db")));
}

#[test]
fn who_waits_gets_its_turn_while_another_writes_without_a_pause() {
    const TURNS: u64 = 40;
    let folder = folder();
    let path = folder.path().join("ledger.db");
    // Large groups of what is there already: the lock is hardly ever free.
    let writer = |group: u64| {
        let connection = file::open_for_writing(&path).unwrap();
        let (turn, revs) = (turn::Turn::open(&path).unwrap(), TestIds::new(group));
        let row = |n: u64| Row::of(&job(&format!("{group}-{n}"), &revs)).unwrap();
        let writes: Vec<_> = (0..group).map(|n| writes::Write::for_test(None, row(n))).collect();
        move || group::commit(&connection, &turn, &writes).unwrap().len()
    };
    let (ended, hogged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (hog, waiting) = (writer(200), writer(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hog = hog;
            while !ended.load(Ordering::SeqCst) {
                hog();
                hogged.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut meanwhile = 0;
        for _ in 0..TURNS {
            let begun = hogged.load(Ordering::SeqCst);
            while hogged.load(Ordering::SeqCst) < begun + 3 {
                std::thread::yield_now();
            }
            let before = hogged.load(Ordering::SeqCst);
            waiting();
            meanwhile += hogged.load(Ordering::SeqCst) - before;
        }
        ended.store(true, Ordering::SeqCst);
        // One or two each time, when both threads run; hundreds each time if turns weren't taken.
        assert!(meanwhile < TURNS * 20, "another took {meanwhile} turns while this one waited for {TURNS}");
    });
}
