//! Cancelling a run: what has not gone out is discarded, what is out is cancelled at Gemini.

use tracing::warn;

use super::look::{Seen, find, look_at};
use super::part::look_soon;
use super::{items, report};
use crate::app::cancel::{Cancelled, mark};
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Fate, Handle, Job, State};
use crate::domain::part::attempt_key;

/// Cancels what is left of a run. Returns each attempt that was out with what became of it. Rows that Gemini has finished
/// already are taken, since they are paid for.
///
/// # Errors
/// Trouble with the ledger.
pub async fn cancel_run(engine: &Engine, intake: Intake, reason: &str) -> Result<Vec<(Job, Cancelled)>, Trouble> {
    let sha256 = intake.sha256.clone();
    mark(engine, intake, reason).await?;
    let (_, run) = items::run_of(engine, &sha256).await?;
    let parts = report::parts(engine, &run).await?;
    // Earlier attempts that were given up may run still.
    let out = parts.iter().flat_map(|part| part.attempts.iter().map(move |sending| (part, sending.number)));
    let keys: Vec<ItemId> =
        out.map(|(part, number)| ItemId::job(&attempt_key(&part.run, &part.part, number))).collect();
    let mut outcomes = Vec::new();
    for item in engine.ledger.get_many(&keys).await? {
        let Item::Job(job) = item else { continue };
        if job.state.is_closed() {
            continue;
        }
        let outcome = cancel_attempt(engine, job.clone(), reason).await?;
        outcomes.push((job, outcome));
    }
    for part in parts.iter().filter(|part| !part.state.is_closed()) {
        items::settle(engine, &part.run, &part.part, |part, now| {
            let waits = !part.state.is_closed();
            if waits {
                let state = if part.state == State::Parked { State::UnderWay } else { part.state };
                part.enter(state, Some(now.at), now.at);
            }
            waits
        })
        .await?;
    }
    Ok(outcomes)
}

/// Cancels one attempt here and at Gemini.
///
/// # Errors
/// Trouble with the ledger.
pub async fn cancel_attempt(engine: &Engine, job: Job, reason: &str) -> Result<Cancelled, Trouble> {
    if job.state == State::Done {
        return Ok(Cancelled::AlreadyFinished);
    }
    let (job, unclear) = find_first(engine, job).await?;
    if let Some(why) = unclear {
        return Ok(Cancelled::StillRemote(vec![(job.key.0, why)]));
    }
    let mut left = Vec::new();
    for handle in job.handles.iter().filter(|handle| matches!(handle.fate, Fate::Live | Fate::GivenUp)) {
        match stop(engine, &job, handle).await {
            Stopped::Over => {}
            Stopped::Unknown(why) => left.push((handle.id.clone(), why)),
            // The next look takes its output.
            Stopped::Finished => return Ok(Cancelled::AlreadyFinished),
        }
    }
    let attempt = items::attempt_of(&job)?.clone();
    let stored = engine
        .settle(job, |job, now| {
            let fits = !job.state.is_closed() && job.state != State::Done;
            if fits {
                job.discard(reason, now);
            }
            fits
        })
        .await?;
    look_soon(engine, &attempt).await?;
    Ok(match stored.state {
        State::Discarded if left.is_empty() => Cancelled::Discarded,
        State::Discarded => Cancelled::StillRemote(left),
        State::Done => Cancelled::AlreadyFinished,
        other => Cancelled::Ended(other),
    })
}

/// An attempt of which nobody knows whether it was created is looked for by its name first. With it, why that is not known
/// yet: then it stays open, and is looked for on; what turns out not to be there is not sent any more.
async fn find_first(engine: &Engine, job: Job) -> Result<(Job, Option<String>), Trouble> {
    if !matches!(job.state, State::Reserving | State::Unclear) {
        return Ok((job, None));
    }
    let unknown = "whether Gemini took it is not known yet; it is looked for until that is known";
    if job.state == State::Reserving {
        return Ok((job, Some(unknown.to_owned())));
    }
    find(engine, &job).await?;
    match items::job(engine, &job.key).await? {
        Some(job) if job.state == State::Unclear => Ok((job, Some(unknown.to_owned()))),
        Some(job) => Ok((job, None)),
        None => Ok((job, None)),
    }
}

enum Stopped {
    /// It has an output.
    Finished,
    /// It does not run, or is not known to.
    Over,
    /// It may run on, for the reason given.
    Unknown(String),
}

/// Asks Gemini to cancel a batch job, and looks what came of it: it may have ended before, or end all the same.
async fn stop(engine: &Engine, job: &Job, handle: &Handle) -> Stopped {
    let asked = engine.gemini.cancel_batch(&handle.id, &handle.key).await;
    match look_at(engine, job, handle).await {
        Seen::Output(_) => Stopped::Finished,
        Seen::Failed(..) | Seen::GivenUp(..) => Stopped::Over,
        Seen::Missing(_) if handle.fate == Fate::GivenUp => Stopped::Over,
        Seen::Running => match asked {
            // Taken, and on its way: Gemini cancels as well as it can.
            Ok(()) => Stopped::Over,
            Err(error) => Stopped::Unknown(error.to_string()),
        },
        Seen::Missing(why) | Seen::NoNews(why, _) | Seen::Rejected(why) => {
            warn!(job.key = %job.key, job.handle = handle.id, "neither cancelled nor looked at: {why}");
            match asked {
                Ok(()) => Stopped::Over,
                Err(error) => Stopped::Unknown(error.to_string()),
            }
        }
    }
}
