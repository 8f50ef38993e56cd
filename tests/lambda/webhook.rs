//! The webhook function at its edges, and an event from it to the worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use gleaner::adapters::system::SystemClock;
use gleaner::domain::webhook::SigningSecret;
use gleaner::lambda::Function::{Tick, Webhook, Worker};
use gleaner::ports::clock::Clock as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::emulator::proxy::{Answer, Verdict};
use super::key;
use super::world::{World, batch, eventually, failed, invoke};

const SECRET: &str = "whsec_YSBzZWNyZXQgdGhhdCBvbmx5IHRlc3RzIGtub3c=";
const OTHER: &str = "whsec_YW5vdGhlciBzZWNyZXQgb2Ygbm9ib2R5J3M=";
const MINUTE: Duration = Duration::from_secs(60);

/// The headers of an event that is signed now.
fn headers(secret: &str, id: &str, body: &str) -> [(String, String); 3] {
    let seconds = SystemClock.now().0 / 1000;
    let mut mac = Hmac::<Sha256>::new_from_slice(SigningSecret::parse(secret).unwrap().key()).unwrap();
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    [("webhook-id", id.to_owned()), ("webhook-timestamp", seconds.to_string()), ("webhook-signature", signature)]
        .map(|(name, value)| (name.to_owned(), value))
}

/// An event of API Gateway, payload format 2.0.
fn request(secret: &str, id: &str, body: &str) -> Value {
    json!({"version": "2.0", "headers": Value::from_iter(headers(secret, id, body)), "body": body,
        "isBase64Encoded": false, "requestContext": {"http": {"method": "POST", "path": "/webhook"}}})
}

fn completed(handle: &str) -> String {
    json!({"type": "interaction.completed", "version": "v1", "data": {"id": handle}}).to_string()
}

async fn with_secret() -> World {
    let world = World::new(&key()).await;
    world.put_webhook_secrets(&json!({"webhook_secrets": [SECRET]})).await;
    world
}

/// Statuses of answers, sorted.
fn statuses(answers: &[Value]) -> Vec<u64> {
    let mut all: Vec<u64> = answers.iter().map(|answer| answer["statusCode"].as_u64().unwrap()).collect();
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_goes_through_the_queue_to_the_worker_in_every_format() {
    let world = with_secret().await;
    let webhook = world.process(Webhook);
    for (n, format) in ["2.0", "1.0", "url"].into_iter().enumerate() {
        let job = format!("job-{n}");
        let told = world.invoke(Tick, &json!({"jobs": [{"input": format!("{n}"), "idempotency_key": job}]})).await;
        assert_eq!(told.unwrap()["sent"], 1);
        let log = world.sim.get("/simulator/log").await;
        let handle = log["entries"][n]["id"].as_str().unwrap();
        let body = completed(handle);
        let id = format!("msg_{n}");
        let mut event = request(SECRET, &id, &body);
        match format {
            "1.0" => {
                let many = headers(SECRET, &id, &body).map(|(name, value)| (name.to_uppercase(), json!([value])));
                event = json!({"version": "1.0", "httpMethod": "POST", "body": body, "isBase64Encoded": false,
                    "multiValueHeaders": Value::from_iter(many), "headers": null});
            }
            "url" => {
                event["body"] = json!(STANDARD.encode(&body));
                event["isBase64Encoded"] = json!(true);
            }
            _ => {}
        }
        let answer = invoke(&webhook, Webhook, &event, MINUTE).await.unwrap();
        assert_eq!(
            (answer["statusCode"].as_u64(), &answer["headers"]["content-type"]),
            (Some(200), &json!("application/json")),
            "{format}: {answer}"
        );
        assert!(!answer.to_string().contains(handle), "nothing of the event comes back");
        let queued = world.take_queued().await;
        assert_eq!(queued, [json!({"event": {"handle": handle, "job": job}})], "{format}");
        let done = world.invoke(Worker, &batch(&[("m", queued[0].clone())])).await.unwrap();
        assert_eq!(failed(&done), [""; 0]);
        assert!(world.names("results/").await.contains(&format!("results/{job}.json")), "{format}");
        // Once more: a duplicate, and no work.
        let again = invoke(&webhook, Webhook, &event, MINUTE).await.unwrap();
        assert_eq!((again["statusCode"].as_u64(), world.queued().await.len()), (Some(200), 0));
    }
}

type Got = Arc<Mutex<Option<Value>>>;

/// An event that the simulator signs with Gemini's own keys, as API Gateway passes it on, and the URL it was sent to.
async fn signed_by_gemini(world: &World) -> (Value, String) {
    async fn keep(State(got): State<Got>, headers: HeaderMap, body: String) {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap())));
        let event = json!({"version": "2.0", "headers": Value::from_iter(headers), "body": body,
            "isBase64Encoded": false, "requestContext": {"http": {"method": "POST", "path": "/webhook"}}});
        *got.lock().unwrap() = Some(event);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = Got::default();
    let app = Router::new().route("/hook", post(keep)).with_state(Arc::clone(&got));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let body = json!({"model": "m", "input": "x", "background": true, "webhook_config": {"uris": [url]}});
    world.sim.send(reqwest::Method::POST, "/v1beta/interactions", Some(&body)).await.unwrap();
    eventually("the event comes", async || got.lock().unwrap().is_some()).await;
    let event = got.lock().unwrap().take().unwrap();
    (event, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn geminis_own_keys_are_where_the_settings_say_and_tokens_for_whom_they_say() {
    let world = with_secret().await;
    let faults = json!({"event-jwt": 1});
    world.sim.send(reqwest::Method::PUT, "/simulator/faults", Some(&faults)).await.unwrap();
    let (event, url) = signed_by_gemini(&world).await;
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!("http://{nowhere}/keys.json");
    for (status, setting) in [
        (503, ("GLEANER_WEBHOOK_KEYS", nowhere.as_str())),
        (401, ("GLEANER_WEBHOOK_AUDIENCE", "https://example.test/other")),
        (200, ("GLEANER_WEBHOOK_AUDIENCE", url.as_str())),
    ] {
        let answer = invoke(&world.process_with(Webhook, &[setting]), Webhook, &event, MINUTE).await.unwrap();
        assert_eq!(answer["statusCode"], status, "{setting:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_forged_events_read_the_secret_once_and_write_nothing() {
    let world = with_secret().await;
    let webhook = world.process(Webhook);
    world.proxy.take_seen();
    let forged: Vec<Value> = (0..1000).map(|n| request(OTHER, &format!("msg_{n}"), &completed("v1_x"))).collect();
    let answers = join_all(forged.iter().map(|event| invoke(&webhook, Webhook, event, MINUTE))).await;
    let answers: Vec<Value> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(statuses(&answers), vec![401; 1000]);
    let calls: Vec<String> = world.proxy.take_seen().iter().map(|seen| seen.operation().to_owned()).collect();
    assert_eq!(calls, ["GetSecretValue"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_event_is_refused_with_its_status_and_costs_no_call() {
    let world = with_secret().await;
    let webhook = world.process(Webhook);
    let good = request(SECRET, "msg_a", &completed("v1_x"));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut event = good.clone();
        change(&mut event);
        event
    };
    let long = "x".repeat(256 * 1024 + 1);
    let cases = [
        (405, changed(&|event| event["requestContext"]["http"]["method"] = json!("GET"))),
        (400, changed(&|event| event["headers"] = json!({}))),
        (400, changed(&|event| event["headers"]["webhook-id"] = json!("msg_a,msg_a"))),
        (400, changed(&|event| event["isBase64Encoded"] = json!(true))),
        (413, changed(&|event| event["body"] = json!(long))),
        (
            413,
            changed(&|event| {
                event["body"] = json!(STANDARD.encode(&long));
                event["isBase64Encoded"] = json!(true);
            }),
        ),
        (
            413,
            changed(&|event| {
                event["body"] = json!("!".repeat(600 * 1024));
                event["isBase64Encoded"] = json!(true);
            }),
        ),
        (401, changed(&|event| event["headers"]["webhook-timestamp"] = json!("1700000000"))),
        (401, changed(&|event| event["headers"]["webhook-signature"] = json!("v9,AAAA"))),
    ];
    world.proxy.take_seen();
    for (status, event) in &cases {
        let answer = invoke(&webhook, Webhook, event, MINUTE).await.unwrap();
        assert_eq!(answer["statusCode"], json!(status), "{answer}");
    }
    assert_eq!(world.proxy.take_seen().len(), 0, "refused before anything was asked");
    invoke(&webhook, Webhook, &json!({"detail-type": "Scheduled Event"}), MINUTE).await.unwrap_err();
    // Well signed, and no event all the same.
    for body in ["", "[]", "{}", "{\"type\": 1}", "null", "{\"type\":\"a\"} x"] {
        let answer = invoke(&webhook, Webhook, &request(SECRET, "msg_b", body), MINUTE).await.unwrap();
        assert_eq!(answer["statusCode"], 400, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trouble_of_ours_is_answered_so_that_the_event_comes_again() {
    let world = with_secret().await;
    let told = world.invoke(Tick, &json!({"jobs": [{"input": "x", "idempotency_key": "mine"}]})).await.unwrap();
    assert_eq!(told["sent"], 1);
    let handle = world.sim.get("/simulator/log").await["entries"][0]["id"].as_str().unwrap().to_owned();
    let event = request(SECRET, "msg_a", &completed(&handle));
    let puts = |seen: &super::emulator::proxy::Seen| seen.operation() == "PutItem";
    for broken in ["GetSecretValue", "PutItem", "GetItem", "Query", "SendMessageBatch"] {
        world.proxy.judge(move |seen| match seen.operation() == broken {
            true => Verdict::Answer(Answer::json_error(400, "AccessDeniedException")),
            false => Verdict::Pass,
        });
        let answer = invoke(&world.process(Webhook), Webhook, &event, MINUTE).await.unwrap();
        assert_eq!(answer["statusCode"], 503, "{broken}: {answer}");
        assert!(!answer.to_string().contains("AccessDenied"), "why is nobody's business out there");
    }
    // Handled, but that could not be written down: it comes again, and so does its work.
    let mut writes = 0;
    world.proxy.judge(move |seen| {
        writes += u32::from(puts(seen));
        // One that finds it there, one that takes it, one that says that it is handled.
        let is_last = puts(seen) && writes == 3;
        if is_last { Verdict::Answer(Answer::json_error(400, "AccessDeniedException")) } else { Verdict::Pass }
    });
    let answer = invoke(&world.process(Webhook), Webhook, &event, MINUTE).await.unwrap();
    assert_eq!(answer["statusCode"], 503, "{answer}");
    world.proxy.judge(|_| Verdict::Pass);
    let waits = world.queued().await.len();
    assert!(waits >= 1);
    let queued = world.take_queued().await;
    for message in &queued {
        assert_eq!(failed(&world.invoke(Worker, &batch(&[("m", message.clone())])).await.unwrap()), [""; 0]);
    }
    assert_eq!(world.names("results/").await, ["results/mine.json"]);
    assert_eq!(world.sim.get("/simulator/log").await["accepted"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_before_the_index_shows_its_handle_is_not_lost() {
    let world = with_secret().await;
    let hour = [("GLEANER_POLL_MIN", "1h"), ("GLEANER_POLL_MAX", "1h")];
    let tick = world.process_with(Tick, &hour);
    let told = invoke(&tick, Tick, &json!({"jobs": [{"input": "x", "idempotency_key": "mine"}]}), MINUTE * 3).await;
    assert_eq!(told.unwrap()["sent"], 1);
    let handle = world.sim.get("/simulator/log").await["entries"][0]["id"].as_str().unwrap().to_owned();
    // An index is behind its table for a moment.
    let mut looks = 0;
    world.proxy.judge(move |seen| {
        looks += u32::from(seen.operation() == "Query");
        let nothing = json!({"Items": [], "Count": 0, "ScannedCount": 0}).to_string();
        match seen.operation() == "Query" && looks == 1 {
            true => Verdict::Answer(Answer::new(200, "application/x-amz-json-1.0", nothing)),
            false => Verdict::Pass,
        }
    });
    let webhook = world.process(Webhook);
    let answer = invoke(&webhook, Webhook, &request(SECRET, "msg_a", &completed(&handle)), MINUTE).await.unwrap();
    assert_eq!(answer["statusCode"], 200, "{answer}");
    assert_eq!(world.queued().await, [json!({"event": {"handle": handle, "job": "mine"}})]);
}
