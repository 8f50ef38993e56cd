use std::collections::HashSet;

use super::*;
use crate::domain::json::{digest, idempotency_key};
use crate::domain::model::NO_URL;

fn header(options: &str) -> Header {
    parse_header(format!("{{\"gleaner\": {options}}}").as_bytes()).unwrap().unwrap()
}

fn job_with(line: &str, header: &Header) -> JobLine {
    parse_line(line.as_bytes(), header).unwrap().unwrap()
}

fn job(line: &str) -> JobLine {
    job_with(line, &Header::default())
}

fn body(job: &JobLine) -> String {
    let model = job.target.as_deref().unwrap_or("gemini-flash-latest");
    String::from_utf8(job.create_body(model, None)).unwrap()
}

fn names(job: &JobLine) -> Vec<&str> {
    job.request.iter().map(|(name, _)| name.as_str()).collect()
}

fn key_of(canonical: &str) -> String {
    idempotency_key(canonical).0
}

#[track_caller]
fn assert_bad(line: impl AsRef<[u8]>, class: &str, message: &str) {
    let error = parse_line(line.as_ref(), &Header::default()).unwrap_err();
    assert_eq!((error.class, error.message.as_str()), (class, message));
}

#[track_caller]
fn assert_bad_header(line: &str, message: &str) {
    let error = parse_header(line.as_bytes()).unwrap_err();
    assert_eq!((error.class, error.message.as_str()), ("bad_line:header", message));
}

#[test]
fn without_a_header_the_key_is_the_seeds_key() {
    let vectors: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../../../tests/vectors/idempotency.json")).unwrap();
    let with_input: Vec<_> = vectors.iter().filter(|v| v["job_json"].as_str().unwrap().contains("\"input\"")).collect();
    assert_eq!(with_input.len(), 3);
    for vector in with_input {
        let job = job(vector["job_json"].as_str().unwrap());
        assert_eq!(job.key.0, vector["idem"].as_str().unwrap());
        assert_eq!(job.content, job.key.0);
    }
}

#[test]
fn blank_lines_are_no_lines() {
    for blank in ["", " ", "\r", "\t \r"] {
        assert!(parse_line(blank.as_bytes(), &Header::default()).unwrap().is_none());
        assert!(parse_header(blank.as_bytes()).unwrap().is_none());
    }
    assert_eq!(job("{\"input\": \"hello\"}\r").key, job("{\"input\":\"hello\"}").key);
}

#[test]
fn a_job_has_its_fields_apart() {
    let job = job(concat!(
        r#"{"date": "2026-11-29", "input": ["a"], "mode": "interaction", "expect": {"retry": true}, "agent": "deep", "#,
        r#""tools": null, "metadata": {"n": 1}, "idempotency_key": "my-job_1", "cached_content": "c"}"#
    ));
    assert_eq!((job.key.0.as_str(), job.mode, job.target.as_deref()), ("my-job_1", Mode::Interaction, Some("deep")));
    assert_eq!(job.expect.as_ref().map(|expect| expect.get()), Some(r#"{"retry": true}"#));
    assert_eq!(names(&job), ["input", "agent", "tools", "cached_content"]);
    assert_eq!(job.unsent, ["date", "metadata"]);
    let canonical = concat!(
        r#"{"agent": "deep", "cached_content": "c", "date": "2026-11-29", "expect": {"retry": true}, "#,
        r#""idempotency_key": "my-job_1", "input": ["a"], "metadata": {"n": 1}, "mode": "interaction", "tools": null}"#
    );
    assert_eq!(job.content, digest(canonical));
}

#[test]
fn the_same_own_key_with_other_content_is_seen() {
    let first = job(r#"{"input": "a", "idempotency_key": "k"}"#);
    assert_eq!(first.content, job(r#"{"idempotency_key":"k","input":"\u0061"}"#).content);
    assert_ne!(first.content, job(r#"{"input": "b", "idempotency_key": "k"}"#).content);
}

#[test]
fn defaults_are_an_interaction_with_the_default_model() {
    let job = job(r#"{"input": {"type": "text", "text": "hi"}}"#);
    assert_eq!((job.mode, job.target.as_deref(), job.expect.is_none()), (Mode::Interaction, None, true));
    assert!(job.unsent.is_empty());
}

#[test]
fn the_create_body_keeps_texts_as_written() {
    let job = job(concat!(
        r#"{"x": 1, "input": "\u00e9\/", "generation_config": {"seed": 123456789012345678901234567890, "#,
        r#""t": 1.50E+1}, "labels": {"task": "t-1"}, "mode": "interaction", "idempotency_key": "k"}"#
    ));
    assert_eq!(
        body(&job),
        concat!(
            r#"{"input":"\u00e9\/","generation_config":{"seed": 123456789012345678901234567890, "t": 1.50E+1},"#,
            r#""model":"gemini-flash-latest","background":true,"store":true,"labels":{"task": "t-1","gleaner":"k"}}"#
        )
    );
}

#[test]
fn the_create_body_has_one_target_and_our_label() {
    let bodies = [
        (r#"{"input":"a","model":"m","idempotency_key":"k"}"#, r#"{"input":"a","model":"m","#),
        (r#"{"input":"a","agent":"g","idempotency_key":"k"}"#, r#"{"input":"a","agent":"g","#),
        (r#"{"input":"a","labels":{ },"idempotency_key":"k"}"#, r#"{"input":"a","model":"gemini-flash-latest","#),
    ];
    for (line, start) in bodies {
        assert_eq!(body(&job(line)), format!(r#"{start}"background":true,"store":true,"labels":{{"gleaner":"k"}}}}"#));
    }
    let seed_key = job(r#"{"input": "hello"}"#);
    assert!(body(&seed_key).ends_with(r#""labels":{"gleaner":"133642cee5276371db4d479845f374c3"}}"#));
}

#[test]
fn the_request_is_one_value_for_checks() {
    let job = job(r#"{"input":"a","date":1,"response_format":{"type":"text","n":1e2},"expect":{}}"#);
    let expected = serde_json::json!({"input": "a", "response_format": {"type": "text", "n": 100.0}});
    assert_eq!(job.request_value().unwrap(), expected);
}

#[test]
fn a_header_is_an_object_with_the_one_member() {
    assert!(parse_header(br#"{"input": "gleaner"}"#).unwrap().is_none());
    assert!(parse_header(b"[1]").unwrap().is_none());
    // A first line that can't be read is reported as a line, unless it was meant to be a header.
    assert!(parse_header(b"{\"input\": ").unwrap().is_none());
    assert!(parse_header(b"{\"input\": \"\xff\"}").unwrap().is_none());
    assert_eq!(parse_header(b" { \"gleaner\": {\"model\": \"m\",}}").unwrap_err().class, "bad_line:json");
    assert_eq!(parse_header(b"{\"gleaner\": {\"model\": \"\xff\"}}").unwrap_err().class, "bad_line:utf8");
    assert_eq!(parse_header(br#"{"gleaner":{},"gleaner":{}}"#).unwrap_err().class, "bad_line:duplicate_name");
    let stray = r#"{"gleaner": {}, "input": "a"}"#;
    assert_bad_header(stray, "input: stands beside gleaner; the options are alone in their line");
    assert_bad_header(r#"{"gleaner": "x"}"#, "gleaner: must be an object, not a string");
    assert_bad(stray, "bad_line:field", "gleaner: options stand alone in the first line of a file");
}

#[test]
fn a_header_has_its_options() {
    let header = header(concat!(
        r#"{"mode": "batch", "model": "m", "expect": {"json": true}, "deadline": "1h 30m", "max_attempts": 100, "#,
        r#""request": {"system_instruction": "Be \u0073hort.", "labels": {"a": ""}}}"#
    ));
    assert_eq!((header.mode, header.model.as_deref()), (Some(Mode::Batch), Some("m")));
    assert_eq!(header.expect.as_ref().map(|expect| expect.get()), Some(r#"{"json": true}"#));
    assert_eq!((header.deadline, header.max_attempts), (Some(Duration::from_secs(5400)), Some(100)));
    let request: Vec<_> = header.request.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
    assert_eq!(request, [("system_instruction", r#""Be \u0073hort.""#), ("labels", r#"{"a": ""}"#)]);
    let empty = parse_header(br#"{"gleaner": {}}"#).unwrap().unwrap();
    assert!(empty.mode.is_none() && empty.model.is_none() && empty.request.is_empty());
}

#[test]
fn header_errors_name_the_option() {
    let attempts = "gleaner.max_attempts: must be a whole number from 1 to 100";
    let deadline = "gleaner.deadline: must be a duration such as 10s, 15m or 72h";
    let label = "gleaner.request.labels.gleaner: set by gleaner itself, for every job; leave it out";
    let cases = [
        (
            r#"{"modle": 1}"#,
            "gleaner.modle: no such option; there are mode, model, expect, deadline, max_attempts, request",
        ),
        (r#"{"mode": "fast"}"#, "gleaner.mode: must be interaction, call or batch"),
        (r#"{"mode": null}"#, "gleaner.mode: must be a string, not null"),
        (r#"{"model": ""}"#, "gleaner.model: must not be empty"),
        (r#"{"model": ".."}"#, &format!("gleaner.model: {NO_URL}")),
        (r#"{"mode": "batch", "model": "models/."}"#, &format!("gleaner.model: {NO_URL}")),
        (r#"{"request": {"model": "tunedModels/.."}}"#, &format!("gleaner.request.model: {NO_URL}")),
        (r#"{"expect": []}"#, "gleaner.expect: must be an object, not an array"),
        (r#"{"deadline": 72}"#, "gleaner.deadline: must be a string, not a number"),
        (r#"{"deadline": "soon"}"#, deadline),
        (r#"{"deadline": "-1h"}"#, deadline),
        (r#"{"deadline": "99999999999999999999h"}"#, deadline),
        (r#"{"deadline": "0s"}"#, "gleaner.deadline: must be at least 1s"),
        (r#"{"deadline": "999ms"}"#, "gleaner.deadline: must be at least 1s"),
        (r#"{"max_attempts": 0}"#, attempts),
        (r#"{"max_attempts": 101}"#, attempts),
        (r#"{"max_attempts": 4.0}"#, attempts),
        (r#"{"max_attempts": "4"}"#, attempts),
        (r#"{"request": 1}"#, "gleaner.request: must be an object, not a number"),
        (r#"{"request": {"tool": []}}"#, "gleaner.request.tool: the create call has no such field"),
        (r#"{"request": {"expect": {}}}"#, "gleaner.request.expect: the create call has no such field"),
        (r#"{"request": {"input": "a"}}"#, "gleaner.request.input: each line has its own"),
        (
            r#"{"request": {"store": false}}"#,
            "gleaner.request.store: set by gleaner itself, for every job; leave it out",
        ),
        (r#"{"request": {"labels": {"gleaner": "x"}}}"#, label),
        (r#"{"model": "m", "request": {"model": "n"}}"#, "gleaner.request.model: gleaner.model names a model already"),
        (r#"{"model": "m", "request": {"agent": "n"}}"#, "gleaner.request.agent: gleaner.model names a model already"),
        (
            r#"{"request": {"model": "m", "agent": "n"}}"#,
            "gleaner.request.agent: a model is named too; Gemini takes one of the two",
        ),
    ];
    for (options, message) in cases {
        assert_bad_header(&format!("{{\"gleaner\": {options}}}"), message);
    }
}

#[test]
fn options_that_change_the_request_change_the_key() {
    let line = r#"{"input": "hello"}"#;
    let keys = [
        ("{}", r#"{"input": "hello"}"#),
        (r#"{"expect": {"json": true}, "deadline": "1h", "max_attempts": 9}"#, r#"{"input": "hello"}"#),
        (r#"{"model": "m"}"#, r#"{"input": "hello", "model": "m"}"#),
        (r#"{"mode": "interaction"}"#, r#"{"input": "hello"}"#),
        (r#"{"mode": "call"}"#, r#"{"input": "hello", "mode": "call"}"#),
        (r#"{"request": {"tools": [1E2]}}"#, r#"{"input": "hello", "tools": [100.0]}"#),
    ];
    for (options, canonical) in keys {
        let job = job_with(line, &header(options));
        assert_eq!((job.key.0, job.content), (key_of(canonical), digest(canonical)), "{options}");
    }
}

#[test]
fn header_options_are_for_lines_that_say_nothing() {
    let options = header(concat!(
        r#"{"mode": "call", "model": "from-header", "expect": {"from": "header"}, "#,
        r#""request": {"tools": ["header"], "safety_settings": []}}"#
    ));
    let silent = job_with(r#"{"input": "a"}"#, &options);
    assert_eq!((silent.mode, silent.target.as_deref()), (Mode::Call, Some("from-header")));
    assert_eq!(silent.expect.as_ref().map(|expect| expect.get()), Some(r#"{"from": "header"}"#));
    assert_eq!(names(&silent), ["contents", "tools", "safetySettings"]);
    let outspoken = concat!(
        r#"{"agent": "own", "expect": {}, "input": "a", "labels": {"own": "1"}, "mode": "interaction", "#,
        r#""safety_settings": [], "tools": null}"#
    );
    let own = job_with(outspoken, &options);
    assert_eq!((own.mode, own.target.as_deref()), (Mode::Interaction, Some("own")));
    assert_eq!((own.key.0.as_str(), own.expect.unwrap().get()), (key_of(outspoken).as_str(), "{}"));
}

#[test]
fn a_target_among_the_headers_fields_is_one_for_lines_without() {
    let options = header(r#"{"request": {"agent": "deep"}}"#);
    assert_eq!(job_with(r#"{"input": "a"}"#, &options).target.as_deref(), Some("deep"));
    let own = job_with(r#"{"input": "a", "model": "m"}"#, &options);
    assert_eq!((own.target.as_deref(), names(&own)), (Some("m"), vec!["input", "model"]));
}

#[test]
fn bad_lines_name_column_or_field() {
    assert_bad(b"{\"input\": \"\xff\"}", "bad_line:utf8", "not UTF-8: byte 12 (counted from 1) at column 12");
    assert_bad(r#"{"input": "a""#, "bad_line:json", "not JSON: EOF while parsing an object at column 13");
    assert_bad(
        r#"{"input": "a", "input": "b"}"#,
        "bad_line:duplicate_name",
        r#"the name "input" comes twice in one object, again at column 16"#,
    );
    assert_bad(r#"{"input": [1e999]}"#, "bad_line:number", "the number 1e999 is too large for a float at column 12");
    assert_bad("[]", "bad_line:not_an_object", "a line must be a JSON object, not an array");
    assert_bad(
        r#"{"key": "row-1", "request": {"contents": []}}"#,
        "bad_line:row",
        "this looks like a row of a batch run ({\"key\", \"request\"}), which is run with --mode batch or under a header that says so; a job's line has an input",
    );
    let long = format!("{{\"input\": \"{}\"}}", "x".repeat(20_000_000));
    assert_bad(long, "bad_line:too_long", "the line is 20000013 bytes long; at most 20000000 are taken");
}

#[test]
fn bad_fields_are_named() {
    let own = "set by gleaner itself, for every job; leave it out";
    let label_name = "a label's name is 1 to 63 of a-z 0-9 _ - and begins with a letter";
    let label_value = "a label's value is at most 63 of a-z 0-9 _ -";
    let long = "x".repeat(64);
    let cases = [
        ("\"a\": 1".to_owned(), "input: missing; every job has one".to_owned()),
        ("\"input\": null".to_owned(), "input: must be a string, an array or an object, not null".to_owned()),
        ("\"input\": 7".to_owned(), "input: must be a string, an array or an object, not a number".to_owned()),
        ("\"input\": \"\"".to_owned(), "input: must not be empty".to_owned()),
        ("\"input\": []".to_owned(), "input: must not be empty".to_owned()),
        ("\"input\": {}".to_owned(), "input: must not be empty".to_owned()),
    ];
    let with_input = [
        (r#""idempotency_key": "A""#, "idempotency_key: must be 1 to 63 of a-z 0-9 _ -"),
        (r#""idempotency_key": "é""#, "idempotency_key: must be 1 to 63 of a-z 0-9 _ -"),
        (&format!("\"idempotency_key\": \"{long}\""), "idempotency_key: must be 1 to 63 of a-z 0-9 _ -"),
        (r#""idempotency_key": """#, "idempotency_key: must not be empty"),
        (r#""idempotency_key": 5"#, "idempotency_key: must be a string, not a number"),
        (r#""model": """#, "model: must not be empty"),
        (r#""model": ".""#, &format!("model: {NO_URL}")),
        (r#""model": "models/""#, &format!("model: {NO_URL}")),
        (r#""mode": "call", "model": "models/..""#, &format!("model: {NO_URL}")),
        (r#""agent": {}"#, "agent: must be a string, not an object"),
        (r#""model": "m", "agent": "a""#, "agent: a model is named too; Gemini takes one of the two"),
        (r#""mode": "Batch""#, "mode: must be interaction, call or batch"),
        (r#""expect": true"#, "expect: must be an object, not a boolean"),
        (r#""labels": null"#, "labels: must be an object, not null"),
        (r#""labels": {"gleaner": "x"}"#, &format!("labels.gleaner: {own}")),
        (r#""labels": {"1a": "x"}"#, &format!("labels.1a: {label_name}")),
        (r#""labels": {"": "x"}"#, &format!("labels.: {label_name}")),
        (r#""labels": {"Task": "x"}"#, &format!("labels.Task: {label_name}")),
        (r#""labels": {"t": "X"}"#, &format!("labels.t: {label_value}")),
        (&format!("\"labels\": {{\"t\": \"{long}\"}}"), &format!("labels.t: {label_value}")),
        (r#""labels": {"t": 1}"#, "labels.t: must be a string, not a number"),
        (r#""background": true"#, &format!("background: {own}")),
        (r#""store": true"#, &format!("store: {own}")),
        (r#""stream": false"#, &format!("stream: {own}")),
        (r#""webhook_config": {}"#, &format!("webhook_config: {own}")),
    ];
    let with_input = with_input.map(|(field, message)| (format!("\"input\": \"a\", {field}"), message.to_owned()));
    for (fields, message) in cases.into_iter().chain(with_input) {
        assert_bad(format!("{{{fields}}}"), "bad_line:field", &message);
    }
    let longest = format!(r#"{{"input": "a", "labels": {{"{0}": "{0}"}}, "idempotency_key": "{0}"}}"#, "x".repeat(63));
    assert_eq!(job(&longest).key.0.len(), 63);
}

#[test]
fn messages_quote_little() {
    let name = "長".repeat(5000);
    let lines = [
        format!("{{\"input\": \"a\", \"labels\": {{\"{name}\": \"x\"}}}}"),
        format!("{{\"{name}\": 1, \"{name}\": 1}}"),
        format!("{{\"input\": 1{}e999}}", "0".repeat(5000)),
        format!("{{\"gleaner\": {{\"{name}\": 1}}}}"),
    ];
    let mut classes = HashSet::new();
    for line in lines {
        let error = parse_header(line.as_bytes()).and_then(|_| parse_line(line.as_bytes(), &Header::default()));
        let error = error.unwrap_err();
        assert!(error.message.chars().count() < 160, "{error}");
        classes.insert(error.class);
    }
    assert_eq!(classes.len(), 4);
}
