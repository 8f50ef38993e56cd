//! Objects in a folder: the port's suite, several processes at once, killed processes, and bounded memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod again;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

use again::runtime;
use bytes::Bytes;
use futures::future::join_all;
use gleaner::adapters::local::folder::FolderObjects;
use gleaner::domain::time::Millis;
use gleaner::ports::conformance::objects::{self as rules, Counting};
use gleaner::ports::objects::{Objects, Put};

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn it_is_a_store_of_objects() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    rules::all(async || {
        made.set(made.get() + 1);
        FolderObjects::open(folder.path().join(made.get().to_string()), Millis(0)).unwrap()
    })
    .await;
    assert!(made.get() > 5);
}

/// Another process of one of the tests below, when it has been given a role.
#[test]
#[ignore = "it is started by other tests"]
fn another_process() {
    let Some((role, folder)) = again::role() else { return };
    println!();
    match role.as_str() {
        "race" => println!("won {:?}", race(&folder)),
        "write" => write_for_ever(&folder),
        "stream" => println!("peak {}", stream(&folder)),
        other => panic!("no role {other}"),
    }
}

fn open(folder: &Path) -> Arc<FolderObjects> {
    Arc::new(FolderObjects::open(folder, Millis(0)).unwrap())
}

const CONTESTED: usize = 500;

/// Writes every object with all tasks of this process, and answers which ones it won.
fn race(folder: &Path) -> Vec<usize> {
    runtime().block_on(async {
        let objects = open(folder);
        let own = std::process::id().to_string();
        let tasks = (0..8).map(|_| {
            let (objects, own) = (Arc::clone(&objects), Bytes::from(own.clone()));
            tokio::spawn(async move {
                let mut won = Vec::new();
                for n in 0..CONTESTED {
                    // Folders too are made in the race.
                    match objects.put(&format!("results/{}/{n}", n / 10), own.clone()).await.unwrap() {
                        Put::Written => won.push(n),
                        Put::AlreadyThere => {}
                    }
                }
                won
            })
        });
        join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect()
    })
}

#[test]
fn of_8_tasks_in_each_of_2_processes_one_writes_each_object() {
    let folder = tempfile::tempdir().unwrap();
    let other = again::command(&[], "race", folder.path()).spawn().unwrap();
    let (other_id, mut won) = (other.id(), race(folder.path()));
    let own = won.len();
    let said = other.wait_with_output().unwrap();
    assert!(said.status.success());
    let said = String::from_utf8(said.stdout).unwrap();
    let list = said.lines().find_map(|line| line.strip_prefix("won [")).unwrap().trim_end_matches(']');
    let others: Vec<usize> = list.split(", ").filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
    won.extend(&others);
    runtime().block_on(async {
        let objects = open(folder.path());
        for (at, n) in won.iter().enumerate() {
            let winner = if at < own { std::process::id() } else { other_id };
            let stored = objects.get(&format!("results/{}/{n}", n / 10)).await.unwrap();
            assert_eq!(stored, winner.to_string(), "object {n}");
        }
    });
    won.sort_unstable();
    assert_eq!(won, (0..CONTESTED).collect::<Vec<_>>());
}

/// Writes objects whose bytes follow from their names, and says each once its call has returned, until it is killed.
fn write_for_ever(folder: &Path) {
    runtime().block_on(async {
        let objects = open(folder);
        let tasks = (0..8).map(|task| {
            let objects = Arc::clone(&objects);
            tokio::spawn(async move {
                for n in 0.. {
                    let name = format!("results/{}-{task}-{n}", std::process::id());
                    let bytes = name.repeat(1000);
                    let put = if n % 2 == 0 {
                        objects.put(&name, bytes.into()).await
                    } else {
                        objects.put_stream(&name, &mut bytes.as_bytes()).await
                    };
                    assert_eq!(put.unwrap(), Put::Written);
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "ack {name} .").unwrap();
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn a_killed_process_leaves_whole_objects_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for lives in [1, 40, 77, 150] {
        let mut child = again::command(&[], "write", folder.path()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        // A line that was cut has no dot at its end.
        let mut next = || lines.find_map(|line| Some(line.strip_prefix("ack ")?.strip_suffix(" .")?.to_owned()));
        let mut names: Vec<String> = (0..lives).map(|_| next().unwrap()).collect();
        child.kill().unwrap();
        names.extend(std::iter::from_fn(next));
        assert!(!child.wait().unwrap().success());
        let results = folder.path().join("results");
        for name in &names {
            assert!(folder.path().join(name).is_file(), "{name} is lost");
        }
        for entry in results.read_dir().unwrap() {
            let name = format!("results/{}", entry.unwrap().file_name().into_string().unwrap());
            let bytes = std::fs::read(folder.path().join(&name)).unwrap();
            assert!(bytes == name.repeat(1000).as_bytes(), "{name} is not whole");
        }
        acknowledged += names.len();
    }
    assert!(acknowledged >= 268);
    // What was being written waits for an opening that comes an hour later.
    let later = Millis(i64::MAX);
    FolderObjects::open(folder.path(), later).unwrap();
    assert_eq!(folder.path().join("tmp").read_dir().unwrap().count(), 0);
}

/// Streams 300 MB into an object, and answers the memory that this process had at most, in KB.
fn stream(folder: &Path) -> u64 {
    let length = 300 << 20;
    runtime().block_on(async {
        let mut source = Counting::up_to(length);
        assert_eq!(open(folder).put_stream("long", &mut source).await.unwrap(), Put::Written);
        assert_eq!(open(folder).size("long").await.unwrap(), Some(length));
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_stream_stays_out_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let said = again::command(&[], "stream", folder.path()).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let peak: u64 = said.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap();
    assert!(peak < 60_000, "{peak} KB");
}
