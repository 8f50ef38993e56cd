//! A process that ends right before or right after one of its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};
use gleaner::app::engine::Engine;
use gleaner::app::webhook::{Reception, receive};
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Rev, State};
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::Request;
use gleaner::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};
use gleaner::ports::queue::{Message, Queue, QueueError};
use tokio::sync::Notify;

use super::Called;
use crate::world::tick_of;

/// Where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The call is not made.
    Before,
    /// It is done, and nobody hears of it.
    After,
}

/// Counts the calls, and ends everything at one of them.
#[derive(Debug)]
struct Knife {
    made: AtomicU32,
    at: u32,
    end: End,
    ended: Notify,
}

impl Knife {
    async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        let ends = self.made.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        if ends && self.end == End::Before {
            self.cut().await;
        }
        let answer = call.await;
        if ends {
            self.cut().await;
        }
        answer
    }

    async fn cut(&self) {
        self.ended.notify_one();
        std::future::pending::<()>().await;
    }
}

/// A ledger or a queue under the knife.
#[derive(Debug)]
struct Cut<T: ?Sized>(Arc<Knife>, Arc<T>);

#[async_trait]
impl Ledger for Cut<dyn Ledger> {
    async fn create(&self, item: &Item) -> Result<(), CreateError> {
        self.0.call(self.1.create(item)).await
    }
    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
        self.0.call(self.1.replace(read, item)).await
    }
    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError> {
        self.0.call(self.1.get(id)).await
    }
    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError> {
        self.0.call(self.1.get_many(ids)).await
    }
    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.0.call(self.1.due(states, now, limit)).await
    }
    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError> {
        self.0.call(self.1.next_due(states)).await
    }
    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.0.call(self.1.in_state(state, after, limit)).await
    }
    async fn counts(&self) -> Result<Counts, LedgerError> {
        self.0.call(self.1.counts()).await
    }
    async fn totals(&self, intake: &str) -> Result<Option<Vec<Total>>, LedgerError> {
        self.0.call(self.1.totals(intake)).await
    }
    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError> {
        self.0.call(self.1.by_handle(handle)).await
    }
    async fn forget(&self, now: Millis, limit: usize) -> Result<u64, LedgerError> {
        self.0.call(self.1.forget(now, limit)).await
    }
}

#[async_trait]
impl Queue for Cut<dyn Queue> {
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        self.0.call(self.1.send(bodies)).await
    }
    async fn receive(&self, limit: usize, hidden: Duration) -> Result<Vec<Message>, QueueError> {
        self.0.call(self.1.receive(limit, hidden)).await
    }
    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>> {
        self.0.call(self.1.delete(messages)).await
    }
    async fn release(&self, message: &Message) -> Result<(), QueueError> {
        self.0.call(self.1.release(message)).await
    }
}

/// Ticks in a process that ends at its call number `at` to the ledger or the queue of dead letters. False: it came to its
/// end before.
pub async fn tick_broken_off(engine: &Engine, at: u32, end: End) -> bool {
    let knife = Arc::new(Knife { made: AtomicU32::new(0), at, end, ended: Notify::new() });
    let engine = Engine {
        ledger: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&engine.ledger))),
        dead_letters: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&engine.dead_letters))),
        ..engine.clone()
    };
    let ticking = std::pin::pin!(tick_of(&engine));
    let ended = std::pin::pin!(knife.ended.notified());
    match select(ticking, ended).await {
        Either::Left((ticked, _)) => {
            ticked.unwrap();
            false
        }
        Either::Right(_) => true,
    }
}

/// Takes `request` in a process that ends at its call number `at`. False: it came to its end before.
pub async fn broken_off(called: &Called, request: &Request, at: u32, end: End) -> bool {
    let knife = Arc::new(Knife { made: AtomicU32::new(0), at, end, ended: Notify::new() });
    let reception = Reception {
        ledger: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&called.reception.ledger))),
        work_queue: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&called.reception.work_queue))),
        ..called.reception.clone()
    };
    let taking = std::pin::pin!(receive(&reception, request));
    let ended = std::pin::pin!(knife.ended.notified());
    matches!(select(taking, ended).await, Either::Right(_))
}
