//! The two steps of an event's id.

use tracing::warn;

use super::{Reception, Stop};
use crate::domain::item::Item;
use crate::domain::job::{Rev, State};
use crate::domain::webhook::{EVENT_LEASE, Event, KEPT, Outcome};
use crate::ports::ledger::{CreateError, ReplaceError};

/// How much of an event's type is kept: it is Gemini's word, and no longer than any it has.
const TYPE_CHARS: usize = 60;

/// Whose an event is.
pub(super) enum Taken {
    /// Ours, for the length of its lease.
    Ours(Event),
    /// It was handled before.
    Handled,
    /// Another delivery's, which is being worked on.
    InHands,
}

fn rev(reception: &Reception) -> Rev {
    Rev(reception.ids.token())
}

/// Takes the event of that name, if nobody has it.
pub(super) async fn take(reception: &Reception, name: &str, about: &str) -> Result<Taken, Stop> {
    let now = reception.clock.now();
    let event = Event {
        name: name.to_owned(),
        rev: rev(reception),
        state: State::Taken,
        since: now,
        about: about.chars().take(TYPE_CHARS).collect(),
        lease: Some(now.plus(EVENT_LEASE)),
        outcome: None,
        expires: now.plus(KEPT),
    };
    let known = match reception.ledger.create(&Item::Event(event.clone())).await {
        Ok(()) => return Ok(Taken::Ours(event)),
        Err(CreateError::Exists(known)) => *known,
        Err(CreateError::Ledger(error)) => return Err(error.into()),
    };
    let Item::Event(known) = known else {
        return Err(Stop::NotNow(format!("{} is in an event's place", known.id())));
    };
    if known.state == State::Handled {
        return Ok(Taken::Handled);
    }
    // One that ends later than any that is taken now was taken before the clock was set back.
    if known.lease.is_some_and(|lease| lease > now && lease <= now.plus(EVENT_LEASE)) {
        return Ok(Taken::InHands);
    }
    match reception.ledger.replace(&known.rev, &Item::Event(event.clone())).await {
        Ok(()) => Ok(Taken::Ours(event)),
        Err(ReplaceError::Stale(_)) => Ok(Taken::InHands),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}

/// Its work is in the queue, or it asks for none: it is a duplicate from now on.
pub(super) async fn handled(reception: &Reception, event: Event, outcome: Outcome) -> Result<(), Stop> {
    let now = reception.clock.now();
    let read = event.rev.clone();
    let handled = Event {
        rev: rev(reception),
        state: State::Handled,
        since: now,
        lease: None,
        outcome: Some(outcome),
        expires: now.plus(KEPT),
        ..event
    };
    match reception.ledger.replace(&read, &Item::Event(handled)).await {
        // Stale: our lease ran out and another delivery took it over. Its work comes twice, which a job stands.
        Ok(()) | Err(ReplaceError::Stale(_)) => Ok(()),
        Err(ReplaceError::Ledger(error)) => Err(error.into()),
    }
}

/// Gives it back after trouble, so that its next delivery need not wait for the lease to end.
pub(super) async fn let_go(reception: &Reception, event: Event) {
    let read = event.rev.clone();
    let free = Event { rev: rev(reception), lease: None, ..event };
    if let Err(error) = reception.ledger.replace(&read, &Item::Event(free)).await {
        warn!(%error, "an event could not be given back; its lease ends by itself");
    }
}
