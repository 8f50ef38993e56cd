//! Callers that are killed before and after each single thing they do: nothing is lost, no call is made a second time that was
//! answered durably, and every one that may have been paid twice is told.

use std::time::Duration;

use gleaner::domain::job::State;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;

use super::plain::many;
use crate::intakes::killed_tick;
use crate::world::{LEASE, Maker, World, tick_of};

const CALL_LEASE: Duration = Duration::from_secs(12 * 60 + 1);

#[tokio::test]
async fn killed_at_each_single_moment_of_three_calls() {
    for polls in 1..=120 {
        let world = World::new(&[]).await;
        let intake = world.land(many(3)).await;
        let ended = killed_tick(&world.second(), polls).await;
        world.check().await;
        // What was answered durably is not asked again.
        let durable = world.objects("results");
        world.advance(CALL_LEASE);
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.jobs, tally.consumed), (3, 3), "killed at {polls}");
        for job in world.jobs().await {
            let was_durable = durable.contains(&format!("{}.json", job.key));
            assert!(job.attempts == 1 || !was_durable, "killed at {polls}: {job:?}");
        }
        assert!(world.accepted().await as u64 <= 3 + tally.possible_duplicates, "killed at {polls}: {tally:?}");
        assert!(world.requests("generate").await <= 3 + tally.possible_duplicates, "killed at {polls}: {tally:?}");
        if ended {
            assert!(polls > 10, "a tick of three calls has more than {polls} moments");
            return;
        }
    }
    panic!("a tick of three calls has more than 120 moments");
}

async fn killed_many_times(seed: u64, faults: &[&str], longest: u32) -> u32 {
    let mut maker = Maker::default();
    maker.settings.concurrency = 4;
    // A job whose caller is killed each time would reach the cap, as it should.
    maker.settings.max_attempts = 100;
    let world = World::with(faults, Config { seed, late: Duration::ZERO, ..Config::default() }, maker).await;
    let intake = world.land(many(40)).await;
    let dice = TestIds::new(seed * 7919);
    let mut kills = 0;
    while kills < 40 && !world.progress(&intake).await.is_over() {
        let (engine, other) = (world.second(), world.second());
        let polls = 1 + (dice.fraction() * f64::from(longest)) as u32;
        let (ended, ticked) = tokio::join!(killed_tick(&engine, polls), async {
            if dice.fraction() < 0.3 { tick_of(&other).await.map(drop) } else { Ok(()) }
        });
        ticked.unwrap();
        kills += u32::from(!ended);
        world.check().await;
        world.advance(if dice.fraction() < 0.5 { LEASE } else { CALL_LEASE });
    }
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.open, tally.consumed + tally.parked), (40, 0, 40), "seed {seed}");
    for job in world.jobs().await.into_iter().filter(|job| job.state == State::Parked) {
        let class = job.class.clone().unwrap();
        assert!(class == "internal:consume" || class == "blocked:SAFETY", "seed {seed}: {job:?}");
    }
    let results = world.hands.taken.lock().unwrap();
    for (key, bytes) in results.iter() {
        assert!(results.iter().all(|(other, again)| other != key || again == bytes), "seed {seed}: {key}");
    }
    kills
}

#[tokio::test]
async fn killed_at_any_moment() {
    let mut kills = 0;
    for seed in 1..=6 {
        kills += killed_many_times(seed, &[], 60).await;
    }
    assert!(kills >= 10, "only {kills} ticks were killed");
}

#[tokio::test]
async fn killed_at_any_moment_in_bad_weather() {
    let mut kills = 0;
    for seed in 7..=12 {
        kills += killed_many_times(seed, &["passing=0.3", "row-safety=0.05"], 90).await;
    }
    assert!(kills >= 10, "only {kills} ticks were killed");
}
