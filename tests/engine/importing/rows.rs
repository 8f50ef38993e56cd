//! The table `rows`.

use std::collections::BTreeMap;

use gleaner::app::batch::hold::let_go_on;
use gleaner::app::batch::merge::merge;
use gleaner::app::report::dead;
use gleaner::domain::job::State;
use gleaner::domain::part::PartId;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{count, made, take_over, try_import};
use crate::world::{HOUR, World};

/// The results of a run, by key.
async fn results(world: &World, intake: &str) -> BTreeMap<String, Value> {
    let progress = world.progress(intake).await;
    let mut out = Vec::new();
    merge(&world.engine, &progress.intake, progress.run.as_ref().unwrap(), false, &mut out).await.unwrap();
    let lines = str::from_utf8(&out).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["key"].as_str().unwrap().to_owned(), line)).collect()
}

async fn run_of(world: &World) -> String {
    let items = world.items().await;
    let intakes: Vec<&String> = items.keys().filter(|id| id.starts_with("intake/")).collect();
    assert_eq!(intakes.len(), 1, "{intakes:?}");
    intakes[0].trim_start_matches("intake/").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_become_a_held_run_with_their_results_their_dead_and_their_attempts() {
    let world = World::new(&[]).await;
    let file = world.text_of("batch.db");
    let rows = made(&["rows", &file]).await["rows"].clone();
    let rows = rows.as_array().unwrap();
    let imported = take_over(&world.engine, file.as_ref()).await;
    assert_eq!(imported.rows, [("succeeded", 20), ("dead", 12), ("retryable", 4), ("pending", 4)].into());
    assert!(imported.held);
    let items = world.items().await;
    let again = take_over(&world.engine, file.as_ref()).await;
    assert_eq!((again.rows, &again.run), ([("before", 40)].into(), &imported.run));
    assert_eq!(world.items().await, items, "twice is the same as once");

    let intake = run_of(&world).await;
    let progress = world.progress(&intake).await;
    assert_eq!(progress.wrong_sums(), None);
    let tally = progress.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.parked, tally.open), (40, 20, 12, 8));
    assert!(progress.run.as_ref().unwrap().waits_for_person());
    let listed = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    let mut classes: BTreeMap<(String, u32), u64> = BTreeMap::new();
    for letter in &listed {
        *classes.entry((letter.class.clone(), letter.attempts)).or_default() += 1;
    }
    let class = |name: &str, attempts| ((name.to_owned(), attempts), 4);
    assert_eq!(classes, [class("exhausted:429", 4), class("extract:schema", 1), class("permanent:400", 1)].into());
    let found = results(&world, &intake).await;
    for row in rows {
        let result = found.get(row["key"].as_str().unwrap());
        assert_eq!(result.map(|line| &line["value"]), Some(&row["value"]).filter(|_| row["status"] == "succeeded"));
        if let Some(result) = result {
            assert_eq!(result["attempt"].as_u64().unwrap(), row["attempts"].as_u64().unwrap() + 1);
        }
    }

    // Nothing goes out while it is held.
    world.pass(HOUR * 2, HOUR).await;
    assert_eq!(world.accepted().await, 0);
    let progress = world.progress(&intake).await;
    let_go_on(&world.engine, progress.intake).await.unwrap().unwrap();
    let progress = world.until_over(&intake).await;
    let tally = progress.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.parked, tally.open), (40, 28, 12, 0));
    let found = results(&world, &intake).await;
    assert_eq!((found["row-00008"]["attempt"].as_u64(), found["row-00009"]["attempt"].as_u64()), (Some(2), Some(1)));
    let log = world.log().await;
    let sent: u64 = log.iter().map(|entry| entry["rows"].as_u64().unwrap()).sum();
    assert_eq!(sent, 8, "and nothing else was: {log:?}");
    let items = world.items().await;
    assert_eq!(count(&take_over(&world.engine, file.as_ref()).await.rows, "before"), 40);
    assert_eq!(world.items().await, items, "once more, after it went on");
}

#[tokio::test]
async fn odd_rows_are_told_and_a_value_is_never_lost_for_its_payload() {
    let world = World::new(&[]).await;
    let path = world.path("odd.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE rows (key, payload, status, attempts, last_error, result, updated_at)").unwrap();
    let good = json!({"contents": [{"parts": [{"text": "x"}]}]}).to_string();
    let row = |key: &str, payload: &str, status: &str, error: Option<&str>, result: Option<&str>| {
        let sql = "INSERT INTO rows VALUES (?1, ?2, ?3, 0, ?4, ?5, 1.0)";
        db.execute(sql, (key, payload, status, error, result)).unwrap();
    };
    row("kept", "no json", "succeeded", None, Some(" {\"a\":\n 1.50} "));
    row("text", &good, "succeeded", None, Some("not json"));
    row("null", &good, "succeeded", None, Some("null"));
    row("none", &good, "succeeded", None, None);
    row("kept", &good, "pending", None, None);
    row("bad", "{\"contents\": []}", "pending", None, None);
    row("odd", &good, "running", None, None);
    row("dead", "[1]", "permanent", Some("answer was blocked"), None);
    row("still", &good, "retryable", Some("{\"code\": 400, \"message\": \"no\"}"), None);
    let imported = try_import(&world.engine, &path).await.unwrap();
    let told: Vec<String> = imported
        .refused
        .iter()
        .map(|refused| format!("{}: {}", refused.key.as_deref().unwrap(), refused.why))
        .collect();
    assert_eq!(
        told,
        [
            "none: result: nothing is there, although it has succeeded",
            "kept: key: an earlier row has it too; that one is taken over",
            "odd: status: \"running\" is none of the script's",
        ]
    );
    assert_eq!(imported.rows, [("succeeded", 3), ("dead", 1), ("retryable", 1), ("bad_lines", 1)].into());
    let intake = run_of(&world).await;
    let found = results(&world, &intake).await;
    assert_eq!((&found["kept"]["value"], &found["text"]["value"]), (&json!({"a": 1.5}), &json!("not json")));
    assert_eq!((&found["null"]["value"], found.len()), (&Value::Null, 3));
    let listed = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    let mut listed: Vec<(String, Option<String>)> =
        listed.into_iter().map(|letter| (letter.class, letter.key)).collect();
    listed.sort();
    assert_eq!(listed[0], ("bad_line:field".to_owned(), None));
    assert_eq!(listed[1].1.as_deref(), Some("dead"));
    let progress = world.progress(&intake).await;
    assert_eq!((progress.wrong_sums(), progress.tally.bad_lines), (None, 1));
    // The script's word counts: it is tried again.
    let part = progress.run.as_ref().unwrap().parts.iter().find(|part| part.part == PartId::numbered(1)).unwrap();
    assert_eq!((part.state, part.rows_left().map(|rows| rows.rows)), (State::Waiting, Some(1)));
}
