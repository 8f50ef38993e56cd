//! What a line asks for, a job that is not reserved yet or a bad line, and what an item in its way means.

use tracing::{info, warn};

use super::cancel::cancel_job;
use super::cursor::Outcome;
use super::engine::{Engine, Trouble};
use super::lines::RawLine;
use crate::domain::intake::Intake;
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{Job, State, Work, excerpt};
use crate::domain::letter::Letter;
use crate::domain::line::{Header, JobLine, LineError};
use crate::ports::ledger::CreateError;

/// How much of a bad line its item shows.
const EXCERPT_BYTES: usize = 200;

/// A job of a cancelled intake that was sent before its sender saw the cancel is cancelled as well.
pub(super) async fn cancel_too(engine: &Engine, intake: &Intake, found: Item) -> Result<(), Trouble> {
    if let (Some(reason), Item::Job(job)) = (&intake.cancelled, found)
        && !job.state.is_ended()
    {
        let key = job.key.clone();
        let outcome = cancel_job(engine, job, reason).await?;
        info!(job.key = %key, outcome = ?outcome, "cancelled with its file");
    }
    Ok(())
}

/// What an item in the way of a line's reservation means.
pub(super) async fn met_again(
    engine: &Engine,
    intake: &Intake,
    raw: &RawLine,
    job: &Job,
    found: &Item,
) -> Result<Outcome, Trouble> {
    let Item::Job(found) = found else {
        return Err(Trouble::NeedsPerson(format!("the ledger item {} is no job", found.id())));
    };
    // One that was taken over from elsewhere gets its line by this, and stays what it is; a cancelled file sends nothing.
    let found = match found.has_no_line() && intake.cancelled.is_none() {
        true => engine.settle(found.clone(), |stored, now| stored.take_line(job, now)).await?,
        false => found.clone(),
    };
    if found.has_no_line() {
        return Ok(Outcome::Repeat);
    }
    if found.content != job.content {
        let message = format!(
            "idempotency_key: {} already names a job with other content ({} line {})",
            job.key, found.input.intake, found.input.line
        );
        warn!(file = intake.file, line = raw.line, "bad line: {message}");
        let error = LineError { class: "bad_line:key_taken", message };
        return write_bad(engine, bad_line(engine, intake, raw, error)).await;
    }
    let own = found.input.intake == intake.sha256 && found.input.line == raw.line;
    Ok(if own { Outcome::Job } else { Outcome::Repeat })
}

/// The job that a line asks for, not yet reserved.
pub(super) fn planned(engine: &Engine, intake: &Intake, header: &Header, raw: &RawLine, line: &JobLine) -> Job {
    let settings = &engine.settings;
    let work = Work {
        key: line.key.clone(),
        input: raw.place(&intake.sha256),
        content: line.content.clone(),
        mode: line.mode,
        model: line.target.clone().unwrap_or_else(|| settings.model.clone()),
        max_attempts: header.max_attempts.unwrap_or(settings.max_attempts),
        deadline_s: header.deadline.unwrap_or(settings.deadline).as_secs().max(1),
    };
    Job::planned(work, engine.rev(), engine.clock.now())
}

pub(super) fn bad_line(engine: &Engine, intake: &Intake, raw: &RawLine, error: LineError) -> BadLine {
    let now = engine.clock.now();
    BadLine {
        rev: engine.rev(),
        state: State::Parked,
        since: now,
        due_at: Some(now),
        input: raw.place(&intake.sha256),
        file: intake.file.clone(),
        class: error.class.to_owned(),
        message: crate::domain::job::clip(&error.message, crate::domain::job::MESSAGE_BYTES),
        excerpt: excerpt(&raw.bytes, EXCERPT_BYTES),
        first_seen: now,
        letter: Letter::default(),
    }
}

pub(super) async fn write_bad(engine: &Engine, bad: BadLine) -> Result<Outcome, Trouble> {
    // Those that the landing could see were told then.
    info!(file = bad.file, line = bad.input.line, class = bad.class, "bad line: {}", bad.message);
    match engine.create(&Item::BadLine(bad)).await {
        Ok(()) | Err(CreateError::Exists(_)) => Ok(Outcome::BadLine),
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}
