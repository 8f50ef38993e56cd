//! Tokens (RS256 JWT) in the place of a signature, as Gemini documents them for webhooks of single jobs
//! (<https://ai.google.dev/gemini-api/docs/webhooks>).
//!
//! A token signs nothing but itself: what it says about the request must be true of it ([`binding`]), and the rest of the
//! request is vouched for by nobody.

mod binding;

use std::time::Duration;

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::delivery::{Proof, TOLERANCE};
use super::key_set::KeySet;
use super::request::Refusal;
use crate::domain::time::Millis;

/// How long after it was made a token is taken at most, whatever it says itself: Gemini delivers an event again for 24
/// hours. Shorter than events are remembered, so that a token which comes again is always known.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);

/// The longest id of a token, in bytes.
const LONGEST_ID: usize = 1024;

/// A token and the request that it came with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) body: &'a [u8],
    /// The header `webhook-id`, which nobody vouches for.
    pub(super) id: Option<&'a str>,
}

impl Token<'_> {
    /// The proof by one of Gemini's RSA keys. The event is named after the token (its id; else all of it and the body), never
    /// after a header.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn proved(self, keys: &KeySet, audience: Option<&str>, now: Millis) -> Result<Proof, Refusal> {
        let claims = self.signed_claims(keys)?;
        is_of_now(&claims, now)?;
        if audience.is_some_and(|audience| !is_for(&claims, audience)) {
            return Err(unsigned("the token is for somebody else"));
        }
        binding::check(&claims, self.body, self.id)?;
        match claims.get("jti") {
            None => {
                // What is signed of it. The signature itself is left out, so that no other spelling of it makes another name.
                // With the body, since two events of one second may have the same claims.
                let signed = self.text.rsplit_once('.').map_or(self.text, |(signed, _)| signed);
                let body = hex::encode(Sha256::digest(self.body));
                Ok(Proof::of("token", &format!("{signed}.{body}")))
            }
            Some(Value::String(id)) if !id.is_empty() && id.len() <= LONGEST_ID => Ok(Proof::of("jti", id)),
            Some(_) => Err(unsigned("the token's id can't be read")),
        }
    }

    /// The claims, once a key has proved them.
    fn signed_claims(self, keys: &KeySet) -> Result<Map<String, Value>, Refusal> {
        let header = decode_header(self.text).map_err(|_| unsigned("the token can't be read"))?;
        // The algorithm is ours to choose: neither the token's nor the key's word counts.
        let mut validation = Validation::new(Algorithm::RS256);
        // The library would ask the system's clock; times and audience are checked here.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        if header.alg != Algorithm::RS256 {
            return Err(unsigned("the token is not signed with RS256"));
        }
        keys.rsa(header.kid.as_deref())
            .find_map(|key| {
                let key = DecodingKey::from_rsa_raw_components(&key.modulus, &key.exponent);
                decode(self.text, &key, &validation).ok()
            })
            .map(|token| token.claims)
            .ok_or_else(|| unsigned("no key fits the token"))
    }
}

/// Checks `exp`, `iat` and `nbf`. One of the first two must be there: else it would be good for ever.
fn is_of_now(claims: &Map<String, Value>, now: Millis) -> Result<(), Refusal> {
    let (expires, made, begins) = (time(claims, "exp")?, time(claims, "iat")?, time(claims, "nbf")?);
    if expires.is_none() && made.is_none() {
        return Err(unsigned("the token does not say from when it is"));
    }
    if [made, begins].into_iter().flatten().any(|begin| begin > now.plus(TOLERANCE)) {
        return Err(unsigned("the token is not valid yet"));
    }
    let life = if expires.is_some() { LONGEST_LIFE } else { Duration::ZERO };
    let is_over = expires.is_some_and(|end| now.since(end) > TOLERANCE)
        || made.is_some_and(|made| now.since(made) > life + TOLERANCE);
    if is_over {
        return Err(unsigned("the token is not valid any more"));
    }
    // Without a beginning only its end bounds how often it can come.
    if made.is_none() && expires.is_some_and(|end| end.since(now) > LONGEST_LIFE + TOLERANCE) {
        return Err(unsigned("the token is valid for too long"));
    }
    Ok(())
}

/// A `NumericDate` (RFC 7519): seconds, with a fraction if need be.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<Millis>, Refusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().ok_or_else(|| unsigned("the token's times can't be read"))?;
    // Saturates.
    Ok(Some(Millis((seconds * 1000.0) as i64)))
}

/// Whether `aud` is, or contains, this.
fn is_for(claims: &Map<String, Value>, audience: &str) -> bool {
    match claims.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(audience)),
        _ => false,
    }
}

fn unsigned(why: &str) -> Refusal {
    Refusal::Unsigned(why.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_788_260_400;

    fn of_now(claims: Value) -> bool {
        is_of_now(claims.as_object().unwrap(), Millis(NOW * 1000)).is_ok()
    }

    #[test]
    fn times_have_five_minutes_of_tolerance_and_no_more() {
        let day = 24 * 3600;
        for (claims, good) in [
            (json!({"exp": NOW - 300}), true),
            (json!({"exp": NOW - 301}), false),
            (json!({"exp": NOW as f64 - 300.5}), false),
            (json!({"exp": NOW + day + 300}), true),
            (json!({"exp": NOW + day + 301}), false),
            (json!({"exp": NOW + 100 * day, "iat": NOW}), true),
            (json!({"exp": NOW + 100 * day, "iat": NOW - day - 300}), true),
            (json!({"exp": NOW + 100 * day, "iat": NOW - day - 301}), false),
            (json!({"iat": NOW - 300}), true),
            (json!({"iat": NOW - 301}), false),
            (json!({"iat": NOW + 300}), true),
            (json!({"iat": NOW + 301}), false),
            (json!({"iat": NOW as f64 + 0.25}), true),
            (json!({"iat": NOW, "exp": NOW - 301}), false),
            (json!({"iat": NOW, "nbf": NOW + 300}), true),
            (json!({"iat": NOW, "nbf": NOW + 301}), false),
            (json!({"nbf": NOW}), false),
            (json!({}), false),
            (json!({"exp": null, "iat": NOW}), false),
            (json!({"exp": "1788260400"}), false),
            (json!({"iat": NOW, "nbf": []}), false),
            (json!({"exp": 1e300}), false),
            (json!({"exp": u64::MAX}), false),
            (json!({"iat": -1e300}), false),
            (json!({"exp": i64::MIN, "iat": NOW}), false),
        ] {
            assert_eq!(of_now(claims.clone()), good, "{claims}");
        }
    }

    #[test]
    fn an_audience_is_one_or_one_of_several() {
        for (claims, good) in [
            (json!({"aud": "mine"}), true),
            (json!({"aud": ["other", "mine"]}), true),
            (json!({"aud": "mine2"}), false),
            (json!({"aud": "Mine"}), false),
            (json!({"aud": []}), false),
            (json!({"aud": [["mine"]]}), false),
            (json!({"aud": {"mine": "mine"}}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_for(claims.as_object().unwrap(), "mine"), good, "{claims}");
        }
    }
}
