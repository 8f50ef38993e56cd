//! Runs that come to their end.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

use super::common::Simulator;
use super::{Folder, signal};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/events/jobs.jsonl");

/// The input of the line that a result says it is of.
fn input_of(folder: &Folder, result: &Value) -> Value {
    let place = &result["input_ref"];
    let intake = folder.path(&format!(".gleaner/intakes/{}.jsonl", place["intake"].as_str().unwrap()));
    let bytes = std::fs::read(intake).unwrap();
    let number = |name: &str| usize::try_from(place[name].as_u64().unwrap()).unwrap();
    let line: Value = serde_json::from_slice(&bytes[number("offset")..number("offset") + number("length")]).unwrap();
    line["input"].clone()
}

#[test]
fn the_example_ends_with_every_value_under_its_own_key() {
    let folder = Folder::new();
    let said = folder.run(&["run", EXAMPLE, "--simulate"]).exits(0);
    insta::assert_snapshot!(said.out, @r#"
JOBS  CONSUMED  PARKED  RECOVERED  DISCARDED  OPEN  REPEATS  BAD LINES
  11        11       0          0          0     0        0          0
Results: .gleaner/results/<key>.json
"#);
    assert_eq!(said.err.matches("not sent to Gemini: date").count(), 1, "{}", said.err);
    let results = folder.results();
    assert_eq!(results.len(), 11);
    for (name, result) in &results {
        let digest = Digest::of(&input_of(&folder, result)).to_string();
        assert_eq!(result["idempotency_key"], name.as_str());
        assert!(result["value"].to_string().contains(&digest), "{name}: {}", result["value"]);
        assert!(result["response"].is_object() && result["handle"] == result["response"]["id"], "{result}");
    }
    assert!(folder.path(".gleaner/SIMULATED").exists());
    assert!(folder.path(".gleaner/simulator.jsonl").exists());
}

#[test]
fn with_json_standard_output_has_one_object_of_known_names() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "json", 3);
    let json = folder.run(&["--json", "run", "jobs.jsonl", "--simulate"]).exits(0).json();
    let expected = json!({
        "jobs": 3, "consumed": 3, "parked": 0, "recovered": 0, "discarded": 0, "open": 0, "repeats": 0, "bad_lines": 0,
        "possible_duplicates": 0,
    });
    assert_eq!(json, expected);
}

#[test]
fn a_bad_line_is_told_once_and_the_rest_goes_on() {
    let folder = Folder::new();
    folder.write(
        "jobs.jsonl",
        "{\"input\": \"one\"}\n{\"input\": \n\n{\"input\": \"two\", \"background\": true}\n{\"input\": \"three\"}\n",
    );
    let said = folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(3);
    for line in ["jobs.jsonl:2: bad_line:json", "jobs.jsonl:4: bad_line:"] {
        assert_eq!(said.err.matches(line).count(), 1, "{}", said.err);
    }
    assert!(said.out.contains("2 dead letters in all: `gleaner dead`"), "{}", said.out);
    assert_eq!(folder.results().len(), 2);
    let dead = folder.run(&["--json", "dead"]).exits(0).json();
    let classes: Vec<&str> =
        dead["dead"].as_array().unwrap().iter().map(|dead| dead["class"].as_str().unwrap()).collect();
    assert!(classes.len() == 2 && classes.iter().all(|class| class.starts_with("bad_line:")), "{dead}");
    // The same again: nothing new, and the bad lines still need a person.
    let again = folder.run(&["--json", "run", "jobs.jsonl", "--simulate"]).exits(3).json();
    assert_eq!((&again["consumed"], &again["bad_lines"]), (&json!(2), &json!(2)));
}

#[test]
fn the_same_file_and_one_that_overlaps_send_nothing_twice() {
    let simulator = Simulator::start(&[]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "same", 10);
    for _ in 0..2 {
        let json = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(0).json();
        assert_eq!((&json["jobs"], &json["consumed"], &json["repeats"]), (&json!(10), &json!(10), &json!(0)));
    }
    assert_eq!(simulator.log().len(), 10);
    let more =
        std::fs::read_to_string(folder.path("jobs.jsonl")).unwrap() + "{\"input\": \"new\"}\n{\"input\": \"new\"}\n";
    folder.write("more.jsonl", more);
    let json = folder.run_with(&simulator, &["--json", "run", "more.jsonl"]).exits(0).json();
    assert_eq!((&json["jobs"], &json["consumed"], &json["repeats"]), (&json!(1), &json!(1), &json!(11)));
    let log = simulator.log();
    let keys: BTreeSet<&str> = log.iter().map(|entry| entry["labels"]["gleaner"].as_str().unwrap()).collect();
    assert_eq!((log.len(), keys.len()), (11, 11));
}

#[test]
fn a_file_whose_job_is_a_dead_letter_elsewhere_exits_3() {
    let folder = Folder::new();
    folder.write_jobs("one.jsonl", "dead", 1);
    folder.write("two.jsonl", "{\"input\": \"dead 0\"}\n\n");
    let blocked = ["--simulate", "--fault", "blocked=1"];
    folder.run(&[&["run", "one.jsonl"], &blocked[..]].concat()).exits(3);
    let said = folder.run(&["run", "two.jsonl", "--simulate"]).exits(3);
    assert!(said.err.contains("1 job of this file came with another file"), "{}", said.err);
}

#[test]
fn two_runs_at_once_share_the_work() {
    let simulator = Simulator::start(&["--latency", "20ms"]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "shared", 60);
    let start = || {
        let mut command = folder.with(&simulator, &["--json", "run", "jobs.jsonl"]);
        command.env("GLEANER_SUBMIT_LEASE", "2s").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    for child in both {
        let said = super::Said::from(child.wait_with_output().unwrap()).exits(0);
        assert_eq!(said.json()["consumed"], 60);
    }
    assert_eq!(simulator.log().len(), 60);
}

#[test]
fn faults_that_pass_are_overcome() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "hard", 12);
    let arguments =
        ["--json", "run", "jobs.jsonl", "--simulate", "--fault", "get-503=0.5", "--fault", "create-503-refused=0.3"];
    let json = folder
        .gleaner(&[&arguments[..], &["--seed", "3", "--latency", "5ms"]].concat())
        .env("GLEANER_UNCLEAR_GRACE", "50ms")
        .env("GLEANER_MAX_ATTEMPTS", "20")
        .output()
        .map(super::Said::from)
        .unwrap()
        .exits(0)
        .json();
    assert_eq!(json["consumed"], 12);
    assert!(json["possible_duplicates"].as_u64().unwrap() > 0, "an answer of 503 is unclear: {json}");
}

/// Starts a run, waits until it has sent something, and sends it a signal.
fn interrupt(name: &str) {
    let simulator = Simulator::start(&["--latency", "5ms", "--polls", "1000000"]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", name, 5);
    let mut command = folder.with(&simulator, &["run", "jobs.jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("5 submitted") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    signal(&child, name);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut err, &mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("5 jobs open, 0 lines not taken up yet") && rest.contains(" run jobs.jsonl"), "{rest}");
    assert!(!rest.contains("AIza"), "{rest}");
    let status = folder.run(&["--json", "status"]).exits(0).json();
    assert_eq!(status["states"]["submitted"]["count"], 5);
}

#[test]
fn ctrl_c_stops_cleanly_and_says_how_to_go_on() {
    interrupt("INT");
}

#[test]
fn sigterm_does_the_same() {
    interrupt("TERM");
}

#[test]
fn a_second_ctrl_c_does_not_wait_and_loses_nothing() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "twice", 2);
    let mut run = folder.gleaner(&["run", "jobs.jsonl", "--simulate", "--on-result", "touch busy; exec sleep 600"]);
    run.env("GLEANER_SUBMIT_LEASE", "1s").env("GLEANER_BACKOFF_BASE", "5ms");
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !folder.path("busy").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let mut err = BufReader::new(child.stderr.take().unwrap());
    signal(&child, "INT");
    let mut line = String::new();
    while !line.contains("Ctrl-C again stops at once") {
        line.clear();
        assert!(err.read_line(&mut line).unwrap() > 0, "it ended at the first");
    }
    signal(&child, "INT");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut err, &mut rest).unwrap();
    assert!(rest.contains("Nothing is lost") && rest.contains("This goes on:\n"), "{rest}");
    assert!(rest.contains(" run jobs.jsonl --simulate --on-result 'touch busy; exec sleep 600'\n"), "{rest}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let json = folder.run(&["--json", "run", "jobs.jsonl", "--simulate", "--on-result", "exit 0"]).exits(0).json();
    assert_eq!(json["consumed"], 2);
}

#[test]
fn an_interrupted_run_goes_on_where_it_stood() {
    let folder = Folder::new();
    let journal = folder.path("journal.jsonl");
    let journal = ["--journal", journal.to_str().unwrap()];
    folder.write_jobs("jobs.jsonl", "again", 30);
    let slow = Simulator::start(&[&journal[..], &["--polls", "1000000"]].concat());
    let mut child =
        folder.with(&slow, &["run", "jobs.jsonl"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut String::new()).unwrap();
    signal(&child, "INT");
    std::io::Read::read_to_string(&mut err, &mut String::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(slow);
    let quick = Simulator::start(&journal);
    let json = folder.run_with(&quick, &["--json", "run", "jobs.jsonl"]).exits(0).json();
    assert_eq!((&json["consumed"], &json["possible_duplicates"]), (&json!(30), &json!(0)));
    assert_eq!(quick.log().len(), 30);
}
