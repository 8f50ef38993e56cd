//! Asking and moving the gates: per API key, model and mode, and the one that a person closes for everything.

mod by_hand;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, info, warn};

pub use self::by_hand::{all_gates, closed_gates, pause, resume, try_mended};
use super::engine::{Engine, Trouble};
use super::send::operator_message;
use crate::domain::classify::{Judgement, Verdict, may_be_shared};
use crate::domain::gate::{Answer, EVERYTHING, Gate, name};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::Mode;
use crate::domain::moves::Now;
use crate::domain::time::Millis;
use crate::ports::ledger::{CreateError, ReplaceError};

/// How long a gate as it was read is taken for true: a `pause` in another process works within this time.
const FRESH: Duration = Duration::from_secs(1);

/// How many creates in a row may stay unclear, or be refused alike, before their gate closes.
pub const IN_A_ROW: u32 = 8;

/// The class of a gate that closed since creates were refused alike.
pub const ALIKE: &str = "operator:alike";

/// How soon to ask again while a person's pause lasts.
const PAUSED: Duration = Duration::from_secs(5);

/// What somebody who wants to submit may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// Submit.
    Open,
    /// Submit one, and tell what came of it: this token holds the probe.
    Probe(String),
    /// Not now; worth asking again then.
    Closed(Millis),
    /// A person's pause: nothing is put aside for it, all waits where it is. Worth asking again then.
    Paused(Millis),
}

/// A gate's answer as a pass, where it doesn't let through.
fn shut(until: Option<Millis>, now: Millis) -> Pass {
    until.map_or_else(|| Pass::Paused(now.plus(PAUSED)), Pass::Closed)
}

/// The gates as one tick sees them.
#[derive(Debug)]
pub struct Gates<'a> {
    engine: &'a Engine,
    seen: Mutex<HashMap<String, (Millis, Option<Gate>)>>,
    /// The class of the last refusal of a job's own and how often it came in a row, by gate.
    alike: Mutex<HashMap<String, (String, u32)>>,
}

impl<'a> Gates<'a> {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(engine: &'a Engine) -> Self {
        Self { engine, seen: Mutex::default(), alike: Mutex::default() }
    }

    fn name(&self, mode: Mode, model: &str) -> String {
        name(self.engine.gemini.creates_as(), mode, model)
    }

    /// Asks to submit one job. A `Probe` must be told its end by one of the methods below.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn ask(&self, mode: Mode, model: &str) -> Result<Pass, Trouble> {
        let now = self.engine.clock.now();
        if let Some(gate) = self.look(EVERYTHING).await?
            && let Answer::Closed(until) = gate.ask(now)
        {
            return Ok(shut(until, now));
        }
        let name = self.name(mode, model);
        let Some(gate) = self.look(&name).await? else { return Ok(Pass::Open) };
        match gate.ask(now) {
            Answer::Open => Ok(Pass::Open),
            Answer::Closed(until) => Ok(shut(until, now)),
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
                Ok(Pass::Closed(self.engine.clock.now().plus(FRESH)))
            }
            Err(ReplaceError::Ledger(error)) => Err(error.into()),
        }
    }

    /// Gemini took the create: the queue moves.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn accepted(&self, mode: Mode, model: &str, pass: &Pass) -> Result<(), Trouble> {
        self.alike.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name(mode, model));
        self.answered(mode, model, pass).await
    }

    /// A create got a definite answer: a row of unclear ones ends, and a probed gate opens.
    async fn answered(&self, mode: Mode, model: &str, pass: &Pass) -> Result<(), Trouble> {
        let name = self.name(mode, model);
        let token = match pass {
            Pass::Probe(token) => Some(token),
            _ if self.last_seen(&name).is_some_and(|gate| gate.unclear > 0) => None,
            _ => return Ok(()),
        };
        self.change(&name, |gate, now| {
            let ours = token.is_some() && gate.probe.as_ref().map(|probe| &probe.holder) == token;
            let news = ours || gate.unclear > 0;
            gate.unclear = 0;
            if ours {
                gate.reopen(now.at);
            }
            news
        })
        .await?;
        if token.is_some() {
            info!(gate.model = model, "the probe went through: the gate is open");
        }
        Ok(())
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
        let closed_before = AtomicBool::new(false);
        let gate = self
            .change(&self.name(mode, model), |gate, now| {
                closed_before.store(gate.until.is_some_and(|until| until > now.at), Ordering::Relaxed);
                gate.close(judgement, message, now);
                true
            })
            .await?;
        let until = gate.until.unwrap_or_else(|| self.engine.clock.now());
        // Calls that were under way together are refused together, and an operator's matter is told as an error:
        // neither is news.
        if judgement.verdict == Verdict::Operator || closed_before.into_inner() {
            debug!(gate.model = model, gate.class = judgement.class, gate.until = %until, "refused, as expected");
        } else {
            warn!(gate.model = model, gate.class = judgement.class, gate.until = %until, "nothing new is sent for now: {message}");
        }
        Ok(until)
    }

    /// It is unclear whether Gemini took the create. One such answer says nothing about the queue; when a probe gets
    /// it, or [`IN_A_ROW`] creates in a row, Gemini is most likely down: the gate closes as for a refusal, so that a
    /// file's attempts aren't used up, and perhaps paid for, one after the other. The row is counted on the gate, so
    /// that ticks and processes that send little each count together.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn unclear(&self, mode: Mode, model: &str, pass: &Pass, why: &str) -> Result<(), Trouble> {
        let judgement = Judgement { verdict: Verdict::Queue, class: "queue:unclear".to_owned(), delay: None };
        let message = format!("creates stay without a clear answer, the last one: {why}");
        self.in_a_row(mode, model, pass, &judgement, &message).await
    }

    /// A plain call failed for a passing reason, which is the job's own. In a row, whichever they are, such failures say
    /// of the queue what unclear creates say: the gate closes for a while. A delay that one of them names is for its job,
    /// which waits for it: it says nothing of the others.
    ///
    /// # Errors
    /// Trouble with the ledger.
    pub async fn stumbled(
        &self,
        mode: Mode,
        model: &str,
        pass: &Pass,
        failed: &Judgement,
        why: &str,
    ) -> Result<(), Trouble> {
        let class = format!("queue:{}", failed.class.strip_prefix("retryable:").unwrap_or(&failed.class));
        let judgement = Judgement { verdict: Verdict::Queue, class, delay: None };
        let message = format!("calls fail one after the other, the last one: {why}");
        self.in_a_row(mode, model, pass, &judgement, &message).await
    }

    /// Counts one more in a row, and closes the gate when there are too many.
    async fn in_a_row(
        &self,
        mode: Mode,
        model: &str,
        pass: &Pass,
        judgement: &Judgement,
        message: &str,
    ) -> Result<(), Trouble> {
        let gate = self
            .change(&self.name(mode, model), |gate, now| {
                gate.unclear = gate.unclear.saturating_add(1);
                gate.since = now.at;
                true
            })
            .await?;
        if gate.unclear < IN_A_ROW && !matches!(pass, Pass::Probe(_)) {
            return Ok(());
        }
        self.refused(mode, model, judgement, message).await.map(drop)
    }

    /// The create was refused for a reason of its own. One such answer opens a probed gate, for the queue moves; when
    /// [`IN_A_ROW`] creates in a row are refused alike and none is accepted between, the reason is not the jobs' own
    /// (a model that isn't there, an option that all lines share): the gate closes for a person.
    ///
    /// # Errors
    /// Trouble with the ledger; the refusals that are alike, for a person.
    pub async fn refused_alone(
        &self,
        mode: Mode,
        model: &str,
        pass: &Pass,
        judgement: &Judgement,
        message: &str,
    ) -> Result<(), Trouble> {
        let in_a_row = {
            let mut alike = self.alike.lock().unwrap_or_else(PoisonError::into_inner);
            let row = alike.entry(self.name(mode, model)).or_default();
            *row = if row.0 == judgement.class {
                (judgement.class.clone(), row.1 + 1)
            } else {
                (judgement.class.clone(), 1)
            };
            row.1
        };
        // A probe that meets the same again answers for all: a new run costs one job and not eight.
        let closed_alike =
            self.last_seen(&self.name(mode, model)).is_some_and(|gate| gate.class.as_deref() == Some(ALIKE));
        let again = closed_alike && matches!(pass, Pass::Probe(_));
        if !may_be_shared(&judgement.class) || (in_a_row < IN_A_ROW && !again) {
            return self.answered(mode, model, pass).await;
        }
        let judgement = Judgement { verdict: Verdict::Operator, class: ALIKE.to_owned(), delay: None };
        self.refused(mode, model, &judgement, message).await?;
        Err(Trouble::NeedsPerson(operator_message(self.engine, self.engine.gemini.creates_as(), ALIKE, message)))
    }

    /// The probe was not used: the next one may try at once.
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

    fn last_seen(&self, name: &str) -> Option<Gate> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).and_then(|(_, gate)| gate.clone())
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
