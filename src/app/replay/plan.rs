//! What a replay does with one dead letter: decided from what is known of it, without a write.

use super::changed::check;
use crate::app::batch::replay::refused;
use crate::app::consume::result_object;
use crate::app::engine::{Engine, Trouble};
use crate::domain::changes::Changes;
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::item::Item;
use crate::domain::job::Job;
use crate::domain::moves::{BAD_PAYLOAD, NO_PAYLOAD};

/// What a replay does with a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing; in words.
    Leave(String),
    /// Its result is durable: it is handed on anew, and nothing is sent.
    HandOn,
    /// It is tried anew, with further attempts.
    Again,
    /// An attempt of a run: its batch is looked at once more.
    Look,
    /// A row, or many, which go into a new part.
    Rows,
}

impl Plan {
    /// What people would wonder about.
    pub(super) fn words(&self) -> Option<String> {
        let words = match self {
            Self::HandOn => "its result is there, and is handed on anew; nothing is sent",
            Self::Look => "its batch is looked at once more; its rows are not sent again",
            Self::Leave(_) | Self::Again | Self::Rows => return None,
        };
        Some(words.to_owned())
    }
}

/// Decides.
///
/// # Errors
/// Trouble with the objects.
pub(super) async fn plan(engine: &Engine, item: &Item, changes: &Changes) -> Result<Plan, Trouble> {
    match item {
        Item::Job(job) if job.batch.is_some() => Ok(Plan::Look),
        Item::Job(job) => plan_job(engine, job, changes).await,
        Item::DeadRow(DeadRow { intake, .. }) | Item::DeadGroup(DeadGroup { intake, .. }) => {
            Ok(refused(engine, intake, changes).await?.map_or(Plan::Rows, Plan::Leave))
        }
        Item::BadLine(_) => Ok(Plan::Leave("no job can be made of its line: hand in a corrected line".to_owned())),
        _ => Ok(Plan::Leave("it can't be a dead letter".to_owned())),
    }
}

async fn plan_job(engine: &Engine, job: &Job, changes: &Changes) -> Result<Plan, Trouble> {
    if job.class.as_deref() == Some(NO_PAYLOAD) {
        let why = "nobody knows what it asks for: hand in its line, and it goes on";
        return Ok(Plan::Leave(why.to_owned()));
    }
    if job.class.as_deref() == Some(BAD_PAYLOAD) && job.has_no_line() {
        let why = "its payload can't be sent: hand in a corrected line, and discard this one";
        return Ok(Plan::Leave(why.to_owned()));
    }
    if job.has_no_line() && changes.request.is_some() {
        let why = "nobody knows its line, in which fields would change: hand that in first";
        return Ok(Plan::Leave(why.to_owned()));
    }
    if job.could_not_be_consumed() && engine.objects.size(&result_object(&job.key)).await?.is_some() {
        return Ok(Plan::HandOn);
    }
    if let Some(why) = engine.lost_intake(&job.input.intake).await? {
        return Ok(Plan::Leave(why));
    }
    Ok(match check(engine, job, changes).await? {
        Ok(()) => Plan::Again,
        Err(why) => Plan::Leave(why),
    })
}
