use super::*;
use crate::domain::intake::{Cursor, Intake};
use crate::domain::item::BadLine;
use crate::domain::job::{Lease, Rev};
use crate::domain::letter::{Letter, RENEWED_AFTER};
use crate::ports::conformance::sample::{self, START, minute};

fn rev() -> Rev {
    Rev("rev".to_owned())
}

/// A job in that state since the start, due after a minute, with a live handle.
fn job(state: State) -> Job {
    let mut job = sample::job_in("key", rev(), state, START, Some(minute(1)));
    job.handles.push(sample::handle("v1_a"));
    job
}

fn at(job: Job, now: Millis) -> Action {
    step(&Item::Job(job), now)
}

#[test]
fn each_state_has_its_duty_when_it_is_due_and_none_before() {
    let look = || Action::Look(vec!["v1_a".to_owned()]);
    let duties = [
        (State::Reserving, Action::TakeOver),
        (State::Unclear, Action::EndGrace),
        (State::Submitted, look()),
        (State::Done, Action::Consume),
        (State::Consumed, Action::Wait),
        (State::Retryable, Action::Submit),
        (State::GivenUp, Action::Submit),
        (State::Parked, Action::Tell),
        (State::Recovered, Action::Wait),
        (State::Discarded, Action::Wait),
    ];
    assert_eq!(duties.each_ref().map(|(state, _)| *state), State::OF_JOBS);
    for (state, duty) in duties {
        assert_eq!(at(job(state), START), Action::Wait, "{state} is not due yet");
        assert_eq!(at(job(state), minute(1)), duty, "{state}");
        assert_eq!(at(Job { due_at: None, ..job(state) }, minute(1)), Action::Wait, "{state} without a due time");
    }
    // A dead letter whose message was sent is looked at as what it waits for asks.
    let mut told = job(State::Parked);
    told.letter.sent = Some(START);
    assert_eq!(at(told.clone(), minute(1)), look());
    let renewal = START.plus(RENEWED_AFTER);
    told.due_at = Some(renewal);
    assert_eq!(at(told, renewal), Action::Tell);
}

#[test]
fn nobody_touches_what_is_leased() {
    for state in [State::Reserving, State::Done] {
        let lease = Some(Lease { holder: "somebody".to_owned(), until: minute(2) });
        let job = Job { lease, ..job(state) };
        assert_eq!(at(job.clone(), minute(1)), Action::Wait, "{state}");
        assert_ne!(at(job, minute(2)), Action::Wait, "{state} after the lease");
    }
}

#[test]
fn given_up_handles_are_looked_at_24_and_48_hours_later_and_others_that_ended_never() {
    let hours = |hours: u64| minute(60 * hours);
    let given_up = |looks| Handle { fate: Fate::GivenUp, given_up_at: Some(START), looks, ..sample::handle("v1_b") };
    assert_eq!([0, 1, 2, 3].map(|looks| later_look(&given_up(looks))), [Some(hours(24)), Some(hours(48)), None, None]);
    assert_eq!(later_look(&sample::handle("v1_a")), None);
    let mut job = job(State::Submitted);
    job.handles.extend([given_up(0), Handle { fate: Fate::Ended, ..sample::handle("v1_c") }]);
    let looked_at = |now| match at(job.clone(), now) {
        Action::Look(handles) => handles,
        other => panic!("{other:?}"),
    };
    assert_eq!(looked_at(hours(23)), ["v1_a"]);
    assert_eq!(looked_at(hours(24)), ["v1_a", "v1_b"]);
}

#[test]
fn lines_are_taken_from_an_intake_that_is_due() {
    let intake = |state, due_at| {
        Item::Intake(Intake {
            sha256: sample::INTAKE.to_owned(),
            rev: rev(),
            state,
            since: START,
            due_at,
            lease: None,
            file: "jobs.jsonl".to_owned(),
            bytes: 1,
            lines: 1,
            landed_at: START,
            mixed: false,
            mode: None,
            calls: false,
            run: None,
            on_result: None,
            cancelled: None,
            cursor: Cursor::default(),
        })
    };
    assert_eq!(step(&intake(State::Reading, Some(minute(1))), START), Action::Wait);
    assert_eq!(step(&intake(State::Reading, Some(START)), START), Action::TakeLines);
    assert_eq!(step(&intake(State::Read, None), minute(9)), Action::Wait);
}

#[test]
fn a_bad_line_asks_for_its_message() {
    let bad = BadLine {
        rev: rev(),
        state: State::Parked,
        since: START,
        due_at: Some(START),
        input: job(State::Parked).input,
        file: "jobs.jsonl".to_owned(),
        class: "bad_line:json".to_owned(),
        message: "no JSON".to_owned(),
        excerpt: "{".to_owned(),
        first_seen: START,
        letter: Letter::default(),
    };
    assert_eq!(step(&Item::BadLine(bad.clone()), minute(1)), Action::Tell);
    let settled = BadLine { state: State::Discarded, ..bad };
    assert_eq!(step(&Item::BadLine(settled), minute(1)), Action::Wait);
}
