use proptest::prelude::*;

use super::*;

mod queue;

fn number(n: i64) -> Failure {
    Failure { code: Some(Code::Number(n)), ..Failure::default() }
}

fn coded(w: &str) -> Failure {
    Failure { code: Some(Code::Word(w.to_owned())), ..Failure::default() }
}

fn carried(http: u16) -> Failure {
    Failure { http: Some(http), ..Failure::default() }
}

fn status(w: &str) -> Failure {
    Failure { status: Some(w.to_owned()), ..Failure::default() }
}

fn message(text: &str) -> Failure {
    Failure { message: text.to_owned(), ..Failure::default() }
}

fn finish(reason: &str) -> Failure {
    Failure { finish_reason: Some(reason.to_owned()), ..Failure::default() }
}

fn block(reason: &str) -> Failure {
    Failure { block_reason: Some(reason.to_owned()), ..Failure::default() }
}

fn in_work(failure: &Failure) -> String {
    let judgement = classify(failure, Met::InWork);
    let passing = judgement.class.starts_with("retryable:")
        || judgement.class.starts_with("malformed:")
        || ["empty", "unknown"].contains(&judgement.class.as_str());
    let expected = if passing { Verdict::Retryable } else { Verdict::Permanent };
    assert_eq!(judgement.verdict, expected, "{failure:?} -> {judgement:?}");
    judgement.class
}

#[test]
fn every_grpc_number() {
    let table = [
        (0, "unknown"),
        (1, "retryable:499"),
        (2, "retryable:500"),
        (3, "permanent:400"),
        (4, "retryable:504"),
        (5, "permanent:404"),
        (6, "permanent:409"),
        (7, "permanent:403"),
        (8, "retryable:429"),
        (9, "permanent:400"),
        (10, "retryable:409"),
        (11, "permanent:416"),
        (12, "permanent:501"),
        (13, "retryable:500"),
        (14, "retryable:503"),
        (15, "retryable:500"),
        (16, "permanent:401"),
        (17, "unknown"),
        (-1, "unknown"),
        (99, "unknown"),
    ];
    for (code, class) in table {
        assert_eq!(in_work(&number(code)), class, "gRPC {code}");
    }
}

#[test]
fn every_http_number_as_code_and_as_carrier() {
    let table = [
        (400, "permanent:400"),
        (402, "permanent:402"),
        (403, "permanent:403"),
        (404, "permanent:404"),
        (405, "permanent:405"),
        (408, "retryable:408"),
        (409, "permanent:409"),
        (410, "permanent:410"),
        (413, "permanent:413"),
        (416, "permanent:416"),
        (422, "permanent:422"),
        (429, "retryable:429"),
        (451, "permanent:451"),
        (499, "permanent:499"),
        (500, "retryable:500"),
        (501, "permanent:501"),
        (502, "retryable:502"),
        (503, "retryable:503"),
        (504, "retryable:504"),
        (529, "unknown"),
        (600, "unknown"),
        (302, "unknown"),
        (200, "unknown"),
    ];
    for (http, class) in table {
        assert_eq!(in_work(&number(http.into())), class, "code {http}");
        if http != 402 {
            assert_eq!(in_work(&carried(http)), class, "carrier {http}");
        }
    }
    assert_eq!(in_work(&number(401)), "permanent:401");
    assert_eq!(in_work(&carried(13)), "unknown", "a carrier speaks no gRPC");
}

/// Every word of both dialects (gemini-api.md, sections 1.8, 5.1 and 5.3), and common HTTP phrases.
const WORDS: [(&str, &str); 49] = [
    ("invalid_request", "permanent:400"),
    ("failed_precondition", "permanent:400"),
    ("parameter_unknown", "permanent:400"),
    ("authentication", "permanent:401"),
    ("payment_required", "permanent:402"),
    ("permission_denied", "permanent:403"),
    ("not_found", "permanent:404"),
    ("model_not_found", "permanent:404"),
    ("already_exists", "permanent:409"),
    ("aborted", "retryable:409"),
    ("out_of_range", "permanent:416"),
    ("rate_limit_exceeded", "retryable:429"),
    ("quota_exceeded", "retryable:429"),
    ("too_many_requests", "retryable:429"),
    ("cancelled", "retryable:499"),
    ("api_error", "retryable:500"),
    ("unimplemented", "permanent:501"),
    ("service_unavailable", "retryable:503"),
    ("deadline_exceeded", "retryable:504"),
    ("CANCELLED", "retryable:499"),
    ("UNKNOWN", "retryable:500"),
    ("INVALID_ARGUMENT", "permanent:400"),
    ("DEADLINE_EXCEEDED", "retryable:504"),
    ("NOT_FOUND", "permanent:404"),
    ("ALREADY_EXISTS", "permanent:409"),
    ("PERMISSION_DENIED", "permanent:403"),
    ("RESOURCE_EXHAUSTED", "retryable:429"),
    ("FAILED_PRECONDITION", "permanent:400"),
    ("ABORTED", "retryable:409"),
    ("OUT_OF_RANGE", "permanent:416"),
    ("UNIMPLEMENTED", "permanent:501"),
    ("INTERNAL", "retryable:500"),
    ("UNAVAILABLE", "retryable:503"),
    ("DATA_LOSS", "retryable:500"),
    ("UNAUTHENTICATED", "permanent:401"),
    ("Service Unavailable", "retryable:503"),
    ("Bad Gateway", "retryable:502"),
    ("Gateway Timeout", "retryable:504"),
    ("Too Many Requests", "retryable:429"),
    ("Bad Request", "permanent:400"),
    ("Request Timeout", "retryable:408"),
    ("Unprocessable Entity", "permanent:422"),
    ("Forbidden", "permanent:403"),
    ("Unauthorized", "permanent:401"),
    ("https://ai.google.dev/errors/rate_limit_exceeded", "retryable:429"),
    ("type.googleapis.com/errors#safety", "blocked:SAFETY"),
    ("urn:gemini:api_error", "retryable:500"),
    ("OK", "unknown"),
    ("something_new", "unknown"),
];

#[test]
fn every_word_as_code_and_as_status_in_any_letter_case() {
    for (word, class) in WORDS {
        for word in [word.to_owned(), word.to_lowercase(), word.to_uppercase()] {
            assert_eq!(in_work(&coded(&word)), class, "code {word}");
            assert_eq!(in_work(&status(&word)), class, "status {word}");
        }
    }
    assert_eq!(in_work(&coded("503")), "retryable:503");
}

/// Codes of the interactions' error object about content and generation (gemini-api.md, section 1.8).
#[test]
fn every_content_and_generation_code() {
    let blocked = [
        "safety",
        "recitation",
        "language",
        "prohibited_content",
        "spii",
        "blocklist",
        "image_safety",
        "image_prohibited_content",
        "image_recitation",
        "image_other",
        "content_blocked",
    ];
    for word in blocked {
        let class = format!("blocked:{}", word.to_uppercase());
        assert_eq!(in_work(&coded(word)), class);
        assert_eq!(in_work(&Failure { http: Some(400), ..coded(word) }), class, "a code decides before its carrier");
    }
    let broken = [
        "malformed_function_call",
        "malformed_tool_call",
        "unexpected_tool_call",
        "no_image",
        "too_many_tool_calls",
        "missing_thought_signature",
    ];
    for word in broken {
        assert_eq!(in_work(&coded(word)), format!("malformed:{}", word.to_uppercase()));
    }
}

#[test]
fn all_twenty_finish_reasons() {
    let table = [
        ("FINISH_REASON_UNSPECIFIED", "unknown"),
        ("STOP", "empty"),
        ("MAX_TOKENS", "truncated"),
        ("SAFETY", "blocked:SAFETY"),
        ("RECITATION", "blocked:RECITATION"),
        ("OTHER", "empty"),
        ("LANGUAGE", "blocked:LANGUAGE"),
        ("BLOCKLIST", "blocked:BLOCKLIST"),
        ("PROHIBITED_CONTENT", "blocked:PROHIBITED_CONTENT"),
        ("SPII", "blocked:SPII"),
        ("MALFORMED_FUNCTION_CALL", "malformed:MALFORMED_FUNCTION_CALL"),
        ("IMAGE_SAFETY", "blocked:IMAGE_SAFETY"),
        ("UNEXPECTED_TOOL_CALL", "malformed:UNEXPECTED_TOOL_CALL"),
        ("TOO_MANY_TOOL_CALLS", "malformed:TOO_MANY_TOOL_CALLS"),
        ("IMAGE_PROHIBITED_CONTENT", "blocked:IMAGE_PROHIBITED_CONTENT"),
        ("IMAGE_OTHER", "blocked:IMAGE_OTHER"),
        ("NO_IMAGE", "malformed:NO_IMAGE"),
        ("IMAGE_RECITATION", "blocked:IMAGE_RECITATION"),
        ("MISSING_THOUGHT_SIGNATURE", "malformed:MISSING_THOUGHT_SIGNATURE"),
        ("MALFORMED_RESPONSE", "malformed:MALFORMED_RESPONSE"),
        ("A_REASON_OF_TOMORROW", "unknown"),
    ];
    for (reason, class) in table {
        assert_eq!(in_work(&finish(reason)), class, "{reason}");
    }
}

#[test]
fn all_block_reasons() {
    let table = [
        ("BLOCK_REASON_UNSPECIFIED", "unknown"),
        ("BLOCKED_REASON_UNSPECIFIED", "unknown"),
        ("SAFETY", "blocked:SAFETY"),
        ("OTHER", "blocked:OTHER"),
        ("BLOCKLIST", "blocked:BLOCKLIST"),
        ("PROHIBITED_CONTENT", "blocked:PROHIBITED_CONTENT"),
        ("IMAGE_SAFETY", "blocked:IMAGE_SAFETY"),
        ("MODEL_ARMOR", "blocked:MODEL_ARMOR"),
        ("JAILBREAK", "blocked:JAILBREAK"),
        ("A NEW reason!", "blocked:A_NEW_REASON_"),
    ];
    for (reason, class) in table {
        assert_eq!(in_work(&block(reason)), class, "{reason}");
    }
}

#[test]
fn words_of_limits_are_truncated() {
    for word in ["MAX_TOKENS", "incomplete", "budget_exceeded"] {
        assert_eq!(in_work(&coded(word)), "truncated");
    }
}

#[test]
fn a_code_decides_before_its_carrier_its_status_and_its_text() {
    let all = |code, http, status: &str, text: &str| Failure {
        code: Some(Code::Number(code)),
        http: Some(http),
        status: Some(status.to_owned()),
        message: text.to_owned(),
        ..Failure::default()
    };
    assert_eq!(in_work(&all(503, 400, "INVALID_ARGUMENT", "blocked for SAFETY")), "retryable:503");
    assert_eq!(in_work(&all(3, 503, "UNAVAILABLE", "UNAVAILABLE")), "permanent:400");
    // A code that says nothing leaves it to the carrier, then to the status, then to the text.
    assert_eq!(in_work(&all(0, 503, "INVALID_ARGUMENT", "blocked")), "retryable:503");
    assert_eq!(in_work(&all(0, 200, "INVALID_ARGUMENT", "blocked")), "permanent:400");
    assert_eq!(in_work(&all(0, 200, "NEWS", "blocked")), "blocked:CONTENT_BLOCKED");
    assert_eq!(in_work(&Failure { http: Some(400), ..coded("something_new") }), "permanent:400");
}

#[test]
fn a_status_that_fits_makes_a_shared_http_number_precise() {
    let http = |code, word: &str| Failure { code: Some(Code::Number(code)), ..status(word) };
    assert_eq!(in_work(&http(409, "ABORTED")), in_work(&number(10)));
    assert_eq!(in_work(&http(409, "ALREADY_EXISTS")), in_work(&number(6)));
    assert_eq!(in_work(&http(499, "CANCELLED")), in_work(&number(1)));
    assert_eq!(in_work(&http(400, "OUT_OF_RANGE")), in_work(&coded("out_of_range")));
    assert_eq!(in_work(&Failure { http: Some(409), ..status("ABORTED") }), "retryable:409");
    assert_eq!(in_work(&http(409, "UNAVAILABLE")), "permanent:409", "one that contradicts it does not");
}

#[test]
fn text_counts_only_without_any_code() {
    let table = [
        ("Blocked by SAFETY filters", "blocked:SAFETY"),
        ("the answer was stopped for recitation", "blocked:RECITATION"),
        ("Content was blocked.", "blocked:CONTENT_BLOCKED"),
        ("Request blocked due to policy", "blocked:PROMPT"),
        ("400 INVALID_ARGUMENT. {...}", "permanent:400"),
        ("FAILED_PRECONDITION: no", "permanent:400"),
        ("503 UNAVAILABLE. The model is overloaded", "retryable:503"),
        ("The service is currently unavailable.", "retryable:503"),
        ("deadline_exceeded", "retryable:504"),
        ("RESOURCE_EXHAUSTED", "retryable:429"),
        ("no idea", "unknown"),
        ("", "unknown"),
    ];
    for (text, class) in table {
        assert_eq!(in_work(&message(text)), class, "{text}");
    }
}

#[test]
fn a_prompt_block_told_as_an_invalid_request_is_a_block() {
    let told =
        |failure: Failure| Failure { message: " Request blocked due to PROHIBITED content".to_owned(), ..failure };
    for failure in [coded("invalid_request"), number(400), number(3), carried(400)] {
        for met in [Met::OnCreate, Met::InWork] {
            assert_eq!(classify(&told(failure.clone()), met), Judgement::permanent("blocked:PROMPT"));
        }
    }
    assert_eq!(in_work(&told(number(503))), "retryable:503");
}

#[test]
fn the_class_at_the_cap() {
    let table = [
        ("retryable:503", "exhausted:503"),
        ("queue:429", "exhausted:429"),
        ("empty", "exhausted:empty"),
        ("unknown", "exhausted:unknown"),
        ("malformed:NO_IMAGE", "exhausted:malformed:NO_IMAGE"),
        ("extract:json", "exhausted:extract:json"),
        ("exhausted:503", "exhausted:503"),
    ];
    for (class, expected) in table {
        assert_eq!(exhausted(class), expected);
    }
}

#[test]
fn the_same_meaning_has_the_same_class_in_every_dialect() {
    for named in &words::NAMED {
        let word = named.words[0];
        let expected = in_work(&coded(word));
        assert_eq!(in_work(&coded(&word.to_lowercase())), expected);
        assert_eq!(in_work(&status(word)), expected);
        assert_eq!(in_work(&Failure { code: Some(Code::Number(named.http.into())), ..status(word) }), expected);
        if let Some(grpc) = named.grpc {
            assert_eq!(in_work(&number(grpc)), expected);
        }
    }
}

prop_compose! {
    fn any_failure()(
        http in prop::option::of(any::<u16>()),
        code in prop::option::of(prop_oneof![
            any::<i64>().prop_map(Code::Number),
            (-2_i64..620).prop_map(Code::Number),
            ".*".prop_map(Code::Word),
            prop::sample::select(WORDS.to_vec()).prop_map(|(word, _)| Code::Word(word.to_owned())),
        ]),
        status in prop::option::of(".*"),
        message in prop_oneof![".*".boxed(), Just("API key not valid. Blocked by billing".to_owned()).boxed()],
        reasons in prop::collection::vec("[A-Z_]{0,12}", 0..3),
        quota_ids in prop::collection::vec("(x|PerDay)", 0..3),
        secs in prop::option::of(any::<u64>()),
        finish_reason in prop::option::of(".*"),
        block_reason in prop::option::of(".*"),
    ) -> Failure {
        Failure { http, code, status, message, reasons, quota_ids, retry_after: secs.map(Duration::from_secs), finish_reason, block_reason }
    }
}

proptest! {
    #[test]
    fn any_failure_has_a_short_stable_class(failure in any_failure()) {
        for met in [Met::OnCreate, Met::InWork] {
            let judgement = classify(&failure, met);
            prop_assert_eq!(&judgement, &classify(&failure, met));
            prop_assert!(!judgement.class.is_empty() && judgement.class.len() <= 60);
            prop_assert!(judgement.class.chars().all(|c| c.is_ascii_alphanumeric() || c == ':' || c == '_'));
            let retried = matches!(judgement.verdict, Verdict::Retryable | Verdict::Queue);
            prop_assert!(retried || judgement.delay.is_none());
            prop_assert!(met == Met::OnCreate || judgement.verdict != Verdict::Queue);
        }
    }
}

#[test]
fn a_wrong_address_is_told_from_gemini() {
    let foreign = |status, body: &str| is_foreign(&Failure::from_http(status, None, body.as_bytes()));
    assert!(foreign(404, "<html>not here</html>") && foreign(405, "") && foreign(421, "{}"));
    let known = r#"{"error":{"code":"model_not_found","message":"no such model"}}"#;
    assert!(!foreign(404, known) && !foreign(413, "<html>too large</html>") && !foreign(400, "<html>bad</html>"));
}

#[test]
fn what_jobs_share_is_told_from_what_is_their_own() {
    assert!(may_be_shared("permanent:404") && may_be_shared("permanent:403"));
    for own in ["permanent:400", "permanent:413", "permanent:422", "blocked:SAFETY", "retryable:503", "404"] {
        assert!(!may_be_shared(own), "{own}");
    }
}
