//! Letting a run go on that waits for a person.

use super::{items, report};
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::{Held, Intake, Run};
use crate::domain::job::{MESSAGE_BYTES, State, clip};
use crate::domain::moves::Now;

/// Has a run wait for a person.
///
/// # Errors
/// Trouble with the ledger.
pub(super) async fn hold(engine: &Engine, sha256: &str, class: &str, message: &str) -> Result<(), Trouble> {
    let (intake, _) = items::run_of(engine, sha256).await?;
    let held = |at| Held { class: class.to_owned(), message: clip(message, MESSAGE_BYTES), since: at };
    let change = |intake: &mut Intake, now: Now<'_>| {
        let Some(run) = intake.run.as_mut().filter(|run| run.held.is_none()) else { return false };
        run.held = Some(held(now.at));
        true
    };
    engine.settle_intake(intake, change).await.map(drop)
}

/// Lets a run go on: rows of that class may die without holding it up again. None: it was not held.
///
/// # Errors
/// Trouble with the ledger.
pub async fn let_go_on(engine: &Engine, intake: Intake) -> Result<Option<Held>, Trouble> {
    let held = intake.run.as_ref().and_then(|run| run.held.clone());
    let change = |intake: &mut Intake, _: Now<'_>| {
        let Some(run) = &mut intake.run else { return false };
        let Some(held) = run.held.take() else { return false };
        if !run.let_go.contains(&held.class) {
            run.let_go.push(held.class);
        }
        true
    };
    let intake = engine.settle_intake(intake, change).await?;
    if let Some(run) = &intake.run {
        wake_run(engine, run).await?;
    }
    Ok(held)
}

/// Wakes the parts of a run that wait, as after a person has let it go on.
///
/// # Errors
/// Trouble with the ledger.
pub async fn wake_run(engine: &Engine, run: &Run) -> Result<(), Trouble> {
    for part in report::parts(engine, run).await? {
        if part.state == State::Parked {
            items::settle(engine, &part.run, &part.part, |part, now| {
                let parked = part.state == State::Parked;
                if parked {
                    part.enter(State::UnderWay, Some(now.at), now.at);
                }
                parked
            })
            .await?;
        }
    }
    Ok(())
}
