//! What the roles allow, compared with what the functions call: nothing is missing, and nothing is unused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use gleaner::app::report::progress;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::JobKey;
use gleaner::ports::ledger::Ledger;
use gleaner::ports::queue::Queue;
use serde_json::{Value, json};

use super::books::{audit, file};
use super::deployed::{Deployed, eventually};
use super::emulator::python;
use super::events::{event, signed, signing_secrets};
use super::lines;
use super::runs::{looking, sha256_of};

/// What a role must allow beyond what the function itself calls, and why.
const BY_LAMBDA: [&str; 5] =
    ["logs:CreateLogStream", "logs:PutLogEvents", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"];

/// What a role needs and no call shows: an upload is aborted only when it breaks, which the adapter's own tests make
/// happen; a GET of a named version of an inbox file needs its own action, which the log doesn't tell apart; and without
/// the right to list, S3 answers 403 for an object that isn't there.
const UNSEEN: [&str; 3] = ["s3:AbortMultipartUpload", "s3:GetObjectVersion", "s3:ListBucket"];

/// The action of IAM that a call needs.
fn action(service: &str, operation: &str) -> &'static str {
    match (service, operation) {
        ("DynamoDB", "GetItem") => "dynamodb:GetItem",
        ("DynamoDB", "BatchGetItem") => "dynamodb:BatchGetItem",
        ("DynamoDB", "PutItem") => "dynamodb:PutItem",
        ("DynamoDB", "Query") => "dynamodb:Query",
        ("S3", "GetObject" | "HeadObject") => "s3:GetObject",
        ("S3", "PutObject" | "CreateMultipartUpload" | "UploadPart" | "CompleteMultipartUpload") => "s3:PutObject",
        ("S3", "AbortMultipartUpload") => "s3:AbortMultipartUpload",
        ("S3", "ListObjectsV2") => "s3:ListBucket",
        ("S3", "ListObjectVersions") => "s3:ListBucketVersions",
        ("S3", "DeleteObject") => "s3:DeleteObjectVersion",
        ("SQS", "SendMessage" | "SendMessageBatch") => "sqs:SendMessage",
        ("SQS", "ReceiveMessage") => "sqs:ReceiveMessage",
        ("SQS", "DeleteMessage" | "DeleteMessageBatch") => "sqs:DeleteMessage",
        ("SQS", "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch") => "sqs:ChangeMessageVisibility",
        ("SNS", "Publish") => "sns:Publish",
        ("Secrets Manager", "GetSecretValue") => "secretsmanager:GetSecretValue",
        other => panic!("a new call: {other:?}; which action of IAM does it need?"),
    }
}

/// By function, what its role allows.
fn allowed() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python()).current_dir(root).arg("scripts/iam-allowed").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let allowed: BTreeMap<String, Vec<(String, Value)>> = serde_json::from_slice(&output.stdout).unwrap();
    let actions = |pairs: Vec<(String, Value)>| pairs.into_iter().map(|(action, _)| action).collect();
    allowed.into_iter().map(|(function, pairs)| (function, actions(pairs))).collect()
}

async fn called(stack: &Deployed, function: &str) -> BTreeSet<String> {
    let lines = stack.logs(function).await;
    let text = |line: &Value, field: &str| line[field].as_str().map(str::to_owned);
    let calls = lines.iter().filter_map(|line| Some((text(line, "aws.service")?, text(line, "aws.operation")?)));
    calls.map(|(service, operation)| action(&service, &operation).to_owned()).collect()
}

/// Events on every way through the webhook: of jobs that are over, of jobs of others, of what is no job, twice, forged.
async fn receive_events(stack: &Deployed) {
    let own = handle_of(stack, "mine-1").await;
    let events = [
        ("interaction.completed", own.as_str(), "over"),
        ("interaction.completed", "v1_of-somebody-else", "unknown"),
        ("interaction.failed", "v1_of-somebody-else", "unknown"),
        ("batch.succeeded", "batches/of-somebody-else", "unknown"),
        ("model.retired", "models/old", "other"),
    ];
    for (n, (about, id, expected)) in events.into_iter().enumerate() {
        let (name, body) = (format!("msg_{n}"), event(about, id));
        for expected in [expected, "duplicate"] {
            let answer = stack.post_event(&signed(&name, &body), &body).await;
            assert_eq!(answer, (200, json!({"event": expected}).to_string()), "{about} {id}");
        }
        assert_eq!(stack.post_event(&signed(&name, "{}"), &body).await.0, 401);
    }
}

/// The dead rows of the run are told, looked at, and replayed: one with changes, then all that are left.
async fn tell_and_replay(stack: &Deployed, dead: usize) {
    let told = stack.invoke("summary", &json!({})).await.unwrap();
    assert_eq!(told["modes"], json!({"batch": dead}), "{told}");
    // A sweep that meets messages which stand for something hands them back.
    stack.invoke("tick", &json!({})).await.unwrap();
    let dry = stack.invoke("replay", &json!({"limit": 1})).await.unwrap();
    let first = dry["items"][0]["id"].clone();
    let changed = json!({"ids": [first], "dry_run": false, "reason": "with a limit",
        "request": {"generationConfig": {"maxOutputTokens": 4096}}});
    for request in [changed, json!({"dry_run": false, "reason": "the rest", "limit": 100})] {
        let replayed = stack.invoke("replay", &request).await.unwrap();
        assert!(replayed["resubmitted"].as_u64() > Some(0), "{replayed}");
    }
    eventually("what was replayed has ended", async || {
        stack.invoke("tick", &json!({})).await?;
        let open = stack.open().await;
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
    })
    .await;
}

/// What Gemini calls a job.
async fn handle_of(stack: &Deployed, key: &str) -> String {
    let Some(Item::Job(job)) = stack.ledger().get(&ItemId::job(&JobKey(key.to_owned()))).await.unwrap() else {
        panic!("there is no job {key}")
    };
    job.handles[0].id.clone()
}

/// Every way that work takes through the functions, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_roles_allow_what_is_called_and_no_more() {
    let stack = Deployed::new(&["passing=0.02", "row-safety=0.1"], &[("TickState", "DISABLED")]).await;
    let bare = json!({"jobs": [{"input": "from the event"}, {"input": "two", "idempotency_key": "mine-1"}]});
    let landed = stack.invoke("tick", &bare).await.unwrap();
    assert!(landed["jobs_landed"].is_string() && landed["sent"] == 2, "{landed}");
    // The same event once more, as Lambda does after a failure: nothing new.
    assert_eq!(stack.invoke("tick", &bare).await.unwrap()["jobs_landed"], landed["jobs_landed"]);

    // One of them is at Gemini: its event has work for it queued.
    stack.put_secret("WebhookSecret", &signing_secrets()).await;
    let body = event("interaction.completed", &handle_of(&stack, "mine-1").await);
    let answer = stack.post_event(&signed("msg_mine", &body), &body).await;
    assert_eq!(answer, (200, json!({"event": "queued"}).to_string()));

    // The worker alone brings one of them to its end.
    eventually("the worker consumes a job", async || {
        let sent = stack.parts.work_queue.send(&[json!({"item": "job/mine-1"}).to_string()]).await;
        sent.into_iter().try_for_each(|sent| sent.map_err(|error| error.to_string()))?;
        let results = stack.names("results/").await;
        if results == ["results/mine-1.json"] { Ok(()) } else { Err(format!("{results:?}")) }
    })
    .await;

    stack.put("empty.jsonl", "").await;
    stack.put("utf16.jsonl", b"\xff\xfe{\0}\0".to_vec()).await;
    stack.put("folder/", "").await;
    stack.put("many.jsonl", lines(0, 1200)).await;
    let rows = file(90);
    stack.put("rows.jsonl", rows.clone()).await;
    let note = "x".repeat(7 << 20);
    let long = (0..5).fold(String::new(), |mut text, n| {
        writeln!(text, "{}", json!({"input": format!("long {n}"), "note": note})).unwrap();
        text
    });
    stack.put("long.jsonl", long).await;
    let first = stack.invoke("tick", &json!({})).await.unwrap();
    assert_eq!(first["inbox"], json!({"landed": 2, "refused": 2, "handed_over": 1}), "{first}");
    eventually("all is done", async || {
        stack.invoke("tick", &json!({})).await?;
        let names = stack.names("results/").await;
        let (open, results) = (stack.open().await, names.iter().filter(|name| name.ends_with(".json")).count());
        if open.is_empty() && results == 1207 { Ok(()) } else { Err(format!("{results} results, open: {open:?}")) }
    })
    .await;
    assert_eq!(stack.names("inbox/").await, ["inbox/folder/"]);
    let engine = looking(&stack);
    let over = progress(&engine, &sha256_of(&rows)).await.unwrap();
    let books = audit(&engine, &over, &rows).await;
    assert!(books.values.len() > 60 && !books.dead.is_empty(), "{books:?}");
    assert_eq!(stack.names("refused/").await.len(), 4, "two files, each with its reason");
    tell_and_replay(&stack, books.dead.len()).await;
    receive_events(&stack).await;
    let worked = stack.logs("worker").await;
    assert!(
        worked.iter().any(|line| line["message"] == "worked" || line["fields"]["message"] == "worked"),
        "{worked:?}"
    );

    let allowed = allowed();
    for function in ["tick", "worker", "webhook", "replay", "summary"] {
        let called = called(&stack, function).await;
        assert!(!called.is_empty());
        let allowed = &allowed[function];
        let missing: Vec<_> = called.difference(allowed).collect();
        assert!(missing.is_empty(), "{function} calls what its role does not allow: {missing:?}");
        // A replay hands calls over to the worker, and none of the dead letters here is one.
        let hands_over = |action: &str| function == "replay" && action == "sqs:SendMessage";
        let known = |action: &&String| {
            BY_LAMBDA.contains(&action.as_str()) || UNSEEN.contains(&action.as_str()) || hands_over(action)
        };
        let unused: Vec<_> = allowed.difference(&called).filter(|action| !known(action)).collect();
        assert!(unused.is_empty(), "{function}'s role allows what it never calls: {unused:?}");
    }
}
