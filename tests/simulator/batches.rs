//! Batches and files as at Gemini, as long as nothing goes wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use gleaner::simulator::Config;
use gleaner::simulator::answer::Digest;
use reqwest::Method;
use serde_json::{Value, json};

use crate::batch_client::{MODEL, contents, file_of, head, jsonl, path, read, row, some_rows, state_of, text_of};
use crate::simulated::Sim;
use crate::still_clock;

#[tokio::test]
async fn a_batch_lives_as_at_gemini() {
    let clock = still_clock();
    let config = Config { latency: Duration::from_secs(40), polls_until_done: 2, ..Config::default() };
    let sim = Sim::start_at(config, clock.clone()).await;
    let file = sim.upload(&jsonl(&some_rows(5))).await;
    let (_, created) = sim.create_batch("run-7f3a-part-004", &file).await;
    let name = created["name"].as_str().unwrap().to_owned();
    let id = name.strip_prefix("batches/").unwrap();
    assert!(id.len() == 36 && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{id}");
    let time = "2025-11-24T16:00:00.000000000Z";
    assert_eq!(
        created,
        json!({"name": name, "metadata": {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch", "name": name,
            "model": format!("models/{MODEL}"), "displayName": "run-7f3a-part-004", "inputConfig": {"fileName": file},
            "createTime": time, "updateTime": time, "state": "BATCH_STATE_PENDING",
            "batchStats": {"requestCount": "5", "pendingRequestCount": "5"},
        }})
    );
    assert_eq!(sim.get(&path(&created)).await, created, "the first look finds it pending");
    assert_eq!(state_of(&sim.get(&path(&created)).await), "BATCH_STATE_RUNNING");
    assert_eq!(sim.output(&created).await.unwrap().0, 404);
    clock.pass(Duration::from_secs(40));
    let done = sim.get(&path(&created)).await;
    clock.pass(Duration::from_secs(40));
    assert_eq!(sim.get(&path(&created)).await, done, "an ended batch never changes");
    let output = file_of(&created);
    assert_eq!((state_of(&done).as_str(), &done["done"]), ("BATCH_STATE_SUCCEEDED", &json!(true)));
    assert_eq!(done["response"]["responsesFile"], output);
    assert_eq!(done["metadata"]["output"]["responsesFile"], output);
    assert_eq!(done["metadata"]["batchStats"], json!({"requestCount": "5", "successfulRequestCount": "5"}));
    assert_eq!(done["metadata"]["endTime"], "2025-11-24T16:00:40.000000000Z");
    assert_eq!(output.len(), "files/".len() + 42);

    let lines = sim.output_lines(&created).await;
    for (n, line) in lines.iter().enumerate() {
        let digest = Digest::of(&contents(&format!("text {n}")));
        assert_eq!(line["key"], format!("row-{n}"));
        assert_eq!(text_of(line), format!("sim {digest}: text {n}"));
    }
    assert_eq!(lines.len(), 5);
    let whole = sim.output(&created).await.unwrap();
    for form in [format!("/v1/{output}"), format!("/v1beta/{output}"), format!("/download/v1beta/{output}")] {
        assert_eq!(sim.send(Method::GET, &format!("{form}:download?alt=media"), None).await.unwrap(), whole, "{form}");
    }
    let (status, error) = sim.json(Method::GET, &format!("/v1/{output}"), None).await;
    assert_eq!((status, &error["error"]["status"]), (400, &json!("INVALID_ARGUMENT")), "the id is too long");
    let stats = sim.get("/simulator/stats").await;
    assert_eq!((&stats["batches"], &stats["rows"]), (&json!({"run-7f3a-part-004": 1}), &json!(5)));
}

#[tokio::test]
async fn an_upload_can_be_resumed() {
    let sim = Sim::start(Config::default()).await;
    let bytes = jsonl(&some_rows(100));
    let (_, url) = sim.begin("a file", "text/plain", bytes.len()).await;
    let first = sim.chunk(&url, "upload", 0, &bytes[..1000]).await.unwrap();
    assert_eq!(
        (head(&first, "x-goog-upload-status"), head(&first, "x-goog-upload-size-received")),
        ("active".into(), "1000".into())
    );
    let wrong = sim.chunk(&url, "upload", 900, &bytes[1000..1100]).await.unwrap();
    assert_eq!((wrong.status().as_u16(), head(&wrong, "x-goog-upload-size-received")), (400, "1000".into()));
    let early = sim.chunk(&url, "upload, finalize", 1000, &bytes[1000..1100]).await.unwrap();
    assert_eq!((early.status().as_u16(), head(&early, "x-goog-upload-status")), (400, "active".into()));
    let asked = sim.chunk(&url, "query", 0, b"").await.unwrap();
    assert_eq!((asked.status().as_u16(), head(&asked, "x-goog-upload-size-received")), (200, "1100".into()));
    let last = sim.chunk(&url, "upload, finalize", 1100, &bytes[1100..]).await.unwrap();
    assert_eq!(head(&last, "x-goog-upload-status"), "final");
    let (_, made) = read(last).await;
    let file = &made["file"];
    assert_eq!((&file["displayName"], &file["mimeType"]), (&json!("a file"), &json!("text/plain")));
    assert_eq!((&file["sizeBytes"], &file["state"]), (&json!(bytes.len().to_string()), &json!("ACTIVE")));
    let again = sim.chunk(&url, "query", 0, b"").await.unwrap();
    assert_eq!(head(&again, "x-goog-upload-status"), "final");
    assert_eq!(read(again).await.1, made, "the answer of the last command can be had again");
    let path = format!("/v1beta/{}", file["name"].as_str().unwrap());
    assert_eq!(&sim.get(&path).await, file);
    assert_eq!(sim.create_batch("x", file["name"].as_str().unwrap()).await.0, 200);

    let long = sim.begin("x", "application/json", 10).await.1;
    assert_eq!(sim.chunk(&long, "upload", 0, &bytes[..11]).await.unwrap().status(), 400, "longer than announced");
    assert_eq!(sim.begin("x", "application/zip", 10).await.0, 400);
    assert_eq!(sim.chunk(&url.replace("upload_id=", "upload_id=x"), "query", 0, b"").await.unwrap().status(), 404);
}

#[tokio::test]
async fn files_are_listed_kept_for_two_days_and_deleted() {
    let clock = still_clock();
    let sim = Sim::start_at(Config { file_bytes: 1000, file_quota: 1500, ..Config::default() }, clock.clone()).await;
    let mut names = BTreeSet::new();
    for _ in 0..12 {
        names.insert(sim.upload(b"{}").await);
    }
    let (mut listed, mut next) = (BTreeSet::new(), String::new());
    for left in [5, 5, 2] {
        let page = sim.get(&format!("/v1/files?pageSize=5&pageToken={next}")).await;
        let files = page["files"].as_array().unwrap();
        assert_eq!(files.len(), left);
        listed.extend(files.iter().map(|file| file["name"].as_str().unwrap().to_owned()));
        next = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!((listed, next.as_str()), (names.clone(), ""));
    let one = format!("/v1/{}", names.first().unwrap());
    assert_eq!(sim.json(Method::DELETE, &one, None).await, (200, json!({})));
    assert_eq!(sim.json(Method::GET, &one, None).await.0, 404);
    let two = format!("/v1/{}", names.last().unwrap());
    assert_eq!(sim.send(Method::GET, &format!("{two}:download?alt=media"), None).await.unwrap().0, 400);
    assert_eq!(sim.send_as(Some("other"), Method::GET, &two, None).await.unwrap().0, 403);
    assert_eq!(sim.begin("x", "text/plain", 1001).await.0, 400, "too large");
    sim.upload(&[b' '; 900]).await;
    assert_eq!(sim.begin("x", "text/plain", 900).await.0, 429, "beyond the quota");
    clock.pass(Duration::from_secs(48 * 3600));
    assert_eq!(sim.get("/v1/files").await, json!({}));
    assert_eq!(sim.json(Method::GET, &two, None).await.0, 404);
    assert_eq!(sim.begin("x", "text/plain", 900).await.0, 200, "expired files do not count");
}

#[tokio::test]
async fn batches_are_listed_newest_first_for_their_own_key() {
    let sim = Sim::start(Config::default()).await;
    for n in 0..7 {
        sim.batch(&format!("batch {n}"), &some_rows(1)).await;
    }
    let (mut listed, mut next) = (Vec::new(), String::new());
    loop {
        let page = sim.get(&format!("/v1/batches?pageSize=3{next}")).await;
        for operation in page["operations"].as_array().unwrap() {
            listed.push(operation["metadata"]["displayName"].as_str().unwrap().to_owned());
        }
        if listed.len() == 3 {
            sim.batch("while listing", &some_rows(1)).await;
        }
        match page["nextPageToken"].as_str() {
            Some(token) => next = format!("&pageToken={token}"),
            None => break,
        }
    }
    assert_eq!(listed, (0..7).rev().map(|n| format!("batch {n}")).collect::<Vec<_>>());
    let other = sim.send_as(Some("other"), Method::GET, "/v1/batches", None).await.unwrap();
    assert_eq!(other, (200, b"{}".to_vec()));
    let one = &sim.get("/v1/batches").await["operations"][0];
    for (method, path) in
        [(Method::GET, path(one)), (Method::DELETE, path(one)), (Method::POST, format!("{}:cancel", path(one)))]
    {
        assert_eq!(sim.send_as(Some("other"), method, &path, None).await.unwrap().0, 404);
    }
}

#[tokio::test]
async fn batches_are_cancelled_deleted_and_expire() {
    let clock = still_clock();
    let sim = Sim::start_at(Config { polls_until_done: 100, ..Config::default() }, clock.clone()).await;
    let (one, two) = (sim.batch("one", &some_rows(2)).await, sim.batch("two", &some_rows(2)).await);
    let cancel = format!("{}:cancel", path(&one));
    assert_eq!(sim.json(Method::POST, &cancel, None).await, (200, json!({})));
    let cancelled = sim.get(&path(&one)).await;
    assert_eq!((state_of(&cancelled).as_str(), &cancelled["error"]["code"]), ("BATCH_STATE_CANCELLED", &json!(1)));
    assert_eq!((&cancelled["done"], &cancelled["response"]), (&json!(true), &Value::Null));
    assert_eq!(sim.json(Method::POST, &cancel, None).await.1["error"]["status"], "FAILED_PRECONDITION");
    assert_eq!(sim.json(Method::DELETE, &path(&one), None).await, (200, json!({})));
    assert_eq!(sim.json(Method::GET, &path(&one), None).await.0, 404);
    assert_eq!(sim.get("/v1/batches").await["operations"].as_array().unwrap().len(), 1);
    clock.pass(Duration::from_secs(48 * 3600 - 1));
    assert_eq!(state_of(&sim.get(&path(&two)).await), "BATCH_STATE_PENDING");
    clock.pass(Duration::from_secs(1));
    assert_eq!(state_of(&sim.get(&path(&two)).await), "BATCH_STATE_EXPIRED");
    assert_eq!(sim.output(&two).await.unwrap().0, 404, "without results");
}

#[tokio::test]
async fn bad_lines_refuse_the_whole_batch() {
    let sim = Sim::start(Config::default()).await;
    let misplaced = json!({"key": "b", "request": {"contents": contents("b"), "thinking_config": {}}});
    let text = format!("{}\n{misplaced}\n\n{{\"key\"\n{}", row("a", "a"), row("c", "c"));
    let file = sim.upload(text.as_bytes()).await;
    let (status, refused) = sim.create_batch("x", &file).await;
    assert_eq!((status, &refused["error"]["status"]), (400, &json!("INVALID_ARGUMENT")));
    let message = refused["error"]["message"].as_str().unwrap();
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines.len(), 2, "{message}");
    assert!(lines[0].starts_with("Error on line 2: invalid JSON, near column "), "{message}");
    assert!(lines[0].ends_with(": no such field: 'thinking_config'"), "{message}");
    assert!(lines[1].starts_with("Error on line 4: invalid JSON, near column "), "{message}");
    assert_eq!(sim.create_batch("x", "files/none").await.0, 404);
    assert_eq!(sim.create_batch("x", &sim.upload(b"\n").await).await.0, 400);
    assert_eq!(sim.accepted().await, 0);
}

#[tokio::test]
async fn inline_requests_are_answered_inline() {
    let sim = Sim::start(Config::default()).await;
    let path = format!("/v1beta/models/{MODEL}:batchGenerateContent");
    let request = |text: &str, key| json!({"request": {"contents": contents(text)}, "metadata": {"key": key}});
    let input = json!({"requests": {"requests": [request("a", "k1"), request("b", "k2")]}});
    let body = json!({"batch": {"display_name": "inline", "input_config": input}});
    let (status, created) = sim.json(Method::POST, &path, Some(&body)).await;
    assert_eq!(status, 200, "{created}");
    let path = crate::batch_client::path(&created);
    sim.get(&path).await;
    let done = sim.get(&path).await;
    let responses = &done["response"]["inlinedResponses"]["inlinedResponses"];
    assert_eq!(responses[1]["metadata"]["key"], "k2");
    assert_eq!(text_of(&responses[1]), format!("sim {}: b", Digest::of(&contents("b"))));
    assert_eq!(sim.output(&created).await.unwrap().0, 404);

    let mut bad = body.clone();
    bad["batch"]["input_config"]["requests"]["requests"][1]["request"]["thinking"] = json!(1);
    let (status, refused) =
        sim.json(Method::POST, &format!("/v1/models/{MODEL}:batchGenerateContent"), Some(&bad)).await;
    let violation = &refused["error"]["details"][0]["fieldViolations"][0];
    assert_eq!((status, &violation["field"]), (400, &json!("batch.input_config.requests.requests[1]")));
}

#[tokio::test]
async fn answers_have_the_size_and_the_shape_that_is_asked_for() {
    let sim = Sim::start(Config { answer_bytes: 10_000, ..Config::default() }).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let config = json!({"response_mime_type": "application/json", "response_json_schema": schema});
    let shaped = json!({"key": "b", "request": {"contents": contents("b"), "generation_config": config}});
    let created = sim.batch("x", &[row("a", "a"), shaped]).await;
    sim.batch_end(&created).await;
    let lines = sim.output_lines(&created).await;
    assert!(lines.iter().all(|line| text_of(line).len() == 10_000), "{lines:?}");
    assert!(serde_json::from_str::<Value>(text_of(&lines[1])).unwrap()["n"].is_i64());
}

#[tokio::test]
async fn limits_refuse_more_batches_until_others_have_ended() {
    let sim =
        Sim::start(Config { batch_jobs: 2, polls_until_done: 0, latency: Duration::from_secs(1), ..Config::default() });
    let sim = sim.await;
    let file = sim.upload(&jsonl(&some_rows(2))).await;
    let one = sim.create_batch("one", &file).await.1;
    assert_eq!(sim.create_batch("two", &file).await.0, 200);
    let (status, refused) = sim.create_batch("three", &file).await;
    assert_eq!((status, &refused["error"]["status"]), (429, &json!("RESOURCE_EXHAUSTED")));
    sim.json(Method::POST, &format!("{}:cancel", path(&one)), None).await;
    assert_eq!(sim.create_batch("three", &file).await.0, 200);
    assert_eq!(sim.get("/simulator/stats").await["batches"], json!({"one": 1, "two": 1, "three": 1}));

    let bytes = jsonl(&some_rows(2)).len() as u64;
    let tokens = Config { enqueued_tokens: Some(bytes.div_ceil(4)), polls_until_done: 100, ..Config::default() };
    let sim = Sim::start(tokens).await;
    let file = sim.upload(&jsonl(&some_rows(2))).await;
    assert_eq!(sim.create_batch("one", &file).await.0, 200);
    assert_eq!(sim.create_batch("two", &file).await.0, 429);
    let large = sim.upload(&jsonl(&some_rows(3))).await;
    assert_eq!(sim.create_batch("three", &large).await.0, 429);
}
