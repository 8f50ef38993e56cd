//! The books of a run: every row exactly once in the results or among the dead, each with its own value.

use std::collections::{BTreeMap, BTreeSet};

use gleaner::app::engine::Engine;
use gleaner::app::report::{Progress, every};
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::part::{File, Part};
use gleaner::ports::objects::ObjectError;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

/// A row that asks for a text.
pub fn row(key: &str, said: &str) -> String {
    json!({"key": key, "request": {"contents": [{"role": "user", "parts": [{"text": said}]}]}}).to_string() + "\n"
}

/// A row that asks for JSON of a schema.
pub fn json_row(key: &str, said: &str) -> String {
    let schema = json!({"type": "OBJECT", "required": ["title", "score"],
        "properties": {"title": {"type": "STRING"}, "score": {"type": "INTEGER"}}});
    let config = json!({"responseMimeType": "application/json", "responseSchema": schema});
    json!({"key": key, "request": {"contents": [{"parts": [{"text": said}]}], "generationConfig": config}}).to_string()
        + "\n"
}

/// Rows of both kinds, in two scripts.
pub fn rows(count: usize) -> String {
    let row_of = |n: usize| match n % 3 {
        0 => row(&format!("row-{n}"), &format!("Summarize chapter {n}.")),
        1 => row(&format!("行-{n}"), &format!("第{n}章を要約してください。")),
        _ => json_row(&format!("row-{n}"), &format!("Rate chapter {n}.")),
    };
    (0..count).map(row_of).collect()
}

/// What was found in the objects of a run.
#[derive(Debug, Default)]
pub struct Books {
    /// The value of each row that succeeded, and in which attempt.
    pub values: BTreeMap<String, (Value, u64)>,
    /// The class of each dead row, and its attempts.
    pub dead: BTreeMap<String, (String, u64)>,
}

/// Reads and checks the books: sums, keys and values, attempts and dead letters.
pub async fn audit(engine: &Engine, progress: &Progress, text: &str) -> Books {
    let run = progress.run.as_ref().unwrap();
    assert_eq!(progress.wrong_sums(), None);
    let inputs: BTreeMap<String, Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Some((line["key"].as_str()?.to_owned(), line["request"].clone())))
        .collect();
    let mut books = Books::default();
    for part in &run.parts {
        for passed in &part.passes {
            assert!(passed.is_told(), "{passed:?}");
            for line in lines_of(engine, &passed.object(&part.run, &part.part, File::Results)).await {
                let key = line["key"].as_str().unwrap().to_owned();
                check_value(&inputs[&key], &line["value"]);
                let attempt = line["attempt"].as_u64().unwrap();
                if part.part.is_replay() {
                    assert!(books.dead.remove(&key).is_some(), "{key} was replayed and was not dead");
                }
                let before = books.values.insert(key.clone(), (line["value"].clone(), attempt));
                assert!(before.is_none(), "{key} has two results");
            }
        }
        for passed in &part.passes {
            for line in lines_of(engine, &passed.object(&part.run, &part.part, File::Dead)).await {
                let key = line["key"].as_str().unwrap().to_owned();
                if !part.part.is_replay() {
                    assert_eq!(line["request"], inputs[&key], "{key}: another request");
                }
                if !books.values.contains_key(&key) {
                    let class = line["class"].as_str().unwrap().to_owned();
                    let before = books.dead.insert(key.clone(), (class, line["attempts"].as_u64().unwrap()));
                    assert_eq!(before.is_some(), part.part.is_replay(), "{key} died twice, or was not dead");
                }
            }
        }
        later_attempts_hold_only_what_needs_one(engine, part).await;
    }
    let told: BTreeSet<&String> = books.values.keys().chain(books.dead.keys()).collect();
    assert_eq!(told.len(), books.values.len() + books.dead.len());
    let tally = progress.tally;
    assert_eq!(told.len() as u64 + tally.discarded, tally.jobs, "rows without an end");
    assert_eq!(tally.consumed + tally.recovered, books.values.len() as u64);
    assert_eq!(tally.parked, books.dead.len() as u64);
    assert_eq!(tally.jobs + tally.bad_lines, progress.intake.lines);
    // A replay allows as many again as its rows had used.
    let granted = run.parts.iter().map(|part| part.granted).max().unwrap_or(0);
    // Creates of one attempt beyond its first, which stayed unclear, cost its rows attempts, too.
    let further = run.jobs.values().map(|job| job.attempts.saturating_sub(1)).max().unwrap_or(0);
    let most = u64::from(run.run.max_attempts + granted + further);
    for (key, attempts) in
        books.values.iter().map(|(key, (_, n))| (key, n)).chain(books.dead.iter().map(|(key, (_, n))| (key, n)))
    {
        assert!(*attempts <= most, "{key} had {attempts} attempts");
    }
    check_letters(engine, &books).await;
    books
}

/// An attempt after the first holds only rows that the one before it left open.
async fn later_attempts_hold_only_what_needs_one(engine: &Engine, part: &Part) {
    for pair in part.attempts.windows(2) {
        let [before, after] = pair else { panic!("two") };
        let Some(passed) = part.pass_of(before.number) else {
            assert_eq!((&before.rows_at, before.rows), (&after.rows_at, after.rows));
            continue;
        };
        let succeeded = keys(engine, &passed.object(&part.run, &part.part, File::Results)).await;
        let dead = keys(engine, &passed.object(&part.run, &part.part, File::Dead)).await;
        let sent = keys(engine, &after.rows_at).await;
        assert!(sent.is_disjoint(&succeeded) && sent.is_disjoint(&dead));
        assert!(sent.is_subset(&keys(engine, &before.rows_at).await));
        assert_eq!(sent.len() as u64, passed.counts.retry);
    }
}

async fn keys(engine: &Engine, object: &str) -> BTreeSet<String> {
    lines_of(engine, object).await.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
}

/// Every dead row has a dead letter of its own, or is counted in a group.
async fn check_letters(engine: &Engine, books: &Books) {
    let parked = every(engine, State::Parked, usize::MAX).await.unwrap();
    let mut letters: BTreeMap<String, u64> = BTreeMap::new();
    for item in &parked {
        match item {
            Item::DeadRow(row) => {
                assert_eq!(books.dead[&row.key].0, row.class, "{}", row.key);
                *letters.entry(row.class.clone()).or_default() += 1;
            }
            Item::DeadGroup(group) => *letters.entry(group.class.clone()).or_default() += group.count(),
            _ => {}
        }
    }
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for (class, _) in books.dead.values() {
        *classes.entry(class.clone()).or_default() += 1;
    }
    assert_eq!(letters, classes);
}

/// The simulator's answer carries a digest of the row's contents.
fn check_value(request: &Value, value: &Value) {
    let digest = Digest::of(&request["contents"]).to_string();
    let text = value.to_string();
    assert!(text.contains(&digest), "{digest} is not in {text}");
}

/// The lines of an object; one that isn't there has none.
pub async fn lines_of(engine: &Engine, object: &str) -> Vec<Value> {
    match engine.objects.get(object).await {
        Ok(text) => str::from_utf8(&text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        Err(ObjectError::NotFound(_)) => Vec::new(),
        Err(error) => panic!("{object}: {error}"),
    }
}
