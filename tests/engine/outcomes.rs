//! How interactions end, and what becomes of their jobs.

use gleaner::domain::job::{Fate, Job, State};
use gleaner::simulator::Config;
use serde_json::Value;

use super::check::is_told_only;
use super::world::{Maker, World, json_line, text};

async fn over(faults: &[&str], line: &str, max_attempts: u32) -> (World, Job) {
    let mut maker = Maker::default();
    maker.settings.max_attempts = max_attempts;
    let world = World::with(faults, Config::default(), maker).await;
    let intake = world.land(line).await;
    world.until_over(&intake).await;
    let job = world.job().await;
    (world, job)
}

/// The raw answer that a job keeps is that of one of its handles.
fn assert_kept(world: &World, job: &Job, answers: usize) {
    assert_eq!(world.objects("answers").len(), answers);
    let bytes = std::fs::read(world.data().join(job.answer.as_ref().unwrap())).unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(answer["id"], job.handles.last().unwrap().id);
}

#[tokio::test]
async fn what_passes_is_tried_again_after_the_back_off_up_to_the_cap() {
    for (fault, classes) in [
        ("failed-errors", ["exhausted:500", "exhausted:503", "exhausted:504"].as_slice()),
        ("failed-step", &["exhausted:429", "exhausted:500", "exhausted:503", "exhausted:504"]),
        ("failed-silent", &["exhausted:unknown"]),
        ("empty-answer", &["exhausted:empty"]),
    ] {
        let (world, job) = over(&[&format!("{fault}=1")], &text("It fails."), 3).await;
        assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Parked, 3, 0), "{fault}");
        assert!(classes.contains(&job.class.as_deref().unwrap()), "{fault}: {:?}", job.class);
        assert_eq!(world.accepted().await, 3, "{fault}");
        assert!(job.handles.iter().all(|handle| handle.fate == Fate::Ended), "{fault}");
        assert_kept(&world, &job, 3);
        assert!(is_told_only(&job), "{fault}: nothing to look at");
        let entered = |state| job.history.iter().filter(move |m| m.1 == state).map(|m| m.0);
        let waits: Vec<u128> = entered(State::Retryable)
            .zip(entered(State::Reserving).skip(1))
            .map(|(failed, sent)| sent.since(failed).as_millis())
            .collect();
        assert!(matches!(waits[..], [2000..=4000, 4000..=6000]), "{fault}: {waits:?}");
    }
}

#[tokio::test]
async fn a_failure_that_gemini_told_is_no_possible_duplicate() {
    for fault in ["failed-errors", "failed-step", "failed-silent", "empty-answer"] {
        let world = World::new(&[&format!("{fault}=1")]).await;
        let intake = world.land(text("It fails once.")).await;
        world.tick().await;
        world.set_faults(&[]).await;
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, tally.possible_duplicates), (1, 0), "{fault}");
        assert_eq!((world.accepted().await, world.job().await.attempts, world.hands.count()), (2, 2, 1), "{fault}");
        let job = world.job().await;
        assert_eq!((job.class, job.message), (None, None), "{fault}: nothing is wrong any more");
    }
}

#[tokio::test]
async fn what_was_cancelled_at_gemini_is_given_up_and_sent_again() {
    let world = World::new(&["cancelled-remote=1"]).await;
    let intake = world.land(text("Somebody cancelled it.")).await;
    world.tick().await;
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await, world.job().await.attempts), (1, 2, 2));
    assert_eq!(world.job().await.handles[0].fate, Fate::GivenUp);
}

#[tokio::test]
async fn what_stays_is_parked_at_once_with_its_answer() {
    for (fault, class) in [
        ("incomplete", "truncated"),
        ("budget-exceeded", "truncated"),
        ("requires-action", "requires_action"),
        ("blocked", "blocked:SAFETY"),
        ("bad-json", "extract:json"),
    ] {
        let (world, job) = over(&[&format!("{fault}=1")], &json_line("It ends badly."), 4).await;
        assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Parked, Some(class), 1), "{fault}");
        assert_eq!((is_told_only(&job), job.possible_duplicates, world.accepted().await), (true, 0, 1), "{fault}");
        assert_kept(&world, &job, 1);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_what_was_asked_for_may_be_tried_again() {
    let line = json_line("It ends badly.").replace(r#"{"input""#, r#"{"expect":{"retry":true},"input""#);
    let (world, job) = over(&["bad-json=1"], &line, 3).await;
    assert_eq!((job.state, job.class.as_deref()), (State::Parked, Some("exhausted:extract:json")));
    assert_eq!((job.attempts, job.possible_duplicates, world.accepted().await), (3, 0, 3));
}

#[tokio::test]
async fn a_refusal_of_the_line_itself_is_parked_at_once() {
    let line = r#"{"input": "It can't go.", "model": "no-such-model"}"#;
    let (world, job) = over(&[], line, 4).await;
    assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Parked, Some("permanent:404"), 1));
    assert_eq!((world.accepted().await, world.requests("create").await), (0, 1));
}
