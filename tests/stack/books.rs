//! The books of a run in a stack: every row exactly once in the results or among the dead, each with its own value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use gleaner::app::batch::report::RunProgress;
use gleaner::app::engine::Engine;
use gleaner::app::report::{Progress, every};
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::part::{File, Part};
use gleaner::ports::objects::ObjectError;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

/// A file of a run: its header, and rows that ask for texts and for JSON, in two scripts.
pub fn file(rows: usize) -> String {
    let schema = json!({"type": "OBJECT", "required": ["title", "score"],
        "properties": {"title": {"type": "STRING"}, "score": {"type": "INTEGER"}}});
    let row = |n: usize| match n % 3 {
        0 => {
            json!({"key": format!("row-{n}"), "request": {"contents": [{"role": "user", "parts": [{"text": format!("Summarize chapter {n}.")}]}]}})
        }
        1 => {
            json!({"key": format!("行-{n}"), "request": {"contents": [{"parts": [{"text": format!("第{n}章を要約してください。")}]}]}})
        }
        _ => {
            json!({"key": format!("row-{n}"), "request": {"contents": [{"parts": [{"text": format!("Rate chapter {n}.")}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseSchema": schema}}})
        }
    };
    let header = json!({"gleaner": {"mode": "batch"}}).to_string() + "\n";
    (0..rows).fold(header, |mut text, n| {
        writeln!(text, "{}", row(n)).unwrap();
        text
    })
}

/// What was found in the objects of a run.
#[derive(Debug, Default)]
pub struct Books {
    /// The keys that succeeded, with the attempt.
    pub values: BTreeMap<String, u64>,
    /// The class of each dead row, and its attempts.
    pub dead: BTreeMap<String, (String, u64)>,
}

/// Reads and checks the books: sums, keys and values, attempts, and dead letters.
pub async fn audit(engine: &Engine, progress: &Progress, text: &str) -> Books {
    let run = progress.run.as_ref().unwrap();
    assert_eq!(progress.wrong_sums(), None);
    let inputs: BTreeMap<String, Value> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["key"].as_str().unwrap().to_owned(), line["request"].clone()))
        .collect();
    let mut books = Books::default();
    for part in &run.parts {
        for passed in &part.passes {
            assert!(passed.is_told(), "{passed:?}");
            for line in lines(engine, part, passed, File::Results).await {
                let key = line["key"].as_str().unwrap().to_owned();
                let digest = Digest::of(&inputs[&key]["contents"]).to_string();
                assert!(line["value"].to_string().contains(&digest), "{key} has another's value: {line}");
                let before = books.values.insert(key.clone(), line["attempt"].as_u64().unwrap());
                assert!(before.is_none(), "{key} has two results");
            }
        }
    }
    for part in &run.parts {
        for passed in &part.passes {
            for line in lines(engine, part, passed, File::Dead).await {
                let key = line["key"].as_str().unwrap().to_owned();
                assert_eq!(line["request"], inputs[&key], "{key}: another request");
                if !books.values.contains_key(&key) {
                    let told = (line["class"].as_str().unwrap().to_owned(), line["attempts"].as_u64().unwrap());
                    assert!(books.dead.insert(key.clone(), told).is_none(), "{key} died twice");
                }
            }
        }
    }
    let told: BTreeSet<&String> = books.values.keys().chain(books.dead.keys()).collect();
    assert_eq!(told, inputs.keys().collect(), "each row ends once");
    counts_add_up(progress, run, &books);
    letters_match(engine, &books).await;
    books
}

fn counts_add_up(progress: &Progress, run: &RunProgress, books: &Books) {
    let tally = progress.tally;
    assert_eq!(tally.jobs, (books.values.len() + books.dead.len()) as u64);
    assert_eq!(tally.consumed + tally.recovered, books.values.len() as u64);
    assert_eq!((tally.parked, tally.open, tally.discarded), (books.dead.len() as u64, 0, 0));
    let most = u64::from(run.run.max_attempts);
    let attempts = books.values.iter().chain(books.dead.iter().map(|(key, (_, attempts))| (key, attempts)));
    for (key, attempts) in attempts {
        assert!(*attempts <= most, "{key} had {attempts} attempts");
    }
}

/// Every dead row has a dead letter of its own, or is counted in a group.
async fn letters_match(engine: &Engine, books: &Books) {
    let mut letters: BTreeMap<String, u64> = BTreeMap::new();
    for item in every(engine, State::Parked, usize::MAX).await.unwrap() {
        match item {
            Item::DeadRow(row) => {
                assert_eq!(books.dead[&row.key].0, row.class, "{}", row.key);
                *letters.entry(row.class).or_default() += 1;
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

async fn lines(engine: &Engine, part: &Part, passed: &gleaner::domain::part::Passed, file: File) -> Vec<Value> {
    match engine.objects.get(&passed.object(&part.run, &part.part, file)).await {
        Ok(bytes) => {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
        }
        // A pass writes no empty file.
        Err(ObjectError::NotFound(_)) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}
