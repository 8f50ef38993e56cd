//! A queue in SQLite: the port's suite, several processes at once, and files that are no queue.
#![expect(clippy::unwrap_used, reason = "tests")]

mod again;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use again::runtime;
use gleaner::adapters::local::sqlite::{SqliteLedger, SqliteQueue};
use gleaner::adapters::system::SystemClock;
use gleaner::domain::time::Millis;
use gleaner::ports::clock::Clock;
use gleaner::ports::conformance::queue as rules;
use gleaner::ports::queue::{Queue, QueueError};
use gleaner::ports::testing::TestClock;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_is_a_queue() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::skipping(Millis(1_000)));
    let made = std::cell::Cell::new(0);
    rules::all(&*clock, async || {
        made.set(made.get() + 1);
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        SqliteQueue::open(folder.path().join(format!("{}.db", made.get())), clock).unwrap()
    })
    .await;
    assert!(made.get() > 5);
}

/// Another process of the test below, when it has been given a role.
#[test]
#[ignore = "it is started by other tests"]
fn another_process() {
    let Some((role, folder)) = again::role() else { return };
    println!();
    match role.as_str() {
        "work" => println!("got {:?}", work(&folder)),
        other => panic!("no role {other}"),
    }
}

const MESSAGES: usize = 300;

fn open(folder: &Path) -> SqliteQueue {
    SqliteQueue::open(folder.join("queue.db"), Arc::new(SystemClock)).unwrap()
}

/// Sends its share, then receives and deletes until a row of receives brings nothing. Answers what it got.
fn work(folder: &Path) -> Vec<String> {
    runtime().block_on(async {
        let queue = open(folder);
        for n in 0..MESSAGES {
            let body = format!("{}-{n}", std::process::id());
            assert_eq!(queue.send(&[body]).await, [Ok(())]);
        }
        let mut got = Vec::new();
        loop {
            let messages = queue.receive(5, Duration::from_secs(3600)).await.unwrap();
            if messages.is_empty() {
                return got;
            }
            assert!(queue.delete(&messages).await.iter().all(Result::is_ok));
            got.extend(messages.into_iter().map(|message| message.body));
        }
    })
}

#[test]
fn processes_share_it_without_loss_and_without_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let other = again::command(&[], "work", folder.path()).spawn().unwrap();
    let mut got = work(folder.path());
    let said = other.wait_with_output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8(said.stdout).unwrap();
    let list = said.lines().find_map(|line| line.strip_prefix("got [")).unwrap().trim_end_matches(']');
    got.extend(list.split(", ").filter(|body| !body.is_empty()).map(|body| body.trim_matches('"').to_owned()));
    assert_eq!(got.len(), MESSAGES * 2);
    got.sort();
    got.dedup();
    assert_eq!(got.len(), MESSAGES * 2);
}

#[tokio::test]
async fn messages_outlive_the_process_that_sent_them() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open(folder.path()).send(&["kept".to_owned()]).await, [Ok(())]);
    let received = open(folder.path()).receive(1, Duration::from_secs(3600)).await.unwrap();
    assert_eq!(received.len(), 1);
    // It stays hidden from others too.
    let queue = open(folder.path());
    assert_eq!(queue.receive(1, Duration::ZERO).await.unwrap(), []);
    assert_eq!(queue.delete(&received).await, [Ok(())]);
}

#[test]
fn what_is_no_queue_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger.db");
    drop(SqliteLedger::open(&ledger).unwrap());
    let text = folder.path().join("text.db");
    std::fs::write(&text, "a text that is longer than the head of a database, which has 100 bytes. ".repeat(3))
        .unwrap();
    let missing = folder.path().join("missing/queue.db");
    for (path, words) in [(&ledger, "for another purpose"), (&text, "no queue"), (&missing, "must be a folder")] {
        let before = std::fs::read(path).ok();
        let error = SqliteQueue::open(path, Arc::new(SystemClock)).unwrap_err();
        assert!(matches!(&error, QueueError::NeedsPerson(why) if why.contains(words)), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read(path).ok(), before);
    }
    let queue = folder.path().join("queue.db");
    drop(open(folder.path()));
    let error = SqliteLedger::open(&queue).unwrap_err().to_string();
    assert!(error.contains("for another purpose"), "{error}");
}
