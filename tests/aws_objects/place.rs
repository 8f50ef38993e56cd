//! Buckets on the emulators, with a proxy before them where a test makes faults.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, ObjectIdentifier, VersioningConfiguration};
use bytes::Bytes;
use gleaner::adapters::aws::s3::{self, S3Inbox, S3Objects};
use gleaner::ports::conformance::inbox;
use tokio::sync::OnceCell;

use super::emulator::proxy::{Proxy, Seen, Verdict};
use super::emulator::{self, Emulator, Kind};

/// One of each for all tests of this binary; they end with the process.
static MINISTACK: OnceCell<Emulator> = OnceCell::const_new();
static MOTO: OnceCell<Emulator> = OnceCell::const_new();

static NEXT: AtomicU64 = AtomicU64::new(1);

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// An emulator, and a client that talks to it.
#[derive(Debug)]
pub struct Place {
    pub url: String,
    pub client: Client,
    pub proxy: Option<Proxy>,
}

impl Place {
    pub async fn direct(kind: Kind) -> Self {
        let cell = if kind == Kind::Moto { &MOTO } else { &MINISTACK };
        let url = cell.get_or_init(|| Emulator::start(kind)).await.url();
        Self { client: client(&url), url, proxy: None }
    }

    /// With a proxy between, which lets everything pass at first.
    pub async fn behind_a_proxy(kind: Kind) -> Self {
        let direct = Self::direct(kind).await;
        let proxy = Proxy::start(&direct.url, |_| Verdict::Pass).await;
        Self { client: client(&proxy.url), url: proxy.url.clone(), proxy: Some(proxy) }
    }

    pub async fn fresh_bucket(&self) -> String {
        let name = format!("bucket-{}-{}", std::process::id(), next());
        self.client.create_bucket().bucket(&name).send().await.unwrap();
        name
    }

    pub async fn versioned_bucket(&self) -> String {
        let name = self.fresh_bucket().await;
        let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled).build();
        let request = self.client.put_bucket_versioning().bucket(&name).versioning_configuration(enabled);
        request.send().await.unwrap();
        name
    }

    /// Objects in a fresh bucket.
    pub async fn objects(&self) -> S3Objects {
        S3Objects::new(self.client.clone(), self.fresh_bucket().await)
    }

    /// An inbox in a fresh versioned bucket, and its people.
    pub async fn inbox(&self) -> (S3Inbox, People) {
        let bucket = self.versioned_bucket().await;
        (S3Inbox::new(self.client.clone(), bucket.clone()), People { client: self.client.clone(), bucket })
    }

    /// From now on requests are judged so; those before are forgotten.
    pub fn judge(&self, judge: impl FnMut(&Seen) -> Verdict + Send + 'static) {
        let proxy = self.proxy.as_ref().unwrap();
        proxy.take_seen();
        proxy.judge(judge);
    }

    /// The operations since the last [`judge`](Self::judge), in their order.
    pub fn operations(&self) -> Vec<&'static str> {
        self.seen().iter().map(operation).collect()
    }

    /// The requests since then.
    pub fn seen(&self) -> Vec<Seen> {
        self.proxy.as_ref().unwrap().take_seen()
    }
}

/// A client that tries again as the program's own does, but sooner, and with allowances of its own: they are shared by
/// all clients of a region otherwise, and tests use them up for each other.
pub fn client(url: &str) -> Client {
    let quick = RetryConfig::standard()
        .with_max_attempts(6)
        .with_initial_backoff(Duration::from_millis(5))
        .with_max_backoff(Duration::from_millis(20));
    let config = s3::client(&emulator::config(url)).config().to_builder();
    let partition = RetryPartition::new(format!("test-{}", next()));
    Client::from_conf(config.retry_config(quick).retry_partition(partition).build())
}

/// What a request asks for.
pub fn operation(seen: &Seen) -> &'static str {
    let query = seen.uri.query().unwrap_or_default();
    match (seen.method.as_str(), query) {
        ("PUT", query) if query.contains("partNumber=") => "part",
        ("PUT", _) => "put",
        ("POST", query) if query.contains("uploadId=") => "complete",
        ("POST", query) if query.contains("uploads") => "create",
        ("DELETE", query) if query.contains("uploadId=") => "abort",
        ("DELETE", _) => "delete",
        ("GET", query) if query.contains("list-type=2") => "list",
        ("GET", _) => "get",
        ("HEAD", _) => "head",
        _ => "other",
    }
}

pub fn header<'s>(seen: &'s Seen, name: &str) -> &'s str {
    seen.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

pub fn identifier(key: &str) -> ObjectIdentifier {
    ObjectIdentifier::builder().key(key).build().unwrap()
}

/// People with a console.
#[derive(Debug, Clone)]
pub struct People {
    pub client: Client,
    pub bucket: String,
}

#[async_trait]
impl inbox::People for People {
    async fn put(&self, name: &str, bytes: Bytes) {
        let request = self.client.put_object().bucket(&self.bucket).key(format!("inbox/{name}"));
        request.body(ByteStream::from(bytes)).send().await.unwrap();
    }

    async fn take_away(&self, name: &str) {
        self.client.delete_object().bucket(&self.bucket).key(format!("inbox/{name}")).send().await.unwrap();
    }
}
