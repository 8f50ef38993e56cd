//! Bodies of events.

use gleaner::domain::webhook::{Body, Named, Refusal};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use super::{DEBRIS, any_bytes, damaged, damages, run};
use crate::kit::{ID, SECRET, THEN, Verifier, request, v1};

const TYPES: [&str; 9] = [
    "batch.succeeded",
    "batch.failed",
    "batch",
    "interaction.completed",
    "interaction.完了",
    "interaction",
    "video.generated",
    "",
    ".",
];

/// JSON of any kind.
pub fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        select(vec!["batches/", "batches/a", "a", "v1_Chd", "k", "n"]).prop_map(Value::from),
        (500_usize..520).prop_map(|length| "x".repeat(length).into()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let names = select(vec!["id", "type", "data", "user_metadata", "userMetadata", "key", "nonce", "x"]);
        let members = prop::collection::vec((names, inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// An event, and what it says; nothing where that doesn't matter.
fn events() -> impl Strategy<Value = (Value, Option<Body>)> {
    let texts = || prop_oneof!["[!-~]{1,40}", "\\PC{1,20}"].prop_filter("an id", |text| !text.starts_with("batches/"));
    let places = select(vec![("user_metadata", false), ("userMetadata", false), ("user_metadata", true)]);
    let sound = (select(&TYPES[..7]), texts(), any::<bool>(), prop::option::of((texts(), texts())), places, values());
    let sound = sound.prop_map(|(about, id, prefixed, claim, (name, in_data), more)| {
        let written = if prefixed && about.starts_with("batch") { format!("batches/{id}") } else { id.clone() };
        let mut event = json!({"type": about, "version": "v1", "more": more, "data": {"id": written}});
        if let Some((key, nonce)) = &claim {
            let into = if in_data { &mut event["data"] } else { &mut event };
            into[name] = json!({"key": key, "nonce": nonce});
        }
        let named = match about.split('.').next() {
            Some("batch") => Named::Batch(format!("batches/{id}")),
            Some("interaction") => Named::Interaction(id),
            _ => Named::Other,
        };
        (event, Some(Body { about: about.to_owned(), named, claim }))
    });
    let unsound = (select(TYPES.as_slice()), values(), values(), values()).prop_map(|(about, data, metadata, more)| {
        (json!({"type": about, "data": data, "user_metadata": metadata, "more": more}), None)
    });
    prop_oneof![sound, unsound, values().prop_map(|value| (value, None))]
}

fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word =
        prop_oneof![select(DEBRIS.as_slice()), select(TYPES.as_slice()), select(vec!["\"id\":", "\"a\"", "1", ","])];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat().into_bytes())
}

/// What was read is bounded, and a refusal is a 400.
fn is_sound(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let body = Body::read(bytes);
    match &body {
        Err(refusal) => prop_assert!(matches!(refusal, Refusal::Malformed(_)), "{}", refusal),
        Ok(body) => {
            let value: Value = serde_json::from_slice(bytes).unwrap();
            prop_assert_eq!(&value["type"], &body.about);
            let texts = match &body.named {
                Named::Interaction(id) => vec![id.as_str()],
                Named::Batch(name) => vec![name.strip_prefix("batches/").unwrap()],
                Named::Other => Vec::new(),
            };
            let claim = body.claim.iter().flat_map(|(key, nonce)| [key.as_str(), nonce.as_str()]);
            for text in texts.into_iter().chain(claim).chain([body.about.as_str()]) {
                prop_assert!(!text.is_empty() && text.len() <= 512 && !text.contains(char::is_control), "{:?}", body);
            }
        }
    }
    // Whatever it is: who signs it has signed it, and nobody else.
    let verifier = Verifier::new();
    let signed = request(ID, THEN, &v1(SECRET, ID, THEN, bytes), bytes);
    prop_assert_eq!(verifier.status(&signed), 200);
    let other = request(ID, THEN, &v1(SECRET, ID, THEN, &[bytes, b" "].concat()), bytes);
    prop_assert_eq!(verifier.status(&other), 401);
    Ok(body.is_ok())
}

#[test]
fn bodies() {
    let whole = (events(), Just(Vec::new()));
    let broken = (events(), damages(4));
    let events = prop_oneof![whole, broken].prop_map(|((event, expected), damages)| {
        let text = event.to_string().into_bytes();
        let expected = expected.filter(|_| damages.is_empty());
        (damaged(&text, &damages), expected)
    });
    let bytes = prop_oneof![any_bytes(64), soup()].prop_map(|bytes| (bytes, None));
    let taken = run("bodies", 2000, prop_oneof![3 => events, 1 => bytes], |(bytes, expected)| {
        let taken = is_sound(&bytes)?;
        if let Some(expected) = expected {
            prop_assert_eq!(Body::read(&bytes), Ok(expected));
        }
        Ok(taken)
    });
    assert!((20..=80).contains(&taken), "{taken}");
}
