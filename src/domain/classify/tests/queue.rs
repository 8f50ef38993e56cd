//! What concerns the whole queue, and when to try again.

use super::*;

fn on_create(failure: &Failure) -> (Verdict, String) {
    let Judgement { verdict, class, .. } = classify(failure, Met::OnCreate);
    (verdict, class)
}

#[test]
fn a_rejected_key_is_the_operators_matter_in_every_dialect() {
    let key = (Verdict::Operator, "operator:key".to_owned());
    let reason = |code: i64, word: &str, reason: &str| Failure {
        reasons: vec![reason.to_owned()],
        ..Failure { http: u16::try_from(code).ok(), code: Some(Code::Number(code)), ..status(word) }
    };
    let said = |failure: Failure, text: &str| Failure { message: text.to_owned(), ..failure };
    let refusals = [
        reason(400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
        reason(403, "PERMISSION_DENIED", "API_KEY_SERVICE_BLOCKED"),
        reason(403, "PERMISSION_DENIED", "CONSUMER_SUSPENDED"),
        reason(403, "PERMISSION_DENIED", "CONSUMER_INVALID"),
        reason(403, "PERMISSION_DENIED", "SERVICE_DISABLED"),
        reason(403, "", "accessNotConfigured"),
        reason(401, "UNAUTHENTICATED", "ACCESS_TOKEN_TYPE_UNSUPPORTED"),
        carried(401),
        number(16),
        coded("authentication"),
        status("UNAUTHENTICATED"),
        said(number(400), "API key not valid. Please pass a valid API key."),
        said(coded("invalid_request"), "API key expired. Please renew the API key."),
        said(coded("permission_denied"), "Your API key was reported as leaked. Please use another API key."),
        said(carried(403), "Method doesn't allow unregistered callers (callers without established identity)."),
    ];
    for failure in refusals {
        assert_eq!(on_create(&failure), key, "{failure:?}");
    }
    // The array in which a gateway wraps it, from bytes to verdict.
    let body = br#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[
        {"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}]"#;
    let failure = Failure::from_http(400, None, body);
    assert_eq!(on_create(&failure), key);
    assert_eq!(classify(&failure, Met::InWork).verdict, Verdict::Operator, "a plain call was refused");
}

#[test]
fn billing_is_the_operators_matter_in_every_dialect() {
    let billing = (Verdict::Operator, "operator:billing".to_owned());
    let said = |failure: Failure, text: &str| Failure { message: text.to_owned(), ..failure };
    let free_tier = "Gemini API free tier is not available in your country. Please enable billing on your project.";
    let refusals = [
        carried(402),
        coded("payment_required"),
        said(coded("failed_precondition"), free_tier),
        said(number(9), free_tier),
        said(Failure { code: Some(Code::Number(400)), ..status("FAILED_PRECONDITION") }, free_tier),
        said(number(400), "User location is not supported for the API use."),
        said(number(403), "This API method requires billing to be enabled."),
        Failure { reasons: vec!["BILLING_DISABLED".to_owned()], ..number(403) },
    ];
    for failure in refusals {
        assert_eq!(on_create(&failure), billing, "{failure:?}");
    }
}

#[test]
fn a_refusal_of_one_request_is_not_the_operators_matter() {
    let said = |failure: Failure, text: &str| Failure { message: text.to_owned(), ..failure };
    assert_eq!(on_create(&said(coded("invalid_request"), "Unknown field billing.")).1, "permanent:400");
    assert_eq!(on_create(&said(number(403), "No access to file abc.")).1, "permanent:403");
    assert_eq!(on_create(&said(number(404), "API key not valid")).1, "permanent:404");
    assert_eq!(on_create(&coded("failed_precondition")).1, "permanent:400");
    // Inside finished work a 401 is that work's own failure: a tool's, say.
    for failure in [number(16), number(401), coded("authentication")] {
        assert_eq!(in_work(&failure), "permanent:401");
    }
    assert_eq!(in_work(&coded("payment_required")), "permanent:402");
}

#[test]
fn a_429_on_create_is_the_queues_matter_and_in_work_the_jobs() {
    for failure in [
        carried(429),
        number(429),
        number(8),
        coded("rate_limit_exceeded"),
        coded("too_many_requests"),
        status("RESOURCE_EXHAUSTED"),
    ] {
        assert_eq!(
            classify(&failure, Met::OnCreate),
            Judgement { verdict: Verdict::Queue, class: "queue:429".into(), delay: None }
        );
        assert_eq!(in_work(&failure), "retryable:429");
    }
}

#[test]
fn delays() {
    let wait = |secs| Some(Delay::After(Duration::from_secs(secs)));
    let delay = |failure: Failure| {
        let on_create = classify(&failure, Met::OnCreate).delay;
        assert_eq!(on_create, classify(&failure, Met::InWork).delay, "{failure:?}");
        on_create
    };
    let after = |failure: Failure, secs| Failure { retry_after: Some(Duration::from_secs(secs)), ..failure };
    let quota = |failure: Failure, id: &str| Failure { quota_ids: vec!["Other".to_owned(), id.to_owned()], ..failure };
    assert_eq!(delay(after(carried(429), 19)), wait(19));
    assert_eq!(delay(after(carried(429), 52_758)), wait(52_758));
    assert_eq!(delay(after(carried(503), 7)), wait(7));
    assert_eq!(delay(after(message("?"), 7)), wait(7));
    assert_eq!(delay(after(carried(429), 0)), None, "zero is no delay");
    assert_eq!(delay(after(carried(429), u64::MAX)), Some(Delay::After(LONGEST_DELAY)));
    assert_eq!(delay(after(carried(400), 7)), None, "what isn't tried again has none");
    // A per-day quota beats the short RetryInfo beside it; one per minute leaves it.
    assert_eq!(delay(after(quota(number(429), "RequestsPerDayPerProject"), 19)), Some(Delay::NextPacificMidnight));
    assert_eq!(delay(after(quota(number(8), "RequestsPerMinutePerProject"), 19)), wait(19));
    assert_eq!(
        delay(after(quota(number(503), "RequestsPerDayPerProject"), 19)),
        wait(19),
        "only a 429 is about quotas"
    );
    assert_eq!(delay(after(coded("quota_exceeded"), 19)), Some(Delay::NextPacificMidnight));
    assert_eq!(delay(after(quota(coded("quota_exceeded"), "PerMinute"), 19)), wait(19), "quota ids are more precise");
}
