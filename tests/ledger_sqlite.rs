//! The ledger in SQLite: the port's suite, several processes at once, killed processes, and files that are no ledger.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod again;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::Arc;

use again::runtime;
use futures::future::join_all;
use gleaner::adapters::local::sqlite::SqliteLedger;
use gleaner::adapters::system::SystemIds;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{JobKey, Rev, State};
use gleaner::ports::conformance::{ledger as rules, sample};
use gleaner::ports::ids::Ids;
use gleaner::ports::ledger::{CreateError, Ledger, LedgerError};
use gleaner::ports::testing::TestIds;
use rusqlite::Connection;

/// Tasks that race in each process, each on a thread of its own.
const TASKS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn it_is_a_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    rules::all(async || {
        made.set(made.get() + 1);
        SqliteLedger::open(folder.path().join(format!("{}.db", made.get()))).unwrap()
    })
    .await;
    assert!(made.get() > 10);
}

/// Another process of one of the tests below, when it has been given a role.
#[test]
#[ignore = "it is started by other tests"]
fn another_process() {
    let Some((role, folder)) = again::role() else { return };
    println!();
    match role.as_str() {
        "race" => say_all(&race(&folder)),
        "write" => write_for_ever(&folder),
        other => panic!("no role {other}"),
    }
}

/// Tells the parent process, a line a time.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn say_all(won: &[(String, String)]) {
    won.iter().for_each(|(key, rev)| say(&format!("won {key} {rev}")));
}

/// What a child process says.
struct Said {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Said {
    fn of(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The words of the next line that begins with `verb`, without it. None when the process has ended.
    fn next(&mut self, verb: &str) -> Option<Vec<String>> {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next()? == verb).then(|| words.collect())
        })
    }
}

const CONTESTED: u64 = 3000;
const ADDED: u64 = 25;

fn counter() -> ItemId {
    ItemId::job(&JobKey("counter".to_owned()))
}

/// Races for every id with all tasks of this process, and counts one item up. Answers the ids that it won, with revs.
fn race(folder: &Path) -> Vec<(String, String)> {
    runtime().block_on(async {
        let ledger = Arc::new(SqliteLedger::open(folder.join("ledger.db")).unwrap());
        // All processes begin together.
        say("ready");
        if again::role().is_some() {
            std::io::stdin().lines().next().unwrap().unwrap();
        }
        let tasks = (0..TASKS).map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let mut won = Vec::new();
                for n in 0..CONTESTED {
                    let item = Item::Job(sample::job(&format!("contested-{n}"), Rev(SystemIds.token())));
                    match ledger.create(&item).await {
                        Ok(()) => won.push((format!("contested-{n}"), item.rev().0.clone())),
                        Err(CreateError::Exists(winner)) => assert_ne!(winner.rev(), item.rev()),
                        Err(error) => panic!("{error}"),
                    }
                    if n % (CONTESTED / ADDED) == 0 {
                        rules::add_one(&*ledger, &counter(), &SystemIds).await;
                    }
                }
                won
            })
        });
        join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect()
    })
}

#[test]
fn of_8_threads_in_each_of_2_processes_one_wins_each_id() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = sample::job("counter", Rev("first".to_owned()));
    job.attempts = 0;
    let ledger = SqliteLedger::open(folder.path().join("ledger.db")).unwrap();
    runtime().block_on(ledger.create(&Item::Job(job))).unwrap();
    drop(ledger);

    let mut other = Said::of(again::command(&[], "race", folder.path()).spawn().unwrap());
    other.next("ready").unwrap();
    other.child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut won = race(folder.path());
    let own = won.len();
    while let Some(words) = other.next("won") {
        won.push((words[0].clone(), words[1].clone()));
    }
    assert!(other.child.wait().unwrap().success());
    println!("this process won {own} of {}, the other one {}", won.len(), won.len() - own);

    let winners: HashMap<_, _> = won.iter().cloned().collect();
    assert_eq!((won.len() as u64, winners.len() as u64), (CONTESTED, CONTESTED), "an id was won twice or never");
    assert!(own > 0 && own < won.len(), "one process did it all: nothing raced");
    runtime().block_on(async {
        let ledger = SqliteLedger::open(folder.path().join("ledger.db")).unwrap();
        for (key, rev) in &winners {
            let stored = ledger.get(&ItemId::job(&JobKey(key.clone()))).await.unwrap().unwrap();
            assert_eq!(&stored.rev().0, rev, "{key} is not the winner's");
        }
        let Some(Item::Job(counter)) = ledger.get(&counter()).await.unwrap() else { panic!("it is gone") };
        assert_eq!(u64::from(counter.attempts), 2 * TASKS * ADDED, "a change was lost or made under a stale rev");
        assert_eq!(rules::assert_recount(&ledger).await, CONTESTED + 1);
    });
}

/// Creates jobs and replaces them, and says each change once its call has returned, until it is killed.
fn write_for_ever(folder: &Path) {
    runtime().block_on(async {
        let ledger = Arc::new(SqliteLedger::open(folder.join("ledger.db")).unwrap());
        let tasks = (0..TASKS).map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                loop {
                    let key = SystemIds.token();
                    let mut job = sample::job(&key, Rev(SystemIds.token()));
                    ledger.create(&Item::Job(job.clone())).await.unwrap();
                    say(&format!("ack {key} 1"));
                    for version in 2..=3 {
                        let read = std::mem::replace(&mut job.rev, Rev(SystemIds.token()));
                        job.enter(State::Submitted, Some(sample::minute(9)), sample::minute(1));
                        job.attempts = version;
                        job.handles.push(sample::handle(&format!("{key}-{version}")));
                        ledger.replace(&read, &Item::Job(job.clone())).await.unwrap();
                        say(&format!("ack {key} {version}"));
                    }
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn whatever_was_acknowledged_outlives_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut acknowledged: HashMap<String, u32> = HashMap::new();
    for round in 0..12 {
        let mut writing = Said::of(again::command(&[], "write", folder.path()).spawn().unwrap());
        // It is killed after so many changes, wherever it is then; the first time while it makes the file.
        let lives = if round == 0 { 0 } else { (SystemIds.fraction() * 400.0) as usize };
        let mut note = |words: Vec<String>| {
            let version: u32 = words[1].parse().unwrap();
            let known = acknowledged.entry(words[0].clone()).or_default();
            *known = version.max(*known);
        };
        for _ in 0..lives {
            note(writing.next("ack").unwrap());
        }
        writing.child.kill().unwrap();
        // What it said before it died; a line that was cut has no version.
        while let Some(words) = writing.next("ack") {
            if words.len() == 2 && !words[1].is_empty() {
                note(words);
            }
        }
        assert!(!writing.child.wait().unwrap().success());
        check_after_kill(&path, &acknowledged);
    }
    assert!(acknowledged.len() > 100, "the test wrote too little to see anything");
}

fn check_after_kill(path: &Path, acknowledged: &HashMap<String, u32>) {
    runtime().block_on(async {
        let ledger = SqliteLedger::open(path).unwrap();
        for (key, version) in acknowledged {
            let id = ItemId::job(&JobKey(key.clone()));
            let Some(Item::Job(job)) = ledger.get(&id).await.unwrap() else { panic!("{key} is lost") };
            assert!(job.attempts >= *version, "{key} has fallen back from {version} to {}", job.attempts);
            for handle in &job.handles {
                assert_eq!(ledger.by_handle(&handle.id).await.unwrap().as_ref(), Some(&id));
            }
        }
        rules::assert_recount(&ledger).await;
    });
    let verdict: String =
        Connection::open(path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn many_may_open_a_new_ledger_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let ledger = SqliteLedger::open(path).unwrap();
                    let item = Item::Job(sample::job(&format!("job-{n}"), Rev("a".to_owned())));
                    runtime().block_on(ledger.create(&item)).unwrap();
                });
            }
        });
        let ledger = SqliteLedger::open(&path).unwrap();
        assert_eq!(runtime().block_on(rules::assert_recount(&ledger)), 8);
    }
}

/// Asserts that `path` is refused, that the error names it and says all of `words`.
fn assert_refused(path: &Path, words: &[&str]) {
    match SqliteLedger::open(path) {
        Err(LedgerError::NeedsPerson(why)) => {
            for word in words.iter().copied().chain([path.to_str().unwrap()]) {
                assert!(why.contains(word), "{word:?} is not in: {why}");
            }
        }
        other => panic!("{}: {other:?}", path.display()),
    }
}

fn ledger_with_one_job(path: &Path) {
    let ledger = SqliteLedger::open(path).unwrap();
    runtime().block_on(ledger.create(&Item::Job(sample::job("a", Rev("a".to_owned()))))).unwrap();
}

#[test]
fn a_newer_ledger_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    ledger_with_one_job(&path);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 42).unwrap();
    assert_refused(&path, &["version 42", "version 2", "newer gleaner"]);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert_eq!(runtime().block_on(rules::assert_recount(&SqliteLedger::open(&path).unwrap())), 1);
}

#[test]
fn a_file_that_is_no_ledger_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (n, bytes) in [&b"hello, world\n"[..], &[0; 100], &[7; 100_000]].into_iter().enumerate() {
        let path = folder.path().join(format!("{n}.db"));
        std::fs::write(&path, bytes).unwrap();
        assert_refused(&path, &["no ledger"]);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE cats (name TEXT)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    assert_refused(&foreign, &["another program"]);
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn a_damaged_ledger_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    ledger_with_one_job(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    // The header stays, the table of tables doesn't.
    bytes[100..4096].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    assert_refused(&path, &["damaged", "restore"]);
}

#[test]
fn a_path_where_no_file_can_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("ledger.db");
    std::fs::create_dir(&in_the_way).unwrap();
    assert_refused(&in_the_way, &["folder"]);
    assert_refused(&folder.path().join("missing/ledger.db"), &["must be a folder"]);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_refused(&file.join("ledger.db"), &["must be a folder"]);
    assert_refused(&PathBuf::from("/proc/ledger.db"), &["must be a folder"]);
}

#[test]
fn a_file_that_may_not_grow_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    // As on a full disk, without needing one: SQLite's own limit is the same error.
    let small = SqliteLedger::open_small(&path, 64).unwrap();
    let (written, error) = runtime().block_on(fill(&small));
    assert!(error.contains("the disk is full") && error.contains("free some space"), "{error}");
    assert!(written > 10);
    let added = runtime().block_on(rules::assert_recount(&small));
    assert_eq!(added, written);
    drop(small);
    let ledger = SqliteLedger::open(&path).unwrap();
    assert_eq!(runtime().block_on(rules::assert_recount(&ledger)), written);
    let next = Item::Job(sample::job("next", Rev("a".to_owned())));
    runtime().block_on(ledger.create(&next)).unwrap();
}

/// Creates jobs until one fails. Answers how many were written, and the error.
async fn fill(ledger: &dyn Ledger) -> (u64, String) {
    let revs = TestIds::new(1);
    for n in 0.. {
        match ledger.create(&Item::Job(sample::full_job(&format!("job-{n}"), revs.rev()))).await {
            Ok(()) => {}
            Err(CreateError::Ledger(LedgerError::NeedsPerson(why))) => return (n, why),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("there is no end to the disk")
}
