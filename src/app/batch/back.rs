//! Handing the rows of an attempt back to their part: it has ended, or was given up, without an outcome for them.

use tracing::info;

use super::items;
use crate::app::engine::{Engine, Trouble};
use crate::domain::job::{CLASS_BYTES, Job, MESSAGE_BYTES, State, clip};
use crate::domain::moves::Now;
use crate::domain::part::Attempt;

/// What an attempt ended with.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// `expired`, `permanent:400`.
    pub class: &'a str,
    /// In words.
    pub message: &'a str,
    /// Whether it costs the rows no attempt.
    pub free: bool,
    /// How many creates it has used beyond the first: each may have been accepted, and costs its rows an attempt too.
    pub further: u32,
    /// The handle whose job has failed as a whole: nothing will ever come of it.
    pub failed: Option<&'a str>,
}

/// Gives the rows back to the part, and ends the attempt; one with a handle that may still bring something is looked at
/// again after 24 and 48 hours. The part is told first: a crash in between makes it be told again.
///
/// # Errors
/// Trouble with the ledger.
pub async fn hand_back(engine: &Engine, job: &Job, attempt: &Attempt, end: End<'_>) -> Result<(), Trouble> {
    let ended = (clip(end.class, CLASS_BYTES), clip(end.message, MESSAGE_BYTES));
    items::settle(engine, &attempt.run, &attempt.part, |part, now| {
        let has_rows = part.has_rows_of(attempt.number);
        let Some(latest) = part.attempts.last_mut().filter(|latest| has_rows && latest.ended.is_none()) else {
            return false;
        };
        latest.ended = Some(ended.clone());
        latest.free = end.free;
        latest.tries = latest.tries.saturating_add(end.further);
        if part.state == State::UnderWay {
            part.enter(State::Waiting, Some(now.at), now.at);
        }
        true
    })
    .await?;
    info!(job.key = %job.key, run = attempt.run, part = %attempt.part, attempt = attempt.number, class = end.class,
        "its rows go to the next attempt");
    // In one write: an attempt that waits with no handle that lives would wait for ever.
    let go_back = |job: &mut Job, now: Now<'_>| {
        if let Some(id) = end.failed {
            job.came_to_nothing(id);
        }
        job.rows_went_back(&ended.0, &ended.1, now)
    };
    engine.settle(job.clone(), go_back).await.map(drop)
}
