//! A webhook's signing secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// What is no signing secret. It doesn't show what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a signing secret is whsec_ and base64")]
pub struct SecretFormError;

/// A signing secret: `whsec_` and the key in base64. Neither shows in any text.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret {
    text: String,
    key: Vec<u8>,
}

impl SigningSecret {
    /// Reads one.
    ///
    /// # Errors
    /// Another form, or an empty key.
    pub fn parse(text: &str) -> Result<Self, SecretFormError> {
        let encoded = text.strip_prefix("whsec_").ok_or(SecretFormError)?;
        let key = STANDARD.decode(encoded).map_err(|_| SecretFormError)?;
        if key.is_empty() { Err(SecretFormError) } else { Ok(Self { text: text.to_owned(), key }) }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The whole text, for where it is kept.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The first 12 hex digits of its sha256, by which it can be told apart.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex::encode(Sha256::digest(self.text.as_bytes())).chars().take(12).collect()
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningSecret({})", self.fingerprint())
    }
}
