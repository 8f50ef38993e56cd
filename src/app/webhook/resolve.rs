//! Which job an event is about.

use super::{Reception, Stop};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, JobKey, Rev, State};
use crate::domain::line::is_label_text;
use crate::domain::webhook::{KEPT, Stray};
use crate::ports::ledger::{CreateError, LedgerError, ReplaceError};

/// Whom an event is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A job that has the handle on record; or one that doesn't, whose reservation wrote the nonce.
    Job(JobKey, Option<String>),
    /// A job whose outcome is known already.
    Over(JobKey),
    /// A batch job that nobody has on record, while a create of ours is in doubt: its display name may tell.
    PerhapsByName,
    /// No job of ours.
    Nobody,
}

/// How often a count is tried to be changed that others change too.
const TRIES: u32 = 10;

/// Finds the job: by the key and the nonce that came back, else by its handle.
pub(super) async fn resolve(
    reception: &Reception,
    handle: &str,
    is_batch: bool,
    claim: Option<&(String, String)>,
) -> Result<Found, Stop> {
    if let Some((key, nonce)) = claim.filter(|(key, _)| !key.is_empty() && is_label_text(key))
        && let Some(job) = job(reception, &ItemId::job(&JobKey(key.clone())), is_batch).await?
    {
        if job.handle(handle).is_some() {
            return Ok(found(job, None));
        }
        if job.attempt_of(nonce).is_some() {
            return Ok(found(job, Some(nonce.clone())));
        }
    }
    if let Some(found) = by_handle(reception, handle, is_batch).await? {
        return Ok(found);
    }
    // A foreign batch job is not worth asking for; one of ours may be, for as long as a create is in doubt.
    if is_batch && reception.ledger.next_due(&[State::Unclear, State::Reserving]).await?.is_some() {
        return Ok(Found::PerhapsByName);
    }
    Ok(Found::Nobody)
}

/// The job that has the handle on record.
pub(super) async fn by_handle(reception: &Reception, handle: &str, is_batch: bool) -> Result<Option<Found>, Stop> {
    let Some(id) = reception.ledger.by_handle(handle).await? else { return Ok(None) };
    Ok(job(reception, &id, is_batch).await?.map(|job| found(job, None)))
}

fn found(job: Job, nonce: Option<String>) -> Found {
    // What is finished is consumed under a lease, and found again by the tick when that runs out.
    let is_over = job.state.is_closed() || job.state == State::Done;
    if is_over { Found::Over(job.key) } else { Found::Job(job.key, nonce) }
}

async fn job(reception: &Reception, id: &ItemId, is_batch: bool) -> Result<Option<Job>, LedgerError> {
    match reception.ledger.get(id).await? {
        Some(Item::Job(job)) if job.batch.is_some() == is_batch => Ok(Some(job)),
        _ => Ok(None),
    }
}

/// Counts an event whose handle no job has on record. The job whose create call brings the handle later finds it.
pub(super) async fn count_stray(reception: &Reception, handle: &str) -> Result<(), Stop> {
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
            Ok(()) => return Ok(()),
            Err(CreateError::Exists(known)) => *known,
            Err(CreateError::Ledger(error)) => return Err(error.into()),
        };
        let Item::Stray(known) = known else {
            return Err(Stop::NotNow(format!("{} is in the place of a handle's count", known.id())));
        };
        let more = Item::Stray(fresh(known.events.saturating_add(1)));
        match reception.ledger.replace(&known.rev, &more).await {
            Ok(()) => return Ok(()),
            Err(ReplaceError::Stale(_)) => {}
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
    Err(Stop::NotNow(format!("events for {handle} come too fast to be counted")))
}
