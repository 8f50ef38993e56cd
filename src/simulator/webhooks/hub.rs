//! What the simulator knows of webhooks and events.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use reqwest::Client;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::address;
use super::delivery::{Delivery, Facts, Outcome, Try};
use super::keys::Ed25519;
use super::registered::Registered;
use super::watch::Watched;

/// Requests with events that are under way at once.
const AT_ONCE: usize = 64;

/// How many events were made and what became of them. One event to two addresses counts as two.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(in super::super) struct Counts {
    made: u64,
    /// Requests that were sent, tries anew among them.
    sent: u64,
    /// Requests that were answered with 2xx.
    accepted: u64,
    /// Requests that were answered with something else, or not at all.
    refused: u64,
    undeliverable: u64,
    lost: u64,
    given_up: u64,
    dropped: u64,
    /// Events of which none of these ends is known yet.
    waiting: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(in super::super) struct Hub {
    pub(super) registered: Registered,
    pub(super) watched: Watched,
    pub(super) ed25519: Ed25519,
    pub(super) at_once: Semaphore,
    deliveries: Mutex<Vec<Arc<Delivery>>>,
    counts: Mutex<Counts>,
    /// The highest place of a delivery whose first request was answered, and one.
    posted: watch::Sender<usize>,
    client: OnceLock<Result<Client, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// # Errors
    /// When no keys can be made.
    pub(in super::super) fn new(seed: u64) -> io::Result<Self> {
        Ok(Self {
            registered: Registered::default(),
            watched: Watched::default(),
            ed25519: Ed25519::new(seed)?,
            at_once: Semaphore::new(AT_ONCE),
            deliveries: Mutex::default(),
            counts: Mutex::default(),
            posted: watch::Sender::new(0),
            client: OnceLock::new(),
        })
    }

    /// The client that can't leave this machine, made when it is first needed.
    pub(super) fn client(&self) -> Result<&Client, String> {
        let client = self.client.get_or_init(|| address::client().map_err(|error| error.to_string()));
        client.as_ref().map_err(Clone::clone)
    }

    /// Makes a delivery, which is counted.
    pub(super) fn add(&self, facts: Facts) -> Arc<Delivery> {
        let mut deliveries = lock(&self.deliveries);
        let delivery = Arc::new(Delivery::new(deliveries.len(), facts));
        deliveries.push(Arc::clone(&delivery));
        let mut counts = lock(&self.counts);
        counts.made += 1;
        counts.waiting += 1;
        delivery
    }

    pub(super) fn sent(&self) {
        lock(&self.counts).sent += 1;
    }

    /// Notes how a request ended.
    pub(super) fn tried(&self, delivery: &Delivery, tried: Try) {
        let mut counts = lock(&self.counts);
        if tried.is_accepted() {
            counts.accepted += 1;
        } else {
            counts.refused += 1;
        }
        drop(counts);
        delivery.note(tried);
        self.posted.send_if_modified(|posted| {
            let later = delivery.seq + 1 > *posted;
            *posted = (*posted).max(delivery.seq + 1);
            later
        });
    }

    pub(super) fn ended(&self, delivery: &Delivery, outcome: Outcome) {
        // Whoever reads in the counts that nothing waits finds the outcome too.
        delivery.end(outcome);
        let mut counts = lock(&self.counts);
        counts.waiting = counts.waiting.saturating_sub(1);
        match outcome {
            Outcome::Accepted => {}
            Outcome::Undeliverable => counts.undeliverable += 1,
            Outcome::Lost => counts.lost += 1,
            Outcome::GivenUp => counts.given_up += 1,
            Outcome::Dropped => counts.dropped += 1,
        }
    }

    /// Waits until a later event was sent.
    pub(super) async fn overtaken(&self, delivery: &Delivery) {
        let mut posted = self.posted.subscribe();
        // The sender is in the hub itself.
        let _posted = posted.wait_for(|posted| *posted > delivery.seq + 1).await;
    }

    pub(in super::super) fn counts(&self) -> Counts {
        *lock(&self.counts)
    }

    /// How many deliveries there are, and at most `limit` of them from place `after` on.
    pub(in super::super) fn shown(&self, after: usize, limit: usize) -> (usize, Vec<Value>) {
        let deliveries = lock(&self.deliveries);
        let page = deliveries.iter().skip(after).take(limit).map(|delivery| delivery.shown()).collect();
        (deliveries.len(), page)
    }
}
