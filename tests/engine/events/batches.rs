//! Batch runs by events.

use std::time::Duration;

use gleaner::simulator::Config;

use super::{Asks, Called};
use crate::books::{audit, rows};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_by_events_alone_and_lost_creates_are_found_by_them() {
    for asks in [Asks::Each, Asks::Registered] {
        let config = Config { polls_until_done: 0, ..Config::default() };
        let called = Called::with(&["create-drop=0.4"], config, asks, in_parts_of(10)).await;
        let world = &called.world;
        let text = rows(100);
        let run = land_run(world, &text).await;
        called.until_over_by_events(&run, Duration::from_secs(14 * 60)).await;
        let progress = world.progress(&run).await;
        let books = audit(&world.engine, &progress, &text).await;
        assert_eq!((books.values.len(), books.dead.len()), (100, 0), "{asks:?}");
        assert_eq!((world.accepted().await, progress.tally.possible_duplicates), (10, 0), "{asks:?}: each part once");
        let lost = world.sim.get("/simulator/stats").await["faults"]["create-drop"].as_u64().unwrap();
        assert!((1..10).contains(&lost), "{lost}");
        assert_eq!(world.requests("batch-list").await, 0, "{asks:?}: nothing was looked for");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_gemini_does_not_show_yet_is_not_sent_again_once_its_event_has_come() {
    let minute = Duration::from_secs(60);
    let config = Config { polls_until_done: 0, hidden: minute * 3, list_lag: minute * 3, ..Config::default() };
    let mut maker = in_parts_of(100);
    maker.settings.policy.list_gap = Duration::from_secs(5);
    let called = Called::with(&["create-drop=1", "get-404=1", "list-lag=1"], config, Asks::Each, maker).await;
    let world = &called.world;
    let text = rows(20);
    let run = land_run(world, &text).await;
    eventually("its event has come", async || {
        world.tick().await;
        world.jobs().await.iter().any(|job| !job.heard.is_empty())
    })
    .await;
    let mut progress = world.progress(&run).await;
    for _ in 0..40 {
        world.tick().await;
        progress = world.progress(&run).await;
        if progress.is_over() {
            break;
        }
        world.advance(Duration::from_secs(15));
    }
    let books = audit(&world.engine, &progress, &text).await;
    assert_eq!((books.values.len(), world.accepted().await, progress.tally.possible_duplicates), (20, 1, 0));
}
