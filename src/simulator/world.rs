//! Everything the simulator knows, shared by its handlers.

mod dice;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use self::dice::Counts;
use super::Config;
use super::accepted::{Accepted, Facts, Pace, Plan, Work, new_id};
use super::answer::Question;
use super::batches::{Job, Jobs, Record, Row};
use super::content::Shape;
use super::faults::{Fault, Faults, Phase};
use super::files::shelf::Shelf;
use super::journal::{Journal, News};
use super::refusal::{Kind, Refusal};
use super::webhooks::Hub;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;

/// How often one input came.
#[derive(Debug, Clone, Copy, Default)]
struct Tries {
    sent: u64,
    accepted: u64,
}

/// A call, and what it was answered with.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Called {
    pub(super) at: i64,
    pub(super) input_digest: Option<String>,
    /// None: the connection was closed without an answer.
    pub(super) status: Option<u16>,
    /// The delay that the answer named.
    pub(super) delay: Option<String>,
}

/// An entry of the log.
#[derive(Debug, Clone)]
pub(super) enum Paid {
    Work(Arc<Accepted>),
    Batch(Arc<Job>),
}

#[derive(Debug, Default)]
struct Store {
    /// In the order of acceptance: the log.
    accepted: Vec<Paid>,
    by_id: HashMap<Arc<str>, Arc<Accepted>>,
    jobs: Jobs,
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
        self.accepted.push(Paid::Work(Arc::clone(&work)));
        self.by_id.insert(Arc::clone(&work.id), Arc::clone(&work));
        work
    }

    fn add_batch(&mut self, record: Record) -> Arc<Job> {
        self.accepted_at_least(record.subject, record.nth + 1);
        let (job, new) = self.jobs.add(record);
        if new {
            self.accepted.push(Paid::Batch(Arc::clone(&job)));
        }
        job
    }

    fn accepted_at_least(&mut self, subject: u64, times: u64) {
        let tries = self.tries.entry(subject).or_default();
        tries.accepted = tries.accepted.max(times);
        tries.sent = tries.sent.max(tries.accepted);
    }
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
    calls: Mutex<Vec<Called>>,
    shelf: Arc<Shelf>,
    /// Locks by name, for what only one request at a time may do.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Held by whoever accepts a batch.
    accepting: Mutex<()>,
    hub: Hub,
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
        let beside = config.journal.as_ref().map(|journal| journal.path.as_path());
        let shelf = Arc::new(Shelf::open(beside, config.seed, &writer)?);
        let faults = Mutex::new(Arc::new(std::mem::take(&mut config.faults)));
        let (store, counts, calls) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (locks, accepting) = (Mutex::default(), Mutex::default());
        let hub = Hub::new(config.seed)?;
        let world = Self {
            config,
            clock,
            writer,
            journal,
            faults,
            store,
            counts,
            calls,
            shelf,
            locks,
            accepting,
            hub,
            closing,
        };
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
        tokio::select! {
            () = self.clock.sleep(wait) => {}
            () = self.closed() => {}
        }
    }

    /// Returns when the simulator ends.
    pub(super) async fn closed(&self) {
        let mut closing = self.closing.clone();
        // An error means that the simulator itself was dropped, which is the end too.
        let _closed = closing.wait_for(|closing| *closing).await;
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.hub
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
        self.draw(Phase::Create, question.digest.0, &[self.sent(question.digest.0)])
    }

    /// The same for a call, which can meet others too.
    pub(super) fn draw_call(&self, question: &Question) -> Option<Fault> {
        let sent = self.sent(question.digest.0);
        let draw = |phase| self.draw(phase, question.digest.0, &[sent]);
        draw(Phase::Create).or_else(|| draw(Phase::Call))
    }

    /// Writes down what a call was answered with.
    pub(super) fn note_call(&self, called: Called) {
        lock(&self.calls).push(called);
    }

    /// The calls so far, from position `after` on.
    pub(super) fn calls(&self, after: usize, limit: usize) -> (usize, Vec<Called>) {
        let calls = lock(&self.calls);
        (calls.len(), calls.iter().skip(after).take(limit).cloned().collect())
    }

    /// Counts a sending of a thing, and says how many there were before.
    pub(super) fn sent(&self, subject: u64) -> u64 {
        let mut store = lock(&self.store);
        let tries = store.tries.entry(subject).or_default();
        tries.sent += 1;
        tries.sent - 1
    }

    /// Counts an acceptance of each thing, and says how many of it there were before.
    pub(super) fn accepted_before(&self, subjects: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut store = lock(&self.store);
        let count = |subject| {
            let tries = store.tries.entry(subject).or_default();
            tries.accepted += 1;
            tries.accepted - 1
        };
        subjects.into_iter().map(count).collect()
    }

    /// Accepts work: from here on it is paid for.
    pub(super) fn accept(&self, new: New) -> Result<Arc<Accepted>, Refusal> {
        let New { work, body, question, key, create, stored } = new;
        let digest = question.digest;
        let nth = self.accepted_before([digest.0]).pop().unwrap_or(0);
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
            // The others are ends of interactions, or errors of rows; a call that fails is refused at once.
            Work::Call { .. } => {
                let in_row = draw(Phase::Row).filter(|fault| *fault != Fault::RowBadJson || question.wants_json());
                let shapes = |fault: &Fault| Shape::of(Some(*fault)) != Shape::Whole;
                Plan { outcome: outcome.filter(shapes).or_else(|| in_row.filter(shapes)), ..Plan::default() }
            }
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
            for news in journal.news()? {
                match news {
                    News::Work(work) => drop(lock(&self.store).add(work)),
                    News::Batch(record) => self.learn(record)?,
                }
            }
        }
        Ok(())
    }

    /// Adds a batch of the journal, with its rows, unless it is there already.
    fn learn(&self, record: Record) -> io::Result<()> {
        if lock(&self.store).jobs.get(&record.id).is_some() {
            return Ok(());
        }
        for row in Row::all(&self.shelf.path(&record.id, "rows"))? {
            let row = row?;
            lock(&self.store).accepted_at_least(row.digest, row.nth + 1);
        }
        drop(lock(&self.store).add_batch(record));
        Ok(())
    }

    /// Writes a batch down. From here on it is paid for.
    pub(super) fn note_batch(&self, record: &Record) -> io::Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.append_batch(record))
    }

    /// Adds a batch that was written down, and counts its faults.
    pub(super) fn add_batch(&self, record: Record) -> Arc<Job> {
        self.count_faults(record.faults().filter(|fault| fault.phase().counts_when_accepted()));
        for (fault, times) in &record.row_faults {
            self.count_fault(*fault, *times);
        }
        lock(&self.store).add_batch(record)
    }

    pub(super) fn batch(&self, id: &str) -> Option<Arc<Job>> {
        lock(&self.store).jobs.get(id)
    }

    /// All batches, oldest first.
    pub(super) fn all_batches(&self) -> Vec<Arc<Job>> {
        lock(&self.store).jobs.all()
    }

    /// How many GETs there were of an interaction, or of a batch by its name; None when this process has neither.
    pub(super) fn gets(&self, about: &str) -> Option<u64> {
        let store = lock(&self.store);
        match about.strip_prefix("batches/") {
            Some(id) => store.jobs.get(id).map(|job| job.asked()),
            None => store.by_id.get(about).map(|work| work.asked()),
        }
    }

    pub(super) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(&self.shelf)
    }

    pub(super) fn writer(&self) -> &str {
        &self.writer
    }

    /// Until it is dropped, nobody else accepts a batch.
    pub(super) fn accepting(&self) -> MutexGuard<'_, ()> {
        lock(&self.accepting)
    }

    /// The lock of that name.
    pub(super) fn lock_of(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(lock(&self.locks).entry(name.to_owned()).or_default())
    }

    /// What it guarded is over.
    pub(super) fn forget_lock(&self, name: &str) {
        lock(&self.locks).remove(name);
    }

    /// How much was accepted, and at most `limit` of it from position `after` on.
    pub(super) fn log(&self, after: usize, limit: usize) -> (usize, Vec<Paid>) {
        let store = lock(&self.store);
        let page = store.accepted.iter().skip(after).take(limit).cloned().collect();
        (store.accepted.len(), page)
    }
}

/// Does work with files where it may block.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
    done.map_err(|error| Refusal::disk(&error))
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
