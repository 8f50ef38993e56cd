//! Looking at handles: what a look may conclude, and what it must not.

use std::collections::BTreeSet;
use std::time::Duration;

use gleaner::app::engine::Trouble;
use gleaner::domain::job::{Fate, State};
use gleaner::simulator::Config;

use super::check::is_told_only;
use super::world::{HOUR, MINUTE, Maker, World, key_id, text, tick_of};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Allows one attempt.
fn one_attempt() -> Maker {
    let mut maker = Maker::default();
    maker.settings.max_attempts = 1;
    maker
}

/// The first GET sees the end.
fn at_once() -> Config {
    Config { polls_until_done: 0, ..Config::default() }
}

#[tokio::test]
async fn failing_polls_never_lead_to_a_new_submit() {
    for fault in ["get-503", "get-429", "get-html", "get-cut", "get-array"] {
        let world = World::new(&[&format!("{fault}=1")]).await;
        let intake = world.land(text("Polled in vain.")).await;
        world.tick().await;
        world.pass(HOUR * 60, MINUTE * 30).await;
        let job = world.job().await;
        assert_eq!((job.state, job.attempts), (State::Submitted, 1), "{fault}");
        assert_eq!(world.requests("create").await, 1, "{fault}");
        assert!(world.requests("get").await > 100, "{fault}");
        world.set_faults(&[]).await;
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 1), "{fault}");
    }
}

#[tokio::test]
async fn an_unreachable_gemini_never_leads_to_a_new_submit() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Polled in vain.")).await;
    world.tick().await;
    let cut_off = world.unreachable();
    for _ in 0..60 {
        world.advance(HOUR);
        tick_of(&cut_off).await.unwrap();
    }
    let job = world.job().await;
    assert_eq!((job.state, job.attempts), (State::Submitted, 1));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 1));
}

#[tokio::test]
async fn a_handle_that_is_hidden_at_first_is_not_believed_to_be_gone() {
    for fault in ["get-404=1", "get-403=1"] {
        let config = Config { hidden: MINUTE * 9, ..Config::default() };
        let world = World::with(&[fault], config, Maker::default()).await;
        let intake = world.land(text("Hidden at first.")).await;
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 1), "{fault}");
        assert_eq!(world.job().await.handles[0].missing_since, None, "{fault}");
    }
}

#[tokio::test]
async fn a_handle_that_stays_gone_is_given_up_after_the_grace_and_sent_again() {
    let world = World::new(&["get-404-forever=1"]).await;
    let intake = world.land(text("Never seen again.")).await;
    world.tick().await;
    world.set_faults(&[]).await;
    world.pass(MINUTE * 10, Duration::from_secs(15)).await;
    assert_eq!(world.requests("create").await, 1, "within the grace");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
    let job = world.job().await;
    assert_eq!((job.attempts, job.handles[0].fate, job.handles[1].fate), (2, Fate::GivenUp, Fate::Won));
    assert!(job.history.iter().any(|moment| moment.1 == State::GivenUp), "{job:?}");
}

/// What looks at a parked job are made: hours after it was parked.
async fn looks_after_parking(world: &World, class: &str) {
    let parked = world.job().await;
    assert_eq!((parked.state, parked.class.as_deref()), (State::Parked, Some(class)));
    assert_eq!(parked.due_at, parked.handles[0].given_up_at.map(|at| at.plus(DAY)));
    let mut made = Vec::new();
    for hour in 1..=200 {
        let before = world.requests("get").await;
        world.advance(HOUR);
        world.tick().await;
        made.extend((before..world.requests("get").await).map(|_| hour));
    }
    assert_eq!(made, [24, 48], "{class}");
    let job = world.job().await;
    assert_eq!((is_told_only(&job), job.parked_at), (true, parked.parked_at));
    world.check().await;
}

#[tokio::test]
async fn at_the_cap_a_lost_handle_is_looked_at_twice_more_and_never_again() {
    let world = World::with(&["get-404-forever=1"], Config::default(), one_attempt()).await;
    let intake = world.land(text("Never seen again.")).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.parked, tally.possible_duplicates), (1, 0));
    looks_after_parking(&world, "exhausted:not_found").await;
    assert_eq!(world.requests("create").await, 1);
}

#[tokio::test]
async fn a_cancelled_handle_is_looked_at_twice_more_and_never_again() {
    let world = World::with(&["cancelled-remote=1"], Config::default(), one_attempt()).await;
    let intake = world.land(text("Somebody cancelled it.")).await;
    assert_eq!(world.until_over(&intake).await.tally.parked, 1);
    looks_after_parking(&world, "exhausted:cancelled").await;
}

#[tokio::test]
async fn a_look_that_fails_is_made_up_for() {
    let world = World::with(&["get-404-forever=1"], at_once(), one_attempt()).await;
    let intake = world.land(text("Never seen again.")).await;
    world.until_over(&intake).await;
    let cut_off = world.unreachable();
    world.advance(HOUR * 24);
    for _ in 0..3 {
        world.advance(HOUR);
        tick_of(&cut_off).await.unwrap();
    }
    let gets = world.requests("get").await;
    world.pass(MINUTE * 10, MINUTE).await;
    assert_eq!(world.requests("get").await, gets + 1);
    let job = world.job().await;
    assert_eq!(job.due_at, job.handles[0].given_up_at.map(|at| at.plus(DAY * 2)));
}

#[tokio::test]
async fn a_late_result_recovers_a_dead_letter() {
    let config = Config { hidden: HOUR * 30, ..at_once() };
    let world = World::with(&["get-404=1"], config, one_attempt()).await;
    let intake = world.land(text("Hidden for thirty hours.")).await;
    assert_eq!(world.until_over(&intake).await.tally.parked, 1);
    world.pass(HOUR * 50, HOUR).await;
    let tally = world.progress(&intake).await.tally;
    assert_eq!((tally.recovered, tally.parked, world.accepted().await, world.hands.count()), (1, 0, 1, 1));
    world.check().await;
}

#[tokio::test]
async fn another_keys_404_is_never_believed() {
    let world = World::new(&["get-404-forever=1"]).await;
    let intake = world.land(text("Made with the old key.")).await;
    world.tick().await;
    let rotated = world.another(&Maker { keys: vec!["test-key-2"], ..Maker::default() }, world.clock.clone());
    for _ in 0..60 {
        world.advance(HOUR);
        tick_of(&rotated).await.unwrap();
    }
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.handles[0].key.clone()), (State::Submitted, 1, key_id("test-key-1")));
    assert_eq!((world.requests("create").await, job.handles[0].missing_since), (1, None));
    // With the old key beside the new one it is believed, after the grace.
    let both =
        world.another(&Maker { keys: vec!["test-key-2", "test-key-1"], ..Maker::default() }, world.clock.clone());
    world.set_faults(&[]).await;
    let tally = world.until_over_by(&[&both], &intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
    let keys: Vec<_> = world.job().await.handles.into_iter().map(|handle| handle.key).collect();
    assert_eq!(keys, [key_id("test-key-1"), key_id("test-key-2")]);
}

#[tokio::test]
async fn a_handle_is_read_with_the_key_that_made_it() {
    // A key that this fault rejects is always the same one: find a good one and a rejected one.
    let world = World::new(&["key-rejected=0.5"]).await;
    let names = ["key-a", "key-b", "key-c", "key-d", "key-e", "key-f", "key-g", "key-h"];
    let (mut good, mut rejected) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        let (status, _) =
            world.sim.send_as(Some(name), reqwest::Method::GET, "/v1/interactions/x", None).await.unwrap();
        if status == 404 {
            good.insert(name)
        } else {
            rejected.insert(name)
        };
    }
    let (old, new) = (*good.first().unwrap(), *rejected.first().unwrap());
    let intake = world.land(text("Made with the old key.")).await;
    let before = world.another(&Maker { keys: vec![old], ..Maker::default() }, world.clock.clone());
    tick_of(&before).await.unwrap();
    let both = world.another(&Maker { keys: vec![new, old], ..Maker::default() }, world.clock.clone());
    let tally = world.until_over_by(&[&both], &intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await), (1, 1));
}

#[tokio::test]
async fn a_key_that_is_rejected_on_looks_stops_everything_and_costs_nothing() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Its key is locked.")).await;
    world.tick().await;
    world.set_faults(&["key-rejected=1"]).await;
    for _ in 0..20 {
        world.advance(HOUR);
        let trouble = tick_of(&world.engine).await.unwrap_err();
        assert!(matches!(&trouble, Trouble::NeedsPerson(why) if why.contains("GEMINI_API_KEY")), "{trouble}");
    }
    assert_eq!((world.state().await, world.job().await.attempts), (State::Submitted, 1));
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 1));
}

#[tokio::test]
async fn an_unknown_status_is_polled_to_the_deadline_and_looked_at_afterwards() {
    let config = Config { latency: HOUR * 100, ..Config::default() };
    let world = World::with(&["status-unknown=1"], config, one_attempt()).await;
    let intake = world.land(text("It warms up.")).await;
    world.tick().await;
    world.pass(HOUR * 71, HOUR).await;
    assert_eq!((world.state().await, world.job().await.attempts), (State::Submitted, 1));
    world.pass(HOUR * 2, HOUR).await;
    let job = world.job().await;
    assert_eq!((job.state, job.class.as_deref()), (State::Parked, Some("exhausted:deadline")));
    world.pass(HOUR * 48, HOUR).await;
    let tally = world.progress(&intake).await.tally;
    assert_eq!((tally.recovered, world.accepted().await, world.hands.count()), (1, 1, 1));
    world.check().await;
}

#[tokio::test]
async fn past_its_deadline_it_is_sent_again_and_the_first_answer_of_either_counts() {
    let world = World::with(&[], Config { latency: HOUR * 80, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("A slow one.")).await;
    world.tick().await;
    world.pass(HOUR * 73, HOUR).await;
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Submitted, 2, 1));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
    let fates: Vec<_> = world.job().await.handles.iter().map(|handle| handle.fate).collect();
    assert_eq!(fates, [Fate::Won, Fate::Live], "the late result of the first");
}

#[tokio::test]
async fn a_lost_key_holds_up_no_further_attempt() {
    let world = World::new(&["get-404-forever=1"]).await;
    let intake = world.land(text("Given up, then its key is gone.")).await;
    world.tick().await;
    while world.state().await != State::GivenUp {
        world.advance(Duration::from_secs(30));
        world.tick().await;
    }
    world.set_faults(&[]).await;
    let rotated = world.another(&Maker { keys: vec!["test-key-2"], ..Maker::default() }, world.clock.clone());
    world.advance(HOUR);
    tick_of(&rotated).await.unwrap();
    assert_eq!((world.state().await, world.job().await.attempts), (State::Submitted, 2));
    let tally = world.until_over_by(&[&rotated], &intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
}

#[tokio::test]
async fn what_was_given_up_is_looked_at_once_more_before_anything_is_sent_again() {
    let config = Config { hidden: MINUTE * 20, ..Config::default() };
    let world = World::with(&["get-404=1"], config, Maker::default()).await;
    let intake = world.land(text("Hidden until just before it is sent again.")).await;
    world.tick().await;
    while world.state().await != State::GivenUp {
        world.advance(MINUTE);
        world.tick().await;
    }
    world.advance(MINUTE * 10);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (1, 0));
    assert_eq!((world.requests("create").await, world.accepted().await, world.job().await.attempts), (1, 1, 1));
}
