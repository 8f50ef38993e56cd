use proptest::prelude::*;
use serde_json::json;

use super::*;

fn number(n: i64) -> Option<Code> {
    Some(Code::Number(n))
}

fn coded(w: &str) -> Option<Code> {
    Some(Code::Word(w.to_owned()))
}

/// The 429 of gemini-api.md, section 5.1, with a delay of the test's choice.
fn quota_body(delay: &Value) -> Vec<u8> {
    json!({"error": {"code": 429, "message": "You exceeded your quota.", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
            {"quotaMetric": "m", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"},
            {"quotaMetric": "m", "quotaId": "GenerateRequestsPerMinutePerProject"}]},
        {"@type": "type.googleapis.com/google.rpc.Help", "links": [{"description": "d", "url": "u"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]}})
    .to_string()
    .into_bytes()
}

#[test]
fn the_interactions_dialect() {
    let failure = Failure::from_http(400, None, br#"{"error":{"code":"invalid_request","message":"No model."}}"#);
    assert_eq!(failure.code, coded("invalid_request"));
    assert_eq!((failure.http, failure.message.as_str(), failure.status), (Some(400), "No model.", None));
    // The error event of a stream has the same object.
    let event = Failure::from_error(&json!({"event_type": "error", "error": {"code": "not_found", "message": "m"}}));
    assert_eq!(event.code, coded("not_found"));
}

#[test]
fn the_older_dialect_with_quota_and_delay() {
    let failure = Failure::from_http(429, Some("7"), &quota_body(&json!("19s")));
    assert_eq!((failure.code, failure.status.as_deref()), (number(429), Some("RESOURCE_EXHAUSTED")));
    assert_eq!(
        failure.quota_ids,
        ["GenerateRequestsPerDayPerProjectPerModel-FreeTier", "GenerateRequestsPerMinutePerProject"]
    );
    assert_eq!(failure.retry_after, Some(Duration::from_secs(19)), "RetryInfo goes before the header");
}

#[test]
fn a_gateway_wraps_the_older_dialect_in_an_array() {
    let body = br#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[
        {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}]"#;
    let failure = Failure::from_http(400, None, body);
    assert_eq!((failure.code, failure.reasons), (number(400), vec!["API_KEY_INVALID".to_owned()]));
}

#[test]
fn every_form_of_a_delay() {
    let cases = [
        (json!("19s"), Some(19.0)),
        (json!("45.25s"), Some(45.25)),
        (json!("52758s"), Some(52758.0)),
        (json!({"seconds": 12, "nanos": 500_000_000}), Some(12.5)),
        (json!({"seconds": "12"}), Some(12.0)),
        (json!({"nanos": 250_000_000}), Some(0.25)),
        (json!(3), Some(3.0)),
        (json!("-4s"), None),
        (json!("infs"), None),
        (json!("9e999s"), None),
        (json!({}), None),
        (json!([]), None),
        (json!("soon"), None),
    ];
    for (delay, expected) in cases {
        let failure = Failure::from_http(429, None, &quota_body(&delay));
        assert_eq!(failure.retry_after, expected.map(Duration::from_secs_f64), "{delay}");
    }
}

#[test]
fn the_header_counts_in_seconds_only() {
    let header = |text| Failure::from_http(503, Some(text), b"").retry_after;
    assert_eq!(header(" 120 "), Some(Duration::from_secs(120)));
    assert_eq!(header("Fri, 27 Nov 2026 07:28:00 GMT"), None);
    assert_eq!(header("-1"), None);
    assert_eq!(header(""), None);
    // A 429 whose details hold only Help names no delay, so the header does.
    let only_help = br#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.Help"}]}}"#;
    assert_eq!(Failure::from_http(429, Some("30"), only_help).retry_after, Some(Duration::from_secs(30)));
}

#[test]
fn any_body_is_survived_and_keeps_its_words() {
    let cases: [(&[u8], &str); 9] = [
        (b"", ""),
        (b"<html><title>502 Bad Gateway</title></html>\n", "<html><title>502 Bad Gateway</title></html>"),
        (b"\xff\xfe not UTF-8", "\u{fffd}\u{fffd} not UTF-8"),
        (b"null", "null"),
        (b"{}", "{}"),
        (b"\"plain\"", "plain"),
        (b"{\"error\":\"invalid_grant\"}", "invalid_grant"),
        (b"{\"error\":{\"error\":[null,{\"error\":{\"message\":\"deep\"}}]}}", "deep"),
        (b"{\"error\":{\"message\":{\"odd\":1}}}", "{\"odd\":1}"),
    ];
    for (body, message) in cases {
        let failure = Failure::from_http(502, None, body);
        assert_eq!((failure.http, failure.message.as_str()), (Some(502), message));
    }
    // Nested beyond what a JSON reader takes.
    let deep = "[".repeat(100_000);
    assert!(Failure::from_http(500, None, deep.as_bytes()).message.starts_with("[[["));
}

#[test]
fn a_code_comes_in_every_form() {
    let code = |code: Value| Failure::from_error(&json!({"code": code, "message": "m"})).code;
    assert_eq!(code(json!(13)), number(13));
    assert_eq!(code(json!(503.0)), number(503));
    assert_eq!(code(json!("429")), number(429));
    assert_eq!(code(json!("UNAVAILABLE")), coded("UNAVAILABLE"));
    for nothing in [json!(null), json!(""), json!({}), json!(1.5)] {
        assert_eq!(code(nothing), None);
    }
    assert_eq!(Failure::from_error(&json!({"status": 503})).code, number(503));
}

#[test]
fn row_and_operation_errors() {
    let row = json!({"code": 4, "message": "Deadline expired before operation could complete."});
    assert_eq!(Failure::from_error(&row).code, number(4));
    assert_eq!(Failure::from_error(&json!({"error": {"code": 13}})).code, number(13));
    assert_eq!(Failure::from_error(&json!(null)), Failure::default());
}

#[test]
fn an_error_inside_a_message_adds_what_is_missing() {
    let inner = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE",
        "details": [{"retryDelay": "5s"}]}});
    let failure = Failure::from_error(&json!({"error": {"message": inner.to_string(), "code": 500}}));
    assert_eq!((failure.code, failure.message.as_str()), (number(500), "overloaded"));
    assert_eq!((failure.status.as_deref(), failure.retry_after), (Some("UNAVAILABLE"), Some(Duration::from_secs(5))));
}

#[test]
fn details_of_other_shapes() {
    let odd = json!({"details": {"info": {"domain": "googleapis.com", "reason": "SERVICE_DISABLED"}, "list": [[{"quota_id": "PerDay"}]],
        "other": {"@type": "x/google.rpc.PreconditionFailure", "reason": "NOT_THIS"},
        "bad": {"@type": "x/google.rpc.BadRequest", "fieldViolations": [{"field": "f", "reason": "NOT_ONE"}]}}});
    let failure = Failure::from_error(&odd);
    assert_eq!((failure.reasons, failure.quota_ids), (vec!["SERVICE_DISABLED".to_owned()], vec!["PerDay".to_owned()]));
    let oldest = json!({"code": 403, "errors": [{"domain": "usageLimits", "reason": "accessNotConfigured"}]});
    assert_eq!(Failure::from_error(&oldest).reasons, ["accessNotConfigured"]);
    for nothing in [json!("text"), json!(3), json!(null), json!([1, "x", null])] {
        assert_eq!(Failure::from_error(&json!({"details": nothing})), Failure::default());
    }
}

#[test]
fn a_message_is_bounded_and_holds_no_key() {
    let body = json!({"error": {"message": format!("AIzaSyD-1234_567890abcdefgh {}", "長".repeat(MESSAGE_CHARS))}})
        .to_string();
    let failure = Failure::from_http(400, None, body.as_bytes());
    assert_eq!(failure.message.chars().count(), MESSAGE_CHARS);
    assert!(failure.message.starts_with("[masked] 長"));
    let html = format!("<a href='?key=AIzaSyD-1234_567890abcdefgh'>{}", "x".repeat(100_000));
    let failure = Failure::from_http(500, None, html.as_bytes());
    assert!(failure.message.starts_with("<a href='?key=[masked]'>x") && failure.message.len() <= BODY_BYTES);
}

#[test]
fn a_summary_is_one_bounded_line() {
    let cases = [
        (Failure::default(), "no reason given"),
        (
            Failure {
                http: Some(503),
                code: number(503),
                status: Some("UNAVAILABLE".into()),
                message: "a\n\tb".into(),
                ..Failure::default()
            },
            "HTTP 503 UNAVAILABLE: a b",
        ),
        (Failure { http: Some(400), code: coded("invalid_request"), ..Failure::default() }, "HTTP 400 invalid_request"),
        (Failure { code: number(13), message: "m".into(), ..Failure::default() }, "code 13: m"),
        (Failure { finish_reason: Some("SAFETY".into()), ..Failure::default() }, "finish reason SAFETY"),
        (
            Failure { reasons: vec!["A".into(), "B".into()], message: "key=secret".into(), ..Failure::default() },
            "(A, B): key=[masked]",
        ),
    ];
    for (failure, line) in cases {
        assert_eq!(failure.summary(), line);
    }
    let long = Failure { message: "x y ".repeat(1_000), ..Failure::default() };
    assert_eq!(long.summary().chars().count(), SUMMARY_CHARS);
}

proptest! {
    #[test]
    fn any_bytes_give_a_bounded_failure(status in any::<u16>(), header in ".*", body in prop::collection::vec(any::<u8>(), 0..400)) {
        let failure = Failure::from_http(status, Some(&header), &body);
        prop_assert_eq!(failure.http, Some(status));
        prop_assert!(failure.message.chars().count() <= MESSAGE_CHARS);
        prop_assert!(!failure.summary().contains('\n'));
    }
}
