//! Following what an event named: its job is looked at now. What the event itself says is not believed.

use tracing::{debug, error, info, warn};

use super::batch;
use super::batch::items::job as job_of;
use super::collect::{look, note};
use super::engine::{Engine, Trouble};
use super::look::{Looked, contradiction, judge};
use super::work::Told;
use crate::domain::batch::Batch;
use crate::domain::interaction::Interaction;
use crate::domain::job::{Fate, Heard, Job, JobKey, KeyId, State};
use crate::domain::line::is_label_text;
use crate::domain::moves::fresh_handle;
use crate::ports::gemini::ReadError;

/// How often a job is looked at again that somebody else changed in the very moment.
const TRIES: u32 = 3;

/// Looks at what an event named. What is over, or in somebody's hands, is left as it is. True: a result was consumed.
///
/// # Errors
/// Trouble: the message should come again. Without it, too, all that the event told is in the ledger, and found when due.
pub async fn follow(engine: &Engine, told: &Told) -> Result<bool, Trouble> {
    let by_name = match &told.job {
        Some(_) => None,
        None => recognize(engine, &told.handle).await?,
    };
    let Some(key) = told.job.as_ref().or(by_name.as_ref()) else { return Ok(false) };
    for _ in 0..TRIES {
        let Some(job) = job_of(engine, key).await? else {
            warn!(job.key = %key, "an event names a job that the ledger doesn't have");
            return Ok(false);
        };
        match look_now(engine, &job, told, by_name.is_some()).await? {
            Looked::Stale => {}
            looked => return Ok(looked.has_consumed()),
        }
    }
    Err(Trouble::Passing(format!("{key} is changed by others each time it is looked at")))
}

async fn look_now(engine: &Engine, job: &Job, told: &Told, by_name: bool) -> Result<Looked, Trouble> {
    if job.state.is_closed() || job.state == State::Done {
        return Ok(Looked::Noted);
    }
    let handles = std::slice::from_ref(&told.handle);
    match job.handle(&told.handle).map(|handle| handle.fate) {
        Some(Fate::Live | Fate::GivenUp) if job.batch.is_some() => batch::look::look(engine, job, handles).await,
        Some(Fate::Live | Fate::GivenUp) => look(engine, job, handles).await,
        Some(Fate::Won | Fate::Ended) => Ok(Looked::Noted),
        None if job.has_heard_of(&told.handle) => prove_heard(engine, job).await,
        None if by_name => batch::look::attach_by_name(engine, job, &told.handle).await,
        None => {
            warn!(job.key = %job.key, job.handle = told.handle, "an event names a handle that the job doesn't have");
            Ok(Looked::Noted)
        }
    }
}

/// A batch job that nobody knows here, while a create of ours is in doubt: its display name says whose it is.
async fn recognize(engine: &Engine, handle: &str) -> Result<Option<JobKey>, Trouble> {
    let name = match engine.gemini.get_batch(handle, engine.gemini.creates_as()).await {
        Ok(batch) => batch.display_name,
        // The listing finds it too.
        Err(error) => {
            info!(job.handle = handle, %error, "a batch job that an event named can't be looked at");
            return Ok(None);
        }
    };
    let Some(key) = name.filter(|name| is_label_text(name)).map(JobKey) else { return Ok(None) };
    let job = job_of(engine, &key).await?;
    Ok(job.filter(|job| job.batch.is_some()).map(|job| job.key))
}

/// What a GET for a handle of an event showed.
enum Shown {
    /// It is there.
    There(KeyId, Remote),
    /// It is there, and is another job's.
    Others(String),
    /// Gemini says to every key at hand that there is none such.
    Denied(String),
    /// No answer that says anything.
    Nothing(String),
}

enum Remote {
    Interaction(Box<Interaction>),
    Batch,
}

async fn ask(engine: &Engine, job: &Job, handle: &str) -> Shown {
    let mut shown = None;
    for key in engine.gemini.keys() {
        match get(engine, job, handle, &key).await {
            Ok(Ok(remote)) => return Shown::There(key, remote),
            Ok(Err(why)) => return Shown::Others(why),
            Err(ReadError::Refused(failure)) if matches!(failure.http, Some(403 | 404)) => {
                shown.get_or_insert_with(|| Shown::Denied(failure.summary()));
            }
            Err(error) => shown = Some(Shown::Nothing(error.to_string())),
        }
    }
    shown.unwrap_or_else(|| Shown::Nothing("no API key is at hand".to_owned()))
}

/// What there is, or why it is not this job's.
async fn get(engine: &Engine, job: &Job, handle: &str, key: &KeyId) -> Result<Result<Remote, String>, ReadError> {
    if job.batch.is_some() {
        let Batch { name, display_name, .. } = engine.gemini.get_batch(handle, key).await?;
        let is_ours = name == handle && display_name.as_ref() == Some(&job.key.0);
        let why = || format!("asked for {handle}, answered with {name}, named {display_name:?}");
        return Ok(if is_ours { Ok(Remote::Batch) } else { Err(why()) });
    }
    let interaction = engine.gemini.get_interaction(handle, key).await?;
    Ok(match contradiction(job, handle, &interaction) {
        None => Ok(Remote::Interaction(Box::new(interaction))),
        Some(why) => Err(why),
    })
}

/// Asks Gemini about the handles that events named for a job. One that it shows to a key of ours, and in which nothing
/// speaks against it, is attached, and judged in the same breath.
///
/// # Errors
/// Trouble.
pub(super) async fn prove_heard(engine: &Engine, job: &Job) -> Result<Looked, Trouble> {
    let mut job = job.clone();
    for heard in job.heard.clone() {
        let (denied, why) = match (ask(engine, &job, &heard.id).await, job.attempt_of(&heard.nonce)) {
            (Shown::There(key, remote), Some(attempt)) => {
                return attach(engine, &job, &heard, (key, attempt), remote).await;
            }
            (Shown::There(..), None) => (None, "its nonce is of no reservation any more".to_owned()),
            (Shown::Others(why), _) => {
                error!(job.key = %job.key, job.handle = heard.id, error = why, "an event names what is not this job's: nothing is attached");
                (None, why)
            }
            (Shown::Denied(why), _) => (Some(true), why),
            (Shown::Nothing(why), _) => (Some(false), why),
        };
        debug!(job.key = %job.key, job.handle = heard.id, error = why, "what an event named is not shown; asking again");
        let changed = engine
            .change(&job, |job, now| match denied {
                Some(denied) => job.heard_not_shown(&heard.id, denied, now),
                None => job.heard_wrongly(&heard.id, now),
            })
            .await?;
        match changed {
            Some(changed) => job = changed,
            None => return Ok(Looked::Stale),
        }
    }
    Ok(Looked::Noted)
}

async fn attach(
    engine: &Engine,
    job: &Job,
    heard: &Heard,
    (key, attempt): (KeyId, u32),
    remote: Remote,
) -> Result<Looked, Trouble> {
    let handle = fresh_handle(heard.id.clone(), attempt, key, job.deadline(), engine.clock.now());
    // Whatever has become of the job meanwhile: what was paid for is kept on record.
    let job = engine.settle(job.clone(), |job, now| job.attach(handle.clone(), &heard.nonce, now)).await?;
    info!(job.key = %job.key, job.handle = handle.id, job.attempt = attempt, "attached by an event");
    if job.state.is_closed() || job.state == State::Done {
        return Ok(Looked::Noted);
    }
    match remote {
        Remote::Interaction(interaction) => {
            let seen = judge(engine, &job, *interaction).await?;
            note(engine, &job, vec![(handle.id, seen)]).await
        }
        Remote::Batch => batch::look::look(engine, &job, &[handle.id]).await,
    }
}
