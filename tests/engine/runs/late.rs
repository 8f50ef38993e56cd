//! Attempts that were given up, and what they bring late.

use std::time::Duration;

use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::{audit, rows};
use crate::world::{HOUR, World};

fn with_deadline(text: &str, deadline: &str) -> String {
    format!("{{\"gleaner\": {{\"deadline\": \"{deadline}\"}}}}\n{text}")
}

#[tokio::test]
async fn late_results_recover_dead_rows_and_settle_each_once() {
    let config = Config { latency: 12 * HOUR, ..Config::default() };
    let world = World::with(&["row-safety=0.2"], config, in_parts_of(20)).await;
    let text = rows(60);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), books.dead.len(), progress.tally.parked), (0, 60, 60));
    assert_eq!(progress.tally.possible_duplicates, 9, "three parts went out three times more");
    assert!(books.dead.values().all(|(class, attempts)| class == "exhausted:deadline" && *attempts == 4));
    // The later looks, after 24 and 48 hours, find what came of them.
    world.pass(60 * HOUR, HOUR).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert!((40..60).contains(&books.values.len()), "{}", books.values.len());
    assert_eq!(progress.tally.recovered, books.values.len() as u64);
    assert_eq!(books.values.len() + books.dead.len(), 60);
    let recovered = gleaner::app::report::every(&world.engine, State::Recovered, 1000).await.unwrap();
    assert_eq!(recovered.len(), books.values.len());
    world.check().await;
}

#[tokio::test]
async fn a_late_result_comes_before_its_successors() {
    // The first attempt is given up after an hour and ends after two: its successor is out by then.
    let config = Config { latency: Duration::from_secs(90 * 60), ..Config::default() };
    let world = World::with(&["row-safety=0.1", "row-error-13=0.2"], config, in_parts_of(20)).await;
    let text = rows(40);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    let progress = world.until_over(&run).await;
    audit(&world.engine, &progress, &text).await;
    world.pass(60 * HOUR, HOUR).await;
    let progress = world.until_over(&run).await;
    audit(&world.engine, &progress, &text).await;
}

#[tokio::test]
async fn what_expires_goes_out_again() {
    let config = Config { batch_expiry: Some(2 * HOUR), ..Config::default() };
    let world = World::with(&["batch-stuck=1"], config, in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    world.pass(HOUR, Duration::from_secs(60)).await;
    world.set_faults(&[]).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), world.accepted().await), (20, 2));
    // It expired without a result, as far as anybody can see; that the rows went out twice is told.
    assert_eq!(progress.tally.possible_duplicates, 1);
    assert!(books.values.values().all(|(_, attempt)| *attempt == 2));
}
