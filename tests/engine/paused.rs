//! A process that is stopped between its reservation and its create call, and goes on when its lease is over.

use std::sync::Arc;

use async_trait::async_trait;
use gleaner::app::engine::Engine;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Rev, State};
use gleaner::domain::time::Millis;
use gleaner::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};
use gleaner::ports::testing::TestClock;

use super::world::{LEASE, World, text, tick_of};

/// A ledger after whose first reservation the lease passes, and another process takes the job over.
#[derive(Debug)]
struct StoppedAfterReserving {
    inner: Arc<dyn Ledger>,
    own: Arc<TestClock>,
    world: Arc<TestClock>,
    other: Engine,
}

#[async_trait]
impl Ledger for StoppedAfterReserving {
    async fn create(&self, item: &Item) -> Result<(), CreateError> {
        self.inner.create(item).await?;
        if item.state() == State::Reserving {
            self.own.advance(LEASE);
            self.world.advance(LEASE);
            tick_of(&self.other).await.unwrap();
        }
        Ok(())
    }
    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
        self.inner.replace(read, item).await
    }
    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError> {
        self.inner.get(id).await
    }
    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError> {
        self.inner.get_many(ids).await
    }
    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.inner.due(states, now, limit).await
    }
    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError> {
        self.inner.next_due(states).await
    }
    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.inner.in_state(state, after, limit).await
    }
    async fn counts(&self) -> Result<Counts, LedgerError> {
        self.inner.counts().await
    }
    async fn totals(&self, intake: &str) -> Result<Option<Vec<Total>>, LedgerError> {
        self.inner.totals(intake).await
    }
    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError> {
        self.inner.by_handle(handle).await
    }
    async fn forget(&self, now: Millis, limit: usize) -> Result<u64, LedgerError> {
        self.inner.forget(now, limit).await
    }
}

#[tokio::test]
async fn who_lost_its_lease_before_sending_sends_nothing() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Reserved, then its process was stopped.")).await;
    let (mut engine, own) = world.paused();
    engine.ledger = Arc::new(StoppedAfterReserving {
        inner: Arc::clone(&engine.ledger),
        own,
        world: Arc::clone(&world.clock),
        other: world.second(),
    });
    tick_of(&engine).await.unwrap();
    assert_eq!((world.state().await, world.requests("create").await), (State::Unclear, 0), "taken over, never sent");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await), (1, 1));
}
