//! Gemini's public keys.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::signature::from_base64;

/// The longest key set that is read, in bytes.
const LARGEST: usize = 256 * 1024;

/// How many keys one may hold: each is tried on a signature that names none.
const MOST: usize = 32;

/// Bits of an RSA modulus: fewer are too weak, more can't be checked.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The longest RSA exponent, in bytes. It is 65537 nearly everywhere.
const LONGEST_EXPONENT: usize = 4;

/// What is no set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("it is no JSON Web Key Set that can be used: {0}")]
pub struct KeySetError(String);

/// The keys of a JSON Web Key Set that are of use: Ed25519 and RSA ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet {
    ed25519: Vec<[u8; 32]>,
    rsa: Vec<RsaKey>,
}

/// An RSA public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RsaKey {
    kid: Option<String>,
    /// The modulus, big-endian, without zeros before it.
    pub(super) modulus: Vec<u8>,
    /// The exponent, likewise.
    pub(super) exponent: Vec<u8>,
}

/// A key as it is written (RFC 7517, 7518 and 8037). Members of other kinds of keys are not looked at.
#[derive(Deserialize)]
struct Written {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    n: Option<String>,
    e: Option<String>,
}

enum Key {
    Ed25519([u8; 32]),
    Rsa(RsaKey),
}

impl KeySet {
    /// Reads one. Keys of other kinds are left out, and so are those for something else than signatures, RSA keys of
    /// less than 2048 bits, and what can't be read: a key more must not stop the others.
    ///
    /// # Errors
    /// What is no key set, is too long, holds too many keys, or none of use.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        if bytes.len() > LARGEST {
            return Err(KeySetError(format!("it is longer than {LARGEST} bytes")));
        }
        let Set { keys } = serde_json::from_slice(bytes).map_err(|error| KeySetError(error.to_string()))?;
        if keys.len() > MOST {
            return Err(KeySetError(format!("it holds {} keys, more than {MOST}", keys.len())));
        }
        let (mut set, mut left_out) = (Self::default(), Vec::new());
        let count = keys.len();
        for key in keys {
            match read(key) {
                Ok(Key::Ed25519(key)) => set.ed25519.push(key),
                Ok(Key::Rsa(key)) => set.rsa.push(key),
                Err(why) => left_out.push(why),
            }
        }
        if set.ed25519.is_empty() && set.rsa.is_empty() {
            left_out.dedup();
            let why = left_out.join(", ");
            return Err(KeySetError(format!("it holds {count} keys, and none for Ed25519 or RS256 ({why})")));
        }
        Ok(set)
    }

    /// The Ed25519 keys.
    pub(super) fn ed25519(&self) -> &[[u8; 32]] {
        &self.ed25519
    }

    /// The RSA keys that a token which names `kid` may be signed with: those of that name and those without one; all of
    /// them when it names none.
    pub(super) fn rsa<'a>(&'a self, kid: Option<&'a str>) -> impl Iterator<Item = &'a RsaKey> {
        self.rsa.iter().filter(move |key| match (kid, key.kid.as_deref()) {
            (Some(asked), Some(own)) => asked == own,
            _ => true,
        })
    }
}

fn read(key: Value) -> Result<Key, String> {
    let key: Written = serde_json::from_value(key).map_err(|_| "one that can't be read".to_owned())?;
    if key.r#use.as_deref().is_some_and(|to| to != "sig")
        || key.key_ops.as_ref().is_some_and(|ops| !ops.iter().any(|op| op == "verify"))
    {
        return Err("one for something else than signatures".to_owned());
    }
    let is_for = |algorithms: &[&str]| key.alg.as_deref().is_none_or(|alg| algorithms.contains(&alg));
    match (key.kty.as_str(), key.crv.as_deref()) {
        ("OKP", Some("Ed25519")) if is_for(&["EdDSA", "Ed25519"]) => {
            let bytes = key.x.as_deref().and_then(from_base64).and_then(|bytes| bytes.try_into().ok());
            Ok(Key::Ed25519(bytes.ok_or_else(|| "an Ed25519 key that is none".to_owned())?))
        }
        ("RSA", _) if is_for(&["RS256"]) => {
            let number = |text: &Option<String>| text.as_deref().and_then(from_base64).map(without_zeros);
            let none = || "an RSA key that is none".to_owned();
            let (modulus, exponent) = (number(&key.n).ok_or_else(none)?, number(&key.e).ok_or_else(none)?);
            let zeros = modulus.first().map_or(0, |first| first.leading_zeros() as usize);
            let bits = (modulus.len() * 8).saturating_sub(zeros);
            if !RSA_BITS.contains(&bits) {
                return Err(format!("an RSA key of {bits} bits"));
            }
            let is_odd = exponent.last().is_some_and(|last| last & 1 == 1);
            if !is_odd || exponent == [1] || exponent.len() > LONGEST_EXPONENT {
                return Err("an RSA key with an exponent that is none".to_owned());
            }
            Ok(Key::Rsa(RsaKey { kid: key.kid, modulus, exponent }))
        }
        (kind, _) => Err(format!("one of the kind {}", kind.escape_default().take(16).collect::<String>())),
    }
}

fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn parse(keys: Value) -> Result<KeySet, String> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn rsa(bits: usize, more: Value) -> Value {
        let mut key = json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(vec![0xc3; bits / 8]), "e": "AQAB"});
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    }

    fn ed25519(more: Value) -> Value {
        let mut key = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode([7; 32])});
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    }

    #[test]
    fn keys_of_use_are_taken_and_others_left_out() {
        let set = parse(json!([
            {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
            {"kty": "oct", "k": "AAAA"},
            {"kty": "OKP", "crv": "X25519", "x": URL_SAFE_NO_PAD.encode([7; 32])},
            {"kty": 1}, null, "text",
            ed25519(json!({"use": "sig", "alg": "EdDSA", "kid": "a", "new": [1]})),
            ed25519(json!({"use": "enc"})),
            ed25519(json!({"key_ops": ["sign"]})),
            ed25519(json!({"x": "AAAA"})),
            ed25519(json!({"x": null})),
            rsa(2048, json!({"kid": "one", "use": "sig", "key_ops": ["verify"], "alg": "RS256"})),
            rsa(4096, json!({})),
            rsa(2048, json!({"alg": "PS256"})),
            rsa(2048, json!({"use": "enc"})),
            rsa(1024, json!({})),
            rsa(2040, json!({})),
            rsa(16384, json!({})),
            rsa(2048, json!({"e": "AQ"})),
            rsa(2048, json!({"e": "Ag"})),
            rsa(2048, json!({"e": ""})),
            rsa(2048, json!({"e": "AQABAQAB"})),
            rsa(2048, json!({"n": "*"})),
        ]))
        .unwrap();
        assert_eq!(set.ed25519(), [[7; 32]]);
        assert_eq!(set.rsa(None).map(|key| key.modulus.len()).collect::<Vec<_>>(), [256, 512]);
        // By name where both have one.
        assert_eq!(set.rsa(Some("one")).count(), 2);
        assert_eq!(set.rsa(Some("two")).map(|key| key.modulus.len()).collect::<Vec<_>>(), [512]);
    }

    #[test]
    fn zeros_before_a_number_are_no_bits() {
        let padded = [vec![0], vec![0xc3; 256]].concat();
        let set = parse(json!([rsa(2048, json!({"n": URL_SAFE_NO_PAD.encode(padded)}))])).unwrap();
        assert_eq!(set, parse(json!([rsa(2048, json!({}))])).unwrap());
        let weak = [vec![0; 128], vec![0xc3; 128]].concat();
        let error = parse(json!([rsa(2048, json!({"n": URL_SAFE_NO_PAD.encode(weak)}))])).unwrap_err();
        assert!(error.contains("an RSA key of 1024 bits"), "{error}");
        assert!(parse(json!([rsa(2048, json!({"n": ""}))])).unwrap_err().contains("of 0 bits"));
    }

    #[test]
    fn what_is_no_key_set_is_told() {
        for (bytes, why) in [
            ("", "EOF"),
            ("<html>", "expected value"),
            ("{}", "keys"),
            (r#"{"keys": {}}"#, "invalid type"),
            (r#"{"keys": []}"#, "it holds 0 keys"),
            (r#"{"keys": [{"kty": "EC"}]}"#, "one of the kind EC"),
        ] {
            let error = KeySet::parse(bytes.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("it is no JSON Web Key Set") && error.contains(why), "{bytes}: {error}");
        }
        let many = parse(vec![ed25519(json!({})); MOST + 1].into()).unwrap_err();
        assert!(many.contains("33 keys"), "{many}");
        assert!(parse(vec![ed25519(json!({})); MOST].into()).is_ok());
        let error = KeySet::parse(&vec![b' '; LARGEST + 1]).unwrap_err().to_string();
        assert!(error.contains("longer than 262144 bytes"), "{error}");
    }
}
