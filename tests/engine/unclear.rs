//! A create call of which nobody knows whether Gemini accepted it.

use std::time::Duration;

use gleaner::domain::job::State;
use gleaner::domain::policy::OnUnclear;
use gleaner::simulator::Config;

use super::check::is_told_only;
use super::world::{GRACE, HOUR, LEASE, MINUTE, Maker, World, eventually, text, tick_of};

/// Unclear, left alone through the grace, then sent again and told as a possible duplicate.
async fn is_sent_again_after_the_grace(world: &World, accepted_at_first: usize) {
    let intake = world.land(text("An unclear one.")).await;
    world.tick().await;
    assert_eq!((world.state().await, world.accepted().await), (State::Unclear, accepted_at_first));
    world.check().await;
    world.pass(MINUTE * 14, MINUTE).await;
    assert_eq!((world.state().await, world.requests("create").await), (State::Unclear, 1));
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (1, 1));
    assert_eq!((world.job().await.attempts, world.requests("create").await), (2, 2));
    assert_eq!((world.accepted().await, world.hands.count()), (accepted_at_first + 1, 1));
}

#[tokio::test]
async fn every_unclear_answer_waits_for_the_grace_and_is_counted_once() {
    for (fault, accepted) in [
        ("create-drop", 1),
        ("create-503", 1),
        ("create-408", 1),
        ("create-503-refused", 0),
        ("create-409", 0),
        ("create-reset-before", 0),
        ("create-array", 0),
    ] {
        let world = World::new(&[&format!("{fault}=1")]).await;
        is_sent_again_after_the_grace(&world, accepted).await;
    }
}

#[tokio::test]
async fn a_create_that_is_answered_too_late_is_unclear() {
    let maker = Maker { http_timeout: Duration::from_secs(1), ..Maker::default() };
    let world = World::with(&["create-delay=1"], Config { late: HOUR * 9, ..Config::default() }, maker).await;
    is_sent_again_after_the_grace(&world, 1).await;
}

#[tokio::test]
async fn the_policy_can_park_it() {
    let mut maker = Maker::default();
    maker.settings.policy.on_unclear = OnUnclear::Park;
    let world = World::with(&["create-drop=1"], Config::default(), maker).await;
    let intake = world.land(text("An unclear one.")).await;
    let tally = world.until_over(&intake).await.tally;
    let job = world.job().await;
    assert_eq!((tally.parked, job.class.as_deref(), is_told_only(&job)), (1, Some("unclear"), true));
    assert_eq!((world.requests("create").await, tally.possible_duplicates), (1, 0));
}

#[tokio::test]
async fn at_the_cap_it_is_parked_as_exhausted() {
    let mut maker = Maker::default();
    maker.settings.max_attempts = 3;
    let world = World::with(&["create-503=1"], Config::default(), maker).await;
    let intake = world.land(text("An unclear one.")).await;
    let tally = world.until_over(&intake).await.tally;
    let job = world.job().await;
    assert_eq!((tally.parked, job.class.as_deref()), (1, Some("exhausted:unclear")));
    assert_eq!((job.attempts, tally.possible_duplicates, world.accepted().await), (3, 2, 3));
}

#[tokio::test]
async fn a_reservation_that_ran_out_becomes_unclear_and_is_never_sent_directly() {
    let world =
        World::with(&["create-delay=1"], Config { late: HOUR * 9, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("Its sender dies.")).await;
    let (sender, _) = world.paused();
    let sending = tokio::spawn(async move { tick_of(&sender).await });
    eventually("the create is accepted", async || world.accepted().await == 1).await;
    sending.abort();
    world.set_faults(&[]).await;
    world.tick().await;
    assert_eq!(world.state().await, State::Reserving);
    world.advance(LEASE);
    world.tick().await;
    assert_eq!((world.state().await, world.requests("create").await), (State::Unclear, 1));
    world.advance(GRACE);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
}
