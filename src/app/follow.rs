//! Following what an event named: its job is looked at now. What the event itself says is not believed.

use tracing::{debug, error, info, warn};

use super::batch;
use super::batch::items::job as job_of;
use super::collect::{look, note};
use super::engine::{Engine, Trouble};
use super::look::{Looked, contradiction, judge};
use super::work::Told;
use crate::domain::interaction::Interaction;
use crate::domain::job::{Fate, Job, JobKey, KeyId, State};
use crate::domain::line::is_label_text;
use crate::domain::moves::fresh_handle;
use crate::ports::gemini::ReadError;

/// How often a job is looked at again that somebody else changed in the very moment.
const TRIES: u32 = 3;

/// Looks at what an event named. What is over, or in somebody's hands, is left as it is.
///
/// # Errors
/// Trouble: the message should come again.
pub async fn follow(engine: &Engine, told: &Told) -> Result<(), Trouble> {
    let by_name = match &told.job {
        Some(_) => None,
        None => recognize(engine, &told.handle).await?,
    };
    let Some(key) = told.job.as_ref().or(by_name.as_ref()) else { return Ok(()) };
    for _ in 0..TRIES {
        let Some(job) = job_of(engine, key).await? else {
            warn!(job.key = %key, "an event names a job that the ledger doesn't have");
            return Ok(());
        };
        if look_now(engine, &job, told, by_name.is_some()).await? != Looked::Stale {
            return Ok(());
        }
    }
    Err(Trouble::Passing(format!("{key} is changed by others each time it is looked at")))
}

async fn look_now(engine: &Engine, job: &Job, told: &Told, by_name: bool) -> Result<Looked, Trouble> {
    if job.state.is_closed() || job.state == State::Done {
        return Ok(Looked::Noted);
    }
    let known = job.handle(&told.handle).map(|handle| handle.fate);
    match (known, &told.nonce) {
        (Some(Fate::Live | Fate::GivenUp), _) if job.batch.is_some() => {
            batch::look::look(engine, job, std::slice::from_ref(&told.handle)).await
        }
        (Some(Fate::Live | Fate::GivenUp), _) => look(engine, job, std::slice::from_ref(&told.handle)).await,
        (Some(Fate::Won | Fate::Ended), _) => Ok(Looked::Noted),
        (None, nonce) if job.batch.is_some() && (by_name || nonce.is_some()) => {
            batch::look::prove(engine, job, &told.handle, nonce.as_deref()).await
        }
        (None, Some(nonce)) => prove(engine, job, &told.handle, nonce).await,
        (None, None) => {
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
    There(KeyId, Box<Interaction>),
    /// Gemini says to every key at hand that there is none such.
    Denied(String),
    /// No answer that says anything.
    Nothing(String),
}

async fn ask(engine: &Engine, handle: &str) -> Shown {
    let mut shown = None;
    for key in engine.gemini.keys() {
        match engine.gemini.get_interaction(handle, &key).await {
            Ok(interaction) => return Shown::There(key, Box::new(interaction)),
            Err(ReadError::Refused(failure)) if matches!(failure.http, Some(403 | 404)) => {
                shown.get_or_insert_with(|| Shown::Denied(failure.summary()));
            }
            Err(error) => shown = Some(Shown::Nothing(error.to_string())),
        }
    }
    shown.unwrap_or_else(|| Shown::Nothing("no API key is at hand".to_owned()))
}

/// Attaches a handle whose nonce fits, if Gemini shows it to a key of ours and nothing in it speaks against it; and looks
/// at it in the same breath.
async fn prove(engine: &Engine, job: &Job, handle: &str, nonce: &str) -> Result<Looked, Trouble> {
    let Some(attempt) = job.attempt_of(nonce) else {
        warn!(job.key = %job.key, job.handle = handle, "an event's nonce fits no reservation of the job: nothing is attached");
        return Ok(Looked::Noted);
    };
    match ask(engine, handle).await {
        Shown::There(key, interaction) => match contradiction(job, handle, &interaction) {
            None => attach(engine, job, Found { key, attempt, nonce }, *interaction).await,
            Some(why) => {
                error!(job.key = %job.key, job.handle = handle, error = why, "an event names what is not this job's: nothing is attached");
                let changed = engine.change(job, |job, now| job.heard_wrongly(handle, now)).await?;
                Ok(if changed.is_some() { Looked::Noted } else { Looked::Stale })
            }
        },
        Shown::Denied(why) | Shown::Nothing(why) if !is_in_doubt(job) => {
            Err(Trouble::Passing(format!("{handle} of {} can't be looked at: {why}", job.key)))
        }
        Shown::Denied(why) | Shown::Nothing(why) => {
            debug!(job.key = %job.key, job.handle = handle, error = why, "what an event named is not shown yet; asking again");
            engine.settle(job.clone(), |job, now| job.heard(handle, nonce, now)).await?;
            Ok(Looked::Noted)
        }
    }
}

const fn is_in_doubt(job: &Job) -> bool {
    matches!(job.state, State::Reserving | State::Unclear)
}

/// What is known of a handle that is to be attached.
struct Found<'a> {
    key: KeyId,
    attempt: u32,
    nonce: &'a str,
}

async fn attach(engine: &Engine, job: &Job, found: Found<'_>, interaction: Interaction) -> Result<Looked, Trouble> {
    let Found { key, attempt, nonce } = found;
    let handle = fresh_handle(interaction.id.clone(), attempt, key, job.deadline(), engine.clock.now());
    // Whatever has become of the job meanwhile: what was paid for is kept on record.
    let job = engine.settle(job.clone(), |job, now| job.attach(handle.clone(), nonce, now)).await?;
    info!(job.key = %job.key, job.handle = handle.id, job.attempt = attempt, "attached by an event");
    if job.state.is_closed() || job.state == State::Done {
        return Ok(Looked::Noted);
    }
    let seen = judge(engine, &job, interaction).await?;
    note(engine, &job, vec![(handle.id, seen)]).await
}

/// Asks again about the handles that events named for an unclear job.
///
/// # Errors
/// Trouble.
pub(super) async fn prove_heard(engine: &Engine, job: &Job) -> Result<Looked, Trouble> {
    let mut looked = Looked::Noted;
    let mut job = job.clone();
    for heard in job.heard.clone() {
        let (denied, why) = match (ask(engine, &heard.id).await, job.attempt_of(&heard.nonce)) {
            (Shown::There(key, interaction), Some(attempt))
                if contradiction(&job, &heard.id, &interaction).is_none() =>
            {
                return attach(engine, &job, Found { key, attempt, nonce: &heard.nonce }, *interaction).await;
            }
            (Shown::There(..), _) => (None, "it is another job's".to_owned()),
            (Shown::Denied(why), _) => (Some(true), why),
            (Shown::Nothing(why), _) => (Some(false), why),
        };
        debug!(job.key = %job.key, job.handle = heard.id, error = why, "what an event named is not shown");
        let changed = engine
            .change(&job, |job, now| match denied {
                Some(denied) => job.heard_not_shown(&heard.id, denied, now),
                None => job.heard_wrongly(&heard.id, now),
            })
            .await?;
        match changed {
            Some(changed) => job = changed,
            None => {
                looked = Looked::Stale;
                break;
            }
        }
    }
    Ok(looked)
}
