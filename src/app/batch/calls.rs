//! The rows of an attempt made as plain calls, as a person may want of a replay (design, section 7): under the lease of the
//! attempt's job, each row's outcome an object of its own before the next is begun. When all have one, they are brought
//! together in the form of a batch's output, and the ordinary pass judges them.

mod row;

use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use tracing::{info, warn};

use self::row::{Outcome, Row};
use super::feed::Outlet;
use super::items::{self, attempt_of};
use super::lines::LinesOf;
use super::settle;
use crate::app::call::has_time;
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::{Gates, Pass};
use crate::app::work::hand_over_attempt;
use crate::domain::job::{Job, Mode, State};
use crate::domain::part::{Attempt, Calls, Part, Sending, attempt_key};
use crate::domain::time::Millis;

/// The most bytes of rows that are under way at once, unless it is a single one: a function has 512 MB.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// Outcomes that are read at once: each may be tens of MB.
const READS: usize = 2;

/// Why no further call is begun.
#[derive(Debug)]
struct Stop {
    /// When it is to be gone on with.
    due: Millis,
    /// Class and message, if something went wrong.
    why: Option<(String, String)>,
    trouble: Option<Trouble>,
}

impl Stop {
    const fn at(due: Millis) -> Self {
        Self { due, why: None, trouble: None }
    }
}

/// Every row's outcome, as one object.
#[derive(Debug)]
struct Answers {
    object: String,
    /// Calls that were made past others that may have been answered.
    again: u32,
    calls: Calls,
}

enum Came {
    All(Answers),
    Left(Stop),
}

/// Calls under way for one attempt.
struct Calling<'a> {
    engine: &'a Engine,
    gates: &'a Gates<'a>,
    job: &'a Job,
    attempt: &'a Attempt,
    holder: &'a str,
}

/// Makes the calls of an attempt that waits; none is begun after `until`, and what is left is due again. False: somebody else
/// has it.
///
/// # Errors
/// Trouble; the answers that came are kept, and no row that has one is asked again.
pub(super) async fn make_calls(
    engine: &Engine,
    gates: &Gates<'_>,
    pass: Pass,
    job: Job,
    until: Millis,
) -> Result<bool, Trouble> {
    let attempt = attempt_of(&job)?.clone();
    let holder = engine.ids.token();
    let Some(job) = engine.change_if(&job, |job, now| job.begin_upload(&holder, now)).await? else {
        gates.no_news(Mode::Call, &job.model, &pass).await?;
        return Ok(false);
    };
    let leased = job.clone();
    let calling = Calling { engine, gates, job: &leased, attempt: &attempt, holder: &holder };
    let (job, came) = engine.hold(job, calling.run(pass, until)).await;
    match came {
        Ok(Came::All(answers)) => {
            let Answers { object, again, calls } = answers;
            let job = engine.settle(job, |job, now| job.rows_called(&holder, &object, again, calls, now)).await?;
            if job.state == State::Discarded {
                warn!(job.key = %job.key, job.answer = object, "cancelled while its calls were made: their answers are kept there");
            }
            if job.state == State::Done && !hand_over_attempt(engine, &job).await? {
                settle::take(engine, &job).await?;
            }
            Ok(true)
        }
        Ok(Came::Left(Stop { due, why, trouble })) => {
            let why = why.as_ref().map(|(class, message)| (class.as_str(), message.as_str()));
            info!(job.key = %job.key, job.due = %due, "some of its calls are left for later");
            engine.settle(job, |job, _| job.calls_left(&holder, due, why)).await?;
            trouble.map_or(Ok(true), Err)
        }
        Err(trouble) => {
            warn!(job.key = %job.key, error = %trouble, "its calls could not be made; trying again later");
            engine.settle(job, |job, now| job.upload_failed(&holder, "calls", &trouble.to_string(), now)).await?;
            Err(trouble)
        }
    }
}

impl Calling<'_> {
    /// Calls for every row that has no outcome yet, a few at a time.
    async fn run(&self, pass: Pass, until: Millis) -> Result<Came, Trouble> {
        let mut first = Some(pass);
        let stopped = match self.rows().await {
            Ok((rows, open)) if open.is_empty() => Ok((rows, None)),
            Ok((rows, open)) => Ok((rows, self.call_all(open, &mut first, until).await)),
            Err(trouble) => Err(trouble),
        };
        if let Some(pass) = first {
            self.gates.no_news(Mode::Call, &self.job.model, &pass).await?;
        }
        match stopped? {
            (_, Some(stop)) => Ok(Came::Left(stop)),
            (rows, None) => self.bring_together(&rows).await.map(Came::All),
        }
    }

    /// None: each has its outcome now. What is under way ends in any case: its answer is paid for.
    async fn call_all(&self, open: Vec<Row>, first: &mut Option<Pass>, until: Millis) -> Option<Stop> {
        let longest = open.iter().map(|row| row.length).max().unwrap_or(1).max(1);
        let room = usize::try_from(BYTES_AT_ONCE / longest).unwrap_or(1).max(1);
        let at_once = self.engine.settings.concurrency.clamp(1, room);
        let mut open = open.into_iter().peekable();
        let (mut under_way, mut stop) = (FuturesUnordered::new(), None);
        loop {
            while stop.is_none() && under_way.len() < at_once && open.peek().is_some() {
                match self.may_begin(first, until).await {
                    Ok(pass) => under_way.extend(open.next().map(|row| self.call(row, pass))),
                    // One of them is the gate's probe, say.
                    Err(_) if !under_way.is_empty() => break,
                    Err(not_now) => stop = Some(not_now),
                }
            }
            let Some(ended) = under_way.next().await else { return stop };
            if let Err(why) = ended {
                stop.get_or_insert(why);
            }
        }
    }

    /// The gate's word that another call may be begun, or why not.
    async fn may_begin(&self, first: &mut Option<Pass>, until: Millis) -> Result<Pass, Stop> {
        let now = self.engine.clock.now();
        if self.engine.is_stopping() || now >= until || !has_time(self.engine) {
            return Err(Stop::at(now));
        }
        if let Some(pass) = first.take() {
            return Ok(pass);
        }
        match self.gates.ask(Mode::Call, &self.job.model).await {
            Ok(Pass::Closed(until) | Pass::Paused(until)) => Err(Stop::at(until)),
            Ok(pass) => Ok(pass),
            Err(trouble) => Err(self.trouble(trouble)),
        }
    }

    fn trouble(&self, trouble: Trouble) -> Stop {
        let now = self.engine.now();
        let due = now.at.plus(now.policy.gate_wait);
        Stop { due, why: Some(("calls".to_owned(), trouble.to_string())), trouble: Some(trouble) }
    }

    /// Every row of the attempt, and those without an outcome.
    async fn rows(&self) -> Result<(Vec<Row>, Vec<Row>), Trouble> {
        let mut lines = LinesOf::own(&self.engine.objects, &self.attempt.rows_at);
        let mut rows = Vec::new();
        while let Some(some) = lines.next().await? {
            for line in some.iter() {
                rows.push(Row { number: rows.len() + 1, at: line.at, length: line.bytes.len() as u64 });
            }
        }
        let looks = stream::iter(rows.clone()).map(async |row| {
            let there = self.engine.objects.size(&self.outcome_object(row)).await?.is_some();
            Ok::<_, Trouble>((!there).then_some(row))
        });
        let open: Vec<Option<Row>> = looks.buffered(self.engine.settings.concurrency.max(1)).try_collect().await?;
        Ok((rows, open.into_iter().flatten().collect()))
    }

    /// Whether the lease is still held here: a run that was cancelled takes it away.
    async fn is_ours(&self) -> Result<bool, Trouble> {
        let stored = items::job(self.engine, &self.job.key).await?;
        let lease = stored.filter(|job| job.state == State::Retryable).and_then(|job| job.lease);
        Ok(lease.is_some_and(|lease| lease.holder == self.holder))
    }

    /// Brings the outcomes together, in the order of the rows: whoever does it makes the same object.
    async fn bring_together(&self, rows: &[Row]) -> Result<Answers, Trouble> {
        let object = format!("answers/{}.calls.jsonl", self.job.key);
        let mut outlet = Outlet::new(&self.engine.objects, object.clone());
        let (mut again, mut calls) = (0_u32, Calls::default());
        let mut outcomes = stream::iter(rows.to_vec()).map(|row| self.outcome_of(row)).buffered(READS);
        loop {
            let outcome: Outcome = match outcomes.try_next().await {
                Ok(Some(outcome)) => outcome,
                Ok(None) => break,
                Err(trouble) => {
                    outlet.give_up().await;
                    return Err(trouble);
                }
            };
            again = again.saturating_add(outcome.again);
            calls.in_doubt = calls.in_doubt.saturating_add(u32::from(outcome.in_doubt));
            calls.not_before = calls.not_before.max(outcome.not_before);
            outlet.write(format!("{}\n", outcome.line.get())).await;
        }
        outlet.close().await?;
        Ok(Answers { object, again, calls })
    }
}

/// Has the job of an attempt follow the calls of the attempt before, if that was made of calls: after a back-off, or the
/// longer wait that Gemini named for a row; and what was in doubt of them is a possible duplicate. False: there was none.
///
/// # Errors
/// Trouble with the ledger.
pub(super) async fn follow(engine: &Engine, part: &Part, latest: &Sending, job: &mut Job) -> Result<bool, Trouble> {
    let Some(before) = part.attempts.iter().rev().nth(1).filter(|_| part.by_call) else { return Ok(false) };
    let before = items::job(engine, &attempt_key(&part.run, &part.part, before.number)).await?;
    let Some(calls) = before.and_then(|job| job.batch).and_then(|attempt| attempt.calls) else { return Ok(false) };
    let now = engine.now();
    let backoff = now.at.plus(now.policy.backoff(latest.tries.saturating_sub(1), now.fraction));
    job.possible_duplicates = calls.in_doubt;
    job.hold_back(calls.not_before.map_or(backoff, |named| named.max(backoff)));
    Ok(true)
}
