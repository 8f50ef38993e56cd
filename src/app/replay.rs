//! Replaying dead letters: selected from the ledger, oldest first, claimed, and tried anew (design, section 7).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::engine::{Engine, Trouble};
use crate::domain::changes::Changes;
use crate::domain::time::Millis;

/// How many dead letters a replay takes that says nothing.
pub const LIMIT: usize = 20;

/// How the rows of a run go out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsBy {
    /// As a small batch, at half the price.
    #[default]
    Batch,
    /// As plain calls, answered at once.
    Call,
}

/// Which dead letters are to be replayed, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// At most so many, oldest first.
    pub limit: usize,
    /// Whether to tell only what would be done.
    pub dry_run: bool,
    /// Only this class, or all that begin with it and a colon.
    pub error_class: Option<String>,
    /// Only these, by the ids that `dead` lists.
    pub ids: Option<Vec<String>>,
    /// Only of this batch run.
    pub run: Option<String>,
    /// Another model.
    pub model: Option<String>,
    /// Request fields in the place of their own, or besides them.
    pub request: Option<Box<RawValue>>,
    /// How rows go out again.
    pub rows_by: RowsBy,
    /// Why, for whoever wonders. A real replay needs one.
    pub reason: Option<String>,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            dry_run: true,
            error_class: None,
            ids: None,
            run: None,
            model: None,
            request: None,
            rows_by: RowsBy::default(),
            reason: None,
        }
    }
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Replayed {
    /// Dead letters that it took up.
    pub scanned: u64,
    /// Settled at once.
    pub recovered: u64,
    /// Dead letters again, at once.
    pub still_failing: u64,
    /// Tried anew; they end later.
    pub resubmitted: u64,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Each of them.
    pub items: Vec<ReplayedItem>,
}

/// One dead letter of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayedItem {
    /// As `dead` lists it.
    pub id: String,
    /// The run, for rows.
    pub run: Option<String>,
    /// The row's key.
    pub key: Option<String>,
    /// Its class, as it was.
    pub class: String,
    /// Attempts used before.
    pub attempts: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// In words, where there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What became of one dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A dry run: it would be replayed.
    WouldReplay,
    /// Settled at once.
    Recovered,
    /// A dead letter again, at once.
    StillFailing,
    /// Tried anew; it ends later.
    Resubmitted,
    /// It can't be replayed, or not now.
    Left,
}

/// Why nothing was replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// What was asked for makes no sense; in words.
    #[error("{0}")]
    Bad(String),
    /// Trouble with the ledger, the objects or Gemini.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl Replay {
    /// What it changes.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes { model: self.model.clone(), request: self.request.clone() }
    }
}

/// Replays. Nothing new is begun after `until`; what was claimed by then goes on by the next tick.
///
/// # Errors
/// A request that makes no sense; trouble. What was replayed before it is in the ledger.
pub async fn replay(_engine: &Engine, _request: &Replay, _until: Millis) -> Result<Replayed, ReplayError> {
    Err(ReplayError::Bad("not built yet".to_owned()))
}
