//! The signing secrets in a secret: `{"webhook_secrets": ["whsec_..."]}`.

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_secretsmanager::Client;

use super::once_a_minute::{Failed, OnceAMinute};
use super::{Secret, SecretError};
use crate::domain::webhook::Keyring;
use crate::ports::clock::Clock;
use crate::ports::webhook_keys::{KeysError, SigningSecrets};

/// The signing secrets of a stack.
#[derive(Debug)]
pub struct AwsSigningSecrets {
    secret: Secret,
    read: OnceAMinute<Keyring>,
}

impl AwsSigningSecrets {
    /// Those in the secret of that name or ARN. Nothing is read yet.
    #[must_use]
    pub fn new(client: Client, id: String, clock: Arc<dyn Clock>) -> Self {
        Self { secret: Secret { client, id }, read: OnceAMinute::new(clock, Failed::Counts) }
    }

    /// A secret in which nobody has ever put anything is an empty keyring.
    async fn fetch(&self) -> Result<Keyring, SecretError> {
        let Some(text) = self.secret.text().await? else { return Ok(Keyring::default()) };
        Keyring::parse(&text).map_err(|error| self.secret.needs_person(error.to_string()))
    }
}

#[async_trait]
impl SigningSecrets for AwsSigningSecrets {
    async fn current(&self) -> Result<Arc<Keyring>, KeysError> {
        let unfinished = || SecretError::Busy(self.secret.id.clone(), "the last read of it did not end".to_owned());
        Ok(self.read.get(self.fetch(), Keyring::eq, unfinished).await?)
    }

    async fn read(&self) -> Result<Keyring, KeysError> {
        Ok(self.fetch().await?)
    }

    async fn keep(&self, keyring: &Keyring) -> Result<(), KeysError> {
        let put = self.secret.put(keyring.text()).await;
        // Also after a failure: nobody knows what is there now.
        self.read.forget().await;
        Ok(put?)
    }
}
