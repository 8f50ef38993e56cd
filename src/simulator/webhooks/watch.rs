//! Noticing that work ends, which otherwise shows only when somebody looks.
//!
//! Work ends when its time has passed and it was looked at often enough, when it is cancelled, or when it expires. So
//! it is looked at whenever one of these may have become true: by one task, at the times at which work of somebody who
//! wants to be told may end; and after each GET and each cancel.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::super::accepted::Accepted;
use super::super::batches::{self, Job};
use super::super::faults::{Fault, Phase};
use super::super::interactions;
use super::super::world::World;
use super::address;
use super::config::WebhookConfig;
use super::deliver::deliver;
use super::delivery::{Facts, Target};
use super::event::{End, Event, new_id};
use super::sign::Form;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// The shortest sleep between two rounds, so that thousands of ends in one second cause few of them.
const ROUND: Duration = Duration::from_millis(10);
/// When it is tried again to read how a batch stands from a disk that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// A piece of work that will end some day.
#[derive(Debug, Clone)]
pub(in super::super) enum Work {
    Interaction(Arc<Accepted>),
    Batch(Arc<Job>),
}

impl Work {
    fn id(&self) -> String {
        match self {
            Self::Interaction(work) => work.id.to_string(),
            Self::Batch(job) => job.record.id.clone(),
        }
    }

    fn key(&self) -> &KeyId {
        match self {
            Self::Interaction(work) => &work.key,
            Self::Batch(job) => &job.record.key,
        }
    }

    /// What its faults are drawn by.
    fn subject(&self) -> (u64, u64) {
        match self {
            Self::Interaction(work) => (work.digest.0, work.nth),
            Self::Batch(job) => (job.record.subject, job.record.nth),
        }
    }

    /// How it has ended; None while it runs.
    fn end(&self, world: &World) -> io::Result<Option<End>> {
        match self {
            Self::Interaction(work) => Ok(interactions::end(world, work)),
            Self::Batch(job) => batches::end(world, job),
        }
    }

    /// When it may end by the passing of time.
    fn times(&self, world: &World) -> Vec<Millis> {
        match self {
            Self::Interaction(work) => vec![work.at.plus(world.config.latency)],
            Self::Batch(job) => batches::times(world, job),
        }
    }
}

/// The work that has not been seen to end, of this process.
#[derive(Debug, Default)]
pub(in super::super) struct Watched {
    open: Mutex<HashMap<String, (Work, WebhookConfig)>>,
    due: Mutex<BinaryHeap<Reverse<(Millis, String)>>>,
    sooner: Notify,
    working: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn set(&self, times: impl IntoIterator<Item = Millis>, id: &str) {
        let mut due = lock(&self.due);
        let before = due.peek().map(|Reverse((at, _))| *at);
        due.extend(times.into_iter().map(|at| Reverse((at, id.to_owned()))));
        if due.peek().map(|Reverse((at, _))| *at) != before {
            self.sooner.notify_one();
        }
    }

    /// What is due, and, if nothing is, how long it is until something will be.
    fn take(&self, now: Millis) -> Result<Vec<String>, Option<Duration>> {
        let (mut due, mut taken) = (lock(&self.due), Vec::new());
        while let Some(Reverse((at, id))) = due.peek() {
            // What has been seen to end keeps nobody awake.
            let open = lock(&self.open).contains_key(id);
            if open && *at > now {
                if taken.is_empty() {
                    return Err(Some(at.since(now)));
                }
                break;
            }
            let next = due.pop().filter(|_| open);
            taken.extend(next.map(|Reverse((_, id))| id));
        }
        if taken.is_empty() { Err(None) } else { Ok(taken) }
    }
}

/// Watches over accepted work from now on. `config` is what its request says of its events, if anything.
pub(in super::super) fn watch(world: &Arc<World>, work: Work, config: Option<&Value>) {
    let (hub, config) = (world.hub(), WebhookConfig::of(config));
    let wanted = !config.uris.is_empty() || hub.registered.any(work.key());
    let (id, times) = (work.id(), work.times(world));
    lock(&hub.watched.open).insert(id.clone(), (work, config));
    if wanted {
        hub.watched.set(times, &id);
        begin(world);
    }
}

/// Before a key gets a webhook: what has ended by then is not told.
pub(super) fn before_registering(world: &World, key: &KeyId) {
    for work in own(world, key) {
        // What can't be read now is looked at again when it is due.
        if let Ok(Some(_)) = work.end(world) {
            lock(&world.hub().watched.open).remove(&work.id());
        }
    }
}

/// Now that a key has a webhook, its work is looked at when it may end.
pub(super) fn after_registering(world: &Arc<World>, key: &KeyId) {
    for work in own(world, key) {
        world.hub().watched.set(work.times(world), &work.id());
    }
    begin(world);
}

fn own(world: &World, key: &KeyId) -> Vec<Work> {
    let open = lock(&world.hub().watched.open);
    open.values().map(|(work, _)| work).filter(|work| work.key() == key).cloned().collect()
}

/// Starts the task that looks at what is due, once.
fn begin(world: &Arc<World>) {
    if world.hub().watched.working.swap(true, Ordering::AcqRel) {
        return;
    }
    let world = Arc::clone(world);
    tokio::spawn(async move {
        tokio::select! {
            () = rounds(&world) => {}
            () = world.closed() => {}
        }
    });
}

async fn rounds(world: &Arc<World>) {
    let watched = &world.hub().watched;
    loop {
        match watched.take(world.now()) {
            Ok(due) => due.iter().for_each(|id| look(world, id)),
            Err(None) => watched.sooner.notified().await,
            Err(Some(wait)) => tokio::select! {
                () = watched.sooner.notified() => {}
                () = world.clock.sleep(wait.max(ROUND)) => {}
            },
        }
    }
}

/// Looks whether the work of that id has ended, and tells whoever wants to know, once.
pub(in super::super) fn look(world: &Arc<World>, id: &str) {
    let watched = &world.hub().watched;
    let work = lock(&watched.open).get(id).map(|(work, _)| work.clone());
    let Some(work) = work else { return };
    match work.end(world) {
        Ok(None) => {}
        Ok(Some(end)) => {
            // Whoever takes it out tells.
            let taken = lock(&watched.open).remove(id);
            if let Some((work, config)) = taken {
                tell(world, &work, config, &end);
            }
        }
        Err(error) => {
            tracing::error!(%id, %error, "simulator: how a batch stands can't be read, and is asked again in a second");
            watched.set([world.now().plus(AGAIN)], id);
            begin(world);
        }
    }
}

fn tell(world: &Arc<World>, work: &Work, config: WebhookConfig, end: &End) {
    let Some(kind) = end.kind else { return };
    let hub = world.hub();
    let targets: Vec<Target> = if config.uris.is_empty() {
        hub.registered.subscribed(work.key(), kind).into_iter().map(Target::Registered).collect()
    } else {
        config.uris.into_iter().map(Target::Named).collect()
    };
    let named = targets.iter().any(|target| matches!(target, Target::Named(_)));
    let metadata = config.user_metadata.filter(|_| named);
    let (subject, nth) = work.subject();
    let id = new_id(world.config.seed, &format!("event/{}/{kind}", world.writer()), subject, &[nth]);
    let about = (end.data.id.clone(), json!(end.data));
    make(world, targets, Event::new(id, kind, about, metadata.as_ref(), world.now()), |place| {
        world.faults().draw(world.config.seed, Phase::Event, subject, &[nth, place])
    });
}

/// Sends a ping to a registered webhook, which meets no fault.
pub(super) fn ping(world: &Arc<World>, webhook: &str) {
    let nth = world.sent(super::super::faults::hash(world.config.seed, webhook, 0, &[]));
    let id = new_id(world.config.seed, &format!("ping/{webhook}"), 0, &[nth]);
    // What a ping says is not documented.
    let event = Event::new(id, "ping", (webhook.to_owned(), Value::Object(serde_json::Map::new())), None, world.now());
    make(world, vec![Target::Registered(webhook.to_owned())], event, |_| None);
}

fn make(
    world: &Arc<World>,
    targets: Vec<Target>,
    event: serde_json::Result<Event>,
    draw: impl Fn(u64) -> Option<Fault>,
) {
    let event = match event {
        Ok(event) => Arc::new(event),
        Err(error) => return tracing::error!(%error, "simulator: an event can't be written, so that nobody is told"),
    };
    for (place, target) in (0_u64..).zip(targets) {
        let (uri, usual) = match &target {
            Target::Named(uri) => (uri.clone(), Form::V1a),
            Target::Registered(id) => {
                let Some(aim) = world.hub().registered.aim(id, world.now()) else { continue };
                (aim.uri, Form::V1)
            }
        };
        let here = address::read(&uri).is_some_and(|url| address::is_here(&url));
        // Nothing goes wrong with what is not sent; and tokens are for requests' own webhooks only.
        let fault = draw(place).filter(|_| here).filter(|fault| *fault != Fault::EventJwt || usual == Form::V1a);
        world.count_faults(fault);
        let form = if fault == Some(Fault::EventJwt) { Form::Jwt } else { usual };
        let facts = Facts {
            event: Arc::clone(&event),
            target,
            uri,
            form,
            fault,
            made: world.now(),
            ping: event.kind == "ping",
        };
        deliver(world, world.hub().add(facts));
    }
}
