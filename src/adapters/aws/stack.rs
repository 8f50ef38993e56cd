//! The parts of a deployed stack, with their clients.

use std::sync::Arc;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::SharedCredentialsProvider;

use super::calls::Calls;
use super::dynamodb::DynamoLedger;
use super::s3::{self, S3Inbox, S3Objects};
use super::secrets::{AwsSigningSecrets, GeminiKeys};
use super::sns::SnsTopic;
use super::sqs::SqsQueue;
use super::tuned;
use crate::ports::clock::Clock;
use crate::ports::notices::Notices;
use crate::ports::objects::Objects;

/// What the parts of a stack are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The table.
    pub table: String,
    /// The bucket.
    pub bucket: String,
    /// The URL of the work queue.
    pub work_queue: String,
    /// The URL of the queue of dead letters.
    pub dead_letters: String,
    /// The name or ARN of the secret with the API keys.
    pub gemini_secret: String,
}

/// The parts of a stack. Made once a process: its clients keep their connections.
#[derive(Debug)]
pub struct Stack {
    /// Items.
    pub ledger: Arc<DynamoLedger>,
    /// Intakes, results, answers.
    pub objects: Arc<S3Objects>,
    /// Files handed in.
    pub inbox: Arc<S3Inbox>,
    /// Long work.
    pub work_queue: Arc<SqsQueue>,
    /// Messages of dead letters.
    pub dead_letters: Arc<SqsQueue>,
    /// Keys for Gemini.
    pub keys: GeminiKeys,
}

impl Stack {
    /// The parts of those names. Nothing is sent yet.
    #[must_use]
    pub fn new(config: &SdkConfig, names: Names, clock: Arc<dyn Clock>) -> Self {
        let config = &tuned(config);
        let s3 = s3::client(config);
        let dynamodb = aws_sdk_dynamodb::config::Builder::from(config).interceptor(Calls).build();
        let sqs = aws_sdk_sqs::config::Builder::from(config).interceptor(Calls).build();
        let sqs = aws_sdk_sqs::Client::from_conf(sqs);
        let objects = Arc::new(S3Objects::new(s3.clone(), names.bucket.clone()));
        let shared: Arc<dyn Objects> = Arc::<S3Objects>::clone(&objects);
        Self {
            ledger: Arc::new(DynamoLedger::new(aws_sdk_dynamodb::Client::from_conf(dynamodb), names.table)),
            inbox: Arc::new(S3Inbox::new(s3, names.bucket)),
            work_queue: Arc::new(SqsQueue::new(sqs.clone(), names.work_queue, Arc::clone(&shared))),
            dead_letters: Arc::new(SqsQueue::new(sqs, names.dead_letters, shared)),
            objects,
            keys: GeminiKeys::new(secrets(config), names.gemini_secret, clock),
        }
    }
}

/// What the parts are called that events are received with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorNames {
    /// The table.
    pub table: String,
    /// The URL of the work queue.
    pub work_queue: String,
    /// The name or ARN of the secret with the webhooks' signing secrets.
    pub webhook_secret: String,
}

/// The parts that events are received with: no bucket, no API keys.
#[derive(Debug)]
pub struct Door {
    /// Items.
    pub ledger: Arc<DynamoLedger>,
    /// Where the work goes.
    pub work_queue: Arc<SqsQueue>,
    /// Signing secrets.
    pub secrets: Arc<AwsSigningSecrets>,
}

impl Door {
    /// The parts of those names. Nothing is sent yet.
    #[must_use]
    pub fn new(config: &SdkConfig, names: DoorNames, clock: Arc<dyn Clock>) -> Self {
        let config = &tuned(config);
        let dynamodb = aws_sdk_dynamodb::config::Builder::from(config).interceptor(Calls).build();
        let sqs = aws_sdk_sqs::config::Builder::from(config).interceptor(Calls).build();
        Self {
            ledger: Arc::new(DynamoLedger::new(aws_sdk_dynamodb::Client::from_conf(dynamodb), names.table)),
            work_queue: Arc::new(SqsQueue::without_objects(aws_sdk_sqs::Client::from_conf(sqs), names.work_queue)),
            secrets: Arc::new(AwsSigningSecrets::new(secrets(config), names.webhook_secret, clock)),
        }
    }
}

/// What the parts are called that tell what waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeskNames {
    /// The table.
    pub table: String,
    /// The ARN of the topic that is told; none: nobody is.
    pub topic: Option<String>,
}

/// The parts that tell what waits for a person: no bucket, no queue, no keys.
#[derive(Debug)]
pub struct Desk {
    /// Items.
    pub ledger: Arc<DynamoLedger>,
    /// Who is told.
    pub topic: Option<Arc<dyn Notices>>,
}

impl Desk {
    /// The parts of those names. Nothing is sent yet.
    #[must_use]
    pub fn new(config: &SdkConfig, names: DeskNames) -> Self {
        let config = &tuned(config);
        let dynamodb = aws_sdk_dynamodb::config::Builder::from(config).interceptor(Calls).build();
        let topic = names.topic.map(|arn| {
            let sns = aws_sdk_sns::config::Builder::from(config).interceptor(Calls).build();
            Arc::new(SnsTopic::new(aws_sdk_sns::Client::from_conf(sns), arn)) as Arc<dyn Notices>
        });
        Self { ledger: Arc::new(DynamoLedger::new(aws_sdk_dynamodb::Client::from_conf(dynamodb), names.table)), topic }
    }
}

/// The signing secrets in the secret of that name or ARN. Nothing is sent yet.
#[must_use]
pub fn signing_secrets(config: &SdkConfig, id: String, clock: Arc<dyn Clock>) -> AwsSigningSecrets {
    AwsSigningSecrets::new(secrets(&tuned(config)), id, clock)
}

fn secrets(tuned: &SdkConfig) -> aws_sdk_secretsmanager::Client {
    let config = aws_sdk_secretsmanager::config::Builder::from(tuned).interceptor(Calls).build();
    aws_sdk_secretsmanager::Client::from_conf(config)
}

/// The configuration that Lambda gives a function in its environment. Nothing else is looked at: no profiles, no files,
/// no metadata service, which a cold start would wait for.
#[must_use]
pub fn lambda_config(variable: &dyn Fn(&str) -> Option<String>) -> SdkConfig {
    let credentials = SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new());
    let mut config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).credentials_provider(credentials);
    config.set_region(variable("AWS_REGION").map(Region::new));
    config.set_endpoint_url(variable("AWS_ENDPOINT_URL"));
    config.build()
}

/// The configuration of whoever sits before this machine: profiles, single sign-on, environment.
pub async fn own_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).load().await
}
