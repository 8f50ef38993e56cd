//! `submit`, `tick`, `pause`, `resume`, `cancel`.

use std::process::Stdio;

use serde_json::{Value, json};

use super::common::Simulator;
use super::{Folder, Said};

/// Ticks until nothing is open.
fn tick_to_the_end(folder: &Folder, simulator: &Simulator) {
    for _ in 0..1000 {
        let json = folder.run_with(simulator, &["--json", "tick"]).exits(0).json();
        if json["next_due"].is_null() {
            return;
        }
    }
    panic!("it does not come to an end");
}

#[test]
fn submit_lands_and_tick_does_the_rest() {
    let simulator = Simulator::start(&[]);
    let folder = Folder::new();
    folder.write_jobs("one.jsonl", "one", 3);
    folder.write("two.jsonl", "{\"input\": \"two\"}\nno json\n");
    let submit = || folder.run(&["--json", "submit", "one.jsonl", "two.jsonl"]).exits(0);
    let said = submit();
    let json = said.json();
    assert_eq!((&json["waiting"], &json["intakes"][1]["bad_lines"]), (&json!(5), &json!(1)));
    assert_eq!(said.err.matches("two.jsonl:2: bad_line:json").count(), 1, "{}", said.err);
    assert_eq!(submit().json()["intakes"][0]["before"], true);
    assert_eq!(simulator.log().len(), 0);
    tick_to_the_end(&folder, &simulator);
    let status = folder.run(&["--json", "status"]).exits(0).json();
    assert_eq!((&status["states"]["consumed"]["count"], &status["bad_lines"]), (&json!(4), &json!(1)));
    assert_eq!((&status["waiting"], &status["intakes"], &status["intakes_read"]), (&json!(0), &json!([]), &json!(2)));
    assert_eq!(simulator.log().len(), 4);
}

/// Runs a command that the program told somebody to type, in a shell.
fn type_in(folder: &Folder, hint: &str) -> Said {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_gleaner"));
    let path = std::env::join_paths([program.parent().unwrap(), "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let mut shell = std::process::Command::new("sh");
    let shell = shell.current_dir(&folder.0).env_clear().env("PATH", path).args(["-c", hint]);
    shell.output().unwrap().into()
}

#[test]
fn what_people_are_told_to_type_works_as_it_is_and_simulated_ticks_end() {
    let folder = Folder::new();
    folder.write_jobs("my jobs.jsonl", "typed", 3);
    let said = folder.run(&["--data", "it's mine", "submit", "my jobs.jsonl", "--simulate"]).exits(0);
    let hints: Vec<&str> = said.out.lines().filter_map(|line| line.strip_prefix("  gleaner ")).collect();
    assert_eq!(
        hints,
        [r"--data 'it'\''s mine' tick --simulate", r"--data 'it'\''s mine' run 'my jobs.jsonl' --simulate"]
    );
    assert!(said.out.lines().all(|line| line.chars().count() <= 80), "{}", said.out);
    let [tick, run] = [0, 1].map(|hint| format!("gleaner {}", hints[hint]));
    let nothing_left = || type_in(&folder, &tick).exits(0).out.contains("Nothing is left to do.");
    assert!((0..100).any(|_| nothing_left()), "ticks with --simulate don't come to an end");
    type_in(&folder, &run).exits(0);
    let pause = folder.run(&["--data", "it's mine", "pause"]).exits(0);
    let resume = pause.out.split('`').nth(1).unwrap();
    let status = folder.run(&["--data", "it's mine", "status"]).exits(0);
    assert!(status.out.contains(&format!("paused until\n`{resume}`")), "{}", status.out);
    assert_eq!(type_in(&folder, resume).exits(0).out, "Open: everything (it was: paused by hand)\n");
}

#[test]
fn every_tick_tells_what_a_person_must_mend() {
    let simulator = Simulator::start(&["--fault", "key-rejected=1"]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "cron", 2);
    folder.run(&["submit", "jobs.jsonl"]).exits(0);
    for _ in 0..3 {
        let said = folder.run_with(&simulator, &["tick"]).exits(1);
        assert!(said.err.contains("(operator:key): HTTP 400") && said.err.contains("To mend it:"), "{}", said.err);
    }
    let status = folder.run(&["status"]).exits(0).out;
    let words = status.replace('\n', " ");
    assert!(words.contains("operator:key: HTTP 400") && words.contains("API key not valid"), "{status}");
    assert!(!status.contains("Something is due now"), "{status}");
    assert!(status.lines().all(|line| line.chars().count() <= 80), "{status}");
    // Another key's gate is not closed.
    let other = Simulator::start(&[]);
    let mut tick = folder.with(&other, &["tick"]);
    Said::from(tick.env("GEMINI_API_KEY", "AIza-another-key").output().unwrap()).exits(0);
}

#[test]
fn submit_takes_the_good_files_and_names_the_others() {
    let folder = Folder::new();
    folder.write_jobs("good.jsonl", "good", 1);
    folder.write("header.jsonl", "{\"gleaner\": {\"modell\": \"x\"}}\n{\"input\": \"x\"}\n");
    let said = folder.run(&["submit", "header.jsonl", "good.jsonl"]).exits(2);
    assert!(said.err.contains("header.jsonl:1") && said.out.contains("good.jsonl"), "{} {}", said.out, said.err);
    assert_eq!(folder.run(&["--json", "status"]).exits(0).json()["waiting"], 1);
}

#[test]
fn a_pause_holds_and_a_resume_lets_go() {
    let simulator = Simulator::start(&[]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "pause", 3);
    folder.run(&["submit", "jobs.jsonl"]).exits(0);
    let reason = "the budget\u{1b}[31m is used up";
    let paused = folder.run(&["--json", "pause", "--reason", reason]).exits(0);
    assert_eq!(paused.json()["paused"], reason);
    let tick = folder.run_with(&simulator, &["tick"]).exits(0);
    assert!(
        tick.err.contains("everything paused until `gleaner resume`") && !tick.err.contains('\u{1b}'),
        "{}",
        tick.err
    );
    let status = folder.run(&["status"]).exits(0);
    let words = status.out.replace('\n', " ");
    assert!(words.contains("the budget\u{fffd}[31m is used up"), "{}", status.out);
    assert_eq!(folder.run(&["--json", "status"]).exits(0).json()["paused"], reason);
    assert_eq!(simulator.log().len(), 0);
    let resumed = folder.run(&["--json", "resume"]).exits(0).json();
    assert_eq!(resumed["opened"], json!(["everything"]));
    assert_eq!(folder.run(&["resume"]).exits(0).out, "Nothing was paused or closed.\n");
    folder.run_with(&simulator, &["run", "jobs.jsonl"]).exits(0);
    assert_eq!(simulator.log().len(), 3);
}

/// One tick, against a simulator on which nothing ends.
fn sent(folder: &Folder, simulator: &Simulator, file: &str) {
    folder.run(&["submit", file]).exits(0);
    folder.run_with(simulator, &["tick"]).exits(0);
}

#[test]
fn a_job_is_cancelled_here_and_at_gemini() {
    let simulator = Simulator::start(&["--polls", "1000000"]);
    let folder = Folder::new();
    folder.write(
        "jobs.jsonl",
        "{\"input\": \"a\", \"idempotency_key\": \"job-a\"}\n{\"input\": \"b\", \"idempotency_key\": \"job-b\"}\n",
    );
    sent(&folder, &simulator, "jobs.jsonl");
    let handle = folder.run(&["--json", "show", "job-a"]).exits(0).json()["handles"][0]["id"].clone();
    let cancel = ["--json", "cancel", handle.as_str().unwrap(), "--reason", "wrong prompt"];
    let json = folder.run_with(&simulator, &cancel).exits(0).json();
    assert_eq!(json, json!({"jobs": [{"id": "job-a", "outcome": "discarded"}], "lines_discarded": null}));
    let job = folder.run(&["--json", "show", "job-a"]).exits(0).json();
    assert_eq!((&job["state"], &job["message"]), (&json!("discarded"), &json!("wrong prompt")));
    assert_eq!(job["handles"][0]["fate"], "ended");
    let other = folder.run(&["--json", "show", "job-b"]).exits(0).json();
    assert_eq!(other["state"], "submitted");
}

#[test]
fn a_file_is_cancelled_with_its_lines_that_wait_and_no_other_is_touched() {
    let simulator = Simulator::start(&["--polls", "1000000"]);
    let folder = Folder::new();
    folder.write_jobs("sent.jsonl", "sent", 3);
    folder.write_jobs("waits.jsonl", "waits", 40);
    folder.write_jobs("other.jsonl", "other", 2);
    sent(&folder, &simulator, "sent.jsonl");
    let submitted = folder.run(&["--json", "submit", "waits.jsonl", "other.jsonl"]).exits(0).json();
    let sha256 = submitted["intakes"][0]["sha256"].as_str().unwrap();
    let json = folder.run_with(&simulator, &["--json", "cancel", sha256.get(..8).unwrap()]).exits(0).json();
    assert_eq!((&json["jobs"], &json["lines_discarded"]), (&json!([]), &json!(40)));
    assert_eq!(simulator.log().len(), 3, "nothing was sent by a cancel");
    let status = folder.run(&["--json", "status"]).exits(0).json();
    assert_eq!((&status["states"]["discarded"]["count"], &status["waiting"]), (&json!(40), &json!(2)));
    let again = folder.run_with(&simulator, &["--json", "run", "waits.jsonl"]).exits(0);
    assert_eq!(again.json()["discarded"], 40);
    assert!(again.err.contains("this file was cancelled (cancelled by hand)"), "{}", again.err);
    let first: Value = folder.run(&["--json", "submit", "sent.jsonl"]).exits(0).json();
    let said: Said = folder.run_with(&simulator, &["cancel", first["intakes"][0]["sha256"].as_str().unwrap()]).exits(0);
    assert_eq!(said.out.matches("discarded, here and at Gemini").count(), 3, "{}", said.out);
}

#[test]
fn what_has_finished_is_paid_for_and_collected() {
    let simulator = Simulator::start(&["--polls", "0"]);
    let folder = Folder::new();
    folder.write("jobs.jsonl", "{\"input\": \"a\", \"idempotency_key\": \"job-a\"}\n");
    sent(&folder, &simulator, "jobs.jsonl");
    let json = folder.run_with(&simulator, &["--json", "cancel", "job-a"]).exits(0).json();
    assert_eq!(json["jobs"][0]["outcome"], "already_finished");
    folder.run_with(&simulator, &["run", "jobs.jsonl"]).exits(0);
    let json = folder.run_with(&simulator, &["--json", "cancel", "job-a"]).exits(0).json();
    assert_eq!((&json["jobs"][0]["outcome"], &json["jobs"][0]["state"]), (&json!("ended"), &json!("consumed")));
}

#[test]
fn a_bad_line_is_settled_for_good() {
    let folder = Folder::new();
    folder.write("jobs.jsonl", "{\"input\": \"a\"}\nno json\n");
    folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(3);
    let dead = folder.run(&["--json", "dead"]).exits(0).json();
    let id = dead["dead"][0]["id"].as_str().unwrap();
    let (intake, number) = id.strip_prefix("line/").unwrap().split_once('/').unwrap();
    let short = format!("line/{}/{number}", intake.get(..12).unwrap());
    let cancel = |id: &str| {
        let json = folder.run(&["--json", "cancel", id, "--simulate", "--reason", "a slip"]).exits(0).json();
        (json["jobs"][0]["id"].clone(), json["jobs"][0]["outcome"].clone())
    };
    assert_eq!(cancel(&short), (json!(id), json!("discarded")));
    let bad = folder.run(&["--json", "show", id]).exits(0).json();
    assert_eq!((&bad["state"], &bad["class"]), (&json!("discarded"), &json!("bad_line:json")));
    let message = bad["message"].as_str().unwrap();
    assert!(message.starts_with("a slip (it was: not JSON"), "{message}");
    assert_eq!(cancel(id), (json!(id), json!("ended")), "once more");
    folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(0);
    assert_eq!(folder.run(&["dead"]).exits(0).out, "There are no dead letters.\n");
}

#[test]
fn a_file_is_cancelled_under_a_run_and_the_counts_are_right() {
    let simulator = Simulator::start(&["--latency", "20ms", "--polls", "1000000"]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "under way", 600);
    let sha256 = folder.run(&["--json", "submit", "jobs.jsonl"]).exits(0).json()["intakes"][0]["sha256"].clone();
    let mut run = folder.with(&simulator, &["--json", "run", "jobs.jsonl"]);
    let mut run = run.env("GLEANER_CONCURRENCY", "2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while simulator.log().len() < 5 {
        assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
    }
    let cancel = folder.run_with(&simulator, &["--json", "cancel", sha256.as_str().unwrap()]).exits(0).json();
    let run = Said::from(run.wait_with_output().unwrap()).exits(0).json();
    assert_eq!(run["discarded"], 600);
    let (jobs, lines) = (cancel["jobs"].as_array().unwrap().len(), cancel["lines_discarded"].as_u64().unwrap());
    assert!(jobs >= 5 && lines > 0, "{jobs} jobs, {lines} lines");
    assert!(jobs as u64 + lines <= 600, "{jobs} jobs, {lines} lines");
    let sent = simulator.log().len() as u64;
    // What was sent between the cancel and the moment in which the run saw it counts as a line, if at all.
    assert!(lines <= 600 - jobs as u64 && lines + sent >= 600, "{jobs} jobs, {lines} lines, {sent} sent");
}
