//! The pure functions that every job goes through: `cargo bench --bench domain`.

#![expect(clippy::unwrap_used, reason = "a bench stops at what it doesn't expect")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gleaner::domain::classify::{Met, classify};
use gleaner::domain::extract::{Expectation, extract};
use gleaner::domain::failure::Failure;
use gleaner::domain::interaction::Interaction;
use gleaner::domain::item::Item;
use gleaner::domain::job::{Rev, State};
use gleaner::domain::line::{Header, parse_line};
use gleaner::domain::step::step;
use gleaner::ports::conformance::sample;
use serde_json::json;

/// A job line of about `bytes` bytes, in English and Japanese.
fn line(bytes: usize) -> Vec<u8> {
    let sentence = "The reading room has kept its oak tables. 閲覧室の樫の机はそのまま残された。 ";
    let text: String = sentence.chars().cycle().take(bytes * 2 / 3).collect();
    let line = json!({"date": "2026-11-29", "input": text, "generation_config": {"temperature": 0.2, "seed": 7}});
    serde_json::to_vec(&line).unwrap()
}

/// From a line's bytes to its job: checked, canonical, hashed into its idempotency key.
fn key(criterion: &mut Criterion) {
    let header = Header::default();
    let mut group = criterion.benchmark_group("idempotency key of a line");
    for (name, bytes) in [("1 KB", 1_000), ("1 MB", 1_000_000)] {
        let line = line(bytes);
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| parse_line(black_box(&line), &header).unwrap().unwrap().key)
        });
    }
    group.finish();
}

fn classified(criterion: &mut Criterion) {
    let quota = json!({"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
            {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.25s"}]}});
    let body = serde_json::to_vec(&quota).unwrap();
    let mut group = criterion.benchmark_group("classify");
    group.bench_function("a 429 from its bytes", |bencher| {
        bencher.iter(|| classify(&Failure::from_http(429, None, black_box(&body)), Met::OnCreate));
    });
    let failure = Failure { message: "An internal error has occurred.".to_owned(), ..Failure::default() };
    group.bench_function("a failure without a code", |bencher| {
        bencher.iter(|| classify(black_box(&failure), Met::InWork));
    });
    group.finish();
}

/// A finished interaction whose output is `text`.
fn finished(text: &str) -> Vec<u8> {
    let answer = json!({
        "id": "v1_ChdabcDEF", "status": "completed", "model": "gemini-flash-latest",
        "usage": {"total_input_tokens": 240, "total_output_tokens": 310},
        "steps": [
            {"type": "user_input", "content": [{"type": "text", "text": "Summarize the article."}]},
            {"type": "thought", "summary": [{"type": "text", "text": "The article has three parts."}]},
            {"type": "model_output", "content": [{"type": "text", "text": text}]}
        ]
    });
    serde_json::to_vec(&answer).unwrap()
}

fn extracted(criterion: &mut Criterion) {
    let schema = json!({
        "type": "object",
        "required": ["title", "tags", "score"],
        "properties": {
            "title": {"type": "string", "maxLength": 60},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
            "score": {"type": "number", "minimum": 0, "maximum": 1}
        }
    });
    let value = json!({"title": "図書館が再開", "tags": ["library", "solar", "city"], "score": 0.75}).to_string();
    let request = json!({"response_format": {"type": "text", "mime_type": "application/json", "schema": schema}});
    let with_schema = Expectation::of(&request, None).unwrap();
    assert!(with_schema.json && with_schema.schema.is_some());
    let cases = [
        ("text", finished("The city library reopens on Monday. ".repeat(30).trim()), Expectation::default()),
        ("JSON with a schema", finished(&value), with_schema),
    ];
    let mut group = criterion.benchmark_group("extract, from the answer's bytes");
    for (name, body, expectation) in cases {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| extract(&Interaction::parse(black_box(&body)).unwrap(), &expectation).unwrap());
        });
    }
    group.finish();
}

fn stepped(criterion: &mut Criterion) {
    let mut job = sample::job_in("key", Rev("rev".to_owned()), State::Submitted, sample::START, Some(sample::START));
    job.handles = vec![sample::handle("v1_first"), sample::handle("v1_second")];
    let item = Item::Job(job);
    let text = serde_json::to_vec(&item).unwrap();
    let mut group = criterion.benchmark_group("step");
    group.bench_function("a submitted job with two handles", |bencher| {
        bencher.iter(|| step(black_box(&item), sample::minute(1)));
    });
    group.bench_function("the same, read from the ledger's bytes", |bencher| {
        bencher.iter(|| step(&serde_json::from_slice::<Item>(black_box(&text)).unwrap(), sample::minute(1)));
    });
    group.finish();
}

criterion_group!(benches, key, classified, extracted, stepped);
criterion_main!(benches);
