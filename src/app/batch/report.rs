//! How far a run is, from the items of its parts.

use std::collections::{HashMap, HashSet};

use crate::app::engine::{Engine, Trouble};
use crate::app::report::Tally;
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Job, State};
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
        self.run.held.is_some() && !left.is_empty() && left.iter().all(waits)
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

/// The parts of a run, in the order of their rows. Costs one read a part.
///
/// # Errors
/// Trouble with the ledger; a part that is missing.
pub async fn parts(engine: &Engine, run: &Run) -> Result<Vec<Part>, Trouble> {
    let mut wanted: Vec<PartId> = (1..=run.parts).map(PartId::numbered).collect();
    // The halves of a part that is just being halved may not be there yet.
    let mut coming: HashSet<PartId> = HashSet::new();
    let mut found: HashMap<PartId, Part> = HashMap::new();
    while !wanted.is_empty() {
        let ids: Vec<ItemId> = wanted.iter().map(|part| ItemId::part(&run.key, part)).collect();
        let mut halves = Vec::new();
        for item in engine.ledger.get_many(&ids).await? {
            let Item::Part(part) = item else { continue };
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

/// A part, then its halves.
fn in_order(found: &mut HashMap<PartId, Part>, id: PartId, ordered: &mut Vec<Part>) {
    let Some(part) = found.remove(&id) else { return };
    let halved = part.halved;
    ordered.push(part);
    if halved {
        for half in id.halves() {
            in_order(found, half, ordered);
        }
    }
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
        tally.parked += rows.dead;
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
    tally.possible_duplicates = jobs.values().map(|job| u64::from(job.possible_duplicates)).sum();
    Ok(RunProgress { run: run.clone(), parts, jobs, tally })
}

/// Whether a run is over: cut to its end, every part closed.
#[must_use]
pub fn is_over(intake: &Intake, progress: &RunProgress) -> bool {
    intake.state == State::Read && progress.is_over()
}
