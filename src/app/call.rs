//! Plain calls: `generateContent`, answered in one breath (design, section 7). Each try is a reservation of its own; the
//! result is durable before the ledger says so, and nothing is asked again before it was looked for.

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tracing::{error, info, warn};

use super::batch::items::job as job_of;
use super::collect::answer_object;
use super::consume::{self, Found, handle_in, result_bytes, result_object};
use super::engine::{Engine, Trouble};
use super::gates::{Gates, Pass};
use super::lines::usable;
use super::send::{Sent, WRITE_DOWN_TRIES, close, operator};
use super::submit::bring_again;
use crate::domain::classify::{Delay, Judgement, Met, Verdict, classify, is_foreign};
use crate::domain::extract::Expectation;
use crate::domain::failure::{Code, Failure};
use crate::domain::generated::{extract, response_id, usage};
use crate::domain::job::{Job, State};
use crate::domain::line::JobLine;
use crate::domain::moves::UNCLEAR;
use crate::ports::gemini::CallError;
use crate::ports::objects::Put;

/// What must be left of a process's time beyond a call's own time-out: for the ledger's writes, tried again for a while.
const MARGIN: Duration = Duration::from_secs(20);

/// The longest wait between two tries that is waited out in place.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How often a waiting process looks whether it is to stop.
pub(super) const GLANCE: Duration = Duration::from_secs(1);

/// The class of an answer that is longer than this program takes.
const TOO_LONG: &str = "internal:too_long";

/// What a call came to.
enum Came {
    /// A result of the job is durable: this call's, or with `another` that of another call of the same job.
    Kept { another: bool },
    /// An answer without a usable value; the object keeps it.
    NoValue { judgement: Judgement, message: String, object: String },
    /// The job was closed meanwhile; the object keeps the answer.
    Closed { object: String },
    /// No answer.
    Failed(CallError),
}

/// Whether a call that is begun now can end, and be written down, before this process is ended from outside.
pub(super) fn has_time(engine: &Engine) -> bool {
    engine.has_time_for(engine.settings.policy.call_timeout.saturating_add(MARGIN))
}

/// Makes the call of a job that was just reserved here, under its lease, and writes down what came of it. It is made once.
///
/// # Errors
/// As [`super::send::send`].
pub(super) async fn call(
    engine: &Engine,
    gates: &Gates<'_>,
    pass: &Pass,
    job: Job,
    line: &JobLine,
) -> Result<Sent, Trouble> {
    let (mode, model) = (job.mode, job.model.clone());
    let expectation = usable(line).map_err(|error| Trouble::NeedsPerson(error.message))?;
    let asking = ask(engine, job.clone(), line.call_body().into(), &expectation);
    let (job, came) = engine.hold(job, asking).await;
    match came? {
        Came::Kept { another } => {
            gates.accepted(mode, &model, pass).await?;
            if another {
                warn!(job.key = %job.key, "answered twice: the first result stays");
            }
            let consumed = consume::take(engine, job, another).await?;
            Ok(if consumed { Sent::Consumed } else { Sent::Answered })
        }
        Came::NoValue { judgement, message, object } => {
            gates.accepted(mode, &model, pass).await?;
            info!(job.key = %job.key, job.class = judgement.class, "answered without a value");
            let nonce = job.nonce.clone();
            engine
                .settle(job, |job, now| {
                    let news = job.call_failed(&nonce, &judgement, &message, false, now);
                    if news {
                        job.answer = Some(object.clone());
                    }
                    news
                })
                .await?;
            Ok(Sent::Refused)
        }
        Came::Closed { object } => {
            warn!(job.key = %job.key, job.answer = object, "it was closed while it was being asked: its answer is kept there");
            gates.accepted(mode, &model, pass).await?;
            Ok(Sent::Answered)
        }
        Came::Failed(error) => failed(engine, gates, pass, job, error).await,
    }
}

/// Asks, and makes what came durable before anything is said of it.
async fn ask(engine: &Engine, job: Job, body: Bytes, expectation: &Expectation) -> Result<Came, Trouble> {
    let response = match engine.gemini.generate(&job.model, body).await {
        Ok(response) => response,
        Err(error) => return Ok(Came::Failed(error)),
    };
    let object = answer_object(&job, &job.nonce);
    let value = match extract(&response, expectation) {
        Ok(value) => value,
        Err((judgement, message)) => {
            keep(engine, &job, &object, raw(&response)).await?;
            return Ok(Came::NoValue { judgement, message, object });
        }
    };
    // What lies among the results is handed on by the bucket: nobody waits for that of a job that a person gave up.
    if job_of(engine, &job.key).await?.is_none_or(|stored| stored.state == State::Discarded) {
        keep(engine, &job, &object, raw(&response)).await?;
        return Ok(Came::Closed { object });
    }
    let (handle, name) = (response_id(&response), result_object(&job.key));
    let found = Found { handle: &handle, value: &value, usage: usage(&response), response: &response };
    let result = result_bytes(engine, &job, found)?;
    let another = match keep(engine, &job, &name, result).await? {
        Put::Written => false,
        Put::AlreadyThere => handle_in(&engine.objects.get(&name).await?).is_some_and(|other| other != handle),
    };
    Ok(Came::Kept { another })
}

fn raw(response: &RawValue) -> Bytes {
    Bytes::copy_from_slice(response.get().as_bytes())
}

/// An answer exists nowhere else until it is an object, so trouble with that is waited out for a while.
pub(super) async fn keep(engine: &Engine, job: &Job, name: &str, bytes: Bytes) -> Result<Put, Trouble> {
    let mut tries = 0;
    loop {
        match engine.objects.put(name, bytes.clone()).await {
            Ok(put) => return Ok(put),
            Err(error) if tries == WRITE_DOWN_TRIES => {
                error!(job.key = %job.key, %error, "answered by Gemini, but the answer can't be written down: it will be asked again");
                return Err(error.into());
            }
            Err(error) => {
                warn!(job.key = %job.key, %error, "the answer could not be written down yet");
                tries += 1;
                engine.clock.sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// What a call means that brought no answer to judge.
async fn failed(engine: &Engine, gates: &Gates<'_>, pass: &Pass, job: Job, error: CallError) -> Result<Sent, Trouble> {
    let (mode, model, nonce) = (job.mode, job.model.clone(), job.nonce.clone());
    let (judgement, message, in_doubt) = match error {
        CallError::NotSent(why) => {
            let judgement = Judgement { verdict: Verdict::Queue, class: "queue:unreachable".to_owned(), delay: None };
            return close(engine, gates, job, &judgement, &format!("Gemini could not be reached: {why}")).await;
        }
        CallError::Unclear(why) => (Judgement::retryable(UNCLEAR), why, true),
        // It would be as long the next time, and asking again would be paid again: a person decides.
        CallError::TooLong(_) => (Judgement::permanent(TOO_LONG), error.to_string(), false),
        CallError::Refused(failure) => {
            let judgement = judge(&failure);
            let message = failure.summary();
            if matches!(judgement.verdict, Verdict::Queue | Verdict::Operator) {
                return close(engine, gates, job, &judgement, &message).await;
            }
            (judgement, message, !is_definite(&failure))
        }
    };
    info!(job.key = %job.key, job.class = judgement.class, job.in_doubt = in_doubt, "a call failed");
    let is_refused = !in_doubt && judgement.class != TOO_LONG;
    engine
        .settle(job, |job, now| match is_refused {
            true => job.refused(&nonce, &judgement, &message, now),
            false => job.call_failed(&nonce, &judgement, &message, in_doubt, now),
        })
        .await?;
    match judgement.verdict {
        Verdict::Retryable => gates.stumbled(mode, &model, pass, &judgement, &message).await?,
        _ => gates.refused_alone(mode, &model, pass, &judgement, &message).await?,
    }
    Ok(if in_doubt { Sent::Unclear } else { Sent::Refused })
}

/// What a refused call means. A 429 is the job's own, unless the quota of the day is used up: every job would meet that.
pub(super) fn judge(failure: &Failure) -> Judgement {
    if is_foreign(failure) {
        return operator("operator:address");
    }
    let judgement = classify(failure, Met::InWork);
    // As with a create, a conflict that has no name says nothing definite.
    let is_bare = failure.status.is_none() && matches!(failure.code, None | Some(Code::Number(409)));
    match (judgement.delay, failure.http) {
        (Some(Delay::NextPacificMidnight), _) => classify(failure, Met::OnCreate),
        (None, Some(409)) if is_bare => Judgement::retryable("retryable:409"),
        _ => judgement,
    }
}

/// Whether a refusal says that no work was done: any 4xx but 408 and 409.
pub(super) fn is_definite(failure: &Failure) -> bool {
    failure.http.is_some_and(|http| (400..500).contains(&http) && !matches!(http, 408 | 409))
}

/// A call's result that is durable although the job doesn't say so, since whoever wrote it ended there, is handed on. None:
/// there is no such result. True: it was consumed.
///
/// # Errors
/// Trouble.
pub(super) async fn take_kept(engine: &Engine, job: &Job) -> Result<Option<bool>, Trouble> {
    if engine.objects.size(&result_object(&job.key)).await?.is_none() {
        return Ok(None);
    }
    info!(job.key = %job.key, "its result is there already: nothing is asked again");
    consume::take(engine, job.clone(), false).await.map(Some)
}

/// Takes over a reservation that ran out. What its caller had got and made durable is handed on; else the call is made
/// again, and told as a possible duplicate. True: a result was consumed.
///
/// # Errors
/// Trouble.
pub(super) async fn take_over(engine: &Engine, job: &Job) -> Result<bool, Trouble> {
    if let Some(consumed) = take_kept(engine, job).await? {
        return Ok(consumed);
    }
    warn!(job.key = %job.key, job.attempt = job.attempts, "the reservation of a call ran out: it is made again");
    let nonce = job.nonce.clone();
    engine.change_if(job, |job, now| job.call_lost(&nonce, now)).await?;
    Ok(false)
}

/// Makes the call of a job that waits for its next try, and the tries after it as long as the waits between them are short
/// and this process has time for another one; what is left is in the ledger, due. None: nothing was asked.
///
/// # Errors
/// Trouble.
pub(super) async fn call_on(engine: &Engine, gates: &Gates<'_>, job: Job) -> Result<Option<Sent>, Trouble> {
    let (mut job, mut last) = (job, None);
    loop {
        let key = job.key.clone();
        let Some(sent) = bring_again(engine, gates, job).await? else { return Ok(last) };
        last = Some(sent);
        if !matches!(sent, Sent::Refused | Sent::Unclear) {
            return Ok(last);
        }
        let Some(stored) = job_of(engine, &key).await? else { return Ok(last) };
        let Some(due) = stored.due_at.filter(|_| stored.state == State::Retryable) else { return Ok(last) };
        let wait = engine.until(due);
        let needed = wait.saturating_add(engine.settings.policy.call_timeout).saturating_add(MARGIN);
        if wait > LONGEST_WAIT || !engine.has_time_for(needed) {
            return Ok(last);
        }
        while engine.clock.now() < due {
            if engine.is_stopping() {
                return Ok(last);
            }
            engine.clock.sleep(engine.until(due).min(GLANCE)).await;
        }
        job = stored;
    }
}
