//! Dead letters of rows: made from the pass's own object of dead rows by a cursor, create-if-absent, so that a crash makes
//! none twice and forgets none. More than a thousand of one class become one grouped dead letter, and hold the run's next
//! parts up for a person (design, section 5).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use tracing::{error, info};

use super::blocks::{Block, Blocks};
use super::origins::Origins;
use super::replay::again::{die_again, heal};
use super::{items, report};
use crate::app::engine::{Engine, Trouble};
use crate::app::letters::tell_rows;
use crate::domain::dead::{DeadGroup, DeadRow, KEY_BYTES, ROWS_OF_A_CLASS};
use crate::domain::intake::{Held, Intake, Run};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{CLASS_BYTES, MESSAGE_BYTES, State, clip};
use crate::domain::letter::Letter;
use crate::domain::moves::Now;
use crate::domain::part::{File, Part, Passed};
use crate::domain::pass::{find, row_id};
use crate::ports::ledger::{CreateError, ReplaceError};

/// Makes the dead letters of a part's passes that are still to be made, and settles those of recovered rows; then the part
/// is due again.
///
/// # Errors
/// Trouble; what was made stays, and the cursor stands behind it.
pub(super) async fn tell(engine: &Engine, mut part: Part, intake: &Intake, run: &Run) -> Result<(), Trouble> {
    let grouped = grouped(engine, run).await?;
    let origins = Origins::of(engine, &part).await?;
    for number in 0..part.passes.len() {
        let Some(passed) = part.passes.get(number).cloned() else { break };
        if passed.told < passed.dead_bytes {
            let Some(told) = tell_dead(engine, part, number, &passed, intake, &grouped, &origins).await? else {
                return Ok(());
            };
            part = told;
        }
        if passed.mended < passed.recovered_bytes {
            let Some(mended) = mend(engine, part, number, &passed, &origins).await? else { return Ok(()) };
            part = mended;
        }
        if passed.healed < passed.result_bytes {
            let Some(healed) = heal(engine, part, number, &passed, &origins).await? else { return Ok(()) };
            part = healed;
        }
    }
    let now = engine.clock.now();
    let mut next = part.clone();
    next.enter(State::Waiting, Some(now), now);
    items::replace(engine, &part, next).await.map(drop)
}

/// The classes of which more rows of the run died than may have dead letters of their own. Who has one keeps it, however
/// often it is replayed and dies again.
async fn grouped(engine: &Engine, run: &Run) -> Result<BTreeSet<String>, Trouble> {
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for part in
        report::parts(engine, run).await?.into_iter().filter(|part| !part.part.is_replay() || part.of_group.is_some())
    {
        for (class, rows) in part.passes.into_iter().flat_map(|passed| passed.classes) {
            *classes.entry(class).or_default() += rows;
        }
    }
    Ok(classes.into_iter().filter(|(_, rows)| *rows > ROWS_OF_A_CLASS).map(|(class, _)| class).collect())
}

/// Writes what stands at a pass: its cursors, and the lease. None: the part is somebody else's by now.
pub(super) async fn stand(
    engine: &Engine,
    part: Part,
    number: usize,
    change: impl FnOnce(&mut Passed),
) -> Result<Option<Part>, Trouble> {
    let now = engine.now();
    let until = now.policy.lease_from(now.at);
    let mut next = part.clone();
    if let Some(passed) = next.passes.get_mut(number) {
        change(passed);
    }
    next.due_at = Some(until);
    if let Some(lease) = &mut next.lease {
        lease.until = until;
    }
    items::replace(engine, &part, next).await
}

async fn tell_dead(
    engine: &Engine,
    mut part: Part,
    number: usize,
    passed: &Passed,
    intake: &Intake,
    grouped: &BTreeSet<String>,
    origins: &Origins,
) -> Result<Option<Part>, Trouble> {
    let object = passed.object(&part.run, &part.part, File::Dead);
    let mut groups: BTreeMap<String, (u64, String)> = BTreeMap::new();
    // Groups are counted over the whole object, so that whoever goes on after a crash counts the same.
    let mut blocks = Blocks::from(&engine.objects, &object, if grouped.is_empty() { passed.told } else { 0 });
    while let Some(block) = blocks.next().await? {
        let Block::Lines { at, bytes } = block else {
            return Err(Trouble::NeedsPerson(format!("{object} has a line that is longer than any row's")));
        };
        let end = at + bytes.len() as u64;
        let (mut rows, mut again) = (Vec::new(), Vec::new());
        let mut place = at;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let row = dead_row(engine, &part, passed, &object, place, line)?;
            place += line.len() as u64;
            if let Some(id) = origins.of_line(&object, place, line)? {
                again.push((id, row));
            } else if grouped.contains(&row.class) {
                let group = groups.entry(row.class.clone()).or_insert((0, row.message.clone()));
                group.0 += 1;
            } else if place > passed.told {
                rows.push((row, bytes.slice_ref(line)));
            }
        }
        if end <= passed.told {
            continue;
        }
        tell_rows(engine, rows).await?;
        for (id, row) in again {
            die_again(engine, id, row).await?;
        }
        if end < passed.dead_bytes {
            let Some(stood) = stand(engine, part, number, |passed| passed.told = end).await? else { return Ok(None) };
            part = stood;
        }
    }
    for (class, (rows, message)) in groups {
        group(engine, &part, passed, intake, &class, rows, &message).await?;
    }
    stand(engine, part, number, |passed| passed.told = passed.dead_bytes).await
}

pub(super) fn dead_row(
    engine: &Engine,
    part: &Part,
    passed: &Passed,
    object: &str,
    place: u64,
    line: &[u8],
) -> Result<DeadRow, Trouble> {
    let broken = |why: String| Trouble::NeedsPerson(format!("{object} can't be read at byte {place}: {why}"));
    let text = str::from_utf8(line).map_err(|error| broken(error.to_string()))?;
    let dead = find::dead(text.trim_end_matches('\n')).map_err(broken)?;
    let now = engine.clock.now();
    Ok(DeadRow {
        id: row_id(&part.run, &dead.key, passed.attempt),
        rev: engine.rev(),
        state: State::Parked,
        since: now,
        due_at: Some(now),
        intake: part.intake.clone(),
        run: part.run.clone(),
        part: part.part.clone(),
        attempt: passed.attempt,
        attempts: dead.attempts,
        key: clip(&dead.key, KEY_BYTES),
        at: (object.to_owned(), place, line.len() as u64),
        class: clip(&dead.class, CLASS_BYTES),
        message: clip(&dead.message, MESSAGE_BYTES),
        first_seen: now,
        replays: 0,
        replayed_in: None,
        letter: Letter::default(),
    })
}

/// Counts the dead rows of a pass in the grouped dead letter of their class, and holds the run up.
async fn group(
    engine: &Engine,
    part: &Part,
    passed: &Passed,
    intake: &Intake,
    class: &str,
    rows: u64,
    message: &str,
) -> Result<(), Trouble> {
    let id = ItemId::dead_group(&part.run, class);
    let entry = format!("{}.{}", part.part, passed.name);
    loop {
        let now = engine.clock.now();
        let stored = match engine.ledger.get(&id).await? {
            Some(Item::DeadGroup(group)) => Some(group),
            _ => None,
        };
        let fresh = || DeadGroup {
            rev: engine.rev(),
            state: State::Parked,
            since: now,
            due_at: Some(now),
            intake: part.intake.clone(),
            run: part.run.clone(),
            class: class.to_owned(),
            message: clip(message, MESSAGE_BYTES),
            rows: BTreeMap::new(),
            first_seen: now,
            replays: 0,
            replayed_in: Vec::new(),
            taken: BTreeMap::new(),
            letter: Letter::default(),
        };
        let mut next = stored.clone().unwrap_or_else(fresh);
        if next.rows.insert(entry.clone(), rows) == Some(rows) {
            break;
        }
        // A person who had settled it meets it again; while others of it are being replayed, once that has ended.
        if next.state != State::Retryable {
            next.state = State::Parked;
            next.since = now;
            next.letter.changed();
        }
        next.due_at = Some(now);
        let written = match &stored {
            Some(read) => match engine.replace(&read.rev, Item::DeadGroup(next)).await {
                Ok(_) => true,
                Err(ReplaceError::Stale(_)) => false,
                Err(ReplaceError::Ledger(error)) => return Err(error.into()),
            },
            None => match engine.create(&Item::DeadGroup(next)).await {
                Ok(()) => true,
                Err(CreateError::Exists(_)) => false,
                Err(CreateError::Ledger(error)) => return Err(error.into()),
            },
        };
        if written {
            break;
        }
    }
    let class = class.to_owned();
    let message = clip(message, MESSAGE_BYTES);
    // What a replay brought holds nothing up: a person sent it.
    let is_replay = part.part.is_replay();
    let is_held = AtomicBool::new(false);
    let hold = |intake: &mut Intake, now: Now<'_>| {
        let run = intake.run.as_mut().filter(|run| !is_replay && run.held.is_none() && !run.let_go.contains(&class));
        is_held.store(run.is_some(), Ordering::Relaxed);
        let Some(run) = run else { return false };
        run.held = Some(Held { class: class.clone(), message: message.clone(), since: now.at });
        true
    };
    engine.settle_intake(intake.clone(), hold).await?;
    if is_held.into_inner() {
        error!(run = part.run, part = %part.part, class, rows, "many rows died alike: the run's next parts wait for a person");
    } else {
        info!(run = part.run, part = %part.part, class, rows, "many rows died alike: they have one dead letter");
    }
    Ok(())
}

/// A recovered row, as the pass tells it.
#[derive(Debug, Deserialize)]
struct Recovered<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    attempt: u32,
}

/// Settles the dead letters of rows that have succeeded late.
async fn mend(
    engine: &Engine,
    mut part: Part,
    number: usize,
    passed: &Passed,
    origins: &Origins,
) -> Result<Option<Part>, Trouble> {
    let object = passed.object(&part.run, &part.part, File::Recovered);
    let mut blocks = Blocks::from(&engine.objects, &object, passed.mended);
    while let Some(block) = blocks.next().await? {
        let Block::Lines { at, bytes } = block else {
            return Err(Trouble::NeedsPerson(format!("{object} has a line that is longer than any row's")));
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let row: Recovered<'_> = serde_json::from_slice(line)
                .map_err(|error| Trouble::NeedsPerson(format!("{object} can't be read: {error}")))?;
            let own = row_id(&part.run, &row.key, row.attempt);
            recover(engine, origins.get(&row.key).unwrap_or(&own)).await?;
        }
        let end = at + bytes.len() as u64;
        let Some(stood) = stand(engine, part, number, |passed| passed.mended = end).await? else { return Ok(None) };
        part = stood;
    }
    stand(engine, part, number, |passed| passed.mended = passed.recovered_bytes).await
}

pub(super) async fn recover(engine: &Engine, id: &str) -> Result<(), Trouble> {
    loop {
        // One of a group has no dead letter of its own.
        let Some(Item::DeadRow(row)) = engine.ledger.get(&ItemId::dead_row(id)).await? else { return Ok(()) };
        if row.state.is_closed() {
            return Ok(());
        }
        let read = row.rev.clone();
        let next = DeadRow { state: State::Recovered, since: engine.clock.now(), due_at: None, ..row };
        match engine.replace(&read, Item::DeadRow(next)).await {
            Ok(_) => {
                info!(row.id = id, "a dead row has succeeded");
                return Ok(());
            }
            Err(ReplaceError::Stale(_)) => {}
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}
