//! Events of Gemini's instead of polls: an HTTP receiver beside the engines, on the same data folder.

mod batches;
pub mod cut;
mod early;
mod keys;
mod replay;
mod steps;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State as With;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gleaner::adapters::gemini::HttpPublicKeys;
use gleaner::adapters::local::DataFolder;
use gleaner::adapters::local::signing_secrets::FileSigningSecrets;
use gleaner::adapters::local::sqlite::SqliteQueue;
use gleaner::app::engine::Engine;
use gleaner::app::settings::KEYS_PATH;
use gleaner::app::webhook::{Answer, Reception, receive};
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::webhook::{Keyring, Request, SigningSecret};
use gleaner::ports::clock::Clock;
use gleaner::ports::queue::Queue;
use gleaner::ports::testing::TestIds;
use gleaner::ports::webhook_keys::SigningSecrets as _;
use gleaner::simulator::Config;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::world::{HOUR, Maker, START, World, a_moment, tick_of};

/// A signing secret that the receiver has.
const SECRET: &str = "whsec_YSBzZWNyZXQgdGhhdCBvbmx5IHRlc3RzIGtub3c=";

/// What the receiver counts.
#[derive(Debug, Default)]
pub struct Seen {
    pub requests: AtomicU64,
    pub refused: AtomicU64,
}

/// A world whose creates ask for events, which a receiver of its own takes; polls are an hour apart.
pub struct Called {
    pub world: World,
    pub reception: Reception,
    pub queue: SqliteQueue,
    pub seen: Arc<Seen>,
}

/// How creates ask for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Each names the receiver.
    Each,
    /// The receiver is registered once.
    Registered,
    /// They don't.
    Not,
}

impl Called {
    pub async fn new(faults: &[&str], asks: Asks) -> Self {
        Self::with(faults, Config { polls_until_done: 0, ..Config::default() }, asks, Maker::default()).await
    }

    pub async fn with(faults: &[&str], config: Config, asks: Asks, mut maker: Maker) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/webhook", listener.local_addr().unwrap());
        maker.settings.webhook.url = (asks == Asks::Each).then(|| url.clone());
        (maker.settings.policy.poll_min, maker.settings.policy.poll_max) = (HOUR, HOUR);
        let mut world = World::with(faults, config, maker).await;
        let clock: Arc<dyn Clock> = world.clock.clone();
        let data = DataFolder::open(world.data(), START).unwrap();
        let queue = data.work_queue(Arc::clone(&clock)).unwrap();
        world.engine.left_work = Some(Arc::new(queue.clone()));
        let secrets = FileSigningSecrets::new(&world.data());
        let mut keyring = Keyring::default();
        keyring.add("of-tests", SigningSecret::parse(SECRET).unwrap());
        if asks == Asks::Registered {
            keyring.add("registered", register(&world, &url).await);
        }
        secrets.keep(&keyring).await.unwrap();
        let keys = format!("{}{KEYS_PATH}", world.sim.running.base_url());
        let reception = Reception {
            ledger: data.ledger,
            work_queue: Arc::new(queue.clone()),
            clock: Arc::clone(&clock),
            ids: Arc::new(TestIds::new(4711)),
            secrets: Arc::new(secrets),
            public_keys: Arc::new(HttpPublicKeys::new(keys, clock).unwrap()),
            audience: None,
            policy: world.engine.settings.policy.clone(),
            handles_lag: Duration::ZERO,
        };
        let seen = Arc::new(Seen::default());
        let desk = (reception.clone(), Arc::clone(&seen));
        let app = Router::new().route("/webhook", post(take)).with_state(desk);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { world, reception, queue, seen }
    }

    /// Another process, which does what events leave too.
    pub fn second(&self) -> Engine {
        Engine { left_work: Some(Arc::new(self.queue.clone())), ..self.world.second() }
    }

    /// Ticks until the intake is over, moving the clock by seconds only: for gates and leases, never for a poll.
    pub async fn until_over_by_events(&self, intake: &str, at_most: Duration) {
        let end = self.world.now().plus(at_most);
        for round in 1.. {
            let idle = self.world.tick().await.was_idle();
            if self.world.progress(intake).await.is_over() {
                return;
            }
            if idle {
                a_moment().await;
            }
            if round % 20 == 0 {
                self.world.advance(Duration::from_secs(1));
                assert!(
                    self.world.now() < end,
                    "events alone don't end it: {:?}",
                    self.world.progress(intake).await.tally
                );
            }
        }
    }

    /// Answers one request, as the receiver does.
    pub async fn receive(&self, request: &Request) -> Answer {
        receive(&self.reception, request).await
    }

    /// Messages in the queue, which stay there.
    pub async fn queued(&self) -> Vec<Value> {
        let messages = self.queue.receive(1000, Duration::ZERO).await.unwrap();
        messages.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect()
    }

    /// An event of the id, signed with the tests' own secret.
    pub fn signed(&self, id: &str, body: &Value) -> Request {
        sign(SECRET, id, self.world.now().0 / 1000, body)
    }

    /// How many events named a handle that nobody has.
    pub async fn strays(&self, handle: &str) -> u32 {
        match self.reception.ledger.get(&ItemId::stray(handle)).await.unwrap() {
            Some(Item::Stray(stray)) => stray.events,
            Some(other) => panic!("{} is in a stray's place", other.id()),
            None => 0,
        }
    }

    /// Ticks of one engine until nothing is left in the queue.
    pub async fn tick(&self) {
        tick_of(&self.world.engine).await.unwrap();
    }
}

/// A signed request.
pub fn sign(secret: &str, id: &str, seconds: i64, body: &Value) -> Request {
    let body = body.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(SigningSecret::parse(secret).unwrap().key()).unwrap();
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    let headers = [("webhook-id", id), ("webhook-timestamp", &seconds.to_string()), ("Webhook-Signature", &signature)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Request { headers, body: Bytes::from(body) }
}

/// The body of an event about an interaction.
pub fn completed(handle: &str) -> Value {
    json!({"type": "interaction.completed", "version": "v1", "timestamp": "2026-11-29T20:00:01Z", "data": {"id": handle}})
}

/// The same with what a create carried.
pub fn claimed(handle: &str, key: &str, nonce: &str) -> Value {
    let mut body = completed(handle);
    body["user_metadata"] = json!({"key": key, "nonce": nonce});
    body
}

async fn register(world: &World, url: &str) -> SigningSecret {
    let events = ["interaction.completed", "interaction.failed", "batch.succeeded", "batch.failed"];
    let body = json!({"uri": url, "subscribed_events": events});
    let sent = world.sim.send_as(Some(super::world::KEY), reqwest::Method::POST, "/v1beta/webhooks", Some(&body)).await;
    let (status, body) = sent.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let registered: Value = serde_json::from_slice(&body).unwrap();
    SigningSecret::parse(registered["new_signing_secret"].as_str().unwrap()).unwrap()
}

async fn take(
    With((reception, seen)): With<(Reception, Arc<Seen>)>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let answer = receive(&reception, &Request { headers, body }).await;
    if matches!(answer.status, 400..500) {
        seen.refused.fetch_add(1, Ordering::SeqCst);
    }
    (StatusCode::from_u16(answer.status).unwrap(), answer.body)
}
