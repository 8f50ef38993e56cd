//! Consuming: the result made durable and handed on, under a lease, once in effect.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tracing::{info, warn};

use super::engine::{Engine, Trouble};
use super::look::{Answer, Looked, Seen, look_at};
use super::report::every;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Fate, InputRef, Job, JobKey, Mode, State};
use crate::domain::policy::CONSUME_TRIES;
use crate::ports::handover::HandoverError;
use crate::ports::objects::{ObjectError, Put};

/// The object of a job's result.
#[must_use]
pub fn result_object(key: &JobKey) -> String {
    format!("results/{key}.json")
}

/// A result as it is stored and handed on (design, section 10).
#[derive(Debug, Serialize)]
struct ResultFile<'a> {
    idempotency_key: &'a JobKey,
    input_ref: &'a InputRef,
    model: &'a str,
    handle: &'a str,
    attempts: u32,
    value: &'a RawValue,
    usage: Box<RawValue>,
    finished_at: String,
    response: &'a RawValue,
}

/// Takes a finished job under a consume lease and consumes it.
///
/// # Errors
/// Trouble; the job stays `done` and is taken again when its lease has run out.
pub async fn begin(engine: &Engine, job: &Job, handle: &str, answer: Answer) -> Result<Looked, Trouble> {
    let holder = engine.ids.token();
    match engine.change(job, |job, now| job.finished(handle, &holder, now)).await? {
        Some(job) => match consume(engine, job, &holder, Some(answer)).await? {
            true => Ok(Looked::Consumed),
            false => Ok(Looked::Noted),
        },
        None => Ok(Looked::Stale),
    }
}

/// Hands on the result of a plain call, which is durable, whatever the job waits for. With `paid_before` it is that of
/// another call than the one that was just answered: unless that one was told before, it is now. True: it was consumed.
///
/// # Errors
/// As [`begin`].
pub(super) async fn take(engine: &Engine, job: Job, paid_before: bool) -> Result<bool, Trouble> {
    let holder = engine.ids.token();
    let stored = engine
        .settle(job, |job, now| {
            let news = job.answered(&holder, now);
            if news && paid_before {
                job.possible_duplicates = job.possible_duplicates.max(1);
            }
            news
        })
        .await?;
    let is_ours = stored.state == State::Done && stored.lease.as_ref().is_some_and(|lease| lease.holder == holder);
    if is_ours { consume(engine, stored, &holder, None).await } else { Ok(false) }
}

/// Takes up a job whose consumer stopped on the way.
///
/// # Errors
/// As [`begin`].
pub async fn again(engine: &Engine, job: &Job) -> Result<bool, Trouble> {
    let holder = engine.ids.token();
    let name = result_object(&job.key);
    let is_last = job.consume_tries >= CONSUME_TRIES;
    let kept = if is_last { engine.objects.size(&name).await?.map(|_| name) } else { None };
    let mut taken = false;
    let stored = engine
        .change(job, |job, now| {
            taken = job.consume_again(&holder, now);
            if !taken && kept.is_some() {
                job.answer = kept;
            }
        })
        .await?;
    match stored {
        Some(job) if taken => consume(engine, job, &holder, None).await,
        Some(job) => {
            warn!(job.key = %job.key, "its result could not be consumed in five tries: parked");
            Ok(false)
        }
        None => Ok(false),
    }
}

/// Hands on again what became a dead letter of this intake because it could not be handed on: whoever starts a run
/// anew has presumably mended the receiver, and it costs nothing at Gemini. Returns how many are due for it.
///
/// # Errors
/// Trouble with the ledger.
pub async fn hand_on_again(engine: &Engine, sha256: &str) -> Result<u64, Trouble> {
    let mut due = 0;
    for item in every(engine, State::Parked, usize::MAX).await? {
        if let Item::Job(job) = item
            && job.input.intake == sha256
            && engine.change_if(&job, |job, now| job.hand_on_again(now)).await?.is_some()
        {
            due += 1;
        }
    }
    Ok(due)
}

async fn consume(engine: &Engine, job: Job, holder: &str, answer: Option<Answer>) -> Result<bool, Trouble> {
    let work = persist_and_hand_on(engine, job.clone(), answer);
    let (job, outcome) = engine.hold(job, work).await;
    let mine = |job: &Job| job.state == State::Done && job.lease.as_ref().is_some_and(|lease| lease.holder == holder);
    match outcome {
        Ok(paid_before) => {
            if paid_before {
                warn!(job.key = %job.key, "its result was there already, by a handle that this ledger does not know: it was paid for before");
            }
            let by_us = AtomicBool::new(false);
            let stored = engine
                .settle(job, |job, now| {
                    let mine = mine(job);
                    by_us.store(mine, Ordering::Relaxed);
                    if mine {
                        job.possible_duplicates = job.possible_duplicates.saturating_add(u32::from(paid_before));
                        job.consumed(now);
                    }
                    mine
                })
                .await?;
            if !by_us.into_inner() {
                info!(job.key = %stored.key, job.state = %stored.state, "handed on; somebody else settled it meanwhile");
                return Ok(false);
            }
            info!(job.key = %stored.key, job.state = %stored.state, job.attempts = stored.attempts, "consumed");
            Ok(true)
        }
        Err(failure) => {
            warn!(job.key = %job.key, job.tries = job.consume_tries, error = failure.message, "could not be consumed");
            engine
                .settle(job, |job, now| {
                    let mine = mine(job);
                    if mine {
                        job.consume_failed(&failure.message, failure.charged, now);
                        if job.state == State::Parked && failure.result_is_durable {
                            job.answer = Some(result_object(&job.key));
                        }
                    }
                    mine
                })
                .await?;
            failure.trouble.map_or(Ok(false), Err)
        }
    }
}

/// Why a result was not consumed.
struct Failure {
    message: String,
    result_is_durable: bool,
    /// Whether it uses a try up.
    charged: bool,
    /// The machine's or the operator's matter: the tick ends.
    trouble: Option<Trouble>,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        let trouble_stops = matches!(trouble, Trouble::NeedsPerson(_));
        Self {
            message: trouble.to_string(),
            result_is_durable: false,
            charged: !trouble_stops,
            trouble: trouble_stops.then_some(trouble),
        }
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Self {
        Trouble::from(error).into()
    }
}

/// Writes the result if it isn't there yet, and hands on what is there: the first durable result stays. True: what is
/// there came by a handle that this ledger doesn't know, so the job had been answered, and paid for, before.
async fn persist_and_hand_on(engine: &Engine, job: Job, answer: Option<Answer>) -> Result<bool, Failure> {
    let name = result_object(&job.key);
    let result = match (engine.objects.size(&name).await?, answer) {
        (Some(_), _) => engine.objects.get(&name).await?,
        (None, Some(answer)) => persist(engine, &job, &answer).await?,
        (None, None) => {
            let answer = fetch_again(engine, &job).await?;
            persist(engine, &job, &answer).await?
        }
    };
    let paid_before = check(&job, &result)?;
    let intake = engine.ledger.get(&ItemId::intake(&job.input.intake)).await.map_err(Trouble::from)?;
    let receiver = match &intake {
        Some(Item::Intake(intake)) => intake.on_result.as_deref(),
        _ => None,
    };
    match engine.handover.hand_on(&job.key, receiver, &name).await {
        Ok(()) => Ok(paid_before),
        Err(HandoverError::Refused(message)) => {
            Err(Failure { message, result_is_durable: true, charged: true, trouble: None })
        }
        Err(error @ HandoverError::NeedsPerson(_)) => {
            Err(Failure { result_is_durable: true, ..Trouble::NeedsPerson(error.to_string()).into() })
        }
    }
}

/// What names a result file as a job's.
#[derive(Debug, Deserialize)]
struct Names {
    idempotency_key: JobKey,
    handle: String,
}

/// Whether the bytes under a result's name are a result of this job; true when by a handle that isn't on record.
fn check(job: &Job, result: &[u8]) -> Result<bool, Failure> {
    match serde_json::from_slice::<Names>(result) {
        // No handle of a call is on record: whose answer it is was seen when it was written.
        Ok(names) if names.idempotency_key == job.key => {
            Ok(job.mode != Mode::Call && job.handle(&names.handle).is_none())
        }
        _ => {
            let name = result_object(&job.key);
            let why = format!("{name} is there already and is no result of this job: move it away, then run again");
            Err(Trouble::NeedsPerson(why).into())
        }
    }
}

async fn persist(engine: &Engine, job: &Job, answer: &Answer) -> Result<Bytes, Failure> {
    let found = Found {
        handle: &answer.interaction.id,
        value: &answer.value,
        usage: answer.interaction.usage(),
        response: &answer.interaction.raw,
    };
    let bytes = result_bytes(engine, job, found)?;
    let name = result_object(&job.key);
    match engine.objects.put(&name, bytes.clone()).await? {
        Put::Written => Ok(bytes),
        Put::AlreadyThere => Ok(engine.objects.get(&name).await?),
    }
}

/// What a job's answer brought.
pub(super) struct Found<'a> {
    /// What Gemini calls the answer; empty when it has no name for it.
    pub(super) handle: &'a str,
    pub(super) value: &'a RawValue,
    pub(super) usage: Box<RawValue>,
    /// Gemini's own answer.
    pub(super) response: &'a RawValue,
}

/// The bytes of a job's result.
pub(super) fn result_bytes(engine: &Engine, job: &Job, found: Found<'_>) -> Result<Bytes, Trouble> {
    let file = ResultFile {
        idempotency_key: &job.key,
        input_ref: &job.input,
        model: &job.model,
        handle: found.handle,
        attempts: job.attempts,
        value: found.value,
        usage: found.usage,
        finished_at: engine.clock.now().to_string(),
        response: found.response,
    };
    let written = serde_json::to_vec(&file).map(|mut bytes| {
        bytes.push(b'\n');
        Bytes::from(bytes)
    });
    written.map_err(|error| Trouble::Passing(format!("the result could not be written as JSON: {error}")))
}

/// The handle in a result file; none for what is none.
pub(super) fn handle_in(result: &[u8]) -> Option<String> {
    serde_json::from_slice::<Names>(result).ok().map(|names| names.handle)
}

/// The answer once more, from Gemini: the consumer before ended without having made it durable.
async fn fetch_again(engine: &Engine, job: &Job) -> Result<Answer, Failure> {
    let passing = |why: String| Failure::from(Trouble::Passing(why));
    if job.mode == Mode::Call {
        let why = format!("{} is gone; the job can only be asked anew", result_object(&job.key));
        return Err(passing(why));
    }
    let won = job.handles.iter().find(|handle| handle.fate == Fate::Won);
    let Some(handle) = won else { return Err(passing("no handle on record has finished".to_owned())) };
    match look_at(engine, job, handle).await? {
        Seen::Value(answer) => Ok(*answer),
        Seen::Rejected(message) => Err(Trouble::NeedsPerson(message).into()),
        Seen::Running => Err(passing("the finished interaction says that it is running".to_owned())),
        Seen::Failed(_, message, _) | Seen::GivenUp(_, message) | Seen::Missing(message) | Seen::Hidden(message) => {
            Err(passing(message))
        }
        // Gemini has the answer and can't be asked just now: that is no failure of this job's.
        Seen::NoNews(why, _) => Err(Failure { charged: false, ..passing(why) }),
    }
}
