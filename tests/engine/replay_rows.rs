//! Dead rows that a person has replayed: each ends once, whoever is killed and whatever comes late.

mod calls;
mod groups;
mod killed;
mod late;
mod plain;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use gleaner::app::batch::replay::{How, replay_rows};
use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::replay::{Outcome, RowsBy};
use gleaner::app::report::{Progress, every};
use gleaner::domain::changes::Changes;
use gleaner::domain::dead::DeadRow;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::State;
use gleaner::domain::part::Part;

use crate::books::{Books, audit};
use crate::world::World;

type Told = (ItemId, Outcome, Option<String>);

fn how(model: Option<&str>, request: Option<&str>) -> How {
    let request = request.map(|request| serde_json::value::RawValue::from_string(request.to_owned()).unwrap());
    let changes = Changes { model: model.map(str::to_owned), request };
    How { changes, by: RowsBy::Batch, reason: "a test".to_owned() }
}

fn as_they_were() -> How {
    how(None, None)
}

/// The dead letters of rows that wait.
async fn letters(engine: &Engine) -> Vec<Item> {
    let mut parked = every(engine, State::Parked, usize::MAX).await.unwrap();
    parked.retain(|item| matches!(item, Item::DeadRow(_) | Item::DeadGroup(_)));
    parked
}

async fn rows_in(engine: &Engine, state: State) -> BTreeMap<String, DeadRow> {
    let rows = every(engine, state, usize::MAX).await.unwrap().into_iter();
    rows.filter_map(|item| match item {
        Item::DeadRow(row) => Some((row.key.clone(), row)),
        _ => None,
    })
    .collect()
}

async fn replay_all(engine: &Engine, how: &How) -> Result<Vec<Told>, Trouble> {
    replay_rows(engine, letters(engine).await, how).await
}

fn count(told: &[Told], outcome: Outcome) -> usize {
    told.iter().filter(|(_, this, _)| *this == outcome).count()
}

/// Ends what is under way, sees that the books are right and that each row is in one open part at most, and that every
/// dead row has one dead letter.
async fn books_of(world: &World, run: &str, text: &str) -> (Progress, Books) {
    let progress = world.until_over(run).await;
    // What nobody has woken is looked at again within the hour.
    let progress = if rows_in(&world.engine, State::Retryable).await.is_empty() {
        progress
    } else {
        world.pass(crate::world::HOUR * 2, crate::world::HOUR).await;
        world.until_over(run).await
    };
    assert!(rows_in(&world.engine, State::Retryable).await.is_empty(), "a replay that nobody has ended");
    let books = audit(&world.engine, &progress, text).await;
    (progress, books)
}

fn replays(progress: &Progress) -> Vec<&Part> {
    progress.run.as_ref().unwrap().parts.iter().filter(|part| part.part.is_replay() && part.rows > 0).collect()
}

/// The merged results: every key once. Returns the keys with results and those that are dead.
async fn merged(world: &World, progress: &Progress) -> (BTreeSet<String>, BTreeSet<String>) {
    let run = progress.run.as_ref().unwrap();
    let mut out = Vec::new();
    let merged = gleaner::app::batch::merge::merge(&world.engine, &progress.intake, run, true, &mut out).await.unwrap();
    let (mut results, mut dead) = (BTreeSet::new(), BTreeSet::new());
    for line in str::from_utf8(&out).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let key = line["key"].as_str().unwrap().to_owned();
        let fresh = if line.get("error").is_some() { dead.insert(key) } else { results.insert(key) };
        assert!(fresh, "a key comes twice: {line}");
    }
    assert!(results.is_disjoint(&dead));
    assert_eq!((merged.results, merged.dead), (results.len() as u64, dead.len() as u64));
    (results, dead)
}
