//! Events that come too early, too late, or for an earlier attempt.

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
