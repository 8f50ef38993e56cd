//! Each fault of an event happens when told to, and no work fails by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use gleaner::ports::testing::TestClock;
use gleaner::simulator::Config;
use gleaner::simulator::faults::{Fault, Phase, Stay};
use reqwest::Method;
use serde_json::{Value, json};

use crate::receiver::{Got, Receiver, told};
use crate::simulated::Sim;
use crate::{background, path_of, with};

fn at_once(fault: &str) -> Config {
    let set = format!("{fault}=1");
    let retry = Duration::from_millis(5);
    Config { polls_until_done: 0, event_retry: retry, event_held: Duration::from_millis(50), ..with(&[&set]) }
}

/// A request's own event, and a registered webhook's, that meet a fault. The second comes with its secret.
async fn met(fault: &str, answers: &[u16]) -> (Sim, Receiver, String) {
    let (receiver, sim) = (Receiver::start().await, Sim::start(at_once(fault)).await);
    receiver.answer(answers.iter().copied());
    sim.create(&told("dynamic", &receiver.uri("/dynamic"))).await;
    sim.events(1).await;
    let webhook = sim.register(&receiver.uri("/static")).await;
    receiver.answer(answers.iter().copied());
    sim.create(&background("static")).await;
    sim.events(2).await;
    (sim, receiver, webhook["new_signing_secret"].as_str().unwrap().to_owned())
}

/// By path.
fn parted(receiver: &Receiver) -> (Vec<Got>, Vec<Got>) {
    receiver.got().into_iter().partition(|got| got.path == "/dynamic")
}

async fn count_of(sim: &Sim, fault: &str) -> u64 {
    sim.faults_made().await.get(fault).copied().unwrap_or_default()
}

#[tokio::test]
async fn without_a_fault_each_form_is_proved_and_the_keys_are_of_the_seed() {
    let (sim, receiver, secret) = met("get-503", &[]).await;
    let (own, registered) = parted(&receiver);
    let jwks = sim.jwks().await;
    assert_eq!((own[0].keys_of(&jwks), registered[0].proved_by(&secret)), (vec![Some(1)], vec![true]));
    assert_eq!((own.len(), registered.len(), own[0].id == registered[0].id), (1, 1, false));
    let other = Sim::start(Config { seed: 1, ..Config::default() }).await;
    assert_eq!(own[0].keys_of(&other.jwks().await), [None]);
    let again = Sim::start(Config::default()).await;
    assert_eq!(again.jwks().await, jwks, "RSA keys are of the process");
}

#[tokio::test]
async fn a_token_is_for_requests_own_webhooks() {
    let (sim, receiver, secret) = met("event-jwt", &[]).await;
    let (own, registered) = parted(&receiver);
    let jwks = sim.jwks().await;
    let claims = own[0].claims(&jwks, &receiver.uri("/dynamic"));
    assert_eq!((&claims["jti"], &claims["iss"]), (&json!(own[0].id), &Value::Null));
    assert_eq!(claims["iat"], own[0].timestamp);
    assert_eq!(claims["exp"], own[0].timestamp + 300);
    assert_eq!(registered[0].proved_by(&secret), [true]);
    assert_eq!(count_of(&sim, "event-jwt").await, 1);
    let forms: Vec<_> = sim.events(2).await.iter().map(|event| event["form"].clone()).collect();
    assert_eq!(forms, ["jwt", "v1"]);
}

#[tokio::test]
async fn a_second_signature_is_the_right_one() {
    let (sim, receiver, secret) = met("event-two-signatures", &[]).await;
    let (own, registered) = parted(&receiver);
    assert_eq!(own[0].keys_of(&sim.jwks().await), [None, Some(1)]);
    assert_eq!(registered[0].proved_by(&secret), [false, true]);
    assert_eq!((own.len(), registered.len(), count_of(&sim, "event-two-signatures").await), (1, 1, 2));
}

#[tokio::test]
async fn an_event_comes_twice_with_one_id() {
    let (sim, receiver, secret) = met("event-twice", &[503, 200]).await;
    let (own, registered) = parted(&receiver);
    assert_eq!((own.len(), registered.len()), (3, 3), "each of the two is sent until it is accepted");
    assert!(own.iter().all(|got| got.id == own[0].id) && registered.iter().all(|got| got.id == registered[0].id));
    assert!(registered.iter().all(|got| got.proved_by(&secret) == [true]));
    let counts = sim.get("/simulator/stats").await["events"].clone();
    assert_eq!((&counts["made"], &counts["sent"], &counts["accepted"]), (&json!(2), &json!(6), &json!(4)));
}

#[tokio::test]
async fn a_late_event_waits() {
    let (receiver, clock) = (Receiver::start().await, Arc::new(TestClock::standing(SystemClock.now())));
    let late = Duration::from_secs(3600);
    let sim = Sim::start_at(Config { event_late: late, ..at_once("event-late") }, clock.clone()).await;
    let created = sim.create(&told("x", &receiver.uri("/"))).await;
    // The work itself is not late.
    assert_eq!(sim.get(&path_of(&created)).await["status"], "completed");
    clock.advance(late - Duration::from_millis(1));
    let other = sim.create(&told("y", &receiver.uri("/"))).await;
    assert_eq!(sim.get(&path_of(&other)).await["status"], "completed");
    assert!(receiver.got().is_empty());
    clock.advance(Duration::from_millis(1));
    assert_eq!(receiver.wait(1).await[0].about().1, created["id"].as_str().unwrap());
    assert_eq!(count_of(&sim, "event-late").await, 2);
}

#[tokio::test]
async fn a_shuffled_event_comes_behind_a_later_one_or_in_the_end_by_itself() {
    let receiver = Receiver::start().await;
    let held = Duration::from_secs(3600);
    let sim = Sim::start(Config { event_held: held, ..at_once("event-shuffled") }).await;
    let first = sim.create(&told("first", &receiver.uri("/"))).await;
    sim.get(&path_of(&first)).await;
    sim.json(Method::PUT, "/simulator/faults", Some(&json!({}))).await;
    let second = sim.create(&told("second", &receiver.uri("/"))).await;
    let order: Vec<_> = receiver.wait(2).await.iter().map(|got| json!(got.about().1)).collect();
    assert_eq!(order, [second["id"].clone(), first["id"].clone()]);

    let alone = Sim::start(at_once("event-shuffled")).await;
    alone.create(&told("alone", &receiver.uri("/"))).await;
    receiver.wait(3).await;
}

#[tokio::test]
async fn the_first_try_has_a_bad_signature() {
    // As a receiver should, this one refuses the first.
    let (sim, receiver, secret) = met("event-bad-signature", &[401]).await;
    let (own, registered) = parted(&receiver);
    let jwks = sim.jwks().await;
    assert_eq!(own.iter().map(|got| got.keys_of(&jwks)).collect::<Vec<_>>(), [[None], [Some(1)]]);
    assert_eq!(registered.iter().map(|got| got.proved_by(&secret)).collect::<Vec<_>>(), [[false], [true]]);
    assert!(own[0].id == own[1].id && registered[0].id == registered[1].id);
    assert_eq!(count_of(&sim, "event-bad-signature").await, 2);
}

#[tokio::test]
async fn the_first_try_has_an_old_timestamp() {
    let before = SystemClock.now().0 / 1000;
    let (sim, receiver, secret) = met("event-old-timestamp", &[401]).await;
    let (own, registered) = parted(&receiver);
    let jwks = sim.jwks().await;
    assert!(own.iter().all(|got| got.keys_of(&jwks) == [Some(1)]));
    assert!(registered.iter().all(|got| got.proved_by(&secret) == [true]), "it is rightly signed");
    for tries in [own, registered] {
        assert!(tries[0].timestamp < before - 590 && tries[1].timestamp >= before, "{tries:?}");
    }
}

#[tokio::test]
async fn a_lost_event_is_never_sent_and_its_work_is_there() {
    let (receiver, sim) = (Receiver::start().await, Sim::start(at_once("event-lost")).await);
    let created = sim.create(&told("x", &receiver.uri("/"))).await;
    let event = sim.events(1).await.pop().unwrap();
    assert_eq!(
        (&event["outcome"], &event["fault"], &event["tries"]),
        (&json!("lost"), &json!("event-lost"), &json!([]))
    );
    assert_eq!(sim.get(&path_of(&created)).await["status"], "completed");
    let counts = sim.get("/simulator/stats").await["events"].clone();
    assert_eq!((&counts["lost"], &counts["sent"]), (&json!(1), &json!(0)));
    assert!(receiver.got().is_empty());
}

#[test]
fn no_fault_of_an_event_lasts() {
    let events: Vec<_> = Fault::ALL.iter().filter(|fault| fault.phase() == Phase::Event).collect();
    assert_eq!(events.len(), 8);
    assert!(events.iter().all(|fault| fault.stay() == Stay::Passing && fault.name().starts_with("event-")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_seed_gives_the_same_events_whatever_the_concurrency() {
    let receiver = Receiver::start().await;
    let world = async |seed: u64, concurrency: usize, backwards: bool| {
        let faults = with(&["passing=0", "event-lost=0.2", "event-jwt=0.2", "event-twice=0.2", "event-late=0.2"]);
        let late = Duration::from_millis(10);
        let sim = Sim::start(Config { seed, event_late: late, polls_until_done: 0, ..faults }).await;
        let mut inputs: Vec<_> = (0..100).map(|n| told(&format!("input {n}"), &receiver.uri("/"))).collect();
        if backwards {
            inputs.reverse();
        }
        stream::iter(&inputs).map(|body| sim.create(body)).buffer_unordered(concurrency).collect::<Vec<_>>().await;
        let events = sim.events(100).await;
        let told = |event: &Value| ["about", "id", "fault", "form", "outcome"].map(|field| event[field].to_string());
        events.iter().map(told).collect::<BTreeSet<_>>()
    };
    let one = world(7, 1, false).await;
    assert_eq!(one, world(7, 16, true).await);
    let mut faults = BTreeMap::<&str, usize>::new();
    for [_, _, fault, ..] in &one {
        *faults.entry(fault).or_default() += 1;
    }
    assert!(faults.len() == 5 && faults.values().all(|count| (8..40).contains(count)), "{faults:?}");
    assert_ne!(one, world(8, 1, false).await);
}
