//! Driving an intake to its end: tick after tick, until every line is taken and every job has ended.

use std::time::Duration;

use tracing::{info, warn};

use super::consume::hand_on_again;
use super::engine::{Engine, Trouble};
use super::gates::closed_gates;
use super::lines::{LineReader, Reading, read_line};
use super::report::{Progress, progress};
use super::tick::tick;
use crate::domain::gate::Gate;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, State};

/// Every state in which somebody must look at an item sooner or later.
pub const OPEN: [State; 8] = [
    State::Done,
    State::Reserving,
    State::Unclear,
    State::Submitted,
    State::Parked,
    State::Retryable,
    State::GivenUp,
    State::Reading,
];

/// How long one tick of a drive may begin new things, so that results are collected between submissions.
const TICK: Duration = Duration::from_secs(5);

/// The longest and the shortest sleep between two ticks.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);

/// The sleep when items are due and none can be brought on.
const BLOCKED_SLEEP: Duration = Duration::from_millis(250);

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
            return Ok(end);
        }
        if idle {
            engine.clock.sleep(idle_sleep(engine).await?).await;
        }
    }
}

/// Watches others do the work, as a stack's functions, until the intake is over or a person stops watching.
///
/// # Errors
/// Trouble that needs a person.
pub async fn follow(
    engine: &Engine,
    sha256: &str,
    mut watch: impl FnMut(&Progress, &[Gate]),
) -> Result<Drove, Trouble> {
    let mut looking = Looking { engine, sha256, elsewhere: None };
    loop {
        let begun = engine.clock.now();
        match looking.look(&mut watch).await {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => {}
            Err(Trouble::Passing(why)) => warn!(error = why, "can't be looked at now; going on"),
            Err(stop) => return Err(stop),
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
                Some(others) => others,
                None => Elsewhere::of(self.engine, &progress).await?,
            };
            let others = others.look(self.engine).await?;
            if others.open.is_empty() {
                return Ok(Some(Drove { progress, parked_elsewhere: others.parked, stopped: false }));
            }
            self.elsewhere = Some(others);
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
    async fn of(engine: &Engine, progress: &Progress) -> Result<Self, Trouble> {
        let mut others = Self::default();
        if progress.intake.cursor.repeats == 0 {
            return Ok(others);
        }
        let sha256 = &progress.intake.sha256;
        let header = engine.header(sha256).await?;
        let mut reader = LineReader::new(&*engine.objects, sha256, 0, 0);
        while let Some(raw) = reader.next().await? {
            let Reading::Job(line, _) = read_line(&raw, &header) else { continue };
            if let Some(Item::Job(job)) = engine.ledger.get(&ItemId::job(&line.key)).await?
                && job.input.intake != *sha256
            {
                others.open.push(line.key);
            }
        }
        others.open.sort_unstable();
        others.open.dedup();
        Ok(others)
    }

    /// Drops those that have ended, counting the dead letters.
    async fn look(self, engine: &Engine) -> Result<Self, Trouble> {
        let mut still = Self { open: Vec::new(), parked: self.parked };
        for key in self.open {
            match engine.ledger.get(&ItemId::job(&key)).await? {
                Some(Item::Job(job)) if !job.state.is_ended() => still.open.push(key),
                Some(Item::Job(job)) => still.parked += u64::from(job.state == State::Parked),
                _ => {}
            }
        }
        Ok(still)
    }
}
