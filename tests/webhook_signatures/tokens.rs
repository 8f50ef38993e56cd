//! What is taken: each kind alone and beside others, and how events are named.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gleaner::domain::webhook::{Delivery, KeySet, Request, SigningSecret};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::kit::{
    BODY, FOREIGN, ID, KID, NOW, OTHER_SECRET, OURS, SECRET, THEN, Verifier, good, request, rs256, v1, with_token,
};

fn event(request: &Request) -> String {
    Verifier::new().judge(request).unwrap_or_else(|refusal| panic!("{refusal}: {request:?}")).event
}

fn named(claims: &Value) -> String {
    event(&with_token(&OURS.token(&rs256(), claims)))
}

#[test]
fn an_event_is_named_after_what_is_signed() {
    let body = BODY.as_bytes();
    let [v1_good, v1a_good, _] = good().map(|(_, request)| request);
    assert_eq!(event(&v1_good), event(&v1a_good), "the same id, whoever vouches for it");
    assert_ne!(event(&v1_good), event(&request("msg_b", THEN, &v1(SECRET, "msg_b", THEN, body), body)));
    // Sent again with a later time it is the same event.
    assert_eq!(event(&v1_good), event(&request(ID, THEN + 9, &v1(SECRET, ID, THEN + 9, body), body)));

    let with_id = named(&json!({"iat": THEN, "jti": ID}));
    assert_ne!(with_id, event(&v1_good), "a token can't take the name of another event");
    assert_eq!(with_id, named(&json!({"iat": THEN + 5, "exp": THEN + 9, "jti": ID})));
    assert_ne!(with_id, named(&json!({"iat": THEN, "jti": "msg_b"})));
    let without = json!({"iat": THEN, "sub": "a"});
    assert_eq!(named(&without), named(&without));
    assert_ne!(named(&without), named(&json!({"iat": THEN, "sub": "b"})));
    // Two events of one second may come with the same claims.
    let other = BODY.replacen("batch", "BATCH", 1);
    assert_ne!(other, BODY);
    let without_id = OURS.token(&rs256(), &without);
    assert_ne!(event(&request(ID, THEN, &without_id, other.as_bytes())), named(&without));
    // The headers beside a token are nobody's word.
    let token = OURS.token(&rs256(), &without);
    for (id, timestamp) in [("one", THEN), ("two", THEN - 5)] {
        assert_eq!(event(&request(id, timestamp, &token, body)), named(&without));
    }
}

#[test]
fn header_names_may_have_any_case() {
    for (kind, request) in good() {
        for change in [str::to_uppercase, str::to_lowercase] as [fn(&str) -> String; 2] {
            let mut request = request.clone();
            request.headers.iter_mut().for_each(|(name, _)| *name = change(name));
            request.headers.reverse();
            assert_eq!(Verifier::new().status(&request), 200, "{kind}");
        }
    }
}

#[test]
fn any_secret_and_any_signature_of_the_header_may_fit() {
    let body = BODY.as_bytes();
    let parse = |text: &str| SigningSecret::parse(text).unwrap();
    let both = Verifier { secrets: vec![parse(OTHER_SECRET), parse(SECRET)], ..Verifier::new() };
    for secret in [SECRET, OTHER_SECRET] {
        assert_eq!(both.status(&request(ID, THEN, &v1(secret, ID, THEN, body), body)), 200);
    }
    let signatures = [v1(OTHER_SECRET, ID, THEN, body), v1(SECRET, ID, THEN, body)];
    for order in [[0, 1], [1, 0]] {
        let header = order.map(|at| signatures[at].clone()).join(" ");
        assert_eq!(Verifier::new().status(&request(ID, THEN, &header, body)), 200);
    }
    let none = Verifier { secrets: Vec::new(), keys: KeySet::default(), ..Verifier::new() };
    for (kind, request) in good() {
        assert_eq!(none.status(&request), 401, "{kind}");
    }
}

#[test]
fn whichever_signature_proves_counts() {
    let body = BODY.as_bytes();
    let claims = json!({"iat": THEN});
    let (token, bad_token) = (OURS.token(&rs256(), &claims), FOREIGN.token(&rs256(), &claims));
    let (code, bad_code) = (v1(SECRET, ID, THEN, body), v1(OTHER_SECRET, ID, THEN, body));
    let (ed25519, bad_ed25519) = (OURS.v1a(ID, THEN, body), FOREIGN.v1a(ID, THEN, body));
    let bad = [&bad_token, &bad_code, &bad_ed25519];
    for good in [&token, &code, &ed25519] {
        for bad in bad {
            for header in [format!("{good} {bad}"), format!("{bad} {good}")] {
                assert_eq!(Verifier::new().status(&request(ID, THEN, &header, body)), 200, "{header}");
            }
        }
    }
    let header = bad.map(String::as_str).join(" ");
    assert_eq!(Verifier::new().status(&request(ID, THEN, &header, body)), 401);
    // Without an id only the token can prove anything, and nothing else is asked for.
    let alone = with_token(&format!("{code} {ed25519} {token}"));
    let delivery = Delivery::read(&alone, NOW).unwrap();
    assert!(!delivery.asks_for_secrets() && delivery.asks_for_public_keys());
    assert_eq!(Verifier::new().status(&alone), 200);
    assert_eq!(Verifier::new().status(&with_token(&format!("{code} {ed25519} {bad_token}"))), 401);
}

#[test]
fn only_what_can_prove_something_is_asked_for() {
    let [code, ed25519, token] = good().map(|(_, request)| {
        let delivery = Delivery::read(&request, NOW).unwrap();
        (delivery.asks_for_secrets(), delivery.asks_for_public_keys())
    });
    assert_eq!((code, ed25519, token), ((true, false), (false, true), (false, true)));
}

#[test]
fn a_key_is_found_by_its_name_or_tried() {
    let claims = json!({"iat": THEN});
    let own = |kid: Option<&str>| OURS.rsa_jwk(kid);
    let set = |keys: &[Value]| KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
    let plain = json!({"alg": "RS256"});
    for (keys, header, status) in [
        (vec![own(Some(KID))], rs256(), 200),
        (vec![own(Some(KID))], plain.clone(), 200),
        (vec![own(None)], rs256(), 200),
        (vec![FOREIGN.rsa_jwk(None), own(None)], plain.clone(), 200),
        // Two keys of one name, while they are changed.
        (vec![FOREIGN.rsa_jwk(Some(KID)), own(Some(KID))], rs256(), 200),
        (vec![own(Some("another"))], rs256(), 401),
        (vec![FOREIGN.rsa_jwk(Some(KID)), own(Some("another"))], rs256(), 401),
        (vec![OURS.ed25519_jwk()], plain, 401),
    ] {
        let verifier = Verifier { keys: set(&keys), ..Verifier::new() };
        assert_eq!(verifier.status(&with_token(&OURS.token(&header, &claims))), status, "{keys:?} {header}");
    }
}

#[test]
fn a_token_may_speak_of_the_request_in_many_ways() {
    let digest = Sha256::digest(BODY);
    let verifier = Verifier { audience: Some("mine"), ..Verifier::new() };
    for more in [
        json!({}),
        json!({"body_sha256": hex::encode(digest)}),
        json!({"payload_hash": STANDARD.encode(digest)}),
        json!({"type": "batch.succeeded", "data": {"id": "a1"}}),
        json!({"webhook_id": ID}),
        json!({"iss": "https://gemini.test", "sub": "x", "nbf": THEN as f64 + 0.5, "aud": ["other", "mine"]}),
        json!({"exp": THEN - 300}),
        json!({"iat": THEN + 300}),
    ] {
        let mut claims = json!({"iat": THEN, "exp": THEN + 600, "aud": "mine"});
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let token = OURS.token(&rs256(), &claims);
        assert_eq!(verifier.status(&request(ID, THEN, &token, BODY.as_bytes())), 200, "{claims}");
        assert_eq!(verifier.status(&with_token(&token)), 200, "{claims}");
    }
    // One that says nothing of the body is good for any: the event's content is never trusted.
    let any = Request { body: Bytes::from_static(b"{}"), ..with_token(&OURS.token(&rs256(), &json!({"iat": THEN}))) };
    assert_eq!(Verifier::new().status(&any), 200);
}
