//! The messages of many rows that died together: each item is created with its message counted as sent, and the messages
//! follow in batches, before whoever makes them moves the cursor over them. So a dead row costs one write.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tracing::warn;

use super::{body, settle};
use crate::app::engine::{Engine, Trouble};
use crate::domain::dead::DeadRow;
use crate::domain::item::Item;
use crate::domain::letter::Letter;
use crate::ports::ledger::CreateError;

/// How many messages are sent by one call, at most: they are held in memory together, 100 kB each at most.
const TOGETHER: usize = 100;

/// Makes the dead letters of rows, each with its line of the object of dead rows, and sends their messages. What was made
/// before, by whoever had the cursor then, may have been told or not: it is told again by the tick.
///
/// # Errors
/// Trouble with the ledger; the same call may be made again.
pub(in crate::app) async fn tell_rows(engine: &Engine, rows: Vec<(DeadRow, Bytes)>) -> Result<(), Trouble> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<(DeadRow, Bytes)> = rows.by_ref().take(TOGETHER).collect();
        let made: Vec<Option<(Item, Bytes)>> = stream::iter(some)
            .map(|(row, line)| create(engine, row, line))
            .buffer_unordered(engine.settings.concurrency)
            .try_collect()
            .await?;
        send(engine, made.into_iter().flatten().collect()).await?;
    }
    Ok(())
}

/// Creates a dead row whose first message counts as sent. None: its dead letter was made before.
async fn create(engine: &Engine, mut row: DeadRow, line: Bytes) -> Result<Option<(Item, Bytes)>, Trouble> {
    row.letter = Letter { number: 1, sent: Some(engine.clock.now()), ..Letter::default() };
    row.due_at = Some(row.letter.due(row.since));
    let item = Item::DeadRow(row);
    match engine.create(&item).await {
        Ok(()) => Ok(Some((item, line))),
        Err(CreateError::Exists(found)) => {
            // Nobody knows whether the first message was sent. A later one was taken up by a tick, which knows.
            settle(engine, *found, untold_if_first).await.map(|()| None)
        }
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}

fn untold_if_first(letter: &mut Letter) -> bool {
    let in_doubt = letter.number == 1 && letter.sent.is_some();
    if in_doubt {
        letter.changed();
    }
    in_doubt
}

async fn send(engine: &Engine, made: Vec<(Item, Bytes)>) -> Result<(), Trouble> {
    let with_bodies = made.into_iter().filter_map(|(item, line)| {
        let Item::DeadRow(row) = &item else { return None };
        let body = body::text(&item, &body::of_row(row, &line))?;
        Some((item, body))
    });
    let (items, bodies): (Vec<Item>, Vec<String>) = with_bodies.unzip();
    if bodies.is_empty() {
        return Ok(());
    }
    let outcomes = engine.dead_letters.send(&bodies).await;
    let unsent: Vec<Item> = items
        .into_iter()
        .zip(outcomes)
        .filter_map(|(item, sent)| {
            let why = sent.err()?;
            warn!(item.id = %item.id(), error = %why, "the message of a dead row could not be sent; the tick sends another");
            Some(item)
        })
        .collect();
    stream::iter(unsent)
        .map(|item| settle(engine, item, untold_if_first))
        .buffer_unordered(engine.settings.concurrency)
        .try_for_each(|()| async { Ok(()) })
        .await
}
