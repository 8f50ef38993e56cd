//! An intake: one immutable JSONL object that work is taken from; its ledger item has the cursor (design, section 4).

use serde::{Deserialize, Serialize};

use super::job::{Lease, Mode, Rev, State};
use super::time::Millis;

/// The ledger item of an intake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intake {
    /// sha256 of its bytes, 64 hex digits: its name.
    pub sha256: String,
    /// This version of the item.
    pub rev: Rev,
    /// `Reading` while lines wait, then `Read`.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When its next lines may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// Who takes lines from it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The file's name as it was first handed in.
    pub file: String,
    /// Bytes of the object.
    pub bytes: u64,
    /// Lines that hold something: every line but blank ones and the header. Counted when it landed.
    pub lines: u64,
    /// When it landed.
    pub landed_at: Millis,
    /// Whether its lines go to more than one model or mode: then a closed gate puts single jobs aside instead of
    /// holding up the lines behind them.
    #[serde(default)]
    pub mixed: bool,
    /// The mode that whoever handed it in named, for lines that name none, as its header would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Whether some of its lines are plain calls, each of which may take minutes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calls: bool,
    /// The command that each of its results is handed on to, whichever process collects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_result: Option<String>,
    /// What it is as a run, when it was handed over in batch mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Why a person cancelled it: its remaining lines become `discarded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<String>,
    /// How far it was read.
    pub cursor: Cursor,
}

/// An intake that goes out as a batch run (design, section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its key: the first 32 hex digits of the intake's sha256.
    pub key: String,
    /// The model of every row.
    pub model: String,
    /// Attempts a row may use.
    pub max_attempts: u32,
    /// How long one attempt may take, in seconds.
    pub deadline_s: u64,
    /// Parts that it was cut into so far, numbered from 1.
    pub parts: u32,
    /// Why its next parts wait for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Classes for which a person has let it go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub let_go: Vec<String>,
}

/// The class of a run that is held because it was taken over from elsewhere; no row died of it.
pub const HELD_BY_IMPORT: &str = "import:rows";

/// Why a run waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The class of which too many of its rows died, or [`HELD_BY_IMPORT`].
    pub class: String,
    /// What went wrong with one of them, or why it is held.
    pub message: String,
    /// Since when.
    pub since: Millis,
}

/// The key of a run, from its intake's sha256.
#[must_use]
pub fn run_key(sha256: &str) -> String {
    sha256.chars().take(32).collect()
}

/// How far an intake was read, and what its lines so far have become. `taken = jobs + repeats + bad_lines`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    /// Bytes before the next line to take.
    pub offset: u64,
    /// Number of the last line before it, from 1; 0 at the start.
    pub line: u64,
    /// Lines that are jobs of this intake.
    pub jobs: u64,
    /// Lines whose job was there already, from an earlier line or another intake.
    pub repeats: u64,
    /// Lines that no job could be made of.
    pub bad_lines: u64,
}

impl Cursor {
    /// Lines behind the cursor that hold something.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.jobs + self.repeats + self.bad_lines
    }
}
