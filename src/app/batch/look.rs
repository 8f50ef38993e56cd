//! Looking at a batch job, and finding one by its name.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use super::back::{End, hand_back};
use super::items::attempt_of;
use super::settle;
use crate::app::engine::{Engine, Trouble};
use crate::app::look::{Looked, Seen as Refusal, judge_refusal};
use crate::app::work::hand_over_attempt;
use crate::domain::batch::{Batch, Standing};
use crate::domain::classify::{Met, classify};
use crate::domain::job::{Fate, Handle, Job, State};
use crate::domain::moves::{Now, fresh_handle};
use crate::domain::part::{Attempt, Output};
use crate::ports::gemini::ReadError;

/// What a look at a batch job showed.
#[derive(Debug)]
pub enum Seen {
    /// Still under way, or a state that this program doesn't know.
    Running,
    /// It has ended, and its output can be taken.
    Output(Output),
    /// It has failed as a whole: class and message.
    Failed(String, String),
    /// It expired or was cancelled: given up.
    GivenUp(&'static str, String),
    /// Gemini doesn't show it to a key that may see it; or it says that it has succeeded, and names no output.
    Missing(String),
    /// Nothing that says anything about it; and a delay, when Gemini names one.
    NoNews(String, Option<Duration>),
    /// The key itself is refused, in words for a person.
    Rejected(String),
}

/// Asks Gemini about a handle.
pub async fn look_at(engine: &Engine, job: &Job, handle: &Handle) -> Seen {
    match engine.gemini.get_batch(&handle.id, &handle.key).await {
        Ok(batch) if batch.name != handle.id => {
            no_news(job, format!("asked for {}, answered with {}", handle.id, batch.name))
        }
        Ok(batch) => match &batch.display_name {
            Some(name) if *name != job.key.0 => no_news(job, format!("{} is named {name}", handle.id)),
            _ => judge(&batch),
        },
        Err(ReadError::Refused(failure)) => match judge_refusal(engine, handle, &failure) {
            Refusal::Missing(why) => Seen::Missing(why),
            Refusal::Rejected(message) => Seen::Rejected(message),
            Refusal::NoNews(why, delay) => Seen::NoNews(why, delay),
            _ => Seen::NoNews(format!("made with another API key ({}), which is not at hand", handle.key), None),
        },
        Err(error) => Seen::NoNews(error.to_string(), None),
    }
}

fn no_news(job: &Job, why: String) -> Seen {
    error!(job.key = %job.key, error = why, "Gemini's answer is not this attempt's");
    Seen::NoNews(why, None)
}

fn judge(batch: &Batch) -> Seen {
    let said = batch.failure.as_ref().map(|failure| failure.summary());
    let ended = match batch.standing() {
        Standing::Running => return Seen::Running,
        Standing::Succeeded => None,
        Standing::Failed => {
            let failure = batch.failure.clone().unwrap_or_default();
            Some((classify(&failure, Met::InWork).class, failure.summary()))
        }
        Standing::Cancelled => Some((
            "cancelled".to_owned(),
            said.unwrap_or_else(|| "it was cancelled at Gemini, not from here".to_owned()),
        )),
        Standing::Expired => Some(("expired".to_owned(), said.unwrap_or_else(|| "it expired at Gemini".to_owned()))),
    };
    if let Some(file) = &batch.output {
        let announced = batch.outcomes.unwrap_or(0);
        return Seen::Output(Output { file: file.clone(), announced, ended: ended.map(|(class, _)| class) });
    }
    match (batch.standing(), ended) {
        (Standing::Cancelled, Some((_, message))) => Seen::GivenUp("cancelled", message),
        (Standing::Expired, Some((_, message))) => Seen::GivenUp("expired", message),
        (_, Some((class, message))) => Seen::Failed(class, message),
        _ => Seen::Missing("it has succeeded, and names no output file".to_owned()),
    }
}

/// Looks at the handles of an attempt.
///
/// # Errors
/// Trouble.
pub async fn look(engine: &Engine, job: &Job, handles: &[String]) -> Result<Looked, Trouble> {
    let attempt = attempt_of(job)?.clone();
    let mut shown = Vec::new();
    for id in handles {
        let Some(handle) = job.handle(id) else { continue };
        match look_at(engine, job, handle).await {
            Seen::Output(output) => {
                debug!(job.key = %job.key, job.handle = id, output = output.file, "it has ended");
                let done = engine.change_if(job, |job, now| job.output_is_there(id, output, now)).await?;
                return match done {
                    Some(job) => take_or_hand_over(engine, job).await,
                    None => Ok(Looked::Stale),
                };
            }
            Seen::Rejected(message) => return Err(Trouble::NeedsPerson(message)),
            seen => shown.push((handle.clone(), seen)),
        }
    }
    let mut job = job.clone();
    for (handle, seen) in shown {
        match note(engine, &job, &attempt, &handle, seen).await? {
            Some(noted) => job = noted,
            None => break,
        }
    }
    Ok(Looked::Noted)
}

/// Takes the outcome here, or has somebody take it who has more time than a tick.
async fn take_or_hand_over(engine: &Engine, job: Job) -> Result<Looked, Trouble> {
    let taken = if hand_over_attempt(engine, &job).await? { false } else { settle::take(engine, &job).await? };
    Ok(if taken { Looked::Consumed } else { Looked::Noted })
}

/// Writes down what a look showed. The job as it is then; none when there is no more to write: its rows went back, or
/// somebody else changed it.
async fn note(
    engine: &Engine,
    job: &Job,
    attempt: &Attempt,
    handle: &Handle,
    seen: Seen,
) -> Result<Option<Job>, Trouble> {
    let now = engine.clock.now();
    let grace = engine.settings.policy.not_found_grace;
    if job.state != State::Submitted {
        let answered = !matches!(seen, Seen::NoNews(..));
        let ended = matches!(seen, Seen::Failed(..));
        return engine
            .change(job, |job, now| {
                if ended {
                    job.came_to_nothing(&handle.id);
                }
                match job.state {
                    State::GivenUp => job.nothing_yet(&handle.id, answered, now),
                    _ if answered => job.missing(&handle.id, "", now),
                    _ => job.look_failed(&handle.id, None, now),
                }
            })
            .await;
    }
    let other_lives = job.handles.iter().any(|other| other.fate == Fate::Live && other.id != handle.id);
    let end = match &seen {
        Seen::Failed(class, message) => Some((class.as_str(), message.as_str())),
        Seen::GivenUp(class, message) => Some((*class, message.as_str())),
        Seen::Running if handle.deadline <= now => Some(("deadline", "still running at its deadline")),
        Seen::Missing(message) if handle.missing_since.is_some_and(|since| since.plus(grace) <= now) => {
            Some(("not_found", message.as_str()))
        }
        _ => None,
    };
    let failed = matches!(seen, Seen::Failed(..));
    let has_ended = failed || matches!(seen, Seen::GivenUp(..));
    match (end, &seen) {
        (Some((class, message)), _) => {
            if other_lives {
                return engine.change(job, |job, now| job.give_up(&handle.id, class, message, now)).await;
            }
            let failed = failed.then_some(handle.id.as_str());
            hand_back(engine, job, attempt, End { class, message, free: false, further: 0, failed }).await?;
            super::files::delete_input(engine, job, has_ended).await;
            Ok(None)
        }
        (None, Seen::Running) => engine.change(job, |job, now| job.is_under_way(&handle.id, now)).await,
        (None, Seen::Missing(why)) => {
            debug!(job.key = %job.key, job.handle = handle.id, "not there, which is not believed yet: {why}");
            engine.change(job, |job, now| job.is_not_there(&handle.id, now)).await
        }
        (None, Seen::NoNews(why, delay)) => {
            if handle.polls > 0 && handle.polls.is_multiple_of(10) {
                warn!(job.key = %job.key, job.handle = handle.id, "no look at it has been answered well for a while: {why}");
            }
            engine.change(job, |job, now| job.look_failed(&handle.id, *delay, now)).await
        }
        (None, _) => Ok(Some(job.clone())),
    }
}

/// Attaches a batch job that has the attempt's name, as a listing would; and looks at it.
///
/// # Errors
/// Trouble.
pub async fn attach_by_name(engine: &Engine, job: &Job, name: &str) -> Result<Looked, Trouble> {
    let key = engine.gemini.creates_as().clone();
    let handle = fresh_handle(name.to_owned(), job.attempts, key, job.deadline(), engine.clock.now());
    let attach = |job: &mut Job, now: Now<'_>| job.attach(handle.clone(), &job.nonce.clone(), now);
    let job = engine.settle(job.clone(), attach).await?;
    info!(job.key = %job.key, job.handle = handle.id, "attached by its name, which an event led to");
    if job.state.is_closed() || job.state == State::Done {
        return Ok(Looked::Noted);
    }
    look(engine, &job, &[handle.id]).await
}

/// Looks for an unclear attempt by its name in all of Gemini's batch jobs.
///
/// # Errors
/// Trouble.
pub async fn find(engine: &Engine, job: &Job) -> Result<(), Trouble> {
    let attempt = attempt_of(job)?;
    match listed(engine, &job.key.0).await {
        Ok(found) if !found.is_empty() => {
            for (others, batch) in found.into_iter().enumerate() {
                let key = engine.gemini.creates_as().clone();
                if others > 0 {
                    warn!(job.key = %job.key, job.handle = batch.name, "Gemini has more than one batch job of this name: paid for twice");
                }
                info!(job.key = %job.key, job.handle = batch.name, "found by its name");
                let handle = fresh_handle(batch.name, job.attempts, key, job.deadline(), engine.clock.now());
                let attach = |job: &mut Job, now: Now<'_>| job.attach(handle.clone(), &job.nonce.clone(), now);
                engine.settle(job.clone(), attach).await?;
            }
            Ok(())
        }
        Ok(_) if job.state == State::GivenUp => engine.change_if(job, |job, now| job.never_listed(now)).await.map(drop),
        Ok(_) => {
            let stored = engine.change_if(job, |job, now| job.not_listed(now)).await?;
            if let Some(stored) = stored
                && stored.state == State::Retryable
            {
                warn!(job.key = %job.key, part = %attempt.part, "two listings don't have it: it is sent again");
            }
            Ok(())
        }
        Err(why) => {
            debug!(job.key = %job.key, error = why, "no complete listing; looking again later");
            engine.change_if(job, |job, now| job.listing_failed(now)).await.map(drop)
        }
    }
}

/// How many pages of a listing are read at most: 100,000 batch jobs.
const PAGES: usize = 1000;

/// All batch jobs of that display name, from a complete listing. An error says why it is not complete.
pub(super) async fn listed(engine: &Engine, name: &str) -> Result<Vec<Batch>, String> {
    let (mut found, mut token) = (Vec::new(), None);
    for _ in 0..PAGES {
        if engine.is_stopping() {
            return Err("stopped".to_owned());
        }
        let page = engine.gemini.list_batches(token.as_deref()).await.map_err(|error| error.to_string())?;
        found.extend(page.batches.into_iter().filter(|batch| batch.display_name.as_deref() == Some(name)));
        match page.next {
            None => return Ok(found),
            Some(next) if token.as_ref() == Some(&next) => return Err("the listing goes round in a circle".to_owned()),
            Some(next) => token = Some(next),
        }
    }
    Err(format!("the listing has more than {PAGES} pages"))
}
