//! Two processes and every passing fault at once.

use std::time::Duration;

use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::world::{MINUTE, Maker, World, lines};

#[tokio::test]
async fn two_engines_and_every_passing_fault() {
    for seed in 1..=3 {
        let config = Config { seed, late: Duration::ZERO, hidden: MINUTE, ..Config::default() };
        let world = World::with(&["passing=0.2"], config, Maker::default()).await;
        let intake = world.land(lines(200)).await;
        let second = world.second();
        let tally = world.until_over_by(&[&world.engine, &second], &intake).await.tally;
        assert_eq!((tally.jobs, tally.consumed + tally.parked), (200, 200), "{tally:?}");
        assert!(tally.parked <= 10, "{tally:?}");
        world.hands.assert_each(1);
        assert_eq!(world.hands.count() as u64, tally.consumed);
        for job in world.jobs().await.iter().filter(|job| job.state == State::Parked) {
            assert!(job.class.as_deref().is_some_and(|class| class.starts_with("exhausted:")), "{job:?}");
            assert_eq!(job.attempts, 4, "{job:?}");
        }
    }
}
