//! Secrets in Secrets Manager: the API keys, and the signing secrets of webhooks (design, section 10).

mod gemini_keys;
mod once_a_minute;
mod signing_secrets;

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::operation::get_secret_value::GetSecretValueError;
use thiserror::Error;

pub use self::gemini_keys::GeminiKeys;
pub use self::signing_secrets::AwsSigningSecrets;
use super::fault::{Fault, judge};
use crate::domain::mask::mask;
use crate::ports::webhook_keys::KeysError;

/// Why a secret is of no use. No text of it shows any part of the secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretError {
    /// Out of reach for now.
    #[error("the secret {0} is out of reach: {1}")]
    Busy(String, String),
    /// A person must act.
    #[error("the secret {0} {1}")]
    NeedsPerson(String, String),
}

impl From<SecretError> for KeysError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Busy(..) => Self::Busy(error.to_string()),
            SecretError::NeedsPerson(..) => Self::NeedsPerson(error.to_string()),
        }
    }
}

/// One secret, by its name or ARN.
#[derive(Debug)]
struct Secret {
    client: Client,
    id: String,
}

impl Secret {
    /// Its text. None when nobody has ever put a value in.
    async fn text(&self) -> Result<Option<String>, SecretError> {
        let found = match self.client.get_secret_value().secret_id(&self.id).send().await {
            Ok(found) => found,
            Err(error) if error.as_service_error().is_some_and(is_empty) => return Ok(None),
            Err(error) => return Err(self.fault("reading it", "can't be read", &error)),
        };
        let text = found.secret_string().ok_or_else(|| self.needs_person("holds no text".to_owned()))?;
        Ok(Some(text.to_owned()))
    }

    /// Puts a text in the place of what is there.
    async fn put(&self, text: String) -> Result<(), SecretError> {
        let put = self.client.put_secret_value().secret_id(&self.id).secret_string(text).send().await;
        put.map(drop).map_err(|error| self.fault("writing it", "can't be written", &error))
    }

    fn fault<E>(&self, doing: &str, cannot: &str, error: &aws_sdk_secretsmanager::error::SdkError<E>) -> SecretError
    where
        E: std::error::Error + aws_sdk_secretsmanager::error::ProvideErrorMetadata + 'static,
    {
        match judge(doing, error) {
            // AWS may quote what it was sent.
            Fault::Busy(why) => SecretError::Busy(self.id.clone(), mask(&why)),
            Fault::NeedsPerson(why) => self.needs_person(format!("{cannot}: {}", mask(&why))),
        }
    }

    fn needs_person(&self, why: String) -> SecretError {
        SecretError::NeedsPerson(self.id.clone(), why)
    }
}

/// Whether it is the value that is not there, and not the secret. Secrets Manager has one error for both, and says which
/// in words alone.
fn is_empty(error: &GetSecretValueError) -> bool {
    let GetSecretValueError::ResourceNotFoundException(absent) = error else { return false };
    absent.message().is_some_and(|message| message.contains("secret value"))
}
