//! Headers, and the body beside them: good deliveries after any changes, and anything at all.

use bytes::Bytes;
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::Request;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::{DEBRIS, Damage, any_bytes, damage, damaged, damaged_text, damages, run};
use crate::kit::{FOREIGN, OTHER_SECRET, OURS, SECRET, THEN, Verifier, request, v1};

const NAMES: [&str; 4] = ["webhook-id", "webhook-timestamp", "webhook-signature", "content-type"];

/// A change to a delivery.
#[derive(Debug, Clone)]
enum Change {
    Value(&'static str, Vec<Damage>),
    Replace(&'static str, String),
    Remove(&'static str),
    Repeat(&'static str, Index),
    Case(&'static str, u64),
    Order(Index, Index),
    Body(Vec<Damage>),
}

impl Change {
    fn made(&self, request: &mut Request) {
        let at =
            |request: &Request, name: &str| request.headers.iter().position(|(own, _)| own.eq_ignore_ascii_case(name));
        match self {
            Self::Value(name, damages) => {
                if let Some(at) = at(request, name) {
                    request.headers[at].1 = damaged_text(&request.headers[at].1, damages);
                }
            }
            Self::Replace(name, value) => {
                if let Some(at) = at(request, name) {
                    request.headers[at].1.clone_from(value);
                }
            }
            Self::Remove(name) => request.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name)),
            Self::Repeat(name, to) => {
                if let Some(at) = at(request, name) {
                    let header = (name.to_uppercase(), request.headers[at].1.clone());
                    request.headers.insert(to.index(request.headers.len() + 1), header);
                }
            }
            Self::Case(name, bits) => {
                if let Some(at) = at(request, name) {
                    let upper = |(place, c): (usize, char)| {
                        if bits >> (place % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
                    };
                    request.headers[at].0 = name.chars().enumerate().map(upper).collect();
                }
            }
            Self::Order(one, other) if !request.headers.is_empty() => {
                let length = request.headers.len();
                request.headers.swap(one.index(length), other.index(length));
            }
            Self::Order(..) => {}
            Self::Body(damages) => request.body = Bytes::from(damaged(&request.body, damages)),
        }
    }

    /// Whether a delivery is as good after it as before.
    const fn is_harmless(&self) -> bool {
        matches!(self, Self::Case(..) | Self::Order(..))
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let name = || select(NAMES.as_slice());
    let at = any::<Index>;
    let some = || prop::collection::vec(damage(), 1..3);
    let values = prop_oneof![
        select(DEBRIS.as_slice()).prop_map(str::to_owned),
        "\\PC{0,20}",
        "[ -~]{0,60}",
        "[0-9]{1,14}",
        (-700_i64..700).prop_map(|by| (THEN + by).to_string()),
    ];
    let harmless = prop_oneof![
        (name(), any::<u64>()).prop_map(|(name, bits)| Change::Case(name, bits)),
        (at(), at()).prop_map(|(one, other)| Change::Order(one, other)),
    ];
    let change = prop_oneof![
        4 => (name(), some()).prop_map(|(name, damages)| Change::Value(name, damages)),
        2 => (name(), values).prop_map(|(name, value)| Change::Replace(name, value)),
        1 => name().prop_map(Change::Remove),
        1 => (name(), at()).prop_map(|(name, to)| Change::Repeat(name, to)),
        3 => some().prop_map(Change::Body),
        2 => harmless.clone(),
    ];
    prop_oneof![1 => prop::collection::vec(harmless, 0..4), 4 => prop::collection::vec(change, 1..4)]
}

/// Who signs, and how.
#[derive(Debug, Clone, Copy)]
enum Signer {
    Hmac,
    Ed25519,
    OtherSecret,
    OtherKey,
}

impl Signer {
    const ALL: [Self; 4] = [Self::Hmac, Self::Ed25519, Self::OtherSecret, Self::OtherKey];

    fn sign(self, id: &str, timestamp: i64, body: &[u8]) -> String {
        match self {
            Self::Hmac => v1(SECRET, id, timestamp, body),
            Self::OtherSecret => v1(OTHER_SECRET, id, timestamp, body),
            Self::Ed25519 => OURS.v1a(id, timestamp, body),
            Self::OtherKey => FOREIGN.v1a(id, timestamp, body),
        }
    }

    const fn is_known(self) -> bool {
        matches!(self, Self::Hmac | Self::Ed25519)
    }
}

/// The only value of a header of that name.
fn only<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut values = request.headers.iter().filter(|(own, _)| own.to_ascii_lowercase() == name);
    let value = values.next()?;
    values.next().is_none().then_some(value.1.as_str())
}

#[test]
fn headers() {
    let ids = prop_oneof!["msg_[0-9a-f]{8}", "[!-+/-~-]{1,40}"];
    let bodies = prop_oneof![Just(b"{\"type\":\"a.b\"}".to_vec()), any_bytes(80)];
    let signers = prop::collection::vec(select(Signer::ALL.as_slice()), 1..4);
    let lateness = prop_oneof![Just(0_i64), -300_000_i64..=300_000, -310_000_i64..310_000];
    let deliveries = (ids, -100_i64..100, bodies, signers, changes(), lateness);
    let taken = run("headers", 3000, deliveries, |(id, seconds, body, signers, changes, late)| {
        let timestamp = THEN + seconds;
        let signatures: Vec<_> = signers.iter().map(|signer| signer.sign(&id, timestamp, &body)).collect();
        let good = request(&id, timestamp, &signatures.join(" "), &body);
        let mut changed = good.clone();
        changes.iter().for_each(|change| change.made(&mut changed));
        let verifier = Verifier::at(Millis(timestamp * 1000 + late));
        let proof = verifier.judge(&changed);
        let is_known = signers.iter().any(|signer| signer.is_known());
        let is_current = late.abs() <= 300_000;
        match &proof {
            // What is proved is what was signed, and about now.
            Ok(proof) => {
                let text = timestamp.to_string();
                prop_assert!(is_known && is_current, "{:?}", changed);
                prop_assert_eq!(only(&changed, "webhook-id"), Some(id.as_str()));
                prop_assert_eq!(only(&changed, "webhook-timestamp"), Some(text.as_str()));
                prop_assert!(only(&changed, "webhook-signature").is_some());
                prop_assert_eq!(&changed.body[..], &body[..]);
                let own = Verifier::at(Millis(timestamp * 1000)).judge(&good);
                prop_assert_eq!(Ok(proof), own.as_ref());
            }
            Err(refusal) => {
                prop_assert!(matches!(refusal.status(), 400 | 401), "{}", refusal);
                let harmless = changes.iter().all(Change::is_harmless);
                prop_assert!(!(harmless && is_known && is_current), "{}: {:?}", refusal, changed);
            }
        }
        Ok(proof.is_ok())
    });
    assert!((10..=60).contains(&taken), "{taken}");
}

#[test]
fn headers_of_any_kind() {
    let names = prop_oneof![
        4 => select(NAMES.as_slice()).prop_map(str::to_owned),
        1 => select(NAMES.as_slice()).prop_map(str::to_uppercase),
        1 => "\\PC{0,12}",
    ];
    let good = [OURS.v1a("x", THEN, b""), v1(OTHER_SECRET, "msg_a", THEN, b"{}"), THEN.to_string(), "msg_a".to_owned()];
    let pieces = prop_oneof![
        3 => select(good.to_vec()),
        2 => select(DEBRIS.as_slice()).prop_map(str::to_owned),
        1 => "[ -~]{0,40}",
        1 => "\\PC{0,20}",
        1 => "[A-Za-z0-9_-]{1,9}\\.[A-Za-z0-9_-]{1,9}\\.[A-Za-z0-9_-]{0,9}",
    ];
    let values = (prop::collection::vec(pieces, 0..5), damages(2))
        .prop_map(|(pieces, damages)| damaged_text(&pieces.concat(), &damages));
    let requests = (prop::collection::vec((names, values), 0..6), any_bytes(20));
    run("headers of any kind", 2000, requests, |(headers, body)| {
        let request = Request { headers, body: Bytes::from(body) };
        // Nobody has signed it: the one good signature is for another body, or for an id and a time of its own.
        let signed = only(&request, "webhook-id") == Some("x") && request.body.is_empty();
        let status = Verifier::new().status(&request);
        prop_assert!(matches!(status, 400 | 401) || (signed && status == 200), "{:?}", request);
        Ok(status == 200)
    });
}
