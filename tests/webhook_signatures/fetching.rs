//! Gemini's public keys from a real server: how often it is asked, and what is used when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request as Asked, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gleaner::adapters::gemini::HttpPublicKeys;
use gleaner::domain::webhook::{Delivery, KeySet};
use gleaner::ports::testing::TestClock;
use gleaner::ports::webhook_keys::{KeysError, PublicKeys};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::kit::{BODY, FOREIGN, ID, NOW, OURS, THEN, request};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A server that answers with what it is told to, and counts.
#[derive(Debug, Clone)]
struct Server {
    url: String,
    said: Arc<Mutex<(StatusCode, String)>>,
    asked: Arc<AtomicUsize>,
    headers: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(body: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/.well-known/jwks.json", listener.local_addr().unwrap()),
            said: Arc::new(Mutex::new((StatusCode::OK, body.to_string()))),
            asked: Arc::default(),
            headers: Arc::default(),
        };
        let router = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn say(&self, status: u16, body: impl ToString) {
        let said = (StatusCode::from_u16(status).unwrap(), body.to_string());
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(State(server): State<Server>, asked: Asked) -> Response {
    server.asked.fetch_add(1, Ordering::SeqCst);
    let names = asked.headers().keys().map(|name| name.as_str().to_owned());
    *server.headers.lock().unwrap_or_else(PoisonError::into_inner) = names.collect();
    let (status, body) = server.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if status.is_redirection() {
        return (status, [("location", body)]).into_response();
    }
    (status, body).into_response()
}

struct World {
    server: Server,
    clock: Arc<TestClock>,
    keys: Arc<HttpPublicKeys>,
}

impl World {
    async fn new(body: &Value) -> Self {
        let server = Server::start(body).await;
        let clock = Arc::new(TestClock::standing(NOW));
        let keys = Arc::new(HttpPublicKeys::new(server.url.clone(), clock.clone()).unwrap());
        Self { server, clock, keys }
    }
}

fn set(keys: &[Value]) -> Value {
    json!({ "keys": keys })
}

/// What an event does to the keys: asks for them, and for newer ones when they don't prove it.
async fn arrives(keys: &HttpPublicKeys, signature: &str) -> bool {
    let request = request(ID, THEN, signature, BODY.as_bytes());
    let delivery = Delivery::read(&request, NOW).unwrap();
    let known = keys.known().await.unwrap();
    if delivery.proved_by_keys(&known, None, NOW).is_ok() {
        return true;
    }
    let newer = keys.newer_than(&known).await.unwrap();
    delivery.proved_by_keys(&newer, None, NOW).is_ok()
}

/// A thousand at once; how many were proved.
async fn thousand(keys: &Arc<HttpPublicKeys>, signature: &str) -> usize {
    let events = (0..1000).map(|_| {
        let (keys, signature) = (Arc::clone(keys), signature.to_owned());
        tokio::spawn(async move { arrives(&keys, &signature).await })
    });
    let all = futures::future::join_all(events).await;
    all.into_iter().filter(|proved| *proved.as_ref().unwrap()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_forged_events_cause_one_fetch_a_minute() {
    let world = World::new(&set(&[OURS.ed25519_jwk()])).await;
    let forged = FOREIGN.v1a(ID, THEN, BODY.as_bytes());
    for minute in 1..=3 {
        assert_eq!(thousand(&world.keys, &forged).await, 0);
        assert_eq!(world.server.asked(), minute);
        world.clock.advance(MINUTE - Duration::from_millis(1));
        assert_eq!(thousand(&world.keys, &forged).await, 0);
        assert_eq!(world.server.asked(), minute, "within the minute nothing is fetched");
        world.clock.advance(Duration::from_millis(1));
    }
    // Good ones need no fetch at all.
    assert_eq!(thousand(&world.keys, &OURS.v1a(ID, THEN, BODY.as_bytes())).await, 1000);
    assert_eq!(world.server.asked(), 3);
    let headers = world.server.headers.lock().unwrap().clone();
    assert!(!headers.iter().any(|name| name.contains("key") || name.contains("auth")), "{headers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_asked_once_a_minute_too() {
    let world = World::new(&Value::Null).await;
    for (minute, status) in [500, 503, 429].into_iter().enumerate() {
        world.server.say(status, "{}");
        let all = futures::future::join_all((0..1000).map(|_| world.keys.known())).await;
        for failed in all {
            assert!(matches!(failed, Err(KeysError::Busy(why)) if why.contains(&status.to_string())));
        }
        assert_eq!(world.server.asked(), minute + 1);
        world.clock.advance(MINUTE);
    }
    world.server.say(200, set(&[OURS.ed25519_jwk()]));
    world.keys.known().await.unwrap();
    assert_eq!(world.server.asked(), 4);
}

#[tokio::test]
async fn new_keys_are_found_after_a_minute_and_the_same_ones_stay_the_same() {
    let world = World::new(&set(&[OURS.ed25519_jwk()])).await;
    let first = world.keys.known().await.unwrap();
    world.clock.advance(MINUTE);
    let same = world.keys.newer_than(&first).await.unwrap();
    assert!(Arc::ptr_eq(&first, &same));
    assert_eq!(world.server.asked(), 2);

    world.server.say(200, set(&[OURS.ed25519_jwk(), FOREIGN.ed25519_jwk()]));
    assert!(Arc::ptr_eq(&first, &world.keys.newer_than(&first).await.unwrap()), "not within the minute");
    world.clock.advance(MINUTE);
    assert!(arrives(&world.keys, &FOREIGN.v1a(ID, THEN, BODY.as_bytes())).await);
    assert_eq!(world.server.asked(), 3);
    // Whoever still holds the old ones gets these without a fetch.
    let newer = world.keys.newer_than(&first).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &newer) && Arc::ptr_eq(&newer, &world.keys.known().await.unwrap()));
    assert_eq!(world.server.asked(), 3);
}

#[tokio::test]
async fn good_keys_stay_in_use_when_they_cannot_be_fetched_anew_but_not_for_ever() {
    let world = World::new(&set(&[OURS.ed25519_jwk()])).await;
    let first = world.keys.known().await.unwrap();
    world.server.say(503, "");
    world.clock.advance(MINUTE);
    assert!(
        matches!(world.keys.newer_than(&first).await, Err(KeysError::Busy(_))),
        "nobody knows whether there are newer ones"
    );
    assert!(Arc::ptr_eq(&first, &world.keys.known().await.unwrap()));
    assert_eq!(world.server.asked(), 2);
    // Up to six hours nobody asks for newer ones.
    world.clock.advance(6 * HOUR - 2 * MINUTE);
    assert!(Arc::ptr_eq(&first, &world.keys.known().await.unwrap()));
    assert_eq!(world.server.asked(), 2);
    // After that each minute one tries.
    world.clock.advance(MINUTE);
    for _ in 0..10 {
        assert!(Arc::ptr_eq(&first, &world.keys.known().await.unwrap()));
    }
    assert_eq!(world.server.asked(), 3);
    world.clock.advance(18 * HOUR - Duration::from_millis(1));
    assert!(Arc::ptr_eq(&first, &world.keys.known().await.unwrap()));
    world.clock.advance(Duration::from_millis(1));
    assert!(matches!(world.keys.known().await, Err(KeysError::Busy(_))));
    assert!(matches!(world.keys.newer_than(&first).await, Err(KeysError::Busy(_))));
    assert_eq!(world.server.asked(), 4);

    world.server.say(200, set(&[FOREIGN.ed25519_jwk()]));
    world.clock.advance(MINUTE);
    assert!(!Arc::ptr_eq(&first, &world.keys.known().await.unwrap()));
    // A clock that is set back does not stop fetching.
    world.clock.set(NOW);
    world.keys.newer_than(&world.keys.known().await.unwrap()).await.unwrap();
    assert_eq!(world.server.asked(), 6);
}

#[tokio::test]
async fn what_is_no_key_set_is_told_with_what_to_look_at() {
    let long = " ".repeat(256 * 1024 + 1);
    let moved = "http://127.0.0.1:9/keys";
    for (status, body, why) in [
        (404, "", "answered 404"),
        (302, moved, "answered 302"),
        (204, "", "answered 204"),
        (200, "<html>", "no JSON Web Key Set"),
        (200, "{\"keys\": []}", "it holds 0 keys"),
        (200, &long, "longer than 262144 bytes"),
    ] {
        let world = World::new(&Value::Null).await;
        world.server.say(status, body);
        let error = world.keys.known().await.unwrap_err();
        let KeysError::NeedsPerson(text) = &error else { panic!("{error}") };
        assert!(
            text.contains(why) && text.contains("GLEANER_WEBHOOK_KEYS") && text.contains(&world.server.url),
            "{text}"
        );
        assert_eq!(world.keys.known().await.unwrap_err(), error, "told again from memory");
        assert_eq!(world.server.asked(), 1);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_and_whoever_goes_away_counts_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let clock = Arc::new(TestClock::standing(NOW));
    let keys = HttpPublicKeys::new(url, clock.clone()).unwrap();
    let connections = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(listener.accept().await.unwrap());
            assert!(held.len() < 3, "asked more often than once a minute");
        }
    });
    // Its own time-out ends it: there is no other here.
    assert!(matches!(keys.known().await, Err(KeysError::Busy(_))));
    clock.advance(MINUTE);
    let seen = Arc::new(KeySet::default());
    {
        let mut asking = std::pin::pin!(keys.newer_than(&seen));
        assert!(futures::poll!(&mut asking).is_pending());
        // Goes away in the middle.
    }
    let Err(KeysError::Busy(why)) = keys.newer_than(&seen).await else { panic!("no keys can be there") };
    assert!(why.contains("in time"), "{why}");
    assert!(!connections.is_finished());
    connections.abort();
}

#[test]
fn urls_that_would_let_keys_be_swapped_are_refused() {
    let clock = || Arc::new(TestClock::standing(NOW));
    for url in [
        "",
        "jwks.json",
        "http://host.test/jwks.json",
        "http://127.0.0.1.host.test/",
        "ftp://host.test/",
        "https://user:hunter2@host.test/",
    ] {
        let error = HttpPublicKeys::new(url.to_owned(), clock()).unwrap_err();
        let KeysError::NeedsPerson(text) = error else { panic!("{error}") };
        assert!(text.contains("GLEANER_WEBHOOK_KEYS") && !text.contains("hunter2"), "{text}");
    }
    for url in ["https://host.test/.well-known/jwks.json", "http://localhost:1/", "http://[::1]/a?b=c"] {
        HttpPublicKeys::new(url.to_owned(), clock()).unwrap();
    }
}
