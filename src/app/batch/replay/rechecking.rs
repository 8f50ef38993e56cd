//! Seeing whether a replay goes on: whoever made its part may be gone, and then its rows are dead letters again.

use std::time::Duration;

use tracing::{error, info, warn};

use super::again::die_again;
use crate::app::batch::dead::{dead_row, recover};
use crate::app::batch::lines::broken;
use crate::app::batch::row::look::{find_line, settled_in};
use crate::app::batch::{items, report};
use crate::app::engine::{Engine, Trouble};
use crate::app::report::every;
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Rev, State};
use crate::domain::part::{File, Part, PartId};
use crate::domain::pass::{SettledAs, find};
use crate::domain::time::Millis;
use crate::ports::ledger::ReplaceError;

/// How long a replay that goes on is left alone: what comes of it settles its rows, so that this is only against losses.
const LATER: Duration = Duration::from_secs(3600);

/// How soon to look again where somebody else is just changing a part.
const SOON: Duration = Duration::from_secs(10);

/// How a replay stands.
enum Stands {
    /// Its rows were never put in, and never will be.
    Nothing,
    /// It goes on: look again then.
    GoesOn(Millis),
    /// Its parts are closed.
    Over(Vec<Part>),
}

/// Looks at a dead row, or a group, whose replay is under way and due to be looked at.
///
/// # Errors
/// Trouble; it stays due.
pub async fn recheck(engine: &Engine, item: Item) -> Result<(), Trouble> {
    match item {
        Item::DeadRow(row) if row.state == State::Retryable => recheck_row(engine, row).await,
        Item::DeadGroup(group) if group.state == State::Retryable => recheck_group(engine, group).await,
        _ => Ok(()),
    }
}

/// Looks at every dead row and group of a run whose replay is under way, due or not: nobody is to wait for an hour for what
/// is over.
///
/// # Errors
/// Trouble; what was not looked at is when it is due.
pub async fn recheck_run(engine: &Engine, sha256: &str) -> Result<(), Trouble> {
    for item in every(engine, State::Retryable, usize::MAX).await? {
        if item.intake() == Some(sha256) {
            recheck(engine, item).await?;
        }
    }
    Ok(())
}

/// Looks at the group whose rows went out in a part that has just ended, and at the rows of a replay that was given up. It is
/// due from now on, should this be lost on the way.
///
/// # Errors
/// Trouble with the ledger.
pub(in crate::app::batch) async fn wake_letters(engine: &Engine, part: &Part, state: State) -> Result<(), Trouble> {
    wake_group(engine, part).await?;
    if part.part.is_replay() && (state == State::Discarded || part.of_group.is_some()) {
        recheck_run(engine, &part.intake).await?;
    }
    Ok(())
}

async fn wake_group(engine: &Engine, part: &Part) -> Result<(), Trouble> {
    let Some(class) = &part.of_group else { return Ok(()) };
    let Some(Item::DeadGroup(group)) = engine.ledger.get(&ItemId::dead_group(&part.run, class)).await? else {
        return Ok(());
    };
    if group.state != State::Retryable {
        return Ok(());
    }
    let read = group.rev.clone();
    replace(engine, &read, Item::DeadGroup(DeadGroup { due_at: Some(engine.clock.now()), ..group })).await
}

async fn stands(engine: &Engine, run: &str, id: &PartId) -> Result<Stands, Trouble> {
    let parts = report::with_halves(engine, run, id).await?;
    let Some(whole) = parts.first() else { return Ok(Stands::Nothing) };
    let now = engine.clock.now();
    if whole.is_unfinished() {
        if whole.state.is_closed() {
            return Ok(Stands::Nothing);
        }
        if let Some(lease) = whole.lease.as_ref().filter(|lease| lease.until > now) {
            return Ok(Stands::GoesOn(lease.until));
        }
        // Under its rev: a maker that is merely slow can't finish it any more.
        let mut next = whole.clone();
        next.enter(State::Discarded, None, now);
        let settled = items::replace(engine, whole, next).await?;
        return Ok(if settled.is_some() { Stands::Nothing } else { Stands::GoesOn(now.plus(SOON)) });
    }
    let is_over = parts.iter().all(|part| part.state.is_closed());
    Ok(if is_over { Stands::Over(parts) } else { Stands::GoesOn(now.plus(LATER)) })
}

async fn recheck_row(engine: &Engine, row: DeadRow) -> Result<(), Trouble> {
    let read = row.rev.clone();
    let stands = match &row.replayed_in {
        Some(part) => stands(engine, &row.run, part).await?,
        None => Stands::Nothing,
    };
    let mut next = row.clone();
    match stands {
        Stands::GoesOn(until) => next.due_at = Some(until),
        Stands::Nothing => {
            info!(row.id = row.id, "its replay broke off before it went out: a dead letter again");
            next.park_again(engine.clock.now());
        }
        Stands::Over(parts) => {
            if heal(engine, &row, &parts).await? {
                return Ok(());
            }
            info!(row.id = row.id, "its replay was given up with its run: a dead letter again");
            next.park_again(engine.clock.now());
        }
    }
    replace(engine, &read, Item::DeadRow(next)).await
}

/// Settles a row whose replay has settled it, which its telling should have done. False: the replay has not settled it.
async fn heal(engine: &Engine, row: &DeadRow, parts: &[Part]) -> Result<bool, Trouble> {
    let (object, at, length) = &row.at;
    let line = engine.objects.read(object, *at..*at + *length).await?;
    let key = {
        let text = str::from_utf8(&line).map_err(|error| broken(object, *at, &error.to_string()))?;
        find::dead(text.trim_end_matches('\n')).map_err(|why| broken(object, *at, &why))?.key.into_owned()
    };
    let settlings = settled_in(&engine.objects, parts, &key).await?;
    if settlings.iter().any(|settling| settling.settled == SettledAs::Succeeded) {
        warn!(row.id = row.id, "its replay gave it a result, and its dead letter was not settled: settled now");
        return recover(engine, &row.id).await.map(|()| true);
    }
    let Some(died) = settlings.last() else { return Ok(false) };
    let object = died.passed.object(&died.part.run, &died.part.part, File::Dead);
    let Some(found) = find_line(&engine.objects, &object, &key).await? else {
        return Err(Trouble::NeedsPerson(format!("the row {key} died in {object}, and is not in it")));
    };
    error!(row.id = row.id, "it died again in its replay, and its dead letter did not say so: it does now");
    let line = format!("{}\n", found.line);
    let again = dead_row(engine, died.part, died.passed, &object, found.at, line.as_bytes())?;
    die_again(engine, &row.id, again).await.map(|()| true)
}

/// Takes back what of a group is in no replay any more; when nothing of it is, it is a dead letter again or has recovered.
async fn recheck_group(engine: &Engine, group: DeadGroup) -> Result<(), Trouble> {
    let read = group.rev.clone();
    let mut next = group.clone();
    let mut until: Option<Millis> = None;
    for part in &group.replayed_in {
        let taken = group.taken.iter().filter(|(_, (_, taken_by))| taken_by == part);
        let entries: Vec<(String, u64)> = taken.map(|(entry, (rows, _))| (entry.clone(), *rows)).collect();
        let Some((first, _)) = entries.first() else { continue };
        match stands(engine, &group.run, part).await? {
            Stands::GoesOn(later) => {
                until = Some(until.map_or(later, |until| until.min(later)));
                continue;
            }
            Stands::Nothing => next.rows.extend(entries.iter().cloned()),
            Stands::Over(parts) => {
                // What was given up with the run has not gone out, and is dead as before.
                let back: u64 = parts.iter().map(|part| part.discarded).sum();
                if back > 0 {
                    next.rows.insert(first.clone(), back);
                }
            }
        }
        for (entry, _) in &entries {
            next.taken.remove(entry);
        }
    }
    let now = engine.clock.now();
    match until {
        Some(until) => next.due_at = Some(until),
        None if next.rows.is_empty() => {
            info!(run = group.run, group.class = group.class, "every row of a grouped dead letter is settled");
            next.state = State::Recovered;
            next.since = now;
            next.due_at = None;
        }
        None => {
            info!(run = group.run, group.class = group.class, rows = next.count(), "a grouped dead letter again");
            next.state = State::Parked;
            next.since = now;
            next.due_at = Some(now);
            next.letter.changed();
        }
    }
    replace(engine, &read, Item::DeadGroup(next)).await
}

/// Whoever changed it first has seen something newer: it is due again if that is needed.
async fn replace(engine: &Engine, read: &Rev, item: Item) -> Result<(), Trouble> {
    match engine.replace(read, item).await {
        Ok(_) | Err(ReplaceError::Stale(_)) => Ok(()),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}
