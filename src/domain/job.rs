//! A job: one unit of work in the ledger, its states and what is remembered of it (design, sections 1 and 2).

mod handle;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::handle::{Fate, Handle, Heard};
use super::letter::Letter;
use super::part::Attempt;
use super::time::Millis;

/// How many moments an item remembers of its own past.
pub const HISTORY_LENGTH: usize = 20;

/// How many bytes of an error message an item keeps, so that it stays small whatever Gemini says.
pub const MESSAGE_BYTES: usize = 400;

/// How many bytes of a class an item keeps: some carry a word of Gemini's.
pub const CLASS_BYTES: usize = 64;

/// The name of a job for ever: the idempotency key (design, section 3), 1 to 63 of `a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobKey(pub String);

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fingerprint of an API key: the first 12 hex digits of its sha256. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub String);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fresh random token written by every change of an item; every change is conditional on the one it read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rev(pub String);

/// Which of Gemini's ways a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A background interaction.
    Interaction,
    /// A plain `generateContent` call.
    Call,
    /// One attempt of one part of a Batch API run.
    Batch,
}

impl Mode {
    /// The word used in intakes, gates and output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interaction => "interaction",
            Self::Call => "call",
            Self::Batch => "batch",
        }
    }
}

/// The state of a ledger item. The first ten are a job's (design, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Intent is written, right before the create call; its answer is awaited under the submit lease.
    Reserving,
    /// The create call may or may not have been accepted.
    Unclear,
    /// A handle is in the ledger.
    Submitted,
    /// Gemini has finished; the result is being persisted under a consume lease.
    Done,
    /// The result is durable and handed on. Closed.
    Consumed,
    /// Refused or failed for a passing reason; tried again when due.
    Retryable,
    /// The remote job expired, was cancelled, is not found or passed its deadline.
    GivenUp,
    /// Dead letter: waits for a person or a replay.
    Parked,
    /// A replay, or a late result, settled a dead letter. Closed.
    Recovered,
    /// A person gave it up or cancelled it. Closed.
    Discarded,
    /// An intake whose lines are not all taken yet.
    Reading,
    /// An intake whose every line is a job, a repeat or a bad line. Closed.
    Read,
    /// A gate; it has no life of its own.
    Gate,
    /// A part of a run whose next attempt is still to be made, or whose dead letters are.
    Waiting,
    /// A part of a run whose latest attempt is out.
    UnderWay,
    /// A part of a run whose every row is settled. Closed.
    Settled,
    /// An event that is being worked on.
    Taken,
    /// An event whose work is in the queue, or that asks for none.
    Handled,
    /// A handle that events named and no job has on record.
    Unmatched,
}

impl State {
    /// Every state of a job, in the order of the design's table.
    pub const OF_JOBS: [Self; 10] = [
        Self::Reserving,
        Self::Unclear,
        Self::Submitted,
        Self::Done,
        Self::Consumed,
        Self::Retryable,
        Self::GivenUp,
        Self::Parked,
        Self::Recovered,
        Self::Discarded,
    ];

    /// The states of intakes, gates and parts.
    pub const OF_OTHERS: [Self; 6] =
        [Self::Reading, Self::Read, Self::Gate, Self::Waiting, Self::UnderWay, Self::Settled];

    /// The states of events and what they leave. Nobody looks for them: they are found by their ids, and forgotten.
    pub const OF_EVENTS: [Self; 3] = [Self::Taken, Self::Handled, Self::Unmatched];

    /// Every state.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OF_JOBS.into_iter().chain(Self::OF_OTHERS).chain(Self::OF_EVENTS)
    }

    /// The word used in the ledger and in output; the same as in its serialized form.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reserving => "reserving",
            Self::Unclear => "unclear",
            Self::Submitted => "submitted",
            Self::Done => "done",
            Self::Consumed => "consumed",
            Self::Retryable => "retryable",
            Self::GivenUp => "given_up",
            Self::Parked => "parked",
            Self::Recovered => "recovered",
            Self::Discarded => "discarded",
            Self::Reading => "reading",
            Self::Read => "read",
            Self::Gate => "gate",
            Self::Waiting => "waiting",
            Self::UnderWay => "under_way",
            Self::Settled => "settled",
            Self::Taken => "taken",
            Self::Handled => "handled",
            Self::Unmatched => "unmatched",
        }
    }

    /// The state with that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::all().find(|state| state.word() == word)
    }

    /// Whether a job in this state has ended: consumed, parked, recovered or discarded. A parked one can still
    /// be settled by a replay or a late result.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        self.is_closed() || matches!(self, Self::Parked)
    }

    /// Whether items in this state are listed by every ledger: all but jobs and bad lines that are over for good, which
    /// may be millions, and events, which nobody looks for.
    #[must_use]
    pub const fn is_listed(self) -> bool {
        !self.is_closed() && !matches!(self, Self::Taken | Self::Handled | Self::Unmatched)
    }

    /// Whether a job in this state never changes it again.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Consumed | Self::Recovered | Self::Discarded | Self::Settled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Where a job's line lies: an intake and the place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRef {
    /// The intake: sha256 of its bytes, 64 hex digits.
    pub intake: String,
    /// Line number, from 1, counting every line of the file.
    pub line: u64,
    /// Bytes from the start of the intake object.
    pub offset: u64,
    /// Bytes of the line without its line ending.
    pub length: u64,
}

/// A time until which its holder alone may work on an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// A token of the process that holds it.
    pub holder: String,
    /// When it ends unless renewed.
    pub until: Millis,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One moment of an item's own past: time, state entered, attempt, class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment(pub Millis, pub State, pub u32, pub Option<String>);

/// One job: a line of an intake.
///
/// The whole of it is the ledger item; it stays around 1 KB because it points at its prompt instead of holding it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The idempotency key.
    pub key: JobKey,
    /// This version of the item.
    pub rev: Rev,
    /// Its state.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When somebody must next look at it; none when it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// Who alone may work on it, while it is `reserving` or `done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Its line.
    pub input: InputRef,
    /// Digest of the line's whole content: the same key with another digest is a bad line, not a repeat. Empty: it was
    /// taken over from elsewhere, and nobody knows its line ([`Job::has_no_line`]).
    pub content: String,
    /// Its mode.
    pub mode: Mode,
    /// The model, or the agent, that it goes to: the gate's name.
    pub model: String,
    /// Attempts it may use.
    pub max_attempts: u32,
    /// How long one attempt may take, in seconds.
    pub deadline_s: u64,
    /// Attempts counted when they were reserved. Never reset; given back only for a refusal of the whole queue.
    pub attempts: u32,
    /// How often its result was tried to be persisted and handed on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub consume_tries: u32,
    /// How often a person had it replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// How many of its creates may have been accepted and have brought a result besides another one: each counts
    /// once, when the job is sent again past it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub possible_duplicates: u32,
    /// Whether the latest create that wasn't refused may have been accepted and isn't known to have failed, so that
    /// the next one counts as a possible duplicate. Older ones were counted when it was sent again past them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_accepted: bool,
    /// Whether the present reservation was counted as one: a definite refusal takes it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted_duplicate: bool,
    /// Random, written with each reservation: it comes back with an event and proves whose it is.
    pub nonce: String,
    /// The nonces of earlier reservations whose create may have been accepted and brought no handle, each with its
    /// attempt, oldest first: an event can still tell what became of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<(u32, String)>,
    /// Handles that events named, with the right nonce, and no look has shown yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heard: Vec<Heard>,
    /// Every handle on record, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<Handle>,
    /// The short stable class of what last went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What last went wrong, in words; at most [`MESSAGE_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The object that keeps Gemini's raw answer when it was no success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// When it first became a dead letter: what settles it afterwards makes it `recovered`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_at: Option<Millis>,
    /// Its messages in the queue of dead letters, if it ever was one.
    #[serde(default, skip_serializing_if = "Letter::is_blank")]
    pub letter: Letter,
    /// The object with the fields that a replay puts in the place of its line's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// What it is an attempt of, in mode `batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Box<Attempt>>,
    /// The last [`HISTORY_LENGTH`] moments, oldest first.
    pub history: Vec<Moment>,
}

/// What a line asks for: the part of a job that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The idempotency key.
    pub key: JobKey,
    /// Its line.
    pub input: InputRef,
    /// Digest of the line's whole content.
    pub content: String,
    /// Its mode.
    pub mode: Mode,
    /// The model, or the agent, that it goes to.
    pub model: String,
    /// Attempts it may use.
    pub max_attempts: u32,
    /// How long one attempt may take, in seconds.
    pub deadline_s: u64,
}

impl Job {
    /// A job of which nothing was tried yet: it waits for its first attempt, and has no past.
    #[must_use]
    pub fn planned(work: Work, rev: Rev, now: Millis) -> Self {
        Self {
            key: work.key,
            rev,
            state: State::Retryable,
            since: now,
            due_at: None,
            lease: None,
            input: work.input,
            content: work.content,
            mode: work.mode,
            model: work.model,
            max_attempts: work.max_attempts,
            deadline_s: work.deadline_s,
            attempts: 0,
            consume_tries: 0,
            replays: 0,
            possible_duplicates: 0,
            maybe_accepted: false,
            counted_duplicate: false,
            nonce: String::new(),
            doubtful: Vec::new(),
            heard: Vec::new(),
            handles: Vec::new(),
            class: None,
            message: None,
            answer: None,
            parked_at: None,
            letter: Letter::default(),
            changes: None,
            batch: None,
            history: Vec::new(),
        }
    }

    /// Whether nobody knows its line: it was taken over from a ledger that kept none. It is looked at and consumed like any
    /// other, and can't be sent before its line is handed in.
    #[must_use]
    pub const fn has_no_line(&self) -> bool {
        self.content.is_empty()
    }

    /// How long one attempt may take.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_s)
    }

    /// Goes into `state` at `now`, due at `due_at`, and writes that into the history. The lease ends.
    pub fn enter(&mut self, state: State, due_at: Option<Millis>, now: Millis) {
        self.state = state;
        self.since = now;
        self.due_at = due_at;
        self.lease = None;
        self.history.push(Moment(now, state, self.attempts, self.class.clone()));
        let surplus = self.history.len().saturating_sub(HISTORY_LENGTH);
        self.history.drain(..surplus);
    }

    /// Writes down what went wrong, cut to [`MESSAGE_BYTES`] at a character's border.
    pub fn blame(&mut self, class: &str, message: &str) {
        self.class = Some(clip(class, CLASS_BYTES));
        self.message = Some(clip(message, MESSAGE_BYTES));
    }

    /// Whether another attempt may be reserved.
    #[must_use]
    pub const fn may_try_again(&self) -> bool {
        self.attempts < self.max_attempts
    }
}

/// Bytes as people can read them in a line or two, for excerpts; what isn't UTF-8 is replaced.
#[must_use]
pub fn excerpt(bytes: &[u8], limit: usize) -> String {
    let head = bytes.get(..limit.saturating_mul(2)).unwrap_or(bytes);
    clip(&String::from_utf8_lossy(head).replace(|c: char| c.is_control(), " "), limit)
}

/// `text` cut to at most `bytes` bytes at a character's border, with `…` where it was cut.
#[must_use]
pub fn clip(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut cut = text.get(..end).unwrap_or_default().to_owned();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_serialized_forms_agree() {
        for state in State::all() {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
            assert_eq!(State::from_word(state.word()), Some(state));
        }
        assert_eq!(State::from_word("failed"), None);
    }

    #[test]
    fn clipping_respects_characters_and_the_limit() {
        assert_eq!(clip("short", 10), "short");
        assert_eq!(clip("abcdefghij", 6), "abc…");
        for bytes in 3..12 {
            let cut = clip("日本語日本語", bytes);
            assert!(cut.len() <= bytes && cut.ends_with('…'), "{cut}");
        }
    }
}
