//! `status`, `show`, `dead`, and help.

use serde_json::json;

use super::Folder;

/// A folder with one consumed job, one blocked, and one bad line.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("good.jsonl", "{\"input\": \"良い\", \"idempotency_key\": \"good-job\"}\n");
    folder.write(
        "bad.jsonl",
        "{\"input\": \"\\u001b[31m危ない\", \"idempotency_key\": \"blocked-job\"}\n\u{1b}[2Jno json\n",
    );
    folder.run(&["run", "good.jsonl", "--simulate"]).exits(0);
    folder.run(&["run", "bad.jsonl", "--simulate", "--fault", "blocked=1"]).exits(3);
    folder
}

#[test]
fn status_counts_every_state() {
    let folder = folder();
    let json = folder.run(&["--json", "status"]).exits(0).json();
    let states = json["states"].as_object().unwrap();
    let counts: Vec<(&str, u64)> =
        states.iter().map(|(state, of)| (state.as_str(), of["count"].as_u64().unwrap())).collect();
    let expected = [
        ("consumed", 1),
        ("discarded", 0),
        ("done", 0),
        ("given_up", 0),
        ("parked", 1),
        ("recovered", 0),
        ("reserving", 0),
        ("retryable", 0),
        ("submitted", 0),
        ("unclear", 0),
    ];
    assert_eq!(counts, expected);
    assert!(states["parked"]["oldest_age_s"].is_u64() && states["done"]["oldest_age_s"].is_null());
    assert_eq!((&json["bad_lines"], &json["waiting"]), (&json!(1), &json!(0)));
    let text = folder.run(&["status"]).exits(0).out;
    assert!(text.contains("1 bad line: `gleaner dead --class bad_line`"), "{text}");
}

#[test]
fn the_summary_tells_what_waits_and_that_nothing_does() {
    let folder = folder();
    let json = folder.run(&["--json", "summary"]).exits(0).json();
    assert_eq!((&json["clean"], &json["dead_letters"], &json["parked"]), (&json!(false), &json!(2), &json!(2)));
    let classes: Vec<_> = json["classes"].as_array().unwrap().iter().map(|class| &class["class"]).collect();
    assert_eq!(classes, ["bad_line:json", "blocked:SAFETY"]);
    assert_eq!((&json["files"][0]["file"], &json["files"][0]["count"]), (&json!("bad.jsonl"), &json!(2)));
    assert_eq!((&json["expiries"], &json["days_until_expiry"]), (&json!([]), &json!(null)), "a folder forgets nothing");
    let text = folder.run(&["summary"]).exits(0).out;
    assert!(text.starts_with("2 dead letters wait, the oldest for "), "{text}");
    assert!(text.contains("        1  blocked:SAFETY\n") && text.contains("  gleaner dead\n"), "{text}");

    let clean = Folder::new();
    clean.write("good.jsonl", "{\"input\": \"x\"}\n");
    clean.run(&["run", "good.jsonl", "--simulate"]).exits(0);
    assert_eq!(clean.run(&["--json", "summary"]).exits(0).json()["clean"], true);
    assert!(clean.run(&["summary"]).exits(0).out.starts_with("Clean: "));
}

#[test]
fn dead_letters_are_listed_by_class_oldest_first() {
    let folder = folder();
    let list = |more: &[&str]| {
        let json = folder.run(&[&["--json", "dead"], more].concat()).exits(0).json();
        let dead = json["dead"].as_array().unwrap().clone();
        dead.iter().map(|dead| dead["class"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut all = list(&[]);
    all.sort();
    assert_eq!(all, ["bad_line:json", "blocked:SAFETY"]);
    assert_eq!(list(&["--class", "blocked"]), ["blocked:SAFETY"]);
    assert_eq!(list(&["--class", "block"]), [""; 0]);
    assert_eq!(list(&["--limit", "1"]).len(), 1);
    let json = folder.run(&["--json", "dead", "--class", "blocked:SAFETY"]).exits(0).json();
    let mut names: Vec<&str> = json["dead"][0].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = ["attempts", "class", "first_seen", "id", "key", "last_seen", "message", "replays", "run"];
    assert_eq!(names, expected);
    assert_eq!((&json["dead"][0]["id"], &json["dead"][0]["attempts"]), (&json!("blocked-job"), &json!(1)));
    let text = folder.run(&["dead"]).exits(0).out;
    assert!(text.contains("2 of 2 dead letters") && !text.contains('\u{1b}'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn everything_is_found_by_what_people_have_at_hand() {
    let folder = folder();
    let show = |id: &str| folder.run(&["--json", "show", id]).exits(0).json();
    let job = show("good-job");
    assert_eq!((&job["kind"], &job["id"], &job["state"]), (&json!("job"), &json!("job/good-job"), &json!("consumed")));
    assert!(job["line"].as_str().unwrap().contains("良い"));
    assert!(folder.path(job["paths"]["result"].as_str().unwrap()).is_file());
    assert_eq!(show(job["handles"][0]["id"].as_str().unwrap())["id"], job["id"]);
    assert_eq!(show("job/good-job")["id"], job["id"]);
    let intake = job["input"]["intake"].as_str().unwrap();
    let first = |digits: usize| intake.get(..digits).unwrap();
    for id in [intake, first(6), &first(12).to_uppercase()] {
        assert_eq!(show(id)["file"], "good.jsonl", "{id}");
    }
    let blocked = show("blocked-job");
    assert!(folder.path(blocked["paths"]["answer"].as_str().unwrap()).is_file(), "{blocked}");
    let intake = blocked["input"]["intake"].as_str().unwrap();
    let first = |digits: usize| intake.get(..digits).unwrap();
    for id in [format!("line/{intake}/2"), format!("line/{}/2", first(12))] {
        assert_eq!(show(&id)["class"], "bad_line:json", "{id}");
    }
    for id in ["nothing", "good-jo", first(5), "line/000000/1"] {
        let said = folder.run(&["show", id]).exits(2);
        assert!(said.err.contains(&format!("there is nothing with the id {id}")), "{}", said.err);
    }
}

#[test]
fn what_came_from_elsewhere_never_reaches_the_terminal_raw() {
    let folder = folder();
    let blocked = folder.run(&["--json", "show", "blocked-job"]).exits(0).json();
    let bad = format!("line/{}/2", blocked["input"]["intake"].as_str().unwrap());
    for arguments in [&["show", "blocked-job"][..], &["show", &bad], &["dead"], &["status"]] {
        let said = folder.run(arguments).exits(0);
        assert!(!said.out.replace('\n', "").contains(char::is_control), "{arguments:?}: {:?}", said.out);
    }
}

#[test]
fn help_teaches() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).exits(0).out;
    for words in ["{\"input\":", "results/<key>.json", "EXIT CODES", "GLEANER_UNCLEAR_GRACE", "gleaner run"] {
        assert!(help.contains(words), "{words}");
    }
    insta::assert_snapshot!("help", help);
    for command in [
        "run",
        "submit",
        "tick",
        "status",
        "show",
        "row",
        "results",
        "dead",
        "pause",
        "resume",
        "cancel",
        "webhook",
        "simulator",
    ] {
        let help = folder.run(&["help", command]).exits(0).out;
        assert!(help.contains("Example") && help.contains(&format!("  gleaner {command}")), "{command}: {help}");
    }
    for command in ["register", "list", "ping", "rotate", "delete", "serve"] {
        let help = folder.run(&["webhook", command, "--help"]).exits(0).out;
        let example =
            help.lines().any(|line| line.starts_with("  gleaner ") && line.contains(&format!("webhook {command}")));
        assert!(help.contains("Example") && example, "{command}: {help}");
    }
    let said = folder.run(&[]).exits(2);
    assert!(said.err.contains("Usage:"), "{}", said.err);
}
