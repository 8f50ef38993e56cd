//! The replay function at both its doors.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gleaner::lambda::Function::{Replay, Summary, Tick};
use serde_json::{Value, json};

use super::summary::park;
use super::world::{World, invoke};
use super::{key, schedule};

/// A request over the API, by somebody whom IAM has authorized.
fn request(body: &str) -> Value {
    json!({"version": "2.0", "routeKey": "POST /replay", "headers": {}, "body": body, "isBase64Encoded": false,
        "requestContext": {"http": {"method": "POST", "path": "/replay"},
            "authorizer": {"iam": {"userArn": "arn:aws:iam::123456789012:user/operator"}}}})
}

/// Status and body of the answer.
async fn ask(world: &World, event: &Value) -> (u64, Value) {
    let answer = world.invoke(Replay, event).await.unwrap();
    (answer["statusCode"].as_u64().unwrap(), serde_json::from_str(answer["body"].as_str().unwrap()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_with_its_reason_and_changes_nothing() {
    let world = World::new(&key()).await;
    park(&world).await;
    let before = world.table().await;
    for (status, event, told) in [
        (400, request("{"), "can't be read"),
        (400, request("[]"), "can't be read"),
        (400, request(r#"{"limt": 3}"#), "limt"),
        (400, request(r#"{"limit": 0}"#), "limit"),
        (400, request(r#"{"limit": 1000000}"#), "limit"),
        (400, request(r#"{"limit": -1}"#), "-1"),
        (400, request(r#"{"dry_run": false}"#), "reason"),
        (400, request(r#"{"request": "x"}"#), "request"),
        (413, request(&format!(r#"{{"reason": "{}"}}"#, "x".repeat(300_000))), "longer than"),
    ] {
        let (answered, body) = ask(&world, &event).await;
        assert_eq!(answered, status, "{body}");
        assert!(body["error"].as_str().unwrap().contains(told), "{body}");
    }
    let mut unnamed = request("{}");
    for authorizer in [json!({}), json!({"iam": null}), json!({"jwt": {}}), Value::Null] {
        unnamed["requestContext"]["authorizer"] = authorizer;
        assert_eq!(ask(&world, &unnamed).await.0, 403);
    }
    let mut broken = request("%%%");
    broken["isBase64Encoded"] = json!(true);
    assert_eq!(ask(&world, &broken).await.0, 400);
    let mut other = request("{}");
    other["requestContext"]["http"]["method"] = json!("GET");
    let answer = world.invoke(Replay, &other).await.unwrap();
    assert_eq!((&answer["statusCode"], &answer["headers"]["allow"]), (&json!(405), &json!("POST")));
    for direct in [json!({"limt": 3}), json!({"limit": 0}), json!([]), json!({"dry_run": false})] {
        world.invoke(Replay, &direct).await.unwrap_err();
    }
    assert_eq!(world.table().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_changes_nothing_and_a_real_one_has_the_job_tried_anew() {
    let world = World::new(&key()).await;
    park(&world).await;
    let before = world.table().await;
    let body = r#"{"error_class": "blocked"}"#;
    let mut encoded = request(&STANDARD.encode(body));
    encoded["isBase64Encoded"] = json!(true);
    for event in [request(body), encoded] {
        let (status, told) = ask(&world, &event).await;
        assert_eq!((status, &told["scanned"], &told["dry_run"]), (200, &json!(1), &json!(true)), "{told}");
        assert_eq!(
            (&told["items"][0]["id"], &told["items"][0]["outcome"]),
            (&json!("blocked-job"), &json!("would_replay"))
        );
    }
    for bare in [json!({"error_class": "blocked", "limit": 5}), json!({"ids": ["blocked-job"]})] {
        assert_eq!(world.invoke(Replay, &bare).await.unwrap()["items"][0]["id"], "blocked-job");
    }
    assert_eq!(ask(&world, &request("")).await.1["scanned"], 2, "nothing asks for a dry run of all");
    assert_eq!(world.invoke(Replay, &Value::Null).await.unwrap()["dry_run"], true);
    assert_eq!(world.table().await, before);

    let real = request(r#"{"error_class": "blocked", "dry_run": false, "reason": "the filter was changed"}"#);
    let (status, told) = ask(&world, &real).await;
    assert_eq!((status, &told["dry_run"], &told["scanned"]), (200, &json!(false), &json!(1)), "{told}");
    assert_eq!(told["resubmitted"].as_u64().unwrap() + told["recovered"].as_u64().unwrap(), 1, "{told}");
    for _ in 0..20 {
        world.invoke(Tick, &schedule()).await.unwrap();
        let left = world.invoke(Summary, &schedule()).await.unwrap();
        if left["dead_letters"] == 1 && world.names("results/").await == ["results/blocked-job.json"] {
            return;
        }
    }
    panic!("the replayed job has no result");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_a_replay_can_only_look() {
    let world = World::new(&key()).await;
    park(&world).await;
    world.put_webhook_secrets(&json!({"gemini_api_keys": []})).await;
    let keyless = world.process_with(Replay, &[("GLEANER_GEMINI_SECRET", "webhooks")]);
    let ask = async |body| {
        let answer = invoke(&keyless, Replay, &request(body), Duration::from_secs(180)).await.unwrap();
        (
            answer["statusCode"].as_u64().unwrap(),
            serde_json::from_str::<Value>(answer["body"].as_str().unwrap()).unwrap(),
        )
    };
    let (status, told) = ask("{}").await;
    assert_eq!((status, &told["scanned"]), (200, &json!(2)), "{told}");
    let (status, told) = ask(r#"{"dry_run": false, "reason": "x"}"#).await;
    assert_eq!(status, 500);
    assert!(told["error"].as_str().unwrap().contains("no API key"), "{told}");
}
