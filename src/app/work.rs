//! The work queue: what takes longer than a tick has is handed over, and brought on by whoever receives it.

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::batch::cut::cut;
use super::batch::items::job as job_of;
use super::batch::{self, part::Out};
use super::call::call_on;
use super::collect::step_one;
use super::engine::{Engine, Trouble};
use super::follow::follow;
use super::gates::Gates;
use super::inbox::land_arrival;
use super::send::Sent;
use super::submit::try_again;
use super::take::take_lines;
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, JobKey, Mode, Rev};
use crate::domain::part::Part;
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;
use crate::ports::inbox::{Arrival, Inbox};
use crate::ports::ledger::ReplaceError;
use crate::ports::queue::{Queue, QueueError};

/// An intake with more lines than this to take is handed over: at Gemini's pace that is about what a tick has time for.
const LONG: u64 = 1000;

/// A run with more bytes than this to cut is handed over too, however few its rows are: they are read twice and written
/// once, and a part that is begun is not left in the middle.
const LONG_RUN: u64 = 32 << 20;

/// A message of the work queue. It only names what is to be looked at: what is to be done is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Bring a ledger item to its next state.
    Item(ItemId),
    /// Make the call of a job that was due when it was handed over: as long as nobody has changed it since.
    Call {
        /// The job.
        job: JobKey,
        /// As it was handed over. One that was changed since is due when it says.
        rev: Rev,
    },
    /// Land a file of the inbox.
    Inbox(Arrival),
    /// Look at what an event named.
    Event(Told),
}

/// What an event named: a handle that the job has on record, or has heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// What Gemini calls it.
    pub handle: String,
    /// The job; none for a batch job that is to be recognized by its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobKey>,
}

impl From<QueueError> for Trouble {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Busy(why) => Self::Passing(why),
            QueueError::NeedsPerson(why) => Self::NeedsPerson(why),
        }
    }
}

/// Puts work into the queue; without one it is an error, which no caller makes.
///
/// # Errors
/// Trouble with the queue. It may have been taken all the same: work that comes twice does no harm.
pub async fn hand_over(engine: &Engine, work: &Work) -> Result<(), Trouble> {
    let Some(queue) = &engine.work_queue else {
        return Err(Trouble::NeedsPerson("there is no work queue to hand work over to".to_owned()));
    };
    put(&**queue, work).await
}

/// Puts work into a queue.
///
/// # Errors
/// As [`hand_over`].
pub(super) async fn put(queue: &dyn Queue, work: &Work) -> Result<(), Trouble> {
    let body = serde_json::to_string(work).map_err(|error| Trouble::NeedsPerson(error.to_string()))?;
    let body = ascii(&body);
    queue.send(&[body]).await.into_iter().try_for_each(|sent| sent.map_err(Trouble::from))
}

/// The same JSON in ASCII: a file's name may have characters that a queue doesn't take.
fn ascii(json: &str) -> String {
    let mut units = [0; 2];
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            escaped.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    escaped
}

/// Hands an intake over that is long, or has plain calls, each of which may take minutes. False: it is neither, or there is nobody to hand it over to.
///
/// It is due again when a lease taken now would end: should the message not be sent, be lost, or be received by nobody,
/// the tick of then hands it over again.
///
/// # Errors
/// Trouble with the queue or the ledger.
pub(super) async fn hand_over_intake(engine: &Engine, intake: &Intake) -> Result<bool, Trouble> {
    let waiting = intake.lines.saturating_sub(intake.cursor.taken());
    let is_long_run = intake.run.is_some() && intake.bytes.saturating_sub(intake.cursor.offset) > LONG_RUN;
    if engine.work_queue.is_none() || (waiting <= LONG && !is_long_run && !intake.calls) {
        return Ok(false);
    }
    let now = engine.now();
    let next = Intake { due_at: Some(now.policy.lease_from(now.at)), ..intake.clone() };
    // Written first: whoever receives the message at once must not meet an intake that changes under its hands.
    match engine.replace(&intake.rev, Item::Intake(next)).await {
        Ok(_) => {}
        // Somebody else works on it or has handed it over.
        Err(ReplaceError::Stale(_)) => return Ok(true),
        Err(ReplaceError::Ledger(error)) => return Err(error.into()),
    }
    hand_over(engine, &Work::Item(ItemId::intake(&intake.sha256))).await?;
    info!(file = intake.file, intake.waiting = waiting, "handed over to the work queue");
    Ok(true)
}

/// Hands an attempt of a batch run over, whose rows are to be uploaded or whose output is to be taken: minutes of work.
/// False: there is nobody to hand it over to. It is due again when a lease taken now would end.
///
/// # Errors
/// Trouble with the queue or the ledger.
pub(super) async fn hand_over_attempt(engine: &Engine, job: &Job) -> Result<bool, Trouble> {
    if engine.work_queue.is_none() {
        return Ok(false);
    }
    let later = engine.change(job, |job, now| job.hold_back(now.policy.lease_from(now.at))).await?;
    if later.is_some() {
        hand_over(engine, &Work::Item(ItemId::job(&job.key))).await?;
        info!(job.key = %job.key, job.state = %job.state, "handed over to the work queue");
    }
    Ok(true)
}

/// Hands a plain call over that is due: it may take minutes. False: there is nobody to hand it over to. It is due again when
/// a lease taken now would end.
///
/// # Errors
/// Trouble with the queue or the ledger.
pub(super) async fn hand_over_call(engine: &Engine, job: &Job) -> Result<bool, Trouble> {
    if engine.work_queue.is_none() {
        return Ok(false);
    }
    let later = engine.change(job, |job, now| job.hold_back(now.policy.lease_from(now.at))).await?;
    if let Some(later) = later {
        hand_over(engine, &Work::Call { job: later.key, rev: later.rev }).await?;
    }
    Ok(true)
}

/// Hands a part over whose dead letters are to be made. False: there is nobody to hand it over to, or none to make.
///
/// # Errors
/// Trouble with the queue or the ledger.
pub(super) async fn hand_over_part(engine: &Engine, part: &Part) -> Result<bool, Trouble> {
    let is_long = part.intent.is_some() || part.passes.iter().any(|passed| !passed.is_told());
    if engine.work_queue.is_none() || !is_long {
        return Ok(false);
    }
    let now = engine.now();
    let next = Part { due_at: Some(now.policy.lease_from(now.at)), ..part.clone() };
    match engine.replace(&part.rev, Item::Part(Box::new(next))).await {
        Ok(_) => {}
        Err(ReplaceError::Stale(_)) => return Ok(true),
        Err(ReplaceError::Ledger(error)) => return Err(error.into()),
    }
    hand_over(engine, &Work::Item(ItemId::part(&part.run, &part.part))).await?;
    Ok(true)
}

/// Brings on what a message names; nothing new is begun after `until`. What is done already, or held by somebody else,
/// is left as it is. Returns how many results were consumed.
///
/// # Errors
/// Trouble: the message should come again.
pub async fn work(engine: &Engine, inbox: Option<&dyn Inbox>, work: &Work, until: Millis) -> Result<u64, Trouble> {
    match work {
        Work::Inbox(arrival) => match inbox {
            Some(inbox) => land_arrival(engine, inbox, arrival).await.map(|_| 0),
            None => Err(Trouble::NeedsPerson(format!("{} is to be landed, and there is no inbox here", arrival.name))),
        },
        Work::Event(told) => follow(engine, told).await.map(u64::from),
        Work::Call { job, rev } => match job_of(engine, job).await? {
            Some(mut found) => {
                if found.rev == *rev {
                    found.due_at = Some(engine.clock.now());
                }
                bring_on(engine, Item::Job(found), until).await.map(u64::from)
            }
            None => {
                warn!(job.key = %job, "the work queue names a job that the ledger doesn't have");
                Ok(0)
            }
        },
        Work::Item(id) => match engine.ledger.get(id).await? {
            None => {
                warn!(item.id = %id, "the work queue names an item that the ledger doesn't have");
                Ok(0)
            }
            // Not asked whether it is due: it was put off when it was handed over.
            Some(Item::Intake(intake)) if intake.run.is_some() => cut(engine, intake, until).await.map(|_| 0),
            Some(Item::Intake(intake)) => {
                take_lines(engine, &Gates::new(engine), intake, until).await.map(|taken| taken.consumed)
            }
            Some(Item::Part(part)) => bring_on_part(engine, *part).await.map(|()| 0),
            // It was put off when it was handed over; a lease that ran out is nobody's any more.
            Some(Item::Job(mut job)) if job.batch.is_some() && !job.state.is_closed() => {
                let now = engine.clock.now();
                if job.lease.as_ref().is_none_or(|lease| lease.until <= now) {
                    job.due_at = Some(now);
                }
                bring_on(engine, Item::Job(job), until).await.map(u64::from)
            }
            Some(item) => bring_on(engine, item, until).await.map(u64::from),
        },
    }
}

async fn bring_on_part(engine: &Engine, mut part: Part) -> Result<(), Trouble> {
    if part.lease.as_ref().is_none_or(|lease| lease.until <= engine.clock.now()) && !part.state.is_closed() {
        part.due_at = Some(engine.clock.now());
        let mut out = Out::count(engine).await?;
        batch::part::bring_on(engine, part, &mut out).await?;
    }
    Ok(())
}

async fn bring_on(engine: &Engine, item: Item, until: Millis) -> Result<bool, Trouble> {
    match (step(&item, engine.clock.now()), item) {
        (Action::Submit, Item::Job(job)) if job.mode == Mode::Call => {
            Ok(call_on(engine, &Gates::new(engine), job).await? == Some(Sent::Consumed))
        }
        (Action::Submit, Item::Job(job)) => try_again(engine, &Gates::new(engine), job, until).await.map(|_| false),
        (_, item) => step_one(engine, item).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_file_comes_through_in_ascii() {
        let name = "質問 \u{fffe}\u{ffff}\u{1f680} \"q\" \\ \n.jsonl".to_owned();
        let work = Work::Inbox(Arrival { name, version: "v".to_owned(), bytes: 1 });
        let body = ascii(&serde_json::to_string(&work).unwrap());
        assert!(body.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{body}");
        assert_eq!(serde_json::from_str::<Work>(&body).unwrap(), work);
    }
}
