//! A handle: what Gemini calls one attempt of a job.

use serde::{Deserialize, Serialize};

use super::{KeyId, is_zero};
use crate::domain::time::Millis;

/// What has become of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Its remote job may still finish: it is polled.
    Live,
    /// Its answer is the job's result.
    Won,
    /// Its remote job was seen to have failed or ended without a usable answer.
    Ended,
    /// Given up (expired, cancelled, not found, past its deadline); looked at again after 24 h and 48 h.
    GivenUp,
}

impl Fate {
    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Won => "won",
            Self::Ended => "ended",
            Self::GivenUp => "given up",
        }
    }
}

/// What Gemini calls a job, and what was last seen of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// The interaction id. Opaque.
    pub id: String,
    /// The attempt that made it, from 1.
    pub attempt: u32,
    /// The API key that made it: another one may not see it.
    pub key: KeyId,
    /// When it was written down.
    pub at: Millis,
    /// When its attempt is given up.
    pub deadline: Millis,
    /// How many looks in a row did not end its being looked at: the wait between two looks grows with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u32,
    /// Since when Gemini has answered 403 or 404 for it, without an answer of another kind between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_since: Option<Millis>,
    /// What has become of it.
    pub fate: Fate,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up_at: Option<Millis>,
    /// Of a given-up one: how many of the later looks (24 h, 48 h) have been made. Of a live one: how many looks
    /// have stayed without an answer since its deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub looks: u32,
}

/// A handle that an event named for a create in doubt. It becomes a [`Handle`] when a look shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The handle.
    pub id: String,
    /// The nonce that came with it.
    pub nonce: String,
    /// When the event came.
    pub at: Millis,
    /// How many looks in a row did not show it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u32,
    /// When the job would be due but for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Millis>,
}
