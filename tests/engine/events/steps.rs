//! Whose an event is between its two steps, and what the queue keeps of its work.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::webhook::{Answer, Received, Reception, receive};
use gleaner::domain::job::State;
use gleaner::domain::webhook::{Keyring, Outcome, Refusal, Request, SigningSecret};
use gleaner::ports::queue::Queue as _;
use gleaner::ports::webhook_keys::{KeysError, SigningSecrets};
use gleaner::simulator::Config;
use serde_json::json;

use super::cut::{End, broken_off};
use super::{Asks, Called, claimed, completed};
use crate::world::{GRACE, HOUR, LEASE, MINUTE, Maker, text, tick_of};

/// Messages in the queue, hidden ones too: counted without being received.
fn waiting(called: &Called) -> u32 {
    let path = called.world.data().join(gleaner::adapters::local::WORK);
    let file = rusqlite::Connection::open(path).unwrap();
    file.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

fn queued(answer: &Answer) -> bool {
    matches!(answer.received, Received::Event(Outcome::Queued(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_in_hands_is_asked_for_again_and_free_after_half_a_minute() {
    let called = Called::new(&[], Asks::Not).await;
    called.world.land(text("One.")).await;
    called.tick().await;
    let handle = called.world.job().await.handles[0].id.clone();
    let request = called.signed("msg_a", &completed(&handle));
    // Its work is in the queue, and its process is gone: it was taken, and is not handled.
    assert!(broken_off(&called, &request, 4, End::After).await);
    assert_eq!(called.queued().await.len(), 1);
    for part in [Duration::ZERO, Duration::from_millis(29_999)] {
        called.world.advance(part);
        let answer = called.receive(&request).await;
        assert_eq!((answer.status, &answer.received), (503, &Received::InHands), "{answer:?}");
    }
    called.world.advance(Duration::from_millis(1));
    let answer = called.receive(&request).await;
    assert!(answer.status == 200 && queued(&answer), "{answer:?}");
    let answer = called.receive(&request).await;
    assert_eq!((answer.status, answer.received), (200, Received::Duplicate));
    // Queued twice, which the job stands.
    assert_eq!(called.queued().await.len(), 2);
    called.tick().await;
    assert_eq!(called.world.state().await, State::Consumed);
    called.world.hands.assert_each(1);
    assert_eq!(called.world.hands.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_a_duplicate_for_two_days_and_forgotten_then() {
    let called = Called::new(&[], Asks::Not).await;
    let days = HOUR * 48;
    let send = async || called.receive(&called.signed("msg_a", &completed("v1_none"))).await.received;
    assert_eq!(send().await, Received::Event(Outcome::Unknown));
    called.world.advance(days - Duration::from_millis(1));
    called.tick().await;
    assert_eq!((send().await, called.strays("v1_none").await), (Received::Duplicate, 1));
    called.world.advance(Duration::from_millis(1));
    called.tick().await;
    assert_eq!(called.strays("v1_none").await, 0, "what named nobody is forgotten too");
    assert_eq!(send().await, Received::Event(Outcome::Unknown));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strays_of_one_handle_at_once_are_each_counted() {
    let called = Called::new(&[], Asks::Not).await;
    let requests: Vec<Request> = (0..4).map(|n| called.signed(&format!("msg_{n}"), &completed("v1_none"))).collect();
    let answers = futures::future::join_all(requests.iter().map(|request| receive(&called.reception, request))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(called.strays("v1_none").await, 4);
}

/// Secrets that can't be read.
#[derive(Debug)]
struct Unreadable;

#[async_trait]
impl SigningSecrets for Unreadable {
    async fn current(&self) -> Result<Arc<Keyring>, KeysError> {
        Err(KeysError::NeedsPerson("nobody may read it".to_owned()))
    }
    async fn read(&self) -> Result<Keyring, KeysError> {
        Err(KeysError::NeedsPerson("nobody may read it".to_owned()))
    }
    async fn keep(&self, _: &Keyring) -> Result<(), KeysError> {
        Err(KeysError::NeedsPerson("nobody may read it".to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_refused_while_what_could_prove_it_is_out_of_reach() {
    let called = Called::new(&[], Asks::Not).await;
    let blind = Reception { secrets: Arc::new(Unreadable), ..called.reception.clone() };
    let request = called.signed("msg_a", &completed("v1_none"));
    let beside = |more: &str| {
        let mut request = request.clone();
        request.headers[2].1 = format!("{} {more}", request.headers[2].1);
        request
    };
    let foreign = format!("v1a,{}==", "A".repeat(86));
    // Nobody knows whether its `v1` is good; that its `v1a` is not says nothing.
    for request in [&request, &beside(&foreign)] {
        let answer = receive(&blind, request).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(!answer.body.contains("nobody may"), "why is nobody's business out there");
    }
    let answer = called.receive(&beside(&foreign)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // What asks for no secret needs none.
    let mut bare = request.clone();
    bare.headers[2].1 = foreign;
    let answer = receive(&blind, &bare).await;
    assert!(matches!(answer.received, Received::Refused(Refusal::Unsigned(_))), "{answer:?}");
}

/// A job whose first create was accepted and never answered, and whose second one is at Gemini; and the first one's
/// handle and nonce.
async fn sent_twice() -> (Called, String, String) {
    let config = Config { polls_until_done: 0, hidden: MINUTE, ..Config::default() };
    let called = Called::with(&["create-drop=1"], config, Asks::Not, Maker::default()).await;
    called.world.land(text("Twice.")).await;
    called.tick().await;
    let nonce = called.world.job().await.nonce;
    let handle = called.world.log().await[0]["id"].as_str().unwrap().to_owned();
    called.world.advance(GRACE);
    called.world.set_faults(&[]).await;
    called.tick().await;
    called.tick().await;
    let job = called.world.job().await;
    assert_eq!((job.state, job.attempts, job.handles.len()), (State::Submitted, 2, 1));
    (called, handle, nonce)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_asked_for_is_asked_for_again_and_what_names_no_work_is_dropped() {
    let (called, handle, nonce) = sent_twice().await;
    let key = called.world.job().await.key.0;
    called.receive(&called.signed("msg_a", &claimed(&handle, &key, &nonce))).await;
    let cut_off = Engine { left_work: Some(Arc::new(called.queue.clone())), ..called.world.unreachable() };
    tick_of(&cut_off).await.unwrap();
    let job = called.world.job().await;
    assert!(job.handles.len() == 1 && job.has_heard_of(&handle), "nobody could ask for it: {job:?}");
    assert_eq!(waiting(&called), 0, "what is to be asked for is in the ledger");
    called.world.advance(LEASE);
    called.tick().await;
    let job = called.world.job().await;
    assert_eq!((job.state, job.handles.len()), (State::Consumed, 2), "{job:?}");
    let inbox = json!({"inbox": {"name": "a.jsonl", "version": "v", "bytes": 1}});
    called.queue.send(&["{".to_owned(), json!({"unknown": 1}).to_string(), inbox.to_string()]).await;
    called.tick().await;
    called.world.advance(LEASE);
    assert!(called.queued().await.is_empty(), "what names no work is dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_needs_a_person_is_free_at_once_and_done_when_that_is_mended() {
    let (called, handle, nonce) = sent_twice().await;
    let job = called.world.job().await;
    called.receive(&called.signed("msg_a", &completed(&job.handles[0].id))).await;
    called.world.set_faults(&["key-rejected=1"]).await;
    assert!(matches!(tick_of(&called.world.engine).await, Err(Trouble::NeedsPerson(_))));
    assert_eq!(called.queued().await.len(), 1, "nobody holds it");
    called.world.set_faults(&[]).await;
    called.tick().await;
    assert_eq!((called.world.state().await, handle.is_empty() || nonce.is_empty()), (State::Consumed, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_take_an_event_over_after_a_crash_one_does() {
    let called = Called::new(&[], Asks::Not).await;
    called.world.land(text("One.")).await;
    called.tick().await;
    let handle = called.world.job().await.handles[0].id.clone();
    assert!(broken_off(&called, &called.signed("msg_a", &completed(&handle)), 1, End::After).await);
    called.world.advance(Duration::from_secs(31));
    let request = called.signed("msg_a", &completed(&handle));
    let answers = futures::future::join_all((0..100).map(|_| receive(&called.reception, &request))).await;
    assert_eq!(answers.iter().filter(|answer| queued(answer)).count(), 1);
    assert_eq!(called.queued().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_over_proves_nothing() {
    let called = Called::new(&[], Asks::Not).await;
    let mut ring = called.reception.secrets.read().await.unwrap();
    let newer = SigningSecret::parse("whsec_YSBuZXdlciBzZWNyZXQsIG9mIG5vIHVzZQ==").unwrap();
    ring.add("of-tests", newer.clone());
    ring.retire("of-tests", &newer, called.world.now().plus(MINUTE));
    called.reception.secrets.keep(&ring).await.unwrap();
    called.world.advance(MINUTE - Duration::from_millis(1));
    assert_eq!(called.receive(&called.signed("msg_a", &completed("v1_none"))).await.status, 200);
    called.world.advance(Duration::from_millis(1));
    assert_eq!(called.receive(&called.signed("msg_b", &completed("v1_none"))).await.status, 401);
}
