//! Outputs and rows go wrong in every way when told to, and a passing fault goes away in a later attempt.

use std::collections::{BTreeMap, BTreeSet};

use gleaner::simulator::Config;
use gleaner::simulator::answer::Digest;
use gleaner::simulator::faults::{Fault, Faults, Phase};
use serde_json::{Value, json};

use crate::batch_client::{contents, some_rows, text_of};
use crate::simulated::Sim;

const ROWS: usize = 40;

fn faulty(faults: &[&str]) -> Config {
    Config { faults: Faults::parse(faults.iter().copied()).unwrap(), polls_until_done: 0, ..Config::default() }
}

/// The output of some rows with that fault always.
async fn output(fault: Fault, rows: &[Value]) -> String {
    let sim = Sim::start(faulty(&[&format!("{fault}=1")])).await;
    let created = sim.batch("x", rows).await;
    let body = sim.output(&created).await.unwrap().1;
    assert_eq!(sim.output(&created).await.unwrap().1, body, "a second download is the same");
    String::from_utf8(body).unwrap()
}

fn key(n: usize) -> String {
    format!("row-{n}")
}

/// The whole lines that are no blank ones.
fn lines(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.trim().is_empty()).filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Every answer that is there is the one of its key.
fn check_values(lines: &[Value]) {
    for line in lines.iter().filter(|line| !text_of(line).is_empty()) {
        let Some(number) = line["key"].as_str().and_then(|key| key.strip_prefix("row-")) else { continue };
        let digest = Digest::of(&contents(&format!("text {number}")));
        assert_eq!(text_of(line), format!("sim {digest}: text {number}"));
    }
}

#[tokio::test]
async fn outputs_go_wrong_as_told() {
    let all: BTreeSet<String> = (0..ROWS).map(key).collect();
    for fault in Fault::ALL.iter().copied().filter(|fault| fault.phase() == Phase::Output) {
        let text = output(fault, &some_rows(ROWS)).await;
        let lines = lines(&text);
        check_values(&lines);
        let found: Vec<String> = lines.iter().filter_map(|line| Some(line["key"].as_str()?.to_owned())).collect();
        let set: BTreeSet<String> = found.iter().cloned().collect();
        let count = |what: &dyn Fn(&Value) -> bool| lines.iter().filter(|line| what(line)).count();
        let some = 1..ROWS;
        let has = |line: &Value, name: &str| line.get(name).is_some();
        match fault {
            Fault::OutputShuffled => assert!(set == all && found != (0..ROWS).map(key).collect::<Vec<_>>()),
            Fault::OutputMissing => {
                assert!(set.is_subset(&all) && some.contains(&set.len()) && found.len() == set.len())
            }
            Fault::OutputRepeated => {
                assert!(set == all && found.len() > ROWS);
                assert!(count(&|line| !has(line, "response")) > 0, "some copies are errors");
            }
            Fault::OutputUnknownKey => assert!(set.is_superset(&all) && set.len() > ROWS),
            Fault::OutputNoKey => assert!(lines.len() == ROWS && some.contains(&found.len())),
            Fault::OutputNull => {
                let null = count(&|line| line.get("response") == Some(&Value::Null));
                assert!(set == all && some.contains(&null));
            }
            Fault::OutputBlank => {
                let blanks: BTreeSet<&str> = text.lines().filter(|line| line.trim().is_empty()).collect();
                assert_eq!((blanks, set), (BTreeSet::from(["", " "]), all.clone()));
            }
            Fault::OutputStatus => {
                assert!(some.contains(&count(&|line| line["status"]["code"] == 13 && !has(line, "error"))))
            }
            Fault::OutputBoth => assert!(some.contains(&count(&|line| has(line, "response") && has(line, "error")))),
            Fault::OutputLongLine => {
                assert!(set == all);
                assert_eq!(text.lines().filter(|line| line.len() > 3 << 20).count(), 1);
            }
            Fault::OutputCut => {
                assert_eq!(set.len(), ROWS - 1);
                assert!(!text.ends_with('\n') && serde_json::from_str::<Value>(text.lines().last().unwrap()).is_err());
            }
            Fault::OutputNoNewline => assert!(set == all && text.ends_with('}')),
            _ => assert!(set == all && text.matches("\r\n").count() == ROWS && text.matches('\n').count() == ROWS),
        }
    }
}

#[tokio::test]
async fn rows_go_wrong_as_told() {
    let schema = json!({"response_mime_type": "application/json", "response_schema": {"type": "object"}});
    let mut rows = some_rows(3);
    for row in &mut rows {
        row["request"]["generation_config"] = schema.clone();
    }
    for fault in Fault::ALL.iter().copied().filter(|fault| fault.phase() == Phase::Row) {
        let text = output(fault, &rows).await;
        let lines = lines(&text);
        assert_eq!(lines.len(), 3);
        for line in &lines {
            let (error, response) = (&line["error"], &line["response"]);
            let (candidate, text) = (&response["candidates"][0], text_of(line));
            let parts = &candidate["content"]["parts"];
            let told = match fault {
                Fault::RowParts => {
                    let text = format!("{}{}", parts[1]["text"].as_str().unwrap(), parts[2]["text"].as_str().unwrap());
                    parts[0]["thought"] == true
                        && serde_json::from_str::<Value>(&text).unwrap().is_object()
                        && response["candidates"].as_array().unwrap().len() == 2
                }
                Fault::RowEmpty => candidate["finishReason"] == "STOP" && parts.is_null(),
                Fault::RowThoughts => {
                    parts.as_array().unwrap().iter().all(|part| part["text"].is_null() || part["thought"] == true)
                }
                Fault::RowCitations => candidate["content"].is_null() && candidate["citationMetadata"].is_object(),
                Fault::RowMalformedCall => candidate["finishReason"] == "MALFORMED_FUNCTION_CALL" && parts.is_null(),
                Fault::RowOther => candidate["finishReason"] == "OTHER",
                Fault::RowError1 => error["code"] == 1,
                Fault::RowError3 => error["code"] == 3,
                Fault::RowError4 => error["code"] == 4,
                Fault::RowError8 => error["code"] == 8,
                Fault::RowError13 => error["code"] == 13,
                Fault::RowError14 => error["code"] == 14,
                Fault::RowErrorBare => error.get("code").is_none() && error["message"].is_string(),
                Fault::RowErrorHttp => error["code"] == 503,
                Fault::RowErrorWord => error["code"] == "UNAVAILABLE",
                Fault::RowSafety => candidate["finishReason"] == "SAFETY" && candidate["content"].is_null(),
                Fault::RowPromptBlocked => {
                    response["candidates"].is_null()
                        && response["promptFeedback"]["blockReason"] == "PROHIBITED_CONTENT"
                }
                Fault::RowMaxTokens => candidate["finishReason"] == "MAX_TOKENS" && !text.is_empty(),
                Fault::RowMaxTokensEmpty => candidate["finishReason"] == "MAX_TOKENS" && parts.is_null(),
                _ => candidate["finishReason"] == "STOP" && serde_json::from_str::<Value>(text).is_err(),
            };
            assert!(told && error.is_null() != response.is_null(), "{fault}: {line}");
        }
    }
    // Broken JSON needs a request for JSON.
    check_values(&lines(&output(Fault::RowBadJson, &some_rows(3)).await));
}

#[tokio::test]
async fn a_passing_fault_of_a_row_goes_away_and_a_lasting_one_stays() {
    let sim = Sim::start(faulty(&["row-error-13=0.3", "row-empty=0.3", "row-safety=0.1"])).await;
    let (mut left, mut attempts) = (some_rows(200), Vec::new());
    for attempt in 0..30 {
        let created = sim.batch(&format!("attempt {attempt}"), &left).await;
        let lines = sim.output_lines(&created).await;
        check_values(&lines);
        let good: BTreeSet<&str> =
            lines.iter().filter(|line| !text_of(line).is_empty()).map(|line| line["key"].as_str().unwrap()).collect();
        left.retain(|row| !good.contains(row["key"].as_str().unwrap()));
        attempts.push(left.len());
    }
    let known = sim.get("/simulator/rows").await;
    let known = known["entries"].as_array().unwrap();
    assert_eq!(known.len(), 200);
    let lasting: BTreeSet<&str> =
        known.iter().filter(|row| row["lasting"] == "row-safety").map(|row| row["key"].as_str().unwrap()).collect();
    let left: BTreeSet<&str> = left.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(left, lasting, "{attempts:?}");
    assert!((8..40).contains(&lasting.len()), "{}", lasting.len());
    assert!(attempts[0] > 100 && attempts[0] < 160, "{attempts:?}");
    for row in known {
        let faults = row["faults"].as_array().unwrap();
        assert_eq!(row["accepted"], faults.len());
        if row["lasting"].is_null() {
            assert!(
                faults.iter().rev().skip(1).all(|fault| !fault.is_null()) && faults.last().unwrap().is_null(),
                "{row}"
            );
        }
    }
    let rows: u64 = known.iter().map(|row| row["accepted"].as_u64().unwrap()).sum();
    assert_eq!(sim.get("/simulator/stats").await["rows"], rows);
    let page = sim.get("/simulator/rows?after=150&limit=30").await;
    assert_eq!((&page["rows"], &page["next"]), (&json!(200), &json!(180)));
    assert_eq!(page["entries"].as_array().unwrap()[..], known[150..180]);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_outputs_whatever_the_order() {
    let world = async |seed: u64, backwards: bool| {
        let faults = ["passing=0.3", "row-safety=0.05", "row-bad-json=0.05"];
        let all = Faults::parse(faults.into_iter().chain([
            "create-drop=0",
            "create-503=0",
            "create-503-refused=0",
            "create-408=0",
            "create-409=0",
            "create-429=0",
            "create-reset-before=0",
            "create-array=0",
            "upload-503=0",
            "upload-drop=0",
            "upload-no-file=0",
            "upload-mime=0",
        ]));
        let config = Config { seed, faults: all.unwrap(), late: std::time::Duration::ZERO, ..Config::default() };
        let sim = Sim::start(config).await;
        let mut names: Vec<usize> = (0..24).collect();
        if backwards {
            names.reverse();
        }
        let mut outputs = BTreeMap::new();
        for n in names {
            let rows: Vec<Value> = some_rows(24 * 5).split_off(n * 5)[..5].to_vec();
            let created = sim.batch(&format!("batch {n}"), &rows).await;
            let path = crate::batch_client::path(&created);
            for _ in 0..3 {
                let _seen = sim.send(reqwest::Method::GET, &path, None).await;
            }
            let output = sim.output(&created).await;
            outputs.insert(
                n,
                (
                    created["name"].to_string(),
                    output.map(|(status, body)| (status, String::from_utf8(body).unwrap())).ok(),
                ),
            );
        }
        outputs
    };
    let one = world(7, false).await;
    assert_eq!(one, world(7, true).await);
    assert_ne!(one, world(8, false).await);
}
