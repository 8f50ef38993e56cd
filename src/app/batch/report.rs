//! How far a run is, from the items of its parts.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::app::engine::{Engine, Trouble};
use crate::app::report::{Tally, every};
use crate::domain::dead::{DeadRow, ROWS_OF_A_CLASS};
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::{CLASS_BYTES, Job, State, clip};
use crate::domain::part::{Part, PartId, Passed, attempt_key};

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProgress {
    /// The run.
    pub run: Run,
    /// Its parts, in the order of their rows: a halved one before its halves.
    pub parts: Vec<Part>,
    /// The jobs of all attempts, by their key.
    pub jobs: HashMap<String, Job>,
    /// What its rows have become.
    pub tally: Tally,
}

impl RunProgress {
    /// Rows of the run.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.tally.jobs
    }

    /// Attempts made so far, over all parts.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.parts.iter().map(|part| part.attempts.len() as u64).sum()
    }

    /// The job of a part's attempt of that number.
    #[must_use]
    pub fn job_of(&self, part: &Part, attempt: u32) -> Option<&Job> {
        self.jobs.get(&attempt_key(&part.run, &part.part, attempt).0)
    }

    /// Whether nothing of it is out, and what is left waits for a person.
    #[must_use]
    pub fn waits_for_person(&self) -> bool {
        let left: Vec<&Part> = self.parts.iter().filter(|part| !part.state.is_ended()).collect();
        let waits = |part: &&Part| {
            part.state == State::Waiting && part.passes.iter().all(Passed::is_told) && part.rows_left().is_some()
        };
        // What a person has replayed goes out all the same.
        let replayed = left.iter().any(|part| part.part.is_replay());
        self.run.held.is_some() && !left.is_empty() && !replayed && left.iter().all(waits)
    }

    /// Whether every part has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let handing_on = self.jobs.values().any(|job| job.state == State::Done);
        !handing_on && self.parts.iter().all(|part| part.state.is_ended())
    }

    /// Attempts that are dead letters themselves: their outcome could not be taken, or not be handed on.
    #[must_use]
    pub fn attempts_parked(&self) -> u64 {
        self.jobs.values().filter(|job| job.state == State::Parked).count() as u64
    }

    /// What doesn't add up although it must, in words: `rows = settled + open` for the run and for each of its parts.
    #[must_use]
    pub fn wrong_sums(&self) -> Option<String> {
        for part in self.parts.iter().filter(|part| part.state.is_closed()) {
            let settled = part.tally().settled();
            let moved = self.moved(part);
            if settled + moved != part.rows {
                return Some(format!(
                    "part {} has {} rows, but {settled} are settled and {moved} went to its halves",
                    part.part, part.rows
                ));
            }
        }
        for (root, replayed) in replayed(&self.parts) {
            let family = self.parts.iter().filter(|part| part.part.root() == root);
            let died: u64 = family.map(|part| part.tally().dead).sum();
            if replayed > died {
                return Some(format!("{replayed} dead rows of part {root} were replayed, but only {died} have died"));
            }
        }
        let tally = self.tally;
        let ended = tally.consumed + tally.parked + tally.recovered + tally.discarded;
        (tally.jobs != ended + tally.open)
            .then(|| format!("the run has {} rows, but {ended} ended and {} open ones", tally.jobs, tally.open))
    }

    /// Rows that went over to the halves of a part.
    fn moved(&self, part: &Part) -> u64 {
        moved(&self.parts, part)
    }
}

fn moved(parts: &[Part], part: &Part) -> u64 {
    if !part.halved {
        return 0;
    }
    let halves = part.part.halves();
    parts.iter().filter(|half| halves.contains(&half.part)).map(|half| half.rows).sum()
}

/// Rows that went over to parts of replayed rows, by root.
fn replayed(parts: &[Part]) -> BTreeMap<PartId, u64> {
    let mut replayed = BTreeMap::new();
    for part in parts.iter().filter(|part| part.part.is_replay() && part.part == part.part.whole()) {
        *replayed.entry(part.part.root()).or_default() += part.rows;
    }
    replayed
}

/// Rows that are dead by their parts now: those that died and have neither succeeded late nor gone out once more.
#[must_use]
pub fn dead_now(parts: &[Part]) -> u64 {
    let died: u64 = parts.iter().map(|part| part.tally().dead).sum();
    died.saturating_sub(replayed(parts).values().sum())
}

/// The parts of a run, in the order of their rows: each numbered one before its halves, then those of its rows that were
/// replayed. Costs one read a part.
///
/// # Errors
/// Trouble with the ledger; a part that is missing.
pub async fn parts(engine: &Engine, run: &Run) -> Result<Vec<Part>, Trouble> {
    let mut wanted: Vec<PartId> = (1..=run.parts).map(PartId::numbered).collect();
    // The halves of a part that is just being halved may not be there yet; nor is a part of replayed rows whose maker got no
    // further than its number.
    let mut coming: HashSet<PartId> = HashSet::new();
    let mut found: HashMap<PartId, Part> = HashMap::new();
    while !wanted.is_empty() {
        let ids: Vec<ItemId> = wanted.iter().map(|part| ItemId::part(&run.key, part)).collect();
        let mut halves = Vec::new();
        for item in engine.ledger.get_many(&ids).await? {
            let Item::Part(part) = item else { continue };
            if part.is_unfinished() && part.state.is_closed() {
                // Nobody put rows into it.
                continue;
            }
            let replays = (1..=part.replays).map(|number| part.part.replay(number));
            coming.extend(replays.clone());
            halves.extend(replays);
            if part.halved {
                halves.extend(part.part.halves());
                coming.extend(part.part.halves().into_iter().filter(|_| !part.state.is_closed()));
            }
            found.insert(part.part.clone(), *part);
        }
        if let Some(missing) = wanted.iter().find(|part| !found.contains_key(*part) && !coming.contains(*part)) {
            return Err(Trouble::NeedsPerson(format!("part {missing} of the run {} is not in the ledger", run.key)));
        }
        wanted = halves;
    }
    let mut ordered = Vec::new();
    for number in 1..=run.parts {
        in_order(&mut found, PartId::numbered(number), &mut ordered);
    }
    Ok(ordered)
}

/// A part, then its halves, then those of its rows that were replayed.
fn in_order(found: &mut HashMap<PartId, Part>, id: PartId, ordered: &mut Vec<Part>) {
    let Some(part) = found.remove(&id) else { return };
    let (halved, replays) = (part.halved, part.replays);
    ordered.push(part);
    if halved {
        for half in id.halves() {
            in_order(found, half, ordered);
        }
    }
    for number in 1..=replays {
        in_order(found, id.replay(number), ordered);
    }
}

/// A part and its halves, as far as they are there, each before its own; none when the part isn't there.
///
/// # Errors
/// Trouble with the ledger.
pub(super) async fn with_halves(engine: &Engine, run: &str, id: &PartId) -> Result<Vec<Part>, Trouble> {
    let (mut found, mut wanted) = (HashMap::new(), vec![id.clone()]);
    while !wanted.is_empty() {
        let ids: Vec<ItemId> = wanted.drain(..).map(|part| ItemId::part(run, &part)).collect();
        for item in engine.ledger.get_many(&ids).await? {
            let Item::Part(part) = item else { continue };
            if part.halved {
                wanted.extend(part.part.halves());
            }
            found.insert(part.part.clone(), *part);
        }
    }
    let mut ordered = Vec::new();
    in_order(&mut found, id.clone(), &mut ordered);
    Ok(ordered)
}

/// How far the run of an intake is.
///
/// # Errors
/// Trouble with the ledger.
pub async fn run_progress(engine: &Engine, intake: &Intake, run: &Run) -> Result<RunProgress, Trouble> {
    let parts = parts(engine, run).await?;
    let sendings = parts.iter().flat_map(|part| part.attempts.iter().map(move |sending| (part, sending.number)));
    let keys: Vec<ItemId> =
        sendings.map(|(part, number)| ItemId::job(&attempt_key(&part.run, &part.part, number))).collect();
    let jobs: HashMap<String, Job> = engine
        .ledger
        .get_many(&keys)
        .await?
        .into_iter()
        .filter_map(|item| match item {
            Item::Job(job) => Some((job.key.0.clone(), job)),
            _ => None,
        })
        .collect();
    let mut tally = Tally { jobs: intake.cursor.jobs, bad_lines: intake.cursor.bad_lines, ..Tally::default() };
    for part in &parts {
        let rows = part.tally();
        tally.consumed += rows.succeeded;
        tally.recovered += rows.recovered;
        tally.discarded += rows.discarded;
        let open = part.rows.saturating_sub(rows.settled() + moved(&parts, part));
        // A part that waits for a person has ended, as a job that is parked has.
        if part.state == State::Parked {
            tally.parked += open;
        } else {
            tally.open += open;
        }
    }
    let dead = dead_now(&parts);
    let discarded = discarded(engine, intake, run, &parts, dead).await?;
    tally.parked += dead - discarded;
    tally.discarded += discarded;
    tally.possible_duplicates = jobs.values().map(|job| u64::from(job.possible_duplicates)).sum();
    Ok(RunProgress { run: run.clone(), parts, jobs, tally })
}

/// Dead rows that a person gave up. Counted by their dead letters: from the ledger's totals where it keeps them, else by
/// what is left of them.
async fn discarded(engine: &Engine, intake: &Intake, run: &Run, parts: &[Part], dead: u64) -> Result<u64, Trouble> {
    if dead == 0 {
        return Ok(0);
    }
    let (grouped, given_up) = groups(engine, run, parts).await?;
    let rows = match engine.ledger.totals(&intake.sha256).await? {
        Some(totals) => totals
            .iter()
            .filter(|total| total.kind == Kind::DeadRow && total.state == State::Discarded)
            .map(|total| total.items)
            .sum(),
        None => {
            let mut left = grouped;
            for state in [State::Parked, State::Retryable] {
                let items = every(engine, state, usize::MAX).await?;
                let own =
                    |item: &&Item| matches!(item, Item::DeadRow(row) if row.run == run.key && !is_out(parts, row));
                left += items.iter().filter(own).count() as u64;
            }
            let untold = parts.iter().flat_map(|part| &part.passes).filter(|passed| !passed.is_told());
            dead.saturating_sub(left + untold.map(|passed| passed.counts.dead).sum::<u64>())
        }
    };
    Ok(dead.min(rows + given_up))
}

/// Whether a row went over to a part of replayed rows, which has not settled it yet.
fn is_out(parts: &[Part], row: &DeadRow) -> bool {
    let is_it = |part: &Part| Some(&part.part) == row.replayed_in.as_ref() && !part.is_unfinished();
    row.state == State::Retryable && parts.iter().any(is_it)
}

/// Rows that have one dead letter for all of their class: all of them, and those of them that a person gave up.
async fn groups(engine: &Engine, run: &Run, parts: &[Part]) -> Result<(u64, u64), Trouble> {
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, rows) in parts.iter().flat_map(|part| &part.passes).flat_map(|passed| &passed.classes) {
        *classes.entry(class).or_default() += rows;
    }
    let grouped = classes.into_iter().filter(|(_, rows)| *rows > ROWS_OF_A_CLASS);
    let ids: Vec<ItemId> = grouped.map(|(class, _)| ItemId::dead_group(&run.key, &clip(class, CLASS_BYTES))).collect();
    let (mut all, mut given_up) = (0, 0);
    for item in engine.ledger.get_many(&ids).await? {
        let Item::DeadGroup(group) = item else { continue };
        all += group.count();
        if group.state == State::Discarded {
            given_up += group.count();
        }
    }
    Ok((all, given_up))
}

/// Whether a run is over: cut to its end, every part closed.
#[must_use]
pub fn is_over(intake: &Intake, progress: &RunProgress) -> bool {
    intake.state == State::Read && progress.is_over()
}
