//! Runs in bad weather.

use std::collections::BTreeMap;
use std::time::Duration;

use gleaner::app::report::Progress;
use gleaner::simulator::Config;
use serde_json::json;

use super::plain::{in_parts_of, land_run};
use crate::books::{Books, audit, rows};
use crate::world::World;

/// The simulator's word on each row: how often it was accepted, and the fault that lasts.
async fn simulated(world: &World) -> BTreeMap<String, (u64, Option<String>)> {
    let (mut all, mut after) = (BTreeMap::new(), json!(0));
    while let Some(from) = after.as_u64() {
        let page = world.sim.get(&format!("/simulator/rows?after={from}")).await;
        for entry in page["entries"].as_array().unwrap() {
            let Some(key) = entry["key"].as_str() else { continue };
            let lasting = entry["lasting"].as_str().map(str::to_owned);
            all.insert(key.to_owned(), (entry["accepted"].as_u64().unwrap(), lasting));
        }
        after = page["next"].clone();
    }
    all
}

/// Rows die by a fault of their own that lasts, or after four attempts.
async fn only_lasting_faults_kill(world: &World, books: &Books, progress: &Progress) {
    let simulated = simulated(world).await;
    for (key, (class, attempts)) in &books.dead {
        let lasting = simulated.get(key).and_then(|(_, lasting)| lasting.clone());
        let refused = class == "permanent:400";
        assert!(lasting.is_some() || refused || class.starts_with("exhausted:"), "{key} died of {class}: {lasting:?}");
        if class.starts_with("exhausted:") {
            assert_eq!(*attempts, 4, "{key}: {class}");
        }
    }
    for (key, (_, lasting)) in &simulated {
        // A row whose answer is blocked for good never has a value.
        if let Some(fault) = lasting
            && books.values.contains_key(key)
        {
            assert!(
                ["row-max-tokens", "row-bad-json"].contains(&fault.as_str()),
                "{key} has a value in spite of {fault}"
            );
        }
    }
    // Gemini itself was asked no more often than that, but where an attempt was told to be a possible duplicate.
    let most = 4 + progress.tally.possible_duplicates;
    for (key, (accepted, _)) in &simulated {
        assert!(*accepted <= most, "{key} was accepted {accepted} times");
    }
}

async fn run_through(faults: &[&str], count: usize, part: u64) -> (World, Books, Progress) {
    let config = Config { batch_expiry: Some(Duration::from_secs(3 * 3600)), seed: 7, ..Config::default() };
    let world = World::with(faults, config, in_parts_of(part)).await;
    let text = rows(count);
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    let books = audit(&world.engine, &progress, &text).await;
    only_lasting_faults_kill(&world, &books, &progress).await;
    (world, books, progress)
}

#[tokio::test]
async fn passing_faults_kill_few_rows() {
    let (_, books, _) = run_through(&["passing=0.1"], 600, 60).await;
    assert!(books.dead.len() < 20, "{:?}", books.dead);
}

#[tokio::test]
async fn lasting_faults_kill_their_own_rows() {
    let faults =
        ["row-refused=0.03", "row-safety=0.03", "row-prompt-blocked=0.03", "row-error-3=0.03", "row-bad-json=0.03"];
    let (_, books, _) = run_through(&faults, 300, 100).await;
    assert!(books.dead.len() > 20, "{:?}", books.dead);
    let refused = books.dead.values().filter(|(class, _)| class == "permanent:400").count();
    assert!(refused > 3, "{:?}", books.dead);
}

#[tokio::test]
async fn everything_at_once() {
    run_through(
        &["passing=0.3", "row-refused=0.02", "row-safety=0.05", "batch-stuck=0.1", "get-404-forever=0.05"],
        400,
        40,
    )
    .await;
}
