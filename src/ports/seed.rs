//! A ledger that one of the seed scripts wrote, before there was this program (design, section 10, `import-seed`).

use std::io;

use thiserror::Error;

use crate::domain::time::Millis;

/// Why a seed's ledger could not be read.
#[derive(Debug, Error)]
pub enum SeedError {
    /// It is no such ledger, it is changing, or it can't be read; in words that say what a person can do.
    #[error("{0}")]
    Unusable(String),
    /// What was read could not be put down on this machine for the moment.
    #[error("what was read can't be put down in a temporary folder (TMPDIR names another one): {0}")]
    Scratch(#[from] io::Error),
}

/// A row of the table `jobs`: a background interaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedJob {
    /// Its idempotency key.
    pub idem: String,
    /// What Gemini calls it, once it is known.
    pub handle: Option<String>,
    /// `reserving`, `submitted`, `done`, `consumed`, `failed`; not checked yet.
    pub status: String,
    /// When the handle was written down.
    pub submitted_at: Option<Millis>,
    /// When the row was last changed.
    pub updated_at: Option<Millis>,
}

/// A row of the table `rows`: a row of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedRow {
    /// Its key.
    pub key: String,
    /// Its request, JSON as far as the script kept to it.
    pub payload: Option<String>,
    /// `pending`, `succeeded`, `retryable`, `permanent`; not checked yet.
    pub status: String,
    /// How often it failed for a passing reason: the last failure of a row that is dead is not counted.
    pub attempts: u32,
    /// Its last error, JSON or text.
    pub last_error: Option<String>,
    /// Its result, JSON.
    pub result: Option<String>,
}

/// A row of the table `dead_letter`: a plain call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedLetter {
    /// What the script called it: any text.
    pub job_id: String,
    /// Its payload, JSON as far as the script kept to it.
    pub payload: Option<String>,
    /// The model it went to.
    pub model: Option<String>,
    /// `permanent:400`, `exhausted:503`, …
    pub class: Option<String>,
    /// What went wrong.
    pub message: Option<String>,
    /// Attempts used.
    pub attempts: u32,
    /// When it first became a dead letter.
    pub first_seen: Option<Millis>,
    /// When it last did, or was recovered.
    pub last_seen: Option<Millis>,
    /// `parked`, `recovered`; not checked yet.
    pub status: String,
}

/// What is not taken over, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// The table.
    pub table: String,
    /// The row's key, where it has one that can be told.
    pub key: Option<String>,
    /// What is wrong with it, in words.
    pub why: String,
}

/// One thing in a seed's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A dead letter. They come first: they have payloads, which a job of the same key has not.
    Letter(SeedLetter),
    /// A job.
    Job(SeedJob),
    /// A row of a batch.
    Row(SeedRow),
    /// A table, a column or a row that can't be read.
    Refused(Refused),
}

/// A seed's ledger as it was at one moment. It is never written.
pub trait SeedLedger: Send {
    /// Shows every entry, each once: dead letters, jobs, rows, each kind in the order of its table.
    ///
    /// # Errors
    /// It can't be read on, or `take` failed.
    fn read(&mut self, take: &mut dyn FnMut(Entry) -> io::Result<()>) -> Result<(), SeedError>;
}
