//! What was once found to be wrong, each with the course of events that showed it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner::adapters::system::SystemClock;
use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::engine::Engine;
use gleaner::app::submit::submit_intake;
use gleaner::domain::item::Item;
use gleaner::domain::job::{Fate, State};
use gleaner::domain::moves::{Now, fresh_handle};
use gleaner::domain::part::Output;
use gleaner::domain::policy::Policy;
use gleaner::domain::step::{Action, step};
use gleaner::ports::clock::Clock;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::{audit, row, rows};
use crate::world::{HOUR, MINUTE, World, tick_of};

fn with_deadline(text: &str, deadline: &str) -> String {
    format!("{{\"gleaner\": {{\"deadline\": \"{deadline}\"}}}}\n{text}")
}

async fn slow(hours: u32) -> World {
    World::with(&[], Config { latency: HOUR * hours, ..Config::default() }, in_parts_of(20)).await
}

#[tokio::test]
async fn a_run_that_is_cancelled_after_a_give_up_counts_no_row_twice() {
    let world = slow(12).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    world.pass(Duration::from_secs(70 * 60), MINUTE).await;
    let progress = world.progress(&run).await;
    assert_eq!(progress.run.as_ref().unwrap().attempts(), 2);
    let outcomes = cancel_run(&world.engine, progress.intake, "no").await.unwrap();
    assert_eq!(
        (outcomes.len(), world.requests("batch-cancel").await),
        (2, 2),
        "the earlier attempt runs still: {outcomes:?}"
    );
    world.until_over(&run).await;
    world.pass(60 * HOUR, HOUR).await;
    let progress = world.progress(&run).await;
    assert_eq!((progress.wrong_sums(), progress.tally.discarded), (None, 20));
}

#[tokio::test]
async fn an_attempt_that_is_parked_in_the_middle_of_its_pass_ends_the_run() {
    let world = World::with(&["download-cut-silent=1"], Config::default(), in_parts_of(20)).await;
    let run = land_run(&world, rows(20)).await;
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.parked, progress.run.unwrap().attempts_parked()), (20, 1));
    assert_eq!(world.accepted().await, 1, "an output that comes short is no reason to pay again");
}

#[tokio::test]
async fn rows_that_a_late_result_has_settled_do_not_go_out_again() {
    let world = slow(30).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "20h")).await;
    world.pass(66 * HOUR, HOUR).await;
    let progress = world.until_over(&run).await;
    let part = &progress.run.as_ref().unwrap().parts[0];
    assert!(part.attempts.len() < 4, "{part:?}");
    assert_eq!(progress.tally.possible_duplicates + 1, world.accepted().await as u64);
    audit(&world.engine, &progress, &text).await;
}

#[tokio::test]
async fn a_late_result_before_a_halving_settles_no_row_twice() {
    let world = slow(30).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "20h")).await;
    world.pass(19 * HOUR, HOUR).await;
    world.set_faults(&["create-429=1"]).await;
    world.pass(40 * HOUR, Duration::from_secs(600)).await;
    world.set_faults(&[]).await;
    world.pass(80 * HOUR, HOUR).await;
    let progress = world.until_over(&run).await;
    audit(&world.engine, &progress, &text).await;
}

#[tokio::test]
async fn refusals_beside_an_attempt_that_expired_do_not_go_on_for_ever() {
    let config = Config { batch_expiry: Some(2 * HOUR), ..Config::default() };
    let world = World::with(&["batch-stuck=1"], config, in_parts_of(20)).await;
    let run = land_run(&world, rows(20)).await;
    world.pass(HOUR, MINUTE).await;
    world.set_faults(&["create-429=1"]).await;
    world.pass(9 * 24 * HOUR, Duration::from_secs(1200)).await;
    let part = world.progress(&run).await.run.unwrap().parts.remove(0);
    assert!(part.halved && part.attempts.len() < 10, "{part:?}");
}

#[tokio::test]
async fn a_run_is_not_over_before_its_results_are_handed_on() {
    let world = World::with(&[], Config::default(), in_parts_of(20)).await;
    world.hands.failures.store(2, Ordering::SeqCst);
    let run = land_run(&world, rows(40)).await;
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.consumed, world.hands.count()), (40, 4));
    assert!(world.jobs().await.iter().all(|job| job.state == State::Consumed));
    // One that is never taken is a dead letter.
    world.hands.failures.store(u64::MAX, Ordering::SeqCst);
    let run = land_run(&world, rows(10)).await;
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.consumed, progress.run.unwrap().attempts_parked()), (10, 1));
}

async fn an_attempt_at_gemini(world: &World) -> gleaner::domain::job::Job {
    land_run(world, rows(20)).await;
    for _ in 0..4 {
        world.tick().await;
    }
    world.job().await
}

#[tokio::test]
async fn who_gives_an_attempt_up_leaves_one_that_has_ended_meanwhile() {
    let world = slow(12).await;
    let mut job = an_attempt_at_gemini(&world).await;
    let policy = Policy::default();
    let now = Now { at: world.now(), fraction: 0.0, policy: &policy };
    let id = job.handles[0].id.clone();
    assert!(job.output_is_there(&id, Output { file: "files/x".into(), announced: 0, ended: None }, now));
    assert!(!job.rows_went_back("deadline", "still running", now));
    assert_eq!((job.state, job.handles[0].fate), (State::Done, Fate::Won));
}

#[tokio::test]
async fn a_given_up_handle_does_not_keep_a_live_one_from_being_looked_at() {
    let world = slow(12).await;
    let mut job = an_attempt_at_gemini(&world).await;
    let policy = Policy::default();
    let at = |hours: u32| Now { at: world.now().plus(HOUR * hours), fraction: 0.0, policy: &policy };
    let other = fresh_handle("batches/other".into(), 1, job.handles[0].key.clone(), 72 * HOUR, world.now());
    let (first, nonce) = (job.handles[0].id.clone(), job.nonce.clone());
    assert!(job.attach(other, &nonce, at(0)));
    job.give_up(&first, "expired", "expired", at(1));
    job.is_under_way("batches/other", at(26));
    let Action::Look(handles) = step(&Item::Job(job.clone()), at(28).at) else { panic!("{job:?}") };
    assert_eq!(handles.len(), 2);
    job.is_not_there(&first, at(28));
    assert_eq!(job.handles[0].looks, 1);
    let Action::Look(handles) = step(&Item::Job(job.clone()), at(30).at) else { panic!("{job:?}") };
    assert_eq!(handles, ["batches/other"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cutting_goes_on_however_short_its_time() {
    let world = World::with(&[], Config::default(), in_parts_of(100)).await;
    let text: String = (0..1000).map(|n| row(&format!("row-{n}"), "said")).collect();
    let run = land_run(&world, &text).await;
    let engine = Engine { clock: Arc::new(SystemClock), ..world.second() };
    for parts in 1..=10 {
        submit_intake(&engine, &run, SystemClock.now()).await.unwrap();
        assert_eq!(world.progress(&run).await.intake.cursor.jobs, parts * 100);
    }
    drop(tick_of(&world.engine).await);
}

#[tokio::test]
async fn creates_that_stay_unclear_cost_their_rows_attempts() {
    let world = World::with(&["create-503-refused=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(5);
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!(books.dead.len(), 5);
    assert!(world.requests("batch-create").await <= 4, "{}", world.requests("batch-create").await);
}

#[tokio::test]
async fn an_output_that_came_down_short_costs_no_row_an_attempt() {
    for fault in ["download-cut-silent=0.5", "download-cut=0.5", "download-cut-chunked=0.5", "download-503-middle=0.5"]
    {
        let world = World::with(&[fault], Config { seed: 3, ..Config::default() }, in_parts_of(20)).await;
        let text = rows(120);
        let run = land_run(&world, &text).await;
        let progress = world.until_over(&run).await;
        let books = audit(&world.engine, &progress, &text).await;
        assert_eq!((books.values.len(), world.accepted().await), (120, 6), "{fault}");
        assert!(world.requests("download").await > 6, "{fault} was never met");
    }
}

#[tokio::test]
async fn what_is_missing_from_an_output_twice_is_believed() {
    let world = World::with(&["output-missing=1"], Config::default(), in_parts_of(50)).await;
    let text = rows(50);
    let run = land_run(&world, &text).await;
    for _ in 0..6 {
        world.tick().await;
        world.skip().await;
    }
    world.set_faults(&[]).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!(books.values.len(), 50);
    assert!(books.values.values().any(|(_, attempt)| *attempt > 1), "nothing was missing");
    let first = &progress.run.as_ref().unwrap().parts[0].passes[0];
    assert!(first.counts.missing > 0 && first.counts.missing < 50, "{first:?}");
}

#[tokio::test]
async fn an_unclear_create_is_found_on_any_page_of_the_list() {
    let world = World::with(&["create-drop=1"], Config::default(), in_parts_of(1)).await;
    // 130 batch jobs, all of them unclear: the list has two pages of 100.
    let mut engine = world.second();
    engine.settings.parts.at_once = 1000;
    let text = rows(130);
    let run = land_run(&world, &text).await;
    for _ in 0..40 {
        drop(tick_of(&engine).await);
        world.advance(MINUTE);
        if world.accepted().await >= 130 {
            break;
        }
    }
    world.set_faults(&[]).await;
    let progress = world.until_over_by(&[&engine], &run).await;
    audit(&world.engine, &progress, &text).await;
    assert_eq!((world.accepted().await, progress.tally.possible_duplicates), (130, 0));
}
