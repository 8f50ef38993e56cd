//! A person stops a job, or what is left of a file.

use std::time::Duration;

use gleaner::app::cancel::{Cancelled, cancel_intake, cancel_job};
use gleaner::app::engine::Engine;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Fate, State};
use gleaner::simulator::Config;

use super::check::is_told_only;
use super::world::{HOUR, LEASE, MINUTE, Maker, World, eventually, lines, text, tick_of};

async fn cancel(world: &World, engine: &Engine) -> Cancelled {
    cancel_job(engine, world.job().await, "not needed").await.unwrap()
}

async fn cancel_all(world: &World, intake: &str) {
    let Some(Item::Intake(intake)) = world.engine.ledger.get(&ItemId::intake(intake)).await.unwrap() else { panic!() };
    cancel_intake(&world.engine, intake, "not needed").await.unwrap();
}

#[tokio::test]
async fn a_running_job_is_stopped_here_and_at_gemini() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Running.")).await;
    world.tick().await;
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    let job = world.job().await;
    assert_eq!((job.handles[0].fate, job.message.as_deref()), (Fate::Ended, Some("not needed")));
    assert_eq!(world.requests("cancel").await, 1);
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded, "once more");
    world.pass(HOUR * 60, HOUR).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.discarded, world.accepted().await, world.hands.count()), (1, 1, 0));
}

#[tokio::test]
async fn what_gemini_has_finished_is_collected() {
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("Finished.")).await;
    world.tick().await;
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::AlreadyFinished);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.hands.count()), (1, 1));
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Ended(State::Consumed));
    assert_eq!(world.progress(&intake).await.tally.consumed, 1);
}

#[tokio::test]
async fn what_could_not_be_stopped_at_gemini_is_told_and_can_be_tried_again() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Out of reach.")).await;
    world.tick().await;
    let handle = world.job().await.handles[0].id.clone();
    let outcome = cancel(&world, &world.unreachable()).await;
    assert!(matches!(&outcome, Cancelled::StillRemote(left) if left[0].0 == handle), "{outcome:?}");
    assert_eq!((world.state().await, world.requests("cancel").await), (State::Discarded, 0));
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    assert_eq!((world.requests("cancel").await, world.job().await.handles[0].fate), (1, Fate::Ended));
    assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
}

#[tokio::test]
async fn jobs_that_wait_or_are_dead_letters_are_discarded() {
    for (fault, state) in [("create-429-long=1", State::Retryable), ("blocked=1", State::Parked)] {
        let world = World::new(&[fault]).await;
        let intake = world.land(text("Waiting.")).await;
        world.pass(MINUTE * 5, MINUTE).await;
        assert_eq!(world.state().await, state);
        assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
        world.set_faults(&[]).await;
        world.pass(HOUR * 60, HOUR).await;
        assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
        assert_eq!(world.hands.count(), 0);
    }
}

#[tokio::test]
async fn a_job_that_is_given_up_and_waits_is_discarded() {
    let world = World::new(&["cancelled-remote=1", "create-429-long=0"]).await;
    let intake = world.land(text("Given up.")).await;
    world.tick().await;
    world.set_faults(&["create-429-long=1"]).await;
    world.pass(MINUTE * 2, MINUTE).await;
    assert!(matches!(world.state().await, State::GivenUp | State::Retryable));
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
}

#[tokio::test]
async fn a_job_whose_result_is_being_consumed_is_left_alone() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Nearly there.")).await;
    world.tick().await;
    world.advance(MINUTE);
    world.tick().await;
    world.hands.open.send_replace(false);
    world.advance(MINUTE);
    let engine = world.engine.clone();
    let consuming = tokio::spawn(async move { tick_of(&engine).await });
    eventually("it is being handed on", async || world.hands.count() == 1).await;
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::AlreadyFinished);
    world.hands.open.send_replace(true);
    consuming.await.unwrap().unwrap();
    assert_eq!(world.until_over(&intake).await.tally.consumed, 1);
}

#[tokio::test]
async fn lines_that_wait_are_discarded_and_never_sent() {
    let world = World::new(&["create-429-long=1"]).await;
    let intake = world.land(lines(60)).await;
    world.tick().await;
    assert!(world.progress(&intake).await.waiting() > 0);
    cancel_all(&world, &intake).await;
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.discarded, world.accepted().await), (60, 60, 0));
    // Handed in again, the lines are what they were: discarded.
    assert!(world.try_land("again.jsonl", lines(60)).await.unwrap().before);
    world.tick().await;
    assert_eq!((world.accepted().await, world.hands.count()), (0, 0));
}

#[tokio::test]
async fn a_file_is_cancelled_while_its_lines_are_being_sent() {
    let world = World::with(&["create-delay=1"], Config { late: MINUTE, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    let engine = world.engine.clone();
    let sending = tokio::spawn(async move { tick_of(&engine).await });
    eventually("its hands are full", async || world.accepted().await == 16).await;
    world.set_faults(&[]).await;
    cancel_all(&world, &intake).await;
    world.advance(MINUTE);
    sending.await.unwrap().unwrap();
    world.check().await;
    world.advance(LEASE);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.discarded, tally.repeats), (60, 60, 0));
    let jobs = world.jobs().await;
    let known = jobs.iter().filter(|job| !job.handles.is_empty()).count();
    assert_eq!((world.accepted().await, known), (world.requests("create").await as usize, world.accepted().await));
    assert!(known < 60, "the rest was not sent");
    // What was accepted meanwhile is known, and a second cancel stops it.
    for job in jobs {
        assert_eq!(cancel_job(&world.engine, job, "not needed").await.unwrap(), Cancelled::Discarded);
    }
    assert_eq!(world.requests("cancel").await as usize, known);
}

/// A world whose 60 lines are being sent by a process with that clock, the first 16 of them, when the file is cancelled.
async fn cancelled_in_the_middle(own_clock: bool) -> (World, String) {
    let late = Duration::from_secs(10);
    let config = Config { late, latency: HOUR, ..Config::default() };
    let world = World::with(&["create-delay=1"], config, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    let (paused, _clock) = world.paused();
    let engine = if own_clock { paused } else { world.second() };
    let sending = tokio::spawn(async move { tick_of(&engine).await });
    eventually("its hands are full", async || world.accepted().await == 16).await;
    world.set_faults(&[]).await;
    cancel_all(&world, &intake).await;
    world.advance(late);
    sending.await.unwrap().unwrap();
    world.check().await;
    (world, intake)
}

#[tokio::test]
async fn who_sends_lines_of_a_file_soon_sees_that_it_is_cancelled() {
    let (world, intake) = cancelled_in_the_middle(false).await;
    assert_eq!(world.accepted().await, 16);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.discarded), (60, 60));
}

#[tokio::test]
async fn what_was_sent_before_the_cancel_was_seen_is_cancelled_afterwards() {
    let (world, intake) = cancelled_in_the_middle(true).await;
    assert_eq!(world.accepted().await, 60, "its clock stands still, so that it looks at nothing");
    world.tick().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.discarded, world.hands.count()), (60, 60, 0));
    assert!(world.requests("cancel").await >= 44);
}

/// A world with one job that was parked when its only attempt passed its deadline. It runs for `latency`.
async fn past_its_deadline(latency: Duration) -> (World, String) {
    let mut maker = Maker::default();
    maker.settings.max_attempts = 1;
    let world = World::with(&[], Config { latency, ..Config::default() }, maker).await;
    let intake = world.land(text("A slow one.")).await;
    world.tick().await;
    world.pass(HOUR * 73, HOUR).await;
    assert_eq!(world.state().await, State::Parked);
    (world, intake)
}

#[tokio::test]
async fn what_was_given_up_and_still_runs_is_stopped_too() {
    let (world, intake) = past_its_deadline(HOUR * 500).await;
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    assert_eq!(world.requests("cancel").await, 1, "it was paid for on and on");
    world.pass(HOUR * 100, HOUR).await;
    assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
}

#[tokio::test]
async fn a_dead_letter_that_gemini_has_finished_is_collected_instead() {
    let (world, intake) = past_its_deadline(HOUR * 200).await;
    // Both later looks find it running, so that nobody would look any more.
    world.pass(HOUR * 150, HOUR).await;
    assert!(is_told_only(&world.job().await));
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::AlreadyFinished);
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);
    assert_eq!((world.hands.count(), world.accepted().await), (1, 1));
}

#[tokio::test]
async fn what_is_not_found_is_not_said_to_run() {
    let mut maker = Maker::default();
    maker.settings.max_attempts = 1;
    let world = World::with(&["get-404-forever=1"], Config::default(), maker).await;
    let intake = world.land(text("Never seen again.")).await;
    world.until_over(&intake).await;
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
}

#[tokio::test]
async fn a_discarded_job_stays_discarded_when_its_handle_has_finished() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Out of reach, then finished.")).await;
    world.tick().await;
    assert!(matches!(cancel(&world, &world.unreachable()).await, Cancelled::StillRemote(_)));
    let handle = world.job().await.handles[0].id.clone();
    for _ in 0..2 {
        world.sim.get(&format!("/v1/interactions/{handle}")).await;
    }
    assert_eq!(cancel(&world, &world.engine).await, Cancelled::Discarded);
    assert_eq!((world.state().await, world.job().await.handles[0].fate), (State::Discarded, Fate::Ended));
    assert_eq!(world.until_over(&intake).await.tally.discarded, 1);
}
