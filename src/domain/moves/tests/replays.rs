//! What people do about dead letters.

use super::*;
use crate::domain::moves::Again;

const AGAIN: Again<'_> = Again { granted: 3, reason: "the model is back", model: None, changes: None };

/// A dead letter, one of whose two attempts was given up.
fn parked() -> Life {
    let (mut life, id) = Life::submitted();
    life.give_up(&id);
    let second = life.reserve();
    let id = life.accepted(&second);
    life.fail(&id, Verdict::Permanent);
    assert_eq!(life.job.state, State::Parked);
    life
}

#[test]
fn a_replay_grants_further_attempts_and_forgets_nothing() {
    let mut life = parked();
    life.wait(HOUR);
    let before = life.job.clone();
    let again = Again { model: Some("another"), changes: Some("replays/a.json"), ..AGAIN };
    assert!(life.with(|job, now| job.replay(&again, now)));
    let job = &life.job;
    assert_eq!((job.state, job.due_at, life.step()), (State::Retryable, Some(life.at), Action::Submit));
    assert_eq!((job.attempts, job.max_attempts, job.replays), (2, 5, 1));
    assert_eq!((job.model.as_str(), job.changes.as_deref()), ("another", Some("replays/a.json")));
    assert_eq!(job.letter.reason.as_deref(), Some("the model is back"));
    assert_eq!((&job.handles, job.parked_at, &job.class), (&before.handles, before.parked_at, &before.class));
    let claimed = life.job.clone();
    assert!(!life.with(|job, now| job.replay(&AGAIN, now)), "it is no dead letter now");
    assert_eq!(life.job, claimed);
    // It may fail as often as it was granted, and is a dead letter again then.
    for _ in 0..3 {
        let reservation = life.reserve();
        let id = life.accepted(&reservation);
        life.fail(&id, Verdict::Retryable);
    }
    assert_eq!((life.job.state, life.job.attempts), (State::Parked, 5));
    assert_eq!((life.job.parked_at, life.job.letter.sent), (before.parked_at, None), "told of anew");
    assert!(life.with(|job, now| job.replay(&AGAIN, now)));
    assert_eq!((life.job.model.as_str(), life.job.max_attempts, life.job.replays), ("another", 8, 2));
    assert_eq!(life.job.changes.as_deref(), Some("replays/a.json"), "what was changed stays");
}

#[test]
fn a_replay_that_is_answered_recovers() {
    let mut life = parked();
    assert!(life.with(|job, now| job.replay(&AGAIN, now)));
    let reservation = life.reserve();
    let id = life.accepted(&reservation);
    life.finish(&id);
    life.with(|job, now| job.consumed(now));
    assert_eq!(life.job.state, State::Recovered);
}

#[test]
fn only_a_result_that_nobody_took_is_handed_on_anew() {
    let mut life = parked();
    let before = life.job.clone();
    assert!(!life.with(|job, now| job.replay_hand_over("mended", now)));
    assert_eq!(life.job, before);
    life.with(|job, now| job.park("internal:consume", "no answer from the command", now));
    assert!(life.job.could_not_be_consumed());
    assert!(life.with(|job, now| job.replay_hand_over("mended", now)));
    assert_eq!((life.job.state, life.step(), life.job.replays), (State::Done, Action::Consume, 1));
    assert_eq!((life.job.attempts, life.job.max_attempts), (before.attempts, before.max_attempts));
}

#[test]
fn what_is_given_up_is_closed_with_its_reason() {
    let mut life = parked();
    assert!(life.with(|job, now| job.discard_letter("nobody needs it", now)));
    let job = &life.job;
    assert_eq!(
        (job.state, job.due_at, job.letter.reason.as_deref()),
        (State::Discarded, None, Some("nobody needs it"))
    );
    assert!(job.history.iter().any(|moment| moment.3.as_deref() == Some("permanent:400")), "{:?}", job.history);
    let closed = life.job.clone();
    life.with(|job, now| assert!(!job.discard_letter("again", now) && !job.replay(&AGAIN, now)));
    assert_eq!(life.job, closed);
}
