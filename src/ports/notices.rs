//! Notices to people: what they would not look for by themselves (design, section 7).

use std::fmt;

use async_trait::async_trait;
use thiserror::Error;

/// Why a notice was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoticeError {
    /// Busy or out of reach for now. It may have been sent or not.
    #[error("the notice could not be sent now: {0}")]
    Busy(String),
    /// A person must act: no such topic, no permission.
    #[error("{0}")]
    NeedsPerson(String),
}

/// Somebody who passes notices on to whoever wants them.
#[async_trait]
pub trait Notices: fmt::Debug + Send + Sync {
    /// Passes one on. It may arrive twice when it was tried again. `subject` is one line, of which a medium may cut what
    /// it has no room for; `text` is plain text of some kilobytes at most.
    async fn tell(&self, subject: &str, text: &str) -> Result<(), NoticeError>;
}
