//! What dead letters may still need and is deleted elsewhere after a while.

use std::time::Duration;

use serde::Serialize;

use crate::domain::item::Item;
use crate::domain::job::{Fate, Handle, Job, Mode};
use crate::domain::time::Millis;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// For how long SQS keeps a message in the queue of dead letters, as the template sets it: the longest that SQS allows
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
pub const SQS_KEEPS: Duration = Duration::from_secs(14 * 24 * 3600);

/// For how long Gemini keeps an interaction that is paid for, and one of the free tier
/// (<https://ai.google.dev/gemini-api/docs/interactions>).
const INTERACTION: Duration = Duration::from_secs(55 * 24 * 3600);
const FREE_INTERACTION: Duration = DAY;

/// For how long Gemini keeps the output of a batch (<https://ai.google.dev/gemini-api/docs/batch-api>): six weeks. The
/// clock is taken to start when the batch was made, which is the earliest that it can.
const BATCH_OUTPUT: Duration = Duration::from_secs(42 * 24 * 3600);

/// For how long Gemini keeps a file that was uploaded (<https://ai.google.dev/gemini-api/docs/files>).
const INPUT_FILE: Duration = Duration::from_secs(48 * 3600);

/// A kind of thing that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// The message of a dead letter, by SQS. The tick renews it before.
    Message,
    /// An interaction, by Gemini: what a late look could still bring.
    Interaction,
    /// The output of a batch, by Gemini.
    BatchOutput,
    /// The file that a batch was made of, by Gemini. Its rows are kept here, too.
    InputFile,
}

/// What of one kind is deleted next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expiry {
    /// The kind.
    pub what: Kept,
    /// When, RFC 3339.
    pub at: String,
    /// Days until then.
    pub days: f64,
    /// For an interaction of the free tier: when, or since when, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_tier_at: Option<String>,
    /// The dead letter, as `dead` lists it.
    pub id: String,
    /// What Gemini calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many of the kind are still there, this one among them.
    pub items: u64,
}

/// One thing that is deleted at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) what: Kept,
    pub(super) at: Millis,
    /// What Gemini calls it.
    pub(super) name: Option<String>,
    /// For an interaction: when it was made.
    made: Option<Millis>,
}

/// Everything of a dead letter that is deleted elsewhere.
pub(super) fn doomed(item: &Item, messages_kept: Option<Duration>) -> Vec<Doomed> {
    let sent = item.letter().and_then(|letter| letter.sent).zip(messages_kept);
    let message = sent.map(|(sent, kept)| Doomed { what: Kept::Message, at: sent.plus(kept), name: None, made: None });
    let at_gemini = match item {
        Item::Job(job) => of_job(job),
        _ => Vec::new(),
    };
    message.into_iter().chain(at_gemini).collect()
}

fn of_job(job: &Job) -> Vec<Doomed> {
    // What has ended at Gemini without a usable answer is of no use to anybody.
    let wanted = job.handles.iter().filter(|handle| handle.fate != Fate::Ended);
    let of_handle = |handle: &Handle| {
        let (what, kept, made) = match job.mode {
            Mode::Batch => (Kept::BatchOutput, BATCH_OUTPUT, None),
            Mode::Interaction | Mode::Call => (Kept::Interaction, INTERACTION, Some(handle.at)),
        };
        Doomed { what, at: handle.at.plus(kept), name: Some(handle.id.clone()), made }
    };
    let file = job.batch.as_ref().and_then(|attempt| attempt.file.as_ref()).map(|file| Doomed {
        what: Kept::InputFile,
        at: file.at.plus(INPUT_FILE),
        name: Some(file.name.clone()),
        made: None,
    });
    wanted.map(of_handle).chain(file).collect()
}

impl Doomed {
    /// As it is told at `now`, being the first of so many.
    pub(super) fn told(self, id: String, items: u64, now: Millis) -> Expiry {
        Expiry {
            what: self.what,
            at: self.at.to_string(),
            days: days(self.at.since(now)),
            free_tier_at: self.made.map(|made| made.plus(FREE_INTERACTION).to_string()),
            id,
            name: self.name,
            items,
        }
    }
}

/// Whole tenths of days, never more than there are.
fn days(left: Duration) -> f64 {
    (left.as_secs_f64() / DAY.as_secs_f64() * 10.0).floor() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::{Rev, State};
    use crate::ports::conformance::sample::{self, START};

    fn rev() -> Rev {
        Rev("r".to_owned())
    }

    #[test]
    fn what_is_kept_for_how_long() {
        let mut job = sample::job_in("k", rev(), State::Parked, START, None);
        job.letter.sent = Some(START);
        job.handles = vec![
            sample::handle("v1_live"),
            Handle { fate: Fate::Ended, ..sample::handle("v1_ended") },
            Handle { fate: Fate::GivenUp, ..sample::handle("v1_late") },
        ];
        let told = |item: &Item, kept| {
            doomed(item, kept)
                .into_iter()
                .map(|doomed| (doomed.what, doomed.at.since(START) / 86400))
                .collect::<Vec<_>>()
        };
        let days = |days: u64| Duration::from_secs(days);
        let interactions = [(Kept::Interaction, days(55)), (Kept::Interaction, days(55))];
        assert_eq!(told(&Item::Job(job.clone()), None), interactions);
        let all = told(&Item::Job(job.clone()), Some(SQS_KEEPS));
        assert_eq!(all[0], (Kept::Message, days(14)));
        assert_eq!(all[1..], interactions);
        job.letter.sent = None;
        job.mode = Mode::Batch;
        assert_eq!(told(&Item::Job(job), Some(SQS_KEEPS)), [(Kept::BatchOutput, days(42)); 2]);
        assert_eq!(told(&Item::BadLine(sample::bad_line(3, rev())), None), []);
    }

    #[test]
    fn days_are_never_more_than_there_are() {
        assert_eq!(days(Duration::from_secs(86_400 * 3)), 3.0);
        assert_eq!(days(Duration::from_secs(86_400 * 3 - 1)), 2.9);
        assert_eq!(days(Duration::ZERO), 0.0);
    }
}
