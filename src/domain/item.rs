//! What the ledger holds: jobs, intakes, parts, gates and dead letters, each under its own id and rev.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::dead::{DeadGroup, DeadRow};
use super::gate::Gate;
use super::intake::Intake;
use super::job::{InputRef, Job, JobKey, Rev, State};
use super::letter::Letter;
use super::moves::Now;
use super::part::{Part, PartId};
use super::time::Millis;
use super::webhook::{Event, Stray};

/// What kind of thing an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A job.
    Job,
    /// An intake.
    Intake,
    /// A gate.
    Gate,
    /// A line that no job could be made of, kept as a dead letter.
    BadLine,
    /// A part of a run.
    Part,
    /// A row of a run that will not be tried again by itself.
    DeadRow,
    /// Many such rows of one class.
    DeadGroup,
    /// An event that Gemini sent.
    Event,
    /// A handle that events named and no job has on record.
    Stray,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Job,
        Self::Intake,
        Self::Gate,
        Self::BadLine,
        Self::Part,
        Self::DeadRow,
        Self::DeadGroup,
        Self::Event,
        Self::Stray,
    ];

    /// The word used in ids and in the ledger.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Intake => "intake",
            Self::Gate => "gate",
            Self::BadLine => "line",
            Self::Part => "part",
            Self::DeadRow => "row",
            Self::DeadGroup => "rows",
            Self::Event => "event",
            Self::Stray => "stray",
        }
    }

    /// The kind with that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The id of an item: its kind, a slash, and its name within the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(pub String);

impl ItemId {
    /// The item of a job.
    #[must_use]
    pub fn job(key: &JobKey) -> Self {
        Self(format!("job/{key}"))
    }

    /// The item of an intake, by the sha256 of its bytes.
    #[must_use]
    pub fn intake(sha256: &str) -> Self {
        Self(format!("intake/{sha256}"))
    }

    /// The item of a gate, by its name.
    #[must_use]
    pub fn gate(name: &str) -> Self {
        Self(format!("gate/{name}"))
    }

    /// The item of a bad line: its intake and its number name it, since its bytes can name nothing.
    #[must_use]
    pub fn bad_line(intake: &str, line: u64) -> Self {
        Self(format!("line/{intake}/{line}"))
    }

    /// The item of a part of a run.
    #[must_use]
    pub fn part(run: &str, part: &PartId) -> Self {
        Self(format!("part/{run}/{part}"))
    }

    /// The item of a dead row, by its name.
    #[must_use]
    pub fn dead_row(id: &str) -> Self {
        Self(format!("row/{id}"))
    }

    /// The item of a run's dead rows of one class.
    #[must_use]
    pub fn dead_group(run: &str, class: &str) -> Self {
        Self(format!("rows/{run}/{class}"))
    }

    /// The item of an event, by its name.
    #[must_use]
    pub fn event(name: &str) -> Self {
        Self(format!("event/{name}"))
    }

    /// The item of a handle that no job has on record: by a digest, since a handle may be of any length.
    #[must_use]
    pub fn stray(handle: &str) -> Self {
        let digest = hex::encode(Sha256::digest(handle.as_bytes()));
        Self(format!("stray/{}", digest.get(..32).unwrap_or(&digest)))
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A line that no job could be made of. It is a dead letter from the start; its text stays in the intake object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// This version of the item.
    pub rev: Rev,
    /// `Parked`, later `Recovered` or `Discarded`.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When somebody must next look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// Where its text lies.
    pub input: InputRef,
    /// The file's name as it was handed in.
    pub file: String,
    /// `bad_line:…`.
    pub class: String,
    /// What is wrong, with the column or the field.
    pub message: String,
    /// The beginning of its text, for people; bytes that aren't UTF-8 are replaced.
    pub excerpt: String,
    /// When it was found.
    pub first_seen: Millis,
    /// Its messages in the queue of dead letters.
    #[serde(default, skip_serializing_if = "Letter::is_blank")]
    pub letter: Letter,
}

/// One item of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A job.
    Job(Job),
    /// An intake.
    Intake(Intake),
    /// A gate.
    Gate(Gate),
    /// A bad line.
    BadLine(BadLine),
    /// A part of a run.
    Part(Box<Part>),
    /// A dead row.
    DeadRow(DeadRow),
    /// Many of them.
    DeadGroup(DeadGroup),
    /// An event.
    Event(Event),
    /// A handle that events named.
    Stray(Stray),
}

impl Item {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> ItemId {
        match self {
            Self::Job(job) => ItemId::job(&job.key),
            Self::Intake(intake) => ItemId::intake(&intake.sha256),
            Self::Gate(gate) => ItemId::gate(&gate.name),
            Self::BadLine(bad) => ItemId::bad_line(&bad.input.intake, bad.input.line),
            Self::Part(part) => ItemId::part(&part.run, &part.part),
            Self::DeadRow(row) => ItemId::dead_row(&row.id),
            Self::DeadGroup(group) => ItemId::dead_group(&group.run, &group.class),
            Self::Event(event) => ItemId::event(&event.name),
            Self::Stray(stray) => ItemId::stray(&stray.handle),
        }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Job(_) => Kind::Job,
            Self::Intake(_) => Kind::Intake,
            Self::Gate(_) => Kind::Gate,
            Self::BadLine(_) => Kind::BadLine,
            Self::Part(_) => Kind::Part,
            Self::DeadRow(_) => Kind::DeadRow,
            Self::DeadGroup(_) => Kind::DeadGroup,
            Self::Event(_) => Kind::Event,
            Self::Stray(_) => Kind::Stray,
        }
    }

    /// This version of it.
    #[must_use]
    pub const fn rev(&self) -> &Rev {
        match self {
            Self::Job(job) => &job.rev,
            Self::Intake(intake) => &intake.rev,
            Self::Gate(gate) => &gate.rev,
            Self::BadLine(bad) => &bad.rev,
            Self::Part(part) => &part.rev,
            Self::DeadRow(row) => &row.rev,
            Self::DeadGroup(group) => &group.rev,
            Self::Event(event) => &event.rev,
            Self::Stray(stray) => &stray.rev,
        }
    }

    /// The same item as another version.
    pub fn set_rev(&mut self, rev: Rev) {
        match self {
            Self::Job(job) => job.rev = rev,
            Self::Intake(intake) => intake.rev = rev,
            Self::Gate(gate) => gate.rev = rev,
            Self::BadLine(bad) => bad.rev = rev,
            Self::Part(part) => part.rev = rev,
            Self::DeadRow(row) => row.rev = rev,
            Self::DeadGroup(group) => group.rev = rev,
            Self::Event(event) => event.rev = rev,
            Self::Stray(stray) => stray.rev = rev,
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> State {
        match self {
            Self::Job(job) => job.state,
            Self::Intake(intake) => intake.state,
            Self::Gate(_) => State::Gate,
            Self::BadLine(bad) => bad.state,
            Self::Part(part) => part.state,
            Self::DeadRow(row) => row.state,
            Self::DeadGroup(group) => group.state,
            Self::Event(event) => event.state,
            Self::Stray(_) => State::Unmatched,
        }
    }

    /// Since when it has been in that state.
    #[must_use]
    pub const fn since(&self) -> Millis {
        match self {
            Self::Job(job) => job.since,
            Self::Intake(intake) => intake.since,
            Self::Gate(gate) => gate.since,
            Self::BadLine(bad) => bad.since,
            Self::Part(part) => part.since,
            Self::DeadRow(row) => row.since,
            Self::DeadGroup(group) => group.since,
            Self::Event(event) => event.since,
            Self::Stray(stray) => stray.since,
        }
    }

    /// When somebody must next look at it.
    #[must_use]
    pub const fn due_at(&self) -> Option<Millis> {
        match self {
            Self::Job(job) => job.due_at,
            Self::Intake(intake) => intake.due_at,
            Self::Gate(_) | Self::Event(_) | Self::Stray(_) => None,
            Self::BadLine(bad) => bad.due_at,
            Self::Part(part) => part.due_at,
            Self::DeadRow(row) => row.due_at,
            Self::DeadGroup(group) => group.due_at,
        }
    }

    /// The intake whose line or part it is; none for intakes, gates and events.
    #[must_use]
    pub fn intake(&self) -> Option<&str> {
        match self {
            Self::Job(job) => Some(&job.input.intake),
            Self::BadLine(bad) => Some(&bad.input.intake),
            Self::Part(part) => Some(&part.intake),
            Self::DeadRow(row) => Some(&row.intake),
            Self::DeadGroup(group) => Some(&group.intake),
            Self::Intake(_) | Self::Gate(_) | Self::Event(_) | Self::Stray(_) => None,
        }
    }

    /// When it is forgotten, being of no more use then; none: never.
    #[must_use]
    pub const fn expires(&self) -> Option<Millis> {
        match self {
            Self::Event(event) => Some(event.expires),
            Self::Stray(stray) => Some(stray.expires),
            _ => None,
        }
    }

    /// Every handle on record, by which the item can be found.
    pub fn handles(&self) -> impl Iterator<Item = &str> {
        let handles = match self {
            Self::Job(job) => job.handles.as_slice(),
            _ => &[],
        };
        handles.iter().map(|handle| handle.id.as_str())
    }

    /// Its messages in the queue of dead letters, for what can be one.
    #[must_use]
    pub const fn letter(&self) -> Option<&Letter> {
        match self {
            Self::Job(job) => Some(&job.letter),
            Self::BadLine(bad) => Some(&bad.letter),
            Self::DeadRow(row) => Some(&row.letter),
            Self::DeadGroup(group) => Some(&group.letter),
            Self::Intake(_) | Self::Gate(_) | Self::Part(_) | Self::Event(_) | Self::Stray(_) => None,
        }
    }

    /// Changes what it remembers of its messages, and when it is due. False: it is no dead letter now, or `change` has
    /// nothing to write.
    pub fn change_letter(&mut self, now: Now<'_>, change: impl FnOnce(&mut Letter) -> bool) -> bool {
        if self.state() != State::Parked {
            return false;
        }
        match self {
            Self::Job(job) => {
                let news = change(&mut job.letter);
                job.schedule(now);
                news
            }
            Self::BadLine(BadLine { letter, due_at, since, .. })
            | Self::DeadRow(DeadRow { letter, due_at, since, .. })
            | Self::DeadGroup(DeadGroup { letter, due_at, since, .. }) => {
                let news = change(letter);
                *due_at = Some(letter.due(*since));
                news
            }
            Self::Intake(_) | Self::Gate(_) | Self::Part(_) | Self::Event(_) | Self::Stray(_) => false,
        }
    }

    /// How often it was sent again although an earlier create may have been accepted.
    #[must_use]
    pub const fn possible_duplicates(&self) -> u32 {
        match self {
            Self::Job(job) => job.possible_duplicates,
            _ => 0,
        }
    }
}
