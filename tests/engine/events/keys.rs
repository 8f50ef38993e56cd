//! Gemini's own keys and ours: which of them an event is proved, and its handle shown, by.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::extract::State as With;
use axum::http::HeaderMap;
use axum::routing::post;
use bytes::Bytes;
use gleaner::app::engine::Engine;
use gleaner::app::webhook::{Received, Reception, receive};
use gleaner::domain::job::State;
use gleaner::domain::webhook::{KeySet, Refusal, Request};
use gleaner::ports::webhook_keys::{KeysError, PublicKeys};
use gleaner::simulator::Config;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Asks, Called, claimed};
use crate::books::rows;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, KEY, MINUTE, Maker, World, eventually, key_id, text, tick_of};

type Got = Arc<Mutex<Vec<Request>>>;

async fn keep(With(got): With<Got>, headers: HeaderMap, body: Bytes) {
    let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    got.lock().unwrap().push(Request { headers, body });
}

/// Has the simulator send the event of an interaction of somebody else's, and gives it with the URL that it was sent to.
async fn event_of(world: &World) -> (Request, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = Got::default();
    let app = Router::new().route("/hook", post(keep)).with_state(Arc::clone(&got));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let body = json!({"model": "m", "input": "x", "background": true, "webhook_config": {"uris": [url]}});
    world.sim.send_as(Some(KEY), Method::POST, "/v1beta/interactions", Some(&body)).await.unwrap();
    eventually("the event comes", async || !got.lock().unwrap().is_empty()).await;
    let request = got.lock().unwrap().remove(0);
    (request, url)
}

/// Keys that were changed since they were fetched.
#[derive(Debug)]
struct Old(Arc<dyn PublicKeys>);

#[async_trait]
impl PublicKeys for Old {
    async fn known(&self) -> Result<Arc<KeySet>, KeysError> {
        Ok(Arc::default())
    }
    async fn newer_than(&self, _: &Arc<KeySet>) -> Result<Arc<KeySet>, KeysError> {
        self.0.known().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_by_a_key_that_is_new_is_taken() {
    for faults in [&[][..], &["event-jwt=1"]] {
        let called = Called::new(faults, Asks::Not).await;
        let (request, _) = event_of(&called.world).await;
        let keys = Arc::clone(&called.reception.public_keys);
        let old = Reception { public_keys: Arc::new(Old(keys)), ..called.reception.clone() };
        let answer = receive(&old, &request).await;
        assert_eq!(answer.status, 200, "{faults:?}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_somebody_else_is_refused_when_an_audience_is_set() {
    let called = Called::new(&["event-jwt=1"], Asks::Not).await;
    let (request, url) = event_of(&called.world).await;
    let of = |audience: &str| Reception { audience: Some(audience.to_owned()), ..called.reception.clone() };
    let answer = receive(&of("https://example.test/other"), &request).await;
    assert!(matches!(&answer.received, Received::Refused(Refusal::Unsigned(why)) if why.contains("somebody else")));
    assert_eq!(receive(&of(&url), &request).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_only_an_older_key_may_see_is_shown_to_that_key() {
    let called = Called::new(&["create-drop=1", "key-rejected=0.5"], Asks::Not).await;
    let world = &called.world;
    let (mut older, mut locked) = (None, None);
    for name in ["key-a", "key-b", "key-c", "key-d", "key-e", "key-f", "key-g", "key-h"] {
        let (status, _) = world.sim.send_as(Some(name), Method::GET, "/v1/interactions/x", None).await.unwrap();
        *(if status == 404 { &mut older } else { &mut locked }) = Some(name);
    }
    let (older, locked) = (older.unwrap(), locked.unwrap());
    world.land(text("One.")).await;
    let before = world.another(&Maker { keys: vec![older], ..world.maker.clone() }, Arc::clone(&world.clock));
    tick_of(&before).await.unwrap();
    let job = world.job().await;
    assert_eq!(job.state, State::Unclear);
    let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
    let both = world.another(&Maker { keys: vec![locked, older], ..world.maker.clone() }, Arc::clone(&world.clock));
    let both = Engine { left_work: Some(Arc::new(called.queue.clone())), ..both };
    called.receive(&called.signed("msg_a", &claimed(&handle, &job.key.0, &job.nonce))).await;
    tick_of(&both).await.unwrap();
    let job = world.job().await;
    assert_eq!((job.state, &job.handles[0].key), (State::Consumed, &key_id(older)));
}

/// Somebody else's interaction, which our key may see, and which carries another job's label.
async fn anothers(world: &World) -> String {
    let body = json!({"model": "m", "input": "other", "background": true, "labels": {"gleaner": "another-job"}});
    let sent = world.sim.send_as(Some(KEY), Method::POST, "/v1beta/interactions", Some(&body)).await.unwrap();
    serde_json::from_slice::<Value>(&sent.1).unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_hidden_and_turns_out_to_be_anothers_is_not_attached() {
    let config = Config { polls_until_done: 0, hidden: MINUTE, ..Config::default() };
    let called = Called::with(&["create-drop=1"], config, Asks::Not, Maker::default()).await;
    let world = &called.world;
    world.land(text("One.")).await;
    called.tick().await;
    let job = world.job().await;
    world.set_faults(&["get-404=1"]).await;
    let other = anothers(world).await;
    called.receive(&called.signed("msg_a", &claimed(&other, &job.key.0, &job.nonce))).await;
    called.tick().await;
    assert_eq!(world.job().await.heard.len(), 1, "it may be ours");
    world.advance(HOUR);
    called.tick().await;
    let job = world.job().await;
    assert!(job.heard.is_empty() && job.handles.iter().all(|handle| handle.id != other), "{job:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_is_no_denial_however_long_it_stays_away() {
    let config = Config { polls_until_done: 0, hidden: MINUTE, ..Config::default() };
    let called = Called::with(&["create-drop=1", "get-404=1"], config, Asks::Not, Maker::default()).await;
    let world = &called.world;
    world.land(text("One.")).await;
    called.tick().await;
    let job = world.job().await;
    let handle = world.log().await[0]["id"].as_str().unwrap().to_owned();
    called.receive(&called.signed("msg_a", &claimed(&handle, &job.key.0, &job.nonce))).await;
    called.tick().await;
    assert_eq!(world.job().await.heard.len(), 1);
    let cut_off = world.unreachable();
    for _ in 0..5 {
        world.advance(HOUR);
        tick_of(&cut_off).await.unwrap();
    }
    let job = world.job().await;
    assert_eq!((job.state, job.heard.len(), job.attempts), (State::Unclear, 1, 1), "nothing is sent again meanwhile");
    world.advance(HOUR);
    called.tick().await;
    assert_eq!((world.state().await, world.accepted().await), (State::Consumed, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_another_name_is_not_attached_whatever_the_event_says() {
    let config = Config { polls_until_done: 0, ..Config::default() };
    let called = Called::with(&["create-drop=1"], config, Asks::Not, in_parts_of(10)).await;
    let world = &called.world;
    land_run(world, rows(10)).await;
    eventually("its create is in doubt", async || {
        called.tick().await;
        world.jobs().await.first().is_some_and(|job| job.state == State::Unclear)
    })
    .await;
    world.set_faults(&[]).await;
    let rows = json!({"requests": [{"request": {"contents": [{"parts": [{"text": "x"}]}]}, "metadata": {"key": "a"}}]});
    let body = json!({"batch": {"display_name": "another's", "input_config": {"requests": rows}}});
    let path = "/v1beta/models/gemini-flash-latest:batchGenerateContent";
    let (status, made) = world.sim.send_as(Some(KEY), Method::POST, path, Some(&body)).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&made));
    let made: Value = serde_json::from_slice(&made).unwrap();
    let name = made["name"].as_str().unwrap();
    let job = world.job().await;
    for (id, nonce) in [("msg_a", job.nonce.as_str()), ("msg_b", "guessed")] {
        let mut event = claimed(name, &job.key.0, nonce);
        event["type"] = json!("batch.succeeded");
        assert_eq!(called.receive(&called.signed(id, &event)).await.status, 200);
        called.tick().await;
        let stored = world.job().await;
        assert_eq!((stored.state, stored.handles.len()), (State::Unclear, 0), "{id}: {stored:?}");
    }
    assert!(world.requests("batch-get").await >= 2, "it was asked for");
}
