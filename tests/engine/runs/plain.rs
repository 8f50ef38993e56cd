//! Runs in good weather.

use std::time::Duration;

use gleaner::app::land::land;
use gleaner::app::settings::{Parts, Settings};
use gleaner::domain::job::Mode;
use gleaner::simulator::Config;

use crate::books::{audit, rows};
use crate::world::{Maker, World};

pub fn in_parts_of(rows: u64) -> Maker {
    let settings = Settings { parts: Parts { rows, ..Parts::default() }, ..Settings::default() };
    // The simulator's own pauses are on the test's clock, which stands: they end with this time-out.
    Maker { settings, http_timeout: Duration::from_millis(700), ..Maker::default() }
}

/// Lands a run. Returns its sha256.
pub async fn land_run(world: &World, text: impl AsRef<[u8]>) -> String {
    let path = world.path("rows.jsonl");
    std::fs::write(&path, text).unwrap();
    land(&world.engine, &path, Some(Mode::Batch)).await.unwrap().intake.sha256
}

#[tokio::test]
async fn every_row_is_answered_once() {
    let world = World::with(&[], Config::default(), in_parts_of(40)).await;
    let text = rows(100);
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), books.dead.len()), (100, 0));
    let parts = progress.run.unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.rows).collect::<Vec<_>>(), [40, 40, 20]);
    assert!(parts.iter().all(|part| part.attempts.len() == 1));
}
