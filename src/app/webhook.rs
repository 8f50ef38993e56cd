//! Events: a request is verified, its event taken once, and work for its job queued (design, section 8).
//!
//! The event's id is remembered in two steps: *taken*, for half a minute, before anything else is done, and *handled*,
//! after the work is in the queue. Only a handled one is a duplicate: whatever breaks off in between is sent again by
//! Gemini, and done again here, which a job stands.
//!
//! What only the event knows, a handle that no job has on record yet, goes into the ledger first. So the message in the
//! queue is a hint: when it is late, or lost, the job is due all the same.

mod resolve;
mod take;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tracing::{error, info, warn};

use self::resolve::Found;
use self::take::Taken;
use super::engine::Trouble;
use super::work::{Told, Work, put};
use crate::domain::item::ItemId;
use crate::domain::policy::Policy;
use crate::domain::webhook::{Body, Named, Outcome, Refusal, Request};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::ports::ledger::{Ledger, LedgerError};
use crate::ports::queue::Queue;
use crate::ports::webhook_keys::{KeysError, PublicKeys, SigningSecrets};

/// What events are received with. It has no API key: what an event is about is asked by whoever does the work.
#[derive(Debug, Clone)]
pub struct Reception {
    /// Items.
    pub ledger: Arc<dyn Ledger>,
    /// Where the work goes.
    pub work_queue: Arc<dyn Queue>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
    /// Secrets of registered webhooks.
    pub secrets: Arc<dyn SigningSecrets>,
    /// Gemini's own keys.
    pub public_keys: Arc<dyn PublicKeys>,
    /// Whom tokens must be for.
    pub audience: Option<String>,
    /// The rules of a job's life: an event may be the first that is heard of a handle.
    pub policy: Policy,
    /// How late the ledger may find a handle that was just written down: an event may come as early.
    pub handles_lag: Duration,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// It is an event, seen for the first time.
    Event(Outcome),
    /// It was handled before.
    Duplicate,
    /// Another delivery of it is being worked on: it should come again.
    InHands,
    /// It is refused.
    Refused(Refusal),
    /// It can't be taken now, for a reason of ours: it should come again.
    NotNow(String),
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What became of it.
    pub received: Received,
    /// The HTTP status.
    pub status: u16,
    /// JSON, for whoever looks: nothing of the event is in it.
    pub body: String,
}

impl Answer {
    /// The answer to what became of a request. Gemini sends again what is not answered with 2xx.
    #[must_use]
    pub fn of(received: Received) -> Self {
        let (status, body) = match &received {
            Received::Event(outcome) => (200, json!({"event": word(outcome)})),
            Received::Duplicate => (200, json!({"event": "duplicate"})),
            Received::InHands => (503, json!({"error": "another delivery of this event is being worked on"})),
            Received::Refused(refusal) => (refusal.status(), json!({"error": refusal.to_string()})),
            // Why is in the log: it is nobody's business out there.
            Received::NotNow(_) => (503, json!({"error": "the event can't be taken now"})),
        };
        Self { received, status, body: body.to_string() }
    }
}

const fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Queued(_) => "queued",
        Outcome::Over(_) => "over",
        Outcome::Unknown => "unknown",
        Outcome::Other => "other",
    }
}

/// Why a request was not taken to its end.
enum Stop {
    Refused(Refusal),
    NotNow(String),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<LedgerError> for Stop {
    fn from(error: LedgerError) -> Self {
        Self::NotNow(error.to_string())
    }
}

impl From<KeysError> for Stop {
    fn from(error: KeysError) -> Self {
        Self::NotNow(error.to_string())
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::NotNow(trouble.to_string())
    }
}

/// Takes one request.
pub async fn receive(reception: &Reception, request: &Request) -> Answer {
    let received = match take_event(reception, request).await {
        Ok(received) => received,
        Err(Stop::Refused(refusal)) => {
            warn!(event.status = refusal.status(), error = %refusal, "an event was refused");
            Received::Refused(refusal)
        }
        Err(Stop::NotNow(why)) => {
            error!(error = why, "an event could not be taken now; it should come again");
            Received::NotNow(why)
        }
    };
    Answer::of(received)
}

async fn take_event(reception: &Reception, request: &Request) -> Result<Received, Stop> {
    let proof = verify::verify(reception, request).await?;
    let body = Body::read(&request.body)?;
    let event = match take::take(reception, &proof.event, &body.about).await? {
        Taken::Ours(event) => event,
        Taken::Handled => {
            info!(event.name = proof.event, event.about = body.about, "an event came again");
            return Ok(Received::Duplicate);
        }
        Taken::InHands => return Ok(Received::InHands),
    };
    match queue_its_work(reception, &body).await {
        Ok(outcome) => {
            info!(event.name = event.name, event.about = body.about, event.outcome = ?outcome, "an event was taken");
            take::handled(reception, event, outcome.clone()).await?;
            Ok(Received::Event(outcome))
        }
        Err(stop) => {
            take::let_go(reception, event).await;
            Err(stop)
        }
    }
}

async fn queue_its_work(reception: &Reception, body: &Body) -> Result<Outcome, Stop> {
    let (handle, is_batch) = match &body.named {
        Named::Interaction(id) => (id, false),
        Named::Batch(name) => (name, true),
        Named::Other => return Ok(Outcome::Other),
    };
    let (job, outcome) = match resolve::resolve(reception, handle, is_batch, body.claim.as_ref()).await? {
        Found::Over(key) => return Ok(Outcome::Over(ItemId::job(&key).0)),
        Found::Job(key) => {
            let id = ItemId::job(&key).0;
            (Some(key), Outcome::Queued(id))
        }
        Found::PerhapsByName => (None, Outcome::Queued(handle.clone())),
        Found::Nobody => return Ok(Outcome::Unknown),
    };
    put(&*reception.work_queue, &Work::Event(Told { handle: handle.clone(), job })).await?;
    Ok(outcome)
}
