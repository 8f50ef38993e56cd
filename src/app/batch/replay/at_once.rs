//! Replayed rows that go out as calls, made by whoever replays them: so that it can be told what became of them.

use std::collections::{BTreeSet, HashMap};

use tracing::warn;

use super::Told;
use super::rechecking::recheck;
use crate::app::batch::part::{Out, bring_on};
use crate::app::batch::send::send_attempt;
use crate::app::batch::{items, settle};
use crate::app::call::{GLANCE, LONGEST_WAIT};
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::Gates;
use crate::app::replay::Outcome;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::part::{PartId, attempt_key};
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;

/// Brings on the parts that replayed rows went into, as far as there is time before `until`. Returns what became of the rows
/// by then, and what a person must mend first, if that came up: the ticks go on with what is left.
pub async fn call_at_once(engine: &Engine, told: Vec<Told>, until: Millis) -> (Vec<Told>, Option<String>) {
    match call_all(engine, &told, until).await {
        Ok((became, trouble)) => {
            let told = told.into_iter().map(|(id, outcome, why)| match became.get(&id) {
                Some(ended) => (id, ended.0, ended.1.clone()),
                None => (id, outcome, why),
            });
            (told.collect(), trouble)
        }
        Err(trouble) => (told, Some(trouble.to_string())),
    }
}

/// What rows have become that have ended.
type Became = HashMap<ItemId, (Outcome, Option<String>)>;

async fn call_all(engine: &Engine, told: &[Told], until: Millis) -> Result<(Became, Option<String>), Trouble> {
    let gone_out = told.iter().filter(|(_, outcome, _)| *outcome == Outcome::Resubmitted);
    let ids: Vec<ItemId> = gone_out.map(|(id, ..)| id.clone()).collect();
    let mut parts: BTreeSet<(String, PartId)> = BTreeSet::new();
    for item in engine.ledger.get_many(&ids).await? {
        match item {
            Item::DeadRow(row) => parts.extend(row.replayed_in.map(|part| (row.run, part))),
            Item::DeadGroup(group) => {
                parts.extend(group.replayed_in.into_iter().map(|part| (group.run.clone(), part)));
            }
            _ => {}
        }
    }
    let (gates, mut needed) = (Gates::new(engine), None);
    for (run, part) in parts {
        match bring_through(engine, &gates, &run, &part, until).await {
            Ok(()) => {}
            Err(Trouble::Passing(why)) => warn!(error = why, "a replay goes on by the next tick"),
            Err(Trouble::NeedsPerson(why)) => {
                needed.get_or_insert(why);
            }
        }
    }
    for item in engine.ledger.get_many(&ids).await? {
        if matches!(item, Item::DeadGroup(_)) && step(&item, engine.clock.now()) == Action::Recheck {
            recheck(engine, item).await?;
        }
    }
    let items = engine.ledger.get_many(&ids).await?;
    Ok((items.iter().filter_map(|item| Some((item.id(), ended(item)?))).collect(), needed))
}

/// What became of a row, or a group, that has ended.
fn ended(item: &Item) -> Option<(Outcome, Option<String>)> {
    match item.state() {
        State::Recovered => Some((Outcome::Recovered, None)),
        State::Parked => {
            let why = match item {
                Item::DeadRow(row) => Some(format!("{}: {}", row.class, row.message)),
                _ => None,
            };
            Some((Outcome::StillFailing, why))
        }
        _ => None,
    }
}

/// Brings a part on until it is closed, the time is over, or it waits for something else than a short while.
async fn bring_through(
    engine: &Engine,
    gates: &Gates<'_>,
    run: &str,
    id: &PartId,
    until: Millis,
) -> Result<(), Trouble> {
    let mut before = None;
    loop {
        if engine.is_stopping() || engine.clock.now() >= until {
            return Ok(());
        }
        let part = items::part(engine, run, id).await?;
        let latest = part.latest().filter(|_| part.is_out()).map(|latest| attempt_key(run, id, latest.number));
        let attempt = match latest {
            Some(key) => items::job(engine, &key).await?,
            None => None,
        };
        // Who makes the calls wakes the part when they are made.
        let item = attempt.map_or_else(|| Item::Part(Box::new(part)), Item::Job);
        let action = step(&item, engine.clock.now());
        if action == Action::Wait {
            let soon = |due: &Millis| *due < until && engine.until(*due) <= LONGEST_WAIT;
            let Some(due) = item.due_at().filter(soon) else { return Ok(()) };
            while engine.clock.now() < due && !engine.is_stopping() {
                engine.clock.sleep(engine.until(due).min(GLANCE)).await;
            }
            continue;
        }
        // What could not be brought on now is left to the ticks.
        if before.replace(item.rev().clone()).as_ref() == Some(item.rev()) {
            return Ok(());
        }
        match (action, item) {
            (Action::Submit, Item::Job(job)) => drop(send_attempt(engine, gates, job, until).await?),
            (Action::Consume, Item::Job(job)) => drop(settle::take(engine, &job).await?),
            (_, Item::Part(part)) => drop(bring_on(engine, *part, &mut Out::count(engine).await?).await?),
            _ => return Ok(()),
        }
    }
}
