//! The data folder: its layout, and the disks that it can't be on.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod again;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use again::runtime;
use bytes::Bytes;
use gleaner::adapters::local::{DataFolder, OpenError};
use gleaner::domain::item::Item;
use gleaner::domain::job::Rev;
use gleaner::domain::time::Millis;
use gleaner::ports::conformance::ledger::assert_recount;
use gleaner::ports::conformance::sample;
use gleaner::ports::ledger::{CreateError, Ledger, LedgerError};
use gleaner::ports::objects::{ObjectError, Objects, Put};
use gleaner::ports::testing::TestIds;

/// More than the small disk of the tests holds, and more than a file may have there.
const HUGE: usize = 8 << 20;

fn job(key: &str, revs: &TestIds) -> Item {
    Item::Job(sample::full_job(key, revs.rev()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Another process of one of the tests below, when it has been given a role.
#[test]
#[ignore = "it is started by other tests"]
fn another_process() {
    let Some((role, folder)) = again::role() else { return };
    println!();
    match role.as_str() {
        "full" => on_a_full_disk(&folder),
        "limited" => runtime().block_on(async {
            let (jobs, objects, _) = fill(&folder).await;
            println!("written {jobs} {objects}");
        }),
        "read-only" => assert_refused(&folder, &["read-only"]),
        other => panic!("no role {other}"),
    }
}

/// How to run a command where it can mount what only it sees, if this machine lets us.
fn private_mounts() -> Option<Vec<&'static str>> {
    let ways = [vec!["unshare", "--mount"], vec!["unshare", "--user", "--map-root-user", "--mount"]];
    ways.into_iter().find(|way| {
        let probe = ["sh", "-c", "mount -t tmpfs tmpfs /tmp"];
        Command::new(way[0]).args(&way[1..]).args(probe).output().is_ok_and(|output| output.status.success())
    })
}

/// Runs `role` after the shell has run `prepare`, in which `$GLEANER_TEST_FOLDER` is the folder.
fn run(way: &[&str], prepare: &str, role: &str, folder: &Path) -> Output {
    let script = format!("{prepare} && exec \"$0\" \"$@\"");
    let wrapper = [way, &["sh", "-c", &script]].concat();
    let output = again::command(&wrapper, role, folder).stderr(std::process::Stdio::piped()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "the role was not played");
    output
}

fn assert_refused(root: &Path, words: &[&str]) {
    let error = DataFolder::open(root, Millis(0)).unwrap_err();
    let needs_person = matches!(
        error,
        OpenError::Ledger(LedgerError::NeedsPerson(_)) | OpenError::Objects(ObjectError::NeedsPerson(_))
    );
    assert!(needs_person, "{error:?}");
    let why = error.to_string();
    for word in words.iter().copied().chain([root.to_str().unwrap()]) {
        assert!(why.contains(word), "{word:?} is not in: {why}");
    }
}

#[test]
fn it_is_made_with_its_folders_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("deep/down/.gleaner");
    let revs = TestIds::new(1);
    runtime().block_on(async {
        let first = DataFolder::open(&root, Millis(0)).unwrap();
        let second = DataFolder::open(&root, Millis(0)).unwrap();
        first.ledger.create(&job("a", &revs)).await.unwrap();
        first.objects.put("results/a.json", Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(assert_recount(&*second.ledger).await, 1);
        assert_eq!(second.objects.get("results/a.json").await.unwrap(), &b"{}"[..]);
    });
    assert_eq!(names(&root), ["answers", "intakes", "ledger.db", "ledger.db-turn", "results", "tmp"]);
    assert_eq!(names(&root.join("results")), ["a.json"]);
    assert_eq!(runtime().block_on(assert_recount(&*DataFolder::open(&root, Millis(0)).unwrap().ledger)), 1);
}

#[test]
fn a_file_in_its_place_or_in_that_of_a_part_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "mine").unwrap();
    assert_refused(&file, &["a file is where a folder is needed", "move the file away"]);
    assert_refused(&file.join("deeper"), &["a file is where a folder is needed"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");

    for part in ["tmp", "intakes", "results", "answers"] {
        let root = folder.path().join(format!("with-{part}"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join(part), "mine").unwrap();
        assert_refused(&root, &[part, "a file is where a folder is needed"]);
    }
    let root = folder.path().join("with-ledger");
    std::fs::create_dir_all(root.join("ledger.db")).unwrap();
    assert_refused(&root, &["ledger.db", "folder"]);
}

#[test]
fn a_folder_that_can_not_be_written_is_refused() {
    // Nobody can make a folder there, whoever runs this.
    assert_refused(Path::new("/proc/gleaner"), &[]);

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    let data = DataFolder::open(&root, Millis(0)).unwrap();
    runtime().block_on(data.ledger.create(&job("a", &TestIds::new(1)))).unwrap();
    drop(data);
    if let Some(way) = private_mounts() {
        let prepare = r#"mount --bind "$GLEANER_TEST_FOLDER" "$GLEANER_TEST_FOLDER" &&
                         mount -o remount,bind,ro "$GLEANER_TEST_FOLDER""#;
        run(&way, prepare, "read-only", &root);
    } else {
        println!("mounts are not allowed here: only the folder above was tried");
    }
    assert_eq!(runtime().block_on(assert_recount(&*DataFolder::open(&root, Millis(0)).unwrap().ledger)), 1);
}

/// Writes jobs and objects until the ledger has no room, and answers how many of each were written, and the last errors.
async fn fill(root: &Path) -> (u64, u64, Vec<String>) {
    let data = DataFolder::open(root, Millis(0)).unwrap();
    let revs = TestIds::new(1);
    let (mut objects, mut errors, mut jobs) = (0, Vec::new(), 0);
    loop {
        match data.ledger.create(&job(&jobs.to_string(), &revs)).await {
            Ok(()) => jobs += 1,
            Err(CreateError::Ledger(LedgerError::NeedsPerson(why))) => {
                errors.push(why);
                break;
            }
            Err(other) => panic!("{other}"),
        }
        let name = format!("results/{objects}");
        match data.objects.put(&name, Bytes::from(name.repeat(1000))).await {
            Ok(put) => {
                assert_eq!(put, Put::Written);
                objects += 1;
            }
            Err(error) => assert_refused_object(&data, &name, &error).await,
        }
    }
    let huge = data.objects.put("results/huge", vec![0; HUGE].into()).await.unwrap_err();
    assert_refused_object(&data, "results/huge", &huge).await;
    let streamed = data.objects.put_stream("results/huge", &mut &vec![0; HUGE][..]).await.unwrap_err();
    assert_refused_object(&data, "results/huge", &streamed).await;
    errors.extend([huge.to_string(), streamed.to_string()]);
    assert_eq!(names(&root.join("tmp")), Vec::<String>::new());
    // What was written can be read all the same.
    assert_eq!(assert_recount(&*data.ledger).await, jobs);
    (jobs, objects, errors)
}

async fn assert_refused_object(data: &DataFolder, name: &str, error: &ObjectError) {
    assert!(matches!(error, ObjectError::NeedsPerson(_)), "{error:?}");
    assert_eq!(data.objects.size(name).await.unwrap(), None);
}

/// Everything that was written is there, and work goes on.
async fn check(root: &Path, jobs: u64, objects: u64) {
    assert!(jobs > 10 && objects > 10, "{jobs} jobs and {objects} objects are too few to see anything");
    let data = DataFolder::open(root, Millis(0)).unwrap();
    assert_eq!(assert_recount(&*data.ledger).await, jobs);
    assert_eq!(names(&root.join("results")).len() as u64, objects);
    for n in 0..objects {
        let name = format!("results/{n}");
        assert_eq!(data.objects.get(&name).await.unwrap(), name.repeat(1000));
    }
    data.ledger.create(&Item::Job(sample::job("next", Rev("next".to_owned())))).await.unwrap();
    data.objects.put("results/next", Bytes::from_static(b"next")).await.unwrap();
}

fn on_a_full_disk(root: &Path) {
    let ballast = root.join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    runtime().block_on(async {
        let (jobs, objects, errors) = fill(root).await;
        for error in errors {
            assert!(error.contains("the disk is full") && error.contains("free some space"), "{error}");
        }
        // Started on the full disk it works or says why it doesn't.
        if let Err(error) = DataFolder::open(root, Millis(0)) {
            assert!(error.to_string().contains("free"), "{error}");
        }
        std::fs::remove_file(&ballast).unwrap();
        check(root, jobs, objects).await;
    });
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    match private_mounts() {
        Some(way) => {
            run(&way, r#"mount -t tmpfs -o size=6m tmpfs "$GLEANER_TEST_FOLDER""#, "full", folder.path());
        }
        None => limited(folder.path()),
    }
}

#[test]
fn files_that_may_not_grow_are_told_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    limited(folder.path());
}

/// Fills a folder in which no file may have more than a few MB (a block is 512 bytes, or 1 KB in some shells).
fn limited(root: &Path) {
    let output = run(&[], "trap '' XFSZ && ulimit -f 3000", "limited", root);
    let said = String::from_utf8(output.stdout).unwrap();
    let written = said.lines().find_map(|line| line.strip_prefix("written ")).unwrap();
    let (jobs, objects) = written.split_once(' ').unwrap();
    runtime().block_on(check(root, jobs.parse().unwrap(), objects.parse().unwrap()));
}

#[test]
fn several_in_one_process_share_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let folders: Vec<_> = (0..4).map(|_| Arc::new(DataFolder::open(folder.path(), Millis(0)).unwrap())).collect();
        let tasks = (0..80).map(|n| {
            let data = Arc::clone(&folders[n % 4]);
            tokio::spawn(async move {
                data.ledger.create(&job(&(n % 40).to_string(), &TestIds::new(n as u64))).await.is_ok()
            })
        });
        let won = futures::future::join_all(tasks).await.into_iter().filter(|won| *won.as_ref().unwrap()).count();
        assert_eq!(won, 40);
        assert_eq!(assert_recount(&*folders[3].ledger).await, 40);
    });
}
