//! Collecting: everything that is due and needs no new submission, stepped by one pure function.

use std::collections::HashSet;

use bytes::Bytes;
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tracing::{debug, error, info, warn};

use super::batch;
use super::batch::items::job as job_of;
use super::call::take_over;
use super::consume;
use super::engine::{Engine, Trouble};
use super::follow::prove_heard;
use super::gates::IN_A_ROW;
use super::letters::tell;
use super::look::{Looked, Seen, look_at};
use super::submit::PAGE;
use super::work::hand_over_attempt;
use crate::domain::interaction::Interaction;
use crate::domain::item::Item;
use crate::domain::job::{Job, Mode, Rev, State};
use crate::domain::moves::Now;
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;

/// The states whose due items are collected.
pub const STATES: [State; 5] = [State::Done, State::Reserving, State::Unclear, State::Submitted, State::Parked];

/// What a round of collecting did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Items stepped.
    pub stepped: u64,
    /// Results made durable and handed on.
    pub consumed: u64,
}

/// Steps what is due, page after page, until nothing new is due or `until` has come.
///
/// # Errors
/// The first trouble that needs a person; each item that meets trouble stays due, and the others are brought on.
pub async fn collect(engine: &Engine, until: Millis) -> Result<Collected, Trouble> {
    let mut all = Collected::default();
    // What becomes due meanwhile is the next tick's: so that submitting gets its turn.
    let start = engine.clock.now();
    let mut met: HashSet<Rev> = HashSet::new();
    let mut trouble = None;
    loop {
        let mut due = engine.ledger.due(&STATES, start, PAGE).await?;
        due.retain(|item| met.insert(item.rev().clone()));
        if due.is_empty() {
            return trouble.map_or(Ok(all), Err);
        }
        shuffle(engine, &mut due);
        let mut steps = stream::iter(due)
            .map(|item| async move {
                let over = engine.is_stopping() || engine.clock.now() >= until;
                let tells = step(&item, engine.clock.now()) == Action::Tell;
                if over { None } else { Some((tells, step_one(engine, item).await)) }
            })
            .buffer_unordered(engine.settings.concurrency);
        let (mut in_page, mut over) = (0, false);
        while let Some(step) = steps.next().await {
            match step {
                None => over = true,
                Some((_, Ok(consumed))) => {
                    all.stepped += 1;
                    all.consumed += u64::from(consumed);
                }
                Some((_, Err(Trouble::Passing(why)))) => warn!(error = why, "an item could not be brought on now"),
                Some((tells, Err(stop))) => {
                    // A queue of dead letters that takes no message is nobody else's trouble.
                    in_page += u32::from(!tells);
                    trouble.get_or_insert(stop);
                }
            }
        }
        // A few items' trouble (an object that is missing) is their own; that of many is everybody's (a rejected key).
        if over || in_page >= IN_A_ROW {
            return trouble.map_or(Ok(all), Err);
        }
    }
}

/// Two ticks at once begin at different items.
fn shuffle(engine: &Engine, items: &mut [Item]) {
    let length = items.len();
    if length > 1 {
        let start = (engine.ids.fraction() * length as f64) as usize;
        items.rotate_left(start.min(length - 1));
    }
}

/// Brings one due item to its next state. True when its result was consumed.
pub(super) async fn step_one(engine: &Engine, item: Item) -> Result<bool, Trouble> {
    let action = step(&item, engine.clock.now());
    let mut job = match item {
        Item::Job(job) => job,
        other if action == Action::Tell => return tell(engine, other).await.map(|()| false),
        _ => return Ok(false),
    };
    if matches!(action, Action::Look(_)) && !job.heard.is_empty() {
        if prove_heard(engine, &job).await? == Looked::Consumed {
            return Ok(true);
        }
        match job_of(engine, &job.key).await? {
            Some(stored) if stored.state == job.state => job = stored,
            _ => return Ok(false),
        }
    }
    match action {
        Action::TakeOver if job.mode == Mode::Call => take_over(engine, &job).await,
        Action::TakeOver => {
            warn!(job.key = %job.key, job.attempt = job.attempts, "a reservation ran out: unclear");
            let nonce = job.nonce.clone();
            let why = "its sender ended or stalled before it wrote down an answer";
            let change = |job: &mut Job, now: Now<'_>| {
                let news = job.unclear(&nonce, why, now);
                job.look_for_name(now);
                news
            };
            engine.change_if(&job, change).await?;
            Ok(false)
        }
        Action::EndGrace => {
            engine.change_if(&job, |job, now| job.end_grace(now)).await?;
            Ok(false)
        }
        Action::FindByName => batch::look::find(engine, &job).await.map(|()| false),
        Action::Look(handles) if job.batch.is_some() => {
            batch::look::look(engine, &job, &handles).await.map(Looked::has_consumed)
        }
        Action::Look(handles) => look(engine, &job, &handles).await.map(Looked::has_consumed),
        Action::Prove => prove_heard(engine, &job).await.map(Looked::has_consumed),
        Action::Consume if job.batch.is_some() => match hand_over_attempt(engine, &job).await? {
            true => Ok(false),
            false => batch::settle::take(engine, &job).await,
        },
        Action::Consume => consume::again(engine, &job).await,
        Action::Tell => tell(engine, Item::Job(job)).await.map(|()| false),
        Action::Wait if job.due_at.is_some_and(|due| due <= engine.clock.now()) && job.lease.is_none() => {
            // Not reached by any move that this program makes; said aloud and put off, so that it can't spin.
            error!(job.key = %job.key, job.state = %job.state, "due, but there is nothing to do for it");
            let later = engine.settings.policy.poll_max;
            engine.change(&job, |job, now| job.hold_back(now.at.plus(later))).await?;
            Ok(false)
        }
        Action::Wait | Action::Submit | Action::TakeLines | Action::BringOn | Action::Recheck => Ok(false),
    }
}

/// Looks at handles one after the other, and writes what they showed in one change.
///
/// # Errors
/// Trouble.
pub(super) async fn look(engine: &Engine, job: &Job, handles: &[String]) -> Result<Looked, Trouble> {
    let mut seen = Vec::new();
    for id in handles {
        let Some(handle) = job.handle(id) else { continue };
        let shown = look_at(engine, job, handle).await?;
        let is_last_word = matches!(shown, Seen::Value(_) | Seen::Rejected(_));
        seen.push((id.clone(), shown));
        if is_last_word {
            break;
        }
    }
    note(engine, job, seen).await
}

/// Writes down what looks showed; a value among them is consumed, and is the last of them.
///
/// # Errors
/// Trouble.
pub(super) async fn note(engine: &Engine, job: &Job, mut seen: Vec<(String, Seen)>) -> Result<Looked, Trouble> {
    match seen.pop() {
        Some((id, Seen::Value(answer))) => return consume::begin(engine, job, &id, *answer).await,
        Some((_, Seen::Rejected(message))) => return Err(Trouble::NeedsPerson(message)),
        other => seen.extend(other),
    }
    let mut answer = None;
    for (id, seen) in &seen {
        if let Seen::Failed(_, _, Some(interaction)) = seen {
            answer = Some(keep_answer(engine, job, id, interaction).await?);
        }
    }
    let was_parked = job.state == State::Parked;
    let written = engine
        .change(job, |job, now| {
            for (id, seen) in &seen {
                match seen {
                    Seen::Running => job.still_running(id, now),
                    Seen::Failed(judgement, message, _) => job.failed(id, judgement, message, now),
                    Seen::GivenUp(class, message) => job.give_up(id, class, message, now),
                    Seen::Missing(message) => job.missing(id, message, now),
                    Seen::Hidden(why) => {
                        warn!(job.key = %job.key, job.handle = id, "it can't be looked at: {why}");
                        job.look_failed(id, None, now);
                    }
                    Seen::NoNews(why, delay) => {
                        // Once is nothing; what goes on must be told.
                        if job.handle(id).is_some_and(|handle| handle.polls > 0 && handle.polls.is_multiple_of(10)) {
                            warn!(job.key = %job.key, job.handle = id, "no look at it has been answered well for a while: {why}");
                        }
                        debug!(job.key = %job.key, job.handle = id, error = why, "no news; looking again later");
                        job.look_failed(id, *delay, now);
                    }
                    Seen::Value(_) | Seen::Rejected(..) => {}
                }
            }
            // A late look at a dead letter's old handle leaves the answer that it was parked with.
            if answer.is_some() && !was_parked {
                job.answer.clone_from(&answer);
            }
        })
        .await?;
    let Some(job) = written else { return Ok(Looked::Stale) };
    if job.state != State::Submitted {
        info!(job.key = %job.key, job.state = %job.state, job.class = job.class, "looked at");
    }
    Ok(Looked::Noted)
}

/// Keeps Gemini's raw answer of an attempt that brought no value, before the job is judged by it.
async fn keep_answer(engine: &Engine, job: &Job, handle: &str, interaction: &Interaction) -> Result<String, Trouble> {
    let name = answer_object(job, handle);
    let bytes = Bytes::copy_from_slice(interaction.raw.get().as_bytes());
    engine.objects.put(&name, bytes).await?;
    Ok(name)
}

/// The object of a raw answer: by job and handle.
#[must_use]
pub fn answer_object(job: &Job, handle: &str) -> String {
    let digest = hex::encode(Sha256::digest(handle.as_bytes()));
    format!("answers/{}.{}.json", job.key, digest.get(..12).unwrap_or(&digest))
}
