//! The reservation of a call outlasts the call, and who takes one over asks nothing that is answered already.

use std::time::Duration;

use gleaner::app::cancel::{Cancelled, cancel_job};
use gleaner::domain::job::State;
use gleaner::simulator::Config;
use tokio::task::JoinHandle;

use super::plain::calls;
use crate::world::{HOUR, LEASE, MINUTE, Maker, World, a_moment, eventually, tick_of};

/// The lease of a call, and a moment.
const CALL_LEASE: Duration = Duration::from_secs(12 * 60 + 1);

fn one() -> String {
    calls(["A slow one.".to_owned()])
}

/// A world in which a call is under way that is answered after `late`, by a caller whose clock stands still.
async fn called(late: Duration) -> (World, String, JoinHandle<()>) {
    let world = World::with(&["create-delay=1"], Config { late, ..Config::default() }, Maker::default()).await;
    let intake = world.land(one()).await;
    let (caller, _) = world.paused();
    let calling = tokio::spawn(async move { tick_of(&caller).await.map(drop).unwrap() });
    eventually("the call is accepted", async || world.accepted().await == 1).await;
    world.set_faults(&[]).await;
    (world, intake, calling)
}

#[tokio::test]
async fn a_call_is_not_taken_over_while_it_may_still_be_answered() {
    let (world, intake, calling) = called(MINUTE * 9).await;
    let job = world.job().await;
    assert_eq!(job.lease.unwrap().until, world.now().plus(Duration::from_secs(720)));
    for _ in 0..8 {
        world.advance(MINUTE);
        world.tick().await;
        assert_eq!((world.state().await, world.requests("generate").await), (State::Reserving, 1));
    }
    world.advance(MINUTE);
    calling.await.unwrap();
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.requests("generate").await), (1, 0, 1));
}

#[tokio::test]
async fn a_live_caller_renews_its_lease() {
    let world = World::with(&["create-delay=1"], Config { late: HOUR, ..Config::default() }, Maker::default()).await;
    let intake = world.land(one()).await;
    let engine = world.engine.clone();
    let calling = tokio::spawn(async move { tick_of(&engine).await.map(drop).unwrap() });
    eventually("the call is accepted", async || world.accepted().await == 1).await;
    world.set_faults(&[]).await;
    let other = world.second();
    for _ in 0..14 {
        world.advance(Duration::from_secs(241));
        let enough = world.now().plus(Duration::from_secs(600));
        eventually("it is renewed", async || world.job().await.lease.is_some_and(|lease| lease.until > enough)).await;
        tick_of(&other).await.unwrap();
        assert_eq!(world.state().await, State::Reserving);
    }
    world.advance(HOUR);
    calling.await.unwrap();
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.requests("generate").await), (1, 0, 1));
}

#[tokio::test]
async fn a_dead_caller_costs_a_second_call_that_is_told() {
    let (world, intake, calling) = called(HOUR * 9).await;
    calling.abort();
    world.advance(LEASE);
    world.tick().await;
    assert_eq!(world.state().await, State::Reserving);
    world.advance(CALL_LEASE);
    // Taken over; the back-off follows, and no grace.
    world.tick().await;
    let job = world.job().await;
    assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Retryable, Some("unclear"), 1));
    assert!(job.due_at.unwrap() <= world.now().plus(Duration::from_secs(3)));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.requests("generate").await), (1, 1, 2));
}

#[tokio::test]
async fn a_late_answer_is_taken_although_the_call_was_taken_over() {
    let (world, intake, calling) = called(HOUR).await;
    world.advance(CALL_LEASE);
    world.tick().await;
    assert_eq!(world.state().await, State::Retryable);
    // Until the answer nobody ticks; it finds the job waiting for its next try.
    world.advance(HOUR);
    calling.await.unwrap();
    world.check().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (1, 0));
    assert_eq!((world.requests("generate").await, world.hands.count()), (1, 1));
}

#[tokio::test]
async fn of_two_answers_the_first_stays_and_the_other_is_told() {
    let (world, intake, calling) = called(HOUR).await;
    world.advance(CALL_LEASE);
    world.tick().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (1, 1));
    let first = std::fs::read(world.data().join("results").join(&world.objects("results")[0])).unwrap();
    world.advance(HOUR);
    calling.await.unwrap();
    world.check().await;
    assert_eq!(std::fs::read(world.data().join("results").join(&world.objects("results")[0])).unwrap(), first);
    let job = world.job().await;
    assert_eq!((job.state, job.possible_duplicates, world.hands.count()), (State::Consumed, 1, 1));
}

#[tokio::test]
async fn the_answer_of_a_job_that_was_given_up_meanwhile_is_kept_apart() {
    let (world, _, calling) = called(MINUTE).await;
    let job = world.job().await;
    assert_eq!(cancel_job(&world.engine, job, "not needed").await.unwrap(), Cancelled::Discarded);
    world.advance(MINUTE * 2);
    calling.await.unwrap();
    assert_eq!((world.state().await, world.hands.count()), (State::Discarded, 0));
    assert_eq!((world.objects("results").len(), world.objects("answers").len()), (0, 1));
}

#[tokio::test]
async fn a_call_that_takes_longer_than_its_time_out_is_made_again_and_told() {
    let mut maker = Maker { call_timeout: Duration::from_millis(300), ..Maker::default() };
    maker.settings.policy.call_timeout = Duration::from_millis(300);
    let world = World::with(&["create-delay=1"], Config { late: HOUR * 9, ..Config::default() }, maker).await;
    let intake = world.land(one()).await;
    world.tick().await;
    let job = world.job().await;
    assert_eq!((job.state, job.class.as_deref()), (State::Retryable, Some("unclear")));
    assert!(job.message.unwrap().contains("no answer within 300ms"));
    world.set_faults(&[]).await;
    a_moment().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
}
