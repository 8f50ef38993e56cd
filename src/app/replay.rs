//! Replaying dead letters: selected from the ledger, oldest first, claimed, and tried anew (design, section 7).
//!
//! | file | does |
//! |---|---|
//! | `select` | which dead letters somebody means |
//! | `plan` | what a replay would do with each of them, without writing anything |
//! | `jobs` | jobs and attempts of runs: claimed, tried, and what came of it |
//! | `changed` | what takes the place of a line's own model and fields |
//!
//! The rows of runs are `batch::replay`'s.

mod changed;
mod jobs;
mod plan;
pub mod select;

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use self::jobs::Jobs;
use self::plan::{Plan, plan};
use self::select::{MOST, Selected, Which, select};
use super::batch::replay::{How, call_at_once, replay_rows};
use super::engine::{Engine, Trouble};
use super::report::as_letter;
use crate::domain::changes::Changes;
use crate::domain::item::{Item, ItemId};
use crate::domain::json::Json;
use crate::domain::model::{NO_URL, path};
use crate::domain::time::Millis;

/// How many dead letters a replay takes that says nothing.
pub const LIMIT: usize = 20;

/// How the rows of a run go out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsBy {
    /// As a small batch, at half the price.
    #[default]
    Batch,
    /// As plain calls, answered at once.
    Call,
}

/// Which dead letters are to be replayed, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// At most so many, oldest first.
    pub limit: usize,
    /// Whether to tell only what would be done.
    pub dry_run: bool,
    /// Only this class, or all that begin with it and a colon.
    pub error_class: Option<String>,
    /// Only these, by the ids that `dead` lists.
    pub ids: Option<Vec<String>>,
    /// Only of this batch run.
    pub run: Option<String>,
    /// Another model.
    pub model: Option<String>,
    /// Request fields in the place of their own, or besides them.
    pub request: Option<Box<RawValue>>,
    /// How rows go out again.
    pub rows_by: RowsBy,
    /// Why, for whoever wonders. A real replay needs one.
    pub reason: Option<String>,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            dry_run: true,
            error_class: None,
            ids: None,
            run: None,
            model: None,
            request: None,
            rows_by: RowsBy::default(),
            reason: None,
        }
    }
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Replayed {
    /// Dead letters that it took up.
    pub scanned: u64,
    /// Settled at once.
    pub recovered: u64,
    /// Dead letters again, at once.
    pub still_failing: u64,
    /// Tried anew; they end later.
    pub resubmitted: u64,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Each of them.
    pub items: Vec<ReplayedItem>,
    /// What a person must mend before more can be replayed; no part of the answer.
    #[serde(skip)]
    pub trouble: Option<String>,
}

/// One dead letter of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayedItem {
    /// As `dead` lists it.
    pub id: String,
    /// The run, for rows.
    pub run: Option<String>,
    /// The row's key.
    pub key: Option<String>,
    /// How many rows it stands for, where one stands for many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Its class, as it was.
    pub class: String,
    /// Attempts used before.
    pub attempts: u32,
    /// What became of it.
    pub outcome: Outcome,
    /// In words, where there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What became of one dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A dry run: it would be replayed.
    WouldReplay,
    /// Settled at once.
    Recovered,
    /// A dead letter again, at once.
    StillFailing,
    /// Tried anew; it ends later.
    Resubmitted,
    /// It can't be replayed, or not now.
    Left,
}

/// Why nothing was replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// What was asked for makes no sense; in words.
    #[error("{0}")]
    Bad(String),
    /// Trouble with the ledger, the objects or Gemini.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl Replay {
    /// What it changes.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes { model: self.model.clone(), request: self.request.clone() }
    }
}

/// Replays. Nothing new is begun after `until`; what was claimed by then goes on by the next tick.
///
/// A dry run writes nothing anywhere, and asks nobody but the ledger and the objects.
///
/// # Errors
/// A request that makes no sense: nothing was done. Trouble before anything was begun. What meets trouble later is told with
/// its item, and is in the ledger.
pub async fn replay(engine: &Engine, request: &Replay, until: Millis) -> Result<Replayed, ReplayError> {
    let reason = request.check()?;
    let mut which = request.which();
    if which.ids.is_none() {
        // What dies again meanwhile, by another replay at the same time, is not taken up a second time.
        which.before = Some(engine.clock.now().plus(Duration::from_millis(1)));
    }
    let selected = select(engine, &which).await?;
    let changes = request.changes();
    let mut replayed = match reason {
        None => look_ahead(engine, selected, &changes).await?,
        Some(reason) => {
            let how = How { changes, by: request.rows_by, reason: reason.to_owned() };
            carry_out(engine, selected, &how, until).await?
        }
    };
    replayed.dry_run = request.dry_run;
    Ok(replayed)
}

impl Replay {
    /// Checks what can be checked without looking. The reason of a real replay; none: a dry run.
    fn check(&self) -> Result<Option<&str>, ReplayError> {
        let bad = |why: &str| Err(ReplayError::Bad(why.to_owned()));
        if !(1..=MOST).contains(&self.limit) {
            return Err(ReplayError::Bad(format!("limit: it must be from 1 to {MOST}")));
        }
        if self.ids.as_ref().is_some_and(|ids| ids.is_empty() || ids.len() > MOST) {
            return Err(ReplayError::Bad(format!("ids: name 1 to {MOST}, or leave it out")));
        }
        for (name, text) in [("error_class", &self.error_class), ("run", &self.run), ("model", &self.model)] {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(ReplayError::Bad(format!("{name}: it is empty; leave it out")));
            }
        }
        if self.model.as_ref().is_some_and(|model| path(model).is_none()) {
            return Err(ReplayError::Bad(format!("model: {NO_URL}")));
        }
        if let Some(request) = &self.request {
            match Json::parse(request.get()) {
                Ok(Json::Object(members)) if !members.is_empty() => {}
                Ok(_) => return bad("request: it must be an object with fields, as {\"generation_config\": {...}}"),
                Err(error) => return Err(ReplayError::Bad(format!("request: {error}"))),
            }
        }
        match self.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) {
            _ if self.dry_run => Ok(None),
            None => bad("reason: a replay needs one, for whoever wonders later; a dry run needs none"),
            reason => Ok(reason),
        }
    }

    fn which(&self) -> Which<'_> {
        Which {
            class: self.error_class.as_deref(),
            ids: self.ids.as_deref(),
            run: self.run.as_deref(),
            limit: self.limit,
            ..Which::default()
        }
    }
}

async fn look_ahead(engine: &Engine, selected: Selected, changes: &Changes) -> Result<Replayed, Trouble> {
    let mut replayed = Replayed::of(&selected);
    let plans = stream::iter(&selected.letters).map(|item| plan(engine, item, changes));
    let plans: Vec<Plan> = plans.buffered(engine.settings.concurrency.max(1)).try_collect().await?;
    for (item, plan) in selected.letters.iter().zip(plans) {
        let (outcome, why) = match plan {
            Plan::Leave(why) => (Outcome::Left, Some(why)),
            other => (Outcome::WouldReplay, other.words()),
        };
        replayed.add(item, outcome, why);
    }
    replayed.add_others(selected.others);
    Ok(replayed)
}

async fn carry_out(engine: &Engine, selected: Selected, how: &How, until: Millis) -> Result<Replayed, Trouble> {
    let mut replayed = Replayed::of(&selected);
    let (rows, others): (Vec<Item>, Vec<Item>) =
        selected.letters.iter().cloned().partition(|item| matches!(item, Item::DeadRow(_) | Item::DeadGroup(_)));
    let jobs = Jobs::new(engine, how, until);
    let of_rows = async {
        let told = if rows.is_empty() { Vec::new() } else { replay_rows(engine, rows, how).await? };
        // Where there is a work queue, somebody else makes calls.
        let is_here = how.by == RowsBy::Call && engine.work_queue.is_none();
        Ok(if is_here { call_at_once(engine, told, until).await } else { (told, None) })
    };
    let (became, of_rows) = futures::join!(jobs.replay(others), of_rows);
    replayed.trouble = jobs.trouble();
    let mut became: HashMap<ItemId, (Outcome, Option<String>)> = became.into_iter().collect();
    let mut untold = "nobody knows what became of it: look at it again".to_owned();
    match of_rows {
        Ok((of_rows, trouble)) => {
            became.extend(of_rows.into_iter().map(|(id, outcome, why)| (id, (outcome, why))));
            replayed.trouble = replayed.trouble.take().or(trouble);
        }
        Err(trouble) => {
            let trouble: Trouble = trouble;
            untold = trouble.to_string();
            replayed.trouble.get_or_insert(untold.clone());
        }
    }
    for item in &selected.letters {
        let (outcome, why) = became.remove(&item.id()).unwrap_or_else(|| (Outcome::Left, Some(untold.clone())));
        replayed.add(item, outcome, why);
    }
    replayed.add_others(selected.others);
    Ok(replayed)
}

impl Replayed {
    fn of(selected: &Selected) -> Self {
        Self { scanned: selected.letters.len() as u64, ..Self::default() }
    }

    fn add(&mut self, item: &Item, outcome: Outcome, why: Option<String>) {
        match outcome {
            Outcome::Recovered => self.recovered += 1,
            Outcome::StillFailing => self.still_failing += 1,
            Outcome::Resubmitted => self.resubmitted += 1,
            Outcome::WouldReplay | Outcome::Left => {}
        }
        // What can be no dead letter at all was named by an id of its own.
        let letter = as_letter(item);
        let id = letter.as_ref().map_or_else(|| item.id().to_string(), |letter| letter.id.clone());
        let (run, key, class, attempts) =
            letter.map(|letter| (letter.run, letter.key, letter.class, letter.attempts)).unwrap_or_default();
        let rows = match item {
            Item::DeadGroup(group) => Some(group.count()),
            _ => None,
        };
        self.items.push(ReplayedItem { id, run, key, rows, class, attempts, outcome, why });
    }

    fn add_others(&mut self, others: Vec<(Item, String)>) {
        for (item, why) in others {
            self.add(&item, Outcome::Left, Some(why));
        }
    }
}
