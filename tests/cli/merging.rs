//! `results`: one file of a run.

use std::process::Stdio;

use serde_json::{Value, json};

use super::Said;
use super::made_run::{MadeRun, blocked, busy, good};

/// A run that is over: 8 rows in two parts, one of them halved; results in another order than the rows.
fn over() -> MadeRun {
    let mut run = MadeRun::of(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    let mut one = run.cut(&["a", "b", "c", "d"]);
    run.attempt(&mut one, &[good("d"), blocked("c"), busy("a"), good("b")]);
    run.attempt(&mut one, &[good("a")]);
    let mut two = run.cut(&["e", "f", "g", "h"]);
    run.send(&mut two);
    two.part.attempts[0].ended = Some(("expired".to_owned(), String::new()));
    run.attempt(&mut two, &[blocked("e"), good("f")]);
    run.pass(&mut two, 1, &[good("e")], true);
    two.open.clear();
    let mut left = run.half(&mut two, 0, &["g"]);
    let mut right = run.half(&mut two, 1, &["h"]);
    run.attempt(&mut left, &[good("g")]);
    run.attempt(&mut right, &[blocked("h")]);
    for made in [one, two, left, right] {
        run.write(made);
    }
    run
}

/// Keys with their values, or with the classes of their errors.
fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let what = line["value"].as_str().or_else(|| line["error"]["class"].as_str()).unwrap();
            format!("{}: {what}", line["key"].as_str().unwrap())
        })
        .collect()
}

const RESULTS: [&str; 6] = ["a: answer a", "b: answer b", "d: answer d", "e: answer e", "f: answer f", "g: answer g"];

#[test]
fn results_come_in_the_order_of_the_rows_however_they_were_found() {
    let run = over();
    let said = run.folder.run(&["results", "rows.jsonl"]).exits(0);
    assert_eq!(lines(&said.out), RESULTS);
    assert!(said.err.contains("6 results; 2 dead, left out."), "{}", said.err);
    let line: Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    let mut fields: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort();
    assert_eq!((fields, &line["attempt"]), (vec!["attempt", "key", "usage", "value"], &json!(2)));
    let said = run.folder.run(&["results", &run.start(8), "--with-dead"]).exits(0);
    let mut all = RESULTS.to_vec();
    all.insert(2, "c: blocked:SAFETY");
    all.push("h: blocked:SAFETY");
    assert_eq!(lines(&said.out), all);
    let dead: Value = serde_json::from_str(said.out.lines().nth(2).unwrap()).unwrap();
    assert_eq!(dead["error"]["attempts"], 1);
    assert_eq!(dead.as_object().unwrap().len(), 2, "the request stays out: {dead}");
    assert!(!dead["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn a_file_is_written_whole_and_replaces_another() {
    let run = over();
    run.folder.write("out.jsonl", "old\n");
    let json = run.folder.run(&["--json", "results", "rows.jsonl", "-o", "out.jsonl", "--with-dead"]).exits(0).json();
    assert_eq!(
        json,
        json!({"run": run.key(), "rows": 8, "results": 6, "dead": 2, "discarded": 0, "open": 0, "file": "out.jsonl"})
    );
    let text = std::fs::read_to_string(run.folder.path("out.jsonl")).unwrap();
    assert_eq!(lines(&text).len(), 8);
    let names: Vec<_> =
        std::fs::read_dir(run.folder.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
    let said = run.folder.run(&["--json", "results", "rows.jsonl"]).exits(2);
    assert!(said.err.contains("-o FILE"), "{}", said.err);
    for bad in ["no/such/folder.jsonl", ".gleaner"] {
        let said = run.folder.run(&["results", "rows.jsonl", "-o", bad]).exits(1);
        assert!(said.err.contains(&format!("{bad} can't be written")), "{}", said.err);
    }
    run.folder.run(&["results", "none.jsonl"]).exits(2);
}

#[test]
fn open_rows_are_told_and_left_out() {
    let mut run = MadeRun::of(&["a", "b", "c"]);
    let mut one = run.cut(&["a", "b"]);
    run.attempt(&mut one, &[good("a"), busy("b")]);
    run.write(one);
    let said = run.folder.run(&["results", "rows.jsonl", "--with-dead"]).exits(1);
    assert_eq!(lines(&said.out), ["a: answer a"]);
    assert!(said.err.contains("2 rows are still open"), "{}", said.err);
    let json = run.folder.run(&["--json", "results", "rows.jsonl", "-o", "x"]).exits(1).json();
    assert_eq!((&json["open"], &json["rows"], &json["results"]), (&json!(2), &json!(3), &json!(1)));
}

#[test]
fn rows_that_a_person_gave_up_have_their_line_too() {
    let mut run = MadeRun::of(&["a", "b"]);
    let mut one = run.cut(&["a", "b"]);
    run.attempt(&mut one, &[good("a"), busy("b")]);
    (one.part.discarded, one.open) = (1, String::new());
    run.write(one);
    run.change(|intake| intake.cancelled = Some("no more money".to_owned()));
    let said = run.folder.run(&["results", "rows.jsonl", "--with-dead"]).exits(0);
    assert_eq!(lines(&said.out), ["a: answer a", "b: discarded"]);
    assert!(said.out.contains("no more money") && said.err.contains("1 discarded, with their errors"), "{}", said.err);
}

#[test]
fn files_that_are_not_what_the_ledger_says_are_told_and_no_file_is_left() {
    for (tampering, words) in [
        ("", "the books don't add up"),
        ("{\"key\":\"z\",\"value\":1,\"usage\":null,\"attempt\":1}\n", "of rows that it hasn't"),
        ("{\"key\":\"a\",\"value\":1,\"usage\":null,\"attempt\":1}\n", "settled already"),
        ("no json\n", "is broken at byte"),
    ] {
        let run = over();
        let object = format!(".gleaner/results/{}/1.1.000000000001.jsonl", run.key());
        let before = std::fs::read_to_string(run.folder.path(&object)).unwrap();
        let after = if tampering.is_empty() { String::new() } else { before + tampering };
        run.folder.write(&object, after);
        let said = run.folder.run(&["results", "rows.jsonl", "-o", "out"]).exits(1);
        assert!(said.err.contains(words), "{words}: {}", said.err);
        assert!(!run.folder.path("out").exists());
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_a_quiet_end() {
    let run = over();
    let mut child =
        run.folder.gleaner(&["results", "rows.jsonl"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let said = Said::from(child.wait_with_output().unwrap()).exits(0);
    assert!(!said.err.contains("pipe"), "{}", said.err);
}
