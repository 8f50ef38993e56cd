//! The pass over one finished attempt of a batch (design, section 5): from its input, Gemini's output and what was
//! settled before, to results, rows for the next attempt, dead rows, and counts that add up.
//!
//! Pure and deterministic: the same bytes in give the same bytes out, however they are cut into blocks and on however
//! many threads the blocks are read. The caller streams blocks of whole lines in and writes what comes out:
//!
//! 1. the attempt's input: [`Rows::read`] for each block (on any thread), [`Rows::append`] in order, [`Index::of`];
//! 2. [`Pass::new`], then [`Pass::settle`] with the `settled` object of each earlier pass of the part, in any order;
//! 3. the output: [`Index::judge`] for each block (on any thread), [`Index::decide`] where rows are left undecided,
//!    [`Pass::merge`] in order, which yields lines of results;
//! 4. the input once more: [`Pass::rest`] for each block (on any thread), which yields the `retry` and `dead` lines,
//!    and [`Pass::count`] in order;
//! 5. [`Pass::finish`]: the counts, and the `settled` object of this pass.
//!
//! Memory is about 70 bytes a row, and beside it the blocks in work and some tens of megabytes at most for what rows
//! share: never a row's own size.

mod asks;
mod blames;
pub mod find;
mod index;
mod judge;
mod lines;
mod merge;
mod name;
mod quick;
mod rest;
mod rows;
mod settled;

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use super::classify::{Judgement, Verdict};

pub use index::Index;
pub use judge::{Judged, Oversized};
pub use merge::{Merged, Pass};
pub use name::{KeyName, row_id};
pub use rest::Rest;
pub use rows::Rows;
pub use settled::{Kind as SettledAs, read as read_settled};

/// What the pass must know about its attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// The number of the attempt, written into its results and dead lines.
    pub attempt: u32,
    /// No attempt is left: what would be tried again is dead, as `exhausted:…`.
    pub last: bool,
    /// The attempt was given up, and its rows are with a successor. Only successes count, also those of rows that
    /// died in an earlier pass; every other open row is counted as `retry` and is the successor's, and none is dead.
    pub late: bool,
    /// `expect` of the run's header.
    pub expect: Option<Value>,
    /// Why rows failed that have no line in the output.
    pub missing: Blame,
}

/// Why a row failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Blame {
    /// Short and stable, as [`Judgement::class`].
    pub class: String,
    /// One line for people.
    pub message: String,
    /// Whether it may be tried again, if an attempt is left.
    pub passing: bool,
}

impl Blame {
    /// A judged failure and its message.
    #[must_use]
    pub fn of(judgement: Judgement, message: String) -> Self {
        Self { class: judgement.class, message, passing: judgement.verdict != Verdict::Permanent }
    }

    /// Of a row that the output of a job doesn't mention, although the job ended well.
    #[must_use]
    pub fn missing() -> Self {
        Self { class: "missing".to_owned(), message: "the output has no line for this row".to_owned(), passing: true }
    }
}

/// What a pass found. `rows = succeeded + retry + dead + settled_before`, and
/// `lines = outcomes + duplicates + unknown_keys + without_key + unreadable + blank`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Rows of the attempt.
    pub rows: u64,
    /// Rows whose result this pass yields.
    pub succeeded: u64,
    /// Of these, rows that had died in an earlier pass.
    pub recovered: u64,
    /// Rows for the next attempt; in a late pass, rows that are left to the successor.
    pub retry: u64,
    /// Rows that will not be tried again.
    pub dead: u64,
    /// Rows that succeeded or died in earlier passes, and stay as they are.
    pub settled_before: u64,
    /// Open rows without a line in the output; they are among `retry` or `dead`.
    pub missing: u64,
    /// Lines of the output.
    pub lines: u64,
    /// Rows that have a line in the output, whatever it says.
    pub outcomes: u64,
    /// Further lines for a row that had one.
    pub duplicates: u64,
    /// Lines with a key that no row of the attempt has.
    pub unknown_keys: u64,
    /// Lines that are JSON objects without a key, or whose key is no string.
    pub without_key: u64,
    /// Lines that are no JSON object: cut, malformed, not UTF-8; and long ones that show no key.
    pub unreadable: u64,
    /// Lines of nothing but white space.
    pub blank: u64,
    /// Dead rows by class.
    pub dead_by_class: BTreeMap<String, u64>,
}

/// What a pass comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was found.
    pub counts: Counts,
    /// The `settled` object of this pass, for later passes of the part.
    pub settled: Vec<u8>,
}

/// Why a pass can't go on. None of these passes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PassError {
    /// The attempt's input is not what this program writes. A person must look at that object.
    #[error("the attempt's input is broken at byte {at}: {problem}")]
    Input {
        /// Byte of the input.
        at: u64,
        /// In words.
        problem: String,
    },
    /// The `settled` object of an earlier pass is not what this program writes. A person must look at that object.
    #[error("the list of settled rows of attempt {attempt} is broken: {problem}")]
    Settled {
        /// Of that attempt.
        attempt: u32,
        /// In words.
        problem: String,
    },
    /// The caller left out a block, or handed things over in another order: a fault of this program.
    #[error("{what} came at byte {at} instead of byte {expected}")]
    Order {
        /// Of what.
        what: &'static str,
        /// Where the block begins.
        at: u64,
        /// Where it should.
        expected: u64,
    },
    /// The caller left rows undecided, or decided them by other lines than theirs: a fault of this program.
    #[error("row at byte {at} of the input is undecided: {problem}")]
    Undecided {
        /// Where the row's input line begins.
        at: u64,
        /// In words.
        problem: String,
    },
    /// What was counted doesn't add up: a fault of this program. Nothing of this pass may count.
    #[error("the pass doesn't add up: {0}")]
    Sums(String),
}

#[cfg(test)]
mod tests;
