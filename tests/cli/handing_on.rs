//! `--on-result`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Folder;

#[test]
fn each_result_comes_once_with_its_id_and_its_file() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "hand", 8);
    let command = "cat > got-$GLEANER_ID && cmp -s got-$GLEANER_ID \"$GLEANER_RESULT\" && echo $GLEANER_ID >> ids";
    let said = folder.run(&["--json", "run", "jobs.jsonl", "--simulate", "--on-result", command]).exits(0);
    assert_eq!(said.json()["consumed"], 8, "what the command prints stays out of the JSON");
    let ids = std::fs::read_to_string(folder.path("ids")).unwrap();
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    let results = folder.results();
    assert_eq!(results.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), ids.into_iter().collect());
    // Once more: they were all taken, and nobody gets them again.
    folder.run(&["run", "jobs.jsonl", "--simulate", "--on-result", "exit 1"]).exits(0);
}

#[test]
fn a_command_that_always_fails_parks_its_job_after_five_tries_and_keeps_the_result() {
    let folder = Folder::new();
    folder.write(
        "jobs.jsonl",
        "{\"input\": \"a\", \"idempotency_key\": \"good\"}\n{\"input\": \"b\", \"idempotency_key\": \"bad\"}\n",
    );
    let command = "echo $GLEANER_ID >> tries; echo 'disk quota' >&2; test $GLEANER_ID = good";
    let mut run = folder.gleaner(&["--json", "run", "jobs.jsonl", "--simulate", "--on-result", command]);
    let said = super::Said::from(run.env("GLEANER_BACKOFF_BASE", "5ms").output().unwrap()).exits(3);
    assert_eq!((&said.json()["consumed"], &said.json()["parked"]), (&json!(1), &json!(1)));
    let tries = std::fs::read_to_string(folder.path("tries")).unwrap();
    assert_eq!((tries.matches("bad").count(), tries.matches("good").count()), (5, 1));
    let bad = folder.run(&["--json", "show", "bad"]).exits(0).json();
    assert_eq!((&bad["state"], &bad["class"]), (&json!("parked"), &json!("internal:consume")));
    assert!(bad["message"].as_str().unwrap().contains("disk quota"), "{bad}");
    let text = folder.run(&["show", "bad"]).exits(0).out;
    assert_eq!(text.matches("results/bad.json").count(), 1, "{text}");
    let result: Value = super::json_file(&folder.path(bad["paths"]["result"].as_str().unwrap()));
    assert_eq!(result["idempotency_key"], "bad");
}

#[test]
fn a_run_without_the_command_hands_on_to_the_one_that_the_file_was_begun_with() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "begun", 6);
    let begun = "test -e open && echo $GLEANER_ID >> got";
    let mut run = folder.gleaner(&["run", "jobs.jsonl", "--simulate", "--on-result", begun]);
    super::Said::from(run.env("GLEANER_BACKOFF_BASE", "1ms").output().unwrap()).exits(3);
    folder.write("open", "");
    let json = folder.run(&["--json", "run", "jobs.jsonl", "--simulate"]).exits(0).json();
    assert_eq!((&json["recovered"], &json["parked"]), (&json!(6), &json!(0)), "{json}");
    let got = std::fs::read_to_string(folder.path("got")).unwrap();
    assert_eq!(got.lines().collect::<BTreeSet<_>>().len(), 6, "{got}");
}

#[test]
fn a_command_that_is_not_there_stops_the_run_and_condemns_nothing() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "typo", 5);
    let said = folder.run(&["--json", "run", "jobs.jsonl", "--simulate", "--on-result", "./no-such-program"]).exits(1);
    assert!(said.err.contains("no result can be handed on") && said.err.contains("status: 127"), "{}", said.err);
    assert_eq!((&said.json()["parked"], &said.json()["open"]), (&json!(0), &json!(5)));
    let json = folder.run(&["--json", "run", "jobs.jsonl", "--simulate", "--on-result", "exit 0"]).exits(0).json();
    assert_eq!(json["consumed"], 5);
}

#[test]
fn a_result_file_that_is_not_the_jobs_is_never_taken_for_its_result() {
    let folder = Folder::new();
    folder.write("jobs.jsonl", "{\"input\": \"a\", \"idempotency_key\": \"mine\"}\n");
    folder.run(&["submit", "jobs.jsonl", "--simulate"]).exits(0);
    folder.write(".gleaner/results/mine.json", "foreign");
    let said = folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(1);
    assert!(said.err.contains("results/mine.json is there already and is no result of this job"), "{}", said.err);
    std::fs::remove_file(folder.path(".gleaner/results/mine.json")).unwrap();
    folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(0);
}
