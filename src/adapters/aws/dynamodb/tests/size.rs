//! How large the item of a job is by DynamoDB's own rules: up to 1 KB, a write of it costs one unit.

use std::time::Duration;

use super::*;
use crate::domain::dead::KEY_BYTES;
use crate::domain::job::{MESSAGE_BYTES, Work};
use crate::domain::moves::{Now, Ticket, fresh_handle};
use crate::domain::policy::Policy;
use crate::domain::webhook::{Event, Outcome};

/// Bytes of an item (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>):
/// names and texts in UTF-8; a number about a byte for two digits and one more; lists and maps three bytes, and one more
/// for each element.
fn size(item: &Attributes) -> usize {
    item.iter().map(|(name, value)| name.len() + size_of(value)).sum()
}

fn size_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => {
            // Digit pairs may begin at either digit, so that a pair more is allowed for than the rule says.
            let digits = number.trim_start_matches('-').trim_matches('0').len();
            1 + usize::from(number.starts_with('-'))
                + digits.div_ceil(2)
                + usize::from(digits > 0 && digits.is_multiple_of(2))
        }
        AttributeValue::Bool(_) | AttributeValue::Null(_) => 1,
        AttributeValue::L(list) => 3 + list.iter().map(|value| 1 + size_of(value)).sum::<usize>(),
        AttributeValue::M(map) => 3 + map.len() + size(map),
        other => panic!("nothing writes {other:?}"),
    }
}

/// The sizes of a job's item, from its reservation until it is consumed, when Gemini's id has so many bytes.
fn life(id_bytes: usize) -> Vec<(State, usize)> {
    let policy = Policy::default();
    let at = |seconds| Now { at: minute(0).plus(Duration::from_secs(seconds)), fraction: 0.0, policy: &policy };
    let hex = |digits: usize| "0123456789abcdef".chars().cycle().take(digits).collect::<String>();
    let work = Work {
        key: JobKey(hex(32)),
        input: InputRef { intake: hex(64), line: 1_234_567, offset: 1_234_567_891, length: 123_457 },
        content: hex(32),
        mode: Mode::Interaction,
        model: "gemini-3.1-flash-lite-preview".to_owned(),
        max_attempts: 4,
        deadline_s: 72 * 3600,
    };
    let mut job = Job::planned(work, Rev(hex(32)), at(0).at);
    let id = format!("v1_{}", "x".repeat(id_bytes - 3));
    let mut sizes = Vec::new();
    let mut note = |job: &Job| sizes.push((job.state, size(&attributes::of(&Item::Job(job.clone())).unwrap())));

    job.reserve(Ticket { nonce: hex(32), holder: hex(32) }, at(0));
    note(&job);
    job.attach(fresh_handle(id.clone(), 1, KeyId(hex(12)), job.deadline(), at(3).at), &hex(32), at(3));
    note(&job);
    // It runs for long.
    for look in 1..40 {
        job.still_running(&id, at(3 + 300 * look));
        note(&job);
    }
    job.finished(&id, &hex(32), at(13_007));
    note(&job);
    job.consumed(at(13_011));
    note(&job);
    assert_eq!((job.state, job.history.len()), (State::Consumed, 4));
    sizes
}

#[test]
fn a_job_stays_under_1_kb_in_each_state_of_an_ordinary_life() {
    for id_bytes in [60, 128, 129, 240] {
        let sizes = life(id_bytes);
        let largest = sizes.iter().max_by_key(|(_, size)| *size).unwrap();
        println!("an id of {id_bytes} bytes: {largest:?}");
        assert!(largest.1 <= 1024, "an id of {id_bytes} bytes: {sizes:?}");
    }
    // Room for what a job comes to have later.
    assert!(life(60).iter().all(|(_, size)| *size <= 900));
}

#[test]
fn a_dead_row_stays_under_1_kb_whatever_its_key_and_message() {
    let hex = "0123456789abcdef0123456789abcdef".to_owned();
    let row = DeadRow {
        id: hex.clone(),
        run: hex.clone(),
        // More than a run of usual keys and messages has; with the longest of both it is two units.
        key: "k".repeat(128),
        at: (format!("runs/{hex}/123aab.4.{hex}.dead.jsonl"), 1_234_567_891, 1_234_567),
        class: "exhausted:DEADLINE_EXCEEDED".to_owned(),
        message: "m".repeat(200),
        attempt: 4,
        attempts: 4,
        ..sample::dead_row("row", Rev(hex))
    };
    let typical = size(&attributes::of(&Item::DeadRow(row.clone())).unwrap());
    assert!(typical <= 1024, "{typical}");
    let longest = DeadRow { key: "k".repeat(KEY_BYTES), message: "m".repeat(MESSAGE_BYTES), ..row };
    let longest = size(&attributes::of(&Item::DeadRow(longest)).unwrap());
    println!("a dead row: {typical} bytes, {longest} at most");
    assert!(longest <= 2048, "{longest}");
}

#[test]
fn an_event_costs_two_write_units_and_a_stray_one_each_time() {
    let hex = |digits: usize| Rev("0123456789abcdef".chars().cycle().take(digits).collect());
    let name = hex(32).0;
    let taken = Event { about: "x".repeat(100), ..sample::event(&name, hex(32)) };
    let handled = Event {
        about: "x".repeat(100),
        outcome: Some(Outcome::Queued(format!("part/{}/{}", hex(32).0, "x".repeat(63)))),
        ..sample::handled_event(&name, hex(32))
    };
    let stray = sample::stray(&format!("v1_{}", "x".repeat(250)), hex(32));
    for item in [Item::Event(taken), Item::Event(handled), Item::Stray(stray)] {
        let attributes = attributes::of(&item).unwrap();
        // No index holds it: an entry would be a unit of its own.
        for key in ["open", "due", "handle"] {
            assert!(!attributes.contains_key(key), "{}: {key}", item.id());
        }
        println!("{}, {}: {} bytes", item.kind().word(), item.state(), size(&attributes));
        assert!(size(&attributes) <= 640, "{}: {}", item.id(), size(&attributes));
    }
}

#[test]
fn a_part_with_four_attempts_stays_under_4_kb() {
    let mut part = sample::part(1, Rev("0123456789abcdef0123456789abcdef".to_owned()));
    part.attempts = (1..=4)
        .map(|number| Sending {
            number,
            rows: 200_000,
            bytes: 1_900_000_000,
            ended: (number == 2).then(|| ("expired".to_owned(), "m".repeat(MESSAGE_BYTES))),
            rows_at: format!("runs/{}/123.{number}.0123456789ab.retry.jsonl", sample::RUN),
            ..part.attempts[0].clone()
        })
        .collect();
    let classes = ["blocked:SAFETY", "extract:json", "truncated", "exhausted:13", "permanent:400"];
    part.passes = (1..=4)
        .map(|attempt| Passed {
            attempt,
            classes: classes.iter().map(|class| ((*class).to_owned(), 123)).collect(),
            dead_bytes: 123_456_789,
            told: 123_456_789,
            ..part.passes[0].clone()
        })
        .collect();
    let bytes = size(&attributes::of(&Item::Part(Box::new(part))).unwrap());
    println!("a part with four attempts: {bytes} bytes");
    assert!(bytes <= 4096, "{bytes}");
}
