//! Reading and changing the items of a run under their revs.

use serde_json::Value;

use crate::app::engine::{Engine, Trouble};
use crate::app::lines::{header, object_name};
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, JobKey};
use crate::domain::moves::Now;
use crate::domain::part::{Attempt, Part, PartId};
use crate::ports::ledger::ReplaceError;

/// What an attempt is of.
///
/// # Errors
/// It is none: no job of mode `batch` is without.
pub fn attempt_of(job: &Job) -> Result<&Attempt, Trouble> {
    job.batch
        .as_deref()
        .ok_or_else(|| Trouble::NeedsPerson(format!("the job {} is no attempt of a batch run", job.key)))
}

/// The intake of a run, and the run.
///
/// # Errors
/// Trouble with the ledger; an intake that isn't there or is no run.
pub async fn run_of(engine: &Engine, sha256: &str) -> Result<(Intake, Run), Trouble> {
    if let Some(Item::Intake(intake)) = engine.ledger.get(&ItemId::intake(sha256)).await?
        && let Some(run) = intake.run.clone()
    {
        return Ok((intake, run));
    }
    Err(Trouble::NeedsPerson(format!("the run of the intake {sha256} is not in the ledger")))
}

/// What the answers of a run must be, from its header.
///
/// # Errors
/// Trouble with the object; a header that can't be read any more.
pub async fn expect_of(engine: &Engine, sha256: &str) -> Result<Option<Value>, Trouble> {
    let broken = |why: String| Trouble::NeedsPerson(format!("{}: {why}", object_name(sha256)));
    let (header, _) = header(&*engine.objects, sha256).await?.map_err(|(_, error)| broken(error.message))?;
    let expect = header.expect.as_deref().map(|raw| serde_json::from_str(raw.get())).transpose();
    expect.map_err(|error| broken(error.to_string()))
}

/// A part.
///
/// # Errors
/// Trouble with the ledger; a part that isn't there.
pub async fn part(engine: &Engine, run: &str, id: &PartId) -> Result<Part, Trouble> {
    match engine.ledger.get(&ItemId::part(run, id)).await? {
        Some(Item::Part(part)) => Ok(*part),
        _ => Err(Trouble::NeedsPerson(format!("part {id} of the run {run} is not in the ledger"))),
    }
}

/// A job by its key, if it is there.
///
/// # Errors
/// Trouble with the ledger.
pub async fn job(engine: &Engine, key: &JobKey) -> Result<Option<Job>, Trouble> {
    match engine.ledger.get(&ItemId::job(key)).await? {
        Some(Item::Job(job)) => Ok(Some(job)),
        _ => Ok(None),
    }
}

/// Puts a changed part in place of the one that was read. None: somebody else changed it first.
///
/// # Errors
/// Trouble with the ledger.
pub async fn replace(engine: &Engine, read: &Part, next: Part) -> Result<Option<Part>, Trouble> {
    match engine.replace(&read.rev, Item::Part(Box::new(next))).await {
        Ok(Item::Part(part)) => Ok(Some(*part)),
        Ok(_) | Err(ReplaceError::Stale(_)) => Ok(None),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}

/// Changes a part whatever has become of it meanwhile. `change` answers whether there is something to write.
///
/// # Errors
/// Trouble with the ledger.
pub async fn settle(
    engine: &Engine,
    run: &str,
    id: &PartId,
    change: impl Fn(&mut Part, Now<'_>) -> bool,
) -> Result<Part, Trouble> {
    loop {
        let stored = part(engine, run, id).await?;
        let mut next = stored.clone();
        if !change(&mut next, engine.now()) {
            return Ok(stored);
        }
        if let Some(written) = replace(engine, &stored, next).await? {
            return Ok(written);
        }
    }
}
