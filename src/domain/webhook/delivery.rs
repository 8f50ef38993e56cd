//! A delivery of an event, and who vouches for it.

use std::time::Duration;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::key_set::KeySet;
use super::request::{LARGEST, Refusal, Request};
use super::secret::SigningSecret;
use super::signature::{self, Signature};
use super::token::Token;
use crate::domain::time::Millis;

/// How far the clock of who signed may be off, either way; as far is still good
/// (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md> asks for some tolerance,
/// and its libraries have this one).
pub(super) const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The longest id, in bytes. Gemini's are `msg_` and a UUID.
const LONGEST_ID: usize = 256;

/// The most digits of a time in seconds: enough for the next 30,000 years.
const LONGEST_TIMESTAMP: usize = 12;

/// The longest signature header, in bytes: API Gateway lets all headers together have 10,240.
const LONGEST_SIGNATURE: usize = 8 * 1024;

/// A delivery whose headers are in order: not yet believed.
#[derive(Debug)]
pub struct Delivery<'a> {
    request: &'a Request,
    /// Id and timestamp as they came, if both did: what `v1` and `v1a` sign together with the body.
    signed: Option<(&'a str, &'a str)>,
    id: Option<&'a str>,
    signatures: Vec<Signature<'a>>,
}

/// That somebody whom we know has signed an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The event's name in the ledger: a digest, 32 hex digits, of the id that the signature vouches for.
    pub event: String,
}

impl Proof {
    /// Of an event with this id. Ids of different kinds never have the same name.
    pub(super) fn of(kind: &str, id: &str) -> Self {
        let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(id).finalize();
        Self { event: hex::encode(digest).chars().take(32).collect() }
    }
}

impl<'a> Delivery<'a> {
    /// Reads size and headers, and whether it was signed about now.
    ///
    /// The headers `webhook-id` and `webhook-timestamp` may be missing beside a token, which has its own
    /// (Gemini's documentation shows no others than `Webhook-Signature`: <https://ai.google.dev/gemini-api/docs/webhooks>).
    ///
    /// # Errors
    /// Too long, malformed, stale, or without any signature that could prove something.
    pub fn read(request: &'a Request, now: Millis) -> Result<Self, Refusal> {
        if request.body.len() > LARGEST {
            return Err(Refusal::TooLarge);
        }
        let header = single(request, "webhook-signature", LONGEST_SIGNATURE, |c| c.is_ascii_graphic() || c == ' ')?;
        let header = header.ok_or_else(|| missing("webhook-signature"))?;
        let signatures = signature::parse(header)?;
        // A dot would move the borders of what is signed, and a comma stands where two headers were joined.
        let id = single(request, "webhook-id", LONGEST_ID, |c| c.is_ascii_graphic() && c != '.' && c != ',')?;
        let timestamp = single(request, "webhook-timestamp", LONGEST_TIMESTAMP, |c| c.is_ascii_digit())?;
        if !signatures.iter().any(|signature| matches!(signature, Signature::Token(_))) {
            id.ok_or_else(|| missing("webhook-id"))?;
            timestamp.ok_or_else(|| missing("webhook-timestamp"))?;
        }
        if let Some(timestamp) = timestamp {
            let seconds: i64 = timestamp.parse().map_err(|_| unreadable("webhook-timestamp"))?;
            let made = Millis(seconds.saturating_mul(1000));
            if now.since(made) > TOLERANCE || made.since(now) > TOLERANCE {
                return Err(Refusal::Unsigned("it was made more than 5 minutes before or after now".to_owned()));
            }
        }
        let delivery = Self { request, signed: id.zip(timestamp), id, signatures };
        if delivery.asks_for_secrets() || delivery.asks_for_public_keys() {
            Ok(delivery)
        } else {
            Err(Refusal::Unsigned("it has no signature of a kind that is known".to_owned()))
        }
    }

    /// Whether it has a signature that a signing secret can prove.
    #[must_use]
    pub fn asks_for_secrets(&self) -> bool {
        self.signed.is_some() && self.signatures.iter().any(|signature| matches!(signature, Signature::Hmac(_)))
    }

    /// Whether it has a signature that a public key can prove.
    #[must_use]
    pub fn asks_for_public_keys(&self) -> bool {
        self.signatures.iter().any(|signature| match signature {
            Signature::Hmac(_) => false,
            Signature::Ed25519(_) => self.signed.is_some(),
            Signature::Token(_) => true,
        })
    }

    /// The proof by one of `secrets`, in constant time for each.
    #[must_use]
    pub fn proved_by_secrets(&self, secrets: &[SigningSecret]) -> Option<Proof> {
        let (id, timestamp) = self.signed?;
        let fits = |secret: &SigningSecret| {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.key()) else { return false };
            for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", &self.request.body] {
                mac.update(part);
            }
            self.signatures.iter().any(|signature| match signature {
                Signature::Hmac(code) => mac.clone().verify_slice(code).is_ok(),
                _ => false,
            })
        };
        secrets.iter().any(fits).then(|| Proof::of("id", id))
    }

    /// The proof by one of Gemini's keys: `v1a`, or a token (for `audience`, when it is set).
    ///
    /// # Errors
    /// Why it is none.
    pub fn proved_by_keys(&self, keys: &KeySet, audience: Option<&str>, now: Millis) -> Result<Proof, Refusal> {
        if let Some(proof) = self.proved_by_ed25519(keys) {
            return Ok(proof);
        }
        let mut why = Refusal::Unsigned("no signature fits".to_owned());
        for signature in &self.signatures {
            let Signature::Token(text) = signature else { continue };
            let token = Token { text, body: &self.request.body, id: self.id };
            match token.proved(keys, audience, now) {
                Ok(proof) => return Ok(proof),
                Err(refusal) => why = refusal,
            }
        }
        Err(why)
    }

    fn proved_by_ed25519(&self, keys: &KeySet) -> Option<Proof> {
        let (id, timestamp) = self.signed?;
        let signatures = self.signatures.iter().filter_map(|signature| match signature {
            Signature::Ed25519(bytes) => Some(bytes),
            _ => None,
        });
        let signatures: Vec<_> = signatures.collect();
        if signatures.is_empty() {
            return None;
        }
        let message = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &self.request.body].concat();
        let fits = |key: &[u8; 32]| {
            let key = UnparsedPublicKey::new(&ED25519, key);
            signatures.iter().any(|signature| key.verify(&message, *signature).is_ok())
        };
        keys.ed25519().iter().any(fits).then(|| Proof::of("id", id))
    }
}

/// A header's value, if it is there: once, neither empty nor longer than `longest`, and of these characters only.
fn single<'a>(
    request: &'a Request,
    name: &'static str,
    longest: usize,
    may_have: impl Fn(char) -> bool,
) -> Result<Option<&'a str>, Refusal> {
    let mut values = request.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
    let Some((_, value)) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Malformed(format!("the header {name} comes twice")));
    }
    if value.is_empty() || value.len() > longest || !value.chars().all(may_have) {
        return Err(unreadable(name));
    }
    Ok(Some(value))
}

fn missing(name: &str) -> Refusal {
    Refusal::Malformed(format!("the header {name} is missing"))
}

fn unreadable(name: &str) -> Refusal {
    Refusal::Malformed(format!("the header {name} can't be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_different_kinds_have_different_names() {
        let names: std::collections::BTreeSet<_> =
            ["id", "jti", "token"].iter().map(|kind| Proof::of(kind, "msg_a").event).collect();
        assert_eq!(names.len(), 3);
        assert!(names.iter().all(|name| name.len() == 32 && name.chars().all(|c| c.is_ascii_hexdigit())));
        assert_eq!(Proof::of("id", "msg_a"), Proof::of("id", "msg_a"));
        assert_ne!(Proof::of("id", "msg_a"), Proof::of("id", "msg_b"));
    }
}
