//! Dead rows of a run: their items in the ledger (design, sections 5 and 7).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::job::{Rev, State};
use super::letter::Letter;
use super::part::PartId;
use super::time::Millis;

/// How many dead rows of one class a run may have as dead letters of their own; more make one grouped dead letter.
pub const ROWS_OF_A_CLASS: u64 = 1000;

/// How many bytes of a row's key its item keeps.
pub const KEY_BYTES: usize = 256;

/// A row that will not be tried again by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadRow {
    /// Its name: of run, key and attempt.
    pub id: String,
    /// This version of the item.
    pub rev: Rev,
    /// `Parked`; `Retryable` while a replay of it is under way; `Recovered` or `Discarded` in the end.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When somebody must next look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// The intake: sha256 of its bytes.
    pub intake: String,
    /// The run.
    pub run: String,
    /// The part in which it died.
    pub part: PartId,
    /// The attempt of that part in which it died.
    pub attempt: u32,
    /// Attempts it has used.
    pub attempts: u32,
    /// Its key; at most [`KEY_BYTES`].
    pub key: String,
    /// Its whole line of the object of dead rows: the object, and where in it.
    pub at: (String, u64, u64),
    /// Its class.
    pub class: String,
    /// What went wrong.
    pub message: String,
    /// When it became a dead letter.
    pub first_seen: Millis,
    /// How often a person had it replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// The part that its last replay put it into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_in: Option<PartId>,
    /// Its messages in the queue of dead letters.
    #[serde(default, skip_serializing_if = "Letter::is_blank")]
    pub letter: Letter,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The dead rows of one class of a run, when there are too many for a dead letter each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadGroup {
    /// This version of the item.
    pub rev: Rev,
    /// `Parked`, later `Recovered` or `Discarded`.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When somebody must next look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// The intake: sha256 of its bytes.
    pub intake: String,
    /// The run.
    pub run: String,
    /// Their class.
    pub class: String,
    /// What went wrong with one of them.
    pub message: String,
    /// How many rows without a dead letter of their own, by part and attempt (`3.1`).
    pub rows: BTreeMap<String, u64>,
    /// When it became a dead letter.
    pub first_seen: Millis,
    /// How often a person had it replayed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// The parts that its last replay put its rows into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replayed_in: Vec<PartId>,
    /// Rows that a replay has taken out of `rows`: how many, and the part that they are in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taken: BTreeMap<String, (u64, PartId)>,
    /// Its messages in the queue of dead letters.
    #[serde(default, skip_serializing_if = "Letter::is_blank")]
    pub letter: Letter,
}

impl DeadRow {
    /// It is a dead letter again, or still, after a replay that came to nothing.
    pub fn park_again(&mut self, now: Millis) {
        self.state = State::Parked;
        self.since = now;
        self.due_at = Some(now);
        self.letter.changed();
    }
}

impl DeadGroup {
    /// How many rows without a dead letter of their own.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rows.values().sum()
    }
}
