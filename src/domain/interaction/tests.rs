use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::classify::{Met, classify};
use super::super::failure::Code;
use super::*;

fn of(json: &Value) -> Interaction {
    Interaction::parse(json.to_string().as_bytes()).unwrap()
}

fn with_steps(steps: &Value) -> Interaction {
    of(&json!({"id": "v1_1", "status": "completed", "steps": steps}))
}

fn said(text: &str) -> Value {
    json!({"type": "model_output", "content": [{"type": "text", "text": text}]})
}

#[test]
fn create_and_get_answers() {
    let body = "{\"id\": \"v1_ChdabcDEF\", \"object\":\"interaction\", \"status\": \"in_progress\", \"n\": 1.50, \"new\": [1e999]}";
    let running = Interaction::parse(format!("  {body}\r\n").as_bytes()).unwrap();
    assert_eq!((running.id.as_str(), running.status.as_str()), ("v1_ChdabcDEF", "in_progress"));
    assert_eq!(running.raw.get(), body, "its own bytes");
    let finished = of(&json!({"id": "v1_1", "status": "completed", "steps": [
        {"type": "user_input", "content": [{"type": "text", "text": "Give three facts."}]},
        {"type": "thought", "signature": "EpwC"},
        said("{\"facts\":[]}")], "usage": {"total_tokens": 99}}));
    assert_eq!(finished.output_text(), "{\"facts\":[]}");
    assert_eq!(finished.usage().get(), "{\"total_tokens\":99}");
    assert_eq!(running.usage().get(), "null");
}

#[test]
fn what_is_no_interaction_is_told_without_its_content() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "the answer is no JSON: EOF while parsing a value at line 1 column 0"),
        (b"<html>secret", "the answer is no JSON: expected value at line 1 column 1"),
        (b"[]", "the answer is no JSON object"),
        (b"null", "the answer is no JSON object"),
        (b"{\"status\":\"queued\"}", "the answer has no id"),
        (b"{\"id\":\"\"}", "the answer has no id"),
        (b"{\"id\":7}", "the answer has no id"),
        (b"{\"error\":{\"code\":400,\"message\":\"no\"}}", "the answer has no id but an error: code 400: no"),
    ];
    for (body, message) in cases {
        assert_eq!(Interaction::parse(body).unwrap_err(), message);
    }
}

#[test]
fn an_id_that_would_swell_every_item_is_not_taken() {
    let told = |bytes: usize| Interaction::parse(json!({"id": "x".repeat(bytes)}).to_string().as_bytes());
    assert_eq!(told(ID_BYTES).unwrap().id.len(), ID_BYTES);
    assert_eq!(told(ID_BYTES + 1).unwrap_err(), "the answer's id has 1025 bytes; at most 1024 are taken");
}

#[test]
fn every_status() {
    let table = [
        ("queued", Standing::Running),
        ("in_progress", Standing::Running),
        ("idle", Standing::Running),
        ("requires_continuation", Standing::Running),
        ("a_status_of_tomorrow", Standing::Running),
        ("", Standing::Running),
        ("requires_action", Standing::RequiresAction),
        ("completed", Standing::Completed),
        ("failed", Standing::Failed),
        ("cancelled", Standing::Cancelled),
        ("incomplete", Standing::Truncated),
        ("budget_exceeded", Standing::Truncated),
    ];
    for (status, standing) in table {
        assert_eq!(of(&json!({"id": "i", "status": status})).standing(), standing, "{status}");
    }
    assert_eq!(of(&json!({"id": "i"})).standing(), Standing::Running);
}

#[test]
fn the_text_is_what_the_sdk_gives() {
    let thought = json!({"type": "thought", "summary": [{"type": "text", "text": "hm"}]});
    let tool = json!({"type": "google_search_call", "content": [{"type": "text", "text": "no"}]});
    let input = json!({"type": "user_input", "content": [{"type": "text", "text": "Q"}]});
    let image = json!({"type": "image", "data": "aW1hZ2U=", "mime_type": "image/png"});
    let cases = [
        (json!([said("A"), thought, said("B")]), "AB"),
        (json!([said("no"), tool, said("A"), said("B"), thought]), "AB"),
        (json!([said("A"), tool]), "A"),
        (json!([said("A"), input, thought]), ""),
        (json!([said("no"), input, said("A")]), "A"),
        (json!([{"type": "model_output", "content": [{"type": "text", "text": "X"}, image]}, thought, said("Y")]), "Y"),
        (json!([{"type": "model_output", "content": [{"type": "text", "text": "X"}, image]}]), "X"),
        (
            json!([{"type": "model_output", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": 7}, {"type": "text", "text": "B"}]}]),
            "AB",
        ),
        (json!([said("A"), {"type": "model_output", "error": {"code": 13}}]), "A"),
        (json!([said("A"), {"type": "model_output", "content": "odd"}, said("B")]), "AB"),
        (json!([said("A"), 5]), "A"),
        (json!("odd"), ""),
        (json!([]), ""),
    ];
    for (steps, text) in cases {
        assert_eq!(with_steps(&steps).output_text(), text, "{steps}");
    }
    assert_eq!(of(&json!({"id": "i", "status": "completed"})).output_text(), "");
}

#[test]
fn old_outputs_count_for_the_models_that_still_send_them() {
    let outputs = json!([{"type": "text", "text": "la"}, {"type": "audio", "mime_type": "audio/mp3", "data": "AA"}]);
    let old = of(&json!({"id": "i", "model": "lyria-3-pro-preview", "outputs": outputs}));
    assert_eq!(old.output_text(), "la");
    assert_eq!(old.media()[0].pointer, "/outputs/1");
    assert_eq!(of(&json!({"id": "i", "model": "gemini-3.5-flash", "outputs": outputs})).output_text(), "");
}

#[test]
fn why_it_failed() {
    let errors = |errors: Value, steps: Value| {
        of(&json!({"id": "i", "status": "failed", "errors": errors, "steps": steps})).failure()
    };
    let step = json!([{"type": "model_output", "error": {"code": 14, "message": "step"}}, {"type": "thought"}]);
    // The first of the errors that says something.
    let told = errors(
        json!([{}, null, {"code": "api_error", "message": "An internal error occurred."}, {"code": "safety"}]),
        step.clone(),
    );
    assert_eq!(told.code, Some(Code::Word("api_error".to_owned())));
    // Else the step's error.
    for nothing in [json!(null), json!([]), json!([{}]), json!("odd")] {
        assert_eq!(errors(nothing, step.clone()).code, Some(Code::Number(14)));
    }
    // With neither, nothing: retried as unknown.
    let silent = errors(json!([]), json!([{"type": "model_output"}]));
    assert_eq!(silent, Failure::default());
    assert_eq!(classify(&silent, Met::InWork).class, "unknown");
    // A block among the errors is a block, by URI too.
    for code in ["prohibited_content", "https://ai.google.dev/errors/prohibited_content"] {
        let blocked = errors(json!([{"code": code, "message": "m"}]), json!([]));
        assert_eq!(classify(&blocked, Met::InWork).class, "blocked:PROHIBITED_CONTENT");
    }
    // An error of an earlier turn is not this one's.
    let earlier = errors(json!([]), json!([{"type": "model_output", "error": {"code": 3}}, {"type": "user_input"}]));
    assert_eq!(earlier, Failure::default());
}

#[test]
fn media_is_pointed_at() {
    let interaction = with_steps(&json!([
        {"type": "user_input", "content": [{"type": "image", "data": "in"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "x"}, {"type": "image", "mime_type": "image/png", "data": "AA"}]},
        {"type": "model_output", "content": [{"type": "video", "uri": "https://example.test/v"}]}]));
    let media = interaction.media();
    assert_eq!(media.len(), 2);
    assert_eq!(
        (media[0].kind.as_str(), media[0].mime_type.as_deref(), media[0].pointer.as_str()),
        ("image", Some("image/png"), "/steps/1/content/1")
    );
    assert_eq!(
        (media[1].uri.as_deref(), media[1].pointer.as_str()),
        (Some("https://example.test/v"), "/steps/2/content/0")
    );
    let whole: Value = serde_json::from_str(interaction.raw.get()).unwrap();
    assert_eq!(whole.pointer(&media[0].pointer).unwrap()["data"], "AA");
}

#[test]
fn deep_nesting_and_broken_characters_lose_nothing_else() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let body = format!(
        "{{\"id\":\"i\",\"status\":\"completed\",\"odd\":{deep},\"steps\":[{{\"type\":\"model_output\",\"content\":[{{\"type\":\"text\",\"text\":\"half \\ud83d\"}}]}}]}}"
    );
    let interaction = Interaction::parse(body.as_bytes()).unwrap();
    assert_eq!(interaction.raw.get(), body);
    assert!(interaction.output_text().starts_with("half \u{fffd}"));
    let failed =
        Interaction::parse(format!("{{\"id\":\"i\",\"status\":\"failed\",\"errors\":[{deep}]}}").as_bytes()).unwrap();
    assert!(failed.failure().message.starts_with("[["));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(interaction) = Interaction::parse(&body) {
            prop_assert!(!interaction.id.is_empty());
        }
    }
}
