//! One event many times, broken off anywhere, forged, foreign.

use std::time::Duration;

use futures::future::join_all;
use gleaner::app::webhook::{Received, receive};
use gleaner::domain::job::{Job, State};
use gleaner::domain::webhook::Outcome;
use serde_json::json;

use super::cut::{End, broken_off};
use super::{Asks, Called, SECRET, claimed, completed, sign};
use crate::world::{KEY, LEASE, text};

/// A world with one job that runs at Gemini, of which nobody has told.
async fn submitted() -> (Called, Job) {
    let called = Called::new(&[], Asks::Not).await;
    called.world.land(text("One.")).await;
    called.tick().await;
    let job = called.world.job().await;
    assert_eq!((job.state, called.world.requests("get").await), (State::Submitted, 0));
    (called, job)
}

/// A world with one job whose create stays unclear, of which nobody has told, and the handle that it has at Gemini.
async fn unclear() -> (Called, Job, String) {
    let called = Called::new(&["create-drop=1"], Asks::Not).await;
    called.world.land(text("One.")).await;
    called.tick().await;
    let job = called.world.job().await;
    assert_eq!(job.state, State::Unclear);
    let handle = called.world.log().await[0]["id"].as_str().unwrap().to_owned();
    (called, job, handle)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_a_hundred_times_at_once_causes_one_look_and_one_piece_of_work() {
    let (called, job) = submitted().await;
    let request = called.signed("msg_a", &completed(&job.handles[0].id));
    let answers = join_all((0..100).map(|_| receive(&called.reception, &request))).await;
    let queued = answers.iter().filter(|answer| matches!(answer.received, Received::Event(Outcome::Queued(_)))).count();
    assert_eq!(queued, 1);
    for answer in &answers {
        assert!([200, 503].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(called.queued().await.len(), 1);
    called.tick().await;
    assert_eq!((called.world.state().await, called.world.requests("get").await), (State::Consumed, 1));
    for answer in join_all((0..100).map(|_| receive(&called.reception, &request))).await {
        assert_eq!((answer.status, answer.received), (200, Received::Duplicate));
    }
    called.tick().await;
    assert_eq!((called.queued().await.len(), called.world.requests("get").await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_events_of_a_job_that_is_over_cause_no_look() {
    let (called, job) = submitted().await;
    for (id, gets) in [("msg_a", 1), ("msg_b", 1), ("msg_c", 1)] {
        let answer = called.receive(&called.signed(id, &completed(&job.handles[0].id))).await;
        let is_over = matches!(answer.received, Received::Event(Outcome::Over(_)));
        assert_eq!((answer.status, is_over), (200, id != "msg_a"), "{answer:?}");
        called.tick().await;
        assert_eq!(called.world.requests("get").await, gets, "{id}");
    }
    assert!(called.queued().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_batch_is_counted_and_not_asked_for_while_no_create_is_in_doubt() {
    let (called, _) = submitted().await;
    for n in 1..=3 {
        let event = json!({"type": "batch.succeeded", "data": {"id": "batches/foreign"}});
        let answer = called.receive(&called.signed(&format!("msg_{n}"), &event)).await;
        assert_eq!((answer.status, answer.received), (200, Received::Event(Outcome::Unknown)));
        assert_eq!(called.strays("batches/foreign").await, n);
    }
    assert!(called.queued().await.is_empty());
    called.tick().await;
    assert_eq!(called.world.requests("batch-get").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_or_after_any_call_loses_nothing() {
    let mut calls = 0;
    for end in [End::Before, End::After] {
        for at in 1.. {
            let (called, job, handle) = unclear().await;
            let body = claimed(&handle, &job.key.0, &job.nonce);
            let request = called.signed("msg_a", &body);
            let broken = broken_off(&called, &request, at, end).await;
            // Gemini sends it again: at once, and after the lease.
            let at_once = called.receive(&request).await;
            assert!([200, 503].contains(&at_once.status), "{at_once:?}");
            called.world.advance(Duration::from_secs(31));
            let later = called.receive(&called.signed("msg_a", &body)).await;
            assert_eq!(later.status, 200, "{end:?} call {at}: {later:?}");
            called.world.advance(LEASE);
            called.tick().await;
            assert_eq!(called.world.state().await, State::Consumed, "{end:?} call {at}");
            called.world.hands.assert_each(1);
            assert_eq!((called.world.hands.count(), called.world.requests("create").await), (1, 1));
            if !broken {
                break;
            }
            calls += 1;
        }
    }
    // It is taken, its job is read and told of the handle, the work is queued, it is handled.
    assert_eq!(calls, 2 * 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_and_foreign_events_cause_nothing() {
    let (called, job, handle) = unclear().await;
    let now = called.world.now().0 / 1000;
    let key = job.key.0.as_str();
    let good = claimed(&handle, key, &job.nonce);
    let other = "whsec_YW5vdGhlciBzZWNyZXQgb2Ygbm9ib2R5J3M=";
    let forged = sign(other, "msg_f", now, &good);
    assert_eq!(called.receive(&forged).await.status, 401);
    assert_eq!(called.receive(&sign(SECRET, "msg_o", now - 301, &good)).await.status, 401);
    // A guessed key: no nonce, a wrong one, none at all.
    for (n, nonce) in ["", "guessed", "0123456789abcdef0123456789abcdef"].into_iter().enumerate() {
        let foreign = claimed("v1_foreign", key, nonce);
        let answer = called.receive(&called.signed(&format!("msg_{n}"), &foreign)).await;
        assert_eq!((answer.status, answer.received), (200, Received::Event(Outcome::Unknown)));
    }
    // Somebody else's work in the same project.
    let batch = json!({"type": "batch.succeeded", "data": {"id": "batches/foreign"}});
    let mut names = vec![(completed("v1_foreign"), Outcome::Unknown)];
    names.push((claimed("v1_foreign", "no-such-job", &job.nonce), Outcome::Unknown));
    names.push((json!({"type": "video.generated", "data": {"id": "v"}}), Outcome::Other));
    names.push((json!({"type": "ping"}), Outcome::Other));
    for (n, (body, outcome)) in names.into_iter().enumerate() {
        let answer = called.receive(&called.signed(&format!("msg_x{n}"), &body)).await;
        assert_eq!((answer.status, answer.received), (200, Received::Event(outcome)), "{body}");
    }
    assert_eq!(called.strays("v1_foreign").await, 5, "counted");
    assert!(called.queued().await.is_empty());
    called.tick().await;
    assert_eq!(called.world.requests("get").await + called.world.requests("batch-get").await, 0);
    let stored = called.world.job().await;
    assert_eq!((stored.rev, stored.handles.len(), stored.heard.len()), (job.rev.clone(), 0, 0));

    // While a create is in doubt, a batch job is asked for once: it might be ours. This one isn't there.
    let answer = called.receive(&called.signed("msg_b", &batch)).await;
    assert_eq!(answer.received, Received::Event(Outcome::Queued("batches/foreign".to_owned())));
    for n in 0..100 {
        let answer = called.receive(&called.signed(&format!("msg_b{n}"), &batch)).await;
        assert_eq!(answer.received, Received::Event(Outcome::Unknown));
    }
    called.tick().await;
    assert_eq!((called.world.requests("batch-get").await, called.strays("batches/foreign").await), (1, 101));
    assert_eq!(called.world.job().await.rev, job.rev);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_right_nonce_only_what_gemini_shows_and_is_not_anothers_is_attached() {
    let (called, job, handle) = unclear().await;
    // Somebody else's interaction, which our key may see and which carries another job's label.
    let body = json!({"model": "m", "input": "other", "background": true, "labels": {"gleaner": "another-job"}});
    called.world.set_faults(&[]).await;
    let sent = called.world.sim.send_as(Some(KEY), reqwest::Method::POST, "/v1beta/interactions", Some(&body)).await;
    let other: serde_json::Value = serde_json::from_slice(&sent.unwrap().1).unwrap();
    let other = other["id"].as_str().unwrap();
    called.receive(&called.signed("msg_o", &claimed(other, &job.key.0, &job.nonce))).await;
    // And one that doesn't exist.
    called.receive(&called.signed("msg_n", &claimed("v1_none", &job.key.0, &job.nonce))).await;
    called.tick().await;
    let stored = called.world.job().await;
    assert!(stored.handles.is_empty(), "{stored:?}");
    assert_eq!(stored.heard.iter().map(|heard| heard.id.as_str()).collect::<Vec<_>>(), ["v1_none"]);
    // The right one attaches all the same.
    called.receive(&called.signed("msg_r", &claimed(&handle, &job.key.0, &job.nonce))).await;
    called.tick().await;
    let stored = called.world.job().await;
    assert_eq!((stored.state, stored.handles.len()), (State::Consumed, 1));
    assert_eq!(called.world.accepted().await, 2);
}
