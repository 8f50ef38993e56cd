//! Everything the simulator knows, shared by its handlers.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::Config;
use super::accepted::{Accepted, Facts, Pace, Plan, Work, new_id};
use super::answer::Question;
use super::faults::{Fault, Faults, Phase};
use super::journal::Journal;
use super::refusal::{Kind, Refusal};
use crate::domain::job::KeyId;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;

/// How often one input came.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    sent: u64,
    accepted: u64,
}

#[derive(Debug, Default)]
struct Store {
    /// In the order of acceptance: the log.
    accepted: Vec<Arc<Accepted>>,
    by_id: HashMap<Arc<str>, Arc<Accepted>>,
    tries: HashMap<u64, Tries>,
}

impl Store {
    /// Adds work, or finds that it is there already by way of the journal.
    fn add(&mut self, work: Accepted) -> Arc<Accepted> {
        if let Some(known) = self.by_id.get(&work.id) {
            return Arc::clone(known);
        }
        let tries = self.tries.entry(work.digest.0).or_default();
        tries.accepted = tries.accepted.max(work.nth + 1);
        tries.sent = tries.sent.max(tries.accepted);
        let work = Arc::new(work);
        self.accepted.push(Arc::clone(&work));
        self.by_id.insert(Arc::clone(&work.id), Arc::clone(&work));
        work
    }
}

/// What was asked and what went wrong.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Counts {
    requests: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, u64>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) config: Config,
    pub(super) clock: Arc<dyn Clock>,
    writer: String,
    journal: Option<Journal>,
    faults: Mutex<Arc<Faults>>,
    store: Mutex<Store>,
    counts: Mutex<Counts>,
    closing: watch::Receiver<bool>,
}

/// The lock of a mutex whose holders never leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Reads the journal, if there is one.
    pub(super) fn new(mut config: Config, clock: Arc<dyn Clock>, closing: watch::Receiver<bool>) -> io::Result<Self> {
        let journal = config.journal.as_ref().map(|journal| Journal::open(&journal.path)).transpose()?;
        let writer = config.journal.as_ref().map(|journal| journal.writer.clone()).unwrap_or_default();
        let faults = Mutex::new(Arc::new(std::mem::take(&mut config.faults)));
        let (store, counts) = (Mutex::default(), Mutex::default());
        let world = Self { config, clock, writer, journal, faults, store, counts, closing };
        world.catch_up()?;
        Ok(world)
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { latency: self.config.latency, polls: self.config.polls_until_done }
    }

    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Waits, but not beyond the end of the simulator.
    pub(super) async fn pause(&self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        let mut closing = self.closing.clone();
        tokio::select! {
            () = self.clock.sleep(wait) => {}
            // An error means that the simulator itself was dropped, which is the end too.
            _closed = closing.wait_for(|closing| *closing) => {}
        }
    }

    pub(super) fn count(&self, request: &'static str) {
        *lock(&self.counts).requests.entry(request).or_default() += 1;
    }

    fn count_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut counts = lock(&self.counts);
        for fault in faults {
            *counts.faults.entry(fault).or_default() += 1;
        }
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub(super) fn faults(&self) -> Arc<Faults> {
        Arc::clone(&lock(&self.faults))
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        *lock(&self.faults) = Arc::new(faults);
    }

    /// The fault that a request meets, which is counted.
    pub(super) fn draw(&self, phase: Phase, subject: u64, tries: &[u64]) -> Option<Fault> {
        let fault = self.faults().draw(self.config.seed, phase, subject, tries);
        self.count_faults(fault);
        fault
    }

    /// The fingerprint of the request's API key, which is any but a missing, a `bad…` or a rejected one.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<KeyId, Refusal> {
        let Some(key) = headers.get("x-goog-api-key").filter(|key| !key.is_empty()) else {
            let message = "Request is missing required authentication credential. Expected the header x-goog-api-key.";
            return Err(Refusal::new(Kind::Unauthenticated, message));
        };
        let hash = Sha256::digest(key.as_bytes());
        let subject = hash.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
        if key.as_bytes().starts_with(b"bad") || self.draw(Phase::Key, subject, &[]).is_some() {
            return Err(Refusal::bad_key());
        }
        Ok(KeyId(hex::encode(hash).chars().take(12).collect()))
    }

    /// The fault that this sending of an input meets.
    pub(super) fn draw_create(&self, question: &Question) -> Option<Fault> {
        let try_number = {
            let mut store = lock(&self.store);
            let tries = store.tries.entry(question.digest.0).or_default();
            tries.sent += 1;
            tries.sent - 1
        };
        self.draw(Phase::Create, question.digest.0, &[try_number])
    }

    /// Accepts work: from here on it is paid for.
    pub(super) fn accept(&self, new: New) -> Result<Arc<Accepted>, Refusal> {
        let New { work, body, question, key, create, stored } = new;
        let digest = question.digest;
        let nth = {
            let mut store = lock(&self.store);
            let tries = store.tries.entry(digest.0).or_default();
            tries.accepted += 1;
            tries.accepted - 1
        };
        let plan = Plan { create, ..self.plan(&work, &question, nth) };
        let id = new_id(self.config.seed, &self.writer, digest, nth);
        let work = Accepted::from(Facts { id, work, body, digest, nth, at: self.now(), key, plan, stored });
        if let Some(journal) = &self.journal {
            journal.append(&work).map_err(|error| {
                tracing::error!(%error, "simulator: the journal can't be written, so nothing was accepted");
                Refusal::new(Kind::Internal, "The simulator's journal can't be written.")
            })?;
        }
        self.count_faults([plan.course, plan.outcome].into_iter().flatten());
        Ok(lock(&self.store).add(work))
    }

    /// What will go wrong with work from here on.
    fn plan(&self, work: &Work, question: &Question, nth: u64) -> Plan {
        let faults = self.faults();
        let draw = |phase| faults.draw(self.config.seed, phase, question.digest.0, &[nth]);
        let json = |fault: &Fault| *fault != Fault::BadJson || question.wants_json();
        let outcome = draw(Phase::Outcome).filter(json);
        match work {
            Work::Interaction { background } => Plan {
                create: None,
                hidden: draw(Phase::Hidden),
                course: draw(Phase::Course).filter(|_| *background),
                outcome,
            },
            // The others are ends of interactions; a call that fails is refused at once.
            Work::Call { .. } => Plan {
                outcome: outcome.filter(|fault| {
                    matches!(fault, Fault::EmptyAnswer | Fault::Incomplete | Fault::Blocked | Fault::BadJson)
                }),
                ..Plan::default()
            },
        }
    }

    /// The refusal that a request meets while an interaction is hidden.
    pub(super) fn hiding(&self, work: &Accepted) -> Option<Refusal> {
        let fault = work.plan.hidden?;
        let at_first = self.now().since(work.at) < self.config.hidden;
        let refusal = match fault {
            Fault::Get404Forever => not_found(&work.id),
            Fault::Get404 if at_first => not_found(&work.id),
            Fault::Get403 if at_first => {
                Refusal::new(Kind::PermissionDenied, "You do not have permission to access the interaction.")
            }
            _ => return None,
        };
        self.count_faults([fault]);
        Some(refusal)
    }

    /// The interaction of that id, which may have been accepted by another process on the same journal.
    pub(super) async fn find(self: &Arc<Self>, id: &str) -> Result<Arc<Accepted>, Refusal> {
        let known = || lock(&self.store).by_id.get(id).cloned();
        let mut found = known();
        if found.is_none() {
            self.refresh().await?;
            found = known();
        }
        found.filter(|work| !work.gone()).ok_or_else(|| not_found(id))
    }

    /// Reads what other processes have accepted.
    pub(super) async fn refresh(self: &Arc<Self>) -> Result<(), Refusal> {
        if self.journal.is_none() {
            return Ok(());
        }
        let world = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || world.catch_up()).await;
        read.map_err(io::Error::other).flatten().map_err(|error| {
            tracing::error!(%error, "simulator: the journal can't be read");
            Refusal::new(Kind::Internal, "The simulator's journal can't be read.")
        })
    }

    fn catch_up(&self) -> io::Result<()> {
        if let Some(journal) = &self.journal {
            for work in journal.news()? {
                lock(&self.store).add(work);
            }
        }
        Ok(())
    }

    /// How much was accepted, and at most `limit` of it from position `after` on.
    pub(super) fn log(&self, after: usize, limit: usize) -> (usize, Vec<Arc<Accepted>>) {
        let store = lock(&self.store);
        let page = store.accepted.iter().skip(after).take(limit).cloned().collect();
        (store.accepted.len(), page)
    }
}

fn not_found(id: &str) -> Refusal {
    Refusal::new(Kind::NotFound, format!("Interaction '{id}' was not found."))
}

/// Work that is about to be accepted.
#[derive(Debug)]
pub(super) struct New {
    pub(super) work: Work,
    pub(super) body: Box<[u8]>,
    pub(super) question: Question,
    pub(super) key: KeyId,
    /// What will become of the create's answer.
    pub(super) create: Option<Fault>,
    pub(super) stored: bool,
}
