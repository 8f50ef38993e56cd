//! Consuming: durable first, handed on at least once with the same bytes, and in effect once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use gleaner::app::consume::{hand_on_again, result_object};
use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::tick::Ticked;
use gleaner::domain::job::State;
use gleaner::ports::objects::{ObjectError, Objects, Put};
use gleaner::simulator::Config;
use tokio::io::AsyncRead;
use tokio::task::JoinHandle;

use super::check::is_told_only;
use super::world::{HOUR, LEASE, MINUTE, Maker, World, eventually, lines, text, tick_of};

/// A folder on a disk that can be full.
#[derive(Debug)]
struct Disk {
    folder: Arc<dyn Objects>,
    full: Arc<AtomicBool>,
}

impl Disk {
    fn room(&self) -> Result<(), ObjectError> {
        if self.full.load(Ordering::SeqCst) {
            return Err(ObjectError::NeedsPerson("the disk is full".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Objects for Disk {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Put, ObjectError> {
        self.room()?;
        self.folder.put(name, bytes).await
    }

    async fn put_stream(&self, name: &str, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
        self.room()?;
        self.folder.put_stream(name, source).await
    }

    async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.folder.get(name).await
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.folder.read(name, range).await
    }

    async fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        self.folder.size(name).await
    }
}

/// An engine whose disk is full while the switch says so.
fn on_a_disk(world: &World) -> (Engine, Arc<AtomicBool>) {
    let full = Arc::new(AtomicBool::new(false));
    let engine = world.second();
    let disk = Disk { folder: Arc::clone(&engine.objects), full: Arc::clone(&full) };
    (Engine { objects: Arc::new(disk), ..engine }, full)
}

/// A world with one job, which Gemini has finished and nobody has collected.
async fn finished() -> (World, String) {
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("Finished.")).await;
    world.tick().await;
    world.advance(MINUTE);
    (world, intake)
}

/// A consumer that stalls while it hands on the only result, with a clock of its own.
async fn stalled(world: &World) -> JoinHandle<Result<Ticked, Trouble>> {
    world.hands.open.send_replace(false);
    let before = world.hands.count();
    let (engine, clock) = world.paused();
    let consuming = tokio::spawn(async move {
        let _clock = clock;
        tick_of(&engine).await
    });
    eventually("it is being handed on", async || world.hands.count() == before + 1).await;
    consuming
}

#[tokio::test]
async fn four_failures_are_made_up_for() {
    let (world, intake) = finished().await;
    world.hands.failures.store(4, Ordering::SeqCst);
    let tally = world.until_over(&intake).await.tally;
    let job = world.job().await;
    assert_eq!((tally.consumed, job.consume_tries, job.attempts, job.class), (1, 5, 1, None));
    assert_eq!((world.hands.count(), world.accepted().await), (5, 1));
    world.hands.assert_each(5);
}

#[tokio::test]
async fn five_failures_make_a_dead_letter_that_keeps_the_answer() {
    let (world, intake) = finished().await;
    world.hands.failures.store(u64::MAX, Ordering::SeqCst);
    let tally = world.until_over(&intake).await.tally;
    let job = world.job().await;
    assert_eq!((tally.parked, job.class.as_deref(), is_told_only(&job)), (1, Some("internal:consume"), true));
    assert_eq!(job.answer, Some(result_object(&job.key)));
    assert_eq!((world.objects("results").len(), world.hands.count(), world.accepted().await), (1, 5, 1));
    world.hands.failures.store(0, Ordering::SeqCst);
    world.pass(HOUR * 100, HOUR).await;
    assert_eq!((world.state().await, world.hands.count()), (State::Parked, 5), "a person decides");
    // A person starts anew: it is handed on, and nothing is sent to Gemini for it.
    assert_eq!(hand_on_again(&world.engine, "another file").await.unwrap(), 0);
    assert_eq!(hand_on_again(&world.engine, &intake).await.unwrap(), 1);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, tally.parked, world.hands.count(), world.accepted().await), (1, 0, 6, 1));
}

#[tokio::test]
async fn after_a_crash_the_same_bytes_are_handed_on_again() {
    let (world, intake) = finished().await;
    let consumer = stalled(&world).await;
    consumer.abort();
    let path = world.data().join(result_object(&world.job().await.key));
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    world.hands.open.send_replace(true);
    world.tick().await;
    assert_eq!((world.state().await, world.hands.count()), (State::Done, 1), "its lease holds");
    world.advance(LEASE);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.job().await.consume_tries, world.accepted().await), (1, 2, 1));
    world.hands.assert_each(2);
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), written, "written once");
}

#[tokio::test]
async fn a_consumer_that_crashes_five_times_makes_a_dead_letter_that_keeps_the_answer() {
    let (world, intake) = finished().await;
    for _ in 0..5 {
        stalled(&world).await.abort();
        world.advance(LEASE);
    }
    let tally = world.until_over(&intake).await.tally;
    let job = world.job().await;
    assert_eq!((tally.parked, job.class.as_deref(), job.consume_tries), (1, Some("internal:consume"), 5));
    assert_eq!((world.hands.count(), is_told_only(&job)), (5, true));
    assert_eq!(job.answer, Some(result_object(&job.key)));
}

#[tokio::test]
async fn a_consumer_that_was_taken_for_dead_changes_nothing_afterwards() {
    let (world, intake) = finished().await;
    let late = stalled(&world).await;
    world.advance(LEASE);
    // The second consumer waits at the same door; both go through it at once.
    let engine = world.engine.clone();
    let second = tokio::spawn(async move { tick_of(&engine).await });
    eventually("it is handed on again", async || world.hands.count() == 2).await;
    world.hands.open.send_replace(true);
    let (late, second) = (late.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(late.collected.consumed + second.collected.consumed, 1, "in effect once");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await), (1, 1));
    world.hands.assert_each(2);
}

#[tokio::test]
async fn a_full_disk_is_nobodys_fault() {
    let (world, intake) = finished().await;
    let (engine, full) = on_a_disk(&world);
    full.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        let trouble = tick_of(&engine).await.unwrap_err();
        assert!(matches!(&trouble, Trouble::NeedsPerson(why) if why.contains("disk is full")), "{trouble}");
        let job = world.job().await;
        assert_eq!((job.state, job.consume_tries), (State::Done, 0));
        // Later each time, up to the longest wait between two looks.
        world.advance(MINUTE * 6);
    }
    assert_eq!((world.objects("results").len(), world.hands.count()), (0, 0));
    full.store(false, Ordering::SeqCst);
    let tally = world.until_over_by(&[&engine], &intake).await.tally;
    assert_eq!((tally.consumed, world.job().await.consume_tries, world.accepted().await), (1, 1, 1));
}

#[tokio::test]
async fn a_full_disk_judges_no_failure() {
    let world = World::new(&["failed-silent=1"]).await;
    let intake = world.land(text("It fails on a full disk.")).await;
    let (engine, full) = on_a_disk(&world);
    tick_of(&engine).await.unwrap();
    world.advance(MINUTE);
    tick_of(&engine).await.unwrap();
    full.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        world.advance(MINUTE * 5);
        assert!(matches!(tick_of(&engine).await, Err(Trouble::NeedsPerson(_))));
        let job = world.job().await;
        assert_eq!((job.state, job.attempts, job.answer), (State::Submitted, 1, None));
    }
    full.store(false, Ordering::SeqCst);
    world.set_faults(&[]).await;
    let tally = world.until_over_by(&[&engine], &intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 2));
    assert_eq!(world.objects("answers").len(), 1);
}

#[tokio::test]
async fn two_engines_that_finish_jobs_at_once_consume_each_once() {
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    world.tick().await;
    world.advance(MINUTE);
    let second = world.second();
    let (one, other) = tokio::join!(tick_of(&world.engine), tick_of(&second));
    assert_eq!(one.unwrap().collected.consumed + other.unwrap().collected.consumed, 60);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.hands.count(), world.accepted().await), (60, 60, 60));
    assert!(world.jobs().await.iter().all(|job| job.consume_tries == 1));
}

/// Its consumer ended before the result was durable, so that it must be asked for once more.
#[tokio::test]
async fn a_gemini_out_of_reach_uses_no_consume_try_up() {
    for fault in ["get-503=1", "get-html=1", "get-cut=1"] {
        let (world, intake) = finished().await;
        let (engine, full) = on_a_disk(&world);
        full.store(true, Ordering::SeqCst);
        tick_of(&engine).await.unwrap_err();
        world.set_faults(&[fault]).await;
        world.pass(HOUR, MINUTE).await;
        assert_eq!((world.state().await, world.job().await.consume_tries), (State::Done, 0), "{fault}");
        world.set_faults(&[]).await;
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, world.accepted().await, world.hands.count()), (1, 1, 1), "{fault}");
    }
}
