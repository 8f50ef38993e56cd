//! The end of a batch, as an event tells it.

use std::io;

use serde_json::json;

use super::super::faults::Fault;
use super::super::webhooks::{Data, End};
use super::super::world::World;
use super::job::Job;
use super::operation::State;
use crate::domain::time::Millis;

/// How a batch has ended; None while it has not. Of a deleted one there is nothing to tell.
pub(in super::super) fn end(world: &World, job: &Job) -> io::Result<Option<End>> {
    let shelf = world.shelf();
    let state = State::of(&job.record, job.standing(&shelf, world.course())?);
    if !state.ended() {
        return Ok(None);
    }
    let kind = match state {
        _ if job.gone(&shelf) => None,
        State::Succeeded | State::Partly => Some("batch.succeeded"),
        State::Failed => Some("batch.failed"),
        State::Cancelled => Some("batch.cancelled"),
        State::Expired => Some("batch.expired"),
        State::Pending | State::Running | State::Unknown => None,
    };
    let file = job.record.file.is_some() && state.yields();
    let failed = state == State::Failed;
    let data = Data {
        id: format!("batches/{}", job.record.id),
        output_file_uri: file.then(|| format!("files/batch-{}", job.record.id)),
        // As in the operation's own error.
        error_code: failed.then(|| json!(13)),
        error_message: failed.then(|| json!("An internal error has occurred.")),
    };
    Ok(Some(End { kind, data }))
}

/// When a batch may end by the passing of time.
pub(in super::super) fn times(world: &World, job: &Job) -> Vec<Millis> {
    let (config, record) = (&world.config, &job.record);
    // What ends by itself before, whether somebody looks or not, never expires.
    let stays = |expiry| config.polls_until_done > 0 || config.latency >= expiry;
    let stuck = record.plan.course == Some(Fault::BatchStuck);
    let expiry = config.batch_expiry.filter(|expiry| stuck || stays(*expiry));
    [Some(config.latency), expiry].into_iter().flatten().map(|wait| record.at.plus(wait)).collect()
}
