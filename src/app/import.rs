//! Taking over a ledger that a seed script wrote (design, section 10): keys, states and payloads stay, and nothing is
//! submitted by it.
//!
//! | in the file | becomes |
//! |---|---|
//! | job `submitted` or `done`, with a handle | `submitted`, due now: looked at, and consumed once it has a result |
//! | job `consumed` | `consumed`; its result stays where the script put it |
//! | job `failed` | parked, `import:failed` |
//! | job `reserving`, or `submitted` without a handle | parked, `import:no_payload`, until its line is handed in |
//! | dead letter `parked`, `recovered` | a job of mode `call` in that state, its payload its line |
//! | row `succeeded`, `permanent` | a settled row of a batch run: its result, its dead letter |
//! | row `retryable`, `pending` | an open row of that run, which is held: the row may be in a batch that is under way |
//!
//! The `jobs` table has no lines. Its jobs are judged as texts until their lines are handed in (see
//! [`Job::take_line`](crate::domain::job::Job::take_line)), which sends nothing that has a handle.
//!
//! What was in the file lies in objects that are named by the sha256 of their contents, as intakes are: each item points
//! into one. Each item is created if it isn't there, so that an import that broke off is made again, and one made twice is
//! made once. What has gone on here since stays; a handle that only the file knows is taken, since it is paid for.
//!
//! The run's intake holds the rows' keys and payloads and not their states: the same rows are the same run, and one that is
//! there whole is left as it is, whatever has become of the rows in the file.

mod jobs;
mod letters;
mod prepare;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use super::engine::{Engine, Trouble};
use super::land::source::LocalFile;
use super::land::{Contents, LandError, digest, store};
use crate::domain::extract::Expectation;
use crate::domain::job::Job;
use crate::domain::moves::Now;
use crate::domain::time::Millis;
use crate::ports::seed::{Refused, SeedError, SeedLedger};

/// Why an import broke off. What was made by then stays, and the same import goes on from it.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The ledger or the objects.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl From<LandError> for ImportError {
    fn from(error: LandError) -> Self {
        match error {
            LandError::Trouble(trouble) => trouble.into(),
            other => Trouble::NeedsPerson(other.to_string()).into(),
        }
    }
}

impl From<std::io::Error> for ImportError {
    fn from(error: std::io::Error) -> Self {
        SeedError::from(error).into()
    }
}

/// How many entries became what.
pub type Outcomes = BTreeMap<&'static str, u64>;

/// What an import came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Of the table `jobs`: `submitted`, `consumed`, `failed`, `no_payload`; `before` were here already.
    pub jobs: Outcomes,
    /// Of the table `rows`: `succeeded`, `dead`, `retryable`, `pending`, `bad_lines`; `before` were here already.
    pub rows: Outcomes,
    /// Of the table `dead_letter`: `parked`, `bad_payload`, `recovered`; `before` were here already.
    pub dead_letters: Outcomes,
    /// The run that the rows are.
    pub run: Option<String>,
    /// Whether that run is held until a person lets it go on.
    pub held: bool,
    /// Whether dead letters of that run are still to be made, which a tick does.
    pub unfinished: bool,
    /// What was not taken over, and why.
    pub refused: Vec<Refused>,
    /// Fields of dead letters' payloads that are kept and not sent.
    pub unsent: Vec<String>,
}

/// Takes over what is in `seed`, a ledger whose file people call `file`; what is written on the way lies in the folder
/// `scratch`.
///
/// # Errors
/// The file can't be read on; trouble. Made again, it goes on.
pub async fn import(
    engine: &Engine,
    mut seed: Box<dyn SeedLedger>,
    file: &str,
    scratch: &Path,
) -> Result<Imported, ImportError> {
    let folder = scratch.to_owned();
    let read = tokio::task::spawn_blocking(move || prepare::prepare(&mut *seed, &folder)).await;
    let prepared = read.map_err(|error| Trouble::NeedsPerson(format!("reading broke off: {error}")))??;
    let mut imported =
        Imported { refused: prepared.refused, unsent: prepared.unsent.into_iter().collect(), ..Imported::default() };
    // Dead letters have payloads, which a job of the same key has not.
    imported.dead_letters = letters::import(engine, &prepared.letters, scratch).await?;
    imported.jobs = jobs::import(engine, &prepared.jobs, scratch).await?;
    if let Some(rows) = prepared.rows {
        rows::import(engine, rows, file, &mut imported).await?;
    }
    Ok(imported)
}

/// Stores a file of lines as an intake's object; its sha256 and its length.
async fn stored(engine: &Engine, path: &Path) -> Result<(String, u64), ImportError> {
    let source = LocalFile(path);
    let Contents { sha256, bytes, .. } = digest(&source).await?;
    store(engine, &source, &sha256, bytes).await?;
    Ok((sha256, bytes))
}

/// The settings' `now` at another time: when it happened.
fn then(now: Now<'_>, at: Option<Millis>) -> Now<'_> {
    Now { at: at.unwrap_or(now.at).min(now.at), ..now }
}

impl Engine {
    /// What the answer to a job must be. Where nobody knows its line, any answer with a text is one.
    ///
    /// # Errors
    /// As [`Engine::line_of`].
    pub async fn expectation_of(&self, job: &Job) -> Result<Expectation, Trouble> {
        if job.has_no_line() {
            return Ok(Expectation::default());
        }
        self.line_of(job).await.map(|(_, expectation)| expectation)
    }
}
