//! How a command ends.

use std::process::ExitCode;

use thiserror::Error;

use crate::app::engine::Trouble;
use crate::app::land::LandError;
use crate::app::replay::ReplayError;
use crate::ports::webhook_keys::KeysError;

/// A command that did what it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well: 0.
    Done,
    /// Something is a dead letter: 3.
    Parked,
    /// A person stopped it: 130, as a shell says of a program that SIGINT ended.
    Interrupted,
}

impl Exit {
    pub(super) fn code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Parked => ExitCode::from(3),
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

/// Why a command could not do what it was asked to. Its text is for people.
#[derive(Debug, Error)]
pub enum Stop {
    /// Bad use: nothing was begun. 2.
    #[error("{0}")]
    Usage(String),
    /// A person must mend something first. 1.
    #[error("{0}")]
    Person(String),
}

impl Stop {
    pub(super) fn code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Person(_) => ExitCode::FAILURE,
        }
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::NeedsPerson(why) => Self::Person(why),
            Trouble::Passing(why) => Self::Person(format!("{why}\nThis passes by itself: try again.")),
        }
    }
}

impl From<ReplayError> for Stop {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Bad(why) => Self::Usage(why),
            ReplayError::Trouble(trouble) => trouble.into(),
        }
    }
}

impl From<KeysError> for Stop {
    fn from(error: KeysError) -> Self {
        match error {
            KeysError::NeedsPerson(why) => Self::Person(why),
            KeysError::Busy(why) => Self::Person(format!("{why}\nThis passes by itself: try again.")),
        }
    }
}

impl From<LandError> for Stop {
    fn from(error: LandError) -> Self {
        match error {
            LandError::Unusable(why) => Self::Usage(why),
            LandError::Gone => Self::Usage(error.to_string()),
            LandError::Trouble(trouble) => trouble.into(),
        }
    }
}
