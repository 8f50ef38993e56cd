//! Tokens: signed ones against a second reading of the rules, damaged ones, and anything with two dots.

use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256};
use gleaner::domain::webhook::Request;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::bodies::values;
use super::{any_bytes, damaged, damaged_text, damages, run};
use crate::kit::{BODY, FOREIGN, KID, OURS, THEN, Verifier, digest, hs256, signed_part, with_token};

const AUDIENCE: &str = "mine";

/// A claim, and whether a token with it may be good.
type Claim = (Option<Value>, bool);

/// A time claim: seconds from now, or something that is no time.
fn time(good: impl Fn(i64) -> bool + Clone + 'static) -> impl Strategy<Value = (Option<i64>, Claim)> {
    let near = prop_oneof![
        -280_i64..280,
        -400_i64..400,
        -87_000_i64..87_000,
        select(vec![-301, -300, 300, 301, 86_400, -86_700])
    ];
    let none = select(vec![json!(""), json!(null), json!("1788260401"), json!([THEN]), json!(true)]);
    prop_oneof![
        3 => Just((None, (None, true))),
        6 => near.prop_map(move |by| (Some(by), (Some(json!(THEN + by)), good(by)))),
        1 => none.prop_map(|value| (None, (Some(value), false))),
    ]
}

/// The three times, and whether they are good together.
fn times() -> impl Strategy<Value = (Map<String, Value>, bool)> {
    let day = 86_400;
    let times = (time(|by| by >= -300), time(|by| by <= 300), time(|by| by <= 300));
    times.prop_map(move |((end, exp), (begin, iat), (_, nbf))| {
        let each = exp.1 && iat.1 && nbf.1;
        let together = match (end, begin) {
            (None, None) => false,
            (None, Some(begin)) => begin >= -300,
            (Some(end), None) => end <= day + 300,
            (Some(_), Some(begin)) => begin >= -day - 300,
        };
        let claims = [("exp", exp), ("iat", iat), ("nbf", nbf)];
        let claims = claims.into_iter().filter_map(|(name, (value, _))| Some((name.to_owned(), value?)));
        (claims.collect(), each && together)
    })
}

/// Other claims, each with whether it is true.
fn others() -> impl Strategy<Value = Vec<(&'static str, Value, bool)>> {
    let own = digest(BODY.as_bytes());
    let all = vec![
        ("jti", json!("one"), true),
        ("jti", json!("msg_other"), true),
        ("jti", json!(""), false),
        ("jti", json!(1), false),
        ("body_sha256", json!(own), true),
        ("sha256", json!(own.to_uppercase()), true),
        ("payload_hash", json!(format!("sha256={own}")), true),
        ("body_sha256", json!(own.replace(['0', '1', '2', '3'], "4")), false),
        ("digest", json!(null), false),
        ("type", json!("batch.succeeded"), true),
        ("type", json!("JWT"), true),
        ("type", json!("batch.failed"), false),
        ("data", json!({"id": "a1"}), true),
        ("data", json!({"id": "a2"}), false),
        ("data", json!([1]), true),
        ("user_metadata", json!({"key": "k"}), false),
        ("x", json!({"any": ["thing", 1.5, null]}), true),
        ("iss", json!("https://gemini.test"), true),
    ];
    prop::collection::vec(select(all), 0..4)
}

fn audiences() -> impl Strategy<Value = Claim> {
    let some = |value: Value, good: bool| Just((Some(value), good));
    prop_oneof![
        4 => some(json!(AUDIENCE), true),
        1 => some(json!(["other", AUDIENCE]), true),
        1 => some(json!("other"), false),
        1 => some(json!([]), false),
        1 => Just((None, false)),
    ]
}

/// How it is signed.
#[derive(Debug, Clone, Copy)]
enum Signed {
    Right,
    WithoutName,
    ByAnother,
    WithAnotherName,
    Rs512,
    Ps256,
    Hs256,
    None,
    Critical,
}

impl Signed {
    const ALL: [Self; 9] = [
        Self::Right,
        Self::WithoutName,
        Self::ByAnother,
        Self::WithAnotherName,
        Self::Rs512,
        Self::Ps256,
        Self::Hs256,
        Self::None,
        Self::Critical,
    ];

    const fn is_good(self) -> bool {
        matches!(self, Self::Right | Self::WithoutName)
    }

    fn token(self, claims: &Value) -> String {
        let header = |alg: &str| json!({"alg": alg, "kid": KID});
        let bytes = claims.to_string().into_bytes();
        match self {
            Self::Right => OURS.token(&header("RS256"), claims),
            Self::WithoutName => OURS.token(&json!({"alg": "RS256", "typ": "JWT", "x": [1]}), claims),
            Self::ByAnother => FOREIGN.token_by(&RSA_PKCS1_SHA256, &header("RS256"), &bytes),
            Self::WithAnotherName => OURS.token(&json!({"alg": "RS256", "kid": "key-2"}), claims),
            Self::Rs512 => OURS.token_by(&RSA_PKCS1_SHA512, &header("RS512"), &bytes),
            Self::Ps256 => OURS.token_by(&RSA_PSS_SHA256, &header("PS256"), &bytes),
            Self::Hs256 => hs256(OURS.rsa_der(), &header("HS256"), claims),
            Self::None => format!("{}.", signed_part(&header("none"), &bytes)),
            Self::Critical => OURS.token(&json!({"alg": "RS256", "kid": KID, "crit": ["x"], "x": 1}), claims),
        }
    }
}

fn with(request: &Request, text: String) -> Request {
    let mut request = request.clone();
    request.headers[0].1 = text;
    request
}

#[test]
fn tokens() {
    let signed = prop_oneof![6 => Just(Signed::Right), 4 => select(Signed::ALL.as_slice())];
    let tokens = (signed, times(), audiences(), others(), any::<bool>(), damages(3));
    let taken =
        run("tokens", 300, tokens, |(signed, (mut claims, times), (audience, for_us), others, asked, damages)| {
            let mut is_good = signed.is_good() && times && (for_us || !asked);
            claims.extend(audience.map(|audience| ("aud".to_owned(), audience)));
            for (name, value, _) in &others {
                claims.insert((*name).to_owned(), value.clone());
            }
            // A later claim of a name takes the place of an earlier one.
            for (place, (name, _, good)) in others.iter().enumerate() {
                is_good &= *good || others[place + 1..].iter().any(|(later, ..)| later == name);
            }
            let token = signed.token(&Value::Object(claims.clone()));
            let whole = with_token(&token);
            let verifier = Verifier { audience: asked.then_some(AUDIENCE), ..Verifier::new() };
            let proof = verifier.judge(&whole);
            prop_assert_eq!(proof.is_ok(), is_good, "{:?} {:?}: {:?}", signed, claims, proof);
            prop_assert!(is_good || verifier.status(&whole) == 401);

            // A damaged one proves nothing, unless it is the same one after all, maybe beside rubbish.
            let text = damaged_text(&token, &damages);
            let broken = verifier.judge(&with(&whole, text.clone()));
            if broken.is_ok() {
                prop_assert!(is_good && text.split(' ').any(|piece| piece == token), "{}", text);
                prop_assert_eq!(&broken, &proof);
            }
            Ok(proof.is_ok())
        });
    assert!((1..=60).contains(&taken), "{taken}");
}

#[test]
fn tokens_of_any_kind() {
    let part = || {
        prop_oneof![
            "[A-Za-z0-9_-]{0,40}",
            "\\PC{0,20}",
            select(vec![
                "eyJhbGciOiJSUzI1NiJ9",
                "eyJhbGciOiJub25lIn0",
                "eyJpYXQiOjE3ODgyNjA0MDF9",
                "e30",
                "bnVsbA",
                ""
            ])
            .prop_map(str::to_owned),
        ]
    };
    run("tokens of any kind", 1000, (part(), part(), part(), damages(2)), |(header, claims, signature, damages)| {
        let text = damaged_text(&format!("{header}.{claims}.{signature}"), &damages);
        prop_assert!(matches!(Verifier::new().status(&with_token(&text)), 400 | 401), "{}", text);
        Ok(false)
    });
}

#[test]
fn claims_of_any_kind() {
    let names = select(vec!["exp", "iat", "nbf", "aud", "jti", "sha256", "data", "type", "event", "webhook_id", "x"]);
    let value =
        prop_oneof![3 => values(), 1 => Just(json!(AUDIENCE)), 1 => Just(json!([1, AUDIENCE])), 1 => Just(json!(THEN))];
    let claims = prop::collection::vec((names, value), 0..6);
    let claims = prop_oneof![
        3 => claims.prop_map(|claims| {
            let members = claims.into_iter().map(|(name, value)| format!("\"{name}\": {value}")).collect::<Vec<_>>();
            format!("{{\"iat\": {THEN}, {}", members.join(", ")) + "}"
        }),
        1 => values().prop_map(|value| value.to_string()),
    ];
    let body = prop_oneof![values().prop_map(|value| value.to_string().into_bytes()), any_bytes(40)];
    let taken = run("claims of any kind", 300, (claims, damages(2), body), |(claims, damages, body)| {
        let claims = damaged(claims.as_bytes(), &damages);
        let token = OURS.token_by(&RSA_PKCS1_SHA256, &json!({"alg": "RS256"}), &claims);
        let request = Request { body: body.into(), ..with_token(&token) };
        let verifier = Verifier { audience: Some(AUDIENCE), ..Verifier::new() };
        match verifier.judge(&request) {
            Err(refusal) => prop_assert_eq!(refusal.status(), 401),
            Ok(_) => {
                let claims: Map<String, Value> = serde_json::from_slice(&claims).unwrap();
                let time = |name: &str| claims.get(name).map(|time| time.as_f64().unwrap() - THEN as f64);
                prop_assert!(time("exp").or(time("iat")).is_some(), "{:?}", claims);
                prop_assert!(time("exp").is_none_or(|by| by >= -300.001), "{:?}", claims);
                prop_assert!(time("iat").is_none_or(|by| (-86_700.001..=300.001).contains(&by)), "{:?}", claims);
                prop_assert!(claims["aud"] == AUDIENCE || claims["aud"].as_array().unwrap().contains(&AUDIENCE.into()));
            }
        }
        // The same for anybody: the audience is the only difference.
        let anybody = Verifier { audience: None, ..verifier };
        let status = anybody.status(&request);
        prop_assert!(matches!(status, 200 | 401));
        Ok(status == 200)
    });
    assert!((1..=60).contains(&taken), "{taken}");
}
