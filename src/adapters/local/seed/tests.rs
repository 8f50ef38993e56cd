use std::fs;

use rusqlite::Connection;

use super::*;
use crate::domain::time::Millis;

fn scratch() -> Scratch {
    use crate::ports::ids::Ids as _;
    Scratch::new(&crate::adapters::system::SystemIds.token()).unwrap()
}

fn entries(path: &Path) -> Vec<Entry> {
    let scratch = scratch();
    let mut all = Vec::new();
    let mut file = SeedFile::open(path, scratch.path()).unwrap();
    file.read(&mut |entry| {
        all.push(entry);
        Ok(())
    })
    .unwrap();
    all
}

fn why_not(path: &Path) -> String {
    SeedFile::open(path, scratch().path()).unwrap_err().to_string()
}

/// Names and bytes of everything in a folder.
fn contents(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn what_is_only_in_the_log_is_read_and_nothing_is_written_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reclaim_ledger.db");
    let script = Connection::open(&path).unwrap();
    script
        .execute_batch(
            "PRAGMA journal_mode=WAL;
             CREATE TABLE jobs (idem TEXT PRIMARY KEY, handle TEXT, status TEXT NOT NULL, submitted_at REAL, updated_at REAL NOT NULL);
             INSERT INTO jobs VALUES ('a', 'v1_a', 'submitted', 1764455421.5, 1764455421.5);",
        )
        .unwrap();
    assert!(fs::metadata(folder.path().join("reclaim_ledger.db-wal")).unwrap().len() > 0, "nothing is in the log");
    let before = contents(folder.path());
    let at = Some(Millis(1_764_455_421_500));
    let job = SeedJob {
        idem: "a".to_owned(),
        handle: Some("v1_a".to_owned()),
        status: "submitted".to_owned(),
        submitted_at: at,
        updated_at: at,
    };
    assert_eq!(entries(&path), [Entry::Job(job)]);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn odd_cells_tables_and_columns_are_told_and_nothing_else_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE notes (x);
             CREATE TABLE rows (key, payload, status, attempts, last_error, result, updated_at, colour);
             INSERT INTO rows VALUES ('a', '{}', 'pending', NULL, NULL, NULL, 'yesterday', 'red');
             INSERT INTO rows VALUES ('b', '{}', NULL, 0, NULL, NULL, 1, NULL);
             INSERT INTO rows VALUES ('c', '{}', 'pending', 'many', NULL, NULL, 1, NULL);
             INSERT INTO rows VALUES (x'ff', '{}', 'pending', 1, NULL, NULL, 1, NULL);
             INSERT INTO rows VALUES (7, x'7b7d', 'retryable', 2.0, NULL, NULL, 1, NULL);",
        )
        .unwrap();
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for entry in entries(&path) {
        match entry {
            Entry::Row(row) => rows.push((row.key, row.payload.unwrap(), row.status, row.attempts)),
            Entry::Refused(Refused { table, key, why }) => refused.push((table, key.unwrap_or_default(), why)),
            other => panic!("{other:?}"),
        }
    }
    let row = |key: &str, status: &str, attempts| (key.to_owned(), "{}".to_owned(), status.to_owned(), attempts);
    assert_eq!(rows, [row("a", "pending", 0), row("7", "retryable", 2)]);
    let told: Vec<String> = refused.iter().map(|(table, key, why)| format!("{table} {key}: {why}")).collect();
    assert_eq!(
        told,
        [
            "notes : none of the seed scripts' tables; it is left out",
            "rows : its column colour is none of the seed scripts' and is left out",
            "rows b: status: nothing is there",
            "rows c: attempts: no whole number from 0 on",
            "rows \u{fffd}: key: not UTF-8 (invalid utf-8 sequence of 1 bytes from index 0)",
        ]
    );
}

#[test]
fn what_is_no_seeds_ledger_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(why_not(&path("none.db")).ends_with("there is no such file"));
    assert!(why_not(folder.path()).contains("it is no file"));
    fs::write(path("empty.db"), "").unwrap();
    assert!(why_not(&path("empty.db")).ends_with("the file is empty"));
    fs::write(path("text.db"), "{\"input\": \"a line of jobs, and longer than a header\"}\n".repeat(30)).unwrap();
    assert!(why_not(&path("text.db")).ends_with("it is no SQLite database"));
    let make = |name: &str, sql: &str| Connection::open(path(name)).unwrap().execute_batch(sql).unwrap();
    make("other.db", "CREATE TABLE songs (a); CREATE TABLE singers (b);");
    assert!(
        why_not(&path("other.db")).contains("it has the tables singers, songs, and none of dead_letter, jobs, rows")
    );
    make("columns.db", "CREATE TABLE jobs (idem, state);");
    assert!(why_not(&path("columns.db")).contains("its table jobs has no column status"));
}
