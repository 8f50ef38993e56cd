//! A replay that is killed at any of its moments: before and after each call of the ledger and the objects.

use std::collections::BTreeMap;

use gleaner::app::batch::replay::{How, replay_rows};
use gleaner::app::engine::Engine;
use gleaner::domain::job::State;
use gleaner::domain::part::File;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;

use super::{as_they_were, books_of, letters, merged, replays, rows_in};
use crate::books::{lines_of, rows};
use crate::intakes::{killed, killed_tick};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{GRACE, HOUR, LEASE, World};

/// A replay of all that is dead, which is killed at its `polls`th moment. True: it ended before.
async fn killed_replay(engine: &Engine, how: &How, polls: u32) -> bool {
    let letters = letters(engine).await;
    killed(replay_rows(engine, letters, how), polls).await
}

/// No row is open in two parts.
async fn each_in_one_part(world: &World, run: &str) {
    let progress = world.progress(run).await;
    assert_eq!(progress.wrong_sums(), None);
    let keys = async |object: &str| -> Vec<String> {
        let lines = lines_of(&world.engine, object).await.into_iter();
        lines.map(|line| line["key"].as_str().unwrap().to_owned()).collect()
    };
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for whole in replays(&progress).into_iter().filter(|part| part.part == part.part.whole()) {
        let within = || progress.run.as_ref().unwrap().parts.iter().filter(|part| part.part.is_within(&whole.part));
        if within().all(|part| part.state.is_closed()) {
            continue;
        }
        let mut open = keys(&whole.rows_at).await;
        for part in within() {
            for passed in &part.passes {
                for file in [File::Results, File::Dead] {
                    let settled = keys(&passed.object(&part.run, &part.part, file)).await;
                    open.retain(|key| !settled.contains(key));
                }
            }
        }
        for key in open {
            let before = seen.insert(key.clone(), whole.part.0.clone());
            assert_eq!(before, None, "{key} is in two parts");
        }
    }
}

#[tokio::test]
async fn killed_at_each_of_its_moments() {
    for polls in 1..400 {
        let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(2)).await;
        let text = rows(3);
        let run = land_run(&world, &text).await;
        world.until_over(&run).await;
        world.set_faults(&[]).await;
        let ended = killed_replay(&world.second(), &as_they_were(), polls).await;
        world.check().await;
        each_in_one_part(&world, &run).await;
        merged(&world, &world.progress(&run).await).await;
        // Somebody else tries while the first one's lease lasts, and once it is over.
        replay_rows(&world.engine, letters(&world.engine).await, &as_they_were()).await.unwrap();
        each_in_one_part(&world, &run).await;
        world.advance(LEASE);
        world.tick().await;
        let (_, _) = books_of(&world, &run, &text).await;
        each_in_one_part(&world, &run).await;
        replay_rows(&world.engine, letters(&world.engine).await, &as_they_were()).await.unwrap();
        let (progress, books) = books_of(&world, &run, &text).await;
        assert_eq!((books.values.len(), books.dead.len()), (3, 0), "killed at {polls}");
        assert_eq!(progress.tally.recovered, 3, "killed at {polls}");
        assert_eq!(rows_in(&world.engine, State::Recovered).await.len(), 3, "killed at {polls}");
        merged(&world, &progress).await;
        if ended {
            assert!(polls > 10, "it has only {polls} moments");
            return;
        }
    }
    panic!("a replay of three rows has more than 400 moments");
}

async fn killed_many_times(seed: u64, faults: &[&str]) {
    let config = Config { seed, ..Config::default() };
    let world = World::with(faults, config, in_parts_of(15)).await;
    let text = rows(40);
    let run = land_run(&world, format!("{{\"gleaner\": {{\"max_attempts\": 2}}}}\n{text}")).await;
    world.until_over(&run).await;
    let dice = TestIds::new(seed * 7919);
    let roll = |end: f64| (dice.fraction() * end) as u32;
    for _ in 0..40 {
        let engine = world.second();
        if roll(3.0) == 0 {
            killed_replay(&engine, &as_they_were(), 1 + roll(60.0)).await;
        } else {
            killed_tick(&engine, 1 + roll(60.0)).await;
        }
        drop(engine);
        world.check().await;
        each_in_one_part(&world, &run).await;
        world.advance([LEASE, GRACE, HOUR][roll(3.0) as usize]);
    }
    // An outcome whose taker was killed five times is a dead letter, which the next `run` takes up again.
    let mut progress = world.until_over(&run).await;
    while progress.run.as_ref().unwrap().parts.iter().any(|part| part.state == State::Parked) {
        assert!(gleaner::app::consume::hand_on_again(&world.engine, &run).await.unwrap() > 0);
        world.tick().await;
        progress = world.until_over(&run).await;
    }
    world.pass(HOUR * 60, HOUR * 2).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len() + books.dead.len(), 40, "seed {seed}");
    merged(&world, &progress).await;
    world.set_faults(&[]).await;
    let told = replay_rows(&world.engine, letters(&world.engine).await, &as_they_were()).await.unwrap();
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.parked), (40, 0), "seed {seed}: {told:?}");
}

#[tokio::test]
async fn replays_and_ticks_killed_at_any_moment() {
    for seed in 1..=6 {
        killed_many_times(seed, &["row-safety=0.3", "row-error-13=0.5"]).await;
    }
}

#[tokio::test]
async fn replays_and_ticks_killed_in_bad_weather() {
    for seed in 7..=10 {
        killed_many_times(seed, &["row-safety=0.2", "passing=0.15"]).await;
    }
}
