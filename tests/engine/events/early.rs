//! Events that come too early, too late, or for an earlier attempt.

use gleaner::app::cancel::{Cancelled, cancel_job};
use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::{Asks, Called, claimed};
use crate::books::rows;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{GRACE, HOUR, MINUTE, Maker, eventually, text, tick_of};

/// A world whose only create is answered nine hours late.
async fn answered_late(asks: Asks) -> Called {
    let config = Config { polls_until_done: 0, late: HOUR * 9, ..Config::default() };
    Called::with(&["create-delay=1"], config, asks, Maker::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_before_the_creates_own_answer_attaches_its_handle() {
    let called = answered_late(Asks::Each).await;
    let world = &called.world;
    world.land(text("Fast.")).await;
    let sender = tokio::spawn({
        let engine = world.engine.clone();
        async move { tick_of(&engine).await }
    });
    // Else the other one may be who sends it.
    eventually("Gemini has accepted it", async || world.accepted().await == 1).await;
    let other = called.second();
    eventually("the event's work is done by another process", async || {
        tick_of(&other).await.unwrap();
        world.jobs().await.first().is_some_and(|job| job.state == State::Consumed)
    })
    .await;
    // The answer comes, and is no news.
    world.advance(HOUR * 9);
    sender.await.unwrap().unwrap();
    let job = world.job().await;
    assert_eq!((job.state, job.handles.len(), job.possible_duplicates), (State::Consumed, 1, 0));
    assert_eq!((world.accepted().await, world.requests("create").await, world.hands.count()), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_names_no_job_yet_is_found_by_the_creates_own_answer() {
    let config = Config { polls_until_done: 0, late: MINUTE, ..Config::default() };
    let called = Called::with(&["create-delay=1"], config, Asks::Registered, Maker::default()).await;
    let world = &called.world;
    world.land(text("Fast.")).await;
    let sender = tokio::spawn({
        let engine = world.engine.clone();
        async move { tick_of(&engine).await }
    });
    eventually("the event comes before the answer", async || match world.log().await.first() {
        Some(entry) => called.strays(entry["id"].as_str().unwrap()).await == 1,
        None => false,
    })
    .await;
    world.advance(MINUTE);
    sender.await.unwrap().unwrap();
    called.tick().await;
    assert_eq!((world.state().await, world.requests("get").await), (State::Consumed, 1), "looked at without a poll");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gemini_does_not_show_yet_is_asked_for_again_and_never_sent_again() {
    let config = Config { polls_until_done: 0, hidden: MINUTE * 2, ..Config::default() };
    let mut maker = Maker::default();
    maker.settings.policy.unclear_grace = MINUTE;
    let called = Called::with(&["create-drop=1", "get-404=1"], config, Asks::Each, maker).await;
    let mut engine = called.world.engine.clone();
    engine.settings.policy.poll_min = MINUTE / 4;
    let world = &called.world;
    world.land(text("Hidden.")).await;
    eventually("it is heard of", async || {
        tick_of(&engine).await.unwrap();
        world.jobs().await.first().is_some_and(|job| !job.heard.is_empty())
    })
    .await;
    for _ in 0..20 {
        world.advance(MINUTE / 4);
        tick_of(&engine).await.unwrap();
    }
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Consumed, 1, 0), "{job:?}");
    assert_eq!(world.requests("create").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_an_earlier_attempt_brings_its_result_all_the_same() {
    let called = Called::new(&["create-drop=1"], Asks::Not).await;
    let world = &called.world;
    world.land(text("Twice.")).await;
    called.tick().await;
    let first = world.job().await.nonce;
    world.advance(GRACE);
    called.tick().await;
    called.tick().await;
    let job = world.job().await;
    assert_eq!((job.attempts, job.state), (2, State::Unclear));
    let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
    let answer = called.receive(&called.signed("msg_late", &claimed(&handle, &job.key.0, &first))).await;
    assert_eq!(answer.status, 200);
    called.tick().await;
    let job = world.job().await;
    assert_eq!((job.state, job.handles[0].attempt, job.possible_duplicates), (State::Consumed, 1, 1));
}

/// A world with one job, unclear, whose event has come; what it left in the queue is nobody's. The event's handle is one
/// that Gemini doesn't show for now.
async fn heard_and_left(grace: std::time::Duration) -> (Called, gleaner::app::engine::Engine) {
    let mut maker = Maker::default();
    maker.settings.policy.unclear_grace = grace;
    let config = Config { polls_until_done: 0, ..Config::default() };
    let called = Called::with(&["create-drop=1"], config, Asks::Not, maker).await;
    called.world.land(text("Heard.")).await;
    called.tick().await;
    let job = called.world.job().await;
    let handle = called.world.log().await[0]["id"].as_str().unwrap().to_owned();
    let answer = called.receive(&called.signed("msg_a", &claimed(&handle, &job.key.0, &job.nonce))).await;
    assert_eq!(answer.status, 200);
    let deaf = gleaner::app::engine::Engine { left_work: None, ..called.world.engine.clone() };
    (called, deaf)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_event_told_is_in_the_ledger_even_if_its_message_is_never_seen() {
    let (called, deaf) = heard_and_left(MINUTE).await;
    // The grace has long been over when somebody looks: nothing is sent again.
    called.world.advance(HOUR);
    tick_of(&deaf).await.unwrap();
    let job = called.world.job().await;
    assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Consumed, 1, 0));
    assert_eq!((called.world.requests("create").await, called.world.hands.count()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_looks_lose_no_handle_whatever_the_job_waits_for() {
    for park in [false, true] {
        let called = Called::new(&["create-drop=1"], Asks::Not).await;
        let world = &called.world;
        let mut engine = world.engine.clone();
        if park {
            engine.settings.policy.on_unclear = gleaner::domain::policy::OnUnclear::Park;
        }
        world.land(text("Twice.")).await;
        tick_of(&engine).await.unwrap();
        let first = world.job().await.nonce;
        world.advance(GRACE);
        tick_of(&engine).await.unwrap();
        tick_of(&engine).await.unwrap();
        let job = world.job().await;
        assert_eq!(job.state, if park { State::Parked } else { State::Unclear });
        let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
        called.receive(&called.signed("msg_late", &claimed(&handle, &job.key.0, &first))).await;
        world.set_faults(&["get-503=1"]).await;
        for _ in 0..10 {
            tick_of(&engine).await.unwrap();
            world.advance(MINUTE);
        }
        let job = world.job().await;
        assert!(job.has_heard_of(&handle), "{job:?}");
        assert!(called.queued().await.is_empty());
        world.set_faults(&[]).await;
        world.advance(MINUTE * 6);
        tick_of(&engine).await.unwrap();
        let job = world.job().await;
        assert_eq!(job.state, if park { State::Recovered } else { State::Consumed });
        assert_eq!((job.handles[0].attempt, world.hands.count()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batchs_event_before_the_creates_own_answer_is_known_by_its_nonce_or_its_name() {
    for asks in [Asks::Each, Asks::Registered] {
        let config = Config { polls_until_done: 0, late: HOUR * 9, ..Config::default() };
        let maker = Maker { http_timeout: HOUR, ..in_parts_of(10) };
        let called = Called::with(&["create-delay=1"], config, asks, maker).await;
        let world = &called.world;
        let run = land_run(world, rows(10)).await;
        let sender = tokio::spawn({
            let engine = world.engine.clone();
            // It is cut into parts before it is sent.
            async move {
                for _ in 0..3 {
                    tick_of(&engine).await.unwrap();
                }
            }
        });
        eventually("Gemini has accepted it", async || world.accepted().await == 1).await;
        let other = called.second();
        eventually("another process has the output", async || {
            tick_of(&other).await.unwrap();
            world.progress(&run).await.is_over()
        })
        .await;
        // The answer comes, and is no news.
        world.advance(HOUR * 9);
        sender.await.unwrap();
        let progress = world.progress(&run).await;
        assert_eq!((progress.tally.consumed, progress.tally.possible_duplicates), (10, 0), "{asks:?}");
        assert_eq!((world.accepted().await, world.requests("batch-create").await), (1, 1), "{asks:?}");
        assert_eq!(world.requests("batch-list").await, 0, "{asks:?}: nothing was looked for");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_an_earlier_create_that_is_not_shown_yet_is_not_dropped_while_the_next_is_in_doubt() {
    let config = Config { polls_until_done: 0, hidden: GRACE + MINUTE, ..Config::default() };
    let called = Called::with(&["create-drop=1", "get-404=1"], config, Asks::Not, Maker::default()).await;
    let world = &called.world;
    world.land(text("Twice.")).await;
    called.tick().await;
    let first = world.job().await.nonce;
    world.advance(GRACE);
    called.tick().await;
    called.tick().await;
    let job = world.job().await;
    assert_eq!((job.attempts, job.state), (2, State::Unclear));
    let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
    let answer = called.receive(&called.signed("msg_late", &claimed(&handle, &job.key.0, &first))).await;
    assert_eq!(answer.status, 200);
    // Gemini doesn't show it for another minute.
    called.tick().await;
    for _ in 0..3 {
        world.advance(MINUTE * 3);
        called.tick().await;
    }
    let job = world.job().await;
    assert_eq!((job.state, job.handles[0].attempt, world.requests("create").await), (State::Consumed, 1, 2), "{job:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_handle_that_was_given_up_brings_its_result_at_once() {
    let config = Config { polls_until_done: 0, hidden: HOUR * 2, ..Config::default() };
    let mut maker = Maker::default();
    maker.settings.max_attempts = 1;
    let called = Called::with(&["get-404=1"], config, Asks::Not, maker).await;
    let world = &called.world;
    world.land(text("Hidden for long.")).await;
    called.tick().await;
    for _ in 0..2 {
        world.skip().await;
        called.tick().await;
    }
    let job = world.job().await;
    assert_eq!((job.state, job.handles[0].fate), (State::Parked, gleaner::domain::job::Fate::GivenUp), "{job:?}");
    world.advance(HOUR * 2);
    called.receive(&called.signed("msg_a", &super::completed(&job.handles[0].id))).await;
    called.tick().await;
    assert_eq!((world.state().await, world.requests("create").await), (State::Recovered, 1), "a day before its look");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gemini_denies_for_long_enough_is_forgotten_and_then_the_policy_decides() {
    for fault in ["get-404=1", "get-403=1"] {
        let config = Config { polls_until_done: 0, hidden: HOUR * 48, ..Config::default() };
        let mut maker = Maker::default();
        maker.settings.policy.unclear_grace = MINUTE;
        let called = Called::with(&["create-drop=1", fault], config, Asks::Not, maker).await;
        let world = &called.world;
        world.land(text("Denied.")).await;
        called.tick().await;
        let job = world.job().await;
        let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
        called.receive(&called.signed("msg_a", &claimed(&handle, &job.key.0, &job.nonce))).await;
        // What was accepted stays hidden; the next create is answered.
        world.set_faults(&[]).await;
        for minutes in 1..=16 {
            called.tick().await;
            let sent = world.requests("create").await;
            assert!(minutes > 10 || sent == 1, "{fault}: sent again after {minutes} minutes");
            world.advance(MINUTE);
        }
        let job = world.job().await;
        assert_eq!((job.attempts, job.possible_duplicates, job.heard.len()), (2, 1, 0), "{fault}: {job:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_event_named_is_cancelled_with_its_job_or_told_as_left() {
    for shown in [true, false] {
        let config = Config { polls_until_done: 0, latency: HOUR * 9, ..Config::default() };
        let called = Called::with(&["create-drop=1"], config, Asks::Not, Maker::default()).await;
        let world = &called.world;
        world.land(text("Cancelled.")).await;
        called.tick().await;
        let job = world.job().await;
        let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
        called.receive(&called.signed("msg_a", &claimed(&handle, &job.key.0, &job.nonce))).await;
        world.set_faults(if shown { &[] } else { &["get-503=1"] }).await;
        let outcome = cancel_job(&world.engine, world.job().await, "not needed").await.unwrap();
        let stored = world.job().await;
        assert_eq!(stored.state, State::Discarded);
        match shown {
            true => assert_eq!((outcome, world.requests("cancel").await), (Cancelled::Discarded, 1)),
            false => assert!(matches!(&outcome, Cancelled::StillRemote(left) if left[0].0 == handle), "{outcome:?}"),
        }
    }
}
