//! What looks at handles may lead to, and what they may not.

use super::super::looks::LOOKS_WITHOUT_ANSWER;
use super::*;
use crate::domain::policy::LATER_LOOKS;

const DAY: Duration = LATER_LOOKS[0];

/// A dead letter whose only handle was given up, at its cap; its message was sent.
fn parked_with_a_given_up_handle() -> (Life, String) {
    let (mut life, id) = Life::submitted();
    life.job.max_attempts = 1;
    life.give_up(&id);
    assert_eq!((life.job.state, life.class()), (State::Parked, "exhausted:cancelled"));
    life.tell();
    (life, id)
}

#[test]
fn a_running_job_is_looked_at_later_each_time_up_to_the_longest_wait() {
    let (mut life, id) = Life::submitted();
    let mut waits = Vec::new();
    for _ in 0..12 {
        life.until_due();
        assert_eq!(life.step(), Action::Look(vec![id.clone()]));
        life.with(|job, now| job.still_running(&id, now));
        waits.push(life.job.due_at.unwrap().since(life.at));
    }
    assert!(waits.is_sorted() && waits[0] == 15 * SECOND && waits[11] == 300 * SECOND, "{waits:?}");
}

#[test]
fn a_job_that_runs_or_says_what_nobody_knows_is_polled_until_its_deadline_and_then_given_up() {
    let (mut life, id) = Life::submitted();
    let deadline = life.job.handle(&id).unwrap().deadline;
    let mut looks = 0;
    while life.job.state == State::Submitted {
        life.until_due();
        life.with(|job, now| job.still_running(&id, now));
        looks += 1;
    }
    assert!(life.at >= deadline && life.at < deadline.plus(6 * MINUTE), "{}", life.at);
    assert!((800..1000).contains(&looks), "every five minutes of 72 hours: {looks}");
    assert_eq!((life.job.state, life.class(), life.fate(&id)), (State::GivenUp, "deadline", Fate::GivenUp));
}

#[test]
fn a_failing_look_never_leads_to_a_new_submit() {
    let (mut life, id) = Life::submitted();
    let deadline = life.job.handle(&id).unwrap().deadline;
    while life.at < deadline {
        life.until_due();
        assert_eq!((life.job.state, life.step()), (State::Submitted, Action::Look(vec![id.clone()])));
        life.with(|job, now| job.look_failed(&id, None, now));
        assert!(life.job.due_at.unwrap() > life.at);
    }
    // The last of those looks was made at the deadline.
    for _ in 1..LOOKS_WITHOUT_ANSWER {
        assert_eq!(life.job.state, State::Submitted);
        life.until_due();
        life.with(|job, now| job.look_failed(&id, None, now));
    }
    assert_eq!((life.job.state, life.class(), life.job.attempts), (State::Parked, "no_answer", 1));
    assert!(life.at.since(deadline) >= 23 * HOUR, "one failing look at the deadline condemns nobody");
    life.tell();
    assert_eq!(life.job.due_at, Some(life.at.plus(DAY)), "and a late result is still taken");
    life.until_due();
    life.finish(&id);
    life.with(|job, now| job.consumed(now));
    assert_eq!(life.job.state, State::Recovered);
}

#[test]
fn a_failing_look_waits_for_the_delay_that_the_answer_names_within_reason() {
    let (mut life, id) = Life::submitted();
    life.until_due();
    life.with(|job, now| job.look_failed(&id, Some(90 * SECOND), now));
    assert_eq!(life.job.due_at, Some(life.at.plus(90 * SECOND)));
    life.with(|job, now| job.look_failed(&id, Some(Duration::MAX), now));
    assert_eq!(life.job.due_at, Some(life.at.plus(HOUR)));
}

#[test]
fn missing_is_not_believed_within_the_grace_time() {
    let (mut life, id) = Life::submitted();
    let grace = life.policy.not_found_grace;
    life.until_due();
    let first_seen = life.at;
    while life.job.state == State::Submitted {
        assert!(life.at.since(first_seen) <= grace, "it is believed as soon as the grace time is over");
        life.with(|job, now| job.missing(&id, "no such interaction", now));
        if life.job.state == State::Submitted {
            life.until_due();
        }
    }
    assert_eq!(life.at, first_seen.plus(grace));
    assert_eq!((life.job.state, life.class(), life.fate(&id)), (State::GivenUp, "not_found", Fate::GivenUp));
}

#[test]
fn an_answer_of_another_kind_begins_the_grace_time_of_missing_anew() {
    let (mut life, id) = Life::submitted();
    life.with(|job, now| job.missing(&id, "no such interaction", now));
    life.wait(9 * MINUTE);
    life.with(|job, now| job.still_running(&id, now));
    life.wait(2 * MINUTE);
    life.with(|job, now| job.missing(&id, "no such interaction", now));
    assert_eq!((life.job.state, life.fate(&id)), (State::Submitted, Fate::Live));
}

#[test]
fn a_given_up_handle_of_a_dead_letter_is_looked_at_after_24_and_48_hours_and_then_never() {
    type Outcome = fn(&mut Life, &str);
    let outcomes: [Outcome; 4] = [
        |life, id| life.with(|job, now| job.still_running(id, now)),
        |life, id| life.with(|job, now| job.missing(id, "no such interaction", now)),
        |life, id| life.give_up(id),
        |life, id| {
            for _ in 0..LOOKS_WITHOUT_ANSWER {
                life.until_due();
                life.with(|job, now| job.look_failed(id, None, now));
            }
        },
    ];
    for outcome in outcomes {
        let (mut life, id) = parked_with_a_given_up_handle();
        let given_up = life.at;
        for after in LATER_LOOKS {
            assert_eq!(life.job.due_at, Some(given_up.plus(after)));
            life.until_due();
            assert_eq!(life.step(), Action::Look(vec![id.clone()]));
            outcome(&mut life, &id);
            assert_eq!((life.job.state, life.class()), (State::Parked, "exhausted:cancelled"));
        }
        assert_eq!((life.job.due_at, life.fate(&id)), (Some(given_up.plus(RENEWED_AFTER)), Fate::GivenUp));
        for _ in 0..3 {
            life.tell();
            assert_eq!((life.job.due_at, life.step()), (life.renewal(), Action::Wait), "only its message is renewed");
        }
    }
}

#[test]
fn a_later_look_without_an_answer_is_made_again_soon_and_less_and_less_often() {
    let (mut life, id) = parked_with_a_given_up_handle();
    life.until_due();
    let mut waits = Vec::new();
    for _ in 0..12 {
        life.with(|job, now| job.look_failed(&id, None, now));
        waits.push(life.job.due_at.unwrap().since(life.at));
        life.until_due();
        assert_eq!(life.step(), Action::Look(vec![id.clone()]));
    }
    assert!(waits.is_sorted() && waits[0] == 15 * SECOND && waits[11] == 300 * SECOND, "{waits:?}");
}

#[test]
fn a_dead_letter_whose_later_look_is_overdue_is_looked_at_at_once() {
    let (mut life, id) = Life::submitted();
    life.job.max_attempts = 2;
    life.give_up(&id);
    let second = life.reserve();
    let other = life.accepted(&second);
    life.wait(30 * HOUR);
    life.fail(&other, Verdict::Permanent);
    assert_eq!(life.job.state, State::Parked);
    let parked = life.at;
    life.tell();
    life.until_due();
    assert_eq!((life.at, life.step()), (parked, Action::Look(vec![id])));
}

#[test]
fn a_given_up_handle_is_looked_at_beside_the_attempt_that_came_after_it() {
    let (mut life, old) = Life::submitted();
    life.give_up(&old);
    let second = life.reserve();
    let new = life.accepted(&second);
    life.until_due();
    assert_eq!(life.step(), Action::Look(vec![new.clone()]), "not before 24 hours");
    life.wait(DAY);
    assert_eq!(life.step(), Action::Look(vec![old.clone(), new.clone()]));
    life.with(|job, now| {
        job.still_running(&old, now);
        job.still_running(&new, now);
    });
    life.until_due();
    assert_eq!(life.step(), Action::Look(vec![new.clone()]), "once");
    // At 48 hours it turns out to have finished: taken, while the other still runs.
    life.wait(DAY);
    assert_eq!(life.step(), Action::Look(vec![old.clone(), new.clone()]));
    life.finish(&old);
    life.with(|job, now| job.consumed(now));
    assert_eq!((life.job.state, life.fate(&old), life.fate(&new)), (State::Consumed, Fate::Won, Fate::Live));
}

#[test]
fn what_a_given_up_handle_brings_late_does_not_judge_the_attempt_after_it() {
    // Seen in one round of looks, in either order: the attempt that is live failed for a passing reason.
    for late_first in [false, true] {
        let (mut life, old) = Life::submitted();
        life.give_up(&old);
        let second = life.reserve();
        let new = life.accepted(&second);
        life.wait(DAY);
        if late_first {
            life.fail(&old, Verdict::Permanent);
            assert_eq!(life.job.state, State::Submitted);
        }
        life.fail(&new, Verdict::Retryable);
        if !late_first {
            let due = life.job.due_at;
            life.fail(&old, Verdict::Permanent);
            assert_eq!(life.job.due_at, due);
        }
        assert_eq!((life.job.state, life.class()), (State::Retryable, "retryable:503"));
        assert_eq!((life.fate(&old), life.fate(&new)), (Fate::Ended, Fate::Ended));
    }
}

#[test]
fn what_a_given_up_handle_brings_late_does_not_put_off_the_next_attempt() {
    let (mut life, old) = Life::submitted();
    life.give_up(&old);
    let second = life.reserve();
    let new = life.accepted(&second);
    life.wait(DAY);
    life.fail(&new, Verdict::Retryable);
    let before = (life.job.state, life.job.due_at);
    life.with(|job, now| job.look_failed(&old, Some(HOUR), now));
    life.with(|job, now| job.still_running(&old, now));
    life.give_up(&old);
    assert_eq!((life.job.state, life.job.due_at), before);
}

#[test]
fn a_late_failure_keeps_the_class_of_a_dead_letter_and_settles_the_doubt() {
    let (mut life, id) = parked_with_a_given_up_handle();
    assert!(life.job.maybe_accepted);
    life.until_due();
    life.fail(&id, Verdict::Permanent);
    assert_eq!((life.job.state, life.class()), (State::Parked, "exhausted:cancelled"));
    assert_eq!((life.job.due_at, life.fate(&id)), (Some(life.job.letter.due(life.job.since)), Fate::Ended));
    assert_eq!(life.step(), Action::Wait);
    assert!(!life.job.maybe_accepted, "a replay sends nothing twice");
}

#[test]
fn one_of_two_live_handles_that_ends_leaves_the_job_to_the_other() {
    for give_up in [false, true] {
        let (mut life, first, second) = Life::sent_again();
        let late = life.accepted(&first);
        let own = life.accepted(&second);
        if give_up {
            life.give_up(&late)
        } else {
            life.fail(&late, Verdict::Permanent)
        }
        assert_eq!((life.job.state, &life.job.class), (State::Submitted, &None));
        life.until_due();
        assert_eq!(life.step(), Action::Look(vec![own.clone()]));
        life.fail(&own, Verdict::Permanent);
        assert_eq!((life.job.state, life.class()), (State::Parked, "permanent:400"));
    }
}

#[test]
fn a_handle_that_still_runs_is_waited_for_instead_of_sending_again() {
    let (mut life, id) = Life::submitted();
    life.with(|job, now| job.missing(&id, "no such interaction", now));
    life.wait(11 * MINUTE);
    life.with(|job, now| job.missing(&id, "no such interaction", now));
    assert_eq!(life.job.state, State::GivenUp);
    life.until_due();
    life.with(|job, now| job.revive(&id, now));
    assert_eq!((life.job.state, life.fate(&id)), (State::Submitted, Fate::Live));
    life.with(|job, now| job.missing(&id, "no such interaction", now));
    assert_eq!(life.job.state, State::Submitted, "it has its grace time again");
    life.fail(&id, Verdict::Retryable);
    life.reserve();
    assert_eq!(life.job.possible_duplicates, 0, "nothing was in doubt when it was sent again");
}

#[test]
fn a_failure_that_turns_out_to_be_none_makes_the_resend_a_duplicate() {
    let (mut life, first) = Life::submitted();
    life.fail(&first, Verdict::Retryable);
    let second = life.reserve();
    let other = life.accepted(&second);
    life.fail(&other, Verdict::Retryable);
    assert_eq!(life.job.possible_duplicates, 0);
    life.with(|job, now| job.revive(&first, now));
    assert_eq!((life.job.state, life.job.possible_duplicates), (State::Submitted, 1));
}

#[test]
fn only_what_ended_without_a_result_is_revived() {
    let (mut life, id) = Life::submitted();
    life.fail(&id, Verdict::Retryable);
    let before = life.job.clone();
    life.with(|job, now| job.revive("v1_unknown", now));
    assert_eq!(life.job, before);
    life.with(|job, now| job.revive(&id, now));
    let before = life.job.clone();
    life.with(|job, now| job.revive(&id, now));
    assert_eq!(life.job, before, "a live one is polled already");
}

#[test]
fn nothing_is_sent_again_while_an_earlier_handle_cannot_be_looked_at() {
    for give_up in [false, true] {
        let (mut life, id) = Life::submitted();
        if give_up {
            life.give_up(&id)
        } else {
            life.fail(&id, Verdict::Retryable)
        }
        let mut waits = Vec::new();
        for _ in 1..LOOKS_WITHOUT_ANSWER {
            life.until_due();
            assert_eq!(life.step(), Action::Submit);
            life.with(|job, now| job.look_back_failed(&id, None, now));
            waits.push(life.job.due_at.unwrap().since(life.at));
        }
        assert!(waits.is_sorted() && waits[0] == 15 * SECOND && waits[11] == 300 * SECOND, "{waits:?}");
        life.until_due();
        life.with(|job, now| job.look_back_failed(&id, None, now));
        assert_eq!((life.job.state, life.class(), life.job.attempts), (State::Parked, "no_answer", 1));
        life.tell();
        assert_eq!(life.job.due_at < life.renewal(), give_up, "what may still bring a result is looked at later");
    }
}
