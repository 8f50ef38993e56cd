//! Work that was accepted, and so would have been paid for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::answer::Digest;
use super::faults::{Fault, hash};
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// An interaction.
    Interaction {
        /// Whether the create answered before the work was done.
        background: bool,
    },
    /// A `generateContent` call of that model. Nothing of it can be asked for later.
    Call {
        /// From the path.
        model: String,
    },
}

/// The faults that were drawn when it was accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// What became of the create's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create: Option<Fault>,
    /// Whether it is hidden at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hidden: Option<Fault>,
    /// What it shows while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) course: Option<Fault>,
    /// How it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Fault>,
}

impl Plan {
    /// All of them.
    pub(super) fn faults(&self) -> impl Iterator<Item = Fault> {
        [self.create, self.hidden, self.course, self.outcome].into_iter().flatten()
    }
}

/// How long interactions run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) latency: Duration,
    pub(super) polls: u32,
}

/// Where an interaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Running, and seen so by that many GETs before.
    Running(u32),
    /// Ended by itself, as planned.
    Ended,
    /// Cancelled by a request at that time.
    Cancelled(Millis),
}

#[derive(Debug, Default)]
struct Progress {
    /// GETs of any outcome.
    asked: u64,
    /// GETs that saw it running.
    polled: u32,
    cancelled: Option<Millis>,
    gone: bool,
}

/// One piece of accepted work. The request is kept as it came; the answer is made when it is asked for.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) id: Arc<str>,
    pub(super) work: Work,
    pub(super) body: Box<[u8]>,
    pub(super) digest: Digest,
    /// How many of the same input were accepted before.
    pub(super) nth: u64,
    pub(super) at: Millis,
    pub(super) key: KeyId,
    pub(super) plan: Plan,
    progress: Mutex<Progress>,
}

/// What is known of work when it is accepted.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) id: Arc<str>,
    pub(super) work: Work,
    pub(super) body: Box<[u8]>,
    pub(super) digest: Digest,
    pub(super) nth: u64,
    pub(super) at: Millis,
    pub(super) key: KeyId,
    pub(super) plan: Plan,
    /// Whether it can be asked for later.
    pub(super) stored: bool,
}

impl From<Facts> for Accepted {
    fn from(facts: Facts) -> Self {
        let Facts { id, work, body, digest, nth, at, key, plan, stored } = facts;
        let progress = Mutex::new(Progress { gone: !stored, ..Progress::default() });
        Self { id, work, body, digest, nth, at, key, plan, progress }
    }
}

impl Accepted {
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
    pub(super) fn asked(&self) -> u64 {
        self.progress().asked
    }

    /// Where it stands, without any effect.
    pub(super) fn standing(&self, pace: Pace, now: Millis) -> Standing {
        self.stands(&self.progress(), pace, now)
    }

    /// Where it stands for a GET, which counts when it finds it running.
    pub(super) fn poll(&self, pace: Pace, now: Millis) -> Standing {
        let mut progress = self.progress();
        let standing = self.stands(&progress, pace, now);
        if matches!(standing, Standing::Running(_)) {
            progress.polled = progress.polled.saturating_add(1);
        }
        standing
    }

    fn stands(&self, progress: &Progress, pace: Pace, now: Millis) -> Standing {
        match (progress.cancelled, &self.work) {
            (Some(at), _) => Standing::Cancelled(at),
            (None, Work::Interaction { background: true })
                if progress.polled < pace.polls || now.since(self.at) < pace.latency =>
            {
                Standing::Running(progress.polled)
            }
            _ => Standing::Ended,
        }
    }

    /// Cancels it if it is running. False when it has ended, by itself or by an earlier cancel.
    pub(super) fn cancel(&self, pace: Pace, now: Millis) -> bool {
        let mut progress = self.progress();
        let running = matches!(self.stands(&progress, pace, now), Standing::Running(_));
        if running {
            progress.cancelled = Some(now);
        }
        running
    }

    /// Whether it was deleted or never stored.
    pub(super) fn gone(&self) -> bool {
        self.progress().gone
    }

    /// Deletes it.
    pub(super) fn delete(&self) {
        self.progress().gone = true;
    }

    /// One of `among` things, always the same for the same seed.
    pub(super) fn variant<T: Copy>(&self, seed: u64, among: &[T]) -> Option<T> {
        let count = u64::try_from(among.len()).ok()?;
        let place = hash(seed, "variant", self.digest.0, &[self.nth]).checked_rem(count)?;
        among.get(usize::try_from(place).ok()?).copied()
    }
}

/// An id in the form of Gemini's: `v1_` and base64url text, one in eight long. Opaque, and different for every
/// input, every repetition of it and every `writer`.
pub(super) fn new_id(seed: u64, writer: &str, digest: Digest, nth: u64) -> Arc<str> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let word = |part| hash(seed, writer, digest.0, &[nth, part]);
    let words = if word(0).is_multiple_of(8) { 17 } else { 5 };
    let mut id = String::from("v1_Ch");
    for part in 1..=words {
        let mut bits = word(part);
        for _ in 0..10 {
            let letter = usize::try_from(bits & 63).ok().and_then(|place| ALPHABET.get(place));
            id.extend(letter.map(|letter| char::from(*letter)));
            bits >>= 6;
        }
    }
    id.into()
}
