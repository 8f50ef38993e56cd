//! Bad use, and what a person must mend.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use reqwest::Method;
use serde_json::json;

use super::common::Simulator;
use super::{Folder, Said};

#[test]
fn bad_use_exits_2_with_one_clear_sentence_and_leaves_nothing() {
    let folder = Folder::new();
    folder.write("empty.jsonl", "");
    folder.write_jobs("jobs.jsonl", "x", 1);
    std::fs::create_dir(folder.path("folder")).unwrap();
    let utf16 = "{\"input\": \"x\"}\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    folder.write("utf16.jsonl", [b"\xff\xfe", &utf16[..]].concat());
    folder.write("utf16-no-bom.jsonl", utf16);
    for (arguments, words) in [
        (&["run", "missing.jsonl", "--simulate"][..], "missing.jsonl: there is no such file"),
        (&["run", "folder", "--simulate"], "folder: it is a directory"),
        (&["run", "empty.jsonl", "--simulate"], "empty.jsonl: the file is empty"),
        (&["run", "utf16.jsonl", "--simulate"], "utf16.jsonl: the file is UTF-16, and must be UTF-8"),
        (&["submit", "utf16-no-bom.jsonl"], "utf16-no-bom.jsonl: the file is UTF-16, and must be UTF-8"),
        (&["run", "-", "--simulate"], "standard input can't be used"),
        (&["dead", "--limit", "0"], "1 or more"),
        (&["run", "jobs.jsonl", "--simulated"], "--simulated"),
        (&["run", "jobs.jsonl", "--fault", "create-drop=1"], "--simulate"),
        (&["run", "jobs.jsonl", "--simulate", "--fault", "create-dorp=1"], "create-dorp"),
        (&["run", "jobs.jsonl"], "GEMINI_API_KEY"),
        (&["tick"], "GEMINI_API_KEY"),
        (&["tick", "--simulate"], "there is no data folder .gleaner"),
        (&["status"], "there is no data folder .gleaner"),
        (&["show", "x"], "there is no data folder .gleaner"),
        (&["dead"], "there is no data folder .gleaner"),
        (&["pause"], "there is no data folder .gleaner"),
        (&["resume"], "there is no data folder .gleaner"),
        (&["cancel", "x", "--simulate"], "there is no data folder .gleaner"),
        (&["--data", "elsewhere", "status"], "there is no data folder elsewhere"),
        (&["simulator", "--port", "0", "--fault", "get-503=2"], "between 0 and 1"),
        (&["--stack", "night", "--data", "elsewhere", "status"], "--data"),
        (&["--stack", "night", "run", "jobs.jsonl", "--simulate"], "--simulate is for a data folder"),
        (&["--stack", "night", "submit", "jobs.jsonl", "--simulate"], "--simulate is for a data folder"),
        (&["--stack", "night", "tick", "--on-result", "cat"], "EventBridge"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let said = folder.run(arguments).exits(2);
        assert!(said.err.contains(words) && said.out.is_empty(), "{arguments:?}: {} {}", said.out, said.err);
        assert!(!folder.path(".gleaner").exists() && !folder.path("elsewhere").exists(), "{arguments:?}");
    }
}

#[test]
fn a_stack_that_cannot_be_asked_is_told_with_what_to_look_at() {
    let folder = Folder::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = folder
        .gleaner(&["--stack", "night", "status"])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "eu-west-1")])
        .env("AWS_ENDPOINT_URL", format!("http://{nobody}"))
        .env("AWS_MAX_ATTEMPTS", "1")
        .output()
        .unwrap();
    let said = Said::from(asked).exits(1);
    assert!(said.err.contains("AWS could not be asked about the stack night"), "{}", said.err);
    assert!(!folder.path(".gleaner").exists());
}

#[test]
fn a_file_of_one_json_text_over_many_lines_is_told_what_a_line_is() {
    let folder = Folder::new();
    folder.write("pretty.jsonl", "\n{\n  \"input\": \"x\"\n}\n");
    folder.write("array.jsonl", "[\n{\"input\": \"x\"}\n]\n");
    folder.write("one.jsonl", "[{\"input\": \"x\"}]\n");
    for file in ["pretty.jsonl", "array.jsonl", "one.jsonl"] {
        let said = folder.run(&["submit", file]).exits(0);
        let hint = format!("{file}: each line must be one whole JSON object\n");
        assert_eq!(said.err.matches(&hint).count(), 1, "{}", said.err);
    }
    folder.write("later.jsonl", "{\"input\": \"x\"}\nno json\n");
    let said = folder.run(&["submit", "later.jsonl"]).exits(0);
    assert!(!said.err.contains("each line must"), "{}", said.err);
    assert!(said.err.contains("later.jsonl: 1 bad line is kept as a dead letter;"), "{}", said.err);
}

#[test]
fn a_setting_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "x", 1);
    for (name, value) in [
        ("GLEANER_POLL_MIN", "soon"),
        ("GLEANER_MAX_ATTEMPTS", "0"),
        ("GLEANER_LOG", "gleaner=loud"),
        ("GLEANER_ON_UNCLEAR", "perhaps"),
    ] {
        let mut run = folder.gleaner(&["run", "jobs.jsonl", "--simulate"]);
        let said = Said::from(run.env(name, value).output().unwrap()).exits(2);
        assert!(said.err.contains(name) && said.err.contains(value), "{}", said.err);
        assert!(!folder.path(".gleaner").exists(), "{name}");
    }
    for (base, words) in [("http://example.test", "unencrypted"), ("gemini", "is no URL")] {
        let mut run = folder.gleaner(&["run", "jobs.jsonl"]);
        let said = Said::from(run.env("GEMINI_API_KEY", "x").env("GEMINI_BASE_URL", base).output().unwrap()).exits(2);
        assert!(said.err.contains("GEMINI_BASE_URL") && said.err.contains(words), "{}", said.err);
    }
    let mut run = folder.gleaner(&["run", "jobs.jsonl"]);
    let said = Said::from(run.env("GEMINI_API_KEY", "secret words").output().unwrap()).exits(2);
    assert!(said.err.contains("GEMINI_API_KEY") && !said.err.contains("secret"), "{}", said.err);
    let mut status = folder.gleaner(&["run", "jobs.jsonl", "--simulate"]);
    let said = Said::from(status.env("GLEANER_POLLMIN", "1s").output().unwrap()).exits(0);
    assert_eq!(said.err.matches("no setting GLEANER_POLLMIN").count(), 1, "{}", said.err);
}

#[test]
fn simulated_and_real_work_never_mix() {
    let simulator = Simulator::start(&[]);
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "mix", 2);
    folder.run(&["--data", "play", "run", "jobs.jsonl", "--simulate"]).exits(0);
    for command in [&["run", "jobs.jsonl"][..], &["tick"], &["submit", "jobs.jsonl"], &["cancel", "x"]] {
        let said = folder.run_with(&simulator, &[&["--data", "play"], command].concat()).exits(2);
        assert!(said.err.contains("play holds simulated work") && said.err.contains("--simulate"), "{}", said.err);
        let without_a_key = folder.run(&[&["--data", "play"], command].concat()).exits(2);
        assert_eq!(without_a_key.err, said.err);
    }
    folder.run_with(&simulator, &["--data", "work", "run", "jobs.jsonl"]).exits(0);
    for command in [&["run", "jobs.jsonl"][..], &["tick"], &["submit", "jobs.jsonl"], &["cancel", "x"]] {
        let said = folder.run(&[&["--data", "work"], command, &["--simulate"]].concat()).exits(2);
        assert!(said.err.contains("work holds real work"), "{}", said.err);
    }
    assert!(!folder.path("work/SIMULATED").exists());
    assert_eq!(simulator.log().len(), 2);
    for data in ["play", "work"] {
        let status = folder.run(&["--json", "--data", data, "status"]).exits(0).json();
        assert_eq!(status["states"]["consumed"]["count"], 2, "{data}");
    }
}

fn set_faults(simulator: &Simulator, faults: &serde_json::Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let request =
        http.request(Method::PUT, format!("{}/simulator/faults", simulator.base_url)).body(faults.to_string());
    let answer = runtime.block_on(async { request.send().await }).unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

#[test]
fn a_rejected_key_is_the_operators_and_charges_no_job() {
    let simulator = Simulator::start(&["--fault", "key-rejected=1"]);
    let folder = Folder::new();
    folder.write("jobs.jsonl", "{\"input\": \"a\", \"idempotency_key\": \"job-a\"}\n{\"input\": \"b\"}\n");
    let said = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(1);
    assert_eq!(said.err.matches("Gemini refuses the API key with the fingerprint ").count(), 1, "{}", said.err);
    assert!(said.err.contains("GEMINI_API_KEY") && !said.err.contains("AIza-a-key"), "{}", said.err);
    assert_eq!((&said.json()["parked"], &said.json()["consumed"]), (&json!(0), &json!(0)));
    let job = folder.run(&["--json", "show", "job-a"]).exits(0).json();
    assert_eq!((&job["attempts"], &job["state"]), (&json!(0), &json!("retryable")), "{job}");
    let gates = folder.run(&["--json", "status"]).exits(0).json()["gates"].clone();
    assert_eq!((&gates[0]["needs_person"], &gates[0]["class"]), (&json!(true), &json!("operator:key")), "{gates}");
    // The same key, mended at Google: a run tries at once, and does not wait for the gate.
    set_faults(&simulator, &json!({}));
    let json = folder.run_with(&simulator, &["--json", "run", "jobs.jsonl"]).exits(0).json();
    assert_eq!((&json["consumed"], &json["possible_duplicates"]), (&json!(2), &json!(0)));
    let job = folder.run(&["--json", "show", "job-a"]).exits(0).json();
    assert_eq!((&job["attempts"], &job["state"]), (&json!(1), &json!("consumed")));
}

#[test]
fn a_data_folder_that_cannot_be_used_exits_1() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "x", 1);
    folder.write("file", "");
    let said = folder.run(&["--data", "file", "run", "jobs.jsonl", "--simulate"]).exits(1);
    assert!(said.err.contains("a file is where a folder is needed"), "{}", said.err);
    std::fs::create_dir(folder.path("closed")).unwrap();
    std::fs::set_permissions(folder.path("closed"), std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(folder.path("closed/probe"), "").is_ok() {
        return; // The superuser may write everywhere.
    }
    let said = folder.run(&["--data", "closed", "run", "jobs.jsonl", "--simulate"]).exits(1);
    assert!(said.err.contains("closed") && said.err.contains("permission"), "{}", said.err);
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end() {
    let folder = Folder::new();
    folder.write_jobs("jobs.jsonl", "pipe", 3);
    folder.run(&["run", "jobs.jsonl", "--simulate"]).exits(0);
    for arguments in [&["status"][..], &["--json", "status"], &["--help"], &["run", "jobs.jsonl", "--simulate"]] {
        let mut command = folder.gleaner(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said = Said::from(child.wait_with_output().unwrap()).exits(0);
        assert!(!said.err.contains("pipe"), "{}", said.err);
    }
    // And nobody listening on standard error is no reason to stop either.
    let mut command = folder.gleaner(&["run", "jobs.jsonl", "--simulate"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    Said::from(child.wait_with_output().unwrap()).exits(0);
}
