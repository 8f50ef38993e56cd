//! Rows that have dead letters of their own.

use futures::{StreamExt, TryStreamExt, stream};

use super::making::{Alike, Making};
use super::standing::{Standing, Standings};
use super::{How, Told, left};
use crate::app::batch::lines::broken;
use crate::app::batch::origins::Origins;
use crate::app::engine::{Engine, Trouble};
use crate::app::replay::{Outcome, RowsBy};
use crate::domain::changes::Changes;
use crate::domain::dead::DeadRow;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::json::quoted;
use crate::domain::line::changed_row;
use crate::domain::part::{Part, PartId};
use crate::domain::pass::find;
use crate::domain::time::Millis;
use crate::ports::ledger::ReplaceError;

/// How many rows are claimed before the lease is looked at again.
const AT_ONCE: usize = 100;

/// Lines that are read at once: each may be tens of MB.
const READS: usize = 2;

/// Replays rows of one root part that have used as many attempts.
pub(super) async fn replay_alike(
    engine: &Engine,
    standings: &mut Standings,
    root: PartId,
    used: u32,
    rows: Vec<DeadRow>,
    how: &How,
) -> Result<Vec<Told>, Trouble> {
    let (mut told, mut ready) = (Vec::new(), Vec::new());
    let mut maybe_paid = false;
    for row in rows {
        match standings.of(engine, &row.run, &row.part, row.attempt).await? {
            Standing::Open(why) => told.push(left(ItemId::dead_row(&row.id), why)),
            Standing::Over { maybe_paid: this } => {
                maybe_paid |= this;
                ready.push(row);
            }
        }
    }
    let Some(run) = ready.first().map(|row| row.run.clone()) else { return Ok(told) };
    let model = how.changes.model.as_deref();
    let by_call = how.by == RowsBy::Call;
    let alike = Alike { run: &run, root, used, model, maybe_paid, of_group: None, by_call };
    let mut making = Making::begin(engine, &alike).await?;
    let (mut claimed, mut origins) = (Vec::new(), Origins::default());
    for some in ready.chunks(AT_ONCE) {
        if !making.stay().await? {
            told.extend(some.iter().map(|row| left(ItemId::dead_row(&row.id), TOO_SLOW)));
            continue;
        }
        let (part, until) = (making.part().clone(), making.until());
        let claims = stream::iter(some.to_vec())
            .map(|row| claim(engine, row, &part, until, &how.reason))
            .buffered(engine.settings.concurrency);
        for claim in claims.try_collect::<Vec<_>>().await? {
            match claim {
                Claim::Ours(row) => claimed.push(*row),
                Claim::Not(what) => told.push(what),
            }
        }
    }
    if claimed.is_empty() {
        making.give_up().await?;
        return Ok(told);
    }
    let mut lines = stream::iter(claimed.clone()).map(|row| line_of(engine, row, &how.changes)).buffered(READS);
    let mut ids = Vec::new();
    while let Some((id, key, line)) = lines.try_next().await? {
        origins.add(&key, &id);
        ids.push(ItemId::dead_row(&id));
        making.put(line).await;
        if !making.stay().await? {
            break;
        }
    }
    drop(lines);
    origins.write(engine, making.part()).await?;
    if making.finish().await? {
        told.extend(ids.into_iter().map(|id| (id, Outcome::Resubmitted, None)));
    } else {
        told.extend(claimed.iter().map(|row| left(ItemId::dead_row(&row.id), TOO_SLOW)));
    }
    Ok(told)
}

/// Why rows were left of which the fence was lost.
pub(super) const TOO_SLOW: &str = "it took longer than its lease, or somebody cancelled the run meanwhile: it is a dead letter again by the next tick. Replay it again";

enum Claim {
    Ours(Box<DeadRow>),
    Not(Told),
}

/// Claims a row for a part: only one of all who want it gets it.
async fn claim(engine: &Engine, read: DeadRow, part: &Part, until: Millis, reason: &str) -> Result<Claim, Trouble> {
    let id = ItemId::dead_row(&read.id);
    let (at, mut row) = (read.at.clone(), read);
    loop {
        match row.state {
            State::Parked => {}
            State::Recovered => {
                return Ok(Claim::Not((id, Outcome::Recovered, Some("a late result has settled it".to_owned()))));
            }
            other => return Ok(Claim::Not(left(id, format!("somebody else took it up: it is {other} now")))),
        }
        if row.at != at {
            return Ok(Claim::Not(left(id, "it has died once more meanwhile; try again")));
        }
        let rev = row.rev.clone();
        let mut next = row;
        next.state = State::Retryable;
        next.since = engine.clock.now();
        next.due_at = Some(until);
        next.replays = next.replays.saturating_add(1);
        next.replayed_in = Some(part.part.clone());
        next.letter.note(Some(reason));
        match engine.replace(&rev, Item::DeadRow(next)).await {
            Ok(Item::DeadRow(claimed)) => return Ok(Claim::Ours(Box::new(claimed))),
            Err(ReplaceError::Stale(Some(found))) => match *found {
                // Its message was sent, say.
                Item::DeadRow(found) => row = found,
                other => return Ok(Claim::Not(left(id, format!("the ledger item {} is no dead row", other.id())))),
            },
            Ok(_) | Err(ReplaceError::Stale(None)) => {
                return Ok(Claim::Not(left(id, "it is not in the ledger any more")));
            }
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}

/// A row's name and key, and its line as it goes out.
async fn line_of(engine: &Engine, row: DeadRow, changes: &Changes) -> Result<(String, String, String), Trouble> {
    let (object, at, length) = &row.at;
    let bytes = engine.objects.read(object, *at..*at + *length).await?;
    let (key, line) = row_line(&bytes, changes).map_err(|why| broken(object, *at, &why))?;
    Ok((row.id, key, line))
}

/// The key and the line to send of a line of an object of dead rows.
///
/// # Errors
/// It is none; in words.
pub(super) fn row_line(dead: &[u8], changes: &Changes) -> Result<(String, String), String> {
    let text = str::from_utf8(dead).map_err(|error| error.to_string())?;
    let dead = find::dead(text.trim_end_matches('\n'))?;
    let request = changed_row(dead.request.get(), changes).map_err(|error| error.message)?;
    // A person's fields may have been written on several lines; outside of strings a line end is white space.
    let request = request.replace(['\n', '\r'], " ");
    let line = format!("{{\"key\":{},\"request\":{request}}}\n", quoted(&dead.key));
    Ok((dead.key.into_owned(), line))
}
