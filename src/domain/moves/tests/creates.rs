//! What becomes of create calls: reservations, unclear answers, refusals, late holders, counted duplicates.

use std::time::Duration;

use super::*;
use crate::domain::classify::Delay;
use crate::domain::policy::LONGEST_DELAY;

#[test]
fn an_attempt_is_counted_when_it_is_reserved() {
    let mut life = Life::new();
    life.reserve();
    assert_eq!((life.job.state, life.job.attempts), (State::Reserving, 1));
    // A crash right after it leaves it counted.
    assert_eq!(life.job.due_at, Some(life.policy.lease_from(life.at)));
}

#[test]
fn an_expired_reservation_becomes_unclear_and_is_never_sent_again_directly() {
    let mut life = Life::new();
    let first = life.reserve();
    assert_eq!(life.step(), Action::Wait, "the lease holds");
    life.until_due();
    assert_eq!(life.step(), Action::TakeOver);
    assert!(life.doubt(&first));
    assert_eq!((life.job.state, life.class()), (State::Unclear, "unclear"));
    let ticket = Ticket { nonce: "other".to_owned(), holder: "other".to_owned() };
    life.with(|job, now| job.reserve(ticket, now));
    assert_eq!((life.job.state, life.job.attempts), (State::Unclear, 1), "an unclear job can't be reserved");
    assert_eq!(life.job.due_at, Some(life.at.plus(life.policy.unclear_grace)));
}

#[test]
fn nothing_is_reserved_beyond_the_cap() {
    let (mut life, id) = Life::submitted();
    life.job.max_attempts = 1;
    life.fail(&id, Verdict::Retryable);
    assert_eq!((life.job.state, life.class()), (State::Parked, "exhausted:503"));
    let mut life = Life::new();
    life.job.max_attempts = 0;
    life.with(|job, now| job.reserve(Ticket { nonce: "n".to_owned(), holder: "h".to_owned() }, now));
    assert_eq!((life.job.state, life.job.attempts), (State::Retryable, 0));
}

#[test]
fn after_the_grace_time_an_unclear_create_is_sent_again_and_counted() {
    let (life, ..) = Life::sent_again();
    assert_eq!((life.job.attempts, life.job.possible_duplicates), (2, 1));
    assert_eq!(life.states(), [State::Reserving, State::Unclear, State::Retryable, State::Reserving]);
}

#[test]
fn after_the_grace_time_an_unclear_create_is_parked_where_the_policy_says_so() {
    let mut life = Life::parking_what_is_unclear();
    let first = life.reserve();
    life.doubt(&first);
    life.pass_grace();
    assert_eq!((life.job.state, life.class(), life.job.due_at), (State::Parked, "unclear", Some(life.at)));
    assert!(life.job.maybe_accepted, "a replay counts it");
}

#[test]
fn an_unclear_create_at_the_cap_is_parked() {
    let mut life = Life::new();
    life.job.max_attempts = 1;
    let first = life.reserve();
    life.doubt(&first);
    life.pass_grace();
    assert_eq!((life.job.state, life.class()), (State::Parked, "exhausted:unclear"));
}

#[test]
fn a_late_holder_attaches_its_handle_whatever_has_become_of_the_job() {
    type Arrange = fn(&mut Life, &Reservation);
    let places: [(State, Arrange); 3] = [
        (State::Unclear, |_, _| {}),
        (State::Retryable, |life, _| life.pass_grace()),
        (State::Parked, |life, _| {
            life.policy.on_unclear = OnUnclear::Park;
            life.pass_grace();
        }),
    ];
    for (state, arrange) in places {
        let (mut life, first) = Life::unclear();
        arrange(&mut life, &first);
        assert_eq!(life.job.state, state);
        let id = life.accepted(&first);
        assert_eq!((life.job.state, life.fate(&id)), (State::Submitted, Fate::Live), "from {state}");
        assert_eq!(life.job.due_at, Some(life.at.plus(life.policy.poll_min)));
        assert_eq!(life.job.class, None, "nothing is unclear any more");
        life.job.replays = 1;
        life.fail(&id, Verdict::Retryable);
        life.reserve();
        assert_eq!(life.job.possible_duplicates, 0, "the only create before was seen to fail");
    }
}

#[test]
fn a_handle_that_is_already_there_is_a_success() {
    let mut life = Life::new();
    let first = life.reserve();
    // The event is faster than the answer of the create call.
    assert!(life.bring(&first, "v1_a"));
    let before = life.job.clone();
    assert!(!life.bring(&first, "v1_a"));
    assert!(!life.doubt(&first), "nor is a time-out of that call news");
    assert!(!life.refuse(&first, Verdict::Permanent));
    assert_eq!(life.job, before);
}

#[test]
fn a_late_handle_does_not_end_the_reservation_of_another() {
    let (mut life, first, second) = Life::sent_again();
    let due = life.job.due_at;
    let late = life.accepted(&first);
    assert!(life.job.is_reserved_by(&second.nonce));
    assert_eq!((life.job.due_at, life.job.lease.is_some()), (due, true));
    let own = life.accepted(&second);
    assert_eq!((life.job.state, life.job.possible_duplicates), (State::Submitted, 1));
    life.until_due();
    assert_eq!(life.step(), Action::Look(vec![late, own]));
}

#[test]
fn a_refusal_beside_a_late_handle_goes_on_with_the_handle() {
    for verdict in [Verdict::Permanent, Verdict::Retryable] {
        let (mut life, first, second) = Life::sent_again();
        let late = life.accepted(&first);
        assert!(life.refuse(&second, verdict));
        assert_eq!((life.job.state, life.job.possible_duplicates), (State::Submitted, 0));
        life.until_due();
        assert_eq!(life.step(), Action::Look(vec![late]));
    }
}

#[test]
fn a_definite_refusal_means_not_created() {
    let mut life = Life::new();
    let first = life.reserve();
    assert!(life.refuse(&first, Verdict::Retryable));
    assert_eq!((life.job.state, life.job.attempts), (State::Retryable, 1));
    assert_eq!(life.job.due_at, Some(life.at.plus(life.policy.backoff(1, 0.0))));
    life.reserve();
    assert_eq!(life.job.possible_duplicates, 0);
    let mut life = Life::new();
    let first = life.reserve();
    assert!(life.refuse(&first, Verdict::Permanent));
    assert_eq!((life.job.state, life.class(), life.job.due_at), (State::Parked, "permanent:400", Some(life.at)));
    life.tell();
    assert_eq!((life.job.due_at, life.step()), (life.renewal(), Action::Wait), "and then for its renewal only");
}

#[test]
fn a_refusal_of_the_whole_queue_gives_the_attempt_back_in_the_same_write() {
    let mut life = Life::new();
    let first = life.reserve();
    assert!(life.give_back(&first));
    assert_eq!((life.job.state, life.job.attempts), (State::Retryable, 0));
    assert_eq!(life.job.due_at, Some(life.at.plus(MINUTE)), "it waits for the gate");
    assert!(!life.give_back(&first), "once");
    assert_eq!(life.job.attempts, 0);
}

#[test]
fn a_refused_resend_was_no_duplicate_but_the_next_one_is() {
    type Refuse = fn(&mut Life, &Reservation) -> bool;
    let refusals: [Refuse; 2] = [
        |life, second| life.give_back(second),
        |life, second| {
            let judgement = judgement(Verdict::Retryable);
            life.with(|job, now| job.refused(&second.nonce, &judgement, "no", now))
        },
    ];
    for refuse in refusals {
        let (mut life, _, second) = Life::sent_again();
        assert_eq!(life.job.possible_duplicates, 1);
        assert!(refuse(&mut life, &second));
        assert_eq!(life.job.possible_duplicates, 0);
        life.reserve();
        assert_eq!(life.job.possible_duplicates, 1, "the first create may still have been accepted");
    }
}

#[test]
fn a_late_definite_answer_settles_an_unclear_create() {
    let (mut life, first) = Life::unclear();
    assert!(life.give_back(&first));
    assert_eq!((life.job.state, life.job.attempts), (State::Retryable, 0));
    life.reserve();
    assert_eq!(life.job.possible_duplicates, 0);

    let (mut life, first) = Life::unclear();
    assert!(life.refuse(&first, Verdict::Permanent));
    assert_eq!((life.job.state, life.class()), (State::Parked, "permanent:400"));
}

#[test]
fn a_late_definite_answer_of_an_older_create_changes_nothing() {
    let (mut life, first, second) = Life::sent_again();
    let before = life.job.clone();
    assert!(!life.give_back(&first) && !life.refuse(&first, Verdict::Permanent) && !life.doubt(&first));
    assert_eq!(life.job, before);
    life.doubt(&second);
    let before = life.job.clone();
    assert!(!life.give_back(&first) && !life.refuse(&first, Verdict::Permanent) && !life.doubt(&first));
    assert_eq!(life.job, before);
}

#[test]
fn an_unclear_create_beside_a_late_handle_has_its_grace_when_that_handle_brings_nothing() {
    for give_up in [false, true] {
        let (mut life, first, second) = Life::sent_again();
        let late = life.accepted(&first);
        assert!(life.doubt(&second));
        assert_eq!(life.job.state, State::Submitted, "it goes on with the late handle");
        if give_up {
            life.give_up(&late)
        } else {
            life.fail(&late, Verdict::Retryable)
        }
        assert_eq!((life.job.state, life.job.due_at), (State::Unclear, Some(life.at.plus(life.policy.unclear_grace))));
        let event = life.accepted(&second);
        assert_eq!((life.job.state, life.fate(&event)), (State::Submitted, Fate::Live));
        life.fail(&event, Verdict::Retryable);
        life.reserve();
        assert_eq!(life.job.possible_duplicates, 1, "the first create only");
    }
}

#[test]
fn an_unclear_create_beside_a_late_handle_counts_when_it_is_sent_again() {
    let (mut life, first, second) = Life::sent_again();
    life.doubt(&second);
    life.pass_grace();
    let late = life.accepted(&first);
    life.fail(&late, Verdict::Retryable);
    life.pass_grace();
    life.reserve();
    assert_eq!((life.job.attempts, life.job.possible_duplicates), (3, 2), "one for each create that is unclear");
}

#[test]
fn an_unclear_create_beside_a_late_handle_counts_when_a_dead_letter_is_sent_again() {
    let (mut life, first, second) = Life::sent_again();
    let late = life.accepted(&first);
    life.doubt(&second);
    let mut refused = life.clone();
    life.fail(&late, Verdict::Permanent);
    assert_eq!((life.job.state, life.job.maybe_accepted), (State::Parked, true));
    refused.give_back(&second);
    refused.fail(&late, Verdict::Permanent);
    assert_eq!((refused.job.state, refused.job.maybe_accepted), (State::Parked, false));
}

#[test]
fn an_unclear_create_beside_a_late_handle_is_settled_by_its_own_late_refusal() {
    let (mut life, first, second) = Life::sent_again();
    let late = life.accepted(&first);
    life.doubt(&second);
    assert!(life.give_back(&second));
    assert_eq!((life.job.state, life.job.attempts, life.job.possible_duplicates), (State::Submitted, 1, 0));
    life.fail(&late, Verdict::Retryable);
    life.reserve();
    assert_eq!(life.job.possible_duplicates, 0, "the only create that was accepted was seen to fail");
}

#[test]
fn each_create_counts_as_a_possible_duplicate_once() {
    // The first is unclear and is sent again past it; its handle comes late and is given up: it has been counted.
    let (mut life, first, second) = Life::sent_again();
    let late = life.accepted(&first);
    let own = life.accepted(&second);
    life.fail(&own, Verdict::Retryable);
    life.give_up(&late);
    life.reserve();
    assert_eq!((life.job.attempts, life.job.possible_duplicates), (3, 1));
}

#[test]
fn a_failure_that_was_seen_is_no_possible_duplicate() {
    let (mut life, id) = Life::submitted();
    life.fail(&id, Verdict::Retryable);
    life.reserve();
    assert_eq!((life.job.attempts, life.job.possible_duplicates), (2, 0));
}

#[test]
fn an_attempt_that_was_given_up_is_a_possible_duplicate_when_it_is_sent_again() {
    let (mut life, id) = Life::submitted();
    life.give_up(&id);
    assert_eq!((life.job.state, life.fate(&id)), (State::GivenUp, Fate::GivenUp));
    life.reserve();
    assert_eq!((life.job.attempts, life.job.possible_duplicates), (2, 1));
}

#[test]
fn a_discarded_job_stays_so_and_keeps_a_late_handle_on_record() {
    let mut life = Life::new();
    let first = life.reserve();
    life.with(|job, now| job.discard("not needed", now));
    let id = life.accepted(&first);
    assert_eq!((life.job.state, life.job.due_at, life.fate(&id)), (State::Discarded, None, Fate::Live));
    assert_eq!(life.job.message.as_deref(), Some("not needed"));
    for verdict in [Verdict::Permanent, Verdict::Retryable] {
        life.refuse(&first, verdict);
        life.fail(&id, verdict);
    }
    life.with(|job, now| {
        job.park("x", "x", now);
        job.discard("another reason", now);
        job.finished(&id, "holder", now);
        job.revive(&id, now);
        job.hold_back(now.at);
    });
    assert_eq!((life.job.state, life.job.due_at), (State::Discarded, None));
    assert_eq!(life.job.message.as_deref(), Some("not needed"));
}

#[test]
fn a_dead_letter_is_not_sent_again_by_itself_when_a_late_handle_brings_nothing() {
    for give_up in [false, true] {
        let mut life = Life::parking_what_is_unclear();
        let first = life.reserve();
        life.doubt(&first);
        life.pass_grace();
        let mut replayed = life.clone();
        replayed.job.replays = 1;
        for (life, expected) in [(&mut life, false), (&mut replayed, true)] {
            let id = life.accepted(&first);
            if give_up {
                life.give_up(&id)
            } else {
                life.fail(&id, Verdict::Retryable)
            }
            assert_eq!(life.job.state != State::Parked, expected, "only a person's replay allows more: {:?}", life.job);
        }
    }
}

#[test]
fn a_lease_is_renewed_by_its_holder_only() {
    let mut life = Life::new();
    let first = life.reserve();
    let holder = life.job.lease.clone().unwrap().holder;
    life.wait(40 * SECOND);
    assert!(!life.with(|job, now| job.renew("somebody", now)));
    assert!(life.with(|job, now| job.renew(&holder, now)));
    let until = life.at.plus(life.policy.submit_lease);
    assert_eq!((life.job.due_at, life.job.lease.clone().unwrap().until), (Some(until), until));
    life.wait(100 * SECOND);
    assert_eq!(life.step(), Action::Wait, "a holder that is merely slow keeps it");
    life.doubt(&first);
    assert!(!life.with(|job, now| job.renew(&holder, now)), "it is lost with the state");
}

#[test]
fn a_named_delay_is_waited_for_but_not_for_ever() {
    let due_after = |delay: Delay| {
        let mut life = Life::new();
        let first = life.reserve();
        let judgement = Judgement { delay: Some(delay), ..judgement(Verdict::Retryable) };
        life.with(|job, now| job.refused(&first.nonce, &judgement, "later", now));
        life.job.due_at.unwrap().since(life.at)
    };
    assert_eq!(due_after(Delay::After(90 * SECOND)), 90 * SECOND);
    assert_eq!(due_after(Delay::After(Duration::ZERO)), 2 * SECOND, "never sooner than the back-off");
    assert_eq!(due_after(Delay::After(Duration::MAX)), LONGEST_DELAY);
    // 2026-11-29T22:30Z: midnight Pacific is nine and a half hours away.
    assert_eq!(due_after(Delay::NextPacificMidnight), 9 * HOUR + 30 * MINUTE);
}

#[test]
fn a_closed_gate_holds_back_what_waits() {
    let mut life = Life::new();
    life.reserve();
    let until = life.at.plus(HOUR);
    life.job.hold_back(until);
    assert_eq!(life.job.due_at, Some(until));
}
