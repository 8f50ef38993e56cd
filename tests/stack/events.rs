//! Events in the stack: from the API through the webhook, the work queue and the worker to the results.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, stream};
use gleaner::app::report::{every, progress};
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::simulator::Config;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::books::{audit, file};
use super::deployed::{Deployed, eventually};
use super::lines;
use super::runs::{looking, sha256_of};

/// Nobody looks by himself while a test runs.
const NEVER: [(&str, &str); 3] = [("TickState", "DISABLED"), ("PollMin", "1h"), ("PollMax", "1h")];

/// The key of a registered webhook.
const KEY: &[u8] = b"an example, of no use anywhere";

/// What the secret holds of it.
pub fn signing_secrets() -> Value {
    json!({"webhook_secrets": [format!("whsec_{}", STANDARD.encode(KEY))]})
}

/// The headers of an event that Gemini sends now.
pub fn signed(id: &str, body: &str) -> Vec<(&'static str, String)> {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
    mac.update(format!("{id}.{now}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    vec![("webhook-id", id.to_owned()), ("webhook-timestamp", now.to_string()), ("webhook-signature", signature)]
}

/// The body of an event.
pub fn event(about: &str, id: &str) -> String {
    json!({"type": about, "version": "v1", "timestamp": "2026-11-29T06:00:00Z", "data": {"id": id}}).to_string()
}

/// What Gemini calls the jobs that run there.
pub async fn handles(stack: &Deployed) -> Vec<String> {
    let submitted = every(&looking(stack), State::Submitted, usize::MAX).await.unwrap();
    let jobs = submitted.into_iter().filter_map(|item| match item {
        Item::Job(job) => job.handles.first().map(|handle| handle.id.clone()),
        _ => None,
    });
    jobs.collect()
}

/// Polling is slowed to an hour: whatever is known sooner is known by events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_10_000_rows_is_reconciled_through_events() {
    const ROWS: usize = 10_000;
    let parameters = [NEVER.as_slice(), &[("WebhookEvents", "each-job"), ("PartRows", "4000")]].concat();
    let config = Config { latency: Duration::from_secs(2), polls_until_done: 0, ..Config::default() };
    let stack = Deployed::with(config, &parameters).await;
    let text = file(ROWS);
    stack.put("rows.jsonl", text.clone()).await;
    let (engine, run, begun) = (looking(&stack), sha256_of(&text), now());
    eventually("the run is over", async || {
        let told = stack.invoke("tick", &json!({})).await?;
        assert_eq!(told["troubles"], json!([]), "{told}");
        let Some(progress) = super::runs::how_far(&engine, &run).await else { return Err("not landed".to_owned()) };
        if progress.is_over() { Ok(()) } else { Err(format!("{:?}", progress.tally)) }
    })
    .await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3600), "it was not events that told");
    let over = progress(&engine, &run).await.unwrap();
    let books = audit(&engine, &over, &text).await;
    assert_eq!((books.values.len(), books.dead.len()), (ROWS, 0));
    let taken = stack.logs("webhook").await;
    let taken = taken.iter().filter(|line| line["message"] == "an event was taken").count();
    let parts = over.run.as_ref().unwrap().parts.len();
    assert_eq!(taken, parts, "each part's batch job has one event");
    // Each was looked at once, for its event: nothing that an event says is believed, and nobody looked otherwise.
    let stats = stack.sim.get("/simulator/stats").await;
    let asked = |what: &str| stats["requests"][what].as_u64().unwrap_or_default();
    assert_eq!((asked("batch-get"), asked("batch-list")), (parts as u64, 0), "{stats}");
    assert_eq!((&stats["events"]["accepted"], &stats["events"]["lost"]), (&json!(parts), &json!(0)), "{stats}");
    println!("{ROWS} rows in {parts} parts were over after {took:?}, by {taken} events");
}

#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn now() -> Instant {
    Instant::now()
}

/// How long each of so many calls took, the shortest first.
async fn timed(calls: usize, call: impl AsyncFn(usize)) -> Vec<Duration> {
    let timed = stream::iter(0..calls).map(|n| {
        let call = &call;
        async move {
            let begun = now();
            call(n).await;
            begun.elapsed()
        }
    });
    let mut took: Vec<Duration> = timed.buffer_unordered(2).collect().await;
    took.sort_unstable();
    took
}

fn tell(what: &str, took: &[Duration]) {
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let late = took.iter().filter(|took| **took > Duration::from_secs(1)).count();
    println!(
        "{what}: {} calls, p50 {:?}, p99 {:?}, longest {:?}, {late} took more than 1 s",
        took.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// The times are told, not judged: most of them is the emulator's, whose share the refused events show.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_answers_1_000_events() {
    const JOBS: u32 = 50;
    // Its jobs run for longer than the test.
    let stack = Deployed::with(Config { latency: Duration::from_secs(7200), ..Config::default() }, &NEVER).await;
    stack.put_secret("WebhookSecret", &signing_secrets()).await;
    stack.put("jobs.jsonl", lines(0, JOBS)).await;
    eventually("every job is at Gemini", async || {
        stack.invoke("tick", &json!({})).await?;
        let there = handles(&stack).await.len();
        if there == JOBS as usize { Ok(()) } else { Err(format!("{there} of {JOBS}")) }
    })
    .await;
    let known = handles(&stack).await;

    let refused = timed(200, async |n| {
        let body = event("interaction.completed", &known[n % known.len()]);
        let forged = body.replace("completed", "cancelled");
        assert_eq!(stack.post_event(&signed(&format!("msg_forged_{n}"), &forged), &body).await.0, 401);
    })
    .await;
    tell("forged events, refused", &refused);

    let queued = timed(1000, async |n| {
        let body = event("interaction.completed", &known[n % known.len()]);
        let answer = stack.post_event(&signed(&format!("msg_{n}"), &body), &body).await;
        assert_eq!(answer, (200, json!({"event": "queued"}).to_string()));
    })
    .await;
    tell("events of running jobs, work for them queued", &queued);

    let again = timed(100, async |n| {
        let body = event("interaction.completed", &known[n % known.len()]);
        let answer = stack.post_event(&signed(&format!("msg_{n}"), &body), &body).await;
        assert_eq!(answer, (200, json!({"event": "duplicate"}).to_string()));
    })
    .await;
    tell("the same events again", &again);
    // Nothing that an event says is believed: the jobs still run, and all of them are on record as before.
    assert_eq!(handles(&stack).await.len(), JOBS as usize);
}
