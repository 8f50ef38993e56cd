//! The gate: per API key, model and mode, until when no new work is submitted (design, section 2).

use serde::{Deserialize, Serialize};

use super::job::{KeyId, Lease, Mode, Rev};
use super::time::Millis;

/// The name of the gate that a person closes for everything.
pub const EVERYTHING: &str = "everything";

/// A gate. Collection goes on whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// `<key id>/<mode>/<model>`, or [`EVERYTHING`].
    pub name: String,
    /// This version of the item.
    pub rev: Rev,
    /// When it was last changed.
    pub since: Millis,
    /// Closed until then; afterwards one probe may go through. None: open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// Refusals in a row that named no delay of their own: the default delay grows with them.
    #[serde(default)]
    pub refusals: u32,
    /// Why it was closed: a class such as `queue:429`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Gemini's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether only a person can mend the reason (a rejected key, billing).
    #[serde(default)]
    pub needs_person: bool,
    /// Who is probing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Lease>,
    /// A person's pause, with its reason. No expiry lifts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// The name of the gate of a key, mode and model.
#[must_use]
pub fn name(key: &KeyId, mode: Mode, model: &str) -> String {
    format!("{key}/{}/{model}", mode.word())
}
