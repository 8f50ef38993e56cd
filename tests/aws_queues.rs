//! Queues in SQS: the port's suite on two emulators, and faults that no emulator makes.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod emulator;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_sqs::types::QueueAttributeName;
use emulator::proxy::{Answer, Proxy, Seen, Verdict};
use emulator::{Emulator, Kind};
use gleaner::adapters::aws::s3::{self, S3Objects};
use gleaner::adapters::aws::sqs::{self, SqsQueue};
use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use gleaner::ports::conformance::queue as rules;
use gleaner::ports::objects::{ObjectError, Objects};
use gleaner::ports::queue::{Message, Queue, QueueError};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

/// One of each for all tests of this binary; they end with the process.
static MINISTACK: OnceCell<Emulator> = OnceCell::const_new();
static MOTO: OnceCell<Emulator> = OnceCell::const_new();

static NEXT: AtomicU64 = AtomicU64::new(1);

const LONG: Duration = Duration::from_secs(3600);

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

async fn emulator(kind: Kind) -> &'static Emulator {
    let cell = if kind == Kind::Moto { &MOTO } else { &MINISTACK };
    cell.get_or_init(|| Emulator::start(kind)).await
}

/// A client that tries again as the program's own does, but sooner, and with allowances of its own.
fn client(url: &str) -> Client {
    let quick = RetryConfig::standard()
        .with_max_attempts(6)
        .with_initial_backoff(Duration::from_millis(5))
        .with_max_backoff(Duration::from_millis(20));
    let config = Client::new(&emulator::config(url)).config().to_builder();
    let partition = RetryPartition::new(format!("test-{}", next()));
    Client::from_conf(config.retry_config(quick).retry_partition(partition).build())
}

/// A fresh queue as it is without settings, its URL, and its objects.
async fn queue(kind: Kind, client: &Client) -> (SqsQueue, String, Arc<S3Objects>) {
    let objects = objects(kind).await;
    let made = client.create_queue().queue_name(format!("queue-{}-{}", std::process::id(), next())).send().await;
    let url = made.unwrap().queue_url.unwrap();
    (SqsQueue::new(client.clone(), url.clone(), objects.clone()), url, objects)
}

async fn objects(kind: Kind) -> Arc<S3Objects> {
    let s3 = s3::client(&emulator(kind).await.config());
    let bucket = format!("messages-{}-{}", std::process::id(), next());
    s3.create_bucket().bucket(&bucket).send().await.unwrap();
    Arc::new(S3Objects::new(s3, bucket))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_ministack_it_is_a_queue() {
    let client = client(&emulator(Kind::Ministack).await.url());
    rules::all(&SystemClock, async || queue(Kind::Ministack, &client).await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_moto_it_is_a_queue() {
    let client = client(&emulator(Kind::Moto).await.url());
    rules::all(&SystemClock, async || queue(Kind::Moto, &client).await.0).await;
}

/// A queue behind a proxy.
struct Store {
    proxy: Proxy,
    queue: SqsQueue,
    url: String,
    objects: Arc<S3Objects>,
    /// The way past the proxy.
    direct: Client,
}

impl Store {
    async fn new() -> Self {
        let target = emulator(Kind::Moto).await.url();
        let proxy = Proxy::start(&target, |_| Verdict::Pass).await;
        let (queue, url, objects) = queue(Kind::Moto, &client(&proxy.url)).await;
        Self { proxy, queue, url, objects, direct: client(&target) }
    }

    /// Judges requests of one operation so, one after the other, and lets everything else pass.
    fn judge(&self, operation: &'static str, verdicts: Vec<Verdict>) {
        let mut verdicts = verdicts.into_iter();
        self.proxy.take_seen();
        self.proxy.judge(move |seen| match seen.operation() {
            asked if asked == operation => verdicts.next().unwrap_or(Verdict::Pass),
            _ => Verdict::Pass,
        });
    }

    fn judge_first(&self, verdict: impl Fn(&Seen) -> Verdict + Send + 'static) {
        let mut tries = 0;
        self.proxy.take_seen();
        self.proxy.judge(move |seen| {
            tries += 1;
            if tries == 1 { verdict(seen) } else { Verdict::Pass }
        });
    }

    fn judge_always(&self, verdict: impl Fn(&Seen) -> Verdict + Send + 'static) {
        self.proxy.take_seen();
        self.proxy.judge(verdict);
    }

    /// How many entries each request of that operation had, since the last judge.
    fn entries(&self, operation: &str) -> Vec<usize> {
        let seen = self.proxy.take_seen();
        let asked = seen.iter().filter(|seen| seen.operation() == operation);
        asked.map(|seen| seen.json()["Entries"].as_array().unwrap().len()).collect()
    }

    async fn bodies(&self) -> Vec<String> {
        let messages = self.queue.receive(100, LONG).await.unwrap();
        let mut bodies: Vec<String> = messages.into_iter().map(|message| message.body).collect();
        bodies.sort();
        bodies
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        assert_eq!(self.queue.send(&texts(count)).await, vec![Ok(()); count]);
        let messages = self.queue.receive(count, LONG).await.unwrap();
        assert_eq!(messages.len(), count);
        messages
    }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("body {n:02}")).collect()
}

/// An answer of SQS to a request about several messages, in which those of these ids have failed.
fn failing(ids: &'static [&'static str], code: &'static str, sender_fault: bool) -> impl FnOnce(Answer) -> Answer {
    move |mut answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
        let done = body["Successful"].as_array_mut().unwrap();
        done.retain(|entry| !ids.contains(&entry["Id"].as_str().unwrap()));
        let failed =
            ids.iter().map(|id| json!({"Id": id, "Code": code, "SenderFault": sender_fault, "Message": "why"}));
        body["Failed"] = failed.collect();
        answer.body = body.to_string().into();
        answer
    }
}

/// The request without those messages is sent on, and the answer says that they have failed.
fn partly(seen: &Seen, ids: &'static [&'static str]) -> Verdict {
    let mut body = seen.json();
    body["Entries"].as_array_mut().unwrap().retain(|entry| !ids.contains(&entry["Id"].as_str().unwrap()));
    Verdict::Instead(body.to_string().into())
}

fn after(change: impl FnOnce(Answer) -> Answer + Send + 'static) -> Verdict {
    Verdict::After(Box::new(change))
}

fn error(status: u16, kind: &str) -> Verdict {
    Verdict::Answer(Answer::json_error(status, kind))
}

#[tokio::test]
async fn long_bodies_are_kept_as_objects_once() {
    let store = Store::new().await;
    let long = "x".repeat(300_000);
    assert_eq!(store.queue.send(&[long.clone(), long.clone(), "short".to_owned()]).await, vec![Ok(()); 3]);
    // Whoever receives without this program sees where it lies.
    let request = store.direct.receive_message().queue_url(&store.url).max_number_of_messages(10).visibility_timeout(0);
    let seen = request.send().await.unwrap().messages.unwrap();
    let mut bodies: Vec<String> = seen.into_iter().map(|message| message.body.unwrap()).collect();
    bodies.sort();
    let pointer: Value = serde_json::from_str(&bodies[1]).unwrap();
    let name = pointer["gleaner_object"].as_str().unwrap();
    let hash = hex::encode(Sha256::digest(&long));
    assert_eq!(name, format!("messages/{hash}.json"));
    assert_eq!(bodies, ["short", &bodies[1], &bodies[1]]);
    assert_eq!(store.objects.get(name).await.unwrap(), long);
    // An event brings the same body, which is opened by itself.
    assert_eq!(sqs::open(&*store.objects, bodies[1].clone()).await.unwrap(), long);
    assert_eq!(sqs::open(&*store.objects, "short".to_owned()).await.unwrap(), "short");
    let missing = bodies[1].replace(name, &format!("messages/{}.json", "0".repeat(64)));
    assert!(matches!(sqs::open(&*store.objects, missing).await, Err(ObjectError::NotFound(_))));
}

#[tokio::test]
async fn a_message_that_failed_by_itself_is_sent_again_by_itself() {
    let store = Store::new().await;
    store.judge_first(|seen| partly(seen, &["2", "5"]));
    // What moto doesn't mention is sent again too.
    assert_eq!(store.queue.send(&texts(12)).await, vec![Ok(()); 12]);
    assert_eq!(store.entries("SendMessageBatch"), [10, 2, 2]);
    assert_eq!(store.bodies().await, texts(12));

    store.judge("SendMessageBatch", vec![after(failing(&["0"], "InternalError", false)), Verdict::Pass]);
    assert_eq!(store.queue.send(&texts(3)).await, vec![Ok(()); 3]);
    assert_eq!(store.entries("SendMessageBatch"), [3, 1]);
    // The proxy lied: it was sent the first time. A message may come twice.
    assert_eq!(store.bodies().await, ["body 00", "body 00", "body 01", "body 02"]);
}

#[tokio::test]
async fn a_message_that_fails_for_good_is_told_and_the_others_go() {
    let store = Store::new().await;
    store.judge("SendMessageBatch", vec![after(failing(&["1"], "InvalidMessageContents", true))]);
    let outcomes = store.queue.send(&texts(3)).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(()), &Ok(())));
    assert!(
        matches!(&outcomes[1], Err(QueueError::NeedsPerson(why)) if why.contains("InvalidMessageContents: why")),
        "{outcomes:?}"
    );
    assert_eq!(store.entries("SendMessageBatch"), [3]);

    store.judge_always(|_| after(failing(&["1"], "KMS.ThrottlingException", true)));
    let outcomes = store.queue.send(&texts(3)).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(()), &Ok(())));
    assert!(matches!(&outcomes[1], Err(QueueError::Busy(why)) if why.contains("KMS.Thr")), "{outcomes:?}");
    assert_eq!(store.entries("SendMessageBatch"), [3, 1, 1, 1, 1]);
}

#[tokio::test]
async fn throttling_is_waited_out_and_told_when_it_stays() {
    let store = Store::new().await;
    let throttled = || error(400, "com.amazonaws.sqs#RequestThrottled");
    store.judge("SendMessageBatch", vec![throttled(), throttled(), error(503, "ServiceUnavailable")]);
    assert_eq!(store.queue.send(&texts(1)).await, [Ok(())]);
    assert_eq!(store.entries("SendMessageBatch"), [1; 4]);
    let message = store.queue.receive(1, LONG).await.unwrap().remove(0);

    store.judge_always(move |_| throttled());
    let outcomes = store.queue.send(&texts(25)).await;
    assert_eq!(outcomes.len(), 25);
    for outcome in &outcomes {
        assert!(matches!(outcome, Err(QueueError::Busy(why)) if why.contains(&store.url)), "{outcome:?}");
    }
    // The second and the third ten are not asked about.
    assert_eq!(store.entries("SendMessageBatch"), [10; 6]);
    let busy = |error: QueueError| assert!(matches!(error, QueueError::Busy(_)), "{error}");
    busy(store.queue.receive(1, LONG).await.unwrap_err());
    busy(store.queue.delete(std::slice::from_ref(&message)).await.remove(0).unwrap_err());
    busy(store.queue.release(&message).await.unwrap_err());
}

#[tokio::test]
async fn what_only_a_person_can_mend_says_what_to_do() {
    let store = Store::new().await;
    let message = store.received(1).await.remove(0);
    for (status, kind, words) in [
        (400, "com.amazonaws.sqs#QueueDoesNotExist", "create the queue"),
        (403, "com.amazonaws.sqs#AccessDeniedException", "allow it in the policy"),
        (403, "com.amazonaws.sqs#InvalidClientTokenId", "sign in to AWS"),
    ] {
        let kind: &'static str = kind;
        store.judge_always(move |_| error(status, kind));
        let errors = [
            store.queue.send(&texts(1)).await.remove(0).unwrap_err(),
            store.queue.receive(1, LONG).await.unwrap_err(),
            store.queue.delete(std::slice::from_ref(&message)).await.remove(0).unwrap_err(),
            store.queue.release(&message).await.unwrap_err(),
        ];
        for error in errors {
            let is_told = |why: &str| why.contains(words) && why.contains(&store.url);
            assert!(matches!(&error, QueueError::NeedsPerson(why) if is_told(why)), "{error}");
        }
    }
    for kind in [Kind::Ministack, Kind::Moto] {
        let client = client(&emulator(kind).await.url());
        let url = format!("{}/000000000000/never-made", emulator(kind).await.url());
        let queue = SqsQueue::new(client, url, store.objects.clone());
        let errors =
            [queue.send(&texts(1)).await.remove(0).unwrap_err(), queue.receive(1, LONG).await.map(drop).unwrap_err()];
        for error in errors {
            assert!(matches!(&error, QueueError::NeedsPerson(why) if why.contains("create the queue")), "{error}");
        }
    }
}

#[tokio::test]
async fn deletes_that_fail_by_themselves_are_made_again() {
    let store = Store::new().await;
    let messages = store.received(12).await;
    store.judge_first(|seen| partly(seen, &["3"]));
    assert_eq!(store.queue.delete(&messages).await, vec![Ok(()); 12]);
    assert_eq!(store.entries("DeleteMessageBatch"), [10, 1, 2]);
    let counts = [QueueAttributeName::ApproximateNumberOfMessagesNotVisible];
    let request = store.direct.get_queue_attributes().queue_url(&store.url).set_attribute_names(Some(counts.to_vec()));
    assert_eq!(request.send().await.unwrap().attributes.unwrap()[&counts[0]], "0");

    let messages = store.received(2).await;
    store.judge("DeleteMessageBatch", vec![after(failing(&["0"], "ReceiptHandleIsInvalid", true))]);
    assert_eq!(store.queue.delete(&messages).await, [Ok(()), Ok(())]);
    store.judge("DeleteMessageBatch", vec![after(failing(&["0"], "InvalidAddress", true))]);
    let outcomes = store.queue.delete(&messages).await;
    assert!(matches!(&outcomes[..], [Err(QueueError::NeedsPerson(_)), Ok(())]), "{outcomes:?}");
}

#[tokio::test]
async fn a_release_of_what_nobody_holds_is_a_success() {
    let store = Store::new().await;
    let message = store.received(1).await.remove(0);
    let answer = |kind: &str, message: &str| {
        let body = json!({"__type": kind, "message": message}).to_string();
        Verdict::Answer(Answer::new(400, "application/x-amz-json-1.0", body))
    };
    let gone = "Value AQEB for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available \
                for visibility timeout change.";
    for (kind, words) in [
        ("com.amazonaws.sqs#MessageNotInflight", ""),
        ("com.amazonaws.sqs#ReceiptHandleIsInvalid", ""),
        ("com.amazon.coral.service#InvalidParameterValueException", gone),
    ] {
        store.judge("ChangeMessageVisibility", vec![answer(kind, words)]);
        store.queue.release(&message).await.unwrap();
    }
    store.judge("ChangeMessageVisibility", vec![answer("InvalidParameterValueException", "another reason")]);
    let error = store.queue.release(&message).await.unwrap_err();
    assert!(matches!(&error, QueueError::NeedsPerson(why) if why.contains("another reason")), "{error}");
}

#[tokio::test]
async fn a_pointer_to_nothing_comes_as_it_is_beside_the_others() {
    let store = Store::new().await;
    let pointer = format!("{{\"gleaner_object\":\"messages/{}.json\"}}", "a".repeat(64));
    for body in [&pointer, "other"] {
        store.direct.send_message().queue_url(&store.url).message_body(body).send().await.unwrap();
    }
    assert_eq!(store.bodies().await, ["other", &pointer]);
}

#[tokio::test]
async fn a_body_that_is_out_of_reach_is_left_and_comes_again() {
    let s3 = Proxy::start(&emulator(Kind::Moto).await.url(), |_| Verdict::Pass).await;
    let client = client(&emulator(Kind::Moto).await.url());
    let (_, url, _) = queue(Kind::Moto, &client).await;
    let quick = RetryConfig::standard().with_max_attempts(1);
    let bucket = s3::client(&emulator::config(&s3.url)).config().to_builder().retry_config(quick);
    let bucket = aws_sdk_s3::Client::from_conf(bucket.build());
    let name = format!("messages-{}-{}", std::process::id(), next());
    bucket.create_bucket().bucket(&name).send().await.unwrap();
    let queue = SqsQueue::new(client, url, Arc::new(S3Objects::new(bucket, name)));

    let long = "x".repeat(300_000);
    s3.judge(|_| Verdict::Answer(Answer::s3_error(503, "SlowDown")));
    let outcomes = queue.send(&[long.clone(), "short".to_owned()]).await;
    assert!(matches!(&outcomes[..], [Err(QueueError::Busy(_)), Ok(())]), "{outcomes:?}");
    s3.judge(|_| Verdict::Answer(Answer::s3_error(403, "AccessDenied")));
    let outcomes = queue.send(std::slice::from_ref(&long)).await;
    assert!(matches!(&outcomes[..], [Err(QueueError::NeedsPerson(_))]), "{outcomes:?}");
    s3.judge(|_| Verdict::Pass);
    assert_eq!(queue.send(std::slice::from_ref(&long)).await, [Ok(())]);

    // One second, which is over before the last receive of this test brings it.
    let hidden = Duration::from_secs(1);
    s3.judge(|_| Verdict::Answer(Answer::s3_error(503, "SlowDown")));
    let messages = queue.receive(10, hidden).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(), ["short"]);
    assert_eq!(queue.delete(&messages).await, [Ok(())]);
    // With nothing else to hand over, it is told.
    let error = loop {
        match queue.receive(10, hidden).await {
            Ok(messages) => assert_eq!(messages, []),
            Err(error) => break error,
        }
        SystemClock.sleep(Duration::from_millis(50)).await;
    };
    assert!(matches!(&error, QueueError::Busy(why) if why.contains("SlowDown")), "{error}");
    s3.judge(|_| Verdict::Pass);
    let message = loop {
        if let Some(message) = queue.receive(10, LONG).await.unwrap().pop() {
            break message;
        }
        SystemClock.sleep(Duration::from_millis(50)).await;
    };
    assert!(message.body == long);
    assert_eq!(message.receives, 3);
}

#[tokio::test]
async fn what_was_received_is_handed_over_although_no_more_can_be_received() {
    let store = Store::new().await;
    assert_eq!(store.queue.send(&texts(15)).await, vec![Ok(()); 15]);
    let denied = || error(403, "com.amazonaws.sqs#AccessDeniedException");
    store.judge("ReceiveMessage", vec![Verdict::Pass, denied()]);
    assert_eq!(store.queue.receive(15, LONG).await.unwrap().len(), 10);
}

/// What the sweep of the queue of dead letters relies on: whoever looks at the queue right afterwards finds everything that
/// was handed back, and a message is not taken away for having been received often.
#[tokio::test]
async fn what_is_handed_back_is_seen_at_once_and_its_receives_are_counted() {
    for kind in [Kind::Moto, Kind::Ministack] {
        let client = client(&emulator(kind).await.url());
        let (queue, ..) = queue(kind, &client).await;
        assert_eq!(queue.send(&texts(12)).await, vec![Ok(()); 12]);
        let mut times = std::collections::BTreeMap::new();
        for _ in 0..6 {
            let handful = queue.receive(10, Duration::from_secs(5)).await.unwrap();
            assert_eq!(handful.len(), 10, "{kind:?}");
            let released = futures::future::join_all(handful.iter().map(|message| queue.release(message))).await;
            assert!(released.iter().all(Result::is_ok), "{kind:?}: {released:?}");
            for message in handful {
                let before: &mut u32 = times.entry(message.body).or_default();
                *before += 1;
                assert_eq!(message.receives, *before, "{kind:?}");
            }
        }
        // Two of a handful are dropped; the others are all there, and so is what nobody had.
        let handful = queue.receive(10, Duration::from_secs(5)).await.unwrap();
        let (stale, rest) = handful.split_at(2);
        assert_eq!(queue.delete(stale).await, [Ok(()), Ok(())]);
        for message in rest {
            queue.release(message).await.unwrap();
        }
        let mut left = std::collections::BTreeSet::new();
        while let Some(message) = queue.receive(1, LONG).await.unwrap().pop() {
            left.insert(message.body);
        }
        let dropped: Vec<&str> = stale.iter().map(|message| message.body.as_str()).collect();
        assert_eq!(left.len(), 10, "{kind:?}");
        assert!(left.iter().all(|body| !dropped.contains(&body.as_str())), "{kind:?}");
    }
}
