//! Sending an attempt: its rows uploaded, its job reserved, the batch created once, and what the answer means.

use std::time::Duration;

use tracing::{info, warn};

use super::back::{End, hand_back};
use super::calls::make_calls;
use super::files::{delete_input, refused_rows};
use super::items::{self, attempt_of};
use super::part::others_are_out;
use super::settle;
use crate::app::call::has_time;
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::{Gates, Pass};
use crate::app::send::{REFUSED, UPLOAD, close, fresh_lease, hook, judge_create, look_if_strayed, ticket, write_down};
use crate::app::submit::SHORT;
use crate::app::work::hand_over_attempt;
use crate::domain::classify::{Judgement, Verdict, may_be_shared};
use crate::domain::failure::Failure;
use crate::domain::job::{Job, Mode, State};
use crate::domain::moves::{Now, fresh_handle};
use crate::domain::part::{Attempt, TOO_LARGE};
use crate::domain::refused_lines::refused_lines;
use crate::domain::time::Millis;
use crate::ports::batches::{Upload, UploadError};
use crate::ports::gemini::{CreateError, ReadError};

/// How old an uploaded file may be: Gemini keeps it for 48 hours (<https://ai.google.dev/gemini-api/docs/files>).
const FILE_AGE: Duration = Duration::from_secs(40 * 3600);

/// A file this young is there, so that a refusal is not for want of it.
const FRESH_FILE: Duration = Duration::from_secs(10 * 60);

/// How often in a row a part may be refused as too much before it is halved.
const TOO_MUCH: u32 = 3;

/// Sends an attempt that waits; one whose rows are to be plain calls has them made here, as far as there is time before
/// `until`. False: it was not sent now.
///
/// # Errors
/// Trouble; what is in the ledger is true.
pub async fn send_attempt(engine: &Engine, gates: &Gates<'_>, job: Job, until: Millis) -> Result<bool, Trouble> {
    let attempt = attempt_of(&job)?.clone();
    let (intake, _) = items::run_of(engine, &job.input.intake).await?;
    if let Some(reason) = &intake.cancelled {
        engine.change(&job, |job, now| job.discard(reason, now)).await?;
        super::part::look_soon(engine, &attempt).await?;
        return Ok(false);
    }
    let part = items::part(engine, &attempt.run, &attempt.part).await?;
    let ended = part.attempt(attempt.number).and_then(|sending| sending.ended.clone());
    if ended.is_some() || !part.has_rows_of(attempt.number) {
        // Its part has taken its rows back: whoever did that came no further.
        let (class, message) = ended.unwrap_or_else(|| ("superseded".to_owned(), "its rows went elsewhere".to_owned()));
        engine.settle(job, |job, now| job.rows_went_back(&class, &message, now)).await?;
        return Ok(false);
    }
    if !job.may_try_again() {
        let class = job.class.clone().unwrap_or_else(|| "unknown".to_owned());
        let message = job.message.clone().unwrap_or_default();
        let further = job.attempts.saturating_sub(1);
        hand_back(engine, &job, &attempt, End { class: &class, message: &message, free: false, further, failed: None })
            .await?;
        return Ok(false);
    }
    let now = engine.clock.now();
    let has_file = attempt.file.as_ref().is_some_and(|file| now.since(file.at) < FILE_AGE);
    let mode = if attempt.calls.is_some() { Mode::Call } else { job.mode };
    let pass = gates.ask(mode, &job.model).await?;
    if let Pass::Closed(until) | Pass::Paused(until) = pass {
        if until.since(now) > SHORT {
            engine.change(&job, |job, _| job.hold_back(until)).await?;
        }
        return Ok(false);
    }
    if mode == Mode::Call {
        if hand_over_attempt(engine, &job).await? || !has_time(engine) {
            gates.no_news(mode, &job.model, &pass).await?;
            return Ok(false);
        }
        return make_calls(engine, gates, pass, job, until).await;
    }
    if !has_file {
        if hand_over_attempt(engine, &job).await? {
            gates.no_news(job.mode, &job.model, &pass).await?;
            return Ok(false);
        }
        let uploaded = upload(engine, gates, job.clone(), &attempt).await;
        let Some(job) = uploaded? else {
            gates.no_news(job.mode, &job.model, &pass).await?;
            return Ok(false);
        };
        return create(engine, gates, &pass, job).await;
    }
    create(engine, gates, &pass, job).await
}

/// Uploads an attempt's rows under its lease. None: not now.
async fn upload(engine: &Engine, gates: &Gates<'_>, job: Job, attempt: &Attempt) -> Result<Option<Job>, Trouble> {
    let holder = engine.ids.token();
    let Some(job) = engine.change_if(&job, |job, now| job.begin_upload(&holder, now)).await? else { return Ok(None) };
    let display_name = format!("{} part {} attempt {}", attempt.run, attempt.part, attempt.number);
    let upload = Upload {
        objects: &*engine.objects,
        object: &attempt.rows_at,
        bytes: attempt.bytes,
        display_name: &display_name,
    };
    let (job, answer) = engine.hold(job, engine.gemini.upload(upload)).await;
    match answer {
        Ok(name) => {
            info!(job.key = %job.key, file = name, bytes = attempt.bytes, "uploaded");
            let job = engine.settle(job, |job, now| job.uploaded(&holder, &name, now)).await?;
            let is_ours = attempt_of(&job)?.file.as_ref().is_some_and(|file| file.name == name);
            Ok(is_ours.then_some(job))
        }
        Err(UploadError::Object(error)) => {
            not_uploaded(engine, job, &holder, "upload", &error.to_string()).await?;
            Err(error.into())
        }
        Err(UploadError::Gemini(ReadError::Refused(failure))) => {
            let mut judgement = judge_create(engine, &failure);
            let message = failure.summary();
            if judgement.verdict == Verdict::Permanent {
                // No row is to blame, and the next part would fare alike.
                judgement = Judgement { verdict: Verdict::Operator, class: UPLOAD.to_owned(), delay: None };
            }
            if matches!(judgement.verdict, Verdict::Queue | Verdict::Operator) {
                let until = gates.refused(job.mode, &job.model, &judgement, &message).await?;
                engine
                    .settle(job, |job, now| {
                        let ours = job.upload_failed(&holder, &judgement.class, &message, now);
                        if ours {
                            job.hold_back(until);
                        }
                        ours
                    })
                    .await?;
                return told(engine, &judgement, &message).map(|()| None);
            }
            not_uploaded(engine, job, &holder, &judgement.class, &message).await
        }
        Err(error) => not_uploaded(engine, job, &holder, "upload", &error.to_string()).await,
    }
}

async fn not_uploaded(engine: &Engine, job: Job, holder: &str, class: &str, why: &str) -> Result<Option<Job>, Trouble> {
    warn!(job.key = %job.key, error = why, "its rows could not be uploaded; trying again later");
    engine.settle(job, |job, now| job.upload_failed(holder, class, why, now)).await?;
    Ok(None)
}

fn told(engine: &Engine, judgement: &Judgement, message: &str) -> Result<(), Trouble> {
    match judgement.verdict {
        Verdict::Operator => Err(Trouble::NeedsPerson(crate::app::send::operator_message(
            engine,
            engine.gemini.creates_as(),
            &judgement.class,
            message,
        ))),
        _ => Ok(()),
    }
}

/// Reserves the attempt and creates its batch job, once.
async fn create(engine: &Engine, gates: &Gates<'_>, pass: &Pass, job: Job) -> Result<bool, Trouble> {
    let (mode, model) = (job.mode, job.model.clone());
    let ticket = ticket(engine);
    let reserved = match engine.change(&job, |job, now| job.reserve(ticket, now)).await? {
        Some(job) if job.state == State::Reserving => fresh_lease(engine, job).await?,
        _ => None,
    };
    let Some(job) = reserved else {
        gates.no_news(mode, &model, pass).await?;
        return Ok(false);
    };
    let attempt = attempt_of(&job)?.clone();
    let Some(file) = attempt.file.clone() else {
        return Err(Trouble::NeedsPerson(format!("the attempt {} was reserved before it was uploaded", job.key)));
    };
    let nonce = job.nonce.clone();
    let reserved = job.clone();
    let hook = hook(engine, &reserved);
    let creating = engine.gemini.create_batch(&model, &file.name, &reserved.key.0, hook.as_ref());
    let (job, answer) = engine.hold(job, creating).await;
    match answer {
        Ok(batch) => {
            let key = engine.gemini.creates_as().clone();
            let handle = fresh_handle(batch.name, job.attempts, key, job.deadline(), engine.clock.now());
            let stored = write_down(engine, job, &handle, &nonce).await?;
            let stored = look_if_strayed(engine, stored, &handle.id).await?;
            info!(job.key = %stored.key, job.handle = handle.id, run = attempt.run, part = %attempt.part,
                attempt = attempt.number, rows = attempt.rows, "submitted");
            if stored.state == State::Discarded {
                warn!(job.key = %stored.key, job.handle = handle.id, "discarded while it was being sent: it runs at Gemini; cancel it again to stop it there");
            }
            gates.accepted(mode, &model, pass).await?;
            Ok(true)
        }
        Err(CreateError::Unclear(why)) => {
            info!(job.key = %job.key, error = why, "unclear whether Gemini accepted it");
            let unclear = |job: &mut Job, now: Now<'_>| {
                let news = job.unclear(&nonce, &why, now);
                job.look_for_name(now);
                news
            };
            engine.settle(job, unclear).await?;
            gates.unclear(mode, &model, pass, &why).await?;
            Ok(true)
        }
        Err(CreateError::NotSent(why)) => {
            let judgement = Judgement { verdict: Verdict::Queue, class: "queue:unreachable".to_owned(), delay: None };
            close(engine, gates, job, &judgement, &format!("Gemini could not be reached: {why}")).await?;
            Ok(true)
        }
        Err(CreateError::Refused(failure)) => {
            refused(engine, gates, pass, job, &attempt, &failure).await.map(|()| true)
        }
    }
}

async fn refused(
    engine: &Engine,
    gates: &Gates<'_>,
    pass: &Pass,
    job: Job,
    attempt: &Attempt,
    failure: &Failure,
) -> Result<(), Trouble> {
    let (nonce, message) = (job.nonce.clone(), failure.summary());
    let judgement = judge_create(engine, failure);
    match judgement.verdict {
        Verdict::Queue => return too_much(engine, gates, job, attempt, &judgement, &message).await,
        Verdict::Operator => return close(engine, gates, job, &judgement, &message).await.map(drop),
        Verdict::Permanent | Verdict::Retryable => {}
    }
    if may_be_shared(&judgement.class) {
        return shared(engine, gates, job, attempt, judgement, &message).await;
    }
    let lines = refused_lines(&failure.message);
    let (outcome, rows) = if lines.is_empty() {
        (String::new(), 0)
    } else {
        refused_rows(engine, &job, &lines, failure.http.map_or(400, i64::from)).await?
    };
    gates.refused_alone(job.mode, &job.model, pass, &judgement, &message).await?;
    if rows == 0 {
        info!(job.key = %job.key, class = judgement.class, "refused as a whole");
        let job = engine.settle(job, |job, now| job.refused_for_good(&nonce, &judgement.class, &message, now)).await?;
        hand_back(
            engine,
            &job,
            attempt,
            End { class: &judgement.class, message: &message, free: false, further: 0, failed: None },
        )
        .await?;
        delete_input(engine, &job, true).await;
        return Ok(());
    }
    info!(job.key = %job.key, rows, "refused for some of its rows; the others go out again");
    let refused =
        |job: &mut Job, now: Now<'_>| job.refused_for_lines(&nonce, &outcome, &judgement.class, &message, now);
    let job = engine.settle(job, refused).await?;
    if job.state == State::Done && !hand_over_attempt(engine, &job).await? {
        settle::take(engine, &job).await?;
    }
    Ok(())
}

/// A refusal that has nothing to do with rows: the model, the access, or a file that is gone. With a fresh file it is a
/// person's matter, and costs nobody an attempt.
async fn shared(
    engine: &Engine,
    gates: &Gates<'_>,
    job: Job,
    attempt: &Attempt,
    judgement: Judgement,
    message: &str,
) -> Result<(), Trouble> {
    let now = engine.clock.now();
    let is_fresh = attempt.file.as_ref().is_some_and(|file| now.since(file.at) < FRESH_FILE);
    let nonce = job.nonce.clone();
    if !is_fresh {
        warn!(job.key = %job.key, class = judgement.class, "refused, perhaps since its file is gone: it is uploaded again");
        let again = |job: &mut Job, now: Now<'_>| {
            let news = job.give_back(&nonce, &judgement.class, message, now.at, now);
            if let Some(batch) = job.batch.as_mut().filter(|_| news) {
                batch.file = None;
            }
            news
        };
        return engine.settle(job, again).await.map(drop);
    }
    let judgement = Judgement { verdict: Verdict::Operator, class: REFUSED.to_owned(), delay: None };
    close(engine, gates, job, &judgement, message).await.map(drop)
}

/// A refusal of the whole queue. Three in a row with nothing else of the model under way are about this part: it is too
/// much at once.
async fn too_much(
    engine: &Engine,
    gates: &Gates<'_>,
    job: Job,
    attempt: &Attempt,
    judgement: &Judgement,
    message: &str,
) -> Result<(), Trouble> {
    let key = job.key.clone();
    let alone = !others_are_out(engine, attempt, &job.model).await?;
    close(engine, gates, job, judgement, message).await?;
    let Some(job) = items::job(engine, &key).await? else { return Ok(()) };
    let refusals = if alone { attempt.refusals + 1 } else { 0 };
    if refusals < TOO_MUCH {
        let count = |job: &mut Job, _: Now<'_>| {
            let batch = job.batch.as_mut().filter(|_| job.state == State::Retryable);
            batch.is_some_and(|batch| std::mem::replace(&mut batch.refusals, refusals) != refusals)
        };
        return engine.settle(job, count).await.map(drop);
    }
    if job.state != State::Retryable {
        return Ok(());
    }
    hand_back(engine, &job, attempt, End { class: TOO_LARGE, message, free: true, further: 0, failed: None }).await?;
    delete_input(engine, &job, true).await;
    Ok(())
}
