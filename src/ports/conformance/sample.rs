//! Sample items for tests.

use std::time::Duration;

use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::gate::Gate;
use crate::domain::intake::{Cursor, Intake};
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{Fate, Handle, InputRef, Job, JobKey, KeyId, Lease, Mode, Moment, Rev, State, Work};
use crate::domain::letter::Letter;
use crate::domain::part::{Counts, Intent, Part, PartId, Passed, Sending};
use crate::domain::time::Millis;
use crate::domain::webhook::{EVENT_LEASE, Event, KEPT, Outcome, Stray};

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
    job.changes = Some("replays/0123.json".to_owned());
    job.letter.number = 3;
    job.letter.sent = Some(minute(4));
    job.letter.reason = Some("der Schlüssel war abgelaufen".to_owned());
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
        mode: None,
        calls: false,
        on_result: None,
        run: None,
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
        letter: Letter::default(),
    }
}

/// The run of [`INTAKE`].
pub const RUN: &str = "e3b0c44298fc1c149afbf4c8996fb924";

/// A part of [`RUN`] with everything in it.
#[must_use]
pub fn part(number: u32, rev: Rev) -> Part {
    let id = PartId::numbered(number);
    let passed = Passed {
        attempt: 1,
        name: "0123456789ab".to_owned(),
        late: false,
        without_output: false,
        counts: Counts { rows: 10, succeeded: 7, retry: 2, dead: 1, missing: 1, duplicates: 3, ..Counts::default() },
        classes: [("blocked:SAFETY".to_owned(), 1)].into(),
        told: 0,
        dead_bytes: 120,
        mended: 0,
        recovered_bytes: 0,
        retry_bytes: 200,
        healed: 10,
        result_bytes: 300,
    };
    let sending = |number| Sending {
        number,
        rows_at: format!("runs/{RUN}/{id}.jsonl"),
        rows: 10,
        bytes: 1000,
        tries: number,
        free: false,
        ended: None,
    };
    Part {
        run: RUN.to_owned(),
        rev,
        state: State::UnderWay,
        since: START,
        due_at: Some(minute(60)),
        lease: Some(Lease { holder: "ffeeddccbbaa99887766554433221100".to_owned(), until: minute(2) }),
        intake: INTAKE.to_owned(),
        model: "gemini-flash-latest".to_owned(),
        rows_at: format!("runs/{RUN}/{id}.jsonl"),
        rows: 10,
        bytes: 1000,
        upto: Some(Cursor { offset: 1000, line: 11, jobs: 10, repeats: 0, bad_lines: 0 }),
        used: 1,
        granted: 4,
        replays: 2,
        maybe_paid: true,
        of_group: Some("blocked:SAFETY".to_owned()),
        by_call: true,
        attempts: vec![
            sending(1),
            Sending { ended: Some(("expired".to_owned(), "expired at Gemini".to_owned())), free: true, ..sending(2) },
        ],
        intent: Some(Intent {
            attempt: 2,
            output: Some("answers/raw.jsonl".to_owned()),
            download: 2,
            late: true,
            blame: ("missing".to_owned(), "日本語 \"quoted\"".to_owned()),
            announced: 9,
            last: true,
        }),
        passes: vec![passed],
        halved: true,
        discarded: 2,
        part: id,
    }
}

/// A dead row of [`RUN`].
#[must_use]
pub fn dead_row(id: &str, rev: Rev) -> DeadRow {
    DeadRow {
        id: id.to_owned(),
        rev,
        state: State::Parked,
        since: START,
        due_at: None,
        intake: INTAKE.to_owned(),
        run: RUN.to_owned(),
        part: PartId::numbered(1),
        attempt: 2,
        attempts: 2,
        key: "行 \u{1f680} 'quoted'".to_owned(),
        at: ("runs/dead.jsonl".to_owned(), 100, 20),
        class: "blocked:SAFETY".to_owned(),
        message: "finish reason SAFETY".to_owned(),
        first_seen: START,
        replays: 0,
        replayed_in: None,
        letter: Letter::default(),
    }
}

/// Many dead rows of [`RUN`].
#[must_use]
pub fn dead_group(class: &str, rev: Rev) -> DeadGroup {
    DeadGroup {
        rev,
        state: State::Parked,
        since: START,
        due_at: None,
        intake: INTAKE.to_owned(),
        run: RUN.to_owned(),
        class: class.to_owned(),
        message: "no such field".to_owned(),
        rows: [("1.1".to_owned(), 4000), ("2a.3".to_owned(), 1)].into(),
        first_seen: START,
        replays: 0,
        replayed_in: Vec::new(),
        taken: [("3.0123456789ab".to_owned(), (7, PartId::numbered(3).replay(1)))].into(),
        letter: Letter::default(),
    }
}

/// An event that was just taken at [`START`].
#[must_use]
pub fn event(name: &str, rev: Rev) -> Event {
    Event {
        name: name.to_owned(),
        rev,
        state: State::Taken,
        since: START,
        about: "interaction.completed".to_owned(),
        lease: Some(START.plus(EVENT_LEASE)),
        outcome: None,
        expires: START.plus(KEPT),
    }
}

/// The same event, handled two seconds later.
#[must_use]
pub fn handled_event(name: &str, rev: Rev) -> Event {
    Event {
        state: State::Handled,
        since: START.plus(Duration::from_secs(2)),
        lease: None,
        outcome: Some(Outcome::Queued("job/ünï-日本語".to_owned())),
        ..event(name, rev)
    }
}

/// A handle that three events named.
#[must_use]
pub fn stray(handle: &str, rev: Rev) -> Stray {
    Stray { handle: handle.to_owned(), rev, since: START, events: 3, expires: Millis(START.plus(KEPT).0 + 1) }
}

/// One item of each kind.
#[must_use]
pub fn one_of_each(mut rev: impl FnMut() -> Rev) -> Vec<Item> {
    vec![
        Item::Job(full_job("a-job", rev())),
        Item::Intake(intake(INTAKE, rev())),
        Item::Gate(gate("a1b2c3d4e5f6/interaction/models/gemini-flash-latest", rev())),
        Item::BadLine(bad_line(3, rev())),
        Item::Part(Box::new(part(1, rev()))),
        Item::DeadRow(dead_row("00112233445566778899aabbccddeeff", rev())),
        Item::DeadGroup(dead_group("permanent:400", rev())),
        Item::Event(handled_event("00112233445566778899aabbccddeeff", rev())),
        Item::Stray(stray("v1_\u{1f680} 日本語", rev())),
    ]
}
