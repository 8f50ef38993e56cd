//! Messages of dead letters: sent after the item is written, renewed before the queue forgets them, and swept out of it when
//! they stand for nothing any more (design, section 7).

use tracing::debug;

use super::engine::{Engine, Trouble};
use crate::domain::item::Item;
use crate::ports::ledger::ReplaceError;

/// Sends the message of a dead letter whose message is due. Its number is taken first, in a write of its own, so that two
/// ticks never send one of the same number, and a crash in between leaves at most one that nobody stands for.
///
/// # Errors
/// Trouble; it is due again when a lease taken now would end.
pub(super) async fn tell(engine: &Engine, item: Item) -> Result<(), Trouble> {
    let holder = engine.ids.token();
    let now = engine.now();
    let Some(item) = change(engine, item, |letter, at| {
        let is_due = letter.is_due(at, now.at);
        if is_due {
            letter.begin(&holder, now);
        }
        is_due
    })
    .await?
    else {
        return Ok(());
    };
    let body = serde_json::json!({"id": item.id().to_string()}).to_string();
    for sent in engine.dead_letters.send(&[body]).await {
        sent?;
    }
    debug!(item.id = %item.id(), "told of a dead letter");
    change(engine, item, |letter, _| letter.was_sent(&holder, engine.now())).await.map(drop)
}

/// Changes what a dead letter remembers of its messages. None: it is none any more, or somebody else changed it first.
async fn change(
    engine: &Engine,
    item: Item,
    change: impl FnOnce(&mut crate::domain::letter::Letter, crate::domain::time::Millis) -> bool,
) -> Result<Option<Item>, Trouble> {
    let (read, since) = (item.rev().clone(), item.since());
    let mut next = item;
    if !next.change_letter(engine.now(), |letter| change(letter, since)) {
        return Ok(None);
    }
    match engine.replace(&read, next).await {
        Ok(written) => Ok(Some(written)),
        Err(ReplaceError::Stale(_)) => Ok(None),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}
