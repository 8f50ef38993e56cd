//! What every part of the program works with: the ports, the settings, and writing a job under its rev.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error;
use tracing::warn;

use super::letters::Sweeps;
use super::lines::Headers;
use super::settings::Settings;
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, Rev};
use crate::domain::moves::Now;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::gemini::Gemini;
use crate::ports::handover::Handover;
use crate::ports::ids::Ids;
use crate::ports::ledger::{CreateError, Ledger, LedgerError, ReplaceError};
use crate::ports::objects::{ObjectError, Objects};
use crate::ports::queue::Queue;

/// How often a busy ledger is asked again at once.
const BUSY_TRIES: u32 = 5;

/// Why work could not go on. What was under way stays in the ledger, for the next tick.
#[derive(Debug, Clone, Error)]
pub enum Trouble {
    /// A person must act first: a rejected key, billing, a full disk. Everything stops.
    #[error("{0}")]
    NeedsPerson(String),
    /// Passing: the next tick goes on.
    #[error("{0}")]
    Passing(String),
}

impl From<LedgerError> for Trouble {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Busy(why) => Self::Passing(why),
            LedgerError::NeedsPerson(why) => Self::NeedsPerson(why),
        }
    }
}

impl From<ObjectError> for Trouble {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Busy(why) => Self::Passing(why),
            ObjectError::NeedsPerson(why) => Self::NeedsPerson(why),
            // What the ledger points at is gone: nothing the program does brings it back.
            ObjectError::NotFound(name) => Self::NeedsPerson(format!("the object {name} is missing")),
        }
    }
}

/// The ports and settings of one process.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Items.
    pub ledger: Arc<dyn Ledger>,
    /// Intakes, results, answers.
    pub objects: Arc<dyn Objects>,
    /// The remote side.
    pub gemini: Arc<dyn Gemini>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
    /// Where work is handed over that takes longer than a tick has; none: it is done here.
    pub work_queue: Option<Arc<dyn Queue>>,
    /// Work that others left for this process to do: that of the events which came. None: somebody else does it.
    pub left_work: Option<Arc<dyn Queue>>,
    /// The messages that stand for dead letters: what people look at, and replay from with other tools.
    pub dead_letters: Arc<dyn Queue>,
    /// When this process is ended from outside, whatever it is doing; none: never.
    pub ends: Option<Millis>,
    /// Who waits for results.
    pub handover: Arc<dyn Handover>,
    /// Settings.
    pub settings: Settings,
    /// Headers of intakes read before.
    pub headers: Headers,
    /// When the queue of dead letters was last swept.
    pub sweeps: Sweeps,
    /// Set when a person wants to stop: nothing new is begun, what is under way ends.
    pub stopping: Arc<AtomicBool>,
}

impl Engine {
    /// What a move needs to know, at this moment.
    #[must_use]
    pub fn now(&self) -> Now<'_> {
        Now { at: self.clock.now(), fraction: self.ids.fraction(), policy: &self.settings.policy }
    }

    /// Whether nothing new may be begun.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// A fresh rev.
    #[must_use]
    pub fn rev(&self) -> Rev {
        Rev(self.ids.token())
    }

    /// Adds an item. A busy ledger is asked again: the own rev, written before without telling, is recognized.
    ///
    /// # Errors
    /// `Exists` with the item in the way.
    pub async fn create(&self, item: &Item) -> Result<(), CreateError> {
        let mut patience = Patience::default();
        loop {
            match self.ledger.create(item).await {
                Err(CreateError::Ledger(LedgerError::Busy(why))) if patience.lasts() => {
                    patience.wait(self, &item.id(), &why).await;
                }
                other => return other,
            }
        }
    }

    /// Replaces an item under the rev `read`, with a fresh one. A busy ledger is asked again, as in
    /// [`Engine::create`].
    ///
    /// # Errors
    /// `Stale` with the stored item when somebody else changed it first.
    pub async fn replace(&self, read: &Rev, mut item: Item) -> Result<Item, ReplaceError> {
        item.set_rev(self.rev());
        let mut patience = Patience::default();
        loop {
            match self.ledger.replace(read, &item).await {
                Ok(()) => return Ok(item),
                Err(ReplaceError::Ledger(LedgerError::Busy(why))) if patience.lasts() => {
                    patience.wait(self, &item.id(), &why).await;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Changes a job as it was read. None: somebody else changed it first, and this change is not made.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn change(&self, job: &Job, change: impl FnOnce(&mut Job, Now<'_>)) -> Result<Option<Job>, Trouble> {
        self.change_if(job, |job, now| {
            change(job, now);
            true
        })
        .await
    }

    /// Changes a job as it was read. `change` answers whether it fits. None: it doesn't, or somebody else changed the
    /// job first, and this change is not made.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn change_if(
        &self,
        job: &Job,
        change: impl FnOnce(&mut Job, Now<'_>) -> bool,
    ) -> Result<Option<Job>, Trouble> {
        let mut next = job.clone();
        if !change(&mut next, self.now()) {
            return Ok(None);
        }
        match self.replace(&job.rev, Item::Job(next)).await {
            Ok(Item::Job(job)) => Ok(Some(job)),
            Ok(_) | Err(ReplaceError::Stale(_)) => Ok(None),
            Err(ReplaceError::Ledger(error)) => Err(error.into()),
        }
    }

    /// Changes a job whatever has become of it meanwhile: on a stale rev the stored job is taken and `change` judges
    /// it anew. `change` answers whether there is something to write. Returns the job as it is stored in the end.
    ///
    /// # Errors
    /// Trouble with the ledger, or a job that is not there any more.
    pub async fn settle(&self, job: Job, change: impl Fn(&mut Job, Now<'_>) -> bool) -> Result<Job, Trouble> {
        let mut stored = job;
        loop {
            let mut next = stored.clone();
            if !change(&mut next, self.now()) {
                return Ok(stored);
            }
            match self.replace(&stored.rev, Item::Job(next)).await {
                Ok(Item::Job(job)) => return Ok(job),
                Err(ReplaceError::Stale(Some(found))) => match *found {
                    Item::Job(job) => stored = job,
                    other => return Err(lost(&other.id())),
                },
                Ok(other) => return Err(lost(&other.id())),
                Err(ReplaceError::Stale(None)) => return Err(lost(&Item::Job(stored).id())),
                Err(ReplaceError::Ledger(error)) => return Err(error.into()),
            }
        }
    }

    /// Changes an intake whatever has become of it meanwhile, as [`Engine::settle`] does a job.
    ///
    /// # Errors
    /// Trouble with the ledger, or an intake that is not there any more.
    pub async fn settle_intake(
        &self,
        mut intake: Intake,
        change: impl Fn(&mut Intake, Now<'_>) -> bool,
    ) -> Result<Intake, Trouble> {
        loop {
            let read = intake.rev.clone();
            let id = ItemId::intake(&intake.sha256);
            if !change(&mut intake, self.now()) {
                return Ok(intake);
            }
            match self.replace(&read, Item::Intake(intake)).await {
                Ok(Item::Intake(stored)) => return Ok(stored),
                Err(ReplaceError::Stale(Some(found))) => match *found {
                    Item::Intake(found) => intake = found,
                    other => return Err(lost(&other.id())),
                },
                Ok(_) | Err(ReplaceError::Stale(None)) => return Err(lost(&id)),
                Err(ReplaceError::Ledger(error)) => return Err(error.into()),
            }
        }
    }

    /// Runs `work` while the lease that `job` holds is renewed every third of its length, so that a holder that is
    /// merely slow keeps it. Returns the job as it was last written here: when the lease was lost meanwhile its rev
    /// is stale, and every later write with it is refused.
    pub async fn hold<T>(&self, mut job: Job, work: impl Future<Output = T>) -> (Job, T) {
        let mut work = std::pin::pin!(work);
        let third = job.lease_length(&self.settings.policy) / 3;
        let mut lost = false;
        loop {
            tokio::select! {
                outcome = &mut work => return (job, outcome),
                () = self.clock.sleep(third), if !lost => {
                    match self.renew(&job).await {
                        Some(renewed) => job = renewed,
                        None => lost = true,
                    }
                }
            }
        }
    }

    /// None: the lease is somebody else's. A change that somebody made beside it (the handle of a late holder) costs
    /// nobody the lease.
    async fn renew(&self, job: &Job) -> Option<Job> {
        let holder = job.lease.as_ref()?.holder.clone();
        match self.settle(job.clone(), |job, now| job.renew(&holder, now)).await {
            Ok(stored) => stored.lease.as_ref().is_some_and(|lease| lease.holder == holder).then_some(stored),
            Err(trouble) => {
                warn!(job.key = %job.key, error = %trouble, "the lease could not be renewed; trying again");
                Some(job.clone())
            }
        }
    }

    /// Whether something that may take so long can be begun, and written down, before this process is ended.
    #[must_use]
    pub fn has_time_for(&self, work: Duration) -> bool {
        self.ends.is_none_or(|end| end.since(self.clock.now()) > work)
    }

    /// How long until `at`; zero when it has passed.
    #[must_use]
    pub fn until(&self, at: Millis) -> Duration {
        at.since(self.clock.now())
    }
}

/// A few more tries with a busy ledger, a little later each time.
#[derive(Debug, Default)]
struct Patience(u32);

impl Patience {
    const fn lasts(&self) -> bool {
        self.0 < BUSY_TRIES
    }

    async fn wait(&mut self, engine: &Engine, id: &ItemId, why: &str) {
        warn!(item.id = %id, error = why, "the ledger is busy; asking again");
        engine.clock.sleep(Duration::from_millis(50 << self.0)).await;
        self.0 += 1;
    }
}

fn lost(id: &ItemId) -> Trouble {
    Trouble::NeedsPerson(format!(
        "the ledger item {id} has vanished or changed its kind: is something else writing there?"
    ))
}
