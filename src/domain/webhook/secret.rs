//! A webhook's signing secret.

use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::signature::from_base64;

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
    /// Reads one. Spaces and line ends around it are left out, and the base64 may have either alphabet, with padding or
    /// without: which one Gemini writes is not documented.
    ///
    /// # Errors
    /// Another form, or an empty key.
    pub fn parse(text: &str) -> Result<Self, SecretFormError> {
        let text = text.trim();
        let encoded = text.strip_prefix("whsec_").ok_or(SecretFormError)?;
        let key = from_base64(encoded).ok_or(SecretFormError)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_in_every_spelling_of_base64() {
        for text in ["whsec_+/++", "whsec_-_--", " whsec_+/++\n"] {
            assert_eq!(SigningSecret::parse(text).unwrap().key(), [0xfb, 0xff, 0xbe], "{text}");
        }
        for text in ["whsec_+w==", "whsec_+w", "whsec_-w"] {
            assert_eq!(SigningSecret::parse(text).unwrap().key(), [0xfb], "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_and_none_is_shown() {
        for text in ["", "whsec_", "whsec_*", "+/++", "whsk_+/++", "WHSEC_+/++", "whsec_+/-_", "whsec_a b"] {
            assert_eq!(SigningSecret::parse(text), Err(SecretFormError), "{text}");
        }
        let secret = SigningSecret::parse("whsec_c2VjcmV0LXNlY3JldA==").unwrap();
        let shown = format!("{secret:?}");
        assert!(!shown.contains("c2Vjc") && shown.contains(&secret.fingerprint()), "{shown}");
        assert_eq!(secret.fingerprint().len(), 12);
        assert_eq!(secret.expose(), "whsec_c2VjcmV0LXNlY3JldA==");
    }
}
