//! Keys of the test's own, what they sign, and the whole way of an event through the verifier.

use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaEncoding};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Delivery, KeySet, Proof, Refusal, Request, SigningSecret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

/// When every event of the tests is made, in seconds.
pub const THEN: i64 = 1_788_260_401;
pub const NOW: Millis = Millis(THEN * 1000);
pub const ID: &str = "msg_a";
pub const BODY: &str = r#"{"type":"batch.succeeded","version":"v1","data":{"id":"batches/a1"}}"#;
pub const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
pub const OTHER_SECRET: &str = "whsec_c2Vjb25kLXNlY3JldC0wMTIzNDU2Nzg5YWJjZGVmZ2g=";
pub const KID: &str = "key-1";

/// Gemini's keys, and those of somebody else.
pub static OURS: LazyLock<Keys> = LazyLock::new(Keys::new);
pub static FOREIGN: LazyLock<Keys> = LazyLock::new(Keys::new);

pub struct Keys {
    pub rsa: RsaKeyPair,
    pub ed25519: Ed25519KeyPair,
}

impl Keys {
    fn new() -> Self {
        Self { rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(), ed25519: Ed25519KeyPair::generate().unwrap() }
    }

    /// The RSA public key as PKCS#1 DER.
    pub fn rsa_der(&self) -> &[u8] {
        self.rsa.public_key().as_ref()
    }

    /// The RSA modulus: where it lies in the DER of a key of 2048 bits.
    pub fn modulus(&self) -> String {
        let der = self.rsa_der();
        assert_eq!((der.len(), &der[..9]), (270, b"\x30\x82\x01\x0a\x02\x82\x01\x01\x00".as_slice()));
        URL_SAFE_NO_PAD.encode(&der[9..265])
    }

    pub fn rsa_jwk(&self, kid: Option<&str>) -> Value {
        let mut key = json!({"kty": "RSA", "alg": "RS256", "use": "sig", "n": self.modulus(), "e": "AQAB"});
        if let Some(kid) = kid {
            key["kid"] = kid.into();
        }
        key
    }

    pub fn ed25519_jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.ed25519.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "x": x})
    }

    pub fn v1a(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let message = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        format!("v1a,{}", STANDARD.encode(self.ed25519.sign(&message)))
    }

    pub fn token(&self, header: &Value, claims: &Value) -> String {
        self.token_by(&RSA_PKCS1_SHA256, header, claims.to_string().as_bytes())
    }

    pub fn token_by(&self, encoding: &'static dyn RsaEncoding, header: &Value, claims: &[u8]) -> String {
        let signed = signed_part(header, claims);
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        self.rsa.sign(encoding, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// What is signed of a token.
pub fn signed_part(header: &Value, claims: &[u8]) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims))
}

/// The header of a good token.
pub fn rs256() -> Value {
    json!({"alg": "RS256", "kid": KID, "typ": "JWT"})
}

pub fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = signed_part(header, claims.to_string().as_bytes());
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

pub fn v1(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SigningSecret::parse(secret).unwrap().key()).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

pub fn request(id: &str, timestamp: impl ToString, signature: &str, body: &[u8]) -> Request {
    let timestamp = timestamp.to_string();
    let headers =
        [("content-type", "application/json"), ("webhook-id", id), ("webhook-timestamp", &timestamp)].into_iter();
    let headers = headers.chain([("webhook-signature", signature)]);
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Request { headers, body: Bytes::copy_from_slice(body) }
}

/// A delivery as Gemini documents it for webhooks of single jobs: a token and no other header.
pub fn with_token(token: &str) -> Request {
    let headers = vec![("Webhook-Signature".to_owned(), token.to_owned())];
    Request { headers, body: Bytes::from_static(BODY.as_bytes()) }
}

/// One good delivery of each kind.
pub fn good() -> [(&'static str, Request); 3] {
    let body = BODY.as_bytes();
    let claims = json!({"iat": THEN, "exp": THEN + 600, "body_sha256": digest(body)});
    [
        ("v1", request(ID, THEN, &v1(SECRET, ID, THEN, body), body)),
        ("v1a", request(ID, THEN, &OURS.v1a(ID, THEN, body), body)),
        ("token", with_token(&OURS.token(&rs256(), &claims))),
    ]
}

pub fn digest(body: &[u8]) -> String {
    use sha2::Digest as _;
    hex::encode(Sha256::digest(body))
}

/// Gemini's key set: a key of each kind, and one before each that nobody signs with.
pub fn key_set() -> KeySet {
    static IDLE: LazyLock<Keys> = LazyLock::new(Keys::new);
    let keys = [IDLE.ed25519_jwk(), OURS.ed25519_jwk(), IDLE.rsa_jwk(None), OURS.rsa_jwk(Some(KID))];
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

/// What verifies.
#[derive(Debug, Clone)]
pub struct Verifier {
    pub secrets: Vec<SigningSecret>,
    pub keys: KeySet,
    pub audience: Option<&'static str>,
    pub now: Millis,
}

impl Verifier {
    pub fn new() -> Self {
        let secrets = vec![SigningSecret::parse(SECRET).unwrap()];
        Self { secrets, keys: key_set(), audience: None, now: NOW }
    }

    pub fn at(now: Millis) -> Self {
        Self { now, ..Self::new() }
    }

    /// The way of every event: secrets first, keys only where they are asked for.
    pub fn judge(&self, request: &Request) -> Result<Proof, Refusal> {
        let delivery = Delivery::read(request, self.now)?;
        let by_secrets = delivery.proved_by_secrets(&self.secrets);
        assert!(delivery.asks_for_secrets() || by_secrets.is_none(), "{delivery:?}");
        if let Some(proof) = by_secrets {
            return Ok(proof);
        }
        let by_keys = delivery.proved_by_keys(&self.keys, self.audience, self.now);
        assert!(delivery.asks_for_public_keys() || by_keys.is_err(), "{delivery:?}");
        by_keys
    }

    /// The status, 200 for a proof. No refusal shows a digest, a key or a signature.
    pub fn status(&self, request: &Request) -> u16 {
        match self.judge(request) {
            Ok(_) => 200,
            Err(refusal) => {
                let text = refusal.to_string();
                assert!(!text.is_empty() && text.len() < 80 && text.is_ascii(), "{text}");
                refusal.status()
            }
        }
    }
}
