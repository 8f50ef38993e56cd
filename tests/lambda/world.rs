//! The parts of a stack on an emulator, and functions in this process that work on them through a proxy.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_s3::Client as S3;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use gleaner::adapters::aws::s3;
use gleaner::lambda::{Environment, Event, Function, Service, handle};
use gleaner::simulator::Config;
use lambda_runtime::{Context, Diagnostic};
use serde_json::{Value, json};

use super::emulator::proxy::{Proxy, Verdict};
use super::emulator::table::create_table;
use super::emulator::{Emulator, Kind, config};
use super::simulated::Sim;

const BUCKET: &str = "objects";

pub struct World {
    pub proxy: Proxy,
    pub sim: Sim,
    aws: SdkConfig,
    s3: S3,
    table: String,
    queue: String,
    dead_letters: String,
    /// The ARN of a topic, and the queue that is subscribed to it.
    topic: String,
    told: String,
    _emulator: Emulator,
}

impl World {
    /// A stack whose secret holds `secret`.
    pub async fn new(secret: &Value) -> Self {
        let emulator = Emulator::start(Kind::Ministack).await;
        let proxy = Proxy::start(&emulator.url(), |_| Verdict::Pass).await;
        let sim = Sim::start(Config { polls_until_done: 0, ..Config::default() }).await;
        let aws = emulator.config();
        let table = create_table(&aws).await;
        let s3 = s3::client(&aws);
        s3.create_bucket().bucket(BUCKET).send().await.unwrap();
        let versioned = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        s3.put_bucket_versioning().bucket(BUCKET).versioning_configuration(versioned).send().await.unwrap();
        let sqs = aws_sdk_sqs::Client::new(&aws);
        let queue = async |name| sqs.create_queue().queue_name(name).send().await.unwrap().queue_url.unwrap();
        let (queue, dead_letters, told) = (queue("work").await, queue("dead").await, queue("told").await);
        let topic = subscribed_topic(&aws, "told").await;
        let world = Self { proxy, sim, aws, s3, table, queue, dead_letters, topic, told, _emulator: emulator };
        let secrets = aws_sdk_secretsmanager::Client::new(&world.aws);
        secrets.create_secret().name("keys").secret_string(secret.to_string()).send().await.unwrap();
        world
    }

    /// Makes the secret with signing secrets.
    pub async fn put_webhook_secrets(&self, secret: &Value) {
        let secrets = aws_sdk_secretsmanager::Client::new(&self.aws);
        secrets.create_secret().name("webhooks").secret_string(secret.to_string()).send().await.unwrap();
    }

    /// A process of a function.
    pub fn process(&self, function: Function) -> Service {
        self.process_with(function, &[])
    }

    /// A process of a function with more settings.
    pub fn process_with(&self, function: Function, more: &[(&str, &str)]) -> Service {
        let base_url = self.sim.running.base_url();
        let variable = |name: &str| {
            if let Some((_, value)) = more.iter().find(|(own, _)| *own == name) {
                return Some((*value).to_owned());
            }
            let value = match name {
                "_HANDLER" => function.handler(),
                "GLEANER_TABLE" => &self.table,
                "GLEANER_BUCKET" => BUCKET,
                "GLEANER_WORK_QUEUE" => &self.queue,
                "GLEANER_DEAD_LETTERS" => &self.dead_letters,
                "GLEANER_SUMMARY_TOPIC" => &self.topic,
                "GLEANER_GEMINI_SECRET" => "keys",
                "GLEANER_WEBHOOK_SECRET" => "webhooks",
                "GEMINI_BASE_URL" => &base_url,
                "GLEANER_HTTP_TIMEOUT" => "5s",
                "GLEANER_SUBMIT_LEASE" => "1s",
                "GLEANER_POLL_MIN" => "1ms",
                "GLEANER_POLL_MAX" => "1ms",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let environment = Environment::of(&variable).unwrap();
        Service::new(Environment { aws: config(&self.proxy.url), ..environment }).unwrap()
    }

    /// One invocation in a process of its own.
    pub async fn invoke(&self, function: Function, event: &Value) -> Result<Value, Diagnostic> {
        invoke(&self.process(function), function, event, Duration::from_secs(180)).await
    }

    pub async fn put(&self, key: &str, text: &str) {
        let body = ByteStream::from(text.as_bytes().to_vec());
        self.s3.put_object().bucket(BUCKET).key(key).body(body).send().await.unwrap();
    }

    /// The names of the objects under a prefix.
    pub async fn names(&self, prefix: &str) -> Vec<String> {
        let page = self.s3.list_objects_v2().bucket(BUCKET).prefix(prefix).send().await.unwrap();
        page.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
    }

    /// The bodies of the messages in the work queue, which stay there.
    pub async fn queued(&self) -> Vec<Value> {
        let client = aws_sdk_sqs::Client::new(&self.aws);
        let request = client.receive_message().queue_url(&self.queue).max_number_of_messages(10).visibility_timeout(0);
        let received = request.send().await.unwrap().messages.unwrap_or_default();
        received.iter().map(|message| serde_json::from_str(message.body().unwrap()).unwrap()).collect()
    }

    /// Takes what the topic's subscriber was told: subject and text.
    pub async fn take_told(&self) -> Vec<(String, String)> {
        let client = aws_sdk_sqs::Client::new(&self.aws);
        let request = client.receive_message().queue_url(&self.told).max_number_of_messages(10);
        let received = request.send().await.unwrap().messages.unwrap_or_default();
        let told = received.iter().map(|message| {
            let told: Value = serde_json::from_str(message.body().unwrap()).unwrap();
            (told["Subject"].as_str().unwrap().to_owned(), told["Message"].as_str().unwrap().to_owned())
        });
        told.collect()
    }

    /// Every item of the table, in one order.
    pub async fn table(&self) -> Vec<String> {
        let client = aws_sdk_dynamodb::Client::new(&self.aws);
        let page = client.scan().table_name(&self.table).send().await.unwrap();
        assert!(page.last_evaluated_key.is_none(), "more than a page");
        let sorted =
            |item: &HashMap<String, AttributeValue>| format!("{:?}", BTreeMap::from_iter(item.iter().map(in_order)));
        let mut items: Vec<String> = page.items().iter().map(sorted).collect();
        items.sort();
        items
    }

    /// Takes the messages out of the work queue.
    pub async fn take_queued(&self) -> Vec<Value> {
        let queued = self.queued().await;
        aws_sdk_sqs::Client::new(&self.aws).purge_queue().queue_url(&self.queue).send().await.unwrap();
        queued
    }
}

/// An attribute as text, with the members of maps in one order.
fn in_order((name, value): (&String, &AttributeValue)) -> (String, String) {
    let text = match value {
        AttributeValue::M(map) => format!("{:?}", BTreeMap::from_iter(map.iter().map(in_order))),
        AttributeValue::L(list) => {
            format!("{:?}", list.iter().map(|value| in_order((name, value)).1).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    };
    (name.clone(), text)
}

/// A topic that has a queue of that name subscribed.
async fn subscribed_topic(aws: &SdkConfig, queue: &str) -> String {
    let client = aws_sdk_sns::Client::new(aws);
    let topic = client.create_topic().name("summaries").send().await.unwrap().topic_arn.unwrap();
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
    client.subscribe().topic_arn(&topic).protocol("sqs").endpoint(arn).send().await.unwrap();
    topic
}

/// One invocation of a process that is there, with so much time.
#[expect(clippy::disallowed_methods, reason = "a deadline is a time of day")]
pub async fn invoke(service: &Service, function: Function, event: &Value, time: Duration) -> Result<Value, Diagnostic> {
    let mut context = Context::default();
    let deadline = SystemTime::now() + time;
    context.deadline = deadline.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let payload = serde_json::value::to_raw_value(event).unwrap();
    handle(service, function, Event { payload, context }).await
}

/// An event of the work queue.
pub fn batch(bodies: &[(&str, Value)]) -> Value {
    let record = |(id, body): &(&str, Value)| {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        json!({"messageId": id, "receiptHandle": id, "body": body, "attributes": {}, "messageAttributes": {},
            "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:work", "awsRegion": "us-east-1"})
    };
    json!({"Records": bodies.iter().map(record).collect::<Vec<_>>()})
}

/// The messages that come again, by id.
pub fn failed(answer: &Value) -> Vec<&str> {
    let failures = answer["batchItemFailures"].as_array().unwrap();
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().unwrap()).collect()
}

/// Waits until `seen` says so.
#[expect(clippy::disallowed_methods, reason = "a lease takes real time")]
pub async fn eventually(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if seen().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it never came to this: {what}");
}
