//! A replay whose process ends at any of its moments, or right before or after any call that it makes of others.

use std::fmt;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{Either, select};
use gleaner::app::engine::Engine;
use gleaner::app::replay::{Replay, replay};
use gleaner::domain::batch::{Batch, Page};
use gleaner::domain::interaction::Interaction;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{KeyId, Rev, State};
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Hook, SigningSecret};
use gleaner::ports::batches::{Batches, Download, Upload, UploadError};
use gleaner::ports::gemini::{CallError, CreateError as CreateRefused, Gemini, ReadError};
use gleaner::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};
use gleaner::ports::objects::{ObjectError, Objects, Put};
use gleaner::ports::webhooks::{Revoke, Webhook, Webhooks};
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio::sync::Notify;

use super::{EVER, apply};
use crate::world::{GRACE, Maker, World, json_line, text};
use gleaner::simulator::Config;

const LETTERS: usize = 3;

/// Where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
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

struct Cut<T: ?Sized>(Arc<Knife>, Arc<T>);

impl<T: ?Sized> fmt::Debug for Cut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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
impl Objects for Cut<dyn Objects> {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Put, ObjectError> {
        self.0.call(self.1.put(name, bytes)).await
    }
    async fn put_stream(&self, name: &str, source: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
        self.0.call(self.1.put_stream(name, source)).await
    }
    async fn get(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.0.call(self.1.get(name)).await
    }
    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        self.0.call(self.1.read(name, range)).await
    }
    async fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        self.0.call(self.1.size(name)).await
    }
}

#[async_trait]
impl Batches for Cut<dyn Gemini> {
    async fn upload(&self, upload: Upload<'_>) -> Result<String, UploadError> {
        self.0.call(self.1.upload(upload)).await
    }
    async fn create_batch(
        &self,
        model: &str,
        file: &str,
        display_name: &str,
        hook: Option<&Hook<'_>>,
    ) -> Result<Batch, CreateRefused> {
        self.0.call(self.1.create_batch(model, file, display_name, hook)).await
    }
    async fn get_batch(&self, name: &str, created_by: &KeyId) -> Result<Batch, ReadError> {
        self.0.call(self.1.get_batch(name, created_by)).await
    }
    async fn list_batches(&self, page: Option<&str>) -> Result<Page, ReadError> {
        self.0.call(self.1.list_batches(page)).await
    }
    async fn cancel_batch(&self, name: &str, created_by: &KeyId) -> Result<(), ReadError> {
        self.0.call(self.1.cancel_batch(name, created_by)).await
    }
    async fn download(&self, file: &str, created_by: &KeyId) -> Result<Download, ReadError> {
        self.0.call(self.1.download(file, created_by)).await
    }
    async fn delete_file(&self, file: &str, created_by: &KeyId) -> Result<(), ReadError> {
        self.0.call(self.1.delete_file(file, created_by)).await
    }
}

#[async_trait]
impl Webhooks for Cut<dyn Gemini> {
    async fn register(
        &self,
        uri: &str,
        events: &[String],
        name: Option<&str>,
    ) -> Result<(Webhook, SigningSecret), ReadError> {
        self.0.call(self.1.register(uri, events, name)).await
    }
    async fn webhooks(&self) -> Result<Vec<Webhook>, ReadError> {
        self.0.call(self.1.webhooks()).await
    }
    async fn enable(&self, id: &str) -> Result<Webhook, ReadError> {
        self.0.call(self.1.enable(id)).await
    }
    async fn ping(&self, id: &str) -> Result<(), ReadError> {
        self.0.call(self.1.ping(id)).await
    }
    async fn rotate(&self, id: &str, revoke: Revoke) -> Result<SigningSecret, ReadError> {
        self.0.call(self.1.rotate(id, revoke)).await
    }
    async fn unregister(&self, id: &str) -> Result<(), ReadError> {
        self.0.call(self.1.unregister(id)).await
    }
}
#[async_trait]
impl Gemini for Cut<dyn Gemini> {
    fn creates_as(&self) -> &KeyId {
        self.1.creates_as()
    }
    fn keys(&self) -> Vec<KeyId> {
        self.1.keys()
    }
    fn has_key(&self, key: &KeyId) -> bool {
        self.1.has_key(key)
    }
    async fn create_interaction(&self, body: Bytes) -> Result<Interaction, CreateRefused> {
        self.0.call(self.1.create_interaction(body)).await
    }
    async fn generate(&self, model: &str, body: Bytes) -> Result<Box<RawValue>, CallError> {
        self.0.call(self.1.generate(model, body)).await
    }
    async fn get_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError> {
        self.0.call(self.1.get_interaction(handle, created_by)).await
    }
    async fn cancel_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError> {
        self.0.call(self.1.cancel_interaction(handle, created_by)).await
    }
}

/// An engine whose process ends at its call number `at`, and the knife.
fn under_the_knife(engine: Engine, at: u32, end: End) -> (Engine, Arc<Knife>) {
    let knife = Arc::new(Knife { made: AtomicU32::new(0), at, end, ended: Notify::new() });
    let engine = Engine {
        ledger: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&engine.ledger))),
        objects: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&engine.objects))),
        gemini: Arc::new(Cut(Arc::clone(&knife), Arc::clone(&engine.gemini))),
        ..engine
    };
    (engine, knife)
}

fn request() -> Replay {
    let changed = r#"{"generation_config": {"max_output_tokens": 8192}}"#;
    Replay { request: Some(RawValue::from_string(changed.to_owned()).unwrap()), ..apply() }
}

/// A replay in a process that ends at its call number `at`. False: it came to its end before.
async fn broken_off(engine: Engine, at: u32, end: End) -> bool {
    let (engine, knife) = under_the_knife(engine, at, end);
    let request = request();
    let replaying = pin!(replay(&engine, &request, EVER));
    let ended = pin!(knife.ended.notified());
    matches!(select(replaying, ended).await, Either::Right(_))
}

/// A world in which some have died, and nothing goes wrong any more.
async fn world() -> (World, String) {
    let mut maker = Maker::default();
    // One call after the other, so that each number is the same call each time.
    maker.settings.concurrency = 1;
    let world = World::with(&["blocked=1"], Config { polls_until_done: 0, ..Config::default() }, maker).await;
    let lines: Vec<String> =
        (0..LETTERS).map(|n| if n % 2 == 0 { text(&format!("{n}")) } else { json_line("x") }).collect();
    let intake = world.land(lines.concat()).await;
    world.until_over(&intake).await;
    world.set_faults(&[]).await;
    (world, intake)
}

/// What the ended replay has claimed goes on by ticks; what it has not is a dead letter still, and replayed again. Each has
/// recovered then, replayed once, and what was paid for twice was told.
async fn ends_well(world: &World, intake: &str, what: &str) {
    world.check().await;
    world.advance(GRACE);
    world.until_over(intake).await;
    let again = replay(&world.second(), &request(), EVER).await.unwrap();
    assert_eq!(again.still_failing, 0, "{what}: {again:?}");
    let tally = world.until_over(intake).await.tally;
    assert_eq!((tally.recovered as usize, tally.parked), (LETTERS, 0), "{what}");
    let jobs = world.jobs().await;
    assert!(jobs.iter().all(|job| (job.state, job.replays) == (State::Recovered, 1)), "{what}: {jobs:?}");
    let accepted = world.accepted().await;
    assert!(accepted <= 2 * LETTERS + tally.possible_duplicates as usize, "{what}: {accepted}, {tally:?}");
    let taken = world.hands.taken.lock().unwrap();
    for (key, bytes) in taken.iter() {
        assert!(taken.iter().all(|(other, again)| other != key || again == bytes), "{what}: {key}");
    }
    let handed: std::collections::BTreeSet<_> = taken.iter().map(|(key, _)| key).collect();
    assert_eq!(handed.len(), LETTERS, "{what}");
}

#[tokio::test]
async fn ended_before_or_after_any_call_each_recovers_once() {
    for end in [End::Before, End::After] {
        let mut at = 1;
        loop {
            let (world, intake) = world().await;
            let was_ended = broken_off(world.second(), at, end).await;
            ends_well(&world, &intake, &format!("{end:?} call {at}")).await;
            if !was_ended {
                break;
            }
            at += 1;
        }
        assert!((20..60).contains(&at), "{at} calls");
    }
}

/// Work that is dropped at one of its moments.
struct Killed<F> {
    work: Pin<Box<F>>,
    left: u32,
}

impl<F: Future> Future for Killed<F> {
    type Output = bool;

    /// True: it came to its end before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        if self.left == 0 {
            return Poll::Ready(false);
        }
        self.left -= 1;
        self.work.as_mut().poll(context).map(|_| true)
    }
}

#[tokio::test]
async fn killed_at_any_moment_each_recovers_once() {
    for left in (1..200).step_by(3) {
        let (world, intake) = world().await;
        let engine = world.second();
        let request = request();
        let ended = Killed { work: Box::pin(replay(&engine, &request, EVER)), left }.await;
        ends_well(&world, &intake, &format!("killed at {left}")).await;
        if ended {
            return;
        }
    }
    panic!("a replay has more than 200 moments");
}
