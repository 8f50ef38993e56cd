//! Cancelling: a person stops a job, or what is left of an intake, here and at Gemini.

use std::collections::BTreeSet;

use tracing::warn;

use super::batch::cancel::cancel_attempt;
use super::batch::items::job as job_of;
use super::consume;
use super::engine::{Engine, Trouble};
use super::follow::prove_heard;
use super::look::{Seen, look_at};
use super::report::every;
use crate::domain::intake::Intake;
use crate::domain::interaction::Standing;
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{Fate, Handle, Heard, Job, MESSAGE_BYTES, State, clip};
use crate::domain::moves::Now;
use crate::ports::gemini::ReadError;
use crate::ports::ledger::ReplaceError;

/// What cancelling a job came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// It is `discarded`, and nothing of it is known to run at Gemini.
    Discarded,
    /// It is `discarded`; these handles could not be stopped at Gemini, for the reason given. Cancelling again tries
    /// again.
    StillRemote(Vec<(String, String)>),
    /// Gemini has finished it already: it is consumed, now or when it is next looked at, since it is paid for.
    AlreadyFinished,
    /// It had ended before.
    Ended(State),
}

/// Cancels one job.
///
/// # Errors
/// Trouble with the ledger.
pub async fn cancel_job(engine: &Engine, job: Job, reason: &str) -> Result<Cancelled, Trouble> {
    if job.batch.is_some() {
        return cancel_attempt(engine, job, reason).await;
    }
    if matches!(job.state, State::Consumed | State::Recovered) {
        return Ok(Cancelled::Ended(job.state));
    }
    if job.state == State::Done {
        return Ok(Cancelled::AlreadyFinished);
    }
    // What an event named runs at Gemini, too, if it is this job's.
    let job = match job.heard.is_empty() {
        true => job,
        false => {
            prove_heard(engine, &job).await?;
            job_of(engine, &job.key).await?.unwrap_or(job)
        }
    };
    if matches!(job.state, State::Consumed | State::Recovered) {
        return Ok(Cancelled::AlreadyFinished);
    }
    let unproven = |heard: &Heard| (heard.id.clone(), "an event named it, and Gemini does not show it now".to_owned());
    let mut left: Vec<(String, String)> = job.heard.iter().map(unproven).collect();
    let mut stopped = Vec::new();
    // A given-up one may still run, which is why it is looked at later.
    for handle in job.handles.iter().filter(|handle| matches!(handle.fate, Fate::Live | Fate::GivenUp)) {
        match stop(engine, handle).await {
            Stopped::Over => stopped.push(handle.id.clone()),
            Stopped::Unknown(why) => left.push((handle.id.clone(), why)),
            Stopped::Finished if job.state == State::Discarded => stopped.push(handle.id.clone()),
            Stopped::Finished => match look_at(engine, &job, handle).await? {
                Seen::Value(answer) => {
                    consume::begin(engine, &job, &handle.id, *answer).await?;
                    return Ok(Cancelled::AlreadyFinished);
                }
                Seen::Failed(..) => stopped.push(handle.id.clone()),
                _ if job.state == State::Submitted => return Ok(Cancelled::AlreadyFinished),
                _ => left.push((handle.id.clone(), "it has finished and could not be read just now".to_owned())),
            },
        }
    }
    let stored = engine
        .settle(job, |job, now| {
            let fits = !matches!(job.state, State::Done | State::Consumed | State::Recovered);
            if fits {
                for handle in job.handles.iter_mut().filter(|handle| stopped.contains(&handle.id)) {
                    handle.fate = Fate::Ended;
                }
                if job.state == State::Discarded {
                    return !stopped.is_empty();
                }
                job.discard(reason, now);
            }
            fits
        })
        .await?;
    Ok(match stored.state {
        State::Discarded if left.is_empty() => Cancelled::Discarded,
        State::Discarded => Cancelled::StillRemote(left),
        State::Done => Cancelled::AlreadyFinished,
        other => Cancelled::Ended(other),
    })
}

/// Settles a bad line: nobody waits for it any more. Its message says why, and what was wrong.
///
/// # Errors
/// Trouble with the ledger.
pub async fn cancel_bad_line(engine: &Engine, mut bad: BadLine, reason: &str) -> Result<Cancelled, Trouble> {
    loop {
        if bad.state != State::Parked {
            return Ok(Cancelled::Ended(bad.state));
        }
        let read = bad.rev.clone();
        bad.state = State::Discarded;
        bad.since = engine.clock.now();
        bad.due_at = None;
        bad.message = clip(&format!("{reason} (it was: {})", bad.message), MESSAGE_BYTES);
        match engine.replace(&read, Item::BadLine(bad)).await {
            Ok(_) => return Ok(Cancelled::Discarded),
            Err(ReplaceError::Stale(Some(found))) => match *found {
                Item::BadLine(found) => bad = found,
                other => return Err(Trouble::NeedsPerson(format!("the ledger item {} is no bad line", other.id()))),
            },
            Err(ReplaceError::Stale(None)) => return Err(Trouble::NeedsPerson("the bad line has vanished".to_owned())),
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}

enum Stopped {
    /// It had finished before.
    Finished,
    /// It does not run, or is not known to.
    Over,
    /// It may run on, for the reason given.
    Unknown(String),
}

/// Asks Gemini to cancel a handle. A cancel that is not taken is followed by a look: Gemini refuses to cancel what has
/// ended.
async fn stop(engine: &Engine, handle: &Handle) -> Stopped {
    let error = match engine.gemini.cancel_interaction(&handle.id, &handle.key).await {
        Ok(interaction) if interaction.standing() == Standing::Completed => return Stopped::Finished,
        Ok(_) => return Stopped::Over,
        Err(error) => error,
    };
    match engine.gemini.get_interaction(&handle.id, &handle.key).await {
        Ok(interaction) => match interaction.standing() {
            Standing::Completed => Stopped::Finished,
            Standing::Running | Standing::RequiresAction => Stopped::Unknown(error.to_string()),
            Standing::Failed | Standing::Cancelled | Standing::Truncated => Stopped::Over,
        },
        // It was believed to be gone before.
        Err(ReadError::Refused(failure)) if handle.fate == Fate::GivenUp && failure.http == Some(404) => Stopped::Over,
        Err(second) => {
            warn!(job.handle = handle.id, error = %second, "neither cancelled nor looked at");
            Stopped::Unknown(error.to_string())
        }
    }
}

/// Cancels what is left of an intake: its lines that wait become `discarded` as they are taken, and its open jobs are
/// cancelled. Returns each open job with what became of it.
///
/// # Errors
/// Trouble with the ledger.
pub async fn cancel_intake(engine: &Engine, intake: Intake, reason: &str) -> Result<Vec<(Job, Cancelled)>, Trouble> {
    let sha256 = intake.sha256.clone();
    mark(engine, intake, reason).await?;
    let mut outcomes: Vec<(Job, Cancelled)> = Vec::new();
    // A job can move from a state that is still to be listed to one that was listed: until a sweep finds no new one.
    let mut met = BTreeSet::new();
    loop {
        let before = met.len();
        for state in State::OF_JOBS.into_iter().filter(|state| !state.is_ended()) {
            for item in every(engine, state, usize::MAX).await? {
                if let Item::Job(job) = item
                    && job.input.intake == sha256
                    && met.insert(job.key.clone())
                {
                    let outcome = cancel_job(engine, job.clone(), reason).await?;
                    outcomes.push((job, outcome));
                }
            }
        }
        if met.len() == before {
            return Ok(outcomes);
        }
    }
}

/// Marks it, so that whoever takes its lines next discards them.
pub(super) async fn mark(engine: &Engine, intake: Intake, reason: &str) -> Result<(), Trouble> {
    let change = |intake: &mut Intake, now: Now<'_>| {
        // The parts of a run wait on when all of it is read.
        let has_more = intake.state == State::Reading || intake.run.is_some();
        let news = has_more && intake.cancelled.is_none();
        if news {
            intake.cancelled = Some(reason.to_owned());
        }
        if news && intake.state == State::Reading {
            intake.due_at = Some(intake.lease.as_ref().map_or(now.at, |lease| lease.until));
        }
        news
    };
    engine.settle_intake(intake, change).await.map(drop)
}
