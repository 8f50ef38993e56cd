//! Taking lines from an intake: each is reserved immediately before it is sent, and the cursor moves only over lines
//! whose outcome is durable. After a crash the same lines are met again and found reserved.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tracing::{debug, warn};

use super::call::has_time;
use super::cursor::{Outcome, Tracker};
use super::engine::{Engine, Trouble};
use super::gates::{Gates, Pass};
use super::lines::{LineReader, RawLine, Reading, read_line};
use super::plan::{bad_line, cancel_too, met_again, planned, write_bad};
use super::send::{Sent, send, ticket};
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, Lease, Mode, State};
use crate::domain::line::{Header, JobLine, LineError};
use crate::domain::time::Millis;
use crate::ports::ledger::{CreateError, ReplaceError};

/// How many lines the cursor may lag behind before it is written: what a crash makes the next holder read again.
const CURSOR_EVERY: u64 = 500;

/// How soon it is noticed that somebody else changed the intake: cancelled it, or took it over.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most bytes of lines that are under way at once, unless it is a single one: a function has 512 MB, and a line may
/// be tens of MB and is held more than once while it is sent.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// What one taking of lines did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Lines that the cursor moved over.
    pub lines: u64,
    /// Jobs sent.
    pub sent: u64,
    /// Results of plain calls made durable and handed on.
    pub consumed: u64,
    /// Whether somebody else holds the intake.
    pub elsewhere: bool,
}

/// Takes lines from an intake that is due, until `until`, a closed gate or the end.
///
/// # Errors
/// Trouble that stops the whole tick; what was begun has ended, and the cursor stands where it may.
pub async fn take_lines(engine: &Engine, gates: &Gates<'_>, intake: Intake, until: Millis) -> Result<Taken, Trouble> {
    let Some(intake) = lease(engine, intake).await? else {
        return Ok(Taken { elsewhere: true, ..Taken::default() });
    };
    let header = engine.header_of(&intake).await?;
    let reader = LineReader::new(&*engine.objects, &intake.sha256, intake.cursor.offset, intake.cursor.line);
    let mut taking = Taking {
        engine,
        gates,
        header,
        tracker: Tracker::new(intake.cursor),
        intake,
        reader,
        under_way: FuturesUnordered::new(),
        bytes: 0,
        kept: None,
        closed_until: None,
        at_end: false,
        trouble: None,
        lost: false,
        done: Taken::default(),
    };
    taking.run(until).await?;
    taking.finish().await
}

/// Takes the intake's lease. None: somebody else has it, or was faster.
pub(super) async fn lease(engine: &Engine, intake: Intake) -> Result<Option<Intake>, Trouble> {
    let now = engine.now();
    let held = intake.lease.as_ref().is_some_and(|lease| lease.until > now.at);
    if held || intake.state != State::Reading {
        return Ok(None);
    }
    let mut next = intake.clone();
    let until = now.policy.lease_from(now.at);
    next.lease = Some(Lease { holder: engine.ids.token(), until });
    next.due_at = Some(until);
    match engine.replace(&intake.rev, Item::Intake(next)).await {
        Ok(Item::Intake(intake)) => Ok(Some(intake)),
        Ok(_) | Err(ReplaceError::Stale(_)) => Ok(None),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}

/// One step of one line that has ended.
enum Step {
    /// Its outcome is durable; a reserved one goes on to be sent.
    Reserved(u64, Outcome, Option<Reserved>),
    /// It was sent.
    Sent(Sent),
}

/// A line that was reserved.
type Reserved = (Box<Job>, Box<JobLine>, Pass);

/// A step, and how many bytes of lines are no longer under way after it.
type Ended = (Result<Step, Trouble>, u64);

/// A line that waits for its gate.
struct Kept {
    raw: RawLine,
    line: Box<JobLine>,
}

struct Taking<'a> {
    engine: &'a Engine,
    gates: &'a Gates<'a>,
    header: Arc<Header>,
    intake: Intake,
    reader: LineReader<'a>,
    tracker: Tracker,
    under_way: FuturesUnordered<BoxFuture<'a, Ended>>,
    /// Bytes of the lines that are being sent.
    bytes: u64,
    /// Read, and not begun since its gate is closed or all hands are full.
    kept: Option<Kept>,
    closed_until: Option<Millis>,
    at_end: bool,
    trouble: Option<Trouble>,
    lost: bool,
    done: Taken,
}

impl<'a> Taking<'a> {
    async fn run(&mut self, until: Millis) -> Result<(), Trouble> {
        let third = self.engine.settings.policy.submit_lease / 3;
        let mut renew_at = self.engine.clock.now().plus(third);
        let mut look_at = self.engine.clock.now().plus(LOOK_EVERY);
        loop {
            let now = self.engine.clock.now();
            if now >= look_at {
                self.look().await;
                look_at = now.plus(LOOK_EVERY);
            }
            if self.tracker.moved() >= CURSOR_EVERY || now >= renew_at {
                self.write_cursor(true).await;
                renew_at = now.plus(third);
            }
            let more = now < until && !self.engine.is_stopping() && self.trouble.is_none() && !self.lost;
            let room = self.under_way.len() < self.engine.settings.concurrency
                && (self.bytes < BYTES_AT_ONCE || self.under_way.is_empty());
            if more && room && self.begin_next().await {
                continue;
            }
            let clock = Arc::clone(&self.engine.clock);
            tokio::select! {
                step = self.under_way.next() => match step {
                    Some((step, bytes)) => {
                        self.bytes = self.bytes.saturating_sub(bytes);
                        self.ended(step);
                    }
                    None => return Ok(()),
                },
                () = clock.sleep(self.engine.until(renew_at)), if !self.lost => {}
            }
        }
    }

    /// Stops taking lines once the intake is no longer as it was last written here.
    async fn look(&mut self) {
        match self.engine.ledger.get(&ItemId::intake(&self.intake.sha256)).await {
            Ok(found) => self.lost |= found.is_none_or(|found| *found.rev() != self.intake.rev),
            Err(error) => {
                self.trouble.get_or_insert(error.into());
            }
        }
    }

    /// Begins the next line. False: there is none, its gate is closed, or there is trouble.
    async fn begin_next(&mut self) -> bool {
        match self.try_begin_next().await {
            Ok(began) => began,
            Err(trouble) => {
                self.trouble = Some(trouble);
                false
            }
        }
    }

    async fn try_begin_next(&mut self) -> Result<bool, Trouble> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => {
                let Some(raw) = self.reader.next().await? else {
                    self.at_end = true;
                    return Ok(false);
                };
                match read_line(&raw, &self.header) {
                    Reading::Nothing => {
                        let number = self.tracker.begin(raw.end, raw.line);
                        self.tracker.done(number, Outcome::Nothing);
                        return Ok(true);
                    }
                    Reading::Bad(error) => {
                        self.begin_bad(&raw, error);
                        return Ok(true);
                    }
                    Reading::Job(line, _) => Kept { raw, line },
                }
            }
        };
        self.begin_job(kept).await
    }

    fn begin_bad(&mut self, raw: &RawLine, error: LineError) {
        let number = self.tracker.begin(raw.end, raw.line);
        let bad = bad_line(self.engine, &self.intake, raw, error);
        let engine = self.engine;
        self.under_way.push(Box::pin(async move {
            let written = write_bad(engine, bad).await;
            (written.map(|outcome| Step::Reserved(number, outcome, None)), 0)
        }));
    }

    async fn begin_job(&mut self, kept: Kept) -> Result<bool, Trouble> {
        let job = planned(self.engine, &self.intake, &self.header, &kept.raw, &kept.line);
        if self.intake.cancelled.is_some() {
            self.begin_reserving(kept, job, None);
            return Ok(true);
        }
        if job.mode == Mode::Call && !has_time(self.engine) {
            // Whoever has more time takes it from here: the intake stays due.
            self.kept = Some(kept);
            self.closed_until = None;
            return Ok(false);
        }
        let pass = self.gates.ask(job.mode, &job.model).await?;
        match pass {
            Pass::Closed(until) if self.intake.mixed => {
                self.begin_reserving(kept, Job { due_at: Some(until), ..job }, None);
            }
            Pass::Closed(until) | Pass::Paused(until) => {
                // What is under way may open the gate again (a probe), so the line is kept and asked for anew.
                self.kept = Some(kept);
                self.closed_until = Some(until);
                return Ok(false);
            }
            pass => {
                self.closed_until = None;
                self.begin_reserving(kept, job, Some(pass));
            }
        }
        Ok(true)
    }

    /// Writes the job down: reserved when there is a pass to send it, else put aside or discarded.
    fn begin_reserving(&mut self, kept: Kept, mut job: Job, pass: Option<Pass>) {
        let number = self.tracker.begin(kept.raw.end, kept.raw.line);
        let engine = self.engine;
        let gates = self.gates;
        match (&pass, &self.intake.cancelled) {
            (Some(_), _) => job.reserve(ticket(engine), engine.now()),
            (None, Some(reason)) => job.discard(reason, engine.now()),
            (None, None) => job.enter(State::Retryable, job.due_at, engine.clock.now()),
        }
        let (intake, bytes) = (self.intake.clone(), kept.raw.length);
        self.bytes += bytes;
        self.under_way.push(Box::pin(async move {
            let step = write_down(engine, gates, &intake, number, job, kept, pass).await;
            // What goes on to be sent is under way still.
            let freed = if matches!(step, Ok(Step::Reserved(.., Some(_)))) { 0 } else { bytes };
            (step, freed)
        }));
    }

    fn ended(&mut self, step: Result<Step, Trouble>) {
        match step {
            Ok(Step::Reserved(number, outcome, next)) => {
                self.tracker.done(number, outcome);
                if let Some((job, line, pass)) = next {
                    let (engine, gates, bytes) = (self.engine, self.gates, job.input.length);
                    self.under_way.push(Box::pin(async move {
                        (send(engine, gates, &pass, *job, &line).await.map(Step::Sent), bytes)
                    }));
                }
            }
            Ok(Step::Sent(sent)) => {
                debug!(outcome = ?sent, "sent");
                self.done.sent += 1;
                self.done.consumed += u64::from(sent == Sent::Consumed);
            }
            Err(trouble) => {
                // The first is told by whoever gets it returned; the same again, from calls under way, is no news.
                let first = self.trouble.get_or_insert_with(|| trouble.clone());
                if first.to_string() != trouble.to_string() {
                    warn!(error = %trouble, "a line could not be brought on");
                }
            }
        }
    }

    /// Writes the cursor as far as it may stand, and keeps or ends the lease.
    async fn write_cursor(&mut self, keep_lease: bool) {
        if self.lost {
            return;
        }
        self.done.lines += self.tracker.take_moved();
        let now = self.engine.now();
        let mut next = self.intake.clone();
        next.cursor = self.tracker.cursor();
        let until = now.policy.lease_from(now.at);
        if keep_lease {
            next.due_at = Some(until);
            if let Some(lease) = &mut next.lease {
                lease.until = until;
            }
        } else {
            next.lease = None;
            let all = self.at_end && self.kept.is_none() && self.trouble.is_none() && next.cursor.offset == next.bytes;
            next.due_at = if all { None } else { Some(self.closed_until.unwrap_or(now.at)) };
            if all {
                next.state = State::Read;
                next.since = now.at;
            }
        }
        match self.engine.replace(&self.intake.rev, Item::Intake(next)).await {
            Ok(Item::Intake(intake)) => self.intake = intake,
            Ok(_) | Err(ReplaceError::Stale(_)) => self.lost = true,
            Err(ReplaceError::Ledger(error)) => {
                self.trouble.get_or_insert(error.into());
            }
        }
    }

    async fn finish(mut self) -> Result<Taken, Trouble> {
        self.write_cursor(false).await;
        if self.lost {
            let_go(self.engine, &self.intake).await?;
        }
        match self.trouble {
            Some(trouble) => Err(trouble),
            None => Ok(self.done),
        }
    }
}

/// Writes a line's job down, or finds out what is in its way.
async fn write_down(
    engine: &Engine,
    gates: &Gates<'_>,
    intake: &Intake,
    number: u64,
    job: Job,
    kept: Kept,
    pass: Option<Pass>,
) -> Result<Step, Trouble> {
    let created = engine.create(&Item::Job(job.clone())).await;
    let outcome = match created {
        Ok(()) => {
            let next = pass.map(|pass| (Box::new(job), kept.line, pass));
            return Ok(Step::Reserved(number, Outcome::Job, next));
        }
        Err(CreateError::Exists(found)) => {
            let outcome = met_again(engine, intake, &kept.raw, &job, &found).await?;
            if outcome == Outcome::Job {
                cancel_too(engine, intake, *found).await?;
            }
            outcome
        }
        Err(CreateError::Ledger(error)) => return Err(error.into()),
    };
    if let Some(pass) = pass {
        gates.no_news(job.mode, &job.model, &pass).await?;
    }
    Ok(Step::Reserved(number, outcome, None))
}

/// Ends the lease of an intake that somebody changed beside it, a cancel most likely. The stored cursor stays: the
/// next holder meets every line again that was taken since.
pub(super) async fn let_go(engine: &Engine, intake: &Intake) -> Result<(), Trouble> {
    let stored = engine.ledger.get(&ItemId::intake(&intake.sha256)).await?;
    let (Some(Item::Intake(stored)), Some(own)) = (stored, &intake.lease) else { return Ok(()) };
    if stored.lease.as_ref().is_none_or(|lease| lease.holder != own.holder) {
        return Ok(());
    }
    let read = stored.rev.clone();
    let next = Intake { lease: None, due_at: Some(engine.clock.now()), ..stored };
    match engine.replace(&read, Item::Intake(next)).await {
        Ok(_) | Err(ReplaceError::Stale(_)) => Ok(()),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}
