use serde_json::json;

use super::*;

fn expect(request: &Value, expect: &Value) -> Result<Expectation, String> {
    Expectation::of(request, Some(expect))
}

fn asks(request: &Value) -> Expectation {
    Expectation::of(request, None).unwrap()
}

fn answer(steps: &Value) -> Interaction {
    Interaction::parse(json!({"id": "i", "status": "completed", "steps": steps}).to_string().as_bytes()).unwrap()
}

fn says(text: &str) -> Interaction {
    answer(&json!([{"type": "model_output", "content": [{"type": "text", "text": text}]}]))
}

fn class(interaction: &Interaction, expectation: &Expectation) -> (Verdict, String) {
    let (judgement, message) = extract(interaction, expectation).unwrap_err();
    assert!(!message.is_empty());
    (judgement.verdict, judgement.class)
}

fn json_wanted() -> Expectation {
    Expectation { json: true, ..Expectation::default() }
}

#[test]
fn json_is_asked_for_in_every_spelling() {
    let schema = json!({"type": "object"});
    let requests = [
        json!({"response_format": {"type": "text", "mime_type": "application/json", "schema": schema}}),
        json!({"response_format": [{"type": "image"}, {"type": "text", "schema": schema}]}),
        json!({"response_format": schema}),
        json!({"response_mime_type": "application/json", "response_schema": schema}),
        json!({"responseMimeType": "Application/JSON; charset=utf-8", "responseJsonSchema": schema}),
        json!({"generation_config": {"response_mime_type": "application/json", "response_schema": schema}}),
        json!({"generationConfig": {"responseSchema": schema}}),
        json!({"generationConfig": {"response_json_schema": schema, "temperature": 1}, "response_format": null}),
    ];
    for request in requests {
        let asked = asks(&request);
        assert!(asked.json && asked.schema == Some(schema.clone()), "{request}");
    }
    let without_schema = asks(&json!({"response_format": {"type": "text", "mime_type": "application/json"}}));
    assert_eq!(without_schema, json_wanted());
    for text in [
        json!({}),
        json!({"response_format": {"type": "text"}}),
        json!({"response_mime_type": "text/plain"}),
        json!({"generation_config": null}),
    ] {
        assert_eq!(asks(&text), Expectation::default(), "{text}");
    }
    let word =
        asks(&json!({"response_mime_type": "text/x.enum", "response_schema": {"type": "STRING", "enum": ["a"]}}));
    assert!(!word.json && word.schema.is_some());
}

#[test]
fn media_is_asked_for_by_modality_or_format() {
    let requests = [
        json!({"response_modalities": ["TEXT", "IMAGE"]}),
        json!({"generation_config": {"responseModalities": ["audio"]}}),
        json!({"response_format": {"type": "video"}}),
        json!({"response_format": [{"type": "text"}, {"type": "image", "mime_type": "image/png"}]}),
        json!({"response_mime_type": "image/png"}),
    ];
    for request in requests {
        assert_eq!(asks(&request), Expectation { media: true, ..Expectation::default() }, "{request}");
    }
    assert!(!asks(&json!({"response_modalities": ["TEXT"]})).media);
}

#[test]
fn expect_decides_where_both_speak() {
    let request =
        json!({"response_format": {"type": "text", "mime_type": "application/json", "schema": {"type": "object"}}});
    let other = json!({"type": "ARRAY"});
    let of = |expectation: Value| expect(&request, &expectation).unwrap();
    assert_eq!(of(json!({"format": "text"})), Expectation::default());
    assert_eq!(of(json!({"schema": other})).schema, Some(other.clone()));
    assert_eq!(of(json!({"retry": true})), Expectation { retry: true, ..asks(&request) });
    assert_eq!(of(json!(null)), asks(&request));
    assert!(expect(&json!({}), &json!({"schema": other})).unwrap().json);
    assert!(expect(&json!({}), &json!({"format": "json"})).unwrap().json);
    // A schema of the request that can't be used is set aside by the line's own.
    let bad = json!({"response_format": {"schema": {"type": "objekt"}}});
    assert!(expect(&bad, &json!({"schema": {}})).is_ok() && expect(&bad, &json!({"format": "text"})).is_ok());
}

#[test]
fn what_cannot_be_read_is_named() {
    let cases = [
        (json!([]), json!({}), "the request is no object"),
        (json!({"response_format": 3}), json!({}), "response_format: must be an object or an array of objects"),
        (json!({"response_format": ["x"]}), json!({}), "response_format[0]: must be an object"),
        (json!({"generation_config": 1}), json!({}), "generation_config: must be an object"),
        (
            json!({"generation_config": {"response_mime_type": 1}}),
            json!({}),
            "generation_config.response_mime_type: must be a string",
        ),
        (json!({"response_modalities": [1]}), json!({}), "response_modalities: must be an array of strings"),
        (json!({"response_format": {"schema": "x"}}), json!({}), "response_format.schema: is no schema"),
        (
            json!({"responseSchema": {"type": "objekt"}}),
            json!({}),
            "responseSchema: is no schema that can be used at /type",
        ),
        (json!({}), json!("json"), "expect: must be an object"),
        (json!({}), json!({"format": "xml"}), "expect.format: must be"),
        (json!({}), json!({"retry": "yes"}), "expect.retry: must be true or false"),
        (json!({}), json!({"schema": {"type": "objekt"}}), "expect.schema: is no schema"),
        (json!({}), json!({"schema": null}), "expect.schema: is no schema"),
        (json!({}), json!({"format": "text", "schema": {}}), "expect.schema: a schema needs"),
        (json!({}), json!({"fromat": "json"}), "expect.fromat: there is no such option"),
    ];
    for (request, expectation, message) in cases {
        let error = expect(&request, &expectation).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn text_becomes_a_json_string() {
    let value = extract(&says(" Flut \"und\"\nEbbe 潮 "), &Expectation::default()).unwrap();
    assert_eq!(value.get(), "\" Flut \\\"und\\\"\\nEbbe 潮 \"");
}

#[test]
fn json_is_the_models_own_text_on_one_line() {
    let cases = [
        (
            "{\"n\": 1.50, \"big\": 123456789012345678901234567890, \"e\": 1E5, \"s\": \"a \\u00e9\"}",
            "{\"n\":1.50,\"big\":123456789012345678901234567890,\"e\":1E5,\"s\":\"a \\u00e9\"}",
        ),
        ("\n  [1,\n 2]\n", "[1,2]"),
        ("```json\n{\"a\": 1}\n```", "{\"a\":1}"),
        ("```JSON\r\n{\"a\": 1}\r\n```\n", "{\"a\":1}"),
        ("```\n[]\n```", "[]"),
        ("```json {\"a\":1}```", "{\"a\":1}"),
        ("\"```\"", "\"```\""),
        ("null", "null"),
        ("false", "false"),
    ];
    for (text, value) in cases {
        assert_eq!(extract(&says(text), &json_wanted()).unwrap().get(), value);
    }
}

#[test]
fn what_is_not_the_json_that_was_asked_for_is_not_repaired() {
    let bad = [
        "Here it is: {\"a\":1}",
        "{\"a\":1,}",
        "{\"a\":1",
        "{'a':1}",
        "{\"a\":1} {\"b\":2}",
        "{\"a\":1,\"a\":2}",
        "NaN",
        "```json\n{\"a\":1}\n``` as you wished",
        "```json\n```",
        "```python\n{}\n```",
        "{\"a\":\"\\ud83d\"}",
        "1e999",
    ];
    for text in bad {
        assert_eq!(class(&says(text), &json_wanted()), (Verdict::Permanent, "extract:json".to_owned()), "{text}");
        let (_, message) = extract(&says(text), &json_wanted()).unwrap_err();
        assert!(message.starts_with("the answer is not the JSON that was asked for: "), "{message}");
    }
}

#[test]
fn json_is_checked_against_the_schema() {
    let of = |retry| Expectation {
        json: true,
        schema: Some(json!({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}})),
        retry,
        media: false,
    };
    assert_eq!(extract(&says("{\"n\": 1}"), &of(false)).unwrap().get(), "{\"n\":1}");
    assert_eq!(class(&says("{\"n\": \"x\"}"), &of(false)), (Verdict::Permanent, "extract:schema".to_owned()));
    let (_, message) = extract(&says("{\"n\": \"private\"}"), &of(false)).unwrap_err();
    assert_eq!(message, "the answer does not fit the schema: /n: it is not of type \"integer\"");
    // With `expect.retry` the same classes are tried again.
    assert_eq!(class(&says("{\"n\": \"x\"}"), &of(true)), (Verdict::Retryable, "extract:schema".to_owned()));
    assert_eq!(class(&says("{"), &of(true)), (Verdict::Retryable, "extract:json".to_owned()));
    // One word out of an enum is text, checked all the same.
    let word = Expectation { schema: Some(json!({"type": "STRING", "enum": ["a", "b"]})), ..Expectation::default() };
    assert_eq!(extract(&says("a\n"), &word).unwrap().get(), "\"a\\n\"");
    assert_eq!(class(&says("c"), &word).1, "extract:schema");
}

#[test]
fn an_answer_without_visible_text_is_empty_and_passing() {
    let empty = (Verdict::Retryable, "empty".to_owned());
    let answers = [
        answer(&json!([])),
        answer(&json!([{"type": "thought", "signature": "s"}])),
        answer(&json!([{"type": "model_output", "content": []}])),
        says(" \n\t"),
        answer(&json!([{"type": "model_output", "content": [{"type": "image", "data": "AA"}]}])),
        Interaction::parse(b"{\"id\":\"i\",\"status\":\"completed\"}").unwrap(),
    ];
    for interaction in answers {
        assert_eq!(class(&interaction, &Expectation::default()), empty);
        assert_eq!(class(&interaction, &json_wanted()), empty);
    }
}

#[test]
fn media_is_a_value_where_it_was_asked_for() {
    let wanted = Expectation { media: true, ..Expectation::default() };
    let image = answer(
        &json!([{"type": "user_input"}, {"type": "model_output", "content": [{"type": "image", "mime_type": "image/png", "data": "AA"}, {"type": "video", "uri": "https://example.test/v"}]}]),
    );
    let value: Value = serde_json::from_str(extract(&image, &wanted).unwrap().get()).unwrap();
    assert_eq!(
        value,
        json!({"media": [
        {"type": "image", "mime_type": "image/png", "pointer": "/steps/1/content/0"},
        {"type": "video", "uri": "https://example.test/v", "pointer": "/steps/1/content/1"}]})
    );
    assert_eq!(class(&says(" "), &wanted).1, "empty");
    let both = Expectation { json: true, ..wanted.clone() };
    assert_eq!(class(&image, &both).1, "empty", "a picture is not the JSON that was asked for");
    assert_eq!(extract(&says("text"), &wanted).unwrap().get(), "\"text\"");
}

#[test]
fn what_is_not_completed_is_judged_by_its_standing() {
    let of = |status: &str, more: Value| {
        let mut body = json!({"id": "i", "status": status, "steps": [{"type": "model_output", "content": [{"type": "text", "text": "half"}]}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        class(&Interaction::parse(body.to_string().as_bytes()).unwrap(), &Expectation::default())
    };
    let permanent = |class: &str| (Verdict::Permanent, class.to_owned());
    let retryable = |class: &str| (Verdict::Retryable, class.to_owned());
    assert_eq!(of("incomplete", json!({})), permanent("truncated"));
    assert_eq!(of("budget_exceeded", json!({})), permanent("truncated"));
    assert_eq!(of("requires_action", json!({})), permanent("requires_action"));
    assert_eq!(of("cancelled", json!({})), retryable("retryable:499"));
    assert_eq!(of("failed", json!({})), retryable("unknown"));
    assert_eq!(of("failed", json!({"errors": [{"code": "api_error"}]})), retryable("retryable:500"));
    assert_eq!(of("failed", json!({"errors": [{"code": "recitation"}]})), permanent("blocked:RECITATION"));
    assert_eq!(
        of("failed", json!({"steps": [{"type": "model_output", "error": {"code": 3}}]})),
        permanent("permanent:400")
    );
    assert_eq!(of("in_progress", json!({})), retryable("unknown"));
    // Completed, and yet broken off, or with nothing but an error to show.
    assert_eq!(
        of(
            "completed",
            json!({"steps": [{"type": "model_output", "content": [{"type": "text", "text": "half"}], "error": {"code": 14}}]})
        ),
        retryable("retryable:503")
    );
    assert_eq!(
        of("completed", json!({"steps": [], "errors": [{"code": "content_blocked"}]})),
        permanent("blocked:CONTENT_BLOCKED")
    );
}
