//! `tests/vectors/webhook.json`: signatures that other programs made.

use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Body, KeySet, Named, SigningSecret};
use serde_json::Value;

use crate::kit::{Verifier, request};

#[test]
fn every_vector_is_judged_as_it_says() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("../vectors/webhook.json")).unwrap();
    let mut kinds = std::collections::BTreeMap::<_, usize>::new();
    for vector in &vectors {
        let text = |name: &str| vector[name].as_str().unwrap();
        let timestamp = vector["timestamp"].as_i64().unwrap();
        let secrets = vector["secrets"].as_array().into_iter().flatten();
        let secrets = secrets.map(|secret| SigningSecret::parse(secret.as_str().unwrap()).unwrap()).collect();
        let keys = match &vector["jwks"] {
            Value::Null => KeySet::default(),
            keys => KeySet::parse(keys.to_string().as_bytes()).unwrap(),
        };
        let verifier = Verifier { secrets, keys, audience: None, now: Millis(timestamp * 1000) };
        let request = request(text("id"), timestamp, text("signature"), text("body").as_bytes());
        let proof = verifier.judge(&request);
        let expected = if vector["valid"].as_bool().unwrap() { 200 } else { 401 };
        assert_eq!(proof.as_ref().map_or_else(|refusal| refusal.status(), |_| 200), expected, "{vector}");
        *kinds.entry(text("kind")).or_default() += 1;
        if proof.is_ok() && text("name") != "official example" {
            let about = Body::read(text("body").as_bytes()).unwrap();
            assert_ne!(about.named, Named::Other, "{vector}");
        }
    }
    assert!(kinds["v1"] >= 8 && kinds["v1a"] >= 2 && kinds.len() == 2, "{kinds:?}");
}
