//! What a person does to gates: looking, pausing, opening.

use super::{Engine, Trouble, change_gate};
use crate::app::report::every;
use crate::domain::gate::{Answer, EVERYTHING, Gate};
use crate::domain::item::Item;
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::ReplaceError;

/// Lets submission through again at once where only a person could mend the reason: whoever starts anew has
/// presumably mended it, with this key or another one. One probe tells. Lines that waited are taken up at once.
///
/// # Errors
/// Trouble with the ledger.
pub async fn try_mended(engine: &Engine) -> Result<(), Trouble> {
    let mut mended = false;
    for gate in all_gates(engine).await? {
        if gate.needs_person && gate.until.is_some_and(|until| until > engine.clock.now()) {
            change_gate(engine, &gate.name, |gate, now| {
                gate.until = gate.until.map(|until| until.min(now.at));
                gate.needs_person
            })
            .await?;
            mended = true;
        }
    }
    wake(engine, State::Reading).await?;
    if mended { wake(engine, State::Retryable).await } else { Ok(()) }
}

/// Makes what waits for a gate due now: intakes, or jobs that were refused or put aside for their queue's sake. What
/// waits for its own back-off goes on waiting.
async fn wake(engine: &Engine, state: State) -> Result<(), Trouble> {
    for item in every(engine, state, usize::MAX).await? {
        let now = engine.clock.now();
        let read = item.rev().clone();
        let mut next = item;
        let waits = match &mut next {
            Item::Intake(intake) if intake.lease.is_none() => later(&mut intake.due_at, now),
            Item::Job(job) => {
                let for_queue = job.attempts == 0
                    || job
                        .class
                        .as_deref()
                        .is_some_and(|class| class.starts_with("queue:") || class.starts_with("operator:"));
                for_queue && later(&mut job.due_at, now)
            }
            _ => false,
        };
        if waits {
            match engine.replace(&read, next).await {
                // Somebody else works on it already.
                Ok(_) | Err(ReplaceError::Stale(_)) => {}
                Err(ReplaceError::Ledger(error)) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Moves a due time that lies ahead to now. False: it is due already.
fn later(due_at: &mut Option<Millis>, now: Millis) -> bool {
    let ahead = due_at.is_some_and(|due| due > now);
    if ahead {
        *due_at = Some(now);
    }
    ahead
}

/// Every gate that was ever written: a handful.
///
/// # Errors
/// Trouble with the ledger.
pub async fn all_gates(engine: &Engine) -> Result<Vec<Gate>, Trouble> {
    let items = engine.ledger.in_state(State::Gate, None, 1000).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            Item::Gate(gate) => Some(gate),
            _ => None,
        })
        .collect())
}

/// The gates that hold up new work of this process's key; of every key, where it has none and only watches others.
///
/// # Errors
/// Trouble with the ledger.
pub async fn closed_gates(engine: &Engine) -> Result<Vec<Gate>, Trouble> {
    let key = engine.gemini.creates_as();
    let own = if engine.gemini.has_key(key) { format!("{key}/") } else { String::new() };
    let now = engine.clock.now();
    let mut gates = all_gates(engine).await?;
    gates.retain(|gate| (gate.name == EVERYTHING || gate.name.starts_with(&own)) && gate.ask(now) != Answer::Open);
    Ok(gates)
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

/// Takes a person's pause off and opens every gate that Gemini's refusals closed; what waited for them is due at once.
/// Returns the gates it opened.
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
    wake(engine, State::Reading).await?;
    wake(engine, State::Retryable).await?;
    Ok(opened)
}
