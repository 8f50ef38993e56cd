//! Replaying dead rows: they go out again as a new part of their run (design, section 7).

use crate::app::engine::{Engine, Trouble};
use crate::app::replay::{Outcome, RowsBy};
use crate::domain::changes::Changes;
use crate::domain::item::{Item, ItemId};

/// How dead letters are replayed.
#[derive(Debug, Clone)]
pub struct How {
    /// What takes the place of their own.
    pub changes: Changes,
    /// How rows go out.
    pub by: RowsBy,
    /// Why a person has it done.
    pub reason: String,
}

/// Replays dead rows and groups of them, and says of each what became of it.
///
/// # Errors
/// Trouble.
pub async fn replay_rows(
    _engine: &Engine,
    letters: Vec<Item>,
    _how: &How,
) -> Result<Vec<(ItemId, Outcome, Option<String>)>, Trouble> {
    let why = "rows can't be replayed yet";
    Ok(letters.iter().map(|item| (item.id(), Outcome::Left, Some(why.to_owned()))).collect())
}
