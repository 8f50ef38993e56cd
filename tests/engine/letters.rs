//! Dead letters and the messages that stand for them.

mod bodies;
mod crashes;
mod forgetful;
mod sweeps;
mod time;

use gleaner::simulator::Config;

use crate::books::rows;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{World, lines};

/// A line that no job can be made of.
pub const BAD: &str = "{\"input\": \n";

/// A world in which jobs, lines and rows have died, each kind in a file of its own.
async fn with_dead_letters(jobs: usize) -> World {
    let world = World::with(&["blocked=1", "row-safety=0.5"], Config::default(), in_parts_of(20)).await;
    let intake = world.try_land("jobs.jsonl", lines(jobs) + BAD).await.unwrap().intake.sha256;
    world.until_over(&intake).await;
    if jobs > 1 {
        let run = land_run(&world, &rows(20)).await;
        world.until_over(&run).await;
    }
    world
}
