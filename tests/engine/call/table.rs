//! The verdict table of the design, section 6, each case of it: from Gemini's HTTP answer, by the real client and the
//! engine, to what the job's item says in the end.

use std::time::Duration;

use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Job, State};
use gleaner::domain::time::Millis;
use serde_json::{Value, json};

use super::script::{Answer, Script};
use crate::world::{HOUR, World, key_id, tick_of};

/// How a job whose call is always answered alike ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// A dead letter after its first try, of this class.
    Parked(&'static str),
    /// Tried four times, each of which may have been paid or not, then a dead letter of this class.
    Exhausted(&'static str, Paid),
    /// It waits, and no try counts: the gate is closed, for this reason.
    Gated(&'static str),
}

/// Whether a try that failed may have been paid without anything to show for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paid {
    No,
    Perhaps,
}

use Ends::{Exhausted, Gated, Parked};
use Paid::{No, Perhaps};

/// An error answer as Google's front writes it.
pub fn error(http: u16, fields: &Value) -> Answer {
    Answer::Http(http, vec![], json!({"error": fields}).to_string())
}

/// An error answer that says its HTTP number alone, with a message.
pub fn bare(http: u16) -> Answer {
    error(http, &json!({"code": http, "message": "It did not go well."}))
}

fn candidate(fields: &Value) -> Answer {
    Answer::Http(200, vec![], json!({"candidates": [fields], "responseId": "r"}).to_string())
}

fn said(text: &str) -> Answer {
    candidate(&json!({"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}))
}

fn finished(reason: &str) -> Answer {
    candidate(&json!({"content": {"parts": [{"text": "half of"}]}, "finishReason": reason}))
}

/// How a job with this line ends, when all it asks is answered so.
async fn end_of(line: &Value, answer: &Answer) -> (Ends, Job) {
    let script = Script::always(answer.clone()).await;
    let world = World::new(&[]).await;
    let engine = world.with_gemini_at(&script.url);
    world.land(format!("{line}\n")).await;
    for _ in 0..20 {
        let ticked = tick_of(&engine).await;
        let job = world.job().await;
        let gate = engine.ledger.get(&ItemId::gate(&format!("{}/call/m", key_id("test-key-1")))).await.unwrap();
        let gate = match gate {
            Some(Item::Gate(gate)) => gate.until.is_some_and(|until| until > world.now()).then_some(gate),
            _ => None,
        };
        if let Some(gate) = gate.filter(|_| job.attempts == 0) {
            assert_eq!((job.state, job.class.as_deref()), (State::Retryable, gate.class.as_deref()), "{answer:?}");
            assert_eq!(ticked.is_err(), gate.needs_person, "{answer:?}");
            return (Gated(leaked(job.class.as_deref())), job);
        }
        ticked.unwrap();
        if job.state == State::Parked {
            assert_eq!(
                u64::from(job.attempts),
                script.posts(),
                "{answer:?}: each request is an attempt, and each attempt one"
            );
            let class = leaked(job.class.as_deref());
            if job.attempts == 1 && !class.starts_with("exhausted:") {
                return (Parked(class), job);
            }
            assert_eq!(job.attempts, 4, "{answer:?}");
            let paid = if job.possible_duplicates == 0 { No } else { Perhaps };
            assert_eq!(job.possible_duplicates, if paid == No { 0 } else { 3 }, "{answer:?}");
            return (Exhausted(class, paid), job);
        }
        assert_eq!(job.state, State::Retryable, "{answer:?}");
        let due = job.due_at.unwrap();
        assert!(due.since(world.now()) >= Duration::from_secs(2) && due < world.now().plus(HOUR * 24), "{answer:?}");
        world.clock.set(due);
    }
    panic!("it never ends: {answer:?}")
}

fn leaked(class: Option<&str>) -> &'static str {
    Box::leak(class.unwrap_or("none").to_owned().into_boxed_str())
}

async fn assert_all(line: Value, cases: Vec<(Answer, Ends)>) {
    for (answer, ends) in cases {
        let (found, job) = end_of(&line, &answer).await;
        assert_eq!(found, ends, "{answer:?}: {job:?}");
        assert!(matches!(found, Gated(_)) || job.message.is_some_and(|message| !message.is_empty()), "{answer:?}");
    }
}

fn line() -> Value {
    json!({"mode": "call", "model": "m", "input": "a"})
}

#[tokio::test]
async fn http_numbers() {
    let mut cases: Vec<(Answer, Ends)> = vec![
        (bare(429), Exhausted("exhausted:429", No)),
        (bare(500), Exhausted("exhausted:500", Perhaps)),
        (bare(502), Exhausted("exhausted:502", Perhaps)),
        (bare(503), Exhausted("exhausted:503", Perhaps)),
        (bare(504), Exhausted("exhausted:504", Perhaps)),
        (bare(408), Exhausted("exhausted:408", Perhaps)),
        (bare(409), Exhausted("exhausted:409", Perhaps)),
        (bare(501), Parked("permanent:501")),
        (Answer::Http(502, vec![], "<html>Bad Gateway</html>".to_owned()), Exhausted("exhausted:502", Perhaps)),
        (Answer::Http(503, vec![], String::new()), Exhausted("exhausted:503", Perhaps)),
        (Answer::Http(529, vec![], "busy".to_owned()), Exhausted("exhausted:unknown", Perhaps)),
    ];
    for (http, class) in [
        (400, "permanent:400"),
        (403, "permanent:403"),
        (404, "permanent:404"),
        (405, "permanent:405"),
        (410, "permanent:410"),
        (413, "permanent:413"),
        (422, "permanent:422"),
        (451, "permanent:451"),
    ] {
        cases.push((bare(http), Parked(class)));
    }
    assert_all(line(), cases).await;
}

#[tokio::test]
async fn codes_and_words_of_every_dialect_decide_before_the_http_number() {
    let code = |http: u16, code: Value| error(http, &json!({"code": code, "message": "x"}));
    let status = |http: u16, status: &str| error(http, &json!({"code": http, "status": status, "message": "x"}));
    let mut cases = Vec::new();
    for (grpc, class) in [
        (2, "exhausted:500"),
        (4, "exhausted:504"),
        (10, "exhausted:409"),
        (13, "exhausted:500"),
        (14, "exhausted:503"),
        (15, "exhausted:500"),
    ] {
        cases.push((code(500, json!(grpc)), Exhausted(class, Perhaps)));
    }
    // Under a 4xx nothing was done, whatever its words.
    cases.push((code(429, json!(8)), Exhausted("exhausted:429", No)));
    for (grpc, class) in [
        (3, "permanent:400"),
        (5, "permanent:404"),
        (6, "permanent:409"),
        (7, "permanent:403"),
        (9, "permanent:400"),
        (11, "permanent:416"),
        (12, "permanent:501"),
    ] {
        cases.push((code(500, json!(grpc)), Parked(class)));
    }
    for (http, word, class) in [
        (503, "UNAVAILABLE", "exhausted:503"),
        (503, "service_unavailable", "exhausted:503"),
        (504, "DEADLINE_EXCEEDED", "exhausted:504"),
        (504, "deadline_exceeded", "exhausted:504"),
        (500, "INTERNAL", "exhausted:500"),
        (500, "api_error", "exhausted:500"),
        (409, "ABORTED", "exhausted:409"),
    ] {
        cases.push((status(http, word), Exhausted(class, Perhaps)));
        cases.push((error(http, &json!({"code": word, "message": "x"})), Exhausted(class, Perhaps)));
    }
    for word in ["RESOURCE_EXHAUSTED", "rate_limit_exceeded", "too_many_requests"] {
        cases.push((status(429, word), Exhausted("exhausted:429", No)));
    }
    for (http, word, class) in [
        (400, "INVALID_ARGUMENT", "permanent:400"),
        (400, "invalid_request", "permanent:400"),
        (400, "FAILED_PRECONDITION", "permanent:400"),
        (400, "failed_precondition", "permanent:400"),
        (403, "PERMISSION_DENIED", "permanent:403"),
        (404, "NOT_FOUND", "permanent:404"),
        (409, "ALREADY_EXISTS", "permanent:409"),
        (501, "UNIMPLEMENTED", "permanent:501"),
    ] {
        cases.push((status(http, word), Parked(class)));
        cases.push((error(http, &json!({"code": word, "message": "x"})), Parked(class)));
    }
    assert_all(line(), cases).await;
}

#[tokio::test]
async fn the_queues_matter_closes_the_gate_and_gives_the_attempt_back() {
    let info = |reason: &str| json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}]);
    let violations = json!([{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20"}]);
    let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"});
    let daily = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}, retry]);
    let cases = vec![
        (
            error(
                400,
                &json!({"code": 400, "status": "INVALID_ARGUMENT", "message": "x", "details": info("API_KEY_INVALID")}),
            ),
            Gated("operator:key"),
        ),
        (
            error(400, &json!({"code": 400, "message": "API key expired. Please renew the API key."})),
            Gated("operator:key"),
        ),
        (bare(401), Gated("operator:key")),
        (error(403, &json!({"code": 403, "message": "x", "details": info("SERVICE_DISABLED")})), Gated("operator:key")),
        (bare(402), Gated("operator:billing")),
        (error(500, &json!({"code": 16, "message": "x"})), Gated("operator:key")),
        (
            error(403, &json!({"code": 403, "message": "x", "details": info("BILLING_DISABLED")})),
            Gated("operator:billing"),
        ),
        (
            error(
                400,
                &json!({"code": 400, "status": "FAILED_PRECONDITION", "message": "User location is not supported"}),
            ),
            Gated("operator:billing"),
        ),
        (Answer::Http(404, vec![], "<html>nginx</html>".to_owned()), Gated("operator:address")),
        (
            error(429, &json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": daily})),
            Gated("queue:429"),
        ),
    ];
    for (answer, ends) in cases {
        let (found, job) = end_of(&line(), &answer).await;
        assert_eq!(found, ends, "{answer:?}: {job:?}");
        assert_eq!((job.attempts, job.possible_duplicates), (0, 0));
        if ends == Gated("queue:429") {
            // Midnight in California, not three seconds.
            assert_eq!(job.due_at, Some(Millis(1_795_982_400_000).plus(HOUR * 12)));
        }
    }
}

#[tokio::test]
async fn an_unreachable_gemini_costs_no_attempt() {
    let world = World::new(&[]).await;
    world.land(format!("{}\n", line())).await;
    tick_of(&world.unreachable()).await.unwrap();
    let job = world.job().await;
    assert_eq!((job.state, job.attempts, job.class.as_deref()), (State::Retryable, 0, Some("queue:unreachable")));
}

#[tokio::test]
async fn finish_and_block_reasons() {
    let mut cases = Vec::new();
    for reason in [
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
    ] {
        let class = leaked(Some(&format!("blocked:{reason}")));
        cases.push((finished(reason), Parked(class)));
        cases.push((candidate(&json!({"finishReason": reason})), Parked(class)));
    }
    for reason in ["SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "JAILBREAK"] {
        let body = json!({"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 1}});
        let class = leaked(Some(&format!("blocked:{reason}")));
        cases.push((Answer::Http(200, vec![], body.to_string()), Parked(class)));
    }
    cases.push((finished("MAX_TOKENS"), Parked("truncated")));
    cases.push((candidate(&json!({"content": {"role": "model"}, "finishReason": "MAX_TOKENS"})), Parked("truncated")));
    for reason in ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"] {
        cases.push((finished(reason), Exhausted(leaked(Some(&format!("exhausted:malformed:{reason}"))), No)));
    }
    cases.push((finished("OTHER"), Exhausted("exhausted:empty", No)));
    cases.push((finished("A_REASON_OF_TOMORROW"), Exhausted("exhausted:unknown", No)));
    assert_all(line(), cases).await;
}

#[tokio::test]
async fn answers_without_an_answer() {
    let empty = |body: Value| (Answer::Http(200, vec![], body.to_string()), Exhausted("exhausted:empty", No));
    let parts = |parts: Value| {
        (candidate(&json!({"content": {"parts": parts}, "finishReason": "STOP"})), Exhausted("exhausted:empty", No))
    };
    let cases = vec![
        parts(json!([])),
        parts(json!([{"text": "  "}])),
        parts(json!([{"thought": true, "text": "hm"}])),
        parts(json!([{"thoughtSignature": "s"}])),
        (candidate(&json!({"finishReason": "STOP"})), Exhausted("exhausted:empty", No)),
        (candidate(&json!({"citationMetadata": {"citationSources": []}})), Exhausted("exhausted:empty", No)),
        empty(json!(null)),
        empty(json!({})),
        empty(json!({"candidates": []})),
        // What came is no answer of a model, or not all of it: it may have been paid.
        (Answer::Nothing, Exhausted("exhausted:unclear", Perhaps)),
        (Answer::Cut("{\"candidates\": [".to_owned()), Exhausted("exhausted:unclear", Perhaps)),
        (Answer::Http(200, vec![], "<html>hello</html>".to_owned()), Exhausted("exhausted:unclear", Perhaps)),
        (Answer::Http(302, vec!["location: /elsewhere"], String::new()), Exhausted("exhausted:unclear", Perhaps)),
    ];
    assert_all(line(), cases).await;
}

/// An error without any code, as some gateways send it under a success.
#[tokio::test]
async fn text_decides_where_there_is_no_code() {
    let told = |message: &str| error(200, &json!({"message": message}));
    let cases = vec![
        (told("The answer was stopped: SAFETY"), Parked("blocked:SAFETY")),
        (told("blocked by a filter"), Parked("blocked:CONTENT_BLOCKED")),
        (told("Stopped for RECITATION."), Parked("blocked:RECITATION")),
        (told("INVALID_ARGUMENT: no such field"), Parked("permanent:400")),
        (told("FAILED_PRECONDITION"), Parked("permanent:400")),
        (told("UNAVAILABLE, try later"), Exhausted("exhausted:503", Perhaps)),
        (told("DEADLINE_EXCEEDED"), Exhausted("exhausted:504", Perhaps)),
        (told("Something odd."), Exhausted("exhausted:unknown", Perhaps)),
        (error(400, &json!({"code": 400, "message": "Request blocked due to safety."})), Parked("blocked:PROMPT")),
    ];
    assert_all(line(), cases).await;
}

#[tokio::test]
async fn the_json_that_was_asked_for() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
    let asked = json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    let line = json!({"mode": "call", "model": "m", "input": "a", "generationConfig": asked});
    let cases = vec![
        (said("{\"a\": "), Parked("extract:json")),
        (said("no JSON"), Parked("extract:json")),
        (said("{\"a\": \"one\"}"), Parked("extract:schema")),
        (said("[]"), Parked("extract:schema")),
    ];
    assert_all(line.clone(), cases).await;
    let mut patient = line;
    patient["expect"] = json!({"retry": true});
    let cases = vec![
        (said("{\"a\": "), Exhausted("exhausted:extract:json", No)),
        (said("{}"), Exhausted("exhausted:extract:schema", No)),
    ];
    assert_all(patient, cases).await;
    let by_expect = json!({"mode": "call", "model": "m", "input": "a", "expect": {"schema": schema}});
    assert_all(by_expect, vec![(said("{}"), Parked("extract:schema"))]).await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_a_persons_matter() {
    let script = Script::always(said(&"x".repeat(65 << 20))).await;
    let world = World::new(&[]).await;
    world.land(format!("{}\n", line())).await;
    let engine = world.with_gemini_at(&script.url);
    tick_of(&engine).await.unwrap();
    let job = world.job().await;
    assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Parked, Some("internal:too_long"), 1));
}

#[tokio::test]
async fn the_answer_of_a_try_without_a_value_is_kept() {
    let script = Script::always(finished("SAFETY")).await;
    let world = World::new(&[]).await;
    world.land(format!("{}\n", line())).await;
    tick_of(&world.with_gemini_at(&script.url)).await.unwrap();
    let kept = std::fs::read_to_string(world.data().join(world.job().await.answer.unwrap())).unwrap();
    assert!(kept.contains("half of") && kept.contains("SAFETY"), "{kept}");
    assert!(world.objects("results").is_empty());
}
