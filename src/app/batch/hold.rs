//! Letting a run go on that waits for a person.

use super::part::wake_run;
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::{Held, Intake};
use crate::domain::moves::Now;

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
