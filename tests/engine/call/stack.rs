//! Calls where a tick has no time for them: it hands them over to a worker, which begins none that it could not end.

use std::sync::Arc;
use std::time::Duration;

use gleaner::adapters::local::DataFolder;
use gleaner::app::engine::Engine;
use gleaner::app::work::{Work, work};
use gleaner::domain::job::State;
use gleaner::ports::queue::Queue;
use gleaner::simulator::Config;

use super::plain::calls;
use super::script::{Answer, Script};
use crate::world::{HOUR, MINUTE, Maker, START, World, eventually, tick_of};

/// A tick that has a work queue, and that queue.
fn ticking(world: &World) -> (Engine, Arc<dyn Queue>) {
    let data = DataFolder::open(world.data(), START).unwrap();
    let queue: Arc<dyn Queue> = Arc::new(data.work_queue(world.clock.clone()).unwrap());
    (Engine { work_queue: Some(queue.clone()), ..world.second() }, queue)
}

/// A worker whose invocation ends after so long.
fn worker(world: &World, time: Duration) -> Engine {
    Engine { ends: Some(world.now().plus(time)), ..world.second() }
}

/// What is in the queue; it is taken out.
async fn queued(queue: &dyn Queue) -> Vec<Work> {
    let messages = queue.receive(100, MINUTE).await.unwrap();
    for deleted in queue.delete(&messages).await {
        deleted.unwrap();
    }
    messages.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect()
}

async fn do_all(engine: &Engine, todo: &[Work]) -> u64 {
    let mut consumed = 0;
    for one in todo {
        consumed += work(engine, None, one, engine.clock.now().plus(HOUR)).await.unwrap();
    }
    consumed
}

#[tokio::test]
async fn a_tick_hands_a_file_of_calls_over_and_makes_none_itself() {
    let world = World::new(&[]).await;
    let intake = world.land(calls(["a".to_owned(), "b".to_owned()])).await;
    let (tick, queue) = ticking(&world);
    tick_of(&tick).await.unwrap();
    assert_eq!(world.requests("generate").await, 0);
    let todo = queued(&*queue).await;
    assert_eq!(todo.len(), 1);
    // Put off: nothing is handed over twice at once.
    tick_of(&tick).await.unwrap();
    assert!(queued(&*queue).await.is_empty());
    assert_eq!(do_all(&worker(&world, MINUTE * 15), &todo).await, 2);
    assert_eq!(world.until_over(&intake).await.tally.consumed, 2);
}

#[tokio::test]
async fn a_worker_without_the_time_for_a_call_leaves_it_due() {
    let world = World::new(&[]).await;
    let intake = world.land(calls(["a".to_owned()])).await;
    let (tick, queue) = ticking(&world);
    tick_of(&tick).await.unwrap();
    let todo = queued(&*queue).await;
    // A call may take ten minutes, and what follows it twenty seconds.
    assert_eq!(do_all(&worker(&world, Duration::from_secs(620)), &todo).await, 0);
    assert_eq!((world.jobs().await.len(), world.requests("generate").await), (0, 0));
    assert_eq!(world.progress(&intake).await.intake.due_at, Some(world.now()));
    tick_of(&tick).await.unwrap();
    let again = queued(&*queue).await;
    assert_eq!(again, todo);
    assert_eq!(do_all(&worker(&world, Duration::from_secs(621)), &again).await, 1);
}

#[tokio::test]
async fn a_due_call_is_handed_over_and_an_old_message_of_it_makes_nothing_early() {
    let world = World::with(&["call-503=1"], Config::default(), Maker::default()).await;
    let intake = world.land(calls(["a".to_owned()])).await;
    let (tick, queue) = ticking(&world);
    tick_of(&tick).await.unwrap();
    do_all(&worker(&world, MINUTE * 15), &queued(&*queue).await).await;
    let job = world.job().await;
    assert_eq!((job.state, job.attempts), (State::Retryable, 1));
    world.clock.set(job.due_at.unwrap());
    tick_of(&tick).await.unwrap();
    let todo = queued(&*queue).await;
    assert!(matches!(&todo[..], [Work::Call { job: named, .. }] if *named == job.key), "{todo:?}");
    assert_eq!(world.requests("generate").await, 1);
    // Too little time to wait for the next try: it is left to the ledger.
    do_all(&worker(&world, Duration::from_secs(622)), &todo).await;
    let failed = world.job().await;
    assert_eq!((failed.state, failed.attempts, world.requests("generate").await), (State::Retryable, 2, 2));
    // The same message once more, before the back-off is over.
    do_all(&worker(&world, MINUTE * 15), &todo).await;
    assert_eq!((world.job().await, world.requests("generate").await), (failed, 2));
    world.set_faults(&[]).await;
    assert_eq!(world.until_over(&intake).await.tally.consumed, 1);
}

#[tokio::test]
async fn a_worker_waits_for_the_next_try_where_it_has_the_time() {
    let world = World::with(&["call-429=1"], Config::default(), Maker::default()).await;
    world.land(calls(["a".to_owned()])).await;
    world.tick().await;
    let job = world.job().await;
    world.clock.set(job.due_at.unwrap());
    let (tick, queue) = ticking(&world);
    tick_of(&tick).await.unwrap();
    let todo = queued(&*queue).await;
    let engine = worker(&world, HOUR);
    let working = tokio::spawn(async move { do_all(&engine, &todo).await });
    eventually("the second try is made", async || world.requests("generate").await == 2).await;
    eventually("it waits", async || world.job().await.state == State::Retryable).await;
    world.set_faults(&[]).await;
    let due = world.job().await.due_at.unwrap();
    while !working.is_finished() {
        world.advance(Duration::from_secs(1));
        crate::world::a_moment().await;
    }
    assert_eq!((working.await.unwrap(), world.requests("generate").await), (1, 3));
    let asked = world.calls().await;
    assert!(asked[2]["at"].as_i64().unwrap() >= due.0, "before its time");
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_ledger() {
    let delay = serde_json::json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "61s"}]);
    let refusal = serde_json::json!({"error": {"code": 429, "message": "x", "details": delay}}).to_string();
    let script = Script::always(Answer::Http(429, vec![], refusal)).await;
    let world = World::new(&[]).await;
    world.land(calls(["a".to_owned()])).await;
    let (tick, queue) = ticking(&world);
    tick_of(&tick).await.unwrap();
    let todo = queued(&*queue).await;
    let slow = Engine { ends: Some(world.now().plus(HOUR)), ..world.with_gemini_at(&script.url) };
    do_all(&slow, &todo).await;
    world.clock.set(world.job().await.due_at.unwrap());
    tick_of(&tick).await.unwrap();
    do_all(&slow, &queued(&*queue).await).await;
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, script.posts()), (State::Retryable, 2, 2));
    assert_eq!(job.due_at, Some(world.now().plus(Duration::from_secs(61))));
}
