//! API keys, which are sent and never shown.

use std::borrow::Cow;
use std::fmt;

use reqwest::header::HeaderValue;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::domain::job::KeyId;

/// What stands in a text where a key was.
const MASK: &str = "[API key]";

/// Keys shorter than this are not looked for in texts: every text would be full of them. Gemini's have 39
/// characters and more.
const MASKED_LENGTH: usize = 8;

/// Why a text is no API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadKey {
    /// Nothing, or only white space.
    #[error("the API key is empty")]
    Empty,
    /// It can't be sent in a header: it was probably pasted with something else.
    #[error("the API key has a character that no key has (a space, a line break, a control or non-ASCII character)")]
    Character,
}

/// An API key. No formatting of it shows the key; it is told apart by its fingerprint.
#[derive(Clone)]
pub struct ApiKey {
    secret: String,
    header: HeaderValue,
    id: KeyId,
}

impl ApiKey {
    /// Takes a key as a person hands it over; white space round it is not part of it. Its beginning is not
    /// looked at, since kinds of keys come and go (`AIza…`, `AQ.…`).
    ///
    /// # Errors
    /// [`BadKey`] when it can't be one.
    pub fn new(text: &str) -> Result<Self, BadKey> {
        let secret = text.trim();
        if secret.is_empty() {
            return Err(BadKey::Empty);
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadKey::Character);
        }
        let mut header = HeaderValue::from_str(secret).map_err(|_| BadKey::Character)?;
        // Keeps it out of debug output and out of HTTP/2's header tables.
        header.set_sensitive(true);
        let digest: String = hex::encode(Sha256::digest(secret)).chars().take(12).collect();
        Ok(Self { secret: secret.to_owned(), header, id: KeyId(digest) })
    }

    /// The first 12 hex digits of the key's sha256, as the ledger stores it with each handle.
    #[must_use]
    pub fn fingerprint(&self) -> KeyId {
        self.id.clone()
    }

    /// The same, borrowed.
    pub(super) const fn id(&self) -> &KeyId {
        &self.id
    }

    /// The value of `x-goog-api-key`.
    pub(super) fn header(&self) -> HeaderValue {
        self.header.clone()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "API key {}", self.id)
    }
}

/// `text` without any of `keys`: Gemini, a proxy or a library may quote what it was sent.
pub(super) fn mask<'a>(text: &'a str, keys: &[ApiKey]) -> Cow<'a, str> {
    let mut masked = Cow::Borrowed(text);
    for key in keys {
        if key.secret.len() >= MASKED_LENGTH && masked.contains(&key.secret) {
            masked = Cow::Owned(masked.replace(&key.secret, MASK));
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "AIzaSyExample-0123456789_abcdefghijklmno";

    #[test]
    fn no_formatting_shows_the_key() {
        let key = ApiKey::new(SECRET).unwrap();
        // printf %s "$SECRET" | sha256sum | cut -c1-12
        assert_eq!(key.fingerprint(), KeyId("c29199065265".to_owned()));
        assert_eq!(key.to_string(), "API key c29199065265");
        for shown in [format!("{key}"), format!("{key:?}"), format!("{key:#?}"), format!("{:?}", key.header())] {
            assert!(!shown.contains("AIza") && !shown.contains("Example"), "{shown}");
        }
    }

    #[test]
    fn white_space_round_a_key_is_not_part_of_it() {
        let key = ApiKey::new(&format!("  {SECRET}\r\n")).unwrap();
        assert_eq!(key.fingerprint(), ApiKey::new(SECRET).unwrap().fingerprint());
        assert_eq!(key.header(), SECRET);
    }

    #[test]
    fn what_cannot_be_a_key_is_told_without_showing_it() {
        assert_eq!(ApiKey::new(" \n").unwrap_err(), BadKey::Empty);
        for text in ["two words", "line\nbreak", "ключ-ключ", "tab\tbed", "null\0"] {
            let error = ApiKey::new(text).unwrap_err();
            assert_eq!(error, BadKey::Character);
            assert!(!error.to_string().contains(text));
        }
    }

    #[test]
    fn texts_are_masked_for_every_key() {
        let keys = [ApiKey::new(SECRET).unwrap(), ApiKey::new("AQ.other-key").unwrap(), ApiKey::new("abc").unwrap()];
        let text = format!("bad key {SECRET}, or AQ.other-key? {SECRET} abc");
        assert_eq!(mask(&text, &keys), "bad key [API key], or [API key]? [API key] abc");
        assert!(matches!(mask("nothing to hide", &keys), Cow::Borrowed("nothing to hide")));
    }
}
