//! From a finished remote job to a consumed result, and what becomes of dead letters.

use super::*;
use crate::domain::policy::CONSUME_TRIES;

fn consume_again(life: &mut Life) -> bool {
    let holder = life.token("holder");
    life.with(|job, now| job.consume_again(&holder, now))
}

fn done() -> (Life, String) {
    let (mut life, id) = Life::submitted();
    life.finish(&id);
    (life, id)
}

#[test]
fn a_finished_job_is_consumed_under_a_lease_and_then_closed_for_ever() {
    let (mut life, id) = done();
    assert_eq!((life.step(), life.fate(&id)), (Action::Wait, Fate::Won));
    life.with(|job, now| job.consumed(now));
    assert_eq!((life.job.state, life.job.due_at, &life.job.lease), (State::Consumed, None, &None));
    assert!(!life.job.maybe_accepted, "there is nothing left to send");
    let closed = life.job.clone();
    life.fail(&id, Verdict::Permanent);
    life.give_up(&id);
    life.with(|job, now| {
        job.consumed(now);
        job.consume_failed("late", true, now);
        job.finished(&id, "holder", now);
        job.discard("late", now);
        job.park("late", "late", now);
        job.still_running(&id, now);
        job.look_failed(&id, None, now);
        job.revive(&id, now);
        job.hold_back(now.at);
        assert!(!job.end_grace(now) && !job.consume_again("holder", now) && !job.renew("holder", now));
    });
    assert_eq!(life.job, closed);
}

#[test]
fn a_consumer_that_stopped_is_taken_over_when_its_lease_has_run_out() {
    let (mut life, _) = done();
    life.until_due();
    assert_eq!(life.step(), Action::Consume);
    assert!(consume_again(&mut life));
    assert_eq!((life.job.state, life.job.consume_tries, life.step()), (State::Done, 2, Action::Wait));
    assert_eq!(life.states().iter().filter(|state| **state == State::Done).count(), 1, "the same moment goes on");
}

#[test]
fn five_tries_to_consume_that_failed_park_the_job() {
    let (mut life, id) = done();
    for tries in 1..CONSUME_TRIES {
        life.with(|job, now| job.consume_failed("no answer from the command", true, now));
        assert_eq!((life.job.state, life.job.consume_tries), (State::Done, tries));
        assert!(life.job.due_at.unwrap() > life.at, "after a back-off");
        life.until_due();
        assert_eq!(life.step(), Action::Consume);
        assert!(consume_again(&mut life));
    }
    life.with(|job, now| job.consume_failed("no answer from the command", true, now));
    assert_eq!((life.job.state, life.class(), life.job.due_at), (State::Parked, "internal:consume", Some(life.at)));
    assert_eq!(life.fate(&id), Fate::Won, "the answer is kept");
    assert!(life.job.maybe_accepted, "it was paid for: sending it again counts");
}

#[test]
fn five_consumers_that_crashed_park_the_job() {
    let (mut life, _) = done();
    for _ in 1..CONSUME_TRIES {
        life.until_due();
        assert!(consume_again(&mut life));
    }
    life.until_due();
    assert!(!consume_again(&mut life));
    assert_eq!(
        (life.job.state, life.class(), life.job.consume_tries),
        (State::Parked, "internal:consume", CONSUME_TRIES)
    );
}

#[test]
fn trouble_of_the_machine_is_not_charged_to_the_job() {
    let (mut life, _) = done();
    for _ in 0..20 {
        life.with(|job, now| job.consume_failed("the disk is full", false, now));
        assert_eq!((life.job.state, life.job.consume_tries), (State::Done, 0));
        life.until_due();
        assert!(consume_again(&mut life));
    }
}

#[test]
fn a_late_result_settles_a_dead_letter_as_recovered() {
    let (mut life, id) = Life::submitted();
    life.job.max_attempts = 1;
    life.give_up(&id);
    assert_eq!(life.job.state, State::Parked);
    life.until_due();
    life.finish(&id);
    life.with(|job, now| job.consumed(now));
    assert_eq!((life.job.state, life.job.due_at, &life.job.class), (State::Recovered, None, &None));
}

#[test]
fn a_late_handle_settles_what_the_policy_parked() {
    let mut life = Life::parking_what_is_unclear();
    let first = life.reserve();
    life.doubt(&first);
    life.pass_grace();
    let id = life.accepted(&first);
    life.finish(&id);
    life.with(|job, now| job.consumed(now));
    assert_eq!(life.job.state, State::Recovered);
}

#[test]
fn a_dead_letter_whose_late_result_cannot_be_consumed_stays_one() {
    let (mut life, id) = Life::submitted();
    life.job.max_attempts = 1;
    life.give_up(&id);
    let parked_at = life.job.parked_at;
    assert!(parked_at.is_some());
    life.until_due();
    life.finish(&id);
    for _ in 1..CONSUME_TRIES {
        life.with(|job, now| job.consume_failed("no", true, now));
        life.until_due();
        assert!(consume_again(&mut life));
    }
    life.with(|job, now| job.consume_failed("no", true, now));
    assert_eq!((life.job.state, life.class()), (State::Parked, "internal:consume"));
    assert_eq!(life.job.parked_at, parked_at, "first seen stays");
}

#[test]
fn a_dead_letter_that_has_its_result_is_not_moved_by_another_handle() {
    let (mut life, first, second) = Life::sent_again();
    let own = life.accepted(&second);
    life.finish(&own);
    for _ in 1..CONSUME_TRIES {
        life.until_due();
        consume_again(&mut life);
    }
    life.with(|job, now| job.consume_failed("no", true, now));
    assert_eq!(life.job.state, State::Parked);
    life.tell();
    let late = life.accepted(&first);
    assert_eq!((life.job.state, life.class(), life.job.due_at), (State::Parked, "internal:consume", life.renewal()));
    assert_eq!(life.fate(&late), Fate::Live);
}

#[test]
fn another_answer_of_a_dead_letter_has_all_its_tries_and_is_the_one_that_is_kept() {
    let (mut life, old) = Life::submitted();
    life.give_up(&old);
    let second = life.reserve();
    let new = life.accepted(&second);
    life.finish(&new);
    for _ in 1..CONSUME_TRIES {
        life.until_due();
        consume_again(&mut life);
    }
    life.with(|job, now| job.consume_failed("the answer is gone at Gemini", true, now));
    life.tell();
    life.until_due();
    assert_eq!(life.step(), Action::Look(vec![old.clone()]));
    life.finish(&old);
    assert_eq!((life.job.consume_tries, life.fate(&old), life.fate(&new)), (1, Fate::Won, Fate::Ended));
}

#[test]
fn a_finished_handle_that_nobody_knows_moves_nothing() {
    let (mut life, _) = Life::submitted();
    let before = life.job.clone();
    life.with(|job, now| job.finished("v1_unknown", "holder", now));
    assert_eq!(life.job, before);
}

#[test]
fn what_has_finished_is_consumed_while_another_create_is_under_way_or_unclear() {
    for unclear in [false, true] {
        let (mut life, old) = Life::submitted();
        life.give_up(&old);
        let second = life.reserve();
        if unclear {
            life.doubt(&second);
        }
        life.finish(&old);
        assert!(life.job.maybe_accepted, "the latest create may have been accepted");
        let late = life.accepted(&second);
        assert!(!life.doubt(&second) && !life.give_back(&second));
        assert_eq!((life.job.state, life.fate(&late)), (State::Done, Fate::Live));
        life.with(|job, now| job.consumed(now));
        assert_eq!((life.job.state, life.fate(&old)), (State::Consumed, Fate::Won));
    }
}
