//! Work that another process left for this one: that of the events which `webhook serve` took.

use futures::{StreamExt, stream};
use tracing::{error, warn};

use super::engine::{Engine, Trouble};
use super::work::{Work, work};
use crate::domain::time::Millis;
use crate::ports::queue::{Message, Queue};

/// How many messages are taken at once.
const PAGE: usize = 64;

/// What was done of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Followed {
    /// Messages whose work was done.
    pub messages: u64,
    /// Results made durable and handed on by that.
    pub consumed: u64,
}

/// Does what is in the queue, until it is empty or `until` has come.
///
/// # Errors
/// Trouble with the queue, or the first trouble that needs a person; the message of that work comes again.
pub async fn do_left_work(engine: &Engine, until: Millis) -> Result<Followed, Trouble> {
    let Some(queue) = &engine.left_work else { return Ok(Followed::default()) };
    let (mut done, mut trouble) = (Followed::default(), None);
    while !engine.is_stopping() && engine.clock.now() < until && trouble.is_none() {
        // As a lease: what a process held that died is taken over then. A pass over a large output may take longer; its own
        // lease keeps others off.
        let messages = queue.receive(PAGE, engine.settings.policy.submit_lease).await?;
        if messages.is_empty() {
            break;
        }
        let mut under_way = stream::iter(messages)
            .map(|message| async move { do_one(engine, &**queue, &message, until).await })
            .buffer_unordered(engine.settings.concurrency);
        while let Some(outcome) = under_way.next().await {
            match outcome {
                Ok(consumed) => {
                    done.messages += 1;
                    done.consumed += consumed;
                }
                Err(Trouble::Passing(why)) => {
                    warn!(error = why, "the work of an event could not be done now; it comes again")
                }
                Err(stop) => {
                    trouble.get_or_insert(stop);
                }
            }
        }
    }
    trouble.map_or(Ok(done), Err)
}

async fn do_one(engine: &Engine, queue: &dyn Queue, message: &Message, until: Millis) -> Result<u64, Trouble> {
    let mut consumed = 0;
    match serde_json::from_str::<Work>(&message.body) {
        // There is no inbox in a data folder.
        Ok(named) if !matches!(named, Work::Inbox(_)) => match work(engine, None, &named, until).await {
            Ok(news) => consumed = news,
            // What needs a person is met again by the next start at once.
            Err(stop @ Trouble::NeedsPerson(_)) => {
                queue.release(message).await?;
                return Err(stop);
            }
            // It comes again, until its job is settled in this way or another.
            Err(passing) => return Err(passing),
        },
        // It would be as unreadable the next time, and says nothing that the ledger's own looks don't find.
        _ => error!(body = message.body, "a message of the work queue names no work that can be done here: dropped"),
    }
    for deleted in queue.delete(std::slice::from_ref(message)).await {
        deleted?;
    }
    Ok(consumed)
}
