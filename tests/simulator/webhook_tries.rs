//! Events are sent until they are accepted, to this machine only, and not too many at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use gleaner::domain::time::Millis;
use gleaner::ports::testing::TestClock;
use gleaner::simulator::Config;
use reqwest::Method;
use serde_json::{Value, json};

use crate::receiver::{Receiver, told, webhook_path};
use crate::simulated::Sim;
use crate::{background, still_clock};

/// Work ends at once, and a refused event is sent again soon.
fn hasty() -> Config {
    Config { polls_until_done: 0, event_retry: Duration::from_millis(5), ..Config::default() }
}

#[tokio::test]
async fn an_event_is_sent_until_it_is_accepted() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(hasty()).await);
    let webhook = sim.register(&receiver.uri("/hook")).await;
    // A redirect is not followed.
    receiver.answer([500, 404, 302, 503]);
    sim.create(&background("x")).await;
    let got = receiver.wait(5).await;
    let events = sim.events(1).await;
    let first = &got[0];
    for got in &got {
        assert_eq!((&got.id, &got.body, got.path.as_str()), (&first.id, &first.body, "/hook"));
        assert!(got.timestamp >= first.timestamp);
        assert_eq!(got.proved_by(webhook["new_signing_secret"].as_str().unwrap()), [true]);
    }
    let statuses: Vec<_> = events[0]["tries"].as_array().unwrap().iter().map(|tried| tried["status"].clone()).collect();
    assert_eq!(statuses, [500, 404, 302, 503, 200].map(|status| json!(status)));
    assert_eq!((&events[0]["outcome"], events[0]["form"].as_str()), (&json!("accepted"), Some("v1")));
    let counts = sim.get("/simulator/stats").await["events"].clone();
    assert_eq!((&counts["sent"], &counts["accepted"], &counts["refused"]), (&json!(5), &json!(1), &json!(4)));
    assert_eq!(receiver.got().len(), 5);
}

#[tokio::test]
async fn pauses_double_up_to_ten_minutes_and_the_timestamp_is_of_the_try() {
    let (receiver, clock) = (Receiver::start().await, still_clock());
    let retry = Duration::from_secs(1);
    let sim = Sim::start_at(Config { event_retry: retry, ..hasty() }, clock.clone()).await;
    receiver.answer([503; 13]);
    sim.create(&told("x", &receiver.uri("/"))).await;
    let got = receiver.wait(14).await;
    let waits: Vec<i64> = got.windows(2).map(|two| two[1].timestamp - two[0].timestamp).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
    let (first, jwks) = (&got[0], sim.jwks().await);
    assert!(got.iter().all(|got| got.keys_of(&jwks) == [Some(1)] && got.id == first.id));
}

#[tokio::test]
async fn a_webhook_that_accepts_nothing_for_a_day_is_disabled() {
    let (receiver, clock) = (Receiver::start().await, still_clock());
    let sim = Sim::start_at(Config { event_retry: Duration::from_secs(1), ..hasty() }, clock.clone()).await;
    let (webhook, other) = (sim.register(&receiver.uri("/dead")).await, sim.register(&receiver.uri("/alive")).await);
    // Nobody listens there any more.
    let gone = Receiver::start().await;
    let dead = gone.uri("/dead");
    drop(gone);
    sim.json(Method::PATCH, &webhook_path(&webhook), Some(&json!({"uri": dead}))).await;
    sim.create(&background("x")).await;
    let events = sim.events(2).await;
    let of = |id: &serde_json::Value| events.iter().find(|event| event["webhook"] == *id).unwrap().clone();
    let (failed, accepted) = (of(&webhook["id"]), of(&other["id"]));
    assert_eq!((&failed["outcome"], &accepted["outcome"]), (&json!("given_up"), &json!("accepted")));
    let tries = failed["tries"].as_array().unwrap();
    let (first, last) = (tries[0]["at"].as_i64().unwrap(), tries.last().unwrap()["at"].as_i64().unwrap());
    assert!((23 * 3600..=24 * 3600).contains(&((last - first) / 1000)), "{first} to {last}");
    assert!(tries.iter().all(|tried| tried["status"].is_null() && tried["error"].as_str().unwrap().len() > 10));
    let state = async |webhook| sim.get(&webhook_path(webhook)).await["state"].clone();
    assert_eq!(state(&webhook).await, "disabled_due_to_failed_deliveries");
    assert_eq!(state(&other).await, "enabled");
    // The next event is for the other one only, until it is enabled by hand.
    sim.create(&background("y")).await;
    sim.events(3).await;
    let mend = json!({"state": "enabled", "uri": receiver.uri("/mended")});
    sim.json(Method::PATCH, &webhook_path(&webhook), Some(&mend)).await;
    sim.create(&background("z")).await;
    let paths: BTreeSet<String> = receiver.wait(4).await[2..].iter().map(|got| got.path.clone()).collect();
    assert_eq!(paths, BTreeSet::from(["/alive".to_owned(), "/mended".to_owned()]));
}

/// A clock by which nobody's wait ends until it is moved.
fn standing() -> Arc<TestClock> {
    Arc::new(TestClock::standing(Millis(1_764_000_000_000)))
}

impl Sim {
    /// The event of that place, once it was tried that often.
    async fn tried(&self, place: usize, times: usize) -> Value {
        loop {
            let events = self.get("/simulator/events").await;
            let event = &events["entries"][place];
            if event["tries"].as_array().is_some_and(|tries| tries.len() >= times) {
                return event.clone();
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_deleted_webhook_is_sent_no_more_tries() {
    let (receiver, clock) = (Receiver::start().await, standing());
    let sim = Sim::start_at(hasty(), clock.clone()).await;
    let webhook = sim.register(&receiver.uri("/")).await;
    receiver.answer([503; 2]);
    sim.create(&background("x")).await;
    for tries in 1..=2 {
        assert_eq!(sim.tried(0, tries).await["outcome"], Value::Null);
        if tries == 1 {
            clock.advance(Duration::from_millis(5));
        }
    }
    sim.json(Method::DELETE, &webhook_path(&webhook), None).await;
    clock.advance(Duration::from_millis(10));
    assert_eq!(sim.events(1).await[0]["outcome"], "dropped");
    assert_eq!(receiver.got().len(), 2);
}

#[tokio::test]
async fn a_try_takes_the_secret_and_the_address_of_its_time() {
    let (receiver, clock) = (Receiver::start().await, standing());
    let sim = Sim::start_at(hasty(), clock.clone()).await;
    let webhook = sim.register(&receiver.uri("/before")).await;
    let path = webhook_path(&webhook);
    receiver.answer([503; 2]);
    sim.create(&background("x")).await;
    sim.tried(0, 1).await;
    let at_once = json!({"revocation_behavior": "revoke_previous_secrets_immediately"});
    let (_, rotated) = sim.json(Method::POST, &format!("{path}:rotateSigningSecret"), Some(&at_once)).await;
    sim.json(Method::PATCH, &path, Some(&json!({"uri": receiver.uri("/after")}))).await;
    clock.advance(Duration::from_millis(5));
    sim.tried(0, 2).await;
    let got = receiver.got();
    assert_eq!(got.iter().map(|got| got.path.as_str()).collect::<Vec<_>>(), ["/before", "/after"]);
    assert_eq!(got[0].proved_by(webhook["new_signing_secret"].as_str().unwrap()), [true]);
    assert_eq!(got[1].proved_by(rotated["secret"].as_str().unwrap()), [true]);

    // Where it may not go, it doesn't go.
    sim.json(Method::PATCH, &path, Some(&json!({"uri": "http://example.test/"}))).await;
    clock.advance(Duration::from_millis(10));
    assert_eq!(sim.events(1).await[0]["outcome"], "undeliverable");
    assert_eq!(receiver.got().len(), 2);
}

#[tokio::test]
async fn events_never_leave_this_machine() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(hasty()).await);
    let port = receiver.port;
    for (n, host) in ["hooks.abc.localhost", "localhost", "127.0.0.1", "LOCALHOST."].iter().enumerate() {
        sim.create(&told(host, &format!("http://{host}:{port}/here"))).await;
        let got = receiver.wait(n + 1).await.pop().unwrap();
        assert_eq!(got.host, format!("{}:{port}", host.to_lowercase()));
    }
    for host in ["example.test", "10.1.2.3", "0.0.0.0", "localhost.example.test"] {
        sim.create(&told(host, &format!("http://{host}:{port}/away"))).await;
    }
    let events = sim.events(8).await;
    for event in &events[4..] {
        assert_eq!((&event["outcome"], &event["tries"]), (&json!("undeliverable"), &json!([])));
    }
    let counts = sim.get("/simulator/stats").await["events"].clone();
    assert_eq!((&counts["undeliverable"], &counts["sent"]), (&json!(4), &json!(4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_ends_are_each_told_once_and_not_all_at_once() {
    let (receiver, latency) = (Receiver::start().await, Duration::from_millis(300));
    let sim = Sim::start(Config { latency, ..hasty() }).await;
    let count = 3000;
    let creates = (0..count).map(|n| told(&format!("input {n}"), &receiver.uri("/")));
    let ids: BTreeSet<String> = stream::iter(creates)
        .map(|body| async { sim.create(&{ body }).await["id"].as_str().unwrap().to_owned() })
        .buffer_unordered(32)
        .collect()
        .await;
    let got = receiver.wait(count).await;
    assert_eq!(got.iter().map(|got| got.about().1).collect::<BTreeSet<_>>(), ids);
    assert_eq!(got.iter().map(|got| &got.id).collect::<BTreeSet<_>>().len(), count);
    sim.events(count).await;
    assert_eq!(receiver.got().len(), count);
    assert!(receiver.at_once() <= 64, "{} at once", receiver.at_once());
    assert_eq!(sim.get("/simulator/stats").await["requests"]["get"], json!(null));
}

#[tokio::test]
async fn a_stop_waits_for_no_event() {
    let (receiver, clock) = (Receiver::start().await, still_clock());
    let sim = Sim::start_at(Config { event_retry_for: Duration::MAX, ..hasty() }, clock).await;
    receiver.answer(std::iter::repeat_n(503, 100_000));
    sim.create(&told("x", &receiver.uri("/"))).await;
    receiver.wait(1).await;
    sim.running.stop().await.unwrap();
}
