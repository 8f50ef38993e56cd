//! Sending one reserved job: the create call, and what its answer means for the job and the gate.

use std::time::Duration;

use bytes::Bytes;
use tracing::{debug, error, info, warn};

use super::call::call;
use super::engine::{Engine, Trouble};
use super::gates::{ALIKE, Gates, Pass};
use crate::domain::classify::{Judgement, Met, Verdict, classify, is_foreign, refuses_webhook};
use crate::domain::failure::Failure;
use crate::domain::interaction::Interaction;
use crate::domain::item::ItemId;
use crate::domain::job::{Handle, Job, KeyId, Mode, State};
use crate::domain::line::JobLine;
use crate::domain::moves::{Ticket, fresh_handle};
use crate::domain::webhook::Hook;
use crate::ports::gemini::CreateError;

/// The class of an upload that Gemini refuses for good.
pub const UPLOAD: &str = "operator:upload";

/// The class of a batch that Gemini refuses for reasons that have nothing to do with its rows.
pub const REFUSED: &str = "operator:refused";

/// The class of a create that Gemini refuses for where it is to call back.
const WEBHOOK: &str = "operator:webhook";

/// How often, a second apart, a handle is tried to be written down.
pub(super) const WRITE_DOWN_TRIES: u32 = 20;

/// What came of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Its handle is in the ledger.
    Submitted,
    /// Gemini may have accepted it or not.
    Unclear,
    /// Refused for a reason of its own.
    Refused,
    /// Refused for the whole queue: the gate is closed, the attempt given back.
    GateClosed,
    /// Its reservation was lost before anything was sent.
    NotSent,
    /// A plain call was answered, and its result was made durable and handed on.
    Consumed,
    /// A plain call was answered, and its result is durable; it is not handed on yet, or somebody else does it.
    Answered,
}

/// A fresh ticket for a reservation.
#[must_use]
pub fn ticket(engine: &Engine) -> Ticket {
    Ticket { nonce: engine.ids.token(), holder: engine.ids.token() }
}

/// Sends a job that was just reserved here, under its lease, and writes down what came of it. The call is made once.
///
/// # Errors
/// Trouble with the ledger: what is in it is true, and the next tick goes on from there. A refusal that only a
/// person can mend.
pub async fn send(engine: &Engine, gates: &Gates<'_>, pass: &Pass, job: Job, line: &JobLine) -> Result<Sent, Trouble> {
    let (mode, model) = (job.mode, job.model.clone());
    let Some(job) = fresh_lease(engine, job).await? else {
        gates.no_news(mode, &model, pass).await?;
        return Ok(Sent::NotSent);
    };
    if mode == Mode::Call {
        return call(engine, gates, pass, job, line).await;
    }
    let nonce = job.nonce.clone();
    let body = Bytes::from(line.create_body(&job.model, hook(engine, &job).as_ref()));
    let (job, answer) = engine.hold(job, engine.gemini.create_interaction(body)).await;
    match answer {
        Ok(interaction) => {
            attach(engine, job, &nonce, &interaction).await?;
            gates.accepted(mode, &model, pass).await?;
            Ok(Sent::Submitted)
        }
        Err(CreateError::Unclear(why)) => {
            info!(job.key = %job.key, job.attempt = job.attempts, error = why, "unclear whether Gemini accepted it");
            engine.settle(job, |job, now| job.unclear(&nonce, &why, now)).await?;
            gates.unclear(mode, &model, pass, &why).await?;
            Ok(Sent::Unclear)
        }
        Err(CreateError::NotSent(why)) => {
            let judgement = Judgement { verdict: Verdict::Queue, class: "queue:unreachable".to_owned(), delay: None };
            close(engine, gates, job, &judgement, &format!("Gemini could not be reached: {why}")).await
        }
        Err(CreateError::Refused(failure)) => {
            let judgement = judge_create(engine, &failure);
            let message = failure.summary();
            match judgement.verdict {
                Verdict::Queue | Verdict::Operator => close(engine, gates, job, &judgement, &message).await,
                Verdict::Permanent | Verdict::Retryable => {
                    info!(job.key = %job.key, job.class = judgement.class, "refused");
                    engine.settle(job, |job, now| job.refused(&nonce, &judgement, &message, now)).await?;
                    gates.refused_alone(mode, &model, pass, &judgement, &message).await?;
                    Ok(Sent::Refused)
                }
            }
        }
    }
}

/// What a create call of the reservation that `job` holds carries, so that Gemini calls back.
pub(super) fn hook<'a>(engine: &'a Engine, job: &'a Job) -> Option<Hook<'a>> {
    let url = engine.settings.webhook.url.as_deref()?;
    Some(Hook { url, key: &job.key.0, nonce: &job.nonce })
}

/// A refusal that only a person can mend.
pub(super) fn operator(class: &str) -> Judgement {
    Judgement { verdict: Verdict::Operator, class: class.to_owned(), delay: None }
}

/// What a refused create call means. A refusal of where Gemini is to call back is nobody's job's: every create carries it.
pub(super) fn judge_create(engine: &Engine, failure: &Failure) -> Judgement {
    if is_foreign(failure) {
        operator("operator:address")
    } else if engine.settings.webhook.url.is_some() && refuses_webhook(failure) {
        operator(WEBHOOK)
    } else {
        classify(failure, Met::OnCreate)
    }
}

/// The remaining lease is checked before anything is sent. None: the reservation is not ours any more.
pub(super) async fn fresh_lease(engine: &Engine, job: Job) -> Result<Option<Job>, Trouble> {
    let Some(lease) = job.lease.clone() else { return Ok(None) };
    let now = engine.clock.now();
    // A call must end well within it.
    let policy = &engine.settings.policy;
    let enough = job.lease_length(policy).saturating_sub(policy.submit_lease) + policy.submit_lease / 3;
    if lease.until.since(now) > enough {
        return Ok(Some(job));
    }
    // A third is left at most: renewed first, which also proves that nobody has taken it over.
    let stored = engine.settle(job, |job, now| job.renew(&lease.holder, now)).await?;
    let is_ours = stored.lease.as_ref().is_some_and(|held| held.holder == lease.holder);
    Ok(is_ours.then_some(stored))
}

/// Writes the handle down, whatever has become of the reservation meanwhile: what was accepted is collected.
async fn attach(engine: &Engine, job: Job, nonce: &str, interaction: &Interaction) -> Result<(), Trouble> {
    let handle = handle_of(engine, &job, interaction);
    let stored = write_down(engine, job, &handle, nonce).await?;
    let stored = look_if_strayed(engine, stored, &handle.id).await?;
    if stored.state == State::Discarded {
        warn!(job.key = %stored.key, job.handle = handle.id, "discarded while it was being sent: it runs at Gemini; cancel it again to stop it there");
    }
    debug!(job.key = %stored.key, job.handle = handle.id, job.attempt = stored.attempts, "submitted");
    Ok(())
}

/// A handle exists nowhere else until it is in the ledger, so trouble with that is waited out for a while; after that
/// the create stays unclear, and the log has the handle for a person.
pub(super) async fn write_down(engine: &Engine, job: Job, handle: &Handle, nonce: &str) -> Result<Job, Trouble> {
    let mut tries = 0;
    loop {
        match engine.settle(job.clone(), |job, now| job.attach(handle.clone(), nonce, now)).await {
            Ok(stored) => return Ok(stored),
            Err(trouble) if tries == WRITE_DOWN_TRIES => {
                error!(job.key = %job.key, job.handle = handle.id, error = %trouble, "accepted by Gemini, but the handle can't be written down");
                return Err(trouble);
            }
            Err(trouble) => {
                warn!(job.key = %job.key, job.handle = handle.id, error = %trouble, "the handle could not be written down yet");
                tries += 1;
                engine.clock.sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// An event that named the handle before it was written down found no job: what it had to say is asked for now.
pub(super) async fn look_if_strayed(engine: &Engine, job: Job, handle: &str) -> Result<Job, Trouble> {
    if engine.ledger.get(&ItemId::stray(handle)).await?.is_none() {
        return Ok(job);
    }
    info!(job.key = %job.key, job.handle = handle, "its event came before its handle was written down: looking now");
    engine.settle(job, |job, now| job.look_soon(handle, now)).await
}

fn handle_of(engine: &Engine, job: &Job, interaction: &Interaction) -> Handle {
    let key = engine.gemini.creates_as().clone();
    fresh_handle(interaction.id.clone(), job.attempts, key, job.deadline(), engine.clock.now())
}

/// A refusal that concerns the whole queue: the gate closes first, then the attempt is given back in one write with
/// the job's wait. A crash in between leaves the reservation to run out as unclear, which loses nothing.
pub(super) async fn close(
    engine: &Engine,
    gates: &Gates<'_>,
    job: Job,
    judgement: &Judgement,
    message: &str,
) -> Result<Sent, Trouble> {
    let until = gates.refused(job.mode, &job.model, judgement, message).await?;
    let nonce = job.nonce.clone();
    engine.settle(job, |job, now| job.give_back(&nonce, &judgement.class, message, until, now)).await?;
    match judgement.verdict {
        Verdict::Operator => {
            Err(Trouble::NeedsPerson(operator_message(engine, engine.gemini.creates_as(), &judgement.class, message)))
        }
        _ => Ok(Sent::GateClosed),
    }
}

/// One clear sentence for a refusal that only a person can mend.
#[must_use]
pub fn operator_message(engine: &Engine, key: &KeyId, class: &str, message: &str) -> String {
    let mend = match class {
        "operator:billing" => "enable billing for the key's project, or use a key of a project that Gemini serves",
        "operator:address" => "set GEMINI_BASE_URL to where Gemini is, or leave it unset",
        WEBHOOK => "unset GLEANER_WEBHOOK_URL (on a stack: WebhookEvents=registered), or set it to what Gemini takes",
        UPLOAD => "look at Gemini's words; it takes files of 2 GB, and 20 GB for all files of a project",
        REFUSED => "look at the model, and at what the key may do; no row was charged an attempt",
        ALIKE => "look at the model and the options that all lines share; those refused so far are dead letters",
        _ => &format!("set {} to a key that is valid for the Gemini API", engine.settings.keys_in),
    };
    let what = match class {
        "operator:address" => "what answers there is not Gemini".to_owned(),
        WEBHOOK => "Gemini refuses where it is to call back".to_owned(),
        UPLOAD => "Gemini does not take the file with a part's rows".to_owned(),
        REFUSED => "Gemini refuses to create a batch job, and not for its rows' sake".to_owned(),
        ALIKE => "Gemini refuses one create after the other for the same reason".to_owned(),
        _ => format!("Gemini refuses the API key with the fingerprint {key}"),
    };
    let charged = if matches!(class, ALIKE | UPLOAD | REFUSED) { "" } else { " No job was charged for it;" };
    format!("{what} ({class}): {message}\nTo mend it: {mend}.{charged} Run again afterwards.")
}
