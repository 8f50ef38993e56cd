//! What becomes of replayed rows: their dead letters are settled, or wait for a person again. By the cursors of the pass,
//! so that a crash settles none twice and forgets none.

use tracing::info;

use crate::app::batch::blocks::{Block, Blocks};
use crate::app::batch::dead::{recover, stand};
use crate::app::batch::lines::{broken, key_of};
use crate::app::batch::origins::Origins;
use crate::app::engine::{Engine, Trouble};
use crate::domain::dead::DeadRow;
use crate::domain::item::{Item, ItemId};
use crate::domain::part::{File, Part, Passed};
use crate::ports::ledger::ReplaceError;

/// Settles the dead letters of the rows to which a pass of a replay gave results.
///
/// # Errors
/// Trouble; what was settled stays, and the cursor stands behind it.
pub(in crate::app::batch) async fn heal(
    engine: &Engine,
    mut part: Part,
    number: usize,
    passed: &Passed,
    origins: &Origins,
) -> Result<Option<Part>, Trouble> {
    let object = passed.object(&part.run, &part.part, File::Results);
    let mut blocks = Blocks::from(&engine.objects, &object, passed.healed);
    while let Some(block) = blocks.next().await? {
        let Block::Lines { at, bytes } = block else {
            return Err(broken(&object, passed.healed, "a line that is longer than any result"));
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let key = key_of(line).map_err(|why| broken(&object, at, &why))?;
            // One of a group has no dead letter of its own.
            if let Some(id) = origins.get(&key) {
                recover(engine, id).await?;
            }
        }
        let end = at + bytes.len() as u64;
        let Some(stood) = stand(engine, part, number, |passed| passed.healed = end).await? else { return Ok(None) };
        part = stood;
    }
    stand(engine, part, number, |passed| passed.healed = passed.result_bytes).await
}

/// A replayed row has died once more, as `died` says: its own dead letter, of that name, waits for a person again. Whoever
/// comes late with this news changes nothing any more.
///
/// # Errors
/// Trouble with the ledger.
pub(in crate::app::batch) async fn die_again(engine: &Engine, id: &str, died: DeadRow) -> Result<(), Trouble> {
    loop {
        let Some(Item::DeadRow(row)) = engine.ledger.get(&ItemId::dead_row(id)).await? else {
            return Err(Trouble::NeedsPerson(format!(
                "the dead letter {id}, from which a row of part {} of the run {} came, is not in the ledger",
                died.part, died.run
            )));
        };
        let is_of_this_replay = row.replayed_in.as_ref() == Some(&died.part.whole());
        if row.state.is_closed() || !is_of_this_replay || row.at == died.at {
            return Ok(());
        }
        let read = row.rev.clone();
        let mut next = DeadRow {
            part: died.part.clone(),
            attempt: died.attempt,
            attempts: died.attempts,
            at: died.at.clone(),
            class: died.class.clone(),
            message: died.message.clone(),
            ..row
        };
        next.park_again(engine.clock.now());
        match engine.replace(&read, Item::DeadRow(next)).await {
            Ok(_) => {
                info!(row.id = id, row.class = died.class, "a replayed row has died again");
                return Ok(());
            }
            Err(ReplaceError::Stale(_)) => {}
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}
