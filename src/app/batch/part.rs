//! Bringing a part on: its dead letters, its next attempt, its end.
//!
//! A part says what is to be done; its attempts say what they are at themselves. Each step leaves the part so that the
//! next tick goes on from there, and may be made twice.

use std::collections::HashMap;
use std::time::Duration;

use tracing::{info, warn};

use super::back;
use super::calls::follow;
use super::dead::tell;
use super::halve::halve;
use super::items;
use super::pass::{Made, make};
use super::replay::wake_letters;
use crate::app::engine::{Engine, Trouble};
use crate::app::report::every;
use crate::domain::classify::exhausted;
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Fate, InputRef, Job, JobKey, Lease, Mode, State, Work};
use crate::domain::json::digest;
use crate::domain::moves::Now;
use crate::domain::part::{Attempt, Calls, File, Intent, Part, Rows, Sending, TOO_LARGE, attempt_key, object};
use crate::ports::ledger::CreateError;

/// How soon a part is looked at whose attempt is out: the attempt itself wakes it earlier, unless that was lost.
const LOOK_AFTER: Duration = Duration::from_secs(3600);

/// Bytes of input files at Gemini that are under way at once: its limit is 20 GB for all files of a project
/// (<https://ai.google.dev/gemini-api/docs/files>), and files that others made are there too.
const BYTES_AT_ONCE: u64 = 18_000_000_000;

/// The parts that are out, as one round of submitting sees them.
#[derive(Debug, Default)]
pub struct Out {
    parts: HashMap<ItemId, u64>,
    /// Runs as they were read in this round: hundreds of parts may wait for room.
    runs: HashMap<String, (Intake, Run)>,
}

impl Out {
    /// Counts them.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn count(engine: &Engine) -> Result<Self, Trouble> {
        let mut parts = HashMap::new();
        for item in every(engine, State::UnderWay, usize::MAX).await? {
            if let Item::Part(part) = &item {
                parts.insert(item.id(), part.latest().map_or(0, |latest| latest.bytes));
            }
        }
        Ok(Self { parts, runs: HashMap::new() })
    }

    async fn run_of(&mut self, engine: &Engine, sha256: &str) -> Result<(Intake, Run), Trouble> {
        if let Some(known) = self.runs.get(sha256) {
            return Ok(known.clone());
        }
        let found = items::run_of(engine, sha256).await?;
        self.runs.insert(sha256.to_owned(), found.clone());
        Ok(found)
    }

    fn has_room_for(&self, engine: &Engine, bytes: u64) -> bool {
        let out: u64 = self.parts.values().sum();
        self.parts.len() < engine.settings.parts.at_once && (out + bytes <= BYTES_AT_ONCE || self.parts.is_empty())
    }
}

/// Has somebody look at a part: one of its attempts has news.
///
/// # Errors
/// Trouble with the ledger.
pub async fn look_soon(engine: &Engine, attempt: &Attempt) -> Result<(), Trouble> {
    let wake = |part: &mut Part, now: Now<'_>| {
        let waits = !part.state.is_closed() && part.due_at.is_none_or(|due| due > now.at);
        if waits {
            part.due_at = Some(now.at);
        }
        waits
    };
    items::settle(engine, &attempt.run, &attempt.part, wake).await.map(drop)
}

/// Brings on a part that is due. True: something was done.
///
/// # Errors
/// Trouble; the part stays due.
pub async fn bring_on(engine: &Engine, part: Part, out: &mut Out) -> Result<bool, Trouble> {
    if part.is_unfinished() {
        // Who was to put rows into it is gone. They are dead letters again when they are next looked at.
        warn!(run = part.run, part = %part.part, "a replay broke off before its rows were in");
        return settle(engine, part, State::Discarded, 0).await;
    }
    let (intake, run) = out.run_of(engine, &part.intake).await?;
    if part.passes.iter().any(|passed| !passed.is_told()) {
        let Some(part) = lease(engine, &part).await? else { return Ok(false) };
        // It may hold the run up.
        out.runs.remove(&part.intake);
        tell(engine, part, &intake, &run).await?;
        return Ok(true);
    }
    if let Some(intent) = part.intent.clone() {
        if intent.output.is_none() {
            return without_output(engine, part, intent, &intake).await;
        }
        // The attempt's own job makes it.
        return wait_for(engine, part, &intent).await;
    }
    if part.is_out() {
        return look_at_attempt(engine, part, &run).await;
    }
    if let Some(rows) = part.rows_left().filter(|_| part.halved) {
        return halve(engine, part, &rows).await;
    }
    let Some(rows) = part.rows_left() else {
        let discarded = part.discarded;
        return settle(engine, part, State::Settled, discarded).await;
    };
    if let Some(reason) = &intake.cancelled {
        info!(run = part.run, part = %part.part, rows = rows.rows, reason, "discarded with its run");
        // Counted anew: a late result may have come to one that was discarded before.
        let open = part.unsettled();
        return settle(engine, part, State::Discarded, open).await;
    }
    if let Some((class, message)) = part.latest().and_then(|latest| latest.ended.clone()) {
        let too_large = class == TOO_LARGE;
        let used_up = part.tries() >= run.max_attempts.saturating_add(part.granted) || (too_large && rows.rows == 1);
        if part.has_settled_rows_among_open_ones() || (used_up && !part.passed_latest()) {
            return sift(engine, part, (class, message), used_up).await;
        }
        if too_large && rows.rows > 1 {
            // A late result would settle rows that are with the halves by then.
            if attempts_are_open(engine, &part).await? {
                return put_off(engine, part).await;
            }
            return halve(engine, part, &rows).await;
        }
    }
    // What a person has replayed goes out although the rest of the run waits for one.
    let waits = run.held.is_some() && !part.part.is_replay();
    if waits || !out.has_room_for(engine, rows.bytes) {
        return Ok(false);
    }
    send_next(engine, part, &run, rows, out).await
}

/// Leases a part while its dead letters are made. None: somebody else was faster.
async fn lease(engine: &Engine, part: &Part) -> Result<Option<Part>, Trouble> {
    let now = engine.now();
    let until = now.policy.lease_from(now.at);
    let mut next = part.clone();
    next.lease = Some(Lease { holder: engine.ids.token(), until });
    next.due_at = Some(until);
    items::replace(engine, part, next).await
}

async fn put_off(engine: &Engine, part: Part) -> Result<bool, Trouble> {
    let mut next = part.clone();
    next.due_at = Some(engine.clock.now().plus(LOOK_AFTER));
    items::replace(engine, &part, next).await?;
    Ok(false)
}

/// Whether one of a part's attempts may still bring something.
async fn attempts_are_open(engine: &Engine, part: &Part) -> Result<bool, Trouble> {
    let keys: Vec<ItemId> =
        part.attempts.iter().map(|sending| ItemId::job(&attempt_key(&part.run, &part.part, sending.number))).collect();
    Ok(engine.ledger.get_many(&keys).await?.iter().any(|job| !job.state().is_closed()))
}

async fn later(engine: &Engine, part: Part) -> Result<bool, Trouble> {
    let mut next = part.clone();
    next.enter(State::UnderWay, Some(engine.clock.now().plus(LOOK_AFTER)), engine.clock.now());
    items::replace(engine, &part, next).await?;
    Ok(false)
}

async fn settle(engine: &Engine, part: Part, state: State, discarded: u64) -> Result<bool, Trouble> {
    let mut next = part.clone();
    next.discarded = discarded;
    next.enter(state, None, engine.clock.now());
    if items::replace(engine, &part, next).await?.is_some() {
        // The dead letter of all its rows may be settled now, or wait for a person again.
        wake_letters(engine, &part, state).await?;
    }
    Ok(true)
}

/// A pass is being made by its attempt's job. One that is a dead letter makes it no more: the part waits with it, unless
/// it was a late one, whose rows are with a successor.
async fn wait_for(engine: &Engine, part: Part, intent: &Intent) -> Result<bool, Trouble> {
    let job = items::job(engine, &attempt_key(&part.run, &part.part, intent.attempt)).await?;
    if job.is_some_and(|job| job.state == State::Parked) {
        let mut next = part.clone();
        let results = object(&part.run, &part.part, intent.attempt, &intent.name(&part.passes), File::Results);
        // Results that lie there were perhaps seen by somebody: then this pass is to count, and no other.
        if intent.late && engine.objects.size(&results).await?.is_none() {
            warn!(run = part.run, part = %part.part, attempt = intent.attempt, "its late outcome can't be taken: the part goes on without it");
            let now = engine.clock.now();
            next.intent = None;
            next.due_at = Some(now);
            return Ok(items::replace(engine, &part, next).await?.is_some());
        }
        next.enter(State::Parked, None, engine.clock.now());
        items::replace(engine, &part, next).await?;
        return Ok(true);
    }
    later(engine, part).await
}

/// Looks what has become of an attempt that is out.
async fn look_at_attempt(engine: &Engine, part: Part, run: &Run) -> Result<bool, Trouble> {
    let Some(latest) = part.latest().cloned() else { return Ok(false) };
    let key = attempt_key(&part.run, &part.part, latest.number);
    let Some(job) = items::job(engine, &key).await? else {
        make_job(engine, &part, run).await?;
        return Ok(true);
    };
    match job.state {
        // A dead letter: its output could not be taken, or nobody can look at it. The part waits with it.
        State::Parked => {
            let mut next = part.clone();
            next.enter(State::Parked, None, engine.clock.now());
            items::replace(engine, &part, next).await?;
            Ok(true)
        }
        State::GivenUp | State::Discarded | State::Consumed | State::Recovered => {
            let class = job.class.clone().unwrap_or_else(|| "unknown".to_owned());
            let message = job.message.clone().unwrap_or_default();
            let attempt = items::attempt_of(&job)?.clone();
            back::hand_back(
                engine,
                &job,
                &attempt,
                back::End { class: &class, message: &message, free: false, further: 0, failed: None },
            )
            .await?;
            Ok(true)
        }
        _ => later(engine, part).await,
    }
}

/// A pass without output over an attempt that brought nothing: it leaves out what a late result has settled, and makes the
/// rest dead when no attempt is left.
async fn sift(engine: &Engine, part: Part, (class, message): (String, String), used_up: bool) -> Result<bool, Trouble> {
    let Some(latest) = part.latest() else { return Ok(false) };
    let mut next = part.clone();
    next.intent = Some(Intent {
        attempt: latest.number,
        output: None,
        download: 0,
        late: false,
        blame: (if used_up { exhausted(&class) } else { class }, message),
        announced: 0,
        last: used_up,
    });
    Ok(items::replace(engine, &part, next).await?.is_some())
}

async fn without_output(engine: &Engine, part: Part, intent: Intent, intake: &Intake) -> Result<bool, Trouble> {
    let expect = items::expect_of(engine, &intake.sha256).await?;
    let Made::Passed(passed) = make(engine, &part, &intent, expect).await? else {
        return Err(Trouble::NeedsPerson("a pass without output can't come short of anything".to_owned()));
    };
    let now = engine.clock.now();
    let mut next = part.clone();
    next.intent = None;
    warn!(run = part.run, part = %part.part, rows.dead = passed.counts.dead, class = intent.blame.0, "its rows are dead");
    next.passes.push(*passed);
    next.enter(State::Waiting, Some(now), now);
    Ok(items::replace(engine, &part, next).await?.is_some())
}

/// Puts the next attempt on the part, and then makes its job. Should that be lost, the part is looked at again soon.
async fn send_next(engine: &Engine, part: Part, run: &Run, rows: Rows, out: &mut Out) -> Result<bool, Trouble> {
    let now = engine.now();
    let number = part.attempts.len() as u32 + 1;
    let mut next = part.clone();
    let tries = part.tries() + 1;
    let bytes = rows.bytes;
    next.attempts.push(Sending { number, rows_at: rows.at, rows: rows.rows, bytes, tries, free: false, ended: None });
    next.enter(State::UnderWay, Some(now.policy.lease_from(now.at)), now.at);
    let Some(part) = items::replace(engine, &part, next).await? else { return Ok(false) };
    out.parts.insert(ItemId::part(&part.run, &part.part), bytes);
    make_job(engine, &part, run).await?;
    Ok(true)
}

/// Makes the job of a part's latest attempt. One that is there already is the same one if its rows are.
async fn make_job(engine: &Engine, part: &Part, run: &Run) -> Result<(), Trouble> {
    let Some(latest) = part.latest() else { return Ok(()) };
    let mut job = planned(engine, part, run, latest);
    if !follow(engine, part, latest, &mut job).await? {
        job.maybe_accepted = may_be_paid(engine, part).await?;
    }
    match engine.create(&Item::Job(job.clone())).await {
        Ok(()) => {}
        Err(CreateError::Exists(found)) => match *found {
            Item::Job(found) if found.content == job.content => {}
            other => {
                return Err(Trouble::NeedsPerson(format!(
                    "the ledger item {} has other rows than the attempt of that name",
                    other.id()
                )));
            }
        },
        Err(CreateError::Ledger(error)) => return Err(error.into()),
    }
    info!(run = part.run, part = %part.part, attempt = latest.number, rows = latest.rows, "an attempt is to go out");
    Ok(())
}

/// Whether the rows may be paid for already: the attempt before was given up, or nobody knows whether it was created. Then
/// sending them again counts as a possible duplicate.
async fn may_be_paid(engine: &Engine, part: &Part) -> Result<bool, Trouble> {
    if part.attempts.len() == 1 {
        return Ok(part.maybe_paid);
    }
    let Some(before) = part.attempts.iter().rev().nth(1).filter(|before| before.ended.is_some() && !before.free) else {
        return Ok(false);
    };
    let before = items::job(engine, &attempt_key(&part.run, &part.part, before.number)).await?;
    Ok(before.is_some_and(|job| job.maybe_accepted || job.handles.iter().any(|handle| handle.fate == Fate::GivenUp)))
}

/// The job of an attempt, due now.
pub(in crate::app) fn planned(engine: &Engine, part: &Part, run: &Run, rows: &Sending) -> Job {
    let now = engine.clock.now();
    let key = attempt_key(&part.run, &part.part, rows.number);
    let work = Work {
        input: InputRef { intake: part.intake.clone(), line: 0, offset: 0, length: rows.bytes },
        content: content_of(&key, rows),
        key,
        mode: Mode::Batch,
        model: part.model.clone(),
        max_attempts: run.max_attempts,
        deadline_s: run.deadline_s,
    };
    let mut job = Job::planned(work, engine.rev(), now);
    job.batch = Some(Box::new(Attempt {
        run: part.run.clone(),
        part: part.part.clone(),
        number: rows.number,
        rows_at: rows.rows_at.clone(),
        rows: rows.rows,
        bytes: rows.bytes,
        file: None,
        not_listed: None,
        refusals: 0,
        output: None,
        calls: part.by_call.then(Calls::default),
    }));
    job.enter(State::Retryable, Some(now), now);
    job
}

/// What tells two attempts of one name apart: where their rows lie.
fn content_of(key: &JobKey, rows: &Sending) -> String {
    digest(&format!("{key} {} {} {}", rows.rows_at, rows.rows, rows.bytes))
}

/// Whether another part of the same model has an attempt at Gemini, or may have.
///
/// # Errors
/// Trouble with the ledger.
pub async fn others_are_out(engine: &Engine, attempt: &Attempt, model: &str) -> Result<bool, Trouble> {
    let mut keys = Vec::new();
    for item in every(engine, State::UnderWay, usize::MAX).await? {
        if let Item::Part(part) = item
            && part.model == model
            && (part.run != attempt.run || part.part != attempt.part)
            && let Some(latest) = part.latest()
        {
            keys.push(ItemId::job(&attempt_key(&part.run, &part.part, latest.number)));
        }
    }
    let jobs = engine.ledger.get_many(&keys).await?;
    Ok(jobs.iter().any(|job| matches!(job.state(), State::Reserving | State::Unclear | State::Submitted)))
}
