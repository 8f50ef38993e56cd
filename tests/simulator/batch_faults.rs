//! Every fault of batches and uploads happens when told to.

use std::collections::BTreeSet;
use std::time::Duration;

use gleaner::ports::clock::Clock;
use gleaner::simulator::Config;
use gleaner::simulator::faults::{Fault, Phase};
use reqwest::Method;
use serde_json::{Value, json};

use crate::batch_client::{head, jsonl, path, read, row, some_rows, state_of};
use crate::simulated::Sim;
use crate::{still_clock, with};

/// A simulator with that fault always.
async fn always(fault: Fault) -> Sim {
    Sim::start(with(&[&format!("{fault}=1")])).await
}

fn all(phase: Phase) -> impl Iterator<Item = Fault> {
    Fault::ALL.iter().copied().filter(move |fault| fault.phase() == phase)
}

#[tokio::test]
async fn creates_of_batches_fail_like_others() {
    for fault in all(Phase::Create) {
        let sim = always(fault).await;
        let file = sim.upload(&jsonl(&some_rows(2))).await;
        let batch = json!({"batch": {"displayName": "x", "inputConfig": {"fileName": file}}});
        let answer = sim.send(Method::POST, "/v1beta/models/m:batchGenerateContent", Some(&batch)).await;
        let answer = answer.ok().map(|(status, body)| {
            let body: Value = serde_json::from_slice(&body).unwrap();
            (status, body.get(0).unwrap_or(&body)["error"]["status"].as_str().unwrap_or_default().to_owned())
        });
        let error = |status, word: &str, accepted| (Some((status, word.to_owned())), accepted);
        let expected = match fault {
            Fault::CreateDrop => (None, 1),
            Fault::CreateResetBefore => (None, 0),
            Fault::Create503 => error(503, "UNAVAILABLE", 1),
            Fault::Create503Refused | Fault::CreateArray => error(503, "UNAVAILABLE", 0),
            Fault::Create408 => error(408, "DEADLINE_EXCEEDED", 1),
            Fault::Create409 => error(409, "ABORTED", 0),
            Fault::CreateDelay => error(200, "", 1),
            _ => error(429, "RESOURCE_EXHAUSTED", 0),
        };
        assert_eq!((answer, sim.accepted().await), expected, "{fault}");
        let listed = sim.get("/v1/batches").await["operations"].as_array().map_or(0, Vec::len);
        assert_eq!(listed as u64, sim.accepted().await, "{fault}: what was accepted can be found");
        assert_eq!(sim.faults_made().await[fault.name()], 1);
    }
}

#[tokio::test]
async fn new_batches_are_hidden_from_looks_or_from_the_list() {
    for (fault, looks, listed) in [
        (Fault::Get404, [404, 200], [1, 1]),
        (Fault::Get403, [403, 200], [1, 1]),
        (Fault::Get404Forever, [404, 404], [1, 1]),
        (Fault::ListLag, [200, 200], [0, 1]),
    ] {
        let clock = still_clock();
        let sim = Sim::start_at(with(&[&format!("{fault}=1")]), clock.clone()).await;
        let created = sim.batch("x", &some_rows(1)).await;
        for (look, count) in looks.into_iter().zip(listed) {
            assert_eq!(sim.json(Method::GET, &path(&created), None).await.0, look, "{fault}");
            assert_eq!(sim.get("/v1/batches").await["operations"].as_array().map_or(0, Vec::len), count, "{fault}");
            clock.pass(Duration::from_secs(1));
        }
    }
}

#[tokio::test]
async fn looks_at_batches_and_lists_fail() {
    for fault in all(Phase::Get) {
        let sim = always(fault).await;
        let created = sim.batch("x", &some_rows(1)).await;
        let answer = sim.send(Method::GET, &path(&created), None).await;
        let expected = match fault {
            Fault::GetCut => None,
            Fault::GetHtml => Some(502),
            Fault::Get429 => Some(429),
            _ => Some(503),
        };
        assert_eq!(answer.ok().map(|(status, _)| status), expected, "{fault}");
    }
    let sim = Sim::start(with(&["list-503=0.5"])).await;
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        seen.insert(sim.send(Method::GET, "/v1/batches", None).await.unwrap().0);
    }
    assert_eq!(seen, BTreeSet::from([200, 503]));
}

#[tokio::test]
async fn batches_take_unusual_courses() {
    for fault in all(Phase::BatchCourse) {
        let clock = still_clock();
        let config = Config { polls_until_done: 2, ..with(&[&format!("{fault}=1")]) };
        let sim = Sim::start_at(config, clock.clone()).await;
        let created = sim.batch("x", &some_rows(3)).await;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(sim.get(&path(&created)).await);
        }
        let states: Vec<_> = seen.iter().map(state_of).collect();
        let words: Vec<_> = states.iter().map(|state| state.split("STATE_").last().unwrap()).collect();
        let named: Vec<_> = seen.iter().map(|seen| seen["response"]["responsesFile"].is_string()).collect();
        let usual = ["PENDING", "RUNNING", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"];
        match fault {
            Fault::BatchUnnamed => {
                assert_eq!((words.as_slice(), named.as_slice()), (&usual[..], &[false, false, false, false, true][..]));
                assert_eq!(seen[2]["done"], true);
            }
            Fault::BatchStateUnknown => assert_eq!(words[..3], ["PENDING", "WARMING_UP", "SUCCEEDED"]),
            Fault::BatchTopLevel => {
                assert_eq!((words.as_slice(), &seen[0]["metadata"]), (&usual[..], &Value::Null));
                assert!(states.iter().all(|state| state.starts_with("JOB_STATE_")));
                assert_eq!(seen[4]["batchStats"], json!({"requestCount": 3, "successfulRequestCount": 3}));
            }
            _ => {
                assert_eq!(words, ["PENDING"; 5], "{fault}");
                clock.pass(Duration::from_secs(48 * 3600));
                assert_eq!(state_of(&sim.get(&path(&created)).await), "BATCH_STATE_EXPIRED");
            }
        }
    }
}

#[tokio::test]
async fn batches_end_in_unusual_ways() {
    for fault in all(Phase::BatchOutcome) {
        let sim = always(fault).await;
        let created = sim.batch("x", &some_rows(30)).await;
        let done = sim.batch_end(&created).await;
        let (state, code, output) = match fault {
            Fault::BatchFailed => ("FAILED", json!(13), 404),
            Fault::BatchPartly => ("PARTIALLY_SUCCEEDED", Value::Null, 200),
            Fault::BatchCancelled => ("CANCELLED", json!(1), 404),
            // With an error or without.
            _ => ("EXPIRED", done["error"]["code"].clone(), 404),
        };
        assert_eq!((state_of(&done), &done["error"]["code"]), (format!("BATCH_STATE_{state}"), &code), "{fault}");
        assert_eq!(sim.output(&created).await.unwrap().0, output, "{fault}");
        if fault == Fault::BatchPartly {
            let lines = sim.output_lines(&created).await;
            let failed = lines.iter().filter(|line| line["error"]["code"] == 4).count();
            assert!((3..20).contains(&failed), "{failed} of 30");
            assert_eq!(done["metadata"]["batchStats"]["failedRequestCount"], failed.to_string());
        }
    }
    let sim = Sim::start(Config { polls_until_done: 2, ..with(&["cancel-ignored=1"]) }).await;
    let created = sim.batch("x", &some_rows(3)).await;
    assert_eq!(sim.json(Method::POST, &format!("{}:cancel", path(&created)), None).await.0, 200);
    assert_eq!(state_of(&sim.batch_end(&created).await), "BATCH_STATE_SUCCEEDED");
    assert_eq!(sim.output_lines(&created).await.len(), 3);
}

#[tokio::test]
async fn uploads_fail() {
    let bytes = jsonl(&some_rows(40));
    for fault in all(Phase::Upload) {
        let sim = always(fault).await;
        let (_, url) = sim.begin("x", "application/jsonl", bytes.len()).await;
        let answer = sim.chunk(&url, "upload, finalize", 0, &bytes).await;
        match (fault, answer) {
            (Fault::UploadDrop, answer) => {
                assert!(answer.is_err());
                let asked = sim.chunk(&url, "query", 0, b"").await.unwrap();
                let received: usize = head(&asked, "x-goog-upload-size-received").parse().unwrap();
                assert!(received > 0 && received <= bytes.len(), "{received}");
            }
            (Fault::Upload503, answer) => {
                let answer = answer.unwrap();
                assert_eq!((answer.status().as_u16(), head(&answer, "x-goog-upload-status")), (503, String::new()));
            }
            (_, answer) => {
                let answer = answer.unwrap();
                assert_eq!(head(&answer, "x-goog-upload-status"), "final");
                let (status, body) = read(answer).await;
                let files = sim.get("/v1/files").await["files"].as_array().map_or(0, Vec::len);
                if fault == Fault::UploadMime {
                    assert_eq!(body["error"]["message"], "Unsupported MIME type: application/jsonl");
                    let (_, url) = sim.begin("x", "application/json", bytes.len()).await;
                    let other = sim.chunk(&url, "upload, finalize", 0, &bytes).await.unwrap();
                    assert!(read(other).await.1["file"]["name"].is_string());
                } else {
                    assert_eq!(body, json!({}));
                }
                assert_eq!((status, files), (200, usize::from(fault == Fault::UploadNoFile)), "{fault}");
            }
        }
        assert_eq!(sim.faults_made().await[fault.name()], 1, "{fault}");
    }
}

#[tokio::test]
async fn downloads_fail() {
    for fault in all(Phase::Download) {
        let clock = still_clock();
        let config = Config { polls_until_done: 0, late: Duration::from_secs(90), ..Config::default() };
        let sim = Sim::start_at(config, clock.clone()).await;
        let created = sim.batch("x", &some_rows(2000)).await;
        let whole = sim.output(&created).await.unwrap().1;
        let faults = json!({ fault.name(): 1.0 });
        assert_eq!(sim.json(Method::PUT, "/simulator/faults", Some(&faults)).await.0, 200);
        let before = clock.now();
        let first = sim.output(&created).await;
        match fault {
            Fault::Download404 => {
                assert_eq!(first.unwrap().0, 404);
                let other = format!("/v1/{}:download?alt=media", crate::batch_client::file_of(&created));
                assert_eq!(sim.send(Method::GET, &other, None).await.unwrap(), (200, whole));
            }
            Fault::Download503 => assert_eq!(first.unwrap().0, 503),
            Fault::Download503Middle => {
                assert!(first.is_err());
                assert_eq!(sim.output(&created).await.unwrap().0, 503);
            }
            Fault::DownloadCut | Fault::DownloadCutChunked => assert!(first.is_err(), "{fault}"),
            Fault::DownloadCutSilent => {
                let part = first.unwrap().1;
                assert!(part.len() < whole.len() && whole.starts_with(&part), "{} of {}", part.len(), whole.len());
            }
            _ => {
                assert_eq!(first.unwrap(), (200, whole), "{fault}");
                let waited = if fault == Fault::DownloadSlow { 3 * 90 } else { 0 };
                assert_eq!(clock.now().since(before).as_secs(), waited, "{fault}");
            }
        }
        assert_eq!(sim.faults_made().await[fault.name()], 1, "{fault}");
    }
}

#[tokio::test]
async fn silent_cuts_end_within_a_line_or_between_two() {
    let sim = Sim::start(Config { polls_until_done: 0, ..with(&["download-cut-silent=1"]) }).await;
    let created = sim.batch("x", &some_rows(50)).await;
    let mut ends = BTreeSet::new();
    for _ in 0..20 {
        ends.insert(sim.output(&created).await.unwrap().1.ends_with(b"\n"));
    }
    assert_eq!(ends, BTreeSet::from([false, true]));
}

#[tokio::test]
async fn rows_can_be_refused_at_create() {
    let sim = Sim::start(with(&["row-refused=0.2"])).await;
    let rows: Vec<_> = (0..50).map(|n| row(&format!("k{n}"), &format!("text {n}"))).collect();
    let file = sim.upload(&jsonl(&rows)).await;
    let (status, refused) = sim.create_batch("x", &file).await;
    assert_eq!(status, 400);
    let bad: BTreeSet<usize> = refused["error"]["message"]
        .as_str()
        .unwrap()
        .lines()
        .map(|line| {
            let number = line.strip_prefix("Error on line ").unwrap().split(':').next().unwrap();
            number.parse().unwrap()
        })
        .collect();
    assert!((3..20).contains(&bad.len()), "{bad:?}");
    assert_eq!(sim.create_batch("again", &file).await, (400, refused), "it lasts");
    let good: Vec<_> = (1..).zip(rows).filter(|(n, _)| !bad.contains(n)).map(|(_, row)| row).collect();
    sim.batch("the others", &good).await;
    assert_eq!(sim.get("/simulator/stats").await["rows"], good.len());
}
