//! A delivery of an event, and who vouches for it.

use super::key_set::KeySet;
use super::request::{Refusal, Request};
use super::secret::SigningSecret;
use crate::domain::time::Millis;

/// A delivery whose headers are in order: not yet believed.
#[derive(Debug)]
pub struct Delivery<'a> {
    request: &'a Request,
}

/// That somebody whom we know has signed an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The event's name in the ledger: a digest, 32 hex digits, of the id that the signature vouches for.
    pub event: String,
}

impl<'a> Delivery<'a> {
    /// Reads size and headers, and whether it was signed about now.
    ///
    /// # Errors
    /// Too long, malformed or stale.
    pub fn read(request: &'a Request, _now: Millis) -> Result<Self, Refusal> {
        Ok(Self { request })
    }

    /// Whether it has a signature that a signing secret can prove.
    #[must_use]
    pub fn asks_for_secrets(&self) -> bool {
        false
    }

    /// Whether it has a signature that a public key can prove.
    #[must_use]
    pub fn asks_for_public_keys(&self) -> bool {
        false
    }

    /// The proof by one of `secrets`, in constant time for each.
    #[must_use]
    pub fn proved_by_secrets(&self, _secrets: &[SigningSecret]) -> Option<Proof> {
        None
    }

    /// The proof by one of Gemini's keys: `v1a`, or a token (for `audience`, when it is set).
    ///
    /// # Errors
    /// Why it is none.
    pub fn proved_by_keys(&self, _keys: &KeySet, _audience: Option<&str>, _now: Millis) -> Result<Proof, Refusal> {
        Err(Refusal::Unsigned(format!("no signature fits ({} headers)", self.request.headers.len())))
    }
}
