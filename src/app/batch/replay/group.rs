//! Rows that have one dead letter for all of them: they are read from the objects of the passes in which they died.

use std::collections::{BTreeMap, HashSet};

use super::making::{Alike, Making};
use super::rows::{TOO_SLOW, row_line};
use super::standing::{Standing, Standings};
use super::{How, Told, left};
use crate::app::batch::blocks::{Block, Blocks};
use crate::app::batch::items;
use crate::app::batch::lines::broken;
use crate::app::engine::{Engine, Trouble};
use crate::app::replay::{Outcome, RowsBy};
use crate::domain::dead::DeadGroup;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{CLASS_BYTES, State, clip};
use crate::domain::part::{File, Part, PartId, Passed};
use crate::domain::pass::{KeyName, SettledAs, find, read_settled, row_id};
use crate::ports::ledger::ReplaceError;

/// An entry of a group: the rows of its class that died in one pass.
#[derive(Debug)]
struct Entry {
    name: String,
    part: Part,
    passed: Passed,
}

/// Entries whose rows go out together.
#[derive(Debug, Default)]
struct Alikes {
    entries: Vec<Entry>,
    maybe_paid: bool,
}

/// Replays the rows of a group, as far as nothing can bring them late any more.
pub(super) async fn replay_group(
    engine: &Engine,
    standings: &mut Standings,
    group: DeadGroup,
    how: &How,
) -> Result<Told, Trouble> {
    let id = ItemId::dead_group(&group.run, &group.class);
    let mut alikes: BTreeMap<(PartId, u32), Alikes> = BTreeMap::new();
    let mut why_not = None;
    for name in group.rows.keys() {
        let (part, passed) = pass_of(engine, &group.run, name).await?;
        let used = part.attempt(passed.attempt).map_or(0, |sending| sending.tries);
        match standings.of(engine, &group.run, &part.part, passed.attempt).await? {
            Standing::Open(why) => why_not = Some(why),
            Standing::Over { maybe_paid } => {
                let some = alikes.entry((part.part.root(), used)).or_default();
                some.maybe_paid |= maybe_paid;
                some.entries.push(Entry { name: name.clone(), part, passed });
            }
        }
    }
    if alikes.is_empty() {
        return Ok(left(id, why_not.unwrap_or_else(|| "it has no rows".to_owned())));
    }
    let mut makings = Vec::new();
    for ((root, used), some) in alikes {
        let model = how.changes.model.as_deref();
        let maybe_paid = some.maybe_paid;
        let by_call = how.by == RowsBy::Call;
        let alike = Alike { run: &group.run, root, used, model, maybe_paid, of_group: Some(&group.class), by_call };
        makings.push((Making::begin(engine, &alike).await?, some.entries));
    }
    if let Some(why) = claim(engine, &group, &makings, how).await? {
        for (making, _) in makings {
            making.give_up().await?;
        }
        return Ok(left(id, why));
    }
    let mut lost = false;
    while let Some((mut making, entries)) = makings.pop() {
        for entry in &entries {
            fill(engine, &group, entry, how, &mut making, &mut makings).await?;
        }
        lost |= !making.finish().await?;
    }
    let why_not = why_not.map(|why| format!("a part of its rows is left: {why}"));
    Ok((id, Outcome::Resubmitted, if lost { Some(TOO_SLOW.to_owned()) } else { why_not }))
}

/// The pass that an entry names, and its part.
async fn pass_of(engine: &Engine, run: &str, entry: &str) -> Result<(Part, Passed), Trouble> {
    let strange = || {
        Trouble::NeedsPerson(format!(
            "a dead letter of the run {run} names {entry}, which is no pass of it. Please report this."
        ))
    };
    let (part, name) = entry.rsplit_once('.').ok_or_else(strange)?;
    let part = items::part(engine, run, &PartId(part.to_owned())).await?;
    let passed = part.passes.iter().find(|passed| passed.name == name).cloned().ok_or_else(strange)?;
    Ok((part, passed))
}

/// Claims the group for these parts, once for all of its rows that go out. Says why not.
async fn claim(
    engine: &Engine,
    read: &DeadGroup,
    makings: &[(Making<'_>, Vec<Entry>)],
    how: &How,
) -> Result<Option<String>, Trouble> {
    let mut group = read.clone();
    loop {
        if group.state != State::Parked || group.rows != read.rows {
            return Ok(Some(format!("it has changed meanwhile, and is {} now; try again", group.state)));
        }
        let rev = group.rev.clone();
        let mut next = group;
        next.state = State::Retryable;
        next.since = engine.clock.now();
        next.replays = next.replays.saturating_add(1);
        next.replayed_in.clear();
        next.letter.note(Some(&how.reason));
        for (making, entries) in makings {
            let part = &making.part().part;
            next.replayed_in.push(part.clone());
            for entry in entries {
                if let Some(rows) = next.rows.remove(&entry.name) {
                    next.taken.insert(entry.name.clone(), (rows, part.clone()));
                }
            }
            next.due_at = Some(making.until());
        }
        match engine.replace(&rev, Item::DeadGroup(next)).await {
            Ok(_) => return Ok(None),
            Err(ReplaceError::Stale(Some(found))) => match *found {
                Item::DeadGroup(found) => group = found,
                other => return Ok(Some(format!("the ledger item {} is no group of dead rows", other.id()))),
            },
            Err(ReplaceError::Stale(None)) => return Ok(Some("it is not in the ledger any more".to_owned())),
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}

/// Puts the rows of an entry into its part, while the leases of the others are kept too.
async fn fill(
    engine: &Engine,
    group: &DeadGroup,
    entry: &Entry,
    how: &How,
    making: &mut Making<'_>,
    others: &mut [(Making<'_>, Vec<Entry>)],
) -> Result<(), Trouble> {
    let recovered = recovered(engine, &entry.part).await?;
    let object = entry.passed.object(&entry.part.run, &entry.part.part, File::Dead);
    let mut blocks = Blocks::of(&engine.objects, &object);
    while let Some(block) = blocks.next().await? {
        let Block::Lines { at, bytes } = block else {
            return Err(broken(&object, 0, "a line that is longer than any row"));
        };
        let mut lines = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let text = str::from_utf8(line).map_err(|error| broken(&object, at, &error.to_string()))?;
            let dead = find::dead(text).map_err(|why| broken(&object, at, &why))?;
            if clip(&dead.class, CLASS_BYTES) == group.class && !recovered.contains(&KeyName::of(&dead.key)) {
                lines.push((ItemId::dead_row(&row_id(&group.run, &dead.key, entry.passed.attempt)), line));
            }
        }
        // Whoever made dead letters of them first was perhaps stopped in the middle: those go out by their own.
        let ids: Vec<ItemId> = lines.iter().map(|(id, _)| id.clone()).collect();
        let own: HashSet<ItemId> = engine.ledger.get_many(&ids).await?.iter().map(Item::id).collect();
        for (_, line) in lines.into_iter().filter(|(id, _)| !own.contains(id)) {
            let (_, line) = row_line(line, &how.changes).map_err(|why| broken(&object, at, &why))?;
            making.put(line).await;
        }
        if !making.stay().await? {
            return Ok(());
        }
        for (other, _) in others.iter_mut() {
            other.stay().await?;
        }
    }
    Ok(())
}

/// Rows of a part that have their result.
async fn recovered(engine: &Engine, part: &Part) -> Result<HashSet<KeyName>, Trouble> {
    let mut names = HashSet::new();
    for passed in part.passes.iter().filter(|passed| passed.counts.recovered > 0) {
        let object = passed.object(&part.run, &part.part, File::Settled);
        let bytes = engine.objects.get(&object).await?;
        let rows = read_settled(&bytes).map_err(|why| broken(&object, 0, &why))?;
        names.extend(rows.filter(|(_, settled)| *settled == SettledAs::Succeeded).map(|(name, _)| name));
    }
    Ok(names)
}
