//! `row`, `status` and `show` of batch runs.

use serde_json::{Value, json};

use super::Folder;
use super::made_run::{MadeRun, blocked, busy, good};

/// A run in every state that rows can be in:
///
/// - part 1: `a` succeeded at once, `b` in attempt 2, `c` is dead, `d` is out in attempt 2;
/// - part 2: given up and sent again, then `e` came late, `f` died and came late, too, `g` waits for attempt 3;
/// - part 3, halved after an attempt: `h` succeeded before, `i` and `j` in the halves, `k` has died in one;
/// - `l` is in no part; `m` is a bad line.
fn every_state() -> MadeRun {
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let mut run = MadeRun::of(&keys);
    run.bad_line(13, "{\"key\":\"m\",\"request\":{");
    let mut one = run.cut(&["a", "b", "c", "d"]);
    run.attempt(&mut one, &[good("d2"), busy("b"), blocked("c"), good("a")]);
    assert_eq!(run.send(&mut one), 2);
    run.dead_rows(&one);
    run.write(one);

    let mut two = run.cut(&["e", "f", "g"]);
    run.send(&mut two);
    two.part.attempts[0].ended = Some(("expired".to_owned(), "it ran for 48 hours".to_owned()));
    run.attempt(&mut two, &[blocked("f"), busy("e"), busy("g")]);
    run.dead_rows(&two);
    run.pass(&mut two, 1, &[good("f"), good("e"), busy("g")], true);
    two.open = super::made_run::row("g") + "\n";
    run.write(two);

    let mut three = run.cut(&["h", "i", "j", "k"]);
    run.attempt(&mut three, &[good("h"), busy("i"), busy("j")]);
    let mut left = run.half(&mut three, 0, &["i"]);
    let mut right = run.half(&mut three, 1, &["j", "k"]);
    run.attempt(&mut left, &[good("i")]);
    run.attempt(&mut right, &[good("j"), blocked("k")]);
    run.dead_group("blocked:SAFETY");
    run.write(three);
    run.write(left);
    run.write(right);
    run
}

/// The attempts of a row: its number, the part and the attempt's number, outcome and class.
fn attempts(story: &Value) -> Vec<(u64, String, String)> {
    let attempts = story["attempts"].as_array().unwrap().iter();
    attempts
        .map(|one| {
            let place = format!("{}.{}", one["part"].as_str().unwrap(), one["part_attempt"]);
            let class = one["class"].as_str().map(|class| format!(" {class}")).unwrap_or_default();
            (one["attempt"].as_u64().unwrap(), place, format!("{}{class}", one["outcome"].as_str().unwrap()))
        })
        .collect()
}

#[test]
fn the_state_and_the_attempts_of_every_row_are_told() {
    let run = every_state();
    let key = run.key();
    let story = |row: &str| run.folder.run(&["--json", "row", &key, row]).exits(0).json();
    type Attempts = &'static [(u64, &'static str, &'static str)];
    let expected: [(&str, &str, Attempts); 13] = [
        ("a", "succeeded", &[(1, "1.1", "succeeded")]),
        ("b", "under_way", &[(1, "1.1", "failed retryable:503"), (2, "1.2", "open")]),
        ("c", "dead", &[(1, "1.1", "died blocked:SAFETY")]),
        ("d", "under_way", &[(1, "1.1", "failed missing"), (2, "1.2", "open")]),
        ("e", "succeeded", &[(1, "2.1", "succeeded"), (2, "2.2", "failed retryable:503")]),
        ("f", "recovered", &[(1, "2.1", "succeeded"), (2, "2.2", "died blocked:SAFETY")]),
        ("g", "waiting", &[(1, "2.1", "no_outcome expired"), (2, "2.2", "failed retryable:503")]),
        ("h", "succeeded", &[(1, "3.1", "succeeded")]),
        ("i", "succeeded", &[(1, "3.1", "failed retryable:503"), (2, "3a.1", "succeeded")]),
        ("j", "succeeded", &[(1, "3.1", "failed retryable:503"), (2, "3b.1", "succeeded")]),
        ("k", "dead", &[(1, "3.1", "failed missing"), (2, "3b.1", "died blocked:SAFETY")]),
        ("l", "waiting", &[]),
        ("m", "bad_line", &[]),
    ];
    for (row, state, tries) in expected {
        let story = story(row);
        assert_eq!(story["state"], state, "{story}");
        let tries: Vec<(u64, String, String)> =
            tries.iter().map(|(n, place, end)| (*n, (*place).to_owned(), (*end).to_owned())).collect();
        assert_eq!(attempts(&story), tries, "{row}");
        let has_result = matches!(state, "succeeded" | "recovered");
        assert_eq!(story["result"]["value"].as_str(), has_result.then(|| format!("answer {row}")).as_deref());
    }
    let dead = story("c");
    assert_eq!(dead["dead"]["class"], "blocked:SAFETY");
    let id = dead["dead"]["id"].as_str().unwrap().strip_prefix("row/").unwrap().to_owned();
    let shown = run.folder.run(&["--json", "show", &id]).exits(0).json();
    assert_eq!((&shown["kind"], &shown["key"]), (&json!("dead_row"), &json!("c")));
    assert_eq!(story("k")["dead"]["id"], format!("rows/{key}/blocked:SAFETY"), "its letter is a group's");
    assert_eq!(story("b")["attempts"][0]["handle"], "batches/1-1");
    assert_eq!(story("m")["bad_lines"][0]["id"], format!("line/{}/13", run.intake.sha256));
    let text = run.folder.run(&["row", "rows.jsonl", "b"]).exits(0).out;
    for words in ["under way, in attempt 2", "batches/1-1", "retryable:503: ", "try later", "running at Gemini for"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for row in ["a", "b", "c", "f", "g", "k", "l", "m"] {
        let text = run.folder.run(&["row", "rows.jsonl", row]).exits(0).out;
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn a_run_is_found_by_what_people_have_at_hand_and_nothing_else_is() {
    let run = every_state();
    run.folder.write_jobs("jobs.jsonl", "x", 1);
    run.folder.run(&["submit", "jobs.jsonl"]).exits(0);
    let (key, sha256) = (run.key(), run.intake.sha256.clone());
    for name in [
        &*key,
        &sha256,
        &run.start(6),
        &sha256.to_uppercase(),
        &run.start(20).to_uppercase(),
        "rows.jsonl",
        "some/where/rows.jsonl",
    ] {
        assert_eq!(run.folder.run(&["--json", "row", name, "a"]).exits(0).json()["run"], *key, "{name}");
    }
    for (name, row, words) in [
        (&*key, "z", "has no row with the key z"),
        (&run.start(5), "a", "there is no batch run"),
        ("other.jsonl", "a", "there is no batch run other.jsonl"),
        ("jobs.jsonl", "a", "jobs.jsonl is a file of jobs"),
    ] {
        let said = run.folder.run(&["row", name, row]).exits(2);
        assert!(said.err.contains(words) && said.out.is_empty(), "{name}: {}", said.err);
    }
}

#[test]
fn a_run_that_was_cancelled_has_discarded_rows() {
    let mut run = MadeRun::of(&["a", "b"]);
    let mut one = run.cut(&["a", "b"]);
    run.attempt(&mut one, &[good("a"), busy("b")]);
    (one.part.discarded, one.open) = (1, String::new());
    run.write(one);
    run.change(|intake| intake.cancelled = Some("no more money".to_owned()));
    let state = |row: &str| run.folder.run(&["--json", "row", "rows.jsonl", row]).exits(0).json()["state"].clone();
    assert_eq!((state("a"), state("b")), (json!("succeeded"), json!("discarded")));
}

#[test]
fn odd_keys_are_found_in_lines_that_write_them_otherwise() {
    let odd = ["日本 \"q\" \\ \u{7}", "a/b<c>", "\u{1f680}"];
    let mut run = MadeRun::of(&odd);
    let mut one = run.cut(&odd);
    let escaped = |key: &str| {
        let units: String = key.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("{{\"error\":{{\"code\":503,\"message\":\"no\"}},\"key\":\"{units}\"}}")
    };
    run.attempt(&mut one, &odd.map(escaped));
    run.write(one);
    for key in odd {
        let story = run.folder.run(&["--json", "row", "rows.jsonl", key]).exits(0).json();
        assert_eq!(story["attempts"][0]["class"], "retryable:503", "{key:?}: {story}");
        let text = run.folder.run(&["row", "rows.jsonl", key]).exits(0).out;
        assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
    }
}

#[test]
fn status_lists_the_runs_that_are_not_over() {
    let run = every_state();
    let status = run.folder.run(&["--json", "status"]).exits(0).json();
    let told = &status["runs"][0];
    let counts = ["rows", "settled", "succeeded", "dead", "open", "waiting", "bad_lines", "parts", "attempts"];
    assert_eq!(counts.map(|count| told[count].as_u64().unwrap()), [11, 8, 6, 2, 3, 1, 1, 4, 7], "{told}");
    assert_eq!(told["out"][0]["handle"], "batches/1-2");
    assert_eq!((told["out"].as_array().unwrap().len(), &told["held"]), (1, &Value::Null));
    let text = run.folder.run(&["status"]).exits(0).out;
    assert!(text.contains("rows.jsonl") && text.contains(": part 1 attempt 2: 2 rows, running at Gemini"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn parts_attempts_and_dead_rows_are_shown() {
    let run = every_state();
    let key = run.key();
    let start = run.start(8);
    let show = |id: &str| {
        let text = run.folder.run(&["show", id]).exits(0).out;
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        (run.folder.run(&["--json", "show", id]).exits(0).json(), text)
    };
    let (part, text) = show(&format!("part/{start}/3"));
    assert_eq!((&part["kind"], &part["halved"]), (&json!("part"), &json!(true)));
    assert!(text.contains("as the parts 3a and 3b"), "{text}");
    let (_, text) = show(&format!("part/{start}/2"));
    assert!(text.contains("expired") && text.contains("3: 2 succeeded"), "{text}");
    let (job, text) = show("batches/1-2");
    assert_eq!(job["key"], run.job_key("1", 2).0);
    assert!(text.contains(&format!("attempt 2 of part 1, run {key}")), "{text}");
    assert!(run.folder.path(job["paths"]["rows"].as_str().unwrap()).is_file());
    let (group, text) = show(&format!("rows/{start}/blocked:SAFETY"));
    assert_eq!(group["kind"], "dead_group");
    assert!(text.contains("4001 of run") && text.contains("--with-dead"), "{text}");
    let (file, text) = show("rows.jsonl");
    assert_eq!(file["run"]["parts"], 3);
    assert!(text.contains("11 rows, 1 bad lines") && text.contains(&key), "{text}");
}

#[test]
fn the_dead_of_one_run_are_listed() {
    let run = every_state();
    run.folder.write("other.jsonl", "{\"input\": \"x\"}\nno json\n");
    run.folder.run(&["submit", "other.jsonl"]).exits(0);
    let list = |arguments: &[&str]| {
        let json = run.folder.run(&[&["--json", "dead", "--run", "rows.jsonl"], arguments].concat()).exits(0).json();
        let mut keys: Vec<String> = json["dead"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dead| dead["key"].as_str().unwrap_or("-").to_owned())
            .collect();
        keys.sort();
        keys
    };
    // The item of `f` is still parked: who settles it is the engine.
    assert_eq!(list(&[]), ["-", "-", "c", "f"]);
    assert_eq!(list(&["--class", "bad_line"]), ["-"]);
    let text = run.folder.run(&["dead", "--run", &run.start(6)]).exits(0).out;
    assert!(text.contains("row c: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_held_run_says_why_and_is_let_go() {
    let mut run = every_state();
    let held = json!({"class": "permanent:400", "message": "no such\u{1b}[2J field", "since": 1_795_991_400_000_i64});
    run.change(|intake| intake.run.as_mut().unwrap().held = Some(serde_json::from_value(held).unwrap()));
    let status = run.folder.run(&["status"]).exits(0).out;
    let start: String = run.key().chars().take(12).collect();
    let words = status.replace('\n', " ");
    assert!(words.contains("its rows die or are refused one after the other as permanent:400"), "{status}");
    assert!(words.contains(&format!("`gleaner resume {start}`")), "{status}");
    let json = run.folder.run(&["--json", "resume", &start]).exits(0).json();
    assert_eq!(json["held"]["class"], "permanent:400");
    let shown = run.folder.run(&["--json", "show", "rows.jsonl"]).exits(0).json();
    assert_eq!((&shown["run"]["held"], &shown["run"]["let_go"]), (&Value::Null, &json!(["permanent:400"])));
    let again = run.folder.run(&["resume", "rows.jsonl"]).exits(0).out;
    assert!(again.contains("was not held"), "{again}");
    run.folder.run(&["resume", "other.jsonl"]).exits(2);
}

#[test]
fn rows_without_a_mode_are_refused_before_each_becomes_a_dead_letter() {
    let folder = Folder::new();
    let row = super::made_run::row("a");
    for (name, text) in [("rows.jsonl", format!("\n{row}\n")), ("bom.jsonl", format!("\u{feff}{row}\n"))] {
        folder.write(name, text);
        for arguments in
            [&["submit", name][..], &["run", name, "--simulate"], &["submit", name, "--mode", "interaction"]]
        {
            let said = folder.run(&[&["--data", arguments[0]], arguments].concat()).exits(2);
            assert!(said.err.contains("--mode batch") && said.err.contains("{\"gleaner\": {\"mode\""), "{}", said.err);
            let status = folder.run(&["--json", "--data", arguments[0], "status"]).exits(0).json();
            assert_eq!((&status["waiting"], &status["bad_lines"]), (&json!(0), &json!(0)));
        }
    }
    folder.run(&["--data", "submit", "submit", "rows.jsonl", "--mode", "batch"]).exits(0);
    folder.run(&["--data", "submit", "submit", "rows.jsonl"]).exits(0);
    let said = folder.run(&["run", "rows.jsonl", "--mode", "calls"]).exits(2);
    assert!(said.err.contains("interaction, call, batch"), "{}", said.err);
}
