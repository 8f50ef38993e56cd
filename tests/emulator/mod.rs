//! AWS on this machine: ministack, and moto for a second opinion, each its own process on a free port.
#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::allow_attributes, reason = "what is dead differs from binary to binary")]

pub mod proxy;
pub mod table;

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};

/// How long a server may take to answer first, on a machine that is busy building.
const PATIENCE: Duration = Duration::from_secs(90);

/// Which emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All services, and functions that really run.
    Ministack,
    /// DynamoDB, S3 and SQS of another making.
    Moto,
}

/// A running emulator. Dropping it, or the end of this process however it comes, ends it.
#[derive(Debug)]
pub struct Emulator {
    pub kind: Kind,
    pub port: u16,
    server: Child,
    folder: tempfile::TempDir,
}

impl Emulator {
    /// Starts one, and returns when it answers.
    pub async fn start(kind: Kind) -> Self {
        Self::start_with(kind, &[]).await
    }

    /// The same with more in its environment.
    pub async fn start_with(kind: Kind, environment: &[(&str, &str)]) -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let (program, arguments) = match kind {
            Kind::Ministack => ("ministack", vec![]),
            Kind::Moto => {
                ("moto_server", vec!["-H".to_owned(), "127.0.0.1".to_owned(), "-p".to_owned(), port.to_string()])
            }
        };
        let server = Command::new(python())
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emulator/keep.py"))
            .arg(python().with_file_name(program))
            .args(arguments)
            .envs([("GATEWAY_PORT", port.to_string().as_str()), ("LAMBDA_EXECUTOR", "local")])
            // Its functions inherit it.
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let emulator = Self { kind, port, server, folder };
        emulator.answers().await;
        emulator
    }

    async fn answers(&self) {
        let client = reqwest::Client::new();
        for _ in 0..PATIENCE.as_millis() / 50 {
            if client.get(self.url()).send().await.is_ok() {
                return;
            }
            moment().await;
        }
        panic!("{:?} does not answer:\n{}", self.kind, self.log());
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// The process that was started, under which its functions run.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How SDK clients find it.
    pub fn config(&self) -> SdkConfig {
        config(&self.url())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}

/// How SDK clients find AWS at a URL.
pub fn config(url: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "test");
    gleaner::adapters::aws::tuned(
        &SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(url)
            .build(),
    )
}

/// The virtual environment that `make test` makes.
pub fn python() -> PathBuf {
    let named = std::env::var_os("GLEANER_TEST_PYTHON").map(PathBuf::from);
    named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python"))
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[expect(clippy::disallowed_methods, reason = "processes take real time to start")]
async fn moment() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
