//! AWS: the ledger in a DynamoDB table, objects and the inbox in an S3 bucket, queues in SQS, API keys in a secret.

mod backoff;
pub mod calls;
pub mod dynamodb;
mod fault;
pub mod outputs;
pub mod s3;
pub mod secrets;
pub mod sns;
pub mod sqs;
pub mod stack;

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;

/// How often the SDK asks in all before a call fails: throttling and passing errors are backed off for some seconds.
const TRIES: u32 = 6;

/// What all clients share: tries, time-outs, and a guard against streams that stand still.
#[must_use]
pub fn tuned(config: &SdkConfig) -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .read_timeout(Duration::from_secs(10))
        .operation_attempt_timeout(Duration::from_secs(60))
        .build();
    config
        .to_builder()
        .retry_config(RetryConfig::standard().with_max_attempts(TRIES).with_max_backoff(Duration::from_secs(5)))
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::enabled().build())
        .build()
}
