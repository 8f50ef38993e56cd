//! Dead letters replayed and given up: by filters, by two at once, by processes that end anywhere.

mod cut;
mod given_up;
mod handed;
mod thousand;

use std::collections::BTreeMap;

use gleaner::app::engine::Engine;
use gleaner::app::replay::{Outcome, Replay, ReplayError, Replayed, ReplayedItem, replay};
use gleaner::app::report::every;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::time::Millis;
use serde_json::value::RawValue;

use super::world::{HOUR, MINUTE, Maker, World, json_line, key_of, text};
use gleaner::simulator::Config;

const EVER: Millis = Millis(i64::MAX);

pub fn apply() -> Replay {
    Replay { dry_run: false, reason: Some("the cause is mended".to_owned()), ..Replay::default() }
}

pub async fn replay_by(engine: &Engine, request: &Replay) -> Replayed {
    replay(engine, request, EVER).await.unwrap()
}

/// Outcomes, counted.
pub fn outcomes(replayed: &Replayed) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in &replayed.items {
        *counts.entry(format!("{:?}", item.outcome)).or_default() += 1;
    }
    counts
}

#[track_caller]
fn only(replayed: &Replayed) -> &ReplayedItem {
    assert_eq!(replayed.items.len(), 1, "{replayed:?}");
    &replayed.items[0]
}

/// A world with one dead letter, and nothing goes wrong any more.
async fn dead_by(fault: &str, line: &str) -> (World, String) {
    let world = World::new(&[&format!("{fault}=1")]).await;
    let intake = world.land(line).await;
    world.until_over(&intake).await;
    assert_eq!(world.state().await, State::Parked, "{fault}");
    world.set_faults(&[]).await;
    (world, intake)
}

#[tokio::test]
async fn a_replayed_job_recovers_with_further_attempts_and_its_reason() {
    let (world, intake) = dead_by("failed-silent", &text("It fails four times.")).await;
    let before = world.job().await;
    let replayed = replay_by(&world.engine, &apply()).await;
    let item = only(&replayed);
    assert_eq!((replayed.scanned, replayed.resubmitted, replayed.dry_run), (1, 1, false), "{replayed:?}");
    assert_eq!((item.id.as_str(), item.class.as_str(), item.attempts), (before.key.0.as_str(), "exhausted:unknown", 4));
    assert_eq!((item.outcome, &item.why, &item.key, &item.run), (Outcome::Resubmitted, &None, &None, &None));
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.max_attempts, job.replays), (State::Submitted, 5, 8, 1));
    assert_eq!(job.letter.reason.as_deref(), Some("the cause is mended"));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, tally.parked, tally.possible_duplicates), (1, 0, 0));
    assert_eq!((world.accepted().await, world.hands.count()), (5, 1));
    let again = replay_by(&world.engine, &apply()).await;
    assert_eq!((again.scanned, again.items.len()), (0, 0), "it is no dead letter any more");
}

#[tokio::test]
async fn what_fails_again_is_the_same_dead_letter_again() {
    let (world, intake) = dead_by("blocked", &text("It is blocked.")).await;
    let first = world.job().await;
    world.set_faults(&["blocked=1"]).await;
    world.advance(HOUR);
    replay_by(&world.engine, &apply()).await;
    assert_eq!(world.until_over(&intake).await.tally.parked, 1);
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.replays), (State::Parked, 2, 1));
    assert_eq!(job.parked_at, first.parked_at, "first seen then");
    assert!(job.since > first.since && job.letter.sent.is_none_or(|sent| sent >= job.since), "{:?}", job.letter);
    // A refusal of the line itself is told at once.
    world.set_faults(&[]).await;
    let other = Replay { model: Some("no-such-model".to_owned()), ..apply() };
    let replayed = replay_by(&world.engine, &other).await;
    assert_eq!((replayed.still_failing, only(&replayed).outcome), (1, Outcome::StillFailing), "{replayed:?}");
    assert!(only(&replayed).why.as_deref().unwrap().starts_with("permanent:404: "), "{replayed:?}");
    let job = world.job().await;
    assert_eq!((job.state, job.replays, job.model.as_str()), (State::Parked, 2, "no-such-model"));
}

#[tokio::test]
async fn every_handle_is_looked_at_before_anything_is_sent() {
    // It takes longer than anybody waited for it.
    let mut maker = Maker::default();
    maker.settings.deadline = HOUR;
    maker.settings.max_attempts = 1;
    let world = World::with(&[], Config { latency: HOUR * 2, polls_until_done: 0, ..Config::default() }, maker).await;
    let intake = world.land(text("It takes its time.")).await;
    world.until_over(&intake).await;
    let accepted = world.accepted().await;
    assert_eq!((world.state().await, accepted), (State::Parked, 1));
    world.advance(HOUR * 2);
    let dry = replay_by(&world.engine, &Replay::default()).await;
    assert_eq!((only(&dry).outcome, dry.dry_run), (Outcome::WouldReplay, true));
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((replayed.recovered, only(&replayed).outcome), (1, Outcome::Recovered), "{replayed:?}");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, world.accepted().await), (1, accepted), "nothing was sent for it");
    assert_eq!((world.job().await.attempts, world.hands.count()), (1, 1));
}

#[tokio::test]
async fn a_handle_that_nobody_can_look_at_keeps_it_from_being_sent() {
    let (world, intake) = dead_by("failed-silent", &text("It can't be looked at.")).await;
    world.set_faults(&["get-503=1"]).await;
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((only(&replayed).outcome, world.accepted().await), (Outcome::Resubmitted, 4), "{replayed:?}");
    assert_eq!((world.state().await, world.job().await.attempts), (State::Retryable, 4));
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, world.accepted().await), (1, 5));
}

#[tokio::test]
async fn what_cannot_be_replayed_is_left_and_told_why() {
    let world = World::new(&[]).await;
    let intake = world.land("no JSON\n{\"input\": \"fine\"}\n").await;
    world.until_over(&intake).await;
    for request in [Replay::default(), apply()] {
        let replayed = replay_by(&world.engine, &request).await;
        let item = only(&replayed);
        assert_eq!((item.outcome, item.class.as_str()), (Outcome::Left, "bad_line:json"));
        assert!(item.why.as_deref().unwrap().contains("hand in a corrected line"), "{item:?}");
    }
    let bad = every(&world.engine, State::Parked, 10).await.unwrap();
    assert!(matches!(&bad[..], [Item::BadLine(bad)] if bad.letter.reason.is_none()), "{bad:?}");
}

#[tokio::test]
async fn a_job_is_left_whose_file_is_gone() {
    let (world, intake) = dead_by("blocked", &text("Its file is lost.")).await;
    let before = world.job().await;
    let object = world.data().join(gleaner::app::lines::object_name(&intake));
    let kept = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    for request in [Replay::default(), apply()] {
        let replayed = replay_by(&world.engine, &request).await;
        let item = only(&replayed);
        assert_eq!((item.outcome, replayed.trouble.as_deref()), (Outcome::Left, None), "{item:?}");
        assert!(item.why.as_deref().unwrap().contains("hand the same file in again"), "{item:?}");
    }
    assert_eq!((world.job().await, world.accepted().await), (before, 1));
    std::fs::write(&object, kept).unwrap();
    replay_by(&world.engine, &apply()).await;
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);
}

#[tokio::test]
async fn ids_are_taken_whole_or_shortened_and_each_is_told_of() {
    let world = World::new(&["blocked=1"]).await;
    let texts: Vec<String> = (0..4).map(|n| text(&format!("Blocked {n}."))).collect();
    let intake = world.land(texts.concat() + "no JSON\n").await;
    world.until_over(&intake).await;
    world.set_faults(&[]).await;
    let keys: Vec<String> = texts.iter().map(|line| key_of(line).0).collect();
    let of = |ids: &[&str]| Replay { ids: Some(ids.iter().map(|id| (*id).to_owned()).collect()), ..apply() };
    let unknown = of(&[&keys[0], "00000000000000000000000000000000"]);
    let error = replay(&world.engine, &unknown, EVER).await.unwrap_err();
    assert!(matches!(&error, ReplayError::Bad(why) if why.contains("no dead letter 0000")), "{error}");
    assert!(world.jobs().await.iter().all(|job| job.state == State::Parked), "nothing is begun with an unknown id");

    let handle = world.jobs().await.iter().find(|job| job.key.0 == keys[2]).unwrap().handles[0].id.clone();
    let short = format!("line/{}/5", intake.get(..6).unwrap());
    let request = of(&[&keys[0], &keys[0], &format!("job/{}", keys[1]), &handle, keys[3].get(..8).unwrap(), &short]);
    let replayed = replay_by(&world.engine, &request).await;
    assert_eq!((replayed.scanned, replayed.resubmitted), (5, 4), "{replayed:?}");
    let left = replayed.items.iter().filter(|item| item.outcome == Outcome::Left).collect::<Vec<_>>();
    assert!(matches!(&left[..], [bad] if bad.id.starts_with("line/")), "{left:?}");
    world.until_over(&intake).await;
    let again = replay_by(&world.engine, &of(&[&keys[0]])).await;
    assert_eq!((again.scanned, only(&again).outcome), (0, Outcome::Left));
    assert!(only(&again).why.as_deref().unwrap().contains("recovered"), "{again:?}");
    // With a filter beside it, and a limit: what they keep out is told too.
    let request = Replay { error_class: Some("blocked".to_owned()), ..of(&[&short]) };
    assert!(only(&replay_by(&world.engine, &request).await).why.as_deref().unwrap().contains("bad_line:json"));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_done() {
    let (world, _) = dead_by("blocked", &text("It is blocked.")).await;
    let raw = |text: &str| Some(RawValue::from_string(text.to_owned()).unwrap());
    for (request, said) in [
        (Replay { reason: None, ..apply() }, "reason"),
        (Replay { reason: Some(" ".to_owned()), ..apply() }, "reason"),
        (Replay { limit: 0, ..apply() }, "limit"),
        (Replay { limit: 1001, ..apply() }, "limit"),
        (Replay { ids: Some(Vec::new()), ..apply() }, "ids"),
        (Replay { error_class: Some(String::new()), ..apply() }, "error_class"),
        (Replay { model: Some(" ".to_owned()), ..apply() }, "model"),
        (Replay { model: Some("..".to_owned()), ..apply() }, "model: no URL"),
        (Replay { model: Some("models/.".to_owned()), ..Replay::default() }, "model: no URL"),
        (Replay { request: raw("[]"), ..apply() }, "request"),
        (Replay { request: raw("{}"), ..apply() }, "request"),
        (Replay { request: raw(r#"{"a": 1, "a": 2}"#), ..apply() }, "request"),
    ] {
        let error = replay(&world.engine, &request, EVER).await.unwrap_err();
        assert!(matches!(&error, ReplayError::Bad(why) if why.contains(said)), "{said}: {error}");
    }
    assert_eq!((world.state().await, world.job().await.replays), (State::Parked, 0));
    let none = replay(&world.engine, &apply(), world.now()).await.unwrap();
    assert_eq!((only(&none).outcome, world.state().await), (Outcome::Left, State::Parked), "there is no time");
}

#[tokio::test]
async fn a_change_that_makes_a_line_bad_leaves_it() {
    let (world, _) = dead_by("blocked", &json_line("It is blocked.")).await;
    let raw = |text: &str| Some(RawValue::from_string(text.to_owned()).unwrap());
    for (request, said) in [
        (r#"{"background": false}"#, "background"),
        (r#"{"input": null}"#, "input"),
        (r#"{"response_formt": {}}"#, "response_formt"),
        (r#"{"labels": {"UPPER": "x"}}"#, "labels"),
    ] {
        for base in [Replay::default(), apply()] {
            let replayed = replay_by(&world.engine, &Replay { request: raw(request), ..base }).await;
            assert_eq!(only(&replayed).outcome, Outcome::Left, "{request}");
            assert!(only(&replayed).why.as_deref().unwrap().contains(said), "{replayed:?}");
        }
    }
    let job = world.job().await;
    assert_eq!((job.state, job.replays, job.changes), (State::Parked, 0, None));
}

#[tokio::test]
async fn a_pause_and_a_rejected_key_leave_it_due() {
    let (world, intake) = dead_by("blocked", &text("It waits.")).await;
    gleaner::app::gates::pause(&world.engine, "the budget is used up").await.unwrap();
    world.advance(MINUTE);
    let replayed = replay_by(&world.engine, &apply()).await;
    assert_eq!((only(&replayed).outcome, world.accepted().await), (Outcome::Resubmitted, 1));
    gleaner::app::gates::resume(&world.engine).await.unwrap();
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);

    let (world, intake) = dead_by("blocked", &text("Its key is bad.")).await;
    world.set_faults(&["key-rejected=1"]).await;
    let replayed = replay_by(&world.engine, &apply()).await;
    assert!(replayed.trouble.as_deref().is_some_and(|why| why.contains("operator:")), "{replayed:?}");
    assert_eq!((only(&replayed).outcome, world.state().await), (Outcome::Resubmitted, State::Retryable));
    world.set_faults(&[]).await;
    gleaner::app::gates::resume(&world.engine).await.unwrap();
    assert_eq!(world.until_over(&intake).await.tally.recovered, 1);
    assert_eq!(world.accepted().await, 2);
}
