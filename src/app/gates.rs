//! Asking and moving the gates: per API key, model and mode, and the one that a person closes for everything.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use super::engine::{Engine, Trouble};
use crate::domain::classify::Judgement;
use crate::domain::gate::{Answer, EVERYTHING, Gate, name};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::Mode;
use crate::domain::moves::Now;
use crate::domain::time::Millis;
use crate::ports::ledger::{CreateError, ReplaceError};

/// How long a gate as it was read is taken for true: a `pause` in another process works within this time.
const FRESH: Duration = Duration::from_secs(1);

/// What somebody who wants to submit may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// Submit.
    Open,
    /// Submit one, and tell what came of it: this token holds the probe.
    Probe(String),
    /// Not now; then at the earliest, or when a person opens it.
    Closed(Option<Millis>),
}

/// The gates as one tick sees them.
#[derive(Debug)]
pub struct Gates<'a> {
    engine: &'a Engine,
    seen: Mutex<HashMap<String, (Millis, Option<Gate>)>>,
}

impl<'a> Gates<'a> {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(engine: &'a Engine) -> Self {
        Self { engine, seen: Mutex::default() }
    }

    fn name(&self, mode: Mode, model: &str) -> String {
        name(self.engine.gemini.creates_as(), mode, model)
    }

    /// Asks to submit one job. A `Probe` must be told its end by [`Gates::accepted`], [`Gates::refused`] or
    /// [`Gates::no_news`].
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn ask(&self, mode: Mode, model: &str) -> Result<Pass, Trouble> {
        let now = self.engine.clock.now();
        if let Some(gate) = self.look(EVERYTHING).await?
            && let Answer::Closed(until) = gate.ask(now)
        {
            return Ok(Pass::Closed(until));
        }
        let name = self.name(mode, model);
        let Some(gate) = self.look(&name).await? else { return Ok(Pass::Open) };
        match gate.ask(now) {
            Answer::Open => Ok(Pass::Open),
            Answer::Closed(until) => Ok(Pass::Closed(until)),
            Answer::MayProbe => self.claim(gate).await,
        }
    }

    async fn claim(&self, gate: Gate) -> Result<Pass, Trouble> {
        let token = self.engine.ids.token();
        let mut next = gate.clone();
        next.claim_probe(&token, self.engine.now());
        match self.engine.replace(&gate.rev, Item::Gate(next)).await {
            Ok(item) => {
                self.remember(&gate.name, Some(item));
                Ok(Pass::Probe(token))
            }
            Err(ReplaceError::Stale(stored)) => {
                self.remember(&gate.name, stored.map(|item| *item));
                Ok(Pass::Closed(Some(self.engine.clock.now().plus(FRESH))))
            }
            Err(ReplaceError::Ledger(error)) => Err(error.into()),
        }
    }

    /// Gemini took the create, or refused it for a reason of its own: the queue moves.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn accepted(&self, mode: Mode, model: &str, pass: &Pass) -> Result<(), Trouble> {
        let Pass::Probe(token) = pass else { return Ok(()) };
        info!(gate.model = model, "the probe went through: the gate is open");
        self.change(&self.name(mode, model), |gate, now| {
            let mine = gate.probe.as_ref().is_some_and(|probe| &probe.holder == token);
            if mine {
                gate.reopen(now.at);
            }
            mine
        })
        .await
        .map(drop)
    }

    /// The create was refused for the whole queue. Returns until when the gate is closed.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn refused(
        &self,
        mode: Mode,
        model: &str,
        judgement: &Judgement,
        message: &str,
    ) -> Result<Millis, Trouble> {
        let gate = self
            .change(&self.name(mode, model), |gate, now| {
                gate.close(judgement, message, now);
                true
            })
            .await?;
        let until = gate.until.unwrap_or_else(|| self.engine.clock.now());
        warn!(gate.model = model, gate.class = judgement.class, gate.until = %until, "Gemini refuses new work: gate closed");
        Ok(until)
    }

    /// The probe told nothing about the queue: the next one may try at once.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn no_news(&self, mode: Mode, model: &str, pass: &Pass) -> Result<(), Trouble> {
        let Pass::Probe(token) = pass else { return Ok(()) };
        self.change(&self.name(mode, model), |gate, _| {
            gate.drop_probe(token);
            true
        })
        .await
        .map(drop)
    }

    async fn look(&self, name: &str) -> Result<Option<Gate>, Trouble> {
        let now = self.engine.clock.now();
        let known = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some((at, gate)) = known
            && now.since(at) < FRESH
        {
            return Ok(gate);
        }
        let stored = self.engine.ledger.get(&ItemId::gate(name)).await?;
        Ok(self.remember(name, stored))
    }

    fn remember(&self, name: &str, item: Option<Item>) -> Option<Gate> {
        let gate = match item {
            Some(Item::Gate(gate)) => Some(gate),
            _ => None,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name.to_owned(), (self.engine.clock.now(), gate.clone()));
        gate
    }

    async fn change(&self, name: &str, change: impl Fn(&mut Gate, Now<'_>) -> bool) -> Result<Gate, Trouble> {
        let gate = change_gate(self.engine, name, change).await?;
        self.remember(name, Some(Item::Gate(gate.clone())));
        Ok(gate)
    }
}

/// Changes a gate, writing it for the first time if need be. `change` answers whether there is something to write.
///
/// # Errors
/// Trouble with the ledger.
pub async fn change_gate(
    engine: &Engine,
    name: &str,
    change: impl Fn(&mut Gate, Now<'_>) -> bool,
) -> Result<Gate, Trouble> {
    let mut stored = engine.ledger.get(&ItemId::gate(name)).await?;
    loop {
        let read = match stored {
            Some(Item::Gate(gate)) => Some(gate),
            _ => None,
        };
        let now = engine.now();
        let mut next = read.clone().unwrap_or_else(|| Gate::open(name.to_owned(), engine.rev(), now.at));
        if !change(&mut next, now) {
            return Ok(next);
        }
        stored = match &read {
            Some(gate) => match engine.replace(&gate.rev, Item::Gate(next)).await {
                Ok(Item::Gate(gate)) => return Ok(gate),
                Ok(item) => Some(item),
                Err(ReplaceError::Stale(found)) => found.map(|item| *item),
                Err(ReplaceError::Ledger(error)) => return Err(error.into()),
            },
            None => match engine.create(&Item::Gate(next.clone())).await {
                Ok(()) => return Ok(next),
                Err(CreateError::Exists(found)) => Some(*found),
                Err(CreateError::Ledger(error)) => return Err(error.into()),
            },
        };
    }
}

/// Lets submission through again at once where only a person could mend the reason: whoever starts anew has
/// presumably mended it. One probe tells.
///
/// # Errors
/// Trouble with the ledger.
pub async fn try_mended(engine: &Engine) -> Result<(), Trouble> {
    for gate in all_gates(engine).await? {
        if gate.needs_person && gate.until.is_some_and(|until| until > engine.clock.now()) {
            change_gate(engine, &gate.name, |gate, now| {
                gate.until = gate.until.map(|until| until.min(now.at));
                gate.needs_person
            })
            .await?;
        }
    }
    Ok(())
}

/// Every gate that was ever written: a handful.
///
/// # Errors
/// Trouble with the ledger.
pub async fn all_gates(engine: &Engine) -> Result<Vec<Gate>, Trouble> {
    let items = engine.ledger.in_state(crate::domain::job::State::Gate, None, 1000).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            Item::Gate(gate) => Some(gate),
            _ => None,
        })
        .collect())
}

/// Closes the gate for everything, with a reason, until [`resume`].
///
/// # Errors
/// Trouble with the ledger.
pub async fn pause(engine: &Engine, reason: &str) -> Result<Gate, Trouble> {
    change_gate(engine, EVERYTHING, |gate, now| {
        gate.paused = Some(reason.to_owned());
        gate.since = now.at;
        true
    })
    .await
}

/// Takes a person's pause off and opens every gate that Gemini's refusals closed. Returns the gates it opened.
///
/// # Errors
/// Trouble with the ledger.
pub async fn resume(engine: &Engine) -> Result<Vec<Gate>, Trouble> {
    let mut opened = Vec::new();
    for gate in all_gates(engine).await? {
        if gate.paused.is_none() && gate.until.is_none() {
            continue;
        }
        change_gate(engine, &gate.name, |gate, now| {
            gate.paused = None;
            gate.reopen(now.at);
            true
        })
        .await?;
        opened.push(gate);
    }
    Ok(opened)
}
