//! The summary: what waits for a person, how long it has, and what is lost when (design, section 7).
//!
//! It looks at dead letters and at open jobs, never at what is over, and changes nothing.

pub mod expiry;
mod gather;
#[cfg(test)]
mod tests;
pub mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use self::expiry::Expiry;
use self::gather::Gathering;
use super::engine::Trouble;
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::{Counts, Ledger, Place};

/// Items that a listing takes at once.
const PAGE: usize = 500;

/// How many files are named, those with the most dead letters.
const FILES: usize = 20;

/// What stands for the name of a file where there was none.
const IMPORTED: &str = "imported";

/// What a person should know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// When it was made, RFC 3339.
    pub at: String,
    /// Whether there is nothing to say: no dead letter, no run that waits for a person, no possible duplicate.
    pub clean: bool,
    /// Dead letters, as `dead` lists them.
    pub dead_letters: u64,
    /// The jobs, rows and lines that they are of: one of many rows counts each of them.
    pub parked: u64,
    /// The same by class, largest first.
    pub classes: Vec<Class>,
    /// The same by mode (`interaction`, `call`, `batch`), and `line` for what never became a job.
    pub modes: BTreeMap<&'static str, u64>,
    /// The same by the file that they came in, largest first; at most 20.
    pub files: Vec<File>,
    /// Since when the oldest has been a dead letter, RFC 3339.
    pub oldest: Option<String>,
    /// Since when the newest has.
    pub newest: Option<String>,
    /// The age of the oldest, in seconds.
    pub oldest_age_s: Option<u64>,
    /// Of each kind of thing that is deleted elsewhere what is deleted next, soonest first.
    pub expiries: Vec<Expiry>,
    /// Days until the first of them; none: nothing is deleted.
    pub days_until_expiry: Option<f64>,
    /// Dead letters whose message is still to be sent to the queue.
    pub unsent_messages: u64,
    /// Jobs of an imported ledger that wait until their line is handed in.
    pub no_payload: u64,
    /// Times that a job was sent again although it may have been accepted before: of dead letters and open jobs.
    pub possible_duplicates: u64,
    /// Batch runs that wait for a person.
    pub held_runs: Vec<HeldRun>,
}

/// The dead letters of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Its name.
    pub class: String,
    /// Jobs, rows and lines.
    pub count: u64,
    /// Since when the oldest has been one, RFC 3339.
    pub oldest: String,
    /// Since when the newest has.
    pub newest: String,
}

/// The dead letters of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its name when it was handed in.
    pub file: String,
    /// sha256 of its bytes.
    pub sha256: String,
    /// Its run, if it is one.
    pub run: Option<String>,
    /// Jobs, rows and lines.
    pub count: u64,
}

/// A batch run that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldRun {
    /// The run.
    pub run: String,
    /// Its file's name.
    pub file: String,
    /// The class of which too many of its rows died; `import:rows`: it was imported with rows that may be under way.
    pub class: String,
    /// What went wrong with one of them, or why else it waits.
    pub message: String,
    /// Since when it waits, RFC 3339.
    pub since: String,
}

/// Makes the summary at `now`. `messages_kept` is how long the queue of dead letters keeps a message; none: until it is deleted.
///
/// # Errors
/// Trouble with the ledger.
pub async fn summary(ledger: &dyn Ledger, now: Millis, messages_kept: Option<Duration>) -> Result<Summary, Trouble> {
    let counts = ledger.counts().await?;
    let mut gathering = Gathering::new(now, messages_kept);
    each(ledger, State::Parked, &mut |item| gathering.add(item)).await?;
    for state in State::OF_JOBS.into_iter().filter(|state| !state.is_ended() && has_jobs(&counts, *state)) {
        each(ledger, state, &mut |item| gathering.add_open(item)).await?;
    }
    let files = files(ledger, gathering.largest_files(FILES)).await?;
    Ok(gathering.finish(files, held_runs(ledger, &counts).await?))
}

fn has_jobs(counts: &Counts, state: State) -> bool {
    counts.items.iter().any(|count| count.kind == Kind::Job && count.state == state && count.items > 0)
}

/// Every item in a state, a page at a time: there may be very many.
async fn each(ledger: &dyn Ledger, state: State, take: &mut (dyn FnMut(&Item) + Send)) -> Result<(), Trouble> {
    let mut place = None;
    loop {
        let page = ledger.in_state(state, place.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        place = Some(Place(last.since(), last.id()));
        page.iter().for_each(&mut *take);
    }
}

/// Names the files of these intakes, in their order.
async fn files(ledger: &dyn Ledger, counted: Vec<(String, u64)>) -> Result<Vec<File>, Trouble> {
    let ids: Vec<ItemId> = counted.iter().map(|(sha256, _)| ItemId::intake(sha256)).collect();
    let found = ledger.get_many(&ids).await?;
    let named: BTreeMap<&str, &Intake> = found
        .iter()
        .filter_map(|item| match item {
            Item::Intake(intake) => Some((intake.sha256.as_str(), intake)),
            _ => None,
        })
        .collect();
    let file = |(sha256, count): (String, u64)| {
        let intake = named.get(sha256.as_str());
        let run = intake.and_then(|intake| intake.run.as_ref()).map(|run| run.key.clone());
        // What was imported as jobs has no file that anybody handed in.
        let name = intake.map(|intake| intake.file.clone()).filter(|name| !name.is_empty());
        File { file: name.unwrap_or_else(|| IMPORTED.to_owned()), sha256, run, count }
    };
    Ok(counted.into_iter().map(file).collect())
}

/// The runs that wait for a person: those that are held and have parts that wait. One whose parts have all gone out holds
/// nothing up, and its dead letters are counted as such.
///
/// # Errors
/// Trouble with the ledger.
pub async fn held_runs(ledger: &dyn Ledger, counts: &Counts) -> Result<Vec<HeldRun>, Trouble> {
    if !counts.items.iter().any(|count| count.state == State::Waiting) {
        return Ok(Vec::new());
    }
    let mut intakes = BTreeSet::new();
    each(ledger, State::Waiting, &mut |item| intakes.extend(item.intake().map(ItemId::intake))).await?;
    let intakes: Vec<ItemId> = intakes.into_iter().collect();
    let held = |item: Item| match item {
        Item::Intake(Intake { run: Some(Run { held: Some(held), key, .. }), file, .. }) => {
            Some(HeldRun { run: key, file, class: held.class, message: held.message, since: held.since.to_string() })
        }
        _ => None,
    };
    Ok(ledger.get_many(&intakes).await?.into_iter().filter_map(held).collect())
}
