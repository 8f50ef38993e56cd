//! What a failure means for the job that met it: the verdict table of the design, section 6.

use std::time::Duration;

use super::failure::Failure;

/// Where the failure was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// A create call was refused: a 429 is the whole queue's matter.
    OnCreate,
    /// The work itself failed, or a plain call did.
    InWork,
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Passing: try again under the cap.
    Retryable,
    /// Trying again would fail again: park.
    Permanent,
    /// The whole queue's matter, and it passes by itself: close the gate, give the attempt back.
    Queue,
    /// The whole queue's matter, and only a person can mend it (a rejected key, billing): close the gate,
    /// give the attempt back, say so.
    Operator,
}

/// When it may be tried again, if the answer says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// After this long.
    After(Duration),
    /// A per-day quota: at the next midnight Pacific.
    NextPacificMidnight,
}

/// A judged failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What to do.
    pub verdict: Verdict,
    /// Short and stable: `permanent:400`, `blocked:SAFETY`, `retryable:503`, `unknown`, `queue:429`, `operator:key`.
    pub class: String,
    /// When Gemini names a time.
    pub delay: Option<Delay>,
}

/// Judges a failure. A code decides before a status word, a status word before message text.
#[must_use]
pub fn classify(failure: &Failure, met: Met) -> Judgement {
    unimplemented!("{failure:?} {met:?}")
}

/// The class at the cap.
#[must_use]
pub fn exhausted(class: &str) -> String {
    unimplemented!("{class}")
}
