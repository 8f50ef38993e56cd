//! What the ledger remembers of events.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::job::{Rev, State};
use crate::domain::time::Millis;

/// How long an event that is being worked on is nobody else's.
pub const EVENT_LEASE: Duration = Duration::from_secs(30);

/// How long an event is remembered: Gemini delivers one again for 24 hours at most
/// (<https://ai.google.dev/gemini-api/docs/webhooks>).
pub const KEPT: Duration = Duration::from_secs(48 * 3600);

/// What an event came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It names this item, and work for it was put into the queue.
    Queued(String),
    /// It names this item, which has ended: there is nothing to do.
    Over(String),
    /// It names no job of ours.
    Unknown,
    /// It is not about a job.
    Other,
}

/// An event, by its id: taken first, handled when its work is in the queue. Only a handled one is a duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name in the ledger: a digest of the id that its signature vouches for.
    pub name: String,
    /// This version of the item.
    pub rev: Rev,
    /// `Taken`, then `Handled`.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// Its type, in Gemini's words.
    pub about: String,
    /// Until when it is nobody else's, while it is `Taken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Millis>,
    /// What it came to, once it is `Handled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// When it is forgotten.
    pub expires: Millis,
}

/// A handle that events named and no job had on record: counted, and found by the job whose create call brings it
/// later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// The handle. In the ledger it goes by another name: what is called `handle` there makes an item one that has it.
    #[serde(rename = "named")]
    pub handle: String,
    /// This version of the item.
    pub rev: Rev,
    /// When the latest of the events came.
    pub since: Millis,
    /// How many events named it.
    pub events: u32,
    /// When it is forgotten.
    pub expires: Millis,
}
