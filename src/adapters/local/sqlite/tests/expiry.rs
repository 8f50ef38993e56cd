//! Forgetting, and files of the version that could not.

use super::*;
use crate::ports::conformance::ledger::{all, list};
use crate::ports::conformance::sample::minute;

/// The tables of version 1, as they were.
const VERSION_1: &str = "
CREATE TABLE items (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    rev TEXT NOT NULL,
    due_at INTEGER,
    since INTEGER NOT NULL,
    intake TEXT NOT NULL,
    possible_duplicates INTEGER NOT NULL,
    doc TEXT NOT NULL
) STRICT;
CREATE INDEX items_due ON items (state, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX items_in_state ON items (kind, state, since, id);
CREATE TABLE handles (
    handle TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tallies (
    intake TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    items INTEGER NOT NULL,
    possible_duplicates INTEGER NOT NULL,
    PRIMARY KEY (intake, kind, state)
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 0x676c6e72;
PRAGMA user_version = 1;
";

/// How that version added an item.
const VERSION_1_ADDS: &str = "
INSERT INTO items (id, kind, state, rev, due_at, since, intake, possible_duplicates, doc)
VALUES (?1, 'job', ?2, ?3, ?4, ?5, ?6, 0, ?7)";

/// Adds a job as that version did.
fn add_as_version_1(connection: &Connection, key: &str) -> Item {
    let item = job(key, &TestIds::new(1));
    let row = Row::of(&item).unwrap();
    let values = rusqlite::params![row.id, row.state, row.rev, row.due_at, row.since, row.intake, row.doc];
    connection.execute(VERSION_1_ADDS, values).unwrap();
    for intake in ["", sample::INTAKE] {
        let tally = "INSERT INTO tallies VALUES (?1, 'job', ?2, 1, 0) ON CONFLICT DO UPDATE SET items = items + 1";
        connection.execute(tally, [intake, row.state]).unwrap();
    }
    item
}

/// The columns and indexes of a file, and its version.
fn shape(path: &Path) -> (Vec<String>, i32) {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT name || ' ' || type || ' ' || \"notnull\" FROM pragma_table_info('items')
               UNION ALL SELECT * FROM (SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name)";
    let mut query = connection.prepare(sql).unwrap();
    let found = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    (found, version)
}

#[tokio::test]
async fn a_file_of_version_1_is_brought_up_to_date_and_loses_nothing() {
    let folder = folder();
    let [old, new] = ["old.db", "new.db"].map(|name| folder.path().join(name));
    let before = Connection::open(&old).unwrap();
    before.execute_batch(VERSION_1).unwrap();
    let first = add_as_version_1(&before, "first");

    let ledger = SqliteLedger::open(&old).unwrap();
    assert_eq!(ledger.get(&first.id()).await.unwrap().as_ref(), Some(&first));
    drop(SqliteLedger::open(&new).unwrap());
    assert_eq!(shape(&old), shape(&new));
    assert_eq!(shape(&old).1, 2);
    // A program of that version that had it open goes on.
    add_as_version_1(&before, "second");
    ledger.create(&Item::Event(sample::event("event", TestIds::new(2).rev()))).await.unwrap();
    assert_eq!(assert_recount(&ledger).await, 3);
    assert_eq!(ledger.forget(Millis(i64::MAX), 100).await.unwrap(), 1);
    assert_eq!(list(&ledger, State::Reserving, 10).await.len(), 2);
    drop(ledger);
    // Opened again it is as any other.
    assert_eq!(assert_recount(&SqliteLedger::open(&old).unwrap()).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_of_version_1_passes_every_rule() {
    let folder = folder();
    let made = AtomicU64::new(0);
    all(async || {
        let path = folder.path().join(format!("{}.db", made.fetch_add(1, Ordering::SeqCst)));
        Connection::open(&path).unwrap().execute_batch(VERSION_1).unwrap();
        SqliteLedger::open(&path).unwrap()
    })
    .await;
}

#[test]
fn many_may_bring_it_up_to_date_at_once() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let before = Connection::open(&path).unwrap();
    before.execute_batch(VERSION_1).unwrap();
    add_as_version_1(&before, "first");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope
                .spawn(|| assert!(reads::get(&file::open_for_writing(&path).unwrap(), "job/first").unwrap().is_some()));
        }
    });
    assert_eq!(shape(&path).1, 2);
}

#[tokio::test]
async fn a_version_that_never_was_is_refused() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    Connection::open(&path).unwrap().execute_batch(VERSION_1).unwrap();
    for version in [-1, 0, 3, i32::MIN, i32::MAX] {
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        let refused = SqliteLedger::open(&path).unwrap_err();
        assert!(matches!(&refused, LedgerError::NeedsPerson(why) if why.contains(&version.to_string())), "{refused}");
        assert_eq!(shape(&path).1, version);
    }
}

#[tokio::test]
async fn forgetting_takes_no_turn_when_nothing_has_expired() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    let revs = TestIds::new(1);
    ledger.create(&Item::Event(sample::event("event", revs.rev()))).await.unwrap();
    ledger.create(&job("a", &revs)).await.unwrap();
    // While another one writes: who had to write too would wait for it.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(ledger.forget(minute(1), 100).await.unwrap(), 0);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(ledger.forget(Millis(i64::MAX), 100).await.unwrap(), 1);
}

#[tokio::test]
async fn what_was_asked_of_a_forgetful_ledger_and_dropped_is_done() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    let revs = TestIds::new(1);
    let events: Vec<Item> = (0..500).map(|n| Item::Event(sample::event(&n.to_string(), revs.rev()))).collect();
    join_all(events.iter().map(|event| ledger.create(event))).await.into_iter().for_each(Result::unwrap);
    assert_eq!(ledger.writer.forget(i64::MAX, 400).await.unwrap(), 400);
    assert!(futures::poll!(Box::pin(ledger.writer.forget(i64::MAX, 60))).is_pending());
    drop(ledger);
    assert_eq!(assert_recount(&SqliteLedger::open(&path).unwrap()).await, 40);
}
