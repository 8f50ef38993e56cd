//! Replaying dead rows: they go out once more, as a part of their own (design, section 7).
//!
//! Rows of one root part that have used as many attempts go together. The part is made first, empty and leased: the fence.
//! Then the rows are claimed, one conditional write each; then their lines are written; then the part is finished under its
//! rev, if it is still this maker's. So a row is in one part at most, whoever stops wherever: a part that is not finished
//! when its lease is over is settled with nothing in it, and its rows are dead letters again ([`recheck`]).

pub(super) mod again;
mod at_once;
mod group;
mod making;
mod rechecking;
mod rows;
mod standing;

use std::collections::BTreeMap;

pub use self::at_once::call_at_once;
use self::group::replay_group;
pub(super) use self::rechecking::wake_letters;
pub use self::rechecking::{recheck, recheck_run};
use self::rows::replay_alike;
use self::standing::Standings;
use super::items;
use crate::app::engine::{Engine, Trouble};
use crate::app::replay::{Outcome, RowsBy};
use crate::domain::changes::Changes;
use crate::domain::dead::DeadRow;
use crate::domain::extract::Expectation;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::line::check_row_changes;
use crate::domain::part::PartId;

/// How dead rows go out again.
#[derive(Debug, Clone)]
pub struct How {
    /// Another model, other request fields.
    pub changes: Changes,
    /// As a batch or as calls.
    pub by: RowsBy,
    /// Why, in a person's words.
    pub reason: String,
}

/// What became of one dead letter, and why where there is something to say.
pub type Told = (ItemId, Outcome, Option<String>);

fn left(id: ItemId, why: impl Into<String>) -> Told {
    (id, Outcome::Left, Some(why.into()))
}

/// Replays dead letters of rows, single ones and groups, as they were read. What can't go out now is left, with the reason
/// and until when, and nothing of it is changed.
///
/// # Errors
/// Trouble. What was claimed by then goes out, or is a dead letter again when its part's lease is over.
pub async fn replay_rows(engine: &Engine, letters: Vec<Item>, how: &How) -> Result<Vec<Told>, Trouble> {
    let mut told = Vec::new();
    let mut alike: BTreeMap<(String, PartId, u32), Vec<DeadRow>> = BTreeMap::new();
    let mut groups = Vec::new();
    for letter in letters {
        let id = letter.id();
        if letter.state() != State::Parked {
            told.push(left(id, format!("it is {} by now", letter.state())));
            continue;
        }
        match letter {
            Item::DeadRow(row) => {
                alike.entry((row.intake.clone(), row.part.root(), row.attempts)).or_default().push(row);
            }
            Item::DeadGroup(group) => groups.push(group),
            _ => told.push(left(id, "it is no row of a run")),
        }
    }
    let mut standings = Standings::default();
    for ((intake, root, used), rows) in alike {
        let ids: Vec<ItemId> = rows.iter().map(|row| ItemId::dead_row(&row.id)).collect();
        match refused(engine, &intake, &how.changes).await? {
            Some(why) => told.extend(ids.into_iter().map(|id| left(id, why.clone()))),
            None => told.extend(replay_alike(engine, &mut standings, root, used, rows, how).await?),
        }
    }
    for group in groups {
        let id = ItemId::dead_group(&group.run, &group.class);
        match refused(engine, &group.intake, &how.changes).await? {
            Some(why) => told.push(left(id, why)),
            None => told.push(replay_group(engine, &mut standings, group, how).await?),
        }
    }
    Ok(told)
}

/// Why no row of a run can be replayed with these changes, if so: known before anything is claimed. A dry run tells the same.
///
/// # Errors
/// Trouble with the ledger or the objects.
pub async fn refused(engine: &Engine, intake: &str, changes: &Changes) -> Result<Option<String>, Trouble> {
    let (intake, run) = items::run_of(engine, intake).await?;
    if let Some(reason) = intake.cancelled {
        return Ok(Some(format!(
            "the run {} was cancelled ({reason}): nothing of it goes out any more; discard it instead",
            run.key
        )));
    }
    if let Err(why) = fit_for_rows(changes) {
        return Ok(Some(format!("its request would be bad: {why}")));
    }
    engine.lost_intake(&intake.sha256).await
}

/// Whether rows may have these changes; what is wrong with them.
fn fit_for_rows(changes: &Changes) -> Result<(), String> {
    check_row_changes(changes).map_err(|error| error.message)?;
    // What their answers must be is told by these fields too.
    let fields = changes.apply("{}").map_err(|error| error.to_string())?;
    let fields = serde_json::from_str(&fields).map_err(|error| error.to_string())?;
    Expectation::of(&fields, None).map(drop).map_err(|why| format!("request.{why}"))
}
