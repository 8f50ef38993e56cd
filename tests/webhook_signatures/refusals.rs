//! What is refused, and with which status.

use aws_lc_rs::signature::{RSA_PKCS1_SHA512, RSA_PSS_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use gleaner::domain::time::Millis;
use gleaner::domain::webhook::{Body, LARGEST, Request, SigningSecret};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::kit::{
    BODY, FOREIGN, ID, KID, NOW, OTHER_SECRET, OURS, SECRET, THEN, Verifier, good, hs256, request, rs256, v1,
    with_token,
};

/// A name, the status, and the request.
type Row = (&'static str, u16, Request);

fn check(table: Vec<Row>, verifier: &Verifier) -> usize {
    for (kind, request) in good() {
        assert_eq!(Verifier::new().status(&request), 200, "{kind}: the table proves nothing if this is refused");
    }
    for (name, status, request) in &table {
        assert_eq!(verifier.status(request), *status, "{name}: {:?}", verifier.judge(request));
    }
    table.len()
}

fn signed() -> String {
    v1(SECRET, ID, THEN, BODY.as_bytes())
}

/// A good `v1` delivery after a change of its headers.
fn headers(change: impl FnOnce(&mut Vec<(String, String)>)) -> Request {
    let mut request = request(ID, THEN, &signed(), BODY.as_bytes());
    change(&mut request.headers);
    request
}

fn without(name: &str) -> Request {
    headers(|headers| headers.retain(|(own, _)| own != name))
}

fn twice(name: &str, again: &str) -> Request {
    headers(|headers| {
        let value = headers.iter().find(|(own, _)| own == name).unwrap().1.clone();
        headers.push((again.to_owned(), value));
    })
}

fn with(name: &str, value: &str) -> Request {
    headers(|headers| headers.iter_mut().find(|(own, _)| own == name).unwrap().1 = value.to_owned())
}

fn signature(signature: &str) -> Request {
    with("webhook-signature", signature)
}

/// As API Gateway joins headers that come twice.
fn joined(name: &str) -> Request {
    headers(|headers| {
        let value = &mut headers.iter_mut().find(|(own, _)| own == name).unwrap().1;
        *value = format!("{value},{value}");
    })
}

/// Honestly signed, with these as id and time.
fn honest(id: &str, timestamp: &str) -> Request {
    let code = code_by(SigningSecret::parse(SECRET).unwrap().key(), &format!("{id}.{timestamp}.{BODY}"));
    request(id, timestamp, &code, BODY.as_bytes())
}

fn code_by(key: &[u8], message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[test]
fn headers_that_are_not_in_order() {
    let long_id = "m".repeat(257);
    let long_signature = format!("v9,{} {}", "A".repeat(8192), signed());
    let table = vec![
        ("no id", 400, without("webhook-id")),
        ("no timestamp", 400, without("webhook-timestamp")),
        ("no signature", 400, without("webhook-signature")),
        ("id twice", 400, twice("webhook-id", "webhook-id")),
        ("timestamp twice", 400, twice("webhook-timestamp", "webhook-timestamp")),
        ("signature twice", 400, twice("webhook-signature", "webhook-signature")),
        ("id twice, in another case", 400, twice("webhook-id", "Webhook-ID")),
        ("timestamp twice, in another case", 400, twice("webhook-timestamp", "WEBHOOK-TIMESTAMP")),
        ("signature twice, in another case", 400, twice("webhook-signature", "Webhook-Signature")),
        ("ids joined", 400, joined("webhook-id")),
        ("timestamps joined", 400, joined("webhook-timestamp")),
        ("signatures joined", 400, joined("webhook-signature")),
        ("signatures joined with a space", 400, signature(&format!("{}, {}", signed(), signed()))),
        ("tokens joined", 400, signature("a.b.c,a.b.c")),
        ("empty id", 400, with("webhook-id", "")),
        ("empty timestamp", 400, with("webhook-timestamp", "")),
        ("empty signature header", 400, signature("")),
        ("overlong id", 400, honest(&long_id, &THEN.to_string())),
        ("overlong timestamp", 400, honest(ID, &format!("{THEN:013}"))),
        ("overlong signature header", 400, signature(&long_signature)),
        ("id with a dot", 400, honest("msg.a", &THEN.to_string())),
        ("id with a space", 400, honest("msg a", &THEN.to_string())),
        ("id that is not ASCII", 400, honest("msg_é", &THEN.to_string())),
        ("id with a line end", 400, honest("msg_a\n", &THEN.to_string())),
        ("timestamp with a sign", 400, honest(ID, &format!("+{THEN}"))),
        ("timestamp with a minus", 400, honest(ID, "-1")),
        ("timestamp with a fraction", 400, honest(ID, &format!("{THEN}.0"))),
        ("timestamp in milliseconds", 400, honest(ID, &(THEN * 1000).to_string())),
        ("timestamp in hex", 400, honest(ID, &format!("{THEN:#x}"))),
        ("timestamp as a date", 400, honest(ID, "2026-09-01T11:00:01Z")),
        ("timestamp with a space", 400, honest(ID, &format!(" {THEN}"))),
        ("timestamp in other digits", 400, honest(ID, "１７８８２６０４０１")),
        ("signature that is not ASCII", 400, signature(&format!("{} é", signed()))),
        ("signature with a tab", 400, signature(&format!("v9,A\t{}", signed()))),
    ];
    assert!(check(table, &Verifier::new()) >= 30);
    // The same rows would pass if they were in order: it is the form that is refused.
    assert_eq!(Verifier::new().status(&honest("msg-é".trim_end_matches('é'), &THEN.to_string())), 200);
    let longest = "m".repeat(256);
    assert_eq!(Verifier::new().status(&honest(&longest, &format!("{THEN:012}"))), 200);
}

#[test]
fn signatures_that_prove_nothing() {
    let body = BODY.as_bytes();
    let code = signed();
    let hex_code = format!("v1,{}", hex::encode([7; 32]));
    let ours = OURS.v1a(ID, THEN, body);
    let as_v1a = code.replace("v1,", "v1a,");
    let late = |seconds: i64| request(ID, THEN + seconds, &v1(SECRET, ID, THEN + seconds, body), body);
    let late_v1a = |seconds: i64| request(ID, THEN + seconds, &OURS.v1a(ID, THEN + seconds, body), body);
    let table = vec![
        ("another secret", 401, signature(&v1(OTHER_SECRET, ID, THEN, body))),
        ("an empty secret", 401, signature(&code_by(b"", &format!("{ID}.{THEN}.{BODY}")))),
        ("v1a by another key", 401, signature(&FOREIGN.v1a(ID, THEN, body))),
        ("v1 for another id", 401, signature(&v1(SECRET, "msg_b", THEN, body))),
        ("v1 for another time", 401, signature(&v1(SECRET, ID, THEN + 1, body))),
        ("v1 for another body", 401, signature(&v1(SECRET, ID, THEN, b"{}"))),
        ("v1a for another id", 401, signature(&OURS.v1a("msg_b", THEN, body))),
        ("v1a for another time", 401, signature(&OURS.v1a(ID, THEN - 1, body))),
        ("v1a for another body", 401, signature(&OURS.v1a(ID, THEN, b"{}"))),
        ("v1 called v1a", 401, signature(&as_v1a)),
        ("v1a called v1", 401, signature(&ours.replace("v1a,", "v1,"))),
        ("v1 called v2", 401, signature(&code.replace("v1,", "v2,"))),
        ("v1 called V1", 401, signature(&code.replace("v1,", "V1,"))),
        ("empty v1", 401, signature("v1,")),
        ("empty v1a", 401, signature("v1a,")),
        ("only a version", 401, signature("v1")),
        ("only a code", 401, signature(code.trim_start_matches("v1,"))),
        ("only a space", 401, signature(" ")),
        ("bad base64", 401, signature("v1,****")),
        ("base64 without padding", 401, signature(code.trim_end_matches('='))),
        ("base64 with more behind", 401, signature(&format!("{code}AAAA"))),
        ("hex", 401, signature(&hex_code)),
        ("shortened code", 401, signature(&code.chars().take(code.len() - 4).collect::<String>())),
        (
            "the good one is the ninth",
            401,
            signature(&format!("{}{code}", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ".repeat(8))),
        ),
        ("all zeros v1a", 401, signature(&format!("v1a,{}", "A".repeat(86)))),
        ("expired by a second", 401, late(-301)),
        ("a second too far ahead", 401, late(301)),
        ("a day old", 401, late(-86_400)),
        ("from 1970", 401, late(-THEN)),
        ("in the year 7636", 401, honest(ID, &(THEN * 100).to_string())),
        ("v1a expired", 401, late_v1a(-301)),
        ("v1a too far ahead", 401, late_v1a(301)),
    ];
    assert!(check(table, &Verifier::new()) >= 30);
    for seconds in [-300, 300] {
        assert_eq!(Verifier::new().status(&late(seconds)), 200, "exactly five minutes are good");
    }
    for (now, status) in
        [(NOW.0 + 300_000, 200), (NOW.0 + 300_001, 401), (NOW.0 - 300_000, 200), (NOW.0 - 300_001, 401)]
    {
        assert_eq!(Verifier::at(Millis(now)).status(&request(ID, THEN, &code, body)), status);
    }
}

#[test]
fn tokens_that_prove_nothing() {
    let claims = json!({"iat": THEN, "exp": THEN + 600, "aud": "https://mine.test/webhook"});
    let more = |more: Value| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    };
    let by = |header: Value| with_token(&OURS.token(&header, &claims));
    let of = |claims: &Value| with_token(&OURS.token(&rs256(), claims));
    let alg = |alg: &str| json!({"alg": alg, "kid": KID});
    let unsigned = |alg: &str| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        with_token(&format!("{}.{}.", part(&json!({"alg": alg})), part(&claims)))
    };
    let hmac = |secret: &[u8]| with_token(&hs256(secret, &alg("HS256"), &claims));
    let jwk = OURS.rsa_jwk(None);
    let own_key = json!({"alg": "RS256", "jwk": {"kty": "RSA", "n": FOREIGN.modulus(), "e": "AQAB"}});
    let good = OURS.token(&rs256(), &claims);
    let (first, rest) = good.split_once('.').unwrap();
    let table = vec![
        ("alg none", 401, unsigned("none")),
        ("alg None", 401, unsigned("None")),
        ("RS256 without a signature", 401, unsigned("RS256")),
        ("alg none with a good signature", 401, by(alg("none"))),
        ("HS256 with the public key as DER", 401, hmac(OURS.rsa_der())),
        ("HS256 with the public key's modulus", 401, hmac(OURS.modulus().as_bytes())),
        ("HS256 with the public key as JWK", 401, hmac(jwk.to_string().as_bytes())),
        ("HS256 with a signing secret", 401, hmac(SigningSecret::parse(SECRET).unwrap().key())),
        ("HS256 by RSA", 401, by(alg("HS256"))),
        (
            "RS512 called RS256",
            401,
            with_token(&OURS.token_by(&RSA_PKCS1_SHA512, &rs256(), claims.to_string().as_bytes())),
        ),
        ("RS512", 401, with_token(&OURS.token_by(&RSA_PKCS1_SHA512, &alg("RS512"), claims.to_string().as_bytes()))),
        ("PS256", 401, with_token(&OURS.token_by(&RSA_PSS_SHA256, &alg("PS256"), claims.to_string().as_bytes()))),
        ("no alg", 401, by(json!({"kid": KID}))),
        ("alg twice", 401, by(json!({"alg": ["RS256"]}))),
        ("another key of the set's name", 401, with_token(&FOREIGN.token(&rs256(), &claims))),
        ("another key without a name", 401, with_token(&FOREIGN.token(&json!({"alg": "RS256"}), &claims))),
        ("a key in the token", 401, with_token(&FOREIGN.token(&own_key, &claims))),
        ("a name that no key has", 401, by(json!({"alg": "RS256", "kid": "key-2"}))),
        ("something critical", 401, by(json!({"alg": "RS256", "crit": ["exp"], "exp": 1}))),
        ("an unencoded payload", 401, by(json!({"alg": "RS256", "b64": false, "crit": ["b64"]}))),
        ("another's audience", 401, of(&more(json!({"aud": "https://other.test/"})))),
        ("others' audiences", 401, of(&more(json!({"aud": ["a", "b"]})))),
        ("no audience", 401, of(&json!({"iat": THEN, "exp": THEN + 600}))),
        ("expired", 401, of(&more(json!({"exp": THEN - 301})))),
        ("not valid yet", 401, of(&more(json!({"nbf": THEN + 301})))),
        ("from the future", 401, of(&more(json!({"iat": THEN + 301})))),
        ("too old whatever it says", 401, of(&more(json!({"iat": THEN - 86_701, "exp": THEN + 86_400_000})))),
        ("without exp, and stale", 401, of(&json!({"iat": THEN - 301, "aud": "https://mine.test/webhook"}))),
        ("neither exp nor iat", 401, of(&json!({"aud": "https://mine.test/webhook"}))),
        ("exp that is a text", 401, of(&more(json!({"exp": "2100-01-01"})))),
        ("for another body, by digest", 401, of(&more(json!({"body_sha256": hex::encode([7; 32])})))),
        ("for another body, by id", 401, of(&more(json!({"data": {"id": "batches/b2"}})))),
        ("for another body, by type", 401, of(&more(json!({"type": "batch.failed"})))),
        ("an id that is none", 401, of(&more(json!({"jti": 7})))),
        ("claims that are no object", 401, of(&json!([claims]))),
        ("no claims", 401, of(&Value::Null)),
        // It is no token, and the other two headers are missing.
        ("two parts", 400, with_token(&format!("{first}.{}", rest.split('.').next().unwrap()))),
        ("four parts", 400, with_token(&format!("{good}.AAAA"))),
        ("no JSON", 401, with_token("AAAA.AAAA.AAAA")),
        ("empty parts", 401, with_token("..")),
        ("padding", 401, with_token(&format!("{good}="))),
        ("the claims of another token", 401, {
            let other = OURS.token(&rs256(), &more(json!({"jti": "x"})));
            let (signature, claims) = (good.rsplit('.').next().unwrap(), other.split('.').nth(1).unwrap());
            with_token(&format!("{first}.{claims}.{signature}"))
        }),
        ("beside an id that can't be read", 400, {
            let mut request = with_token(&good);
            request.headers.push(("webhook-id".to_owned(), "a.b".to_owned()));
            request
        }),
        ("beside an old timestamp", 401, request(ID, THEN - 301, &good, BODY.as_bytes())),
    ];
    let verifier = Verifier { audience: Some("https://mine.test/webhook"), ..Verifier::new() };
    assert_eq!(verifier.status(&with_token(&good)), 200);
    assert!(check(table, &verifier) >= 30);
}

#[test]
fn a_body_that_is_too_long_is_refused_before_anything_else() {
    let long = vec![b' '; LARGEST + 1];
    let signed = request(ID, THEN, &v1(SECRET, ID, THEN, &long), &long);
    let bare = Request { headers: Vec::new(), body: Bytes::from(long.clone()) };
    let token = Request { body: Bytes::from(long.clone()), ..with_token(&OURS.token(&rs256(), &json!({"iat": THEN}))) };
    check(vec![("signed", 413, signed), ("no headers", 413, bare), ("token", 413, token)], &Verifier::new());
    let longest = &long[1..];
    assert_eq!(Verifier::new().status(&request(ID, THEN, &v1(SECRET, ID, THEN, longest), longest)), 200);
}

#[test]
fn what_is_signed_and_no_event_is_malformed() {
    for body in ["", "[]", "null", "{}", r#"{"type":7}"#, "{\"type\":\"a.b\"", "\u{0}"] {
        let request = request(ID, THEN, &v1(SECRET, ID, THEN, body.as_bytes()), body.as_bytes());
        assert_eq!(Verifier::new().status(&request), 200, "{body}");
        assert_eq!(Body::read(&request.body).unwrap_err().status(), 400, "{body}");
    }
}

#[test]
fn a_refused_token_is_told_why() {
    let verifier = Verifier { audience: Some("mine"), ..Verifier::new() };
    let of = |header: Value, claims: Value| with_token(&OURS.token(&header, &claims));
    for (request, why) in [
        (of(json!({"alg": "RS512", "kid": KID}), json!({})), "the token is not signed with RS256"),
        (of(json!({"alg": "none"}), json!({})), "the token can't be read"),
        (of(json!({"alg": "RS256", "kid": "x"}), json!({"iat": THEN})), "no key fits the token"),
        (of(rs256(), json!({"aud": "mine"})), "the token does not say from when it is"),
        (of(rs256(), json!({"exp": THEN - 301})), "the token is not valid any more"),
        (of(rs256(), json!({"iat": THEN + 301})), "the token is not valid yet"),
        (of(rs256(), json!({"exp": THEN + 90_000})), "the token is valid for too long"),
        (of(rs256(), json!({"iat": "x"})), "the token's times can't be read"),
        (of(rs256(), json!({"iat": THEN, "aud": "other"})), "the token is for somebody else"),
        (of(rs256(), json!({"iat": THEN, "aud": "mine", "sha256": "x"})), "the token was made for another request"),
        (of(rs256(), json!({"iat": THEN, "aud": "mine", "jti": ""})), "the token's id can't be read"),
    ] {
        assert_eq!(verifier.judge(&request).unwrap_err().to_string(), why);
    }
}
