//! The API keys in a Secrets Manager secret: `{"gemini_api_keys": ["..."]}` (design, section 10).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_secretsmanager::Client;
use serde::Deserialize;
use thiserror::Error;

use super::fault::{Fault, judge};
use crate::adapters::gemini::ApiKey;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;

/// How long keys that were read are taken for true: each read costs, and a rotated key may take a minute to be seen.
const FRESH: Duration = Duration::from_secs(60);

/// Why there are no keys. No text of it shows any part of the secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// Out of reach for now.
    #[error("the secret {0} is out of reach: {1}")]
    Busy(String, String),
    /// A person must act.
    #[error("the secret {0} {1}")]
    NeedsPerson(String, String),
}

/// What the secret holds.
#[derive(Deserialize)]
struct Secret {
    gemini_api_keys: Vec<String>,
}

/// The API keys of a stack: the first creates, all read.
#[derive(Debug)]
pub struct GeminiKeys {
    client: Client,
    id: String,
    clock: Arc<dyn Clock>,
    read: Mutex<Option<(Millis, Arc<Vec<ApiKey>>)>>,
}

impl GeminiKeys {
    /// The keys in the secret of that name or ARN. Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, id: String, clock: Arc<dyn Clock>) -> Self {
        Self { client, id, clock, read: Mutex::default() }
    }

    /// The keys, read at most once a minute. The same [`Arc`] comes back as long as the secret holds the same.
    ///
    /// # Errors
    /// A secret that can't be read, or holds no usable key. Nothing old is used in its place, so that a key which was
    /// taken out of the secret is out of use within a minute.
    pub async fn get(&self) -> Result<Arc<Vec<ApiKey>>, SecretError> {
        let now = self.clock.now();
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, keys)) = &known
            && now.since(*at) < FRESH
        {
            return Ok(Arc::clone(keys));
        }
        let fresh = self.fetch().await?;
        let same =
            |keys: &Arc<Vec<ApiKey>>| keys.iter().map(ApiKey::fingerprint).eq(fresh.iter().map(ApiKey::fingerprint));
        let keys = known.map(|(_, keys)| keys).filter(same).unwrap_or_else(|| Arc::new(fresh));
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
        Ok(keys)
    }

    async fn fetch(&self) -> Result<Vec<ApiKey>, SecretError> {
        let found = self.client.get_secret_value().secret_id(&self.id).send().await;
        let found = found.map_err(|error| match judge("reading it", &error) {
            Fault::Busy(why) => SecretError::Busy(self.id.clone(), why),
            Fault::NeedsPerson(why) => self.needs_person(format!("can't be read: {why}")),
        })?;
        let text = found.secret_string().ok_or_else(|| self.needs_person("holds no text".to_owned()))?;
        self.parse(text)
    }

    fn parse(&self, text: &str) -> Result<Vec<ApiKey>, SecretError> {
        const FORM: &str = r#"must be {"gemini_api_keys": ["..."]}"#;
        // serde's own message could quote what it found there.
        let secret: Secret = serde_json::from_str(text).map_err(|_| self.needs_person(FORM.to_owned()))?;
        if secret.gemini_api_keys.is_empty() {
            return Err(self.needs_person(format!("has no API key yet: put one in; it {FORM}")));
        }
        secret
            .gemini_api_keys
            .iter()
            .map(|key| ApiKey::new(key).map_err(|bad| self.needs_person(format!("has an unusable key: {bad}"))))
            .collect()
    }

    fn needs_person(&self, why: String) -> SecretError {
        SecretError::NeedsPerson(self.id.clone(), why)
    }
}
