//! A batch that was accepted, and all of them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::accepted::Pace;
use super::super::faults::Fault;
use super::super::files::shelf::Shelf;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// The faults that were drawn when a batch was accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Plan {
    pub(super) create: Option<Fault>,
    /// Whether a GET does not find it at first.
    pub(super) hidden: Option<Fault>,
    /// Whether a list does not show it at first.
    pub(super) unlisted: Option<Fault>,
    pub(super) course: Option<Fault>,
    pub(super) outcome: Option<Fault>,
    pub(super) cancel: Option<Fault>,
    pub(super) output: Option<Fault>,
}

impl Plan {
    fn all(self) -> [Option<Fault>; 7] {
        [self.create, self.hidden, self.unlisted, self.course, self.outcome, self.cancel, self.output]
    }
}

/// What is known of a batch when it is accepted: a line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Record {
    /// 36 lower-case letters and digits.
    pub(in super::super) id: String,
    pub(in super::super) display_name: String,
    pub(in super::super) model: String,
    /// The uploaded file. None for inline requests.
    pub(in super::super) file: Option<String>,
    /// What the faults are drawn by.
    pub(in super::super) subject: u64,
    /// How many of the same subject were accepted before.
    pub(in super::super) nth: u64,
    pub(in super::super) at: Millis,
    pub(in super::super) key: KeyId,
    pub(in super::super) rows: u64,
    pub(super) failed: u64,
    /// Of the input.
    pub(super) bytes: u64,
    pub(super) answer_bytes: usize,
    pub(super) seed: u64,
    pub(super) plan: Plan,
    /// How many rows will meet which fault.
    pub(in super::super) row_faults: BTreeMap<Fault, u64>,
    /// As it was sent.
    pub(in super::super) webhook_config: Option<Value>,
}

impl Record {
    /// What its input counts against the limit of enqueued tokens: about four bytes each.
    pub(super) fn tokens(&self) -> u64 {
        self.bytes.div_ceil(4)
    }

    /// What will go wrong with it, but for its rows.
    pub(in super::super) fn faults(&self) -> impl Iterator<Item = Fault> + use<> {
        self.plan.all().into_iter().flatten()
    }
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Pending,
    Running,
    /// Ended by itself, as planned; seen so by that many GETs before, if its output's name is withheld at first.
    Ended(u32),
    /// Cancelled by a request at that time.
    Cancelled(Millis),
    Expired,
}

#[derive(Debug, Default)]
struct Progress {
    asked: u64,
    polled: u32,
    downloads: u64,
    /// The next download is answered 503.
    refuse_download: bool,
}

/// A batch at work.
#[derive(Debug)]
pub(in super::super) struct Job {
    pub(in super::super) record: Record,
    progress: Mutex<Progress>,
}

/// How long batches run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub(super) pace: Pace,
    /// None: never.
    pub(super) expiry: Option<Duration>,
    pub(super) now: Millis,
}

impl Job {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a GET, and says how many there were before.
    pub(super) fn ask(&self) -> u64 {
        let mut progress = self.progress();
        progress.asked += 1;
        progress.asked - 1
    }

    /// How many GETs there were.
    pub(in super::super) fn asked(&self) -> u64 {
        self.progress().asked
    }

    /// Counts a download, and says how many there were before, and whether this one was to be refused.
    pub(super) fn ask_download(&self) -> (u64, bool) {
        let mut progress = self.progress();
        progress.downloads += 1;
        (progress.downloads - 1, std::mem::take(&mut progress.refuse_download))
    }

    pub(super) fn refuse_next_download(&self) {
        self.progress().refuse_download = true;
    }

    /// Where it stands for a list, which has no effect.
    pub(super) fn standing(&self, shelf: &Shelf, course: Course) -> io::Result<Standing> {
        let cancelled = shelf.read(&self.record.id, CANCELLED)?;
        let standing = self.stands(&self.progress(), cancelled, course);
        self.remembered(shelf, standing)
    }

    /// Where it stands for a GET, which counts.
    pub(super) fn poll(&self, shelf: &Shelf, course: Course) -> io::Result<Standing> {
        let cancelled = shelf.read(&self.record.id, CANCELLED)?;
        let standing = {
            let mut progress = self.progress();
            let standing = self.stands(&progress, cancelled, course);
            if matches!(standing, Standing::Pending | Standing::Running) {
                progress.polled = progress.polled.saturating_add(1);
            }
            standing
        };
        let standing = self.remembered(shelf, standing)?;
        if let (Standing::Ended(seen), Some(Fault::BatchUnnamed)) = (standing, self.record.plan.course) {
            shelf.write(&self.record.id, SEEN, &serde_json::to_vec(&seen.saturating_add(1))?)?;
        }
        Ok(standing)
    }

    /// With how often the end was seen, by any process: kept for the one fault that depends on it.
    fn remembered(&self, shelf: &Shelf, standing: Standing) -> io::Result<Standing> {
        match (standing, self.record.plan.course) {
            (Standing::Ended(_), Some(Fault::BatchUnnamed)) => {
                Ok(Standing::Ended(shelf.read(&self.record.id, SEEN)?.unwrap_or(0)))
            }
            _ => Ok(standing),
        }
    }

    fn stands(&self, progress: &Progress, cancelled: Option<Millis>, course: Course) -> Standing {
        let age = course.now.since(self.record.at);
        let stuck = self.record.plan.course == Some(Fault::BatchStuck);
        let lasts = |expiry| stuck || course.pace.latency >= expiry;
        match (cancelled, course.expiry) {
            (Some(at), _) if self.record.plan.cancel.is_none() => return Standing::Cancelled(at),
            // Once seen ended, it is not seen to expire.
            (_, Some(expiry)) if age >= expiry && (lasts(expiry) || progress.polled < course.pace.polls) => {
                return Standing::Expired;
            }
            _ => {}
        }
        let over = progress.polled >= course.pace.polls && age >= course.pace.latency;
        match (stuck, over) {
            (false, true) => Standing::Ended(0),
            (true, _) => Standing::Pending,
            (false, false) if progress.polled == 0 => Standing::Pending,
            (false, false) => Standing::Running,
        }
    }

    /// Cancels it, for every process that shares the folder.
    pub(super) fn cancel(&self, shelf: &Shelf, now: Millis) -> io::Result<()> {
        shelf.write(&self.record.id, CANCELLED, &serde_json::to_vec(&now)?)
    }

    /// Whether it was deleted.
    pub(super) fn gone(&self, shelf: &Shelf) -> bool {
        shelf.path(&self.record.id, GONE).exists()
    }

    pub(super) fn delete(&self, shelf: &Shelf) -> io::Result<()> {
        shelf.write(&self.record.id, GONE, b"")
    }
}

const CANCELLED: &str = "cancelled";
const SEEN: &str = "seen";
const GONE: &str = "gone";

/// All batches, in the order of acceptance.
#[derive(Debug, Default)]
pub(in super::super) struct Jobs {
    all: Vec<Arc<Job>>,
    by_id: HashMap<String, Arc<Job>>,
}

impl Jobs {
    /// Adds a batch, or finds that it is there already, by way of the journal. Says which.
    pub(in super::super) fn add(&mut self, record: Record) -> (Arc<Job>, bool) {
        if let Some(known) = self.by_id.get(&record.id) {
            return (Arc::clone(known), false);
        }
        let id = record.id.clone();
        let job = Arc::new(Job { record, progress: Mutex::default() });
        self.all.push(Arc::clone(&job));
        self.by_id.insert(id, Arc::clone(&job));
        (job, true)
    }

    pub(in super::super) fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.by_id.get(id).cloned()
    }

    pub(in super::super) fn all(&self) -> Vec<Arc<Job>> {
        self.all.clone()
    }
}
