//! Replaying jobs: each is claimed by one write, under the rev that was read, and then goes the ordinary way at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use tracing::{info, warn};

use super::Outcome;
use super::changed::keep;
use super::plan::{Plan, plan};
use crate::app::batch::hold::wake_run;
use crate::app::batch::items;
use crate::app::batch::look::look;
use crate::app::batch::replay::How;
use crate::app::call::call_on;
use crate::app::collect::step_one;
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::{Gates, IN_A_ROW};
use crate::app::submit::try_again;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Fate, Job, Mode, State};
use crate::domain::moves::{Again, Now};
use crate::domain::time::Millis;

/// How long to wait between two looks at what others are doing.
const MOMENT: Duration = Duration::from_millis(500);

/// What became of one dead letter, and why where there is something to say.
pub(super) type Became = (Outcome, Option<String>);

/// What became of one for now.
enum Step {
    Ended(Became),
    /// Somebody else brings it on, and may be through with it soon.
    HandedOver(ItemId),
}

/// The jobs of one replay.
pub(super) struct Jobs<'a> {
    engine: &'a Engine,
    gates: Gates<'a>,
    how: &'a How,
    until: Millis,
    /// How often a person's help was needed, and for what first.
    troubles: AtomicU32,
    trouble: Mutex<Option<String>>,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(engine: &'a Engine, how: &'a How, until: Millis) -> Self {
        Self { engine, gates: Gates::new(engine), how, until, troubles: AtomicU32::new(0), trouble: Mutex::default() }
    }

    /// What only a person can mend, if that came up.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replays them, a few at a time, and waits for what others bring on, until the time is over.
    pub(super) async fn replay(&self, items: Vec<Item>) -> Vec<(ItemId, Became)> {
        let steps = stream::iter(items).map(|item| async move {
            let id = item.id();
            let step = match self.is_over() {
                Some(why) => Step::Ended((Outcome::Left, Some(why))),
                None => self.begin(item).await,
            };
            (id, step)
        });
        let steps: Vec<(ItemId, Step)> = steps.buffer_unordered(self.engine.settings.concurrency).collect().await;
        let (mut became, mut elsewhere) = (Vec::new(), Vec::new());
        for (id, step) in steps {
            match step {
                Step::Ended(ended) => became.push((id, ended)),
                Step::HandedOver(id) => elsewhere.push(id),
            }
        }
        became.extend(self.watch(elsewhere).await);
        became
    }

    /// Why nothing more is begun, if so.
    fn is_over(&self) -> Option<String> {
        if self.troubles.load(Ordering::Relaxed) >= IN_A_ROW {
            return Some("not begun, since a person must mend something first".to_owned());
        }
        let over = self.engine.is_stopping() || self.engine.clock.now() >= self.until;
        over.then(|| "not begun, since the time was over: replay it again".to_owned())
    }

    async fn begin(&self, item: Item) -> Step {
        let planned = plan(self.engine, &item, &self.how.changes).await;
        let result = match (planned, item) {
            (Ok(Plan::Leave(why)), _) => Ok(Step::Ended((Outcome::Left, Some(why)))),
            (Ok(plan), Item::Job(job)) => match plan {
                Plan::Look => self.look_at_attempt(job).await.map(Step::Ended),
                Plan::HandOn => self.hand_on(job).await.map(Step::Ended),
                _ => self.send(job).await,
            },
            (Ok(_), other) => Ok(Step::Ended((Outcome::Left, Some(format!("it is {}", other.state()))))),
            (Err(trouble), _) => Err(trouble),
        };
        match result {
            Ok(step) => step,
            Err(trouble) => {
                self.note(&trouble);
                Step::Ended((Outcome::Left, Some(trouble.to_string())))
            }
        }
    }

    fn note(&self, trouble: &Trouble) {
        if let Trouble::NeedsPerson(why) = trouble {
            self.troubles.fetch_add(1, Ordering::Relaxed);
            self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| why.clone());
        }
    }

    /// Claims a job and tries it anew.
    async fn send(&self, job: Job) -> Result<Step, Trouble> {
        let engine = self.engine;
        let header = engine.header(&job.input.intake).await?;
        let granted = header.max_attempts.unwrap_or(engine.settings.max_attempts);
        let changes = keep(engine, &self.how.changes).await?;
        let elsewhere = job.mode == Mode::Call && engine.work_queue.is_some();
        let again = Again {
            granted,
            reason: &self.how.reason,
            model: self.how.changes.model.as_deref(),
            changes: changes.as_deref(),
        };
        let claimed = self.claim(job, |job, now| job.replay(&again, now)).await?;
        let job = match claimed {
            Ok(job) => job,
            Err(became) => return Ok(Step::Ended(became)),
        };
        info!(job.key = %job.key, job.replays = job.replays, job.attempts = job.attempts, "replayed");
        let id = ItemId::job(&job.key);
        let tried = match job.mode {
            // A call is handed over, if there is somebody who has more time.
            Mode::Call => call_on(engine, &self.gates, job).await.map(drop),
            _ => try_again(engine, &self.gates, job, self.until).await.map(drop),
        };
        // It is claimed whatever comes now: the next tick goes on.
        match tried {
            Ok(()) if elsewhere => Ok(Step::HandedOver(id)),
            Ok(()) => self.became(&id, None).await.map(Step::Ended),
            Err(trouble) => {
                self.note(&trouble);
                self.became(&id, Some(trouble.to_string())).await.map(Step::Ended)
            }
        }
    }

    /// Claims a job whose result is durable, and hands that on.
    async fn hand_on(&self, job: Job) -> Result<Became, Trouble> {
        match self.claim(job, |job, now| job.replay_hand_over(&self.how.reason, now)).await? {
            Ok(job) => self.step(job).await,
            Err(became) => Ok(became),
        }
    }

    /// Brings a claimed job on, and says what became of it.
    async fn step(&self, job: Job) -> Result<Became, Trouble> {
        let id = ItemId::job(&job.key);
        let why = match step_one(self.engine, Item::Job(job)).await {
            Ok(_) => None,
            Err(trouble) => {
                self.note(&trouble);
                Some(trouble.to_string())
            }
        };
        self.became(&id, why).await
    }

    /// An attempt of a run: what its batch has brought is taken, if it has brought anything. Nothing is sent.
    async fn look_at_attempt(&self, job: Job) -> Result<Became, Trouble> {
        let engine = self.engine;
        let attempt = items::attempt_of(&job)?.clone();
        let (id, intake) = (ItemId::job(&job.key), job.input.intake.clone());
        let became = if job.could_not_be_consumed() {
            match self.claim(job, |job, now| job.replay_hand_over(&self.how.reason, now)).await? {
                Ok(job) => self.step(job).await?,
                Err(became) => return Ok(became),
            }
        } else {
            let may_bring = |fate| matches!(fate, Fate::Live | Fate::GivenUp);
            let handles = job.handles.iter().filter(|handle| may_bring(handle.fate));
            let handles: Vec<String> = handles.map(|handle| handle.id.clone()).collect();
            look(engine, &job, &handles).await?;
            self.became(&id, None).await?
        };
        if became.0 == Outcome::StillFailing {
            let why = format!(
                "attempt {} of part {}: no output of it can be taken; cancel the run to give it up",
                attempt.number, attempt.part
            );
            return Ok((Outcome::Left, Some(why)));
        }
        let (_, run) = items::run_of(engine, &intake).await?;
        wake_run(engine, &run).await?;
        Ok(became)
    }

    /// Claims a job under its rev. A message that was sent about it meanwhile is no reason to leave it; another replay is.
    async fn claim(
        &self,
        read: Job,
        change: impl Fn(&mut Job, Now<'_>) -> bool,
    ) -> Result<Result<Job, Became>, Trouble> {
        let by_us = AtomicBool::new(false);
        let (replays, attempts) = (read.replays, read.attempts);
        let stored = self
            .engine
            .settle(read, |job, now| {
                let fits = (job.replays, job.attempts) == (replays, attempts) && change(job, now);
                by_us.store(fits, Ordering::Relaxed);
                fits
            })
            .await?;
        Ok(match by_us.into_inner() {
            true => Ok(stored),
            false => Err((Outcome::Left, Some(format!("somebody else took it up meanwhile: it is {}", stored.state)))),
        })
    }

    /// Waits for what was handed over, as long as there is time.
    async fn watch(&self, mut waiting: Vec<ItemId>) -> Vec<(ItemId, Became)> {
        let mut became = Vec::new();
        while !waiting.is_empty() {
            let time_is_over = self.engine.is_stopping() || self.engine.clock.now() >= self.until;
            match self.engine.ledger.get_many(&waiting).await {
                Ok(items) => {
                    for item in items.iter().filter(|item| item.state().is_ended() || time_is_over) {
                        let id = item.id();
                        waiting.retain(|waiting| *waiting != id);
                        became.push((id, outcome_of(item, None)));
                    }
                }
                Err(error) => warn!(%error, "what was handed over can't be looked at now"),
            }
            if time_is_over {
                became.extend(waiting.drain(..).map(|id| (id, (Outcome::Resubmitted, None))));
            } else if !waiting.is_empty() {
                self.engine.clock.sleep(MOMENT.min(self.engine.until(self.until))).await;
            }
        }
        became
    }

    /// What has become of it by the ledger.
    async fn became(&self, id: &ItemId, why: Option<String>) -> Result<Became, Trouble> {
        match self.engine.ledger.get(id).await {
            Ok(Some(item)) => Ok(outcome_of(&item, why)),
            Ok(None) => Err(Trouble::NeedsPerson(format!("the ledger item {id} has vanished"))),
            // It was claimed, and goes on by itself.
            Err(error) => Ok((Outcome::Resubmitted, Some(error.to_string()))),
        }
    }
}

fn outcome_of(item: &Item, why: Option<String>) -> Became {
    let Item::Job(job) = item else { return (Outcome::Left, why) };
    match job.state {
        // An attempt of a run is consumed when its part knows.
        State::Recovered | State::Consumed => (Outcome::Recovered, None),
        State::Parked => {
            let class = job.class.as_deref().unwrap_or_default();
            let told = job.message.as_deref().unwrap_or_default();
            (Outcome::StillFailing, Some(format!("{class}: {told}")))
        }
        State::Discarded => (Outcome::Left, Some("a person gave it up meanwhile".to_owned())),
        State::Retryable | State::GivenUp | State::Done if why.is_none() => {
            let class = job.class.as_deref().map(|class| format!(" ({class})")).unwrap_or_default();
            (Outcome::Resubmitted, Some(format!("it waits for its next try{class}")))
        }
        _ => (Outcome::Resubmitted, why),
    }
}
