//! Creates that are unclear, refused or too much.

use std::time::Duration;

use gleaner::app::engine::Trouble;
use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::{audit, rows};
use crate::world::{MINUTE, Maker, World, tick_of};

async fn one_part(faults: &[&str]) -> (World, String, String) {
    let world = World::with(faults, Config::default(), in_parts_of(100)).await;
    let text = rows(10);
    let run = land_run(&world, &text).await;
    // Cut, then planned, then uploaded and sent.
    for _ in 0..3 {
        world.tick().await;
    }
    (world, run, text)
}

#[tokio::test]
async fn an_unclear_create_is_found_by_its_name_and_not_sent_again() {
    let (world, run, text) = one_part(&["create-drop=1"]).await;
    assert_eq!(world.state().await, State::Unclear);
    world.set_faults(&[]).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), world.accepted().await, progress.tally.possible_duplicates), (10, 1, 0));
}

#[tokio::test]
async fn two_listings_without_it_prove_that_it_was_not_created() {
    let (world, run, text) = one_part(&["create-503-refused=1"]).await;
    assert_eq!(world.state().await, State::Unclear);
    world.pass(MINUTE, Duration::from_secs(11)).await;
    assert_eq!(world.state().await, State::Unclear, "one listing proves nothing");
    world.set_faults(&[]).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), world.accepted().await, progress.tally.possible_duplicates), (10, 1, 1));
}

#[tokio::test]
async fn a_listing_that_breaks_off_proves_nothing() {
    let (world, run, text) = one_part(&["create-drop=1", "list-503=1"]).await;
    world.pass(MINUTE * 30, MINUTE).await;
    assert_eq!((world.state().await, world.accepted().await), (State::Unclear, 1));
    world.set_faults(&[]).await;
    let progress = world.until_over(&run).await;
    audit(&world.engine, &progress, &text).await;
    assert_eq!((world.accepted().await, progress.tally.possible_duplicates), (1, 0));
}

#[tokio::test]
async fn a_part_that_is_too_much_goes_out_in_halves() {
    let mut config = Config::default();
    let text = rows(40);
    config.enqueued_tokens = Some(text.len() as u64 / 4 / 3);
    let world = World::with(&[], config, in_parts_of(100)).await;
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), books.dead.len()), (40, 0));
    let parts = progress.run.unwrap().parts;
    assert!(parts[0].halved && parts.len() >= 3, "{parts:?}");
    assert!(books.values.values().all(|(_, attempt)| *attempt == 1), "being refused costs no row an attempt");
}

#[tokio::test]
async fn a_single_row_that_can_not_go_is_dead() {
    let config = Config { enqueued_tokens: Some(1), ..Config::default() };
    let world = World::with(&[], config, in_parts_of(100)).await;
    let text = rows(3);
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), books.dead.len(), world.accepted().await), (0, 3, 0));
    assert!(books.dead.values().all(|(class, _)| class.starts_with("exhausted:")), "{:?}", books.dead);
}

#[tokio::test]
async fn a_model_that_is_not_there_is_a_persons_matter_and_costs_no_row_an_attempt() {
    let mut maker = in_parts_of(5);
    maker.settings.model = "no-such-model".to_owned();
    let world = World::with(&[], Config::default(), maker).await;
    let text = rows(10);
    let run = land_run(&world, &text).await;
    let mut told = None;
    for _ in 0..6 {
        if let Err(Trouble::NeedsPerson(message)) = tick_of(&world.engine).await {
            told = Some(message);
        }
        world.skip().await;
    }
    assert!(told.unwrap().contains("model"));
    let progress = world.progress(&run).await;
    assert_eq!((progress.tally.open, progress.tally.parked, world.accepted().await), (10, 0, 0));
    assert!(progress.run.unwrap().parts.iter().all(|part| part.attempts.len() <= 1));
}

#[tokio::test]
async fn no_more_batch_jobs_are_out_than_allowed() {
    let mut maker: Maker = in_parts_of(5);
    maker.settings.parts.at_once = 2;
    let config = Config { polls_until_done: 4, ..Config::default() };
    let world = World::with(&[], config, maker).await;
    let text = rows(35);
    let run = land_run(&world, &text).await;
    let mut most = 0;
    while !world.progress(&run).await.is_over() {
        world.tick().await;
        let out = gleaner::app::report::every(&world.engine, State::Submitted, 100).await.unwrap();
        most = most.max(out.len());
        world.skip().await;
    }
    assert_eq!(most, 2);
    audit(&world.engine, &world.progress(&run).await, &text).await;
}
