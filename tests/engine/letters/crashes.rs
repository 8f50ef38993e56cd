//! Processes that end before or after any call to the ledger or the queue, while they tell, renew and sweep.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gleaner::app::cancel::cancel_job;
use gleaner::app::letters::named;
use gleaner::domain::item::ItemId;
use gleaner::ports::queue::{Message, Queue, QueueError};

use super::{BAD, with_dead_letters};
use crate::agree::{all_messages, dead_letters};
use crate::events::cut::{End, tick_broken_off};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, LEASE, World, lines, tick_of};

/// What a broken-off sweep hides is seen again by then.
const SECONDS: Duration = Duration::from_secs(6);

/// The items of the messages that anybody who looks finds.
async fn seen(world: &World) -> BTreeSet<ItemId> {
    all_messages(&world.engine).await.iter().map(|message| named(&message.body).unwrap().item).collect()
}

/// Makes a world, breaks its next tick off at every call in turn, before and after it, and has others go on. `told` says
/// whether every dead letter had its message before.
async fn at_every_call(told: bool, world_of: impl AsyncFn() -> World) -> u32 {
    let mut calls = 0;
    for end in [End::Before, End::After] {
        for at in 1.. {
            let world = world_of().await;
            let before = dead_letters(&world.engine).await;
            if !tick_broken_off(&world.second(), at, end).await {
                calls = at - 1;
                break;
            }
            world.advance(SECONDS);
            let is_there = async |what: &str| {
                let seen = seen(&world).await;
                assert!(!told || before.keys().all(|id| seen.contains(id)), "{end:?} call {at}: {what}");
            };
            is_there("hidden or gone").await;
            // At once, and when nobody is waited for any more.
            tick_of(&world.second()).await.unwrap();
            is_there("swept before the next one was sent").await;
            world.advance(LEASE);
            world.tick().await;
            let told = world.agree().await;
            assert!(before.keys().all(|id| told.contains_key(id)), "{end:?} call {at}");
            world.check().await;
        }
    }
    assert!(calls > 10, "{calls}");
    calls
}

#[tokio::test]
async fn while_it_tells() {
    at_every_call(false, async || {
        let world = World::with(&["blocked=1"], Default::default(), Default::default()).await;
        world.land(lines(2) + BAD).await;
        // Submitted and collected: dead, and due to be told in the next tick.
        let mut quiet = world.second();
        quiet.dead_letters = Arc::new(Nowhere);
        tick_of(&quiet).await.unwrap();
        tick_of(&quiet).await.unwrap();
        world.advance(LEASE);
        world
    })
    .await;
}

#[tokio::test]
async fn while_it_renews() {
    at_every_call(true, async || {
        let world = with_dead_letters(1).await;
        world.advance(HOUR * 241);
        world
    })
    .await;
}

#[tokio::test]
async fn while_it_sweeps() {
    at_every_call(true, async || {
        let world = with_dead_letters(1).await;
        let jobs = world.jobs().await;
        let job = jobs.into_iter().find(|job| job.batch.is_none() && job.state.is_ended()).unwrap();
        cancel_job(&world.engine, job, "not needed").await.unwrap();
        world
    })
    .await;
}

/// Rows that die are created as told, in one write each: whoever goes on after a crash knows which may not have been.
#[tokio::test]
async fn while_it_makes_the_dead_letters_of_rows() {
    let text = crate::books::rows(30);
    let ticks = 12;
    // Half of the calls each: their numbers differ from tick to tick anyway.
    for (end, first) in [(End::Before, 1), (End::After, 3)] {
        for at in (first..).step_by(4) {
            let world = World::with(&["row-safety=0.6"], Default::default(), in_parts_of(30)).await;
            let run = land_run(&world, &text).await;
            let mut cuts = 0;
            for _ in 0..ticks {
                cuts += u32::from(tick_broken_off(&world.second(), at, end).await);
                world.advance(LEASE);
            }
            let progress = world.until_over(&run).await;
            let books = crate::books::audit(&world.engine, &progress, &text).await;
            assert_eq!(world.agree().await.len(), books.dead.len(), "{end:?} call {at}");
            assert!(books.dead.len() > 5);
            if cuts == 0 {
                break;
            }
        }
    }
}

/// A queue that is out of reach.
#[derive(Debug)]
struct Nowhere;

impl Nowhere {
    fn busy<T>() -> Result<T, QueueError> {
        Err(QueueError::Busy("it is out of reach".to_owned()))
    }
}

#[async_trait]
impl Queue for Nowhere {
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        bodies.iter().map(|_| Self::busy()).collect()
    }
    async fn receive(&self, _: usize, _: Duration) -> Result<Vec<Message>, QueueError> {
        Self::busy()
    }
    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>> {
        messages.iter().map(|_| Self::busy()).collect()
    }
    async fn release(&self, _: &Message) -> Result<(), QueueError> {
        Self::busy()
    }
}
