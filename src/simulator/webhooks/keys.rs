//! The service's own keys, and their public halves as a JSON Web Key Set.
//!
//! Three Ed25519 keys without a `kid`, as reported live, of which the second signs; and one RSA key with a `kid`, as
//! documented.

use std::fmt;
use std::io;
use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::faults::hash;

/// 32 bytes that are always the same for the same seed, and otherwise as good as random.
pub(super) fn bytes_of(seed: u64, what: &str, subject: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (part, place) in (0_u64..).zip(bytes.chunks_exact_mut(8)) {
        place.copy_from_slice(&hash(seed, what, subject, &[part]).to_be_bytes());
    }
    bytes
}

/// Which of the Ed25519 keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The one that signs.
    Signing,
    /// One that is not in the set.
    Unknown,
}

/// The Ed25519 keys, made from the seed.
pub(super) struct Ed25519 {
    before: Ed25519KeyPair,
    signing: Ed25519KeyPair,
    after: Ed25519KeyPair,
    unknown: Ed25519KeyPair,
}

impl fmt::Debug for Ed25519 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ed25519")
    }
}

impl Ed25519 {
    pub(super) fn new(seed: u64) -> io::Result<Self> {
        let pair = |number| {
            Ed25519KeyPair::from_seed_unchecked(&bytes_of(seed, "ed25519", number))
                .map_err(|error| io::Error::other(format!("a key of events can't be made: {error}")))
        };
        Ok(Self { before: pair(0)?, signing: pair(1)?, after: pair(2)?, unknown: pair(3)? })
    }

    pub(super) fn sign(&self, place: Place, bytes: &[u8]) -> Vec<u8> {
        let pair = match place {
            Place::Signing => &self.signing,
            Place::Unknown => &self.unknown,
        };
        pair.sign(bytes).as_ref().to_vec()
    }

    fn public(&self) -> impl Iterator<Item = Value> {
        [&self.before, &self.signing, &self.after].into_iter().map(|pair| {
            let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
            json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "x": x})
        })
    }
}

/// The RSA key.
pub(super) struct Rsa {
    pair: KeyPair,
    kid: String,
    n: String,
    e: String,
}

/// Made when it is first needed, which takes a moment, and the same for every simulator of the process.
static RSA: LazyLock<Result<Rsa, &'static str>> = LazyLock::new(Rsa::make);

impl Rsa {
    fn make() -> Result<Self, &'static str> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| "an RSA key can't be made")?;
        let public = pair.public_key().as_ref();
        let (n, e) = numbers(public).ok_or("the public half of an RSA key can't be read")?;
        let kid = hex::encode(Sha256::digest(public)).chars().take(16).collect();
        Ok(Self { kid, n: URL_SAFE_NO_PAD.encode(n), e: URL_SAFE_NO_PAD.encode(e), pair })
    }

    /// The key of this process.
    pub(super) async fn get() -> io::Result<&'static Self> {
        let made = tokio::task::spawn_blocking(|| RSA.as_ref()).await.map_err(io::Error::other)?;
        made.map_err(|why| io::Error::other(*why))
    }

    /// A JWT with these claims.
    pub(super) fn token(&self, claims: &Value) -> Result<String, &'static str> {
        let head = json!({"alg": "RS256", "kid": self.kid, "typ": "JWT"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(claims));
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| "a token can't be signed")?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn public(&self) -> Value {
        json!({"kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.kid, "n": self.n, "e": self.e})
    }
}

/// The JSON Web Key Set.
pub(super) fn set(ed25519: &Ed25519, rsa: &Rsa) -> Value {
    json!({"keys": ed25519.public().chain([rsa.public()]).collect::<Vec<_>>()})
}

/// Modulus and exponent of an RSA public key in DER (PKCS #1): a sequence of two positive numbers.
fn numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (n, rest) = element(sequence, 0x02)?;
    let (e, _) = element(rest, 0x02)?;
    let positive = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((n.get(positive(n)..)?, e.get(positive(e)..)?))
}

/// The content of the element that comes first, and what is behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = der.split_first_chunk::<2>()?;
    let [found, short] = *head;
    let (length, rest) = if short < 0x80 {
        (usize::from(short), rest)
    } else {
        let (long, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
        (long.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
    };
    (found == tag).then_some(())?;
    rest.split_at_checked(length)
}
