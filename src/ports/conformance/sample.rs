//! Sample items for tests.

use std::time::Duration;

use crate::domain::gate::Gate;
use crate::domain::intake::{Cursor, Intake};
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{Fate, Handle, InputRef, Job, JobKey, KeyId, Lease, Mode, Moment, Rev, State, Work};
use crate::domain::time::Millis;

/// The time at which samples begin: 2026-11-29T22:30:00Z.
pub const START: Millis = Millis(1_795_991_400_000);

/// sha256 of nothing: the intake that samples are of unless they say otherwise.
pub const INTAKE: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A minute after the start, two minutes after it, …
#[must_use]
pub fn minute(n: u64) -> Millis {
    START.plus(Duration::from_secs(60 * n))
}

/// A job that was just reserved at [`START`], for two minutes. Everything that a test cares about it sets itself.
#[must_use]
pub fn job(key: &str, rev: Rev) -> Job {
    let work = Work {
        key: JobKey(key.to_owned()),
        input: InputRef { intake: INTAKE.to_owned(), line: 1, offset: 0, length: 100 },
        content: "0123456789abcdef0123456789abcdef".to_owned(),
        mode: Mode::Interaction,
        model: "gemini-flash-latest".to_owned(),
        max_attempts: 4,
        deadline_s: 72 * 3600,
    };
    let mut job = Job::planned(work, rev, START);
    job.attempts = 1;
    job.nonce = "00112233445566778899aabbccddeeff".to_owned();
    job.enter(State::Reserving, Some(minute(2)), START);
    job.lease = Some(Lease { holder: "ffeeddccbbaa99887766554433221100".to_owned(), until: minute(2) });
    job
}

/// A job in a state since a time, due or not.
#[must_use]
pub fn job_in(key: &str, rev: Rev, state: State, since: Millis, due_at: Option<Millis>) -> Job {
    let mut job = job(key, rev);
    job.enter(state, due_at, since);
    job
}

/// A live handle of the first attempt.
#[must_use]
pub fn handle(id: &str) -> Handle {
    Handle {
        id: id.to_owned(),
        attempt: 1,
        key: KeyId("a1b2c3d4e5f6".to_owned()),
        at: START,
        deadline: minute(72 * 60),
        polls: 3,
        missing_since: None,
        fate: Fate::Live,
        given_up_at: None,
        looks: 0,
    }
}

/// A job with every field filled, in several scripts.
#[must_use]
pub fn full_job(key: &str, rev: Rev) -> Job {
    let mut job = job(key, rev);
    job.handles = vec![
        handle("v1_ünï-日本語"),
        Handle {
            missing_since: Some(minute(3)),
            fate: Fate::GivenUp,
            given_up_at: Some(minute(4)),
            looks: 1,
            ..handle("v1_\u{1f680} \"quoted\" \\ and 'single'")
        },
    ];
    job.blame("retryable:503", "サーバーが混み合っています; 'quotes', \"more\", \u{0}, \r\n and \u{10ffff}");
    job.consume_tries = 2;
    job.replays = 1;
    job.possible_duplicates = 3;
    job.maybe_accepted = true;
    job.answer = Some("answers/0123/1.json".to_owned());
    job.history.push(Moment(minute(5), State::Unclear, 2, Some("unclear:timeout".to_owned())));
    job
}

/// An intake of ten lines, three of which were taken.
#[must_use]
pub fn intake(sha256: &str, rev: Rev) -> Intake {
    Intake {
        sha256: sha256.to_owned(),
        rev,
        state: State::Reading,
        since: START,
        due_at: Some(START),
        lease: Some(Lease { holder: "ffeeddccbbaa99887766554433221100".to_owned(), until: minute(2) }),
        file: "質問 (final).jsonl".to_owned(),
        bytes: 1000,
        lines: 10,
        landed_at: START,
        mixed: false,
        on_result: None,
        cancelled: None,
        cursor: Cursor { offset: 300, line: 4, jobs: 1, repeats: 1, bad_lines: 1 },
    }
}

/// A gate that was closed for a minute.
#[must_use]
pub fn gate(name: &str, rev: Rev) -> Gate {
    Gate {
        name: name.to_owned(),
        rev,
        since: START,
        until: Some(minute(1)),
        unclear: 0,
        refusals: 2,
        class: Some("queue:429".to_owned()),
        message: Some("Quota exceeded".to_owned()),
        needs_person: false,
        probe: None,
        paused: Some("until Monday".to_owned()),
    }
}

/// A bad line of [`INTAKE`].
#[must_use]
pub fn bad_line(line: u64, rev: Rev) -> BadLine {
    BadLine {
        rev,
        state: State::Parked,
        since: START,
        due_at: None,
        input: InputRef { intake: INTAKE.to_owned(), line, offset: 200, length: 7 },
        file: "jobs.jsonl".to_owned(),
        class: "bad_line:utf8".to_owned(),
        message: "byte 3 is no UTF-8".to_owned(),
        excerpt: "{\"in\u{fffd}put".to_owned(),
        first_seen: START,
    }
}

/// One item of each kind.
#[must_use]
pub fn one_of_each(mut rev: impl FnMut() -> Rev) -> Vec<Item> {
    vec![
        Item::Job(full_job("a-job", rev())),
        Item::Intake(intake(INTAKE, rev())),
        Item::Gate(gate("a1b2c3d4e5f6/interaction/models/gemini-flash-latest", rev())),
        Item::BadLine(bad_line(3, rev())),
    ]
}
