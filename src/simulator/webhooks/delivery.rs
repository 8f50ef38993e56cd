//! An event on its way to one address, and what became of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Value, json};

use super::super::faults::Fault;
use super::event::Event;
use super::sign::Form;
use crate::domain::time::Millis;

/// Whom an event is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The registered webhook of that id, wherever it is then.
    Registered(String),
    /// An address that a request named.
    Named(String),
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Answered with 2xx.
    Accepted,
    /// The address is not on this machine: nothing was sent.
    Undeliverable,
    /// By the fault: nothing was sent.
    Lost,
    /// Not accepted for as long as it was tried.
    GivenUp,
    /// The webhook was deleted or disabled meanwhile.
    Dropped,
}

/// One request to the address.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Try {
    /// Milliseconds since the Unix epoch.
    at: Millis,
    /// Of the answer. None when there was none.
    status: Option<u16>,
    /// Why there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Try {
    pub(super) fn new(at: Millis, answer: Result<u16, String>) -> Self {
        match answer {
            Ok(status) => Self { at, status: Some(status), error: None },
            Err(error) => Self { at, status: None, error: Some(error) },
        }
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

#[derive(Debug, Default)]
struct Progress {
    tries: Vec<Try>,
    outcome: Option<Outcome>,
}

/// An event on its way to one address.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Its place among all deliveries.
    pub(super) seq: usize,
    pub(super) event: Arc<Event>,
    pub(super) target: Target,
    /// Where it went when it was made.
    pub(super) uri: String,
    pub(super) form: Form,
    pub(super) fault: Option<Fault>,
    pub(super) made: Millis,
    /// A ping is tried once, and a disabled webhook can be pinged too.
    pub(super) ping: bool,
    progress: Mutex<Progress>,
}

/// What is known of a delivery when it is made.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) event: Arc<Event>,
    pub(super) target: Target,
    pub(super) uri: String,
    pub(super) form: Form,
    pub(super) fault: Option<Fault>,
    pub(super) made: Millis,
    pub(super) ping: bool,
}

impl Delivery {
    pub(super) fn new(seq: usize, facts: Facts) -> Self {
        let Facts { event, target, uri, form, fault, made, ping } = facts;
        Self { seq, event, target, uri, form, fault, made, ping, progress: Mutex::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, tried: Try) {
        self.progress().tries.push(tried);
    }

    pub(super) fn end(&self, outcome: Outcome) {
        self.progress().outcome = Some(outcome);
    }

    /// As `/simulator/events` shows it.
    pub(super) fn shown(&self) -> Value {
        let webhook = if let Target::Registered(id) = &self.target { Some(id) } else { None };
        let progress = self.progress();
        json!({
            "seq": self.seq, "id": self.event.id, "type": self.event.kind, "about": self.event.about, "uri": self.uri,
            "webhook": webhook, "form": self.form.word(), "fault": self.fault, "at": self.made,
            "outcome": progress.outcome, "tries": progress.tries,
        })
    }
}
