//! The API keys in a Secrets Manager secret: `{"gemini_api_keys": ["..."]}` (design, section 10).

use std::sync::Arc;

use aws_sdk_secretsmanager::Client;
use serde::Deserialize;

use super::once_a_minute::{Failed, OnceAMinute};
use super::{Secret, SecretError};
use crate::adapters::gemini::ApiKey;
use crate::ports::clock::Clock;

const FORM: &str = r#"must be {"gemini_api_keys": ["..."]}"#;

/// What the secret holds.
#[derive(Deserialize)]
struct Held {
    gemini_api_keys: Vec<String>,
}

/// The API keys of a stack: the first creates, all read.
#[derive(Debug)]
pub struct GeminiKeys {
    secret: Secret,
    read: OnceAMinute<Vec<ApiKey>>,
}

impl GeminiKeys {
    /// The keys in the secret of that name or ARN. Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, id: String, clock: Arc<dyn Clock>) -> Self {
        Self { secret: Secret { client, id }, read: OnceAMinute::new(clock, Failed::TriedAgain) }
    }

    /// The keys, read at most once a minute. The same [`Arc`] comes back as long as the secret holds the same.
    ///
    /// # Errors
    /// A secret that can't be read, or holds no usable key. Nothing old is used in its place, so that a key which was
    /// taken out of the secret is out of use within a minute.
    pub async fn get(&self) -> Result<Arc<Vec<ApiKey>>, SecretError> {
        let same = |one: &Vec<ApiKey>, other: &Vec<ApiKey>| {
            one.iter().map(ApiKey::fingerprint).eq(other.iter().map(ApiKey::fingerprint))
        };
        let unfinished = || SecretError::Busy(self.secret.id.clone(), "the last read of it did not end".to_owned());
        self.read.get(self.fetch(), same, unfinished).await
    }

    async fn fetch(&self) -> Result<Vec<ApiKey>, SecretError> {
        match self.secret.text().await? {
            Some(text) => self.parse(&text),
            None => Err(self.empty()),
        }
    }

    fn parse(&self, text: &str) -> Result<Vec<ApiKey>, SecretError> {
        // serde's own message could quote what it found there.
        let held: Held = serde_json::from_str(text).map_err(|_| self.secret.needs_person(FORM.to_owned()))?;
        if held.gemini_api_keys.is_empty() {
            return Err(self.empty());
        }
        held.gemini_api_keys
            .iter()
            .map(|key| ApiKey::new(key).map_err(|bad| self.secret.needs_person(format!("has an unusable key: {bad}"))))
            .collect()
    }

    fn empty(&self) -> SecretError {
        self.secret.needs_person(format!("has no API key yet: put one in; it {FORM}"))
    }
}
