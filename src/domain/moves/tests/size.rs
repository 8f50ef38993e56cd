//! How large an item may become: the ledger's cost grows with it (design, section 4).

use super::*;
use crate::domain::job::{HISTORY_LENGTH, MESSAGE_BYTES};

/// Bytes of the job as the ledger holds it, with names as long as the program makes them.
fn bytes(life: &Life) -> usize {
    let mut job = life.job.clone();
    let token = "00112233445566778899aabbccddeeff";
    job.key = crate::domain::job::JobKey(token.to_owned());
    job.rev = Rev(token.to_owned());
    job.nonce = token.to_owned();
    job.input.line = 1_234_567;
    job.input.offset = 1_234_567_890;
    job.input.length = 12_345;
    if let Some(lease) = &mut job.lease {
        lease.holder = token.to_owned();
    }
    serde_json::to_string(&Item::Job(job)).unwrap().len()
}

/// Gives every handle an id of that many bytes.
fn with_ids_of(mut life: Life, length: usize) -> Life {
    for (number, handle) in life.job.handles.iter_mut().enumerate() {
        handle.id = format!("{number:0length$}");
    }
    life
}

/// A job with a full history whose every attempt was given up and whose last words are long.
fn worst(attempts: u32) -> Life {
    let mut life = Life::new();
    life.job.max_attempts = attempts;
    for _ in 0..attempts {
        let reservation = life.reserve();
        life.doubt(&reservation);
        let id = life.accepted(&reservation);
        life.with(|job, now| {
            job.missing(&id, "gone", now);
            job.give_up(&id, &"class:".repeat(100), &"long words, 長い言葉 ".repeat(1000), now);
        });
    }
    assert_eq!(life.job.state, State::Parked);
    life
}

#[test]
fn a_consumed_job_is_well_under_1_kb() {
    let (mut life, id) = Life::submitted();
    life.wait(20 * SECOND);
    life.with(|job, now| job.still_running(&id, now));
    life.wait(20 * SECOND);
    life.finish(&id);
    life.with(|job, now| job.consumed(now));
    let bytes = bytes(&with_ids_of(life, 64));
    assert!(bytes < 950, "{bytes}");
}

#[test]
fn an_item_with_everything_it_can_have_stays_under_4_kb() {
    let life = with_ids_of(worst(4), 200);
    assert!(life.job.message.as_ref().is_some_and(|message| message.len() <= MESSAGE_BYTES));
    let bytes = bytes(&life);
    assert!(bytes < 4_000, "{bytes}");
}

#[test]
fn fifty_handles_stay_far_from_what_a_ledger_holds() {
    // One attempt brings one handle at most, and each is counted: the cap on attempts is the cap on handles.
    let life = with_ids_of(worst(50), 200);
    assert_eq!((life.job.handles.len(), life.job.history.len()), (50, HISTORY_LENGTH));
    let bytes = bytes(&life);
    assert!(bytes < 25_000, "{bytes}");
}
