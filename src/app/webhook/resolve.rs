//! Which job an event is about.

use tracing::error;

use super::{Reception, Stop};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, JobKey, Rev, State};
use crate::domain::line::is_label_text;
use crate::domain::moves::Now;
use crate::domain::webhook::{KEPT, Stray};
use crate::ports::ledger::{CreateError, LedgerError, ReplaceError};

/// Whom an event is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A job that has the handle on record, or has heard of it by now.
    Job(JobKey),
    /// A job whose outcome is known already.
    Over(JobKey),
    /// A batch job that nobody has on record, while a create of ours is in doubt: its display name may tell. Once for each.
    PerhapsByName,
    /// No job of ours: counted.
    Nobody,
}

/// How often a change is tried that others make, too.
const TRIES: u32 = 10;

/// Finds the job: by the key and the nonce that came back, else by its handle. A handle that comes with the right nonce and
/// is on record nowhere is written down with the job.
pub(super) async fn resolve(
    reception: &Reception,
    handle: &str,
    is_batch: bool,
    claim: Option<&(String, String)>,
) -> Result<Found, Stop> {
    if let Some((key, nonce)) = claim.filter(|(key, _)| !key.is_empty() && is_label_text(key))
        && let Some(found) = by_claim(reception, &ItemId::job(&JobKey(key.clone())), handle, nonce, is_batch).await?
    {
        return Ok(found);
    }
    if let Some(found) = by_handle(reception, handle, is_batch).await? {
        return Ok(found);
    }
    let events = count_stray(reception, handle).await?;
    // Whoever writes a handle down looks for its stray after that, and here it is the other way round: one of the two sees
    // the other, if the ledger finds a handle as soon as it is written.
    if !reception.handles_lag.is_zero() {
        reception.clock.sleep(reception.handles_lag).await;
    }
    if let Some(found) = by_handle(reception, handle, is_batch).await? {
        return Ok(found);
    }
    // Somebody else's batch job is not worth asking for; one of ours may be, for as long as a create is in doubt.
    let is_first = events == 1 && is_batch;
    let doubts = is_first && reception.ledger.next_due(&[State::Unclear, State::Reserving]).await?.is_some();
    Ok(if doubts { Found::PerhapsByName } else { Found::Nobody })
}

/// The job of that key, if the nonce is one that a reservation of it wrote; or if it has the handle anyway.
async fn by_claim(
    reception: &Reception,
    id: &ItemId,
    handle: &str,
    nonce: &str,
    is_batch: bool,
) -> Result<Option<Found>, Stop> {
    for _ in 0..TRIES {
        let Some(job) = job(reception, id, is_batch).await? else { return Ok(None) };
        if job.handle(handle).is_some() || job.has_heard_of(handle) {
            return Ok(Some(found(job)));
        }
        if job.attempt_of(nonce).is_none() {
            return Ok(None);
        }
        let mut next = job.clone();
        let now = Now { at: reception.clock.now(), fraction: 0.0, policy: &reception.policy };
        if !next.heard(handle, nonce, now) {
            if !is_over(&job) {
                error!(job.key = %job.key, job.handle = handle, "events name too many handles for one job: this one is not followed");
            }
            return Ok(is_over(&job).then_some(Found::Over(job.key)));
        }
        next.rev = Rev(reception.ids.token());
        match reception.ledger.replace(&job.rev, &Item::Job(next)).await {
            Ok(()) => return Ok(Some(Found::Job(job.key))),
            Err(ReplaceError::Stale(_)) => {}
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
    Err(Stop::NotNow(format!("{id} is changed by others each time it is to be told of {handle}")))
}

/// The job that has the handle on record.
async fn by_handle(reception: &Reception, handle: &str, is_batch: bool) -> Result<Option<Found>, Stop> {
    let Some(id) = reception.ledger.by_handle(handle).await? else { return Ok(None) };
    Ok(job(reception, &id, is_batch).await?.map(found))
}

/// What is finished is consumed under a lease, and found again by the tick when that runs out.
fn is_over(job: &Job) -> bool {
    job.state.is_closed() || job.state == State::Done
}

fn found(job: Job) -> Found {
    if is_over(&job) { Found::Over(job.key) } else { Found::Job(job.key) }
}

async fn job(reception: &Reception, id: &ItemId, is_batch: bool) -> Result<Option<Job>, LedgerError> {
    match reception.ledger.get(id).await? {
        Some(Item::Job(job)) if job.batch.is_some() == is_batch => Ok(Some(job)),
        _ => Ok(None),
    }
}

/// Counts an event whose handle no job has on record, and says how many there were of it. The job whose create call brings
/// the handle later finds it.
async fn count_stray(reception: &Reception, handle: &str) -> Result<u32, Stop> {
    let now = reception.clock.now();
    let fresh = |events| Stray {
        handle: handle.to_owned(),
        rev: Rev(reception.ids.token()),
        since: now,
        events,
        expires: now.plus(KEPT),
    };
    for _ in 0..TRIES {
        let known = match reception.ledger.create(&Item::Stray(fresh(1))).await {
            Ok(()) => return Ok(1),
            Err(CreateError::Exists(known)) => *known,
            Err(CreateError::Ledger(error)) => return Err(error.into()),
        };
        let Item::Stray(known) = known else {
            return Err(Stop::NotNow(format!("{} is in the place of a handle's count", known.id())));
        };
        let events = known.events.saturating_add(1);
        match reception.ledger.replace(&known.rev, &Item::Stray(fresh(events))).await {
            Ok(()) => return Ok(events),
            Err(ReplaceError::Stale(_)) => {}
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
    Err(Stop::NotNow(format!("events for {handle} come too fast to be counted")))
}
