//! The sweep: messages that stand for nothing any more are taken out of the queue of dead letters.
//!
//! Whoever looks at the queue meanwhile, or afterwards, must find the others there: a few are received at a time, hidden for
//! seconds, and handed back at once. A process that ends in the middle leaves them visible within those seconds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tracing::{debug, warn};

use super::body::{Named, named};
use crate::app::engine::{Engine, Trouble};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::queue::Message;

/// How many messages are received at once: what one request to SQS brings.
const HANDFUL: usize = 10;

/// How long they are hidden, should nobody release them.
const HIDDEN: Duration = Duration::from_secs(5);

/// How long one sweep goes on to another handful.
const LONGEST: Duration = Duration::from_secs(5);

/// How often one process sweeps at most, where ticks follow each other closely.
const RARELY: Duration = Duration::from_secs(30);

/// How many messages of others are remembered as told.
const TOLD: usize = 1000;

/// When a process last swept, and of which messages that aren't this program's it has told.
#[derive(Debug, Clone)]
pub struct Sweeps {
    remembered: Arc<Mutex<Remembered>>,
    gap: Duration,
}

#[derive(Debug, Default)]
struct Remembered {
    last: Option<Millis>,
    told: BTreeSet<String>,
}

impl Default for Sweeps {
    fn default() -> Self {
        Self { remembered: Arc::default(), gap: RARELY }
    }
}

impl Sweeps {
    /// For a process whose ticks are a minute apart: each of them sweeps.
    #[must_use]
    pub fn at_every_tick() -> Self {
        Self { gap: Duration::ZERO, ..Self::default() }
    }

    /// Whether it is time for another one, which begins then.
    pub(in crate::app) fn is_time(&self, now: Millis) -> bool {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back must not put it off for ever.
        let is_time = remembered.last.is_none_or(|last| last > now || now.since(last) >= self.gap);
        if is_time {
            remembered.last = Some(now);
        }
        is_time
    }

    /// Whether that message was not told of before.
    fn is_news(&self, body: &str) -> bool {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.told.len() < TOLD && remembered.told.insert(crate::domain::job::clip(body, 200))
    }
}

/// What a sweep found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Messages that were looked at.
    pub seen: u64,
    /// Messages that stood for nothing any more, and are gone.
    pub dropped: u64,
}

/// Looks at a handful of messages and drops those that are stale; while there were some, and time is left until `until`,
/// at another one. The others are handed back.
///
/// # Errors
/// Trouble with the queue or the ledger: what was received is visible again within seconds.
pub async fn sweep(engine: &Engine, until: Millis) -> Result<Swept, Trouble> {
    sweep_while(engine, until.min(engine.clock.now().plus(LONGEST)), |_, dropped| dropped > 0).await
}

/// The same for the whole queue, as far as the time until `until` goes: until a handful has nothing new.
///
/// # Errors
/// As [`sweep`].
pub(super) async fn sweep_all(engine: &Engine, until: Millis) -> Result<Swept, Trouble> {
    let mut met = BTreeSet::new();
    sweep_while(engine, until, |handful, dropped| {
        let news = handful.iter().filter(|named| met.insert((*named).clone())).count();
        news > 0 || dropped > 0
    })
    .await
}

async fn sweep_while(
    engine: &Engine,
    until: Millis,
    mut goes_on: impl FnMut(&[Named], u64) -> bool,
) -> Result<Swept, Trouble> {
    let mut swept = Swept::default();
    loop {
        let messages = engine.dead_letters.receive(HANDFUL, HIDDEN).await?;
        if messages.is_empty() {
            break;
        }
        swept.seen += messages.len() as u64;
        let messages: Vec<(Option<Named>, Message)> =
            messages.into_iter().map(|message| (named(&message.body), message)).collect();
        let handful: Vec<Named> = messages.iter().filter_map(|(named, _)| named.clone()).collect();
        let dropped = one_handful(engine, messages).await?;
        swept.dropped += dropped;
        if !goes_on(&handful, dropped) || engine.is_stopping() || engine.clock.now() >= until {
            break;
        }
    }
    if swept.dropped > 0 {
        debug!(seen = swept.seen, dropped = swept.dropped, "swept the queue of dead letters");
    }
    Ok(swept)
}

/// Drops what is stale of a handful, and releases the rest, whatever fails.
async fn one_handful(engine: &Engine, messages: Vec<(Option<Named>, Message)>) -> Result<u64, Trouble> {
    let ids: BTreeSet<&ItemId> = messages.iter().filter_map(|(named, _)| Some(&named.as_ref()?.item)).collect();
    let ids: Vec<ItemId> = ids.into_iter().cloned().collect();
    let (items, trouble) = match engine.ledger.get_many(&ids).await {
        Ok(items) => (items, None),
        Err(error) => (Vec::new(), Some(Trouble::from(error))),
    };
    let mut met = BTreeSet::new();
    let (mut stale, mut rest) = (Vec::new(), Vec::new());
    for (named, message) in messages {
        let item = named.as_ref().and_then(|named| items.iter().find(|item| item.id() == named.item));
        match (named, item) {
            (Some(named), Some(item)) if is_stale(item, named.number) || !met.insert(named.clone()) => {
                stale.push(message)
            }
            (Some(_), Some(_)) => rest.push(message),
            (named, _) => {
                if trouble.is_none() && engine.sweeps.is_news(&message.body) {
                    let item = named.map(|named| named.item.0);
                    warn!(
                        item.id = item,
                        "a message in the queue of dead letters is of no item of this ledger: left there"
                    );
                }
                rest.push(message);
            }
        }
    }
    let release = join_all(rest.iter().map(|message| engine.dead_letters.release(message)));
    let (deleted, released) = futures::join!(engine.dead_letters.delete(&stale), release);
    for error in released.into_iter().filter_map(Result::err) {
        warn!(%error, "a message could not be handed back; it is seen again within seconds");
    }
    let mut dropped = 0;
    for outcome in deleted {
        match outcome {
            Ok(()) => dropped += 1,
            Err(error) => {
                warn!(%error, "a message that stands for nothing could not be dropped; a later sweep does it")
            }
        }
    }
    trouble.map_or(Ok(dropped), Err)
}

/// Whether the message of that number stands for nothing any more. While the next one is being sent, the one before it
/// stays: so that there is one at any time.
fn is_stale(item: &Item, number: u32) -> bool {
    if item.state() != State::Parked {
        return true;
    }
    item.letter().is_none_or(|letter| letter.number != number && letter.sent.is_some())
}
