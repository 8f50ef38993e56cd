//! `replay` and `discard`, and what `dead` and `show` tell of dead letters.

use std::path::Path;

use serde_json::{Value, json};

use super::common::Simulator;
use super::{Folder, Said, json_file};

/// A folder with `count` blocked jobs, and the simulator that blocked them.
fn blocked(count: usize) -> (Folder, Simulator) {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "Blocked", count);
    let simulator = Simulator::start(&["--polls", "0", "--fault", "blocked=1"]);
    folder.run_with(&simulator, &["run", "jobs.jsonl"]).exits(3);
    (folder, simulator)
}

fn calm(simulator: &Simulator) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let put = reqwest::Client::builder().no_proxy().build().unwrap();
    let put = put.put(format!("{}/simulator/faults", simulator.base_url)).body("{}");
    let put = put.header("content-type", "application/json");
    assert!(runtime.block_on(async { put.send().await }).unwrap().status().is_success());
}

fn field<'a>(answer: &'a Value, name: &str) -> Vec<&'a str> {
    answer["items"].as_array().unwrap().iter().map(|item| item[name].as_str().unwrap()).collect()
}

fn bytes(folder: &Folder) -> Vec<Vec<u8>> {
    let read = |name: &str| std::fs::read(folder.path(".gleaner").join(name)).unwrap();
    ["ledger.db", "dead-letters.db"].map(read).into()
}

#[test]
fn a_dry_run_needs_no_key_and_leaves_every_byte() {
    let (folder, simulator) = blocked(25);
    let accepted = simulator.log().len();
    let before = bytes(&folder);
    let answer = folder.run(&["--json", "replay"]).exits(0).json();
    let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let mut expected = ["scanned", "recovered", "still_failing", "resubmitted", "dry_run", "items"];
    expected.sort_unstable();
    assert_eq!(names, expected, "{answer}");
    assert_eq!(
        ["scanned", "recovered", "still_failing", "resubmitted"].map(|n| answer[n].as_u64().unwrap()),
        [20, 0, 0, 0]
    );
    assert_eq!((&answer["dry_run"], field(&answer, "outcome")), (&json!(true), vec!["would_replay"; 20]));
    let dead = folder.run(&["--json", "dead", "--limit", "20"]).exits(0).json();
    let listed: Vec<&str> = dead["dead"].as_array().unwrap().iter().map(|dead| dead["id"].as_str().unwrap()).collect();
    assert_eq!(field(&answer, "id"), listed);
    let text = folder.run(&["replay", "--limit", "30", "--class", "blocked"]).exits(0).out;
    assert!(text.contains("25 would be replayed, of 25 dead letters. Nothing was done"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(folder.run(&["replay", "--class", "block"]).exits(0).out.trim(), "No dead letter is one of those.");
    assert!(bytes(&folder) == before, "something was written");
    assert!(!folder.path(".gleaner/replays").exists());
    assert_eq!(simulator.log().len(), accepted);
}

#[test]
fn a_replay_is_done_and_told_and_ends_by_ticks() {
    let (folder, simulator) = blocked(5);
    calm(&simulator);
    let replay = |more: &[&str]| folder.run_with(&simulator, &[&["--json", "replay"], more].concat());
    let refused = replay(&["--apply"]).exits(2);
    assert!(refused.err.contains("--reason <WHY>"), "{}", refused.err);
    for (arguments, said) in [
        (["--limit", "1001"], "limit"),
        (["--request", "{"], "--request is no JSON"),
        (["--request", "[1]"], "an object"),
        (["--run", "nothing"], "no batch run nothing"),
    ] {
        let refused = replay(&[&arguments[..], &["--reason", "x", "--apply"]].concat()).exits(2);
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    let unknown = replay(&["0123456789", "--reason", "x", "--apply"]).exits(2);
    assert!(unknown.err.contains("there is no dead letter 0123456789"), "{}", unknown.err);
    let answer =
        replay(&["--limit", "2", "--class", "blocked", "--reason", "it was a false alarm", "--apply"]).exits(0).json();
    assert_eq!((&answer["resubmitted"], &answer["dry_run"]), (&json!(2), &json!(false)), "{answer}");
    let id = field(&answer, "id")[0].to_owned();
    let show = |id: &str| folder.run(&["show", id]).exits(0).out;
    assert!(show(&id).contains("it was a false alarm"), "{}", show(&id));
    // Each is looked at when it is due, a moment after it was sent.
    let mut job = json!(null);
    for _ in 0..200 {
        folder.run_with(&simulator, &["tick"]).exits(0);
        job = folder.run(&["--json", "show", &id]).exits(0).json();
        if folder.run(&["--json", "status"]).exits(0).json()["states"]["submitted"]["count"].as_u64().unwrap_or(0) == 0
        {
            break;
        }
    }
    assert_eq!(
        (&job["state"], &job["replays"], &job["attempts"]),
        (&json!("recovered"), &json!(1), &json!(2)),
        "{job}"
    );
    let result = json_file(&folder.path(&format!(".gleaner/results/{id}.json")));
    assert_eq!(result["idempotency_key"], json!(id));
    let text = show(&id);
    assert!(text.contains("blocked:SAFETY") && text.contains("recovered"), "its history: {text}");
    // The run's file goes on with them.
    let tally = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(3).json();
    assert_eq!((&tally["recovered"], &tally["parked"]), (&json!(2), &json!(3)), "{tally}");
    assert_eq!(simulator.log().len(), 7);
    // What is dead again at once is told by the exit code.
    let text =
        folder.run_with(&simulator, &["replay", "--model", "no-such-model", "--reason", "x", "--apply"]).exits(3).out;
    assert!(text.contains("still failing: permanent:404") && text.contains("3 still failing"), "{text}");
}

#[test]
fn what_only_a_person_can_mend_is_told() {
    let (folder, simulator) = blocked(3);
    let simulator_down = Simulator::start(&["--fault", "key-rejected=1"]);
    let said = folder.run_with(&simulator_down, &["replay", "--reason", "x", "--apply"]).exits(1);
    assert!(said.err.contains("GEMINI_API_KEY") && said.out.contains("tried anew"), "{} {}", said.out, said.err);
    calm(&simulator);
    let tally = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(0).json();
    assert_eq!(tally["recovered"], json!(3), "what was claimed goes on: {tally}");
}

#[test]
fn two_processes_at_once_send_nothing_twice() {
    let (folder, simulator) = blocked(60);
    calm(&simulator);
    let spawn = || {
        let mut command =
            folder.with(&simulator, &["--json", "replay", "--limit", "60", "--reason", "both of us", "--apply"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let both = [spawn(), spawn()].map(|child| Said::from(child.wait_with_output().unwrap()));
    let resubmitted = both.iter().map(|said| {
        assert!(matches!(said.code, Some(0 | 3)), "{}", said.err);
        let answer = said.json();
        assert_eq!(answer["recovered"], json!(0), "{answer}");
        answer["resubmitted"].as_u64().unwrap()
    });
    assert_eq!(resubmitted.sum::<u64>(), 60);
    let tally = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(0).json();
    assert_eq!((&tally["recovered"], &tally["possible_duplicates"]), (&json!(60), &json!(0)), "{tally}");
    assert_eq!(simulator.log().len(), 120);
}

#[test]
fn dead_letters_are_given_up_with_a_reason() {
    let (folder, simulator) = blocked(4);
    folder.write("bad.jsonl", "{\"input\": \"one\"}\nno JSON\nnone either\n");
    calm(&simulator);
    folder.run_with(&simulator, &["run", "bad.jsonl"]).exits(3);
    let before = bytes(&folder);
    let text = folder.run(&["discard", "--class", "bad_line"]).exits(0).out;
    assert!(text.contains("2 would be discarded, of 6 dead letters. Nothing was done"), "{text}");
    assert!(folder.run(&["discard", "--class", "bad_line", "--apply"]).exits(2).err.contains("--reason"));
    let dead = folder.run(&["--json", "dead", "--class", "blocked"]).exits(0).json();
    let id = dead["dead"][0]["id"].as_str().unwrap();
    assert!(folder.run(&["discard", id]).exits(2).err.contains("--reason WHY is needed"));
    assert!(bytes(&folder) == before, "something was written");
    let answer = folder.run(&["--json", "discard", id, "--reason", "nobody reads it"]).exits(0).json();
    assert_eq!((&answer["discarded"], &answer["dry_run"]), (&json!(1), &json!(false)), "{answer}");
    let again = folder.run(&["--json", "discard", id, "--reason", "again"]).exits(3).json();
    assert_eq!(field(&again, "why"), ["it is no dead letter any more, but discarded"]);
    let all = ["discard", "--class", "bad_line", "--reason", "mended elsewhere", "--apply"];
    assert!(folder.run(&all).exits(0).out.contains("2 dead letters discarded, 0 left"));
    let show = |id: &str| folder.run(&["show", id]).exits(0).out;
    assert!(show(id).contains("nobody reads it") && show(id).contains("blocked:SAFETY"), "{}", show(id));
    let sha256 = folder.run(&["--json", "show", "bad.jsonl"]).exits(0).json()["sha256"].as_str().unwrap().to_owned();
    let bad = show(&format!("line/{}/2", sha256.get(..8).unwrap()));
    assert!(bad.contains("discarded") && bad.contains("mended elsewhere") && bad.contains("bad_line:json"), "{bad}");
    let status = folder.run(&["--json", "status"]).exits(0).json();
    assert_eq!((&status["states"]["parked"]["count"], &status["bad_lines"]), (&json!(3), &json!(0)), "{status}");
    assert_eq!(simulator.log().len(), 5, "nothing was sent for it");
}

#[test]
fn dead_is_narrowed_in_every_way() {
    let (folder, _simulator) = blocked(3);
    folder.write("bad.jsonl", "no JSON\n{\"input\": \"one\"}\n");
    folder.run(&["submit", "bad.jsonl"]).exits(0);
    let list = |more: &[&str]| {
        let json = folder.run(&[&["--json", "dead"], more].concat()).exits(0).json();
        json["dead"].as_array().unwrap().iter().map(|dead| dead["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = list(&[]);
    assert_eq!(all.len(), 3, "a line that waits is none yet");
    assert_eq!(list(&["--mode", "interaction"]), all);
    assert!(list(&["--mode", "batch"]).is_empty() && list(&["--mode", "call"]).is_empty());
    assert_eq!((list(&["--older-than", "0s"]), list(&["--older-than", "1h"]).len()), (all.clone(), 0));
    assert_eq!(list(&["--id", &all[1], "--id", &all[0]]), all[..2].to_vec());
    assert_eq!(list(&["--class", "blocked", "--limit", "1"]), all[..1].to_vec());
    let text = folder.run(&["dead", "--older-than", "1h"]).exits(0).out;
    assert!(text.contains("None of the 3 dead letters is one of those."), "{text}");
    assert!(folder.run(&["dead", "--id", "unknown-one"]).exits(2).err.contains("there is no dead letter unknown-one"));
}

#[test]
fn simulated_work_is_replayed_with_the_same_flag() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "Simulated", 2);
    folder.run(&["run", "jobs.jsonl", "--simulate", "--fault", "blocked=1"]).exits(3);
    folder.run(&["replay"]).exits(0);
    let refused = folder.run(&["replay", "--reason", "x", "--apply"]).exits(2);
    assert!(refused.err.contains("Add --simulate"), "{}", refused.err);
    let said = folder.run(&["replay", "--reason", "x", "--apply", "--simulate"]).exits(0);
    assert!(said.out.contains("2 tried anew") && said.out.contains("gleaner tick --simulate"), "{}", said.out);
    let tally = folder.run(&["--json", "run", "jobs.jsonl", "--simulate"]).exits(0).json();
    assert_eq!(tally["recovered"], json!(2), "{tally}");
    assert!(Path::new(&folder.path(".gleaner/SIMULATED")).exists());
}
