//! Ticks that end before or after any call to the ledger while an attempt ends without an output.

use std::time::Duration;

use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::rows;
use crate::events::cut::{End, tick_broken_off};
use crate::world::{HOUR, World};

/// A batch job that failed as a whole leaves an attempt with no handle that lives: between that and its rows' going back
/// there must be no moment, or the run would wait for ever.
#[tokio::test]
async fn a_batch_that_failed_as_a_whole_is_never_waited_for_again() {
    for end in [End::Before, End::After] {
        for at in 1.. {
            let config = Config { polls_until_done: 0, latency: Duration::ZERO, ..Config::default() };
            let world = World::with(&["batch-failed=1"], config, in_parts_of(5)).await;
            let run = land_run(&world, &rows(3)).await;
            while world.jobs().await.iter().all(|job| job.state != State::Submitted) {
                world.tick().await;
                world.skip().await;
            }
            world.advance(HOUR);
            let was_cut = tick_broken_off(&world.second(), at, end).await;
            world.set_faults(&[]).await;
            let progress = world.until_over(&run).await;
            assert_eq!(progress.tally.consumed, 3, "{end:?} call {at}");
            if !was_cut {
                assert!(at > 5, "only {at} calls");
                break;
            }
        }
    }
}
