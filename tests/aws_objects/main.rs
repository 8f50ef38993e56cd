//! Objects and the inbox in S3: the ports' suites on two emulators, faults that no emulator makes, and bounded memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "../again/mod.rs"]
mod again;
#[path = "../emulator/mod.rs"]
mod emulator;
mod inbox;
mod place;
mod reads;
mod streams;
mod writes;

use std::path::Path;
use std::sync::Arc;

use again::runtime;
use aws_sdk_s3::types::Delete;
use emulator::Kind;
use gleaner::adapters::aws::s3::{S3Inbox, S3Objects};
use gleaner::ports::conformance::objects::Counting;
use gleaner::ports::conformance::{inbox as inbox_rules, objects as rules};
use gleaner::ports::objects::{Objects, Put};
use place::Place;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_ministack_it_is_a_store_of_objects() {
    it_is_a_store_of_objects(Kind::Ministack).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_moto_it_is_a_store_of_objects() {
    it_is_a_store_of_objects(Kind::Moto).await;
}

async fn it_is_a_store_of_objects(kind: Kind) {
    let place = Place::direct(kind).await;
    rules::all(async || S3Objects::new(place.client.clone(), place.fresh_bucket().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_ministack_it_is_an_inbox() {
    it_is_an_inbox(Kind::Ministack, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_moto_it_is_an_inbox() {
    it_is_an_inbox(Kind::Moto, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_ministack_bucket_without_versions_it_is_an_inbox() {
    it_is_an_inbox(Kind::Ministack, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_moto_bucket_without_versions_it_is_an_inbox() {
    it_is_an_inbox(Kind::Moto, false).await;
}

async fn it_is_an_inbox(kind: Kind, versioned: bool) {
    let place = Place::direct(kind).await;
    inbox_rules::all(async || {
        let bucket = if versioned { place.versioned_bucket().await } else { place.fresh_bucket().await };
        let inbox = S3Inbox::new(place.client.clone(), bucket.clone());
        (Arc::new(inbox) as _, Arc::new(place::People { client: place.client.clone(), bucket }) as _)
    })
    .await;
}

/// Another process of the test below, when it has been given a role.
#[test]
#[ignore = "it is started by other tests"]
fn another_process() {
    let Some((role, folder)) = again::role() else { return };
    println!();
    match role.as_str() {
        "stream" => println!("peak {}", stream(&folder)),
        other => panic!("no role {other}"),
    }
}

const LONG: u64 = 200 << 20;

/// Streams 200 MB into an object and that into another one, and answers the most memory that this process had, in KB.
fn stream(folder: &Path) -> u64 {
    let told = std::fs::read_to_string(folder.join("place")).unwrap();
    let (url, bucket) = told.split_once(' ').unwrap();
    runtime().block_on(async {
        let client = place::client(url);
        let objects = S3Objects::new(client.clone(), bucket.to_owned());
        let mut source = Counting::up_to(LONG);
        assert_eq!(objects.put_stream("inbox/long", &mut source).await.unwrap(), Put::Written);
        let inbox = S3Inbox::new(client, bucket.to_owned());
        let arrival = gleaner::ports::inbox::Inbox::list(&inbox, 1).await.unwrap().remove(0);
        let mut source = gleaner::ports::inbox::Inbox::open(&inbox, &arrival).await.unwrap();
        assert_eq!(objects.put_stream("copy", &mut source).await.unwrap(), Put::Written);
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_long_stream_stays_out_of_memory() {
    let place = Place::direct(Kind::Moto).await;
    let bucket = place.fresh_bucket().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("place"), format!("{} {bucket}", place.url)).unwrap();
    let said = again::command(&[], "stream", folder.path()).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let peak: u64 = said.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap();
    assert!(peak < 80_000, "{peak} KB");
    let objects = S3Objects::new(place.client.clone(), bucket.clone());
    for at in [0, LONG / 2 + 7, LONG - 1000] {
        let piece = objects.read("copy", at..at + 1000).await.unwrap();
        assert!(piece == (at..at + 1000).map(Counting::byte).collect::<Vec<_>>(), "at {at}");
    }
    // The emulator keeps it in memory otherwise.
    let ids = ["inbox/long", "copy"].map(place::identifier);
    let delete = Delete::builder().set_objects(Some(ids.to_vec())).build().unwrap();
    place.client.delete_objects().bucket(&bucket).delete(delete).send().await.unwrap();
}
