//! Driving an intake to its end: tick after tick, until every line is taken and every job has ended.

use std::time::Duration;

use tracing::{info, warn};

use super::batch::replay::recheck_run;
use super::batch::report::RunProgress;
use super::consume::hand_on_again;
use super::engine::{Engine, Trouble};
use super::gates::closed_gates;
use super::letters::tidy;
use super::lines::{LineReader, Reading, read_line};
use super::report::{Progress, progress};
use super::send::operator_message;
use super::tick::tick;
use crate::domain::gate::Gate;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, JobKey, KeyId, State};

/// Every state in which somebody must look at an item sooner or later.
pub const OPEN: [State; 10] = [
    State::Done,
    State::Reserving,
    State::Unclear,
    State::Submitted,
    State::Parked,
    State::Retryable,
    State::GivenUp,
    State::Reading,
    State::Waiting,
    State::UnderWay,
];

/// How long one tick of a drive may begin new things, so that results are collected between submissions.
const TICK: Duration = Duration::from_secs(5);

/// How long a drive, at its end, may send messages of dead letters and sweep their queue.
const TIDYING: Duration = Duration::from_secs(10);

/// The longest and the shortest sleep between two ticks.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// The sleep when items are due and none can be brought on.
const BLOCKED_SLEEP: Duration = Duration::from_millis(250);

/// Jobs that are read at once.
const PAGE: usize = 500;

/// How long nothing may move before who only watches is told.
const STILL: Duration = Duration::from_secs(180);

/// The shortest time between two looks of who only watches, and how many times as long as the last look took.
const WATCH: Duration = Duration::from_secs(2);
const WATCH_RARELY: u32 = 10;

/// How a drive ended.
#[derive(Debug)]
pub struct Drove {
    /// How far the intake is.
    pub progress: Progress,
    /// Jobs of other intakes that this file's lines name too, and that are dead letters.
    pub parked_elsewhere: u64,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

/// Ticks until the intake is over or a person stops it, telling `watch` after each tick how far it is and which gates
/// are closed.
///
/// # Errors
/// Trouble that needs a person. Passing trouble is logged and the next tick goes on.
pub async fn drive(engine: &Engine, sha256: &str, mut watch: impl FnMut(&Progress, &[Gate])) -> Result<Drove, Trouble> {
    let mut looking = Looking { engine, sha256, elsewhere: None };
    let again = hand_on_again(engine, sha256).await?;
    if again > 0 {
        info!(results = again, "handing on what could not be handed on before");
    }
    loop {
        let idle = match tick(engine, engine.clock.now().plus(TICK)).await {
            Ok(ticked) => ticked.was_idle(),
            Err(Trouble::Passing(why)) => {
                warn!(error = why, "a tick ended early; going on");
                true
            }
            Err(stop) => return Err(stop),
        };
        if let Some(end) = looking.look(&mut watch).await? {
            if !end.stopped {
                if end.progress.run.is_some() {
                    // What somebody who was killed left in between.
                    recheck_run(engine, sha256).await?;
                }
                tidy(engine, TIDYING).await;
            }
            return Ok(end);
        }
        if idle {
            engine.clock.sleep(idle_sleep(engine).await?).await;
        }
    }
}

/// Watches others do the work, as a stack's functions, until the intake is over or a person stops watching. When nothing
/// moves for some minutes, the log says so.
///
/// # Errors
/// Trouble that needs a person; a gate that only a person can open is one.
pub async fn follow(
    engine: &Engine,
    sha256: &str,
    mut watch: impl FnMut(&Progress, &[Gate]),
) -> Result<Drove, Trouble> {
    let mut looking = Looking { engine, sha256, elsewhere: None };
    let (mut last, mut moved_at) = (None, engine.clock.now());
    loop {
        let begun = engine.clock.now();
        let (mut seen, mut shut) = (None, None);
        let mut show = |progress: &Progress, gates: &[Gate]| {
            seen = Some((progress.intake.cursor, progress.states.clone()));
            let is_shut = |gate: &&Gate| gate.needs_person && gate.until.is_some_and(|until| until > begun);
            shut = gates.iter().find(is_shut).cloned();
            watch(progress, gates);
        };
        match looking.look(&mut show).await {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(Trouble::Passing(why)) => warn!(error = why, "can't be looked at now; going on"),
            Err(stop) => return Err(stop),
        }
        if let Some(gate) = shut {
            // A gate's name begins with its key.
            let key = KeyId(gate.name.split('/').next().unwrap_or_default().to_owned());
            let class = gate.class.unwrap_or_default();
            let message = gate.message.unwrap_or_default();
            return Err(Trouble::NeedsPerson(operator_message(engine, &key, &class, &message)));
        }
        if seen.is_some() && seen != last {
            (last, moved_at) = (seen, engine.clock.now());
        } else if engine.clock.now().since(moved_at) >= STILL {
            warn!("nothing has moved for {} minutes: does the tick run? Look at its log", STILL.as_secs() / 60);
            moved_at = engine.clock.now();
        }
        // A look may cost a read for each line of a long file: looking takes a small part of the time.
        let cost = engine.clock.now().since(begun);
        let end = engine.clock.now().plus(cost.saturating_mul(WATCH_RARELY).max(WATCH));
        while engine.clock.now() < end && !engine.is_stopping() {
            engine.clock.sleep(BLOCKED_SLEEP).await;
        }
    }
}

/// Looking how far an intake is, time after time.
struct Looking<'a> {
    engine: &'a Engine,
    sha256: &'a str,
    elsewhere: Option<Elsewhere>,
}

impl Looking<'_> {
    /// Tells how far it is; at the end, or when a person wants to stop, how it ended.
    async fn look(&mut self, watch: &mut impl FnMut(&Progress, &[Gate])) -> Result<Option<Drove>, Trouble> {
        let progress = progress(self.engine, self.sha256).await?;
        let gates = closed_gates(self.engine).await?;
        watch(&progress, &gates);
        if progress.is_over() {
            let others = match self.elsewhere.take() {
                Some(others) => Some(others),
                None => Elsewhere::of(self.engine, &progress).await?,
            };
            if let Some(others) = others {
                let others = others.look(self.engine).await?;
                if others.open.is_empty() {
                    return Ok(Some(Drove { progress, parked_elsewhere: others.parked, stopped: false }));
                }
                self.elsewhere = Some(others);
            }
        }
        // Nothing moves until a person lets it: whoever waits is told.
        if progress.run.as_ref().is_some_and(RunProgress::waits_for_person) {
            return Ok(Some(Drove { progress, parked_elsewhere: 0, stopped: false }));
        }
        let stopped = Drove { progress, parked_elsewhere: 0, stopped: true };
        Ok(self.engine.is_stopping().then_some(stopped))
    }
}

/// How long to sleep after a tick that could do nothing: until the next item is due. What is due already waits for a
/// gate, a lease or another process.
async fn idle_sleep(engine: &Engine) -> Result<Duration, Trouble> {
    let Some(due) = engine.ledger.next_due(&OPEN).await? else { return Ok(LONGEST_SLEEP) };
    let wait = engine.until(due);
    Ok(if wait.is_zero() { BLOCKED_SLEEP } else { wait.clamp(SHORTEST_SLEEP, LONGEST_SLEEP) })
}

/// The jobs of other intakes that an intake's repeats name: the file is over when they are.
#[derive(Debug, Default)]
struct Elsewhere {
    open: Vec<JobKey>,
    parked: u64,
}

impl Elsewhere {
    /// None: a person wants to stop.
    async fn of(engine: &Engine, progress: &Progress) -> Result<Option<Self>, Trouble> {
        let mut others = Self::default();
        if progress.intake.cursor.repeats == 0 {
            return Ok(Some(others));
        }
        let sha256 = &progress.intake.sha256;
        let header = engine.header_of(&progress.intake).await?;
        let mut reader = LineReader::new(&*engine.objects, sha256, 0, 0);
        let mut keys = Vec::new();
        loop {
            let raw = reader.next().await?;
            let at_end = raw.is_none();
            if let Some(raw) = raw
                && let Reading::Job(line, _) = read_line(&raw, &header)
            {
                keys.push(line.key);
            }
            if keys.len() == PAGE || at_end {
                let jobs = jobs(engine, &std::mem::take(&mut keys)).await?;
                others.open.extend(jobs.into_iter().filter(|job| job.input.intake != *sha256).map(|job| job.key));
            }
            if at_end {
                break;
            }
            if engine.is_stopping() {
                return Ok(None);
            }
        }
        others.open.sort_unstable();
        others.open.dedup();
        Ok(Some(others))
    }

    /// Drops those that have ended, counting the dead letters.
    async fn look(self, engine: &Engine) -> Result<Self, Trouble> {
        let mut still = Self { open: Vec::new(), parked: self.parked };
        for page in self.open.chunks(PAGE) {
            for job in jobs(engine, page).await? {
                if job.state.is_ended() {
                    still.parked += u64::from(job.state == State::Parked);
                } else {
                    still.open.push(job.key);
                }
            }
        }
        Ok(still)
    }
}

/// Those of the jobs that are in the ledger.
async fn jobs(engine: &Engine, keys: &[JobKey]) -> Result<Vec<Job>, Trouble> {
    let ids: Vec<ItemId> = keys.iter().map(ItemId::job).collect();
    let found = engine.ledger.get_many(&ids).await?;
    Ok(found
        .into_iter()
        .filter_map(|item| match item {
            Item::Job(job) => Some(job),
            _ => None,
        })
        .collect())
}
