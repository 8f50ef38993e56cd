//! Driving a file to its end, with time that passes by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner::app::drive::drive;
use gleaner::app::engine::Trouble;
use gleaner::app::gates::{pause, resume};
use gleaner::domain::job::State;
use gleaner::simulator::Config;
use tokio::task::JoinHandle;

use super::world::{MINUTE, Maker, World, a_moment, eventually, lines, text};

/// Lets time pass, faster than it does, until it is dropped.
struct Pump(JoinHandle<()>);

impl Pump {
    fn start(world: &World) -> Self {
        let clock = Arc::clone(&world.clock);
        Self(tokio::spawn(async move {
            loop {
                clock.advance(Duration::from_millis(500));
                a_moment().await;
            }
        }))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test]
async fn a_drive_ends_with_its_file_and_tells_how_far_it_is() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(30)).await;
    let _pump = Pump::start(&world);
    let mut told = Vec::new();
    let drove = drive(&world.engine, &intake, |progress, _| told.push(progress.tally.consumed)).await.unwrap();
    assert_eq!((drove.stopped, drove.parked_elsewhere, drove.progress.tally.consumed), (false, 0, 30));
    assert!(told.is_sorted() && told.last() == Some(&30), "{told:?}");
    world.check().await;
}

#[tokio::test]
async fn two_drives_of_one_file_share_the_work() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(100)).await;
    let second = world.second();
    let _pump = Pump::start(&world);
    let (one, two) = tokio::join!(drive(&world.engine, &intake, |_, _| ()), drive(&second, &intake, |_, _| ()));
    assert_eq!((one.unwrap().progress.tally.consumed, two.unwrap().progress.tally.consumed), (100, 100));
    assert_eq!((world.accepted().await, world.hands.count()), (100, 100));
    world.check().await;
}

#[tokio::test]
async fn a_drive_waits_for_the_jobs_of_others_that_its_lines_name() {
    let config = Config { latency: MINUTE, ..Config::default() };
    let world = World::with(&["blocked=1"], config, Maker::default()).await;
    world.land(text("Blocked.")).await;
    world.tick().await;
    world.set_faults(&[]).await;
    let file = text("Blocked.") + &text("Fine.");
    let intake = world.try_land("second.jsonl", file).await.unwrap().intake.sha256;
    let _pump = Pump::start(&world);
    let drove = drive(&world.engine, &intake, |_, _| ()).await.unwrap();
    assert_eq!((drove.progress.tally.jobs, drove.progress.tally.repeats, drove.parked_elsewhere), (1, 1, 1));
    assert!(world.jobs().await.iter().all(|job| job.state.is_ended()));
    world.check().await;
}

#[tokio::test]
async fn a_drive_that_is_stopped_says_so_and_another_goes_on() {
    let world = World::with(&[], Config { latency: MINUTE, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(30)).await;
    let _pump = Pump::start(&world);
    let stopping = Arc::clone(&world.engine.stopping);
    let drove = drive(&world.engine, &intake, |_, _| stopping.store(true, Ordering::Relaxed)).await.unwrap();
    assert!(drove.stopped && drove.progress.tally.consumed == 0);
    world.check().await;
    let drove = drive(&world.second(), &intake, |_, _| ()).await.unwrap();
    assert_eq!((drove.progress.tally.consumed, world.accepted().await), (30, 30));
}

#[tokio::test]
async fn a_drive_tells_the_gates_that_are_closed_and_goes_on_after_a_resume() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(5)).await;
    pause(&world.engine, "lunch").await.unwrap();
    let _pump = Pump::start(&world);
    let engine = world.second();
    let driven = intake.clone();
    let driving = tokio::spawn(async move {
        let mut reasons = Vec::new();
        let drove = drive(&engine, &driven, |_, gates| {
            reasons.extend(gates.iter().filter_map(|gate| gate.paused.clone()));
        });
        (drove.await.unwrap(), reasons)
    });
    let start = world.now();
    eventually("a while has passed", async || world.now() > start.plus(MINUTE)).await;
    assert_eq!((world.requests("create").await, driving.is_finished()), (0, false));
    resume(&world.engine).await.unwrap();
    let (drove, reasons) = driving.await.unwrap();
    assert_eq!((drove.progress.tally.consumed, reasons[0].as_str()), (5, "lunch"));
    world.check().await;
}

#[tokio::test]
async fn a_drive_ends_with_what_only_a_person_can_mend() {
    let world = World::new(&["key-rejected=1"]).await;
    let intake = world.land(lines(5)).await;
    let _pump = Pump::start(&world);
    let trouble = drive(&world.engine, &intake, |_, _| ()).await.unwrap_err();
    assert!(matches!(trouble, Trouble::NeedsPerson(_)), "{trouble}");
    assert!(world.jobs().await.iter().all(|job| (job.state, job.attempts) == (State::Retryable, 0)));
}
