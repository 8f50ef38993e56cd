//! A tick: what is due is collected first, then new work is submitted. It costs what is due, not what the ledger holds.

use super::collect::{Collected, collect};
use super::engine::{Engine, Trouble};
use super::left_work::{Followed, do_left_work};
use super::letters::sweep_now_and_then;
use super::submit::{Submitted, submit};
use crate::domain::time::Millis;

/// How many items whose time is over are forgotten at once.
const FORGOTTEN: usize = 1000;

/// What a tick did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticked {
    /// What was collected.
    pub collected: Collected,
    /// What was submitted.
    pub submitted: Submitted,
    /// What events asked for.
    pub followed: Followed,
}

impl Ticked {
    /// Results made durable and handed on.
    #[must_use]
    pub const fn consumed(&self) -> u64 {
        self.collected.consumed + self.submitted.consumed + self.followed.consumed
    }

    /// Whether it did nothing at all.
    #[must_use]
    pub fn was_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// Runs one tick; nothing new is begun after `until`. Two at once are harmless.
///
/// # Errors
/// The first trouble. What was done before it and in spite of it is in the ledger: one job's trouble holds up neither
/// the others nor new work.
pub async fn tick(engine: &Engine, until: Millis) -> Result<Ticked, Trouble> {
    let followed = do_left_work(engine, until).await;
    let collected = collect(engine, until).await;
    let submitted = if engine.is_stopping() { Submitted::default() } else { submit(engine, until).await? };
    // Even a tick whose time is used up looks at a handful.
    sweep_now_and_then(engine, until).await;
    engine.ledger.forget(engine.clock.now(), FORGOTTEN).await?;
    Ok(Ticked { collected: collected?, submitted, followed: followed? })
}
