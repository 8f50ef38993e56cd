//! `run --mode batch` from the file to one file of results.

use serde_json::{Value, json};

use super::Folder;
use super::common::Simulator;
use super::made_run::row;

fn write_rows(folder: &Folder, name: &str, first: &str, count: usize) {
    let rows: Vec<String> = (0..count).map(|n| row(&format!("r{n}")) + "\n").collect();
    folder.write(name, format!("{first}{}", rows.concat()));
}

fn keys(text: &str) -> Vec<String> {
    let key = |line: &str| serde_json::from_str::<Value>(line).unwrap()["key"].as_str().unwrap().to_owned();
    text.lines().map(key).collect()
}

#[test]
fn a_run_ends_with_its_own_counts_and_one_file_of_results() {
    let folder = Folder::new();
    write_rows(&folder, "rows.jsonl", "", 30);
    let run = || {
        let mut run = folder.gleaner(&["--json", "run", "rows.jsonl", "--mode", "batch", "--simulate"]);
        super::Said::from(run.env("GLEANER_PART_ROWS", "8").output().unwrap()).exits(0).json()
    };
    let json = run();
    let counts = ["jobs", "consumed", "open", "parked", "rows", "succeeded", "dead", "attempts"];
    assert_eq!(counts.map(|count| json[count].as_u64().unwrap()), [30, 30, 0, 0, 30, 30, 0, 4], "{json}");
    let key = json["run"].as_str().unwrap();
    assert_eq!(run()["attempts"], 4, "once more: nothing is sent again");
    let expected: Vec<String> = (0..30).map(|n| format!("r{n}")).collect();
    assert_eq!(keys(&folder.run(&["results", key]).exits(0).out), expected);
    let text = folder.run(&["run", "rows.jsonl", "--simulate"]).exits(0).out;
    for words in ["ROWS  CONSUMED", "4 attempts in all, in 4 parts", "  gleaner results ", " -o FILE"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(folder.run(&["--json", "status"]).exits(0).json()["runs"], json!([]));
}

#[test]
fn dead_rows_end_a_run_with_3_and_are_told_row_by_row() {
    let folder = Folder::new();
    write_rows(&folder, "rows.jsonl", "{\"gleaner\": {\"mode\": \"batch\"}}\n", 20);
    let said = folder.run(&["run", "rows.jsonl", "--simulate", "--fault", "row-safety=0.3", "--seed", "4"]).exits(3);
    let dead = folder.run(&["--json", "dead", "--run", "rows.jsonl"]).exits(0).json();
    let dead = dead["dead"].as_array().unwrap();
    assert!((1..20).contains(&dead.len()), "{dead:?}");
    assert!(said.out.contains(&format!("Dead rows and bad lines: {}.", dead.len())), "{}", said.out);
    for letter in dead {
        let story = folder.run(&["--json", "row", "rows.jsonl", letter["key"].as_str().unwrap()]).exits(0).json();
        assert_eq!((&story["state"], &story["dead"]["class"]), (&json!("dead"), &letter["class"]));
        assert_eq!(story["dead"]["id"], format!("row/{}", letter["id"].as_str().unwrap()));
    }
    let all = folder.run(&["results", "rows.jsonl", "--with-dead"]).exits(0).out;
    assert_eq!(keys(&all).len(), 20);
    assert_eq!(all.matches("\"error\":").count(), dead.len());
}

#[test]
fn a_run_is_cancelled_here_and_at_gemini() {
    let simulator = Simulator::start(&["--polls", "1000000"]);
    let folder = Folder::new();
    write_rows(&folder, "rows.jsonl", "", 10);
    folder.run(&["submit", "rows.jsonl", "--mode", "batch"]).exits(0);
    for _ in 0..3 {
        folder.run_with(&simulator, &["tick"]).exits(0);
    }
    let status = folder.run(&["--json", "status"]).exits(0).json();
    assert_eq!(status["runs"][0]["out"][0]["state"], "submitted", "{status}");
    let json = folder.run_with(&simulator, &["--json", "cancel", "rows.jsonl", "--reason", "no money"]).exits(0).json();
    assert_eq!(json["jobs"][0]["outcome"], "discarded", "{json}");
    let json = folder.run_with(&simulator, &["--json", "run", "rows.jsonl"]).exits(0).json();
    assert_eq!((&json["discarded"], &json["open"]), (&json!(10), &json!(0)), "{json}");
    let all = folder.run(&["results", "rows.jsonl", "--with-dead"]).exits(0).out;
    assert_eq!(all.matches("\"message\":\"no money\"").count(), 10, "{all}");
}
