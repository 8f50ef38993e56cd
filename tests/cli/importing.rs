//! `import-seed`, as people run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::common::Simulator;
use super::{Folder, Said};

/// Has the scripts' rules make ledgers; what they made.
fn made(folder: &Folder, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/seed_ledgers.py");
    let python = std::env::var_os("GLEANER_TEST_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let output = Command::new(python).current_dir(folder.path("")).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The results of jobs, by key; a run's lie in a folder.
fn results(folder: &Folder) -> Vec<(String, Value)> {
    let files = std::fs::read_dir(folder.path(".gleaner/results")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    files.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), super::json_file(&path))).collect()
}

fn fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn all_three_ledgers_in_one_file_are_taken_over_and_collected() {
    let folder = Folder::new();
    let simulator = Simulator::start(&[]);
    let made = made(&folder, &["all", "seed.db", &simulator.base_url]);
    let paid = simulator.log().len();
    let said = folder.run_with(&simulator, &["import-seed", "seed.db"]).exits(0);
    fits(&said.out);
    for words in ["parked until the line is handed in", "gleaner tick", "gleaner run FILE", "gleaner resume"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let again = folder.run_with(&simulator, &["--json", "import-seed", "seed.db"]).exits(0).json();
    assert_eq!(again["jobs"], json!({"before": 12}));
    assert_eq!((&again["rows"], &again["dead_letters"]), (&json!({"before": 40}), &json!({"before": 8})));
    assert_eq!((&again["refused"], &again["held"]), (&json!([]), &json!(true)));
    let run = again["run"].as_str().unwrap();

    let job = |n: usize| made["jobs"][n]["key"].as_str().unwrap();
    let shown = folder.run(&["show", job(0)]).exits(0);
    fits(&shown.out);
    assert!(shown.out.contains("import:consumed") && shown.out.contains("\"imported\""), "{}", shown.out);
    for _ in 0..50 {
        folder.run_with(&simulator, &["tick"]).exits(0);
        if results(&folder).len() == 7 {
            break;
        }
    }
    let results = results(&folder);
    for collected in made["jobs"].as_array().unwrap() {
        let open = ["submitted", "done"].contains(&collected["status"].as_str().unwrap());
        let key = collected["key"].as_str().unwrap();
        let result = results.iter().find(|(name, _)| name == key);
        assert_eq!(result.is_some(), open, "{collected}");
        assert!(result.is_none_or(|(_, result)| result["idempotency_key"] == key && result["value"].is_string()));
    }
    assert_eq!(simulator.log().len(), paid, "nothing was submitted");

    let dead = folder.run(&["--json", "dead"]).exits(0).json();
    let dead: Vec<&str> =
        dead["dead"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap()).collect();
    // One failed, two reservations, six calls and twelve rows.
    assert_eq!(dead.len(), 1 + 2 + 6 + 12, "{dead:?}");
    for letter in made["letters"].as_array().unwrap().iter().filter(|letter| letter["status"] == "parked") {
        let id = letter["job_id"].as_str().unwrap();
        assert!(!id.starts_with("article-") || dead.contains(&id), "{id}");
    }
    rows_are_told(&folder, &made, run);

    // The lines are handed in: two are sent, and the run of the file ends with all of its own.
    let lines: String = made["jobs"].as_array().unwrap().iter().map(|job| format!("{}\n", job["line"])).collect();
    folder.write("jobs.jsonl", lines);
    let ran = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(3).json();
    assert_eq!(
        (&ran["jobs"], &ran["consumed"], &ran["parked"], &ran["repeats"]),
        (&json!(3), &json!(2), &json!(1), &json!(9))
    );
    let log = simulator.log();
    let ours = |entry: &&Value| !entry["labels"]["gleaner"].is_null();
    assert_eq!((log.len(), log.iter().filter(ours).count()), (paid + 2, 2), "{log:?}");
}

fn rows_are_told(folder: &Folder, made: &Value, run: &str) {
    for row in made["rows"].as_array().unwrap().iter().take(10) {
        let key = row["key"].as_str().unwrap();
        let story = folder.run(&["--json", "row", run, key]).exits(0).json();
        let expected = match row["status"].as_str().unwrap() {
            "succeeded" => "succeeded",
            "permanent" => "dead",
            _ => "waiting",
        };
        assert_eq!(story["state"], expected, "{row} {story}");
    }
    let merged = folder.run(&["results", run, "-o", "results.jsonl"]);
    assert!(merged.code.is_some(), "{}", merged.err);
    let merged = std::fs::read_to_string(folder.path("results.jsonl")).unwrap();
    assert_eq!(merged.lines().count(), 20);
    let status = folder.run(&["status"]).exits(0).out;
    assert!(status.contains("gleaner resume"), "{status}");
    fits(&status);
}

#[test]
fn what_is_no_seeds_ledger_is_told_before_anything_is_made() {
    let folder = Folder::new();
    folder.write("jobs.jsonl", "{\"input\": \"x\"}\n");
    for file in ["none.db", "jobs.jsonl"] {
        let said = folder.gleaner(&["import-seed", file]).env("GEMINI_API_KEY", "k").output().unwrap();
        let said = Said::from(said).exits(2);
        assert!(said.err.contains(file), "{}", said.err);
    }
    assert!(!folder.path(".gleaner").exists());
    made(&folder, &["letters", "dlq.db", "3"]);
    rusqlite::Connection::open(folder.path("dlq.db"))
        .unwrap()
        .execute_batch("CREATE TABLE notes (a); UPDATE dead_letter SET status = 'lost' WHERE job_id = 'article-2'")
        .unwrap();
    let said = folder.run(&["import-seed", "dlq.db", "--simulate"]).exits(3);
    for words in ["not taken over: notes: none of", "not taken over: dead_letter article-2: status: \"lost\""] {
        assert!(said.err.contains(words), "{}", said.err);
    }
    let dead = folder.run(&["--json", "dead"]).exits(0).json();
    assert_eq!(dead["dead"], json!([]), "the two others were recovered");
}

/// What a ledger holds, as people see it, line by line; times aside, which differ from import to import.
fn holdings(folder: &Folder, data: &str, run: &str) -> Vec<String> {
    let look = |arguments: &[&str]| folder.run(&[&["--json", "--data", data], arguments].concat()).exits(0);
    let mut dead = look(&["dead"]).json()["dead"].as_array().unwrap().clone();
    for letter in &mut dead {
        letter["first_seen"].take();
        letter["last_seen"].take();
    }
    let mut all: Vec<String> = dead.iter().map(Value::to_string).collect();
    let status = look(&["status"]).json();
    let states = status["states"].as_object().unwrap();
    all.extend(states.iter().map(|(state, found)| format!("{state} {}", found["count"])));
    all.push(format!("{} runs", status["runs"].as_array().unwrap().len()));
    all.extend(folder.run(&["--data", data, "results", run]).out.lines().map(str::to_owned));
    all.sort();
    all
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is waited for is another process")]
fn killed_in_the_middle_again_and_again_it_comes_to_the_same() {
    let folder = Folder::new();
    made(&folder, &["rows", "seed.db", "3000"]);
    made(&folder, &["letters", "seed.db", "300"]);
    let import = |data: &str| {
        let mut command = folder.gleaner(&["--json", "--data", data, "import-seed", "seed.db"]);
        command.env("GEMINI_API_KEY", "k").env("GLEANER_LOG", "error").env("GLEANER_SUBMIT_LEASE", "1s");
        command
    };
    let whole = Said::from(import("whole").output().unwrap()).exits(0).json();
    let run = whole["run"].as_str().unwrap();
    let mut killed = 0;
    for millis in (0..).map(|n| 20 + n * 15) {
        let mut child = import("cut").stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        if child.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
    }
    assert!(killed > 3, "it came to its end after {killed} kills: the test must be larger than that");
    // Whoever was killed last may have held a part.
    std::thread::sleep(Duration::from_millis(1100));
    let again = Said::from(import("cut").output().unwrap()).exits(0).json();
    assert_eq!(again["unfinished"], false);
    assert_eq!((&again["rows"], &again["dead_letters"]), (&json!({"before": 3000}), &json!({"before": 300})));
    let (cut, whole) = (holdings(&folder, "cut", run), holdings(&folder, "whole", run));
    let differs = cut.iter().zip(&whole).find(|(cut, whole)| cut != whole);
    assert_eq!((differs, cut.len()), (None, whole.len()));
    assert!(cut.len() > 1500 + 900, "{}", cut.len());
}
