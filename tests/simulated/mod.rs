//! A simulator in the test's own process, and a plain client of it.

use std::sync::Arc;

use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use gleaner::simulator::{Config, Running, start};
use reqwest::Method;
use serde_json::Value;

/// A running simulator and a client that never retries.
#[derive(Debug)]
pub struct Sim {
    pub running: Running,
    http: reqwest::Client,
}

impl Sim {
    pub async fn start(config: Config) -> Self {
        Self::start_at(config, Arc::new(SystemClock)).await
    }

    pub async fn start_at(config: Config, clock: Arc<dyn Clock>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = start(listener, config, clock).await.unwrap();
        Self { running, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    /// Status and body, as a user with a good key; an error when there is no whole answer.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<(u16, Vec<u8>)> {
        self.send_as(Some("test-key"), method, path, body).await
    }

    pub async fn send_as(
        &self,
        key: Option<&str>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<(u16, Vec<u8>)> {
        let mut request = self.http.request(method, format!("{}{path}", self.running.base_url()));
        if let Some(key) = key {
            request = request.header("x-goog-api-key", key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.bytes().await?.to_vec()))
    }

    /// The body of a GET, which must succeed.
    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send(Method::GET, path, None).await.unwrap();
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}
