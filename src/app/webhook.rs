//! Events: a request is verified, taken once, and its job's work is queued (design, section 8).

use std::sync::Arc;

use serde_json::json;

use crate::domain::webhook::Request;
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::ports::ledger::Ledger;
use crate::ports::queue::Queue;
use crate::ports::webhook_keys::{PublicKeys, SigningSecrets};

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
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// JSON.
    pub body: String,
}

/// Takes one request. Gemini sends again what is not answered with 2xx.
pub async fn receive(_reception: &Reception, _request: &Request) -> Answer {
    Answer { status: 501, body: json!({"error": "not built yet"}).to_string() }
}
