//! How events are signed (gemini-api, section 3.4): `v1` by a webhook's own secrets, `v1a` or a token by the service.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use super::super::faults::Fault;
use super::keys::{Ed25519, Place, Rsa};

/// How an event is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// HMAC-SHA256, of registered webhooks.
    V1,
    /// Ed25519: what was seen on live events of requests' own webhooks.
    V1a,
    /// A JWT by RS256: what is documented for them.
    Jwt,
}

impl Form {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1a => "v1a",
            Self::Jwt => "jwt",
        }
    }
}

/// How right a signature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    Right,
    /// A right one behind one by a key that nobody knows.
    Second,
    /// None that fits.
    Wrong,
}

impl Truth {
    /// What a fault makes of the signature of a try.
    pub(super) fn of(fault: Option<Fault>, first: bool) -> Self {
        match fault {
            Some(Fault::EventTwoSignatures) => Self::Second,
            Some(Fault::EventBadSignature) if first => Self::Wrong,
            _ => Self::Right,
        }
    }
}

/// What is signed.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) id: &'a str,
    /// Unix time of the try, in seconds.
    pub(super) at: i64,
    pub(super) body: &'a [u8],
}

impl Message<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}.{}.", self.id, self.at).into_bytes();
        bytes.extend_from_slice(self.body);
        bytes
    }

    /// `v1,…` for each of the keys.
    pub(super) fn v1(&self, keys: &[[u8; 32]], truth: Truth) -> String {
        let unknown = [0x5a; 32];
        let keys: Vec<&[u8; 32]> = match truth {
            Truth::Right => keys.iter().collect(),
            Truth::Second => std::iter::once(&unknown).chain(keys).collect(),
            Truth::Wrong => vec![&unknown],
        };
        let bytes = self.bytes();
        let signed = keys.into_iter().filter_map(|key| {
            // HMAC takes keys of any length.
            let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
            mac.update(&bytes);
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        });
        signed.collect::<Vec<_>>().join(" ")
    }

    /// `v1a,…` by the service's second key.
    pub(super) fn v1a(&self, keys: &Ed25519, truth: Truth) -> String {
        let bytes = self.bytes();
        let places: &[Place] = match truth {
            Truth::Right => &[Place::Signing],
            Truth::Second => &[Place::Unknown, Place::Signing],
            Truth::Wrong => &[Place::Unknown],
        };
        let signed = places.iter().map(|place| format!("v1a,{}", STANDARD.encode(keys.sign(*place, &bytes))));
        signed.collect::<Vec<_>>().join(" ")
    }

    /// A token for the receiver. It does not bind the body, as in the documentation's samples.
    pub(super) fn token(&self, key: &Rsa, audience: &str) -> Result<String, &'static str> {
        key.token(&json!({"aud": audience, "iat": self.at, "exp": self.at + 300, "jti": self.id}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_official_example_of_standard_webhooks() {
        let secret: [u8; 24] = STANDARD.decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap().try_into().unwrap();
        // Zeros behind a key of HMAC change nothing.
        let mut key = [0; 32];
        key[..24].copy_from_slice(&secret);
        let body = br#"{"email":"test@example.com","username":"test_user"}"#;
        let message = Message { id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", at: 1_649_367_553, body };
        assert_eq!(message.v1(&[key], Truth::Right), "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
        let two = message.v1(&[key], Truth::Second);
        assert!(two.split(' ').count() == 2 && two.ends_with(" v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="));
        assert!(!message.v1(&[key], Truth::Wrong).contains("tZ1I4"));
    }
}
