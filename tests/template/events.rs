//! Every file of `events/` is an event of the function that it is named after, in the form that AWS sends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aws_lambda_events::sqs::SqsEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gleaner::app::replay::Replay;
use gleaner::app::work::Work;
use gleaner::domain::intake::run_key;
use gleaner::domain::item::ItemId;
use gleaner::domain::part::{PartId, attempt_key};
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Body, Delivery, Named, Request, SigningSecret};
use gleaner::lambda::{Environment, Event, Function, Service, handle};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("events")
}

fn event(name: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What the function of that handler answers, without a stack.
async fn answer(function: Function, name: &str) -> Result<Value, lambda_runtime::Diagnostic> {
    answer_to(function, &event(name)).await
}

async fn answer_to(function: Function, event: &Value) -> Result<Value, lambda_runtime::Diagnostic> {
    let told = [
        ("_HANDLER", function.handler()),
        ("GLEANER_TABLE", "nowhere"),
        ("GLEANER_BUCKET", "nowhere"),
        ("GLEANER_WORK_QUEUE", "http://127.0.0.1:9/nowhere"),
        ("GLEANER_DEAD_LETTERS", "http://127.0.0.1:9/nowhere"),
        ("GLEANER_GEMINI_SECRET", "nowhere"),
        ("GLEANER_WEBHOOK_SECRET", "nowhere"),
    ];
    let told = |asked: &str| told.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned());
    let environment = Environment::of(&told).unwrap();
    let payload = serde_json::value::to_raw_value(event).unwrap();
    let event = Event { payload, context: lambda_runtime::Context::default() };
    handle(&Service::new(environment).unwrap(), function, event).await
}

#[test]
fn every_function_has_an_event() {
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    let known = [
        "replay",
        "replay-direct",
        "summary",
        "tick",
        "tick-bare",
        "tick-jobs",
        "webhook",
        "webhook-function-url",
        "webhook-rest",
        "worker",
        "worker-batch",
    ];
    assert_eq!(files, known.map(str::to_owned).into(), "an event without a test, or a test without an event");
    for function in Function::ALL {
        assert!(files.contains(function.handler()));
    }
}

fn is_of_a_rule(event: &Value) {
    for field in ["version", "id", "detail-type", "source", "account", "time", "region"] {
        assert!(event[field].is_string(), "{field}");
    }
    assert!(event["resources"].is_array() && event["detail"].is_object());
}

fn are_jobs(jobs: &Value) {
    let jobs = jobs.as_array().unwrap();
    assert!(!jobs.is_empty());
    assert!(jobs.iter().all(|job| job["input"].is_string()));
}

#[test]
fn ticks_come_by_rule_with_and_without_jobs_and_bare() {
    for schedule in ["tick", "summary"] {
        is_of_a_rule(&event(schedule));
        assert_eq!((&event(schedule)["source"], &event(schedule)["detail"]), (&json!("aws.events"), &json!({})));
        assert_eq!(event(schedule)["detail-type"], "Scheduled Event");
    }
    is_of_a_rule(&event("tick-jobs"));
    are_jobs(&event("tick-jobs")["detail"]["jobs"]);
    are_jobs(&event("tick-bare")["jobs"]);
    assert_eq!(event("tick-bare").as_object().unwrap().len(), 1);
}

/// What the messages of an event name.
fn works(name: &str) -> Vec<Work> {
    let batch: SqsEvent = serde_json::from_value(event(name)).unwrap();
    batch
        .records
        .iter()
        .map(|message| {
            assert!(message.message_id.is_some() && message.receipt_handle.is_some());
            assert_eq!(message.event_source.as_deref(), Some("aws:sqs"));
            serde_json::from_str(message.body.as_deref().unwrap()).unwrap()
        })
        .collect()
}

#[test]
fn the_worker_is_sent_an_item_and_a_file() {
    let work = works("worker");
    assert!(matches!(work[..], [Work::Item(_), Work::Inbox(_)]), "{work:?}");
}

/// The event of batch work names the run that `events/rows.jsonl` becomes: its part, and the first attempt of that.
#[test]
fn the_worker_is_sent_the_example_run() {
    let rows = std::fs::read(folder().join("rows.jsonl")).unwrap();
    let run = run_key(&hex::encode(Sha256::digest(&rows)));
    let part = PartId::numbered(1);
    let expected = [ItemId::part(&run, &part), ItemId::job(&attempt_key(&run, &part, 1))];
    assert_eq!(works("worker-batch"), expected.map(Work::Item));
    let mut lines = rows.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let header: Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
    assert_eq!(header["gleaner"]["mode"], "batch");
    assert!(lines.all(is_row), "every line is a row");
}

fn is_row(line: &[u8]) -> bool {
    let line: Value = serde_json::from_slice(line).unwrap();
    line["key"].is_string() && line["request"]["contents"].is_array()
}

fn is_of_the_api(event: &Value, route: &str) {
    let path = route.strip_prefix("POST ").unwrap();
    assert_eq!(
        (&event["version"], &event["routeKey"], &event["rawPath"]),
        (&json!("2.0"), &json!(route), &json!(path))
    );
    let context = &event["requestContext"];
    assert_eq!((&context["http"]["method"], &context["http"]["path"]), (&json!("POST"), &json!(path)));
    assert_eq!((&context["routeKey"], &context["stage"]), (&json!(route), &json!("$default")));
    for (name, value) in event["headers"].as_object().unwrap() {
        assert_eq!(*name, name.to_lowercase(), "API Gateway writes names of headers in small letters");
        assert!(value.is_string());
    }
    assert_eq!(event["isBase64Encoded"], false);
    let body = event["body"].as_str().unwrap();
    assert_eq!(event["headers"]["content-length"], body.len().to_string());
    assert!(serde_json::from_str::<Value>(body).unwrap().is_object());
}

/// The request in an event of the webhook, and the header names as they are in it.
fn request(event: &Value) -> Request {
    let headers = event["headers"].as_object().unwrap().iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    let body = event["body"].as_str().unwrap();
    let body = match event["isBase64Encoded"].as_bool().unwrap() {
        true => STANDARD.decode(body).unwrap(),
        false => body.as_bytes().to_vec(),
    };
    Request { headers, body: body.into() }
}

/// The secret that `infra/README.md` names.
fn example_secret() -> SigningSecret {
    let text = include_str!("../../infra/README.md");
    let named = text.split('`').find(|quoted| quoted.starts_with("whsec_")).unwrap();
    SigningSecret::parse(named).unwrap()
}

#[test]
fn each_event_of_the_webhook_is_signed_for_its_time() {
    for (name, about) in [
        ("webhook", Named::Interaction("v1_ChdFeGFtcGxlT2ZBbkludGVyYWN0aW9u".to_owned())),
        ("webhook-function-url", Named::Interaction("v1_ChdFeGFtcGxlT2ZBbkludGVyYWN0aW9u".to_owned())),
        ("webhook-rest", Named::Batch("batches/0123456789abcdefghijklmnopqrstuvwxyz".to_owned())),
    ] {
        let request = request(&event(name));
        let delivery = Delivery::read(&request, Millis(1_795_932_000_000)).unwrap();
        assert!(delivery.proved_by_secrets(&[example_secret()]).is_some(), "{name}");
        assert_eq!(Body::read(&request.body).unwrap().named, about, "{name}");
        let header = |wanted: &str| request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        assert_eq!(header("content-length").unwrap().1, request.body.len().to_string(), "{name}");
    }
}

#[test]
fn each_event_of_the_webhook_has_the_form_of_its_door() {
    is_of_the_api(&event("webhook"), "POST /webhook");
    assert!(event("webhook")["requestContext"]["authorizer"].is_null());

    let url = event("webhook-function-url");
    assert_eq!((&url["version"], &url["routeKey"]), (&json!("2.0"), &json!("$default")));
    assert!(url["requestContext"]["domainName"].as_str().unwrap().contains(".lambda-url."));

    let rest = event("webhook-rest");
    assert_eq!(
        (&rest["version"], &rest["httpMethod"], &rest["path"]),
        (&json!("1.0"), &json!("POST"), &json!("/webhook"))
    );
    for (name, value) in rest["headers"].as_object().unwrap() {
        assert_eq!(rest["multiValueHeaders"][name], json!([value]), "{name}");
    }
}

#[tokio::test]
async fn an_event_of_long_ago_is_refused_at_every_door() {
    for name in ["webhook", "webhook-function-url", "webhook-rest"] {
        // Nothing is asked for it: there is no stack here.
        let answer = answer(Function::Webhook, name).await.unwrap();
        assert_eq!(answer["statusCode"], 401, "{name}: {answer}");
        assert!(serde_json::from_str::<Value>(answer["body"].as_str().unwrap()).unwrap()["error"].is_string());
    }
}

#[tokio::test]
async fn a_replay_has_a_caller_and_is_dry_by_either_door() {
    let replay = event("replay");
    is_of_the_api(&replay, "POST /replay");
    assert!(replay["requestContext"]["authorizer"]["iam"]["userArn"].is_string());
    let asked: Replay = serde_json::from_str(replay["body"].as_str().unwrap()).unwrap();
    let direct: Replay = serde_json::from_value(event("replay-direct")).unwrap();
    assert!(asked.dry_run && direct.dry_run);
    assert_eq!((asked.error_class.as_deref(), asked.limit, direct.limit), (Some("exhausted:429"), 20, 20));
    // Nothing is asked for it: there is no stack here.
    let mut without = replay;
    without["requestContext"]["authorizer"] = json!({});
    assert_eq!(answer_to(Function::Replay, &without).await.unwrap()["statusCode"], 403);
}
