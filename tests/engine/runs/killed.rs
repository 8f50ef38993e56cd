//! Runs whose processes are killed at any moment, and runs that two processes work on at once.

use gleaner::app::consume::hand_on_again;
use gleaner::domain::job::State;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::{audit, rows};
use crate::intakes::killed_tick;
use crate::world::{GRACE, HOUR, LEASE, World};

async fn killed_many_times(seed: u64, faults: &[&str], longest: u32) -> u32 {
    let config = Config { seed, ..Config::default() };
    let world = World::with(faults, config, in_parts_of(25)).await;
    let text = rows(100);
    // A sender that is killed each time would reach the cap, as it should.
    let run = land_run(&world, format!("{{\"gleaner\": {{\"max_attempts\": 100}}}}\n{text}")).await;
    let dice = TestIds::new(seed * 7919);
    let mut kills = 0;
    while kills < 60 && !world.progress(&run).await.is_over() {
        let engine = world.second();
        let polls = 1 + (dice.fraction() * f64::from(longest)) as u32;
        kills += u32::from(!killed_tick(&engine, polls).await);
        drop(engine);
        world.check().await;
        let wait = [LEASE, GRACE, HOUR][(dice.fraction() * 3.0) as usize];
        world.advance(wait);
    }
    let mut progress = world.until_over(&run).await;
    // An outcome whose taker was killed five times is a dead letter, which the next `run` takes up again.
    while progress.run.as_ref().unwrap().parts.iter().any(|part| part.state == State::Parked) {
        assert!(hand_on_again(&world.engine, &run).await.unwrap() > 0);
        world.tick().await;
        progress = world.until_over(&run).await;
    }
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!(books.values.len() + books.dead.len(), 100, "seed {seed}");
    kills
}

#[tokio::test]
async fn killed_at_any_moment() {
    let mut kills = 0;
    for seed in 1..=10 {
        kills += killed_many_times(seed, &[], 40).await;
    }
    assert!(kills > 50, "{kills}");
}

#[tokio::test]
async fn killed_at_any_moment_in_bad_weather() {
    let mut kills = 0;
    for seed in 1..=10 {
        kills += killed_many_times(seed, &["passing=0.1", "row-safety=0.05"], 60).await;
    }
    assert!(kills > 50, "{kills}");
}

#[tokio::test]
async fn two_processes_at_once() {
    for seed in 1..=4 {
        let config = Config { seed, ..Config::default() };
        let world =
            World::with(&["passing=0.15", "row-safety=0.05", "row-refused=0.02"], config, in_parts_of(40)).await;
        let text = rows(200);
        let run = land_run(&world, &text).await;
        let other = world.second();
        let progress = world.until_over_by(&[&world.engine, &other], &run).await;
        audit(&world.engine, &progress, &text).await;
    }
}
