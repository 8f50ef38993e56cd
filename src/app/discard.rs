//! Discarding dead letters: a person gives them up, with a reason (design, section 7). Nothing is cancelled at Gemini by it.

use serde::Serialize;
use tracing::info;

use super::engine::{Engine, Trouble};
use super::replay::ReplayError;
use super::replay::select::{MOST, Which, select};
use super::report::as_letter;
use crate::domain::item::Item;
use crate::domain::job::{Fate, Job, Mode, State};
use crate::domain::letter::Letter;
use crate::domain::moves::Now;
use crate::domain::time::Millis;
use crate::ports::ledger::ReplaceError;

/// What became of one dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A dry run: it would be discarded.
    WouldDiscard,
    /// It is closed now.
    Discarded,
    /// It is as it was.
    Left,
}

/// What discarding came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Discarded {
    /// Dead letters that it took up.
    pub scanned: u64,
    /// Those that are closed now.
    pub discarded: u64,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Each of them.
    pub items: Vec<DiscardedItem>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiscardedItem {
    /// As `dead` lists it.
    pub id: String,
    /// The run, for rows.
    pub run: Option<String>,
    /// The row's key.
    pub key: Option<String>,
    /// Its class, as it was.
    pub class: String,
    /// What became of it.
    pub outcome: Outcome,
    /// In words, where there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Discards dead letters, or tells which; each by a write of its own, under its rev.
///
/// # Errors
/// A request that makes no sense: nothing was done. Trouble with the ledger: those before it are discarded.
pub async fn discard(
    engine: &Engine,
    which: &Which<'_>,
    reason: &str,
    dry_run: bool,
) -> Result<Discarded, ReplayError> {
    if !(1..=MOST).contains(&which.limit) {
        return Err(ReplayError::Bad(format!("limit: it must be from 1 to {MOST}")));
    }
    if !dry_run && reason.trim().is_empty() {
        return Err(ReplayError::Bad("reason: it needs one, for whoever wonders later".to_owned()));
    }
    let selected = select(engine, which).await?;
    let mut told = Discarded { scanned: selected.letters.len() as u64, dry_run, ..Discarded::default() };
    for item in selected.letters {
        let shown = item.clone();
        let (outcome, why) = match refusal(&item) {
            Some(why) => (Outcome::Left, Some(why)),
            None if dry_run => (Outcome::WouldDiscard, runs_on(&item)),
            None => close(engine, item, reason).await?,
        };
        told.add(&shown, outcome, why);
    }
    for (item, why) in selected.others {
        told.add(&item, Outcome::Left, Some(why));
    }
    Ok(told)
}

impl Discarded {
    fn add(&mut self, item: &Item, outcome: Outcome, why: Option<String>) {
        self.discarded += u64::from(outcome == Outcome::Discarded);
        let letter = as_letter(item);
        let id = letter.as_ref().map_or_else(|| item.id().to_string(), |letter| letter.id.clone());
        let (run, key, class) = letter.map(|letter| (letter.run, letter.key, letter.class)).unwrap_or_default();
        self.items.push(DiscardedItem { id, run, key, class, outcome, why });
    }
}

/// Why it is not discarded by itself.
fn refusal(item: &Item) -> Option<String> {
    match item {
        Item::Job(Job { batch: Some(attempt), .. }) => Some(format!(
            "it is an attempt of part {} of a run, whose rows wait for it: replay it, or cancel the run {}",
            attempt.part, attempt.run
        )),
        _ => None,
    }
}

/// What of it may run on at Gemini.
fn runs_on(item: &Item) -> Option<String> {
    // A plain call ends with its connection: there is nothing to look at or to cancel.
    let Item::Job(job) = item else { return None };
    if job.mode == Mode::Call {
        return None;
    }
    let may_run = |fate| matches!(fate, Fate::Live | Fate::GivenUp);
    let known = job.handles.iter().filter(|handle| may_run(handle.fate)).map(|handle| handle.id.as_str());
    let handles: Vec<&str> = known.chain(job.heard.iter().map(|heard| heard.id.as_str())).collect();
    let what = match handles.as_slice() {
        [] if job.maybe_accepted && job.handles.is_empty() => "a create of it that was not answered".to_owned(),
        [] => return None,
        handles => handles.join(", "),
    };
    Some(format!("{what} may still run at Gemini: `gleaner cancel {}` stops what can be stopped", job.key))
}

async fn close(engine: &Engine, mut item: Item, reason: &str) -> Result<(Outcome, Option<String>), Trouble> {
    loop {
        let (id, read) = (item.id(), item.rev().clone());
        let why = runs_on(&item);
        if !give_up(&mut item, reason, engine.now()) {
            return Ok((Outcome::Left, Some(format!("somebody else took it up meanwhile: it is {}", item.state()))));
        }
        match engine.replace(&read, item).await {
            Ok(_) => {
                info!(item.id = %id, "discarded by a person");
                return Ok((Outcome::Discarded, why));
            }
            // A message was sent about it, perhaps.
            Err(ReplaceError::Stale(Some(found))) => item = *found,
            Err(ReplaceError::Stale(None)) => {
                return Err(Trouble::NeedsPerson(format!("the ledger item {id} has vanished")));
            }
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}

/// False: it is no dead letter.
fn give_up(item: &mut Item, reason: &str, now: Now<'_>) -> bool {
    let close = |state: &mut State, since: &mut Millis, due_at: &mut Option<Millis>, letter: &mut Letter| {
        let fits = *state == State::Parked;
        if fits {
            letter.note(Some(reason));
            (*state, *since, *due_at) = (State::Discarded, now.at, None);
        }
        fits
    };
    match item {
        Item::Job(job) => job.discard_letter(reason, now),
        Item::BadLine(bad) => close(&mut bad.state, &mut bad.since, &mut bad.due_at, &mut bad.letter),
        Item::DeadRow(row) => close(&mut row.state, &mut row.since, &mut row.due_at, &mut row.letter),
        Item::DeadGroup(group) => close(&mut group.state, &mut group.since, &mut group.due_at, &mut group.letter),
        _ => false,
    }
}
