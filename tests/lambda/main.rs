//! The functions, in this process, on the parts of a stack in an emulator: what they do when AWS or a message is odd.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../emulator/mod.rs"]
mod emulator;
mod replay;
#[path = "../simulated/mod.rs"]
mod simulated;
mod summary;
mod webhook;
mod world;

use std::fmt::Write as _;
use std::time::Duration;

use emulator::proxy::{Answer, Seen, Verdict};
use gleaner::lambda::Function::{Tick, Worker};
use serde_json::{Value, json};
use world::{World, batch, failed, invoke};

fn key() -> Value {
    json!({"gemini_api_keys": ["AIza-a-key-for-tests"]})
}

fn schedule() -> Value {
    json!({"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}})
}

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        writeln!(text, "{}", json!({"input": format!("number {n}")})).unwrap();
        text
    })
}

/// Whether a request writes the item of an intake.
fn writes_intake(seen: &Seen) -> bool {
    seen.operation() == "PutItem" && seen.json()["Item"]["kind"]["S"] == "intake"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_landing_meets_trouble_stays_and_keeps_no_other_from_being_told_or_taken() {
    let world = World::new(&key()).await;
    world.put("inbox/a-good.jsonl", &lines(1)).await;
    world.put("inbox/b-empty.jsonl", "").await;
    world.proxy.judge(|seen| match writes_intake(seen) {
        true => Verdict::Answer(Answer::json_error(400, "AccessDeniedException")),
        false => Verdict::Pass,
    });
    let told = world.invoke(Tick, &schedule()).await.unwrap();
    assert_eq!(told["inbox"], json!({"landed": 0, "refused": 1, "handed_over": 0}), "{told}");
    assert!(told["troubles"][0].as_str().unwrap().contains("AccessDenied"), "{told}");
    assert_eq!(world.names("inbox/").await, ["inbox/a-good.jsonl"], "what has not landed stays");
    // Jobs of the event that can't be landed are the invocation's failure: Lambda keeps them.
    world.invoke(Tick, &json!({"jobs": [{"input": "x"}]})).await.unwrap_err();

    world.proxy.judge(|_| Verdict::Pass);
    let told = world.invoke(Tick, &schedule()).await.unwrap();
    assert_eq!((&told["inbox"]["landed"], &told["troubles"]), (&json!(1), &json!([])), "{told}");
    assert!(world.names("inbox/").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_api_key_files_land_and_nothing_else_is_done() {
    let world = World::new(&json!({"gemini_api_keys": []})).await;
    world.put("inbox/a.jsonl", &lines(2)).await;
    let told = world.invoke(Tick, &json!({"jobs": [{"input": "x"}]})).await.unwrap();
    assert!(told["jobs_landed"].is_string() && told["inbox"]["landed"] == 1, "{told}");
    assert!(told["troubles"][0].as_str().unwrap().contains("no API key yet"), "{told}");
    assert_eq!(told["sent"], 0);

    // The worker takes a file, and leaves what needs Gemini to later.
    world.put("inbox/long.jsonl", &lines(3)).await;
    let version = json!({"name": "gone.jsonl", "version": "v", "bytes": 1});
    let item = json!({"item": format!("intake/{}", told["jobs_landed"].as_str().unwrap())});
    let event = batch(&[
        ("item", item),
        ("gone", json!({"inbox": version})),
        ("garbage", json!("not json")),
        ("other", json!({"x": 1})),
    ]);
    let told = world.invoke(Worker, &event).await.unwrap();
    assert_eq!(failed(&told), ["item", "garbage", "other"]);
    assert_eq!(world.sim.get("/simulator/log").await["accepted"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_fails_comes_again_and_the_others_are_done() {
    let world = World::new(&key()).await;
    let landed = world.invoke(Tick, &json!({"jobs": [{"input": "x", "idempotency_key": "mine"}]})).await.unwrap();
    assert_eq!(landed["sent"], 1, "{landed}");
    let event = batch(&[
        ("garbage", json!("{")),
        ("job", json!({"item": "job/mine"})),
        ("absent", json!({"item": "job/absent"})),
        ("unknown", json!({"items": "job/mine"})),
    ]);
    let told = world.invoke(Worker, &event).await.unwrap();
    assert_eq!(failed(&told), ["garbage", "unknown"]);
    assert_eq!(world.names("results/").await, ["results/mine.json"]);
    // Once more, as SQS may: nothing changes.
    assert_eq!(failed(&world.invoke(Worker, &batch(&[("job", json!({"item": "job/mine"}))])).await.unwrap()), [""; 0]);
    assert_eq!(world.sim.get("/simulator/log").await["accepted"], 1);

    world.proxy.judge(|seen| match seen.operation() {
        "GetItem" => Verdict::Answer(Answer::json_error(400, "AccessDeniedException")),
        _ => Verdict::Pass,
    });
    assert_eq!(failed(&world.invoke(Worker, &batch(&[("job", json!({"item": "job/mine"}))])).await.unwrap()), ["job"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_intake_is_handed_over_put_off_and_handed_over_again_when_nobody_took_it() {
    let world = World::new(&key()).await;
    world.put("inbox/many.jsonl", &lines(1100)).await;
    let tick = world.process(Tick);
    let minutes = Duration::from_secs(180);
    let told = invoke(&tick, Tick, &schedule(), minutes).await.unwrap();
    assert_eq!((&told["inbox"]["landed"], &told["lines"]), (&json!(1), &json!(0)), "{told}");
    let queued = world.queued().await;
    assert_eq!(queued.len(), 1, "{queued:?}");
    assert!(queued[0]["item"].as_str().unwrap().starts_with("intake/"));
    invoke(&tick, Tick, &schedule(), minutes).await.unwrap();
    assert_eq!(world.queued().await.len(), 1, "it is left to the worker for a while");

    // Nobody took it: after a lease it is handed over once more, and nothing is lost.
    world::eventually("it is handed over again", async || {
        invoke(&tick, Tick, &schedule(), minutes).await.unwrap();
        world.queued().await.len() > 1
    })
    .await;
    // The worker stops taking lines early enough, and says nothing of failure.
    let short =
        invoke(&world.process(Worker), Worker, &batch(&[("m", queued[0].clone())]), Duration::from_millis(25_700))
            .await;
    assert_eq!(failed(&short.unwrap()), [""; 0]);
    let taken = world.sim.get("/simulator/log").await["accepted"].as_u64().unwrap();
    assert!(taken < 1100, "{taken} lines in less than a second");
    let all = invoke(&world.process(Worker), Worker, &batch(&[("m", queued[0].clone())]), minutes).await.unwrap();
    assert_eq!(failed(&all), [""; 0]);
    assert_eq!(world.sim.get("/simulator/log").await["accepted"], 1100, "every line once");
}

/// The name of an item in a message of the work queue.
fn item(message: &Value) -> &str {
    message["item"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_handed_over_where_it_takes_long_and_the_worker_hands_nothing_on() {
    let world = World::new(&key()).await;
    let row = |n: usize, said: &str| {
        json!({"key": format!("row-{n}"), "request": {"contents": [{"parts": [{"text": format!("{n} {said}")}]}]}})
            .to_string()
    };
    // Five rows of more bytes than a tick reads.
    let rows: Vec<String> = (0..5).map(|n| row(n, &"x".repeat(7 << 20))).collect();
    world.put("inbox/rows.jsonl", &format!("{{\"gleaner\": {{\"mode\": \"batch\"}}}}\n{}\n", rows.join("\n"))).await;
    let mut works = Vec::new();
    for _ in 0..30 {
        // Another process each time: it doesn't remember what was handed over.
        let told = world.invoke(Tick, &schedule()).await.unwrap();
        assert_eq!(told["troubles"], json!([]), "{told}");
        let queued = world.take_queued().await;
        for message in &queued {
            works.push(message.clone());
            assert_eq!(failed(&world.invoke(Worker, &batch(&[("m", message.clone())])).await.unwrap()), [""; 0]);
            assert_eq!(world.queued().await, [] as [Value; 0], "the worker hands nothing on: {message}");
        }
        if world.names("results/").await.len() == 5 {
            break;
        }
    }
    // The file, the run that is to be cut; then of each part (a row has tokens for one) its rows that are to be uploaded
    // and its output that is to be taken.
    assert!(works[0]["inbox"].is_object() && item(&works[1]).starts_with("intake/"), "{works:?}");
    assert!(works.len() == 12 && works[2..].iter().all(|work| item(work).starts_with("job/")), "{works:?}");
    assert_eq!(world.names("results/").await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_cannot_be_read_is_shown_nowhere() {
    let world = World::new(&key()).await;
    for odd in [
        json!({"ARN": "a", "Name": "keys", "SecretString": "AIza-shown", "CreatedDate": "no time"}).to_string(),
        json!({"ARN": "a", "SecretString": {"AIza-shown": 1}}).to_string(),
        "AIza-shown".to_owned(),
    ] {
        world.proxy.judge(move |seen| match seen.operation() {
            "GetSecretValue" => Verdict::Answer(Answer::new(200, "application/x-amz-json-1.1", odd.clone())),
            _ => Verdict::Pass,
        });
        let told = world.invoke(Tick, &schedule()).await.unwrap();
        assert!(told["troubles"][0].is_string() && !told.to_string().contains("AIza"), "{told}");
    }
    world.proxy.judge(|seen| match seen.operation() {
        "GetSecretValue" => {
            let body =
                json!({"__type": "InvalidSignatureException", "message": "canonical: x-amz-security-token:THE-TOKEN"});
            Verdict::Answer(Answer::new(403, "application/x-amz-json-1.1", body.to_string()))
        }
        _ => Verdict::Pass,
    });
    let told = world.invoke(Tick, &schedule()).await.unwrap().to_string();
    assert!(told.contains("InvalidSignatureException") && !told.contains("THE-TOKEN"), "{told}");
}
