//! Results that could not be handed on, attempts of batch runs, calls, and what a change brings to Gemini.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use gleaner::adapters::local::DataFolder;
use gleaner::app::consume::result_object;
use gleaner::app::engine::Engine;
use gleaner::app::left_work::do_left_work;
use gleaner::app::replay::{Outcome, Replay, Replayed, replay};
use gleaner::app::report::every;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::time::Millis;
use gleaner::simulator::Config;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{EVER, apply, dead_by, only, replay_by};
use crate::books::{audit, rows};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{MINUTE, Maker, World, a_moment, text, tick_of};

/// A world with one result that nobody would take.
async fn not_handed_on() -> (World, String) {
    let world = World::with(&[], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("Finished.")).await;
    world.hands.failures.store(u64::MAX, Ordering::SeqCst);
    world.until_over(&intake).await;
    assert_eq!(world.job().await.class.as_deref(), Some("internal:consume"));
    (world, intake)
}

#[tokio::test]
async fn a_result_is_handed_on_anew_and_nothing_is_sent_for_it() {
    let (world, intake) = not_handed_on().await;
    let dry = replay_by(&world.engine, &Replay::default()).await;
    assert!(only(&dry).why.as_deref().unwrap().contains("nothing is sent"), "{dry:?}");
    // It fails once more: the next try is the tick's.
    world.hands.failures.store(1, Ordering::SeqCst);
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((only(&replayed).outcome, world.state().await), (Outcome::Resubmitted, State::Done), "{replayed:?}");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, world.accepted().await, world.hands.count()), (1, 1, 7));
    let (world, intake) = not_handed_on().await;
    world.hands.failures.store(0, Ordering::SeqCst);
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((replayed.recovered, world.state().await), (1, State::Recovered), "{replayed:?}");
    let job = world.job().await;
    assert_eq!((job.attempts, job.replays, job.letter.reason.as_deref()), (1, 1, Some("the cause is mended")));
    assert_eq!((world.until_over(&intake).await.tally.recovered, world.accepted().await), (1, 1));
    world.hands.assert_each(6);
}

#[tokio::test]
async fn a_result_that_is_lost_here_is_fetched_once_more_before_anything_is_paid() {
    let (world, intake) = not_handed_on().await;
    std::fs::remove_file(world.data().join(result_object(&world.job().await.key))).unwrap();
    world.hands.failures.store(0, Ordering::SeqCst);
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((replayed.recovered, world.accepted().await), (1, 1), "{replayed:?}");
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);
}

#[tokio::test]
async fn an_attempt_of_a_run_is_looked_at_once_more() {
    let world = World::with(&["download-cut-silent=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    assert_eq!(world.until_over(&run).await.tally.parked, 20);
    let letters = every(&world.engine, State::Parked, 10).await.unwrap();
    let attempts = letters.iter().filter(|item| matches!(item, Item::Job(_))).count();
    assert_eq!(attempts, 1, "{letters:?}");
    let dry = replay_by(&world.engine, &Replay::default()).await;
    assert_eq!((only(&dry).outcome, only(&dry).run.is_some()), (Outcome::WouldReplay, true), "{dry:?}");
    world.set_faults(&[]).await;
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((replayed.recovered, only(&replayed).outcome), (1, Outcome::Recovered), "{replayed:?}");
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.consumed, progress.tally.parked, world.accepted().await), (20, 0, 1));
    audit(&world.engine, &progress, &text).await;
}

#[tokio::test]
async fn another_model_and_other_fields_reach_gemini() {
    let (world, intake) = dead_by("incomplete", &text("More room.")).await;
    let schema = r#"{"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}"#;
    let format = format!(r#"{{"type": "text", "mime_type": "application/json", "schema": {schema}}}"#);
    let changed = format!(r#"{{"labels": {{"team": "night"}}, "response_format": {format}}}"#);
    let request = Replay {
        model: Some("gemini-pro-latest".to_owned()),
        request: Some(RawValue::from_string(changed).unwrap()),
        ..apply()
    };
    replay_by(&world.engine, &request).await;
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);
    let sent = world.log().await.pop().unwrap();
    assert_eq!((&sent["model"], &sent["labels"]["team"]), (&json!("gemini-pro-latest"), &json!("night")), "{sent}");
    let job = world.job().await;
    assert_eq!(sent["labels"]["gleaner"], json!(job.key.0), "it is the same job");
    let result: Value =
        serde_json::from_slice(&std::fs::read(world.data().join(result_object(&job.key))).unwrap()).unwrap();
    assert!(result["value"]["title"].is_string(), "{result}");
    let changes = std::fs::read_to_string(world.data().join(job.changes.unwrap())).unwrap();
    assert!(changes.contains("night") && world.objects("replays").len() == 1, "{changes}");
}

#[tokio::test]
async fn what_a_replay_changed_stays_until_another_changes_it() {
    let (world, intake) = dead_by("blocked", &text("Again and again.")).await;
    world.set_faults(&["blocked=1"]).await;
    let with = |request: Option<&str>, model: Option<&str>| Replay {
        request: request.map(|request| RawValue::from_string(request.to_owned()).unwrap()),
        model: model.map(str::to_owned),
        ..apply()
    };
    let mut seen = Vec::new();
    for request in [
        with(Some(r#"{"labels": {"team": "one"}}"#), Some("gemini-pro-latest")),
        with(None, None),
        with(Some(r#"{"labels": {"team": "two"}}"#), None),
    ] {
        replay_by(&world.engine, &request).await;
        world.until_over(&intake).await;
        let sent = world.log().await.pop().unwrap();
        seen.push((sent["model"].as_str().unwrap().to_owned(), sent["labels"]["team"].as_str().unwrap().to_owned()));
    }
    let expected = [("gemini-pro-latest", "one"), ("gemini-pro-latest", "one"), ("gemini-pro-latest", "two")];
    assert_eq!(seen, expected.map(|(model, team)| (model.to_owned(), team.to_owned())));
    assert_eq!((world.job().await.replays, world.job().await.attempts), (3, 4));
}

const CALLS: &str = r#"{"gleaner": {"mode": "call", "max_attempts": 2}}
{"input": "Call one."}
{"input": "Call two."}
{"input": "Call three."}
"#;

/// A world with three calls that are dead letters.
async fn dead_calls() -> (World, String) {
    let world = World::new(&["blocked=1"]).await;
    let intake = world.land(CALLS).await;
    while !world.progress(&intake).await.is_over() {
        world.tick().await;
        world.skip().await;
    }
    world.set_faults(&[]).await;
    (world, intake)
}

#[tokio::test]
async fn calls_end_at_once_where_nobody_has_more_time() {
    let (world, intake) = dead_calls().await;
    let letters = every(&world.engine, State::Parked, 10).await.unwrap();
    assert_eq!(letters.len(), 3);
    let one = Replay { limit: 1, ..apply() };
    let replayed = replay_by(&world.engine, &one).await;
    assert_eq!((replayed.recovered, replayed.resubmitted, replayed.still_failing), (1, 0, 0), "{replayed:?}");
    world.set_faults(&["blocked=1"]).await;
    let changed = r#"{"generationConfig": {"maxOutputTokens": 8192}}"#;
    let request = Replay {
        model: Some("gemini-pro-latest".to_owned()),
        request: Some(RawValue::from_string(changed.to_owned()).unwrap()),
        ..apply()
    };
    let replayed = replay_by(&world.engine, &request).await;
    assert_eq!((replayed.recovered, replayed.still_failing), (0, 2), "{replayed:?}");
    assert!(replayed.items.iter().all(|item| item.why.as_deref().unwrap().starts_with("blocked:")), "{replayed:?}");
    world.set_faults(&[]).await;
    assert_eq!(replay_by(&world.engine, &apply()).await.recovered, 2);
    assert_eq!(world.log().await.pop().unwrap()["model"], json!("gemini-pro-latest"));
    let tally = world.progress(&intake).await.tally;
    assert_eq!((tally.recovered, tally.possible_duplicates, world.hands.count()), (3, 0, 3));
    assert_eq!(world.accepted().await, 3 + 1 + 2 + 2);
    let attempts = |job: &gleaner::domain::job::Job| (job.attempts, job.max_attempts, job.replays);
    let mut jobs: Vec<_> = world.jobs().await.iter().map(attempts).collect();
    jobs.sort_unstable();
    assert_eq!(
        jobs,
        [(2, 3, 1), (3, 4, 2), (3, 4, 2)],
        "each time with the attempts of its header beyond the used ones"
    );
}

/// A replay, beside which the same is done again and again once a call was handed over.
async fn while_replaying(front: &Engine, request: &Replay, until: Millis, step: impl AsyncFn()) -> Replayed {
    let mut replaying = pin!(replay(front, request, until));
    let mut has_begun = false;
    loop {
        let moment = pin!(a_moment());
        match select(replaying.as_mut(), moment).await {
            Either::Left((replayed, _)) => return replayed.unwrap(),
            Either::Right(_) => {
                has_begun |= !every(front, State::Retryable, 1).await.unwrap().is_empty();
                if has_begun {
                    step().await;
                }
            }
        }
    }
}

/// On a stack a call is the worker's, which has more time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_handed_over_and_waited_for() {
    let (world, _) = dead_calls().await;
    let data = DataFolder::open(world.data(), world.now()).unwrap();
    let queue = Arc::new(data.work_queue(world.clock.clone()).unwrap());
    let front = Engine { work_queue: Some(queue.clone()), ..world.second() };
    let worker = Engine { left_work: Some(queue.clone()), ..world.second() };
    // Nobody makes it in time: it ends later.
    let until = world.now().plus(Duration::from_secs(1));
    let late = while_replaying(&front, &Replay { limit: 1, ..apply() }, until, async || {
        world.advance(Duration::from_millis(500));
    })
    .await;
    assert_eq!((late.resubmitted, late.recovered), (1, 0), "{late:?}");
    let soon = while_replaying(&front, &apply(), EVER, async || {
        do_left_work(&worker, EVER).await.unwrap();
        world.advance(Duration::from_millis(100));
    })
    .await;
    assert_eq!((soon.scanned, soon.recovered, soon.resubmitted), (2, 2, 0), "{soon:?}");
    // Should the message have been lost, the tick goes on.
    world.advance(MINUTE * 3);
    tick_of(&worker).await.unwrap();
    assert!(world.jobs().await.iter().all(|job| (job.state, job.replays) == (State::Recovered, 1)));
    assert_eq!((world.accepted().await, world.hands.count()), (6, 3));
}
