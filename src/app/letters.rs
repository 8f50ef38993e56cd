//! Messages of dead letters: sent after the item is written, renewed before the queue forgets them, and swept out of it when
//! they stand for nothing any more (design, section 7).
//!
//! An item remembers the number of its latest message, and that it was sent. A message is *current* while its item is a
//! dead letter and its number is the item's; every other one is stale.

mod body;
mod rows;
mod sweep;

use std::time::Duration;

use futures::{StreamExt, stream};
use tracing::{debug, error, warn};

pub use self::body::{INLINE, Named, named};
pub(super) use self::rows::tell_rows;
pub use self::sweep::{Sweeps, Swept, sweep};
use super::engine::{Engine, Trouble};
use crate::domain::item::Item;
use crate::domain::job::State;
use crate::domain::letter::Letter;
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;
use crate::ports::ledger::ReplaceError;

/// How many items are taken at once.
const PAGE: usize = 500;

/// Sends the message of a dead letter whose message is due. Its number is taken first, in a write of its own, so that two
/// ticks never send one of the same number, and a crash in between leaves at most one that nobody stands for.
///
/// # Errors
/// Trouble; it is due again when a lease taken now would end.
pub(super) async fn tell(engine: &Engine, item: Item) -> Result<(), Trouble> {
    let holder = engine.ids.token();
    // It never changes: what takes time comes before the number is taken.
    let payload = body::payload(engine, &item).await;
    let Some(item) = begin(engine, item, &holder).await? else { return Ok(()) };
    let Some(body) = body::text(&item, &payload) else { return Ok(()) };
    for sent in engine.dead_letters.send(&[body]).await {
        sent?;
    }
    debug!(item.id = %item.id(), "told of a dead letter");
    settle(engine, item, |letter| letter.was_sent(&holder, engine.now())).await
}

/// Takes the number of the next message. None: it is no dead letter now, its message isn't due, or somebody else changed
/// the item first.
async fn begin(engine: &Engine, mut item: Item, holder: &str) -> Result<Option<Item>, Trouble> {
    let (read, since, now) = (item.rev().clone(), item.since(), engine.now());
    let begun = item.change_letter(now, |letter| {
        let is_due = letter.is_due(since, now.at);
        if is_due {
            letter.begin(holder, now);
        }
        is_due
    });
    if !begun {
        return Ok(None);
    }
    match engine.replace(&read, item).await {
        Ok(written) => Ok(Some(written)),
        Err(ReplaceError::Stale(_)) => Ok(None),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}

/// Changes what a dead letter remembers of its messages, whatever else has become of the item meanwhile. `change` answers
/// whether there is something to write.
async fn settle(engine: &Engine, mut item: Item, change: impl Fn(&mut Letter) -> bool) -> Result<(), Trouble> {
    loop {
        let read = item.rev().clone();
        if !item.change_letter(engine.now(), &change) {
            return Ok(());
        }
        match engine.replace(&read, item).await {
            Ok(_) | Err(ReplaceError::Stale(None)) => return Ok(()),
            Err(ReplaceError::Stale(Some(found))) => item = *found,
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
    }
}

/// Sends every message that is due, and sweeps the queue, for at most `longest`: so that who works here next, or looks at
/// the queue, finds a message for each dead letter and none besides. What can't be done now is the next tick's, and the
/// log says why.
pub async fn tidy(engine: &Engine, longest: Duration) {
    let until = engine.clock.now().plus(longest);
    if let Err(trouble) = send_due(engine, until).await {
        tell_trouble(&trouble, "the messages of some dead letters could not be sent");
    }
    if let Err(trouble) = sweep::sweep_all(engine, until).await {
        tell_trouble(&trouble, "the queue of dead letters could not be swept");
    }
}

/// Sweeps when it is time for that again in this process. Trouble is only told: nothing waits for a sweep.
pub(super) async fn sweep_now_and_then(engine: &Engine, until: Millis) {
    if !engine.is_stopping()
        && engine.sweeps.is_time(engine.clock.now())
        && let Err(trouble) = sweep(engine, until).await
    {
        tell_trouble(&trouble, "the queue of dead letters could not be swept");
    }
}

fn tell_trouble(trouble: &Trouble, what: &str) {
    match trouble {
        Trouble::Passing(why) => warn!(error = why, "{what}; a later tick goes on"),
        Trouble::NeedsPerson(why) => error!(error = why, "{what}; a later tick tries again"),
    }
}

async fn send_due(engine: &Engine, until: Millis) -> Result<(), Trouble> {
    loop {
        let now = engine.clock.now();
        let mut due = engine.ledger.due(&[State::Parked], now, PAGE).await?;
        due.retain(|item| step(item, now) == Action::Tell);
        if due.is_empty() || engine.is_stopping() || now >= until {
            return Ok(());
        }
        let mut telling =
            stream::iter(due).map(|item| tell(engine, item)).buffer_unordered(engine.settings.concurrency);
        while let Some(told) = telling.next().await {
            told?;
        }
    }
}
