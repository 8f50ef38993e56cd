//! Reports: what an intake's lines have become, what the ledger holds, which dead letters wait.

use std::time::Duration;

use serde::Serialize;

use super::batch::report::{RunProgress, run_progress};
use super::engine::{Engine, Trouble};
use super::recount::recount;
use super::replay::ReplayError;
use super::replay::select::{Which, select};
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::{Count, Counts, Place, Total};

/// What an intake's lines have become. `jobs = consumed + parked + recovered + discarded + open`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Jobs of this intake.
    pub jobs: u64,
    /// Results durable and handed on.
    pub consumed: u64,
    /// Dead letters.
    pub parked: u64,
    /// Dead letters that were settled.
    pub recovered: u64,
    /// Given up by a person.
    pub discarded: u64,
    /// Not ended yet.
    pub open: u64,
    /// Lines whose job was there already.
    pub repeats: u64,
    /// Lines that no job could be made of.
    pub bad_lines: u64,
    /// Sendings again after a create that may have been accepted.
    pub possible_duplicates: u64,
}

/// How far an intake is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The intake as it is stored.
    pub intake: Intake,
    /// What its lines have become.
    pub tally: Tally,
    /// Jobs in each state.
    pub states: Vec<(State, u64)>,
    /// Bad lines that nobody has settled.
    pub bad_lines_parked: u64,
    /// Its parts, when it is a batch run: the tally counts rows then.
    pub run: Option<RunProgress>,
}

impl Progress {
    /// Lines that were not taken yet.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.intake.lines.saturating_sub(self.intake.cursor.taken())
    }

    /// Whether every line is taken and every job has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match &self.run {
            Some(run) => self.intake.state == State::Read && run.is_over(),
            None => self.intake.state == State::Read && self.tally.open == 0,
        }
    }

    /// The sums that must hold once every line is taken; what doesn't hold, in words.
    #[must_use]
    pub fn wrong_sums(&self) -> Option<String> {
        let (cursor, lines, tally) = (self.intake.cursor, self.intake.lines, self.tally);
        if self.intake.state != State::Read {
            return None;
        }
        let ended = tally.consumed + tally.parked + tally.recovered + tally.discarded;
        if cursor.taken() != lines {
            return Some(format!("{lines} lines landed, but {} were taken", cursor.taken()));
        }
        if let Some(run) = &self.run {
            return run.wrong_sums();
        }
        if tally.jobs != cursor.jobs || tally.jobs != tally.open + ended {
            return Some(format!(
                "{} lines became jobs, but {} open and {ended} ended are in the ledger",
                cursor.jobs, tally.open
            ));
        }
        None
    }
}

/// How far an intake is now. The cost does not grow with the intake, where the ledger keeps totals.
///
/// # Errors
/// Trouble with the ledger; an intake that isn't there.
pub async fn progress(engine: &Engine, sha256: &str) -> Result<Progress, Trouble> {
    let Some(Item::Intake(intake)) = engine.ledger.get(&ItemId::intake(sha256)).await? else {
        return Err(Trouble::NeedsPerson(format!("the intake {sha256} is not in the ledger")));
    };
    if let Some(run) = &intake.run {
        return progress_of_run(engine, &intake, run).await;
    }
    let totals = match engine.ledger.totals(sha256).await? {
        Some(totals) => totals,
        None => recount(engine, &intake).await?,
    };
    let in_state = |kind, state| {
        let of = |total: &&Total| total.kind == kind && total.state == state;
        totals.iter().filter(of).map(|total| total.items).sum::<u64>()
    };
    let states: Vec<(State, u64)> = State::OF_JOBS.map(|state| (state, in_state(Kind::Job, state))).into();
    let tally = Tally {
        jobs: states.iter().map(|(_, items)| items).sum(),
        consumed: in_state(Kind::Job, State::Consumed),
        parked: in_state(Kind::Job, State::Parked),
        recovered: in_state(Kind::Job, State::Recovered),
        discarded: in_state(Kind::Job, State::Discarded),
        open: states.iter().filter(|(state, _)| !state.is_ended()).map(|(_, items)| items).sum(),
        repeats: intake.cursor.repeats,
        bad_lines: intake.cursor.bad_lines,
        possible_duplicates: totals.iter().map(|total| total.possible_duplicates).sum(),
    };
    Ok(Progress { intake, tally, states, bad_lines_parked: in_state(Kind::BadLine, State::Parked), run: None })
}

async fn progress_of_run(engine: &Engine, intake: &Intake, run: &Run) -> Result<Progress, Trouble> {
    let run = run_progress(engine, intake, run).await?;
    let states = vec![(State::Submitted, run.tally.open), (State::Parked, run.tally.parked)];
    let bad_lines_parked = bad_lines_parked(engine, intake).await?;
    Ok(Progress { intake: intake.clone(), tally: run.tally, states, bad_lines_parked, run: Some(run) })
}

/// Bad lines of a run that nobody has settled. Where the ledger keeps no totals, all that were found.
async fn bad_lines_parked(engine: &Engine, intake: &Intake) -> Result<u64, Trouble> {
    if intake.cursor.bad_lines == 0 {
        return Ok(0);
    }
    let Some(totals) = engine.ledger.totals(&intake.sha256).await? else { return Ok(intake.cursor.bad_lines) };
    let parked = totals.iter().filter(|total| total.kind == Kind::BadLine && total.state == State::Parked);
    Ok(parked.map(|total| total.items).sum())
}

/// Counts of the whole ledger, with the lines that wait in intakes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Every kind and state that has items, closed ones where the ledger counts them.
    pub counts: Counts,
    /// Lines that no worker has taken yet, over all intakes.
    pub waiting: u64,
    /// When the next item is due.
    pub next_due: Option<Millis>,
    /// Now.
    pub at: Millis,
}

impl Status {
    /// Whether every line is taken up and every job has ended. Something may be due all the same: a later look at an
    /// attempt that was given up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let open = |count: &Count| {
            let is_open = match count.kind {
                Kind::Job => !count.state.is_ended(),
                Kind::Intake => count.state == State::Reading,
                Kind::Part => !count.state.is_closed(),
                Kind::Gate | Kind::BadLine | Kind::DeadRow | Kind::DeadGroup | Kind::Event | Kind::Stray => false,
            };
            is_open && count.items > 0
        };
        !self.counts.items.iter().any(open)
    }
}

/// Counts the ledger.
///
/// # Errors
/// Trouble with the ledger.
pub async fn status(engine: &Engine) -> Result<Status, Trouble> {
    Ok(Status {
        counts: engine.ledger.counts().await?,
        waiting: waiting(engine).await?,
        next_due: next_due(engine).await?,
        at: engine.clock.now(),
    })
}

/// When the next work is due. That the message of a dead letter must be renewed some day is none that anybody waits for.
async fn next_due(engine: &Engine) -> Result<Option<Millis>, Trouble> {
    let others: Vec<State> = super::drive::OPEN.into_iter().filter(|state| *state != State::Parked).collect();
    let other = engine.ledger.next_due(&others).await?;
    let within = engine.clock.now().plus(LATEST_LOOK);
    let parked = engine.ledger.due(&[State::Parked], within, PAGE).await?;
    let dead = parked.iter().filter(|item| !is_renewal(item)).filter_map(Item::due_at).min();
    Ok(other.into_iter().chain(dead).min())
}

/// Later looks at dead letters are made within two days of their death.
const LATEST_LOOK: Duration = Duration::from_secs(3 * 24 * 3600);

/// Whether all that a dead letter is due for is the renewal of a message that was sent.
fn is_renewal(item: &Item) -> bool {
    item.letter().is_some_and(|letter| letter.sent.is_some() && item.due_at() == Some(letter.due(item.since())))
}

/// Lines that no worker has taken yet, over all intakes.
///
/// # Errors
/// Trouble with the ledger.
pub async fn waiting(engine: &Engine) -> Result<u64, Trouble> {
    let reading = every(engine, State::Reading, usize::MAX).await?;
    Ok(reading
        .iter()
        .map(|item| match item {
            Item::Intake(intake) => intake.lines.saturating_sub(intake.cursor.taken()),
            _ => 0,
        })
        .sum())
}

/// A dead letter as `dead` lists it (design, section 10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dead {
    /// The idempotency key of a job; the item's id of a bad line.
    pub id: String,
    /// The run, for rows; none for jobs.
    pub run: Option<String>,
    /// The row's key, for rows; none for jobs.
    pub key: Option<String>,
    /// Its class.
    pub class: String,
    /// What went wrong.
    pub message: String,
    /// Attempts used.
    pub attempts: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// When it first became a dead letter, RFC 3339.
    pub first_seen: String,
    /// When it last did.
    pub last_seen: String,
}

/// The dead letters that wait, oldest first, at most `limit`; of one class or class prefix (`blocked`), and of one run
/// (with its bad lines), when asked.
///
/// # Errors
/// Trouble with the ledger.
pub async fn dead(engine: &Engine, class: Option<&str>, run: Option<&str>, limit: usize) -> Result<Vec<Dead>, Trouble> {
    match select(engine, &Which { class, run, limit, ..Which::default() }).await {
        Ok(selected) => Ok(selected.letters.iter().filter_map(letter).collect()),
        Err(ReplayError::Trouble(trouble)) => Err(trouble),
        Err(bad @ ReplayError::Bad(_)) => Err(Trouble::NeedsPerson(bad.to_string())),
    }
}

/// A dead letter as `dead` lists it; none: the item can't be one, or is none now.
#[must_use]
pub fn letter(item: &Item) -> Option<Dead> {
    (item.state() == State::Parked).then(|| as_letter(item)).flatten()
}

/// What can be a dead letter, as `dead` would list it, whether it is one now or not.
#[must_use]
pub fn as_letter(item: &Item) -> Option<Dead> {
    match item {
        Item::Job(job) => Some(Dead {
            id: job.key.to_string(),
            run: job.batch.as_ref().map(|attempt| attempt.run.clone()),
            key: None,
            class: job.class.clone().unwrap_or_default(),
            message: job.message.clone().unwrap_or_default(),
            attempts: job.attempts,
            replays: job.replays,
            first_seen: job.parked_at.unwrap_or(job.since).to_string(),
            last_seen: job.since.to_string(),
        }),
        Item::BadLine(bad) => Some(Dead {
            id: item.id().to_string(),
            run: None,
            key: None,
            class: bad.class.clone(),
            message: format!("{} line {}: {}", bad.file, bad.input.line, bad.message),
            attempts: 0,
            replays: 0,
            first_seen: bad.first_seen.to_string(),
            last_seen: bad.since.to_string(),
        }),
        Item::DeadRow(row) => Some(Dead {
            id: row.id.clone(),
            run: Some(row.run.clone()),
            key: Some(row.key.clone()),
            class: row.class.clone(),
            message: row.message.clone(),
            attempts: row.attempts,
            replays: row.replays,
            first_seen: row.first_seen.to_string(),
            last_seen: row.since.to_string(),
        }),
        Item::DeadGroup(group) => Some(Dead {
            id: item.id().to_string(),
            run: Some(group.run.clone()),
            key: None,
            class: group.class.clone(),
            message: format!("{} rows, one of them: {}", group.count(), group.message),
            attempts: 0,
            replays: group.replays,
            first_seen: group.first_seen.to_string(),
            last_seen: group.since.to_string(),
        }),
        Item::Intake(_) | Item::Gate(_) | Item::Part(_) | Item::Event(_) | Item::Stray(_) => None,
    }
}

/// How many items a listing takes at once.
const PAGE: usize = 500;

/// Every item in a state, oldest first, at most `limit`.
///
/// # Errors
/// Trouble with the ledger.
pub async fn every(engine: &Engine, state: State, limit: usize) -> Result<Vec<Item>, Trouble> {
    let mut items: Vec<Item> = Vec::new();
    loop {
        let place = items.last().map(|item| Place(item.since(), item.id()));
        let page = engine.ledger.in_state(state, place.as_ref(), PAGE.min(limit.saturating_sub(items.len()))).await?;
        if page.is_empty() {
            return Ok(items);
        }
        items.extend(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::intake::Cursor;
    use crate::domain::job::Rev;
    use crate::ports::conformance::sample;

    #[test]
    fn sums_that_do_not_hold_are_told() {
        let mut intake = sample::intake(sample::INTAKE, Rev("r".to_owned()));
        intake.state = State::Read;
        intake.lines = 10;
        intake.cursor = Cursor { jobs: 7, repeats: 2, bad_lines: 1, ..intake.cursor };
        let tally = Tally { jobs: 7, consumed: 5, parked: 1, open: 1, repeats: 2, bad_lines: 1, ..Tally::default() };
        let right = Progress { intake, tally, states: Vec::new(), bad_lines_parked: 1, run: None };
        assert_eq!(right.wrong_sums(), None);
        let wrong = |change: fn(&mut Progress)| {
            let mut progress = right.clone();
            change(&mut progress);
            progress.wrong_sums()
        };
        assert!(wrong(|p| p.intake.lines = 11).unwrap().starts_with("11 lines landed, but 10 were taken"));
        assert!(wrong(|p| p.tally.jobs = 6).unwrap().starts_with("7 lines became jobs"));
        assert!(wrong(|p| p.intake.cursor = Cursor { jobs: 6, repeats: 3, ..p.intake.cursor }).is_some());
        assert!(wrong(|p| p.tally.consumed = 6).is_some(), "more ended than there are jobs");
        assert_eq!(wrong(|p| (p.intake.state, p.intake.lines) = (State::Reading, 99)), None, "not over yet");
    }
}
