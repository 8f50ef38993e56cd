//! An interaction as Gemini returns it, its bytes kept unchanged.

use super::failure::Failure;

/// Where an interaction stands. Open: what this program doesn't know is `Running` until the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// `queued`, `in_progress`, `requires_continuation`, `idle`, or a word this program doesn't know.
    Running,
    /// `completed`.
    Completed,
    /// `failed`.
    Failed,
    /// `cancelled`.
    Cancelled,
    /// `incomplete` or `budget_exceeded`.
    Truncated,
    /// `requires_action`.
    RequiresAction,
}

/// An interaction.
#[derive(Debug, Clone)]
pub struct Interaction {
    /// Gemini's own bytes, valid JSON.
    pub raw: Box<serde_json::value::RawValue>,
    /// Its id.
    pub id: String,
    /// `status` as it came.
    pub status: String,
}

impl Interaction {
    /// Reads an interaction: a JSON object with a non-empty string `id`; unknown fields pass.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        unimplemented!("{body:?}")
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        unimplemented!()
    }

    /// Why it failed: its `errors`, else its last step's error, else a failure without a code.
    #[must_use]
    pub fn failure(&self) -> Failure {
        unimplemented!()
    }

    /// Its `usage`, unchanged; `null` when it has none.
    #[must_use]
    pub fn usage(&self) -> Box<serde_json::value::RawValue> {
        unimplemented!()
    }
}
