//! Submitting: jobs whose next attempt is due first, then new lines, as far as the gates and the concurrency allow.

use std::time::Duration;

use futures::{StreamExt, stream};
use tracing::{info, warn};

use super::batch::cut::cut;
use super::batch::look::{find, look};
use super::batch::part::{Out, bring_on};
use super::batch::replay::recheck;
use super::batch::send::send_attempt;
use super::call::{has_time, take_kept};
use super::engine::{Engine, Trouble};
use super::follow::prove_heard;
use super::gates::{Gates, Pass};
use super::look::{Seen, look_at};
use super::send::{Sent, send, ticket};
use super::take::{Taken, take_lines};
use super::work::{hand_over_call, hand_over_intake, hand_over_part};
use crate::domain::classify::exhausted;
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Handle, Job, Mode, State};
use crate::domain::line::JobLine;
use crate::domain::part::Passed;
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;

/// How many due items are taken at once.
pub const PAGE: usize = 500;

/// How long a run may be cut on one machine before results are collected in between.
const LONG_CUT: Duration = Duration::from_secs(60);

/// How many parts that are due are taken at once: those that find no room stay due, and must not hide others.
const PARTS: usize = 5000;

/// A gate that closes for less than this isn't worth a write to each job that waits for it.
pub const SHORT: Duration = Duration::from_secs(10);

/// What a round of submitting did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submitted {
    /// Jobs sent again.
    pub again: u64,
    /// Jobs sent for the first time.
    pub first: u64,
    /// Lines that a cursor moved over.
    pub lines: u64,
    /// Parts of runs that were brought on.
    pub parts: u64,
    /// Results of plain calls made durable and handed on.
    pub consumed: u64,
}

/// Submits what is due, until `until`.
///
/// # Errors
/// The first trouble; what it didn't concern was submitted all the same.
pub async fn submit(engine: &Engine, until: Millis) -> Result<Submitted, Trouble> {
    let gates = Gates::new(engine);
    // A job that can't be sent again, since its file is gone, say, keeps no new line from being taken.
    let again = submit_again(engine, &gates, until).await;
    let parts = submit_parts(engine, until).await;
    let taken = submit_lines(engine, &gates, until).await;
    let ((again, called), parts, Taken { lines, sent, consumed, .. }) = (again?, parts?, taken?);
    Ok(Submitted { again, first: sent, lines, parts, consumed: called + consumed })
}

/// Brings on the parts of runs that are due.
async fn submit_parts(engine: &Engine, until: Millis) -> Result<u64, Trouble> {
    let now = engine.clock.now();
    let mut due = engine.ledger.due(&[State::Waiting, State::UnderWay], now, PARTS).await?;
    // Dead letters first: they may say that the next parts are to wait.
    due.sort_by_key(|item| matches!(item, Item::Part(part) if part.passes.iter().all(Passed::is_told)));
    if due.is_empty() {
        return Ok(0);
    }
    let mut out = Out::count(engine).await?;
    let (mut brought_on, mut trouble) = (0, None);
    for item in due {
        if engine.is_stopping() || engine.clock.now() >= until {
            break;
        }
        let action = step(&item, engine.clock.now());
        let Item::Part(part) = item else { continue };
        if action != Action::BringOn || hand_over_part(engine, &part).await? {
            continue;
        }
        match bring_on(engine, *part, &mut out).await {
            Ok(news) => brought_on += u64::from(news),
            Err(Trouble::Passing(why)) => warn!(error = why, "a part could not be brought on now"),
            // One run's trouble (an object that is missing) is its own.
            Err(stop) => {
                trouble.get_or_insert(stop);
            }
        }
    }
    trouble.map_or(Ok(brought_on), Err)
}

/// Sends again what is due. Returns how many jobs were sent, and how many of them were answered and consumed.
async fn submit_again(engine: &Engine, gates: &Gates<'_>, until: Millis) -> Result<(u64, u64), Trouble> {
    let now = engine.clock.now();
    let due = engine.ledger.due(&[State::Retryable, State::GivenUp], now, PAGE).await?;
    let mut under_way = stream::iter(due)
        .map(|item| async move {
            let over = engine.is_stopping() || engine.clock.now() >= until;
            match item {
                _ if over => Ok(None),
                Item::Job(job) if job.batch.is_some() => {
                    try_again(engine, gates, job, until).await.map(|sent| sent.then_some(Sent::Submitted))
                }
                Item::Job(job) => bring_again(engine, gates, job).await,
                other if step(&other, engine.clock.now()) == Action::Recheck => {
                    recheck(engine, other).await.map(|()| None)
                }
                _ => Ok(None),
            }
        })
        .buffer_unordered(engine.settings.concurrency);
    let (mut sent, mut consumed, mut trouble) = (0, 0, None);
    while let Some(outcome) = under_way.next().await {
        match outcome {
            Ok(outcome) => {
                sent += u64::from(outcome.is_some_and(|outcome| outcome != Sent::NotSent));
                consumed += u64::from(outcome == Some(Sent::Consumed));
            }
            Err(Trouble::Passing(why)) => warn!(error = why, "a job could not be sent again now"),
            Err(stop) => {
                trouble.get_or_insert(stop);
            }
        }
    }
    trouble.map_or(Ok((sent, consumed)), Err)
}

async fn submit_lines(engine: &Engine, gates: &Gates<'_>, until: Millis) -> Result<Taken, Trouble> {
    let (mut all, mut trouble) = (Taken::default(), None);
    let due = engine.ledger.due(&[State::Reading], engine.clock.now(), PAGE).await?;
    for item in due {
        if engine.is_stopping() || engine.clock.now() >= until {
            break;
        }
        if step(&item, engine.clock.now()) != Action::TakeLines {
            continue;
        }
        if let Item::Intake(intake) = item {
            match take_or_hand_over(engine, gates, intake, until).await {
                Ok(taken) => {
                    all.consumed += taken.consumed;
                    all.lines += taken.lines;
                    all.sent += taken.sent;
                }
                // One file's trouble (its object is missing, say) holds up no other file.
                Err(stop) => {
                    trouble.get_or_insert(stop);
                }
            }
        }
    }
    trouble.map_or(Ok(all), Err)
}

/// Takes lines, or has somebody take them who has more time than a tick.
async fn take_or_hand_over(
    engine: &Engine,
    gates: &Gates<'_>,
    intake: Intake,
    until: Millis,
) -> Result<Taken, Trouble> {
    match hand_over_intake(engine, &intake).await? {
        true => Ok(Taken { elsewhere: true, ..Taken::default() }),
        // Here nobody waits for the end of a tick.
        false if intake.run.is_some() && engine.work_queue.is_none() => {
            cut(engine, intake, until.max(engine.clock.now().plus(LONG_CUT))).await
        }
        false if intake.run.is_some() => cut(engine, intake, until).await,
        false => take_lines(engine, gates, intake, until).await,
    }
}

/// Takes the lines of one intake only, whatever else is due, until `until`. Lines of a cancelled intake become
/// `discarded`, and nothing of it is sent.
///
/// # Errors
/// Trouble; an intake that isn't there.
pub async fn submit_intake(engine: &Engine, sha256: &str, until: Millis) -> Result<Taken, Trouble> {
    match engine.ledger.get(&ItemId::intake(sha256)).await? {
        Some(Item::Intake(intake)) if intake.run.is_some() => cut(engine, intake, until).await,
        Some(Item::Intake(intake)) => take_lines(engine, &Gates::new(engine), intake, until).await,
        _ => Err(Trouble::NeedsPerson(format!("the intake {sha256} is not in the ledger"))),
    }
}

/// Reserves a job's next attempt and sends it; of calls that an attempt of a run is made of none is begun after `until`.
/// False: it was not sent now.
pub(super) async fn try_again(engine: &Engine, gates: &Gates<'_>, job: Job, until: Millis) -> Result<bool, Trouble> {
    if job.batch.is_some() && step(&Item::Job(job.clone()), engine.clock.now()) == Action::Submit {
        return send_attempt(engine, gates, job, until).await;
    }
    let sent = bring_again(engine, gates, job).await?;
    Ok(sent.is_some_and(|sent| sent != Sent::NotSent))
}

/// The same for a job that is no batch attempt, telling what came of it. None: nothing was sent.
pub(super) async fn bring_again(engine: &Engine, gates: &Gates<'_>, job: Job) -> Result<Option<Sent>, Trouble> {
    match step(&Item::Job(job.clone()), engine.clock.now()) {
        Action::Submit if job.batch.is_none() => {}
        Action::FindByName => return find(engine, &job).await.map(|()| None),
        Action::Prove => return prove_heard(engine, &job).await.map(|_| None),
        Action::Look(handles) if job.batch.is_some() => return look(engine, &job, &handles).await.map(|_| None),
        _ => return Ok(None),
    }
    if job.has_no_line() && job.may_try_again() {
        engine.change(&job, Job::wait_for_line).await?;
        return Ok(None);
    }
    if job.mode == Mode::Call {
        if hand_over_call(engine, &job).await? {
            return Ok(None);
        }
        if let Some(consumed) = take_kept(engine, &job).await? {
            return Ok(Some(if consumed { Sent::Consumed } else { Sent::Answered }));
        }
        // It stays due, for a process that has the time.
        if !has_time(engine) {
            return Ok(None);
        }
    }
    if !job.may_try_again() {
        let class = job.class.clone().unwrap_or_else(|| "unknown".to_owned());
        let message = job.message.clone().unwrap_or_default();
        engine.change(&job, |job, now| job.park(&exhausted(&class), &message, now)).await?;
        return Ok(None);
    }
    let pass = gates.ask(job.mode, &job.model).await?;
    if let Pass::Closed(until) | Pass::Paused(until) = pass {
        let now = engine.clock.now();
        if until.since(now) > SHORT {
            engine.change(&job, |job, _| job.hold_back(until)).await?;
        }
        return Ok(None);
    }
    let (mode, model) = (job.mode, job.model.clone());
    match reserve_again(engine, job).await {
        Ok(Some((job, line))) => send(engine, gates, &pass, job, &line).await.map(Some),
        not_sent => {
            gates.no_news(mode, &model, &pass).await?;
            not_sent.map(|_| None)
        }
    }
}

async fn reserve_again(engine: &Engine, job: Job) -> Result<Option<(Job, Box<JobLine>)>, Trouble> {
    let (line, _) = engine.line_of(&job).await?;
    let Some(job) = look_back(engine, job).await? else { return Ok(None) };
    let ticket = ticket(engine);
    info!(job.key = %job.key, job.attempt = job.attempts + 1, job.class = job.class, "sending again");
    let reserved = engine.change(&job, |job, now| job.reserve(ticket, now)).await?;
    Ok(reserved.map(|job| (job, line)))
}

/// Looks once more at every handle on record before anything is sent again. None: one of them is still the job's, or
/// could not be looked at, or somebody else changed the job.
async fn look_back(engine: &Engine, job: Job) -> Result<Option<Job>, Trouble> {
    for handle in job.handles.clone() {
        match look_at(engine, &job, &handle).await? {
            // What came of a hidden one was judged while its key was at hand; waiting for that key would have no end.
            Seen::Missing(_) | Seen::Failed(..) | Seen::GivenUp(..) | Seen::Hidden(_) => {}
            Seen::Running if !may_revive(&handle, engine.clock.now()) => {}
            Seen::Running => {
                engine.change(&job, |job, now| job.revive(&handle.id, now)).await?;
                return Ok(None);
            }
            Seen::Value(answer) => {
                super::consume::begin(engine, &job, &handle.id, *answer).await?;
                return Ok(None);
            }
            Seen::NoNews(_, delay) => {
                engine.change(&job, |job, now| job.look_back_failed(&handle.id, delay, now)).await?;
                return Ok(None);
            }
            Seen::Rejected(message) => return Err(Trouble::NeedsPerson(message)),
        }
    }
    Ok(Some(job))
}

/// A handle that passed its deadline is expected to be running still; that alone doesn't bring it back.
fn may_revive(handle: &Handle, now: Millis) -> bool {
    handle.deadline > now
}
