//! What is known of one row of a run: its state, its attempts, and what became of it in each.
//!
//! Cheap for large runs: the lists of settled rows (16 bytes a row) tell where it was settled; other objects are read by
//! blocks until its line is found, and only those that must be.

mod chain;
pub(super) mod look;

use serde_json::Value;

use self::chain::Family;
use self::look::{Line, find_line, find_outcome, settled_in};
use super::origins::Origins;
use super::report::parts;
use crate::app::engine::{Engine, Trouble};
use crate::app::lines::LineReader;
use crate::app::report::every;
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{BadLine, Item, ItemId};
use crate::domain::job::{Job, State};
use crate::domain::part::{File, Part, PartId, Passed, attempt_key};
use crate::domain::pass::find::{Said, dead, said};
use crate::domain::pass::{SettledAs, row_id};

/// All about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Its state.
    pub state: RowState,
    /// The part that it is in now; none while it is in none.
    pub part: Option<PartId>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Try>,
    /// Its result.
    pub result: Option<Found>,
    /// Its dead letter, also when it was settled since.
    pub dead: Option<Letter>,
    /// Bad lines of the file that name the same key, and that nobody has settled.
    pub bad_lines: Vec<BadLine>,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// It waits for its first or its next attempt, that of a replay perhaps.
    Waiting,
    /// Its latest attempt is out.
    UnderWay,
    /// Its attempt is a dead letter: its output could not be taken, or nobody could look at it.
    Parked,
    /// It has its result.
    Succeeded,
    /// It will not be tried again by itself.
    Dead,
    /// It was dead, and has its result now.
    Recovered,
    /// A person gave it up.
    Discarded,
    /// Its line is a bad line, and no row.
    BadLine,
}

impl RowState {
    /// The word used in output.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::UnderWay => "under_way",
            Self::Parked => "parked",
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Recovered => "recovered",
            Self::Discarded => "discarded",
            Self::BadLine => "bad_line",
        }
    }
}

/// One attempt that the row was in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Which of the row's attempts it is, from 1.
    pub number: u32,
    /// The part.
    pub part: PartId,
    /// The attempt's number within the part.
    pub attempt: u32,
    /// The attempt's job; none when it isn't in the ledger yet.
    pub job: Option<Job>,
    /// What became of the row in it.
    pub end: End,
}

/// What became of a row in an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It got its result.
    Succeeded,
    /// It died.
    Died(Blame),
    /// It failed, and may be tried again.
    Failed(Blame),
    /// The attempt ended without an outcome for its rows.
    Lost(Blame),
    /// Nothing is known yet.
    Open,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    /// Short and stable.
    pub class: String,
    /// In words; empty where the class says all.
    pub message: String,
}

/// A line of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: String,
    /// Where in it the line begins.
    pub at: u64,
    /// The line.
    pub line: String,
}

/// A dead row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The id by which `show` finds it.
    pub id: ItemId,
    /// Its class and message.
    pub blame: Blame,
    /// Attempts that it used.
    pub attempts: u32,
    /// Its line of the object of dead rows.
    pub line: Found,
    /// Its ledger item.
    pub item: LetterItem,
}

/// The ledger item of a dead row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterItem {
    /// It is not made yet.
    None,
    /// Its own.
    Row(DeadRow),
    /// One for all dead rows of its class.
    Group(DeadGroup),
}

/// A pass that settled the row.
#[derive(Debug, Clone)]
pub(super) struct Settling<'a> {
    pub part: &'a Part,
    pub passed: &'a Passed,
    pub settled: SettledAs,
}

/// All about the row of that key. None: the run has no such row.
///
/// # Errors
/// Trouble with the ledger or the objects.
pub async fn story(engine: &Engine, intake: &Intake, run: &Run, key: &str) -> Result<Option<Story>, Trouble> {
    let parts = parts(engine, run).await?;
    let bad_lines = bad_lines(engine, intake, key).await?;
    let objects = &engine.objects;
    for parts in parts.chunk_by(|_, next| !next.part.is_numbered()) {
        let settlings = settled_in(objects, parts, key).await?;
        if !settlings.is_empty() || look::may_be_open_in(objects, parts, key).await? {
            let family = Family { objects, parts, settlings, key };
            return family_story(engine, intake, &family, bad_lines).await.map(Some);
        }
    }
    let state = if waits(engine, intake, key).await? {
        RowState::Waiting
    } else if bad_lines.is_empty() {
        return Ok(None);
    } else {
        RowState::BadLine
    };
    Ok(Some(Story { state, part: None, attempts: Vec::new(), result: None, dead: None, bad_lines }))
}

/// The story of a row that is in one of these parts.
async fn family_story(
    engine: &Engine,
    intake: &Intake,
    family: &Family<'_>,
    bad_lines: Vec<BadLine>,
) -> Result<Story, Trouble> {
    let with = family.parts_with_row().await?;
    let mut attempts = Vec::new();
    for part in &with {
        for sending in family.attempts_of(part).await? {
            let job = engine.ledger.get(&ItemId::job(&attempt_key(&part.run, &part.part, sending.number))).await?;
            let job = match job {
                Some(Item::Job(job)) => Some(job),
                _ => None,
            };
            let end = end_in(engine, intake, family, part, sending.number, job.as_ref()).await?;
            let (part, attempt) = (part.part.clone(), sending.number);
            attempts.push(Try { number: sending.tries, part, attempt, job, end });
        }
    }
    let result = match family.settled_as(SettledAs::Succeeded) {
        Some(settling) => Some(line_of(family, settling, File::Results).await?),
        None => None,
    };
    let dead = match family.settled_as(SettledAs::Died) {
        Some(settling) => Some(letter(engine, family, settling).await?),
        None => None,
    };
    let part = with.last();
    let state = match (&result, &dead) {
        (Some(_), Some(_)) => RowState::Recovered,
        (Some(_), None) => RowState::Succeeded,
        (None, Some(letter)) if letter.state() == State::Discarded => RowState::Discarded,
        // What a replay gave up with its run is dead as before.
        (None, Some(_)) if !part.is_some_and(|part| family.is_open_in(part) && !part.state.is_closed()) => {
            RowState::Dead
        }
        (None, None) if part.is_some_and(|part| part.state.is_closed()) => RowState::Discarded,
        (None, _) if part.is_some_and(|part| part.state == State::Parked) => RowState::Parked,
        (None, _) if part.is_some_and(|part| part.is_out()) => RowState::UnderWay,
        (None, _) => RowState::Waiting,
    };
    Ok(Story { state, part: part.map(|part| part.part.clone()), attempts, result, dead, bad_lines })
}

impl Letter {
    fn state(&self) -> State {
        match &self.item {
            LetterItem::None => State::Parked,
            LetterItem::Row(row) => row.state,
            LetterItem::Group(group) => group.state,
        }
    }
}

/// The line of a row in a file of the pass that settled it.
async fn line_of(family: &Family<'_>, settling: &Settling<'_>, file: File) -> Result<Found, Trouble> {
    let object = settling.passed.object(&settling.part.run, &settling.part.part, file);
    match find_line(family.objects, &object, family.key).await? {
        Some(Line { at, line }) => Ok(Found { object, at, line }),
        None => Err(Trouble::NeedsPerson(format!(
            "the ledger says that the row {} is in {object}, and it isn't. Please report this.",
            family.key
        ))),
    }
}

async fn letter(engine: &Engine, family: &Family<'_>, settling: &Settling<'_>) -> Result<Letter, Trouble> {
    let run = &settling.part.run;
    let line = line_of(family, settling, File::Dead).await?;
    let (blame, attempts) = {
        let dead = dead(&line.line).map_err(|why| super::lines::broken(&line.object, line.at, &why))?;
        (Blame { class: dead.class.into_owned(), message: dead.message.into_owned() }, dead.attempts)
    };
    let own = row_id(run, family.key, settling.passed.attempt);
    let origins = Origins::of(engine, settling.part).await?;
    let own = ItemId::dead_row(origins.get(family.key).unwrap_or(&own));
    let group = ItemId::dead_group(run, &blame.class);
    let (id, item) = match engine.ledger.get(&own).await? {
        Some(Item::DeadRow(row)) => (own, LetterItem::Row(row)),
        _ => match engine.ledger.get(&group).await? {
            Some(Item::DeadGroup(found)) => (group, LetterItem::Group(found)),
            _ => (own, LetterItem::None),
        },
    };
    Ok(Letter { id, blame, attempts, line, item })
}

/// What became of the row in an attempt.
async fn end_in(
    engine: &Engine,
    intake: &Intake,
    family: &Family<'_>,
    part: &Part,
    attempt: u32,
    job: Option<&Job>,
) -> Result<End, Trouble> {
    let here = |settling: &&Settling<'_>| settling.part.part == part.part && settling.passed.attempt == attempt;
    // A row that died here and got its result here, too, is told by the latter.
    if let Some(settling) = family.settlings.iter().rev().find(here) {
        if settling.settled == SettledAs::Succeeded {
            return Ok(End::Succeeded);
        }
        return Ok(End::Died(letter(engine, family, settling).await?.blame));
    }
    if part.pass_of(attempt).is_some() {
        return Ok(End::Failed(failure(engine, intake, family, part, job).await?));
    }
    let ended = part.attempt(attempt).and_then(|sending| sending.ended.clone());
    Ok(ended.map_or(End::Open, |(class, message)| End::Lost(Blame { class, message })))
}

/// Why the row failed in an attempt whose output was judged: as the pass judged it.
async fn failure(
    engine: &Engine,
    intake: &Intake,
    family: &Family<'_>,
    part: &Part,
    job: Option<&Job>,
) -> Result<Blame, Trouble> {
    let Some(output) = job.and_then(|job| job.answer.as_deref()) else {
        let job = |of: fn(&Job) -> Option<&String>| job.and_then(of).cloned();
        return Ok(Blame {
            class: job(|job| job.class.as_ref()).unwrap_or_else(|| "unknown".to_owned()),
            message: job(|job| job.message.as_ref()).unwrap_or_else(|| "Gemini gave no output".to_owned()),
        });
    };
    let Some(first) = find_outcome(family.objects, output, family.key).await? else {
        return Ok(without_line(job));
    };
    let Some(input) = find_line(family.objects, &part.rows_at, family.key).await? else {
        return Err(Trouble::NeedsPerson(format!("the row {} is not in {} any more", family.key, part.rows_at)));
    };
    let header = engine.header(&intake.sha256).await?;
    let expect: Option<Value> =
        header.expect.as_deref().map(|expect| serde_json::from_str(expect.get())).transpose().map_err(|error| {
            Trouble::NeedsPerson(format!("the header's expect of {} can't be read any more: {error}", intake.file))
        })?;
    let judged = said(&first.line, &input.line, expect.as_ref());
    Ok(match judged.map_err(|why| super::lines::broken(output, first.at, &why))? {
        Said::Failed(blame) => Blame { class: blame.class, message: blame.message },
        Said::Value(..) => Blame {
            class: "unknown".to_owned(),
            message: "its line looks like a success now; please report this".to_owned(),
        },
    })
}

/// Why a row failed that the output has no line for.
fn without_line(job: Option<&Job>) -> Blame {
    let was_created = job.is_some_and(|job| !job.handles.is_empty());
    let ended = job.and_then(|job| job.batch.as_ref()?.output.as_ref()?.ended.clone());
    let (class, message) = match (was_created, ended) {
        (false, _) => ("beside_refused".to_owned(), "sent with rows that Gemini refused"),
        (true, Some(class)) => (class, "Gemini's job ended without a line for this row"),
        (true, None) => ("missing".to_owned(), "the output has no line for this row"),
    };
    Blame { class, message: message.to_owned() }
}

/// Whether the row is among the lines that are in no part yet.
async fn waits(engine: &Engine, intake: &Intake, key: &str) -> Result<bool, Trouble> {
    if intake.state != State::Reading {
        return Ok(false);
    }
    let cursor = intake.cursor;
    let mut lines = LineReader::new(&*engine.objects, &intake.sha256, cursor.offset, cursor.line).of_rows();
    while let Some(line) = lines.next().await? {
        if super::lines::key_of(&line.bytes).is_ok_and(|found| found == key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bad lines of the intake that name that key.
async fn bad_lines(engine: &Engine, intake: &Intake, key: &str) -> Result<Vec<BadLine>, Trouble> {
    if intake.cursor.bad_lines == 0 {
        return Ok(Vec::new());
    }
    let quoted = Value::from(key).to_string();
    let mut found = Vec::new();
    for item in every(engine, State::Parked, usize::MAX).await? {
        if let Item::BadLine(bad) = item
            && bad.input.intake == intake.sha256
            && bad.excerpt.contains(&quoted)
        {
            found.push(bad);
        }
    }
    Ok(found)
}
