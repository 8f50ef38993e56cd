//! Handles that events name for a create in doubt.

use super::*;

fn hear(life: &mut Life, id: &str, nonce: &str) -> bool {
    life.with(|job, now| job.heard(id, nonce, now))
}

#[test]
fn what_was_heard_is_asked_for_until_it_is_denied_long_enough_and_nothing_is_sent_meanwhile() {
    let (mut life, first) = Life::unclear();
    let grace_ends = life.job.due_at.unwrap();
    assert!(hear(&mut life, "v1_a", &first.nonce));
    assert_eq!(life.job.due_at, Some(life.at.plus(life.policy.poll_min)), "asked for soon");
    assert!(!life.with(|job, now| job.end_grace(now)), "the grace does not end while something is heard");
    let heard_at = life.at;
    let mut looks = 0;
    while !life.job.heard.is_empty() {
        life.until_due();
        assert_eq!(life.step(), Action::Prove);
        life.with(|job, now| job.heard_not_shown("v1_a", true, now));
        looks += 1;
    }
    assert!(looks > 3, "{looks}");
    assert!(life.at >= heard_at.plus(life.policy.not_found_grace), "a denial is not believed at once");
    assert_eq!((life.job.state, life.job.due_at), (State::Unclear, Some(grace_ends)));
    life.pass_grace();
    assert_eq!(life.reserve().attempt, 2);
}

#[test]
fn without_any_answer_it_is_asked_for_like_any_handle_and_then_no_more() {
    let (mut life, first) = Life::unclear();
    assert!(hear(&mut life, "v1_a", &first.nonce));
    let begun = life.at;
    while !life.job.heard.is_empty() {
        life.until_due();
        life.with(|job, now| job.heard_not_shown("v1_a", false, now));
        assert!(life.at < begun.plus(HOUR * 48), "it is asked for for ever");
    }
    assert!(life.at > begun.plus(HOUR * 12), "given up too early");
    assert_eq!(life.step(), Action::EndGrace, "the policy decides now");
}

#[test]
fn an_event_before_the_creates_own_answer_is_kept_for_when_that_stays_away() {
    let mut life = Life::new();
    let first = life.reserve();
    let lease_ends = life.job.due_at;
    assert!(hear(&mut life, "v1_a", &first.nonce));
    assert_eq!((life.job.state, life.job.due_at), (State::Reserving, lease_ends), "its sender has it");
    let mut answered = life.clone();
    assert!(answered.bring(&first, "v1_a"));
    assert!(answered.job.heard.is_empty() && answered.job.state == State::Submitted);
    assert!(life.doubt(&first));
    assert_eq!(life.job.due_at, Some(life.at.plus(life.policy.poll_min)));
    life.until_due();
    assert_eq!(life.step(), Action::Prove);
    assert!(life.bring(&first, "v1_a"));
    assert_eq!((life.job.state, life.job.class.as_deref()), (State::Submitted, None));
}

#[test]
fn only_a_reservations_own_nonce_is_heard_and_of_few_handles() {
    let (mut life, first) = Life::unclear();
    assert!(!hear(&mut life, "v1_a", "guessed") && !hear(&mut life, "v1_a", ""));
    let heard: Vec<bool> = (0..20).map(|n| hear(&mut life, &format!("v1_{n}"), &first.nonce)).collect();
    assert_eq!(heard.iter().filter(|heard| **heard).count(), 8);
    assert!(!hear(&mut life, "v1_0", &first.nonce), "once is enough");
    let (mut life, id) = Life::submitted();
    let nonce = life.job.nonce.clone();
    assert!(!hear(&mut life, &id, &nonce), "it is on record");
    life.finish(&id);
    assert!(!hear(&mut life, "v1_b", &nonce), "it has its result");
}

#[test]
fn whatever_a_job_waits_for_it_waits_for_what_was_heard_first_and_then_for_that_again() {
    let soon = |life: &Life| Some(life.at.plus(SECOND * 10));
    // Before it is sent again.
    let (mut life, first) = Life::unclear();
    life.pass_grace();
    let due = life.job.due_at;
    assert!(hear(&mut life, "v1_a", &first.nonce));
    let mut denied = life.clone();
    life.until_due();
    assert_eq!(life.step(), Action::Prove);
    life.with(|job, now| job.reserve(Ticket { nonce: "n".to_owned(), holder: "h".to_owned() }, now));
    assert_eq!((life.job.state, life.job.attempts), (State::Retryable, 1), "nothing is sent meanwhile");
    while !denied.job.heard.is_empty() {
        denied.until_due();
        denied.with(|job, now| job.heard_not_shown("v1_a", true, now));
    }
    assert_eq!(denied.job.due_at, due);
    assert_eq!(denied.reserve().attempt, 2);
    // A dead letter, which is due for the renewal of its message only.
    let mut life = Life::parking_what_is_unclear();
    let first = life.reserve();
    assert!(life.doubt(&first));
    life.pass_grace();
    let mut untold = life.clone();
    life.tell();
    assert_eq!((life.job.state, life.job.due_at), (State::Parked, life.renewal()));
    assert!(hear(&mut life, "v1_a", &first.nonce));
    assert_eq!(life.job.due_at, soon(&life));
    // One whose message is still to be sent has that first.
    assert!(hear(&mut untold, "v1_a", &first.nonce));
    assert_eq!(untold.job.due_at, Some(untold.at));
    untold.tell();
    assert_eq!(untold.job.due_at, soon(&untold));
    life.until_due();
    assert_eq!(life.step(), Action::Prove);
    let mut shown = life.clone();
    life.with(|job, now| job.heard_wrongly("v1_a", now));
    assert_eq!((life.job.state, life.job.due_at), (State::Parked, Some(life.job.letter.due(life.job.since))));
    assert_eq!(life.step(), Action::Wait);
    assert!(shown.bring(&first, "v1_a"));
    shown.finish("v1_a");
    shown.with(|job, now| job.consumed(now));
    assert_eq!(shown.job.state, State::Recovered);
    // One that runs: its own looks go on beside.
    let (mut life, first, second) = Life::sent_again();
    let id = life.accepted(&second);
    assert!(hear(&mut life, "v1_a", &first.nonce));
    assert_eq!(life.job.due_at, soon(&life));
    life.until_due();
    assert_eq!(life.step(), Action::Look(vec![id.clone()]));
    life.with(|job, now| job.heard_not_shown("v1_a", false, now));
    life.with(|job, now| job.still_running(&id, now));
    assert!(life.job.due_at > Some(life.at) && life.job.due_at <= Some(life.at.plus(SECOND * 15)));
}

#[test]
fn rare_polling_does_not_hold_up_what_was_heard() {
    let (mut life, first) = Life::unclear();
    (life.policy.poll_min, life.policy.poll_max) = (HOUR, HOUR);
    assert!(hear(&mut life, "v1_a", &first.nonce));
    assert_eq!(life.job.due_at, Some(life.at.plus(SECOND * 10)));
}

#[test]
fn a_refusal_settles_what_was_heard_of_it_and_nothing_else() {
    let (mut life, first, second) = Life::sent_again();
    assert!(hear(&mut life, "v1_old", &first.nonce) && hear(&mut life, "v1_new", &second.nonce));
    assert!(life.give_back(&second));
    assert!(life.job.has_heard_of("v1_old") && !life.job.has_heard_of("v1_new"));
    life.until_due();
    assert_eq!(life.step(), Action::Prove);
}

#[test]
fn an_event_of_an_earlier_create_in_doubt_still_brings_its_handle() {
    let (mut life, first, second) = Life::sent_again();
    assert_eq!(life.job.attempt_of(&first.nonce), Some(1));
    assert_eq!(life.job.attempt_of(&second.nonce), Some(2));
    assert_eq!((life.job.attempt_of("guessed"), life.job.attempt_of("")), (None, None));
    let late = life.accepted(&first);
    assert_eq!(life.job.state, State::Reserving, "the other create is under way");
    let other = life.accepted(&second);
    assert_eq!(life.job.possible_duplicates, 1, "told when it was sent again");
    life.finish(&late);
    assert_eq!((life.fate(&late), life.fate(&other)), (Fate::Won, Fate::Live));
}

#[test]
fn what_was_refused_has_no_nonce_and_what_has_a_handle_needs_none() {
    let mut life = Life::new();
    let first = life.reserve();
    assert!(life.give_back(&first));
    assert_eq!(life.job.attempt_of(&first.nonce), None);
    let second = life.reserve();
    let id = life.accepted(&second);
    life.give_up(&id);
    let third = life.reserve();
    assert!(life.job.doubtful.is_empty());
    assert_eq!((life.job.attempt_of(&second.nonce), life.job.attempt_of(&third.nonce)), (None, Some(2)));
}

#[test]
fn few_nonces_are_kept_however_often_a_create_stays_in_doubt() {
    let mut life = Life::new();
    life.job.max_attempts = 100;
    let mut nonces = Vec::new();
    for _ in 0..20 {
        let reservation = life.reserve();
        nonces.push(reservation.nonce.clone());
        assert!(life.doubt(&reservation));
        life.pass_grace();
    }
    life.reserve();
    let kept: Vec<u32> = nonces.iter().filter_map(|nonce| life.job.attempt_of(nonce)).collect();
    assert_eq!(kept, [17, 18, 19, 20]);
}

#[test]
fn what_a_look_contradicts_is_forgotten_and_nothing_else_is() {
    let (mut life, first) = Life::unclear();
    let grace_ends = life.job.due_at;
    assert!(hear(&mut life, "v1_a", &first.nonce) && hear(&mut life, "v1_b", &first.nonce));
    life.with(|job, now| job.heard_wrongly("v1_a", now));
    let heard: Vec<&str> = life.job.heard.iter().map(|heard| heard.id.as_str()).collect();
    assert_eq!(heard, ["v1_b"]);
    assert!(!life.with(|job, now| job.end_grace(now)), "the other one is still asked for");
    life.with(|job, now| job.heard_wrongly("v1_b", now));
    assert_eq!((life.job.heard.len(), life.job.due_at), (0, grace_ends), "the policy decides when it would have");
}

#[test]
fn each_handle_is_heard_of_once_and_the_next_look_is_for_the_one_that_is_due_first() {
    let (mut life, first) = Life::unclear();
    assert!(hear(&mut life, "v1_a", &first.nonce) && !hear(&mut life, "v1_a", &first.nonce));
    assert_eq!(life.job.heard.len(), 1);
    for _ in 0..4 {
        life.until_due();
        life.with(|job, now| job.heard_not_shown("v1_a", false, now));
    }
    let soon = life.at.plus(life.policy.poll_min);
    assert!(life.job.due_at > Some(soon), "it was asked for often");
    assert!(hear(&mut life, "v1_b", &first.nonce));
    assert_eq!(life.job.due_at, Some(soon));
}

#[test]
fn a_second_handle_of_one_attempt_is_told_as_paid_for_besides() {
    let (mut life, first) = Life::unclear();
    let told = life.accepted(&first);
    assert_eq!(life.job.possible_duplicates, 0);
    assert!(!life.bring(&first, &told), "the same one is no news");
    life.accepted(&first);
    assert_eq!(life.job.possible_duplicates, 1);
}
