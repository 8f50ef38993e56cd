use super::super::super::changes::Changes;
use super::super::super::job::Mode;
use super::super::super::json::{digest, idempotency_key};
use super::super::{Header, JobLine, parse_header, parse_line};
use super::*;

fn line_with(line: &str, header: &Header) -> Result<JobLine, LineError> {
    parse_line(line.as_bytes(), header).map(Option::unwrap)
}

fn header(options: &str) -> Header {
    parse_header(format!("{{\"gleaner\": {options}}}").as_bytes()).unwrap().unwrap()
}

fn calls() -> Header {
    header(r#"{"mode": "call"}"#)
}

fn line(line: &str) -> JobLine {
    line_with(line, &calls()).unwrap()
}

fn body(line: &JobLine) -> String {
    String::from_utf8(line.call_body()).unwrap()
}

#[track_caller]
fn assert_bad(fields: &str, message: &str) {
    let error = line_with(&format!("{{{fields}}}"), &calls()).unwrap_err();
    assert_eq!((error.class, error.message.as_str()), ("bad_line:field", message), "{fields}");
}

#[test]
fn an_input_becomes_contents_and_fields_are_sent_in_camel_case_as_they_were_written() {
    let job = line(concat!(
        r#"{"input": "\u00e9\/", "system_instruction": "Be brief.", "generation_config": {"seed": 1.0e2, "#,
        r#""response_mime_type": "application/json"}, "safetySettings": [], "model": "models/m", "date": "x"}"#
    ));
    assert_eq!(
        body(&job),
        concat!(
            r#"{"contents":[{"role":"user","parts":[{"text":"\u00e9\/"}]}],"#,
            r#""systemInstruction":{"parts":[{"text":"Be brief."}]},"#,
            r#""generationConfig":{"seed": 1.0e2, "response_mime_type": "application/json"},"safetySettings":[]}"#
        )
    );
    assert_eq!(
        (job.mode, job.target.as_deref(), job.unsent.as_slice()),
        (Mode::Call, Some("models/m"), &["date".to_owned()][..])
    );
    let contents = r#"[{"role": "user", "parts": [{"text": "a"}]}, {"parts": []}]"#;
    for name in ["input", "contents"] {
        assert_eq!(body(&line(&format!(r#"{{"{name}": {contents}}}"#))), format!(r#"{{"contents":{contents}}}"#));
    }
    let whole =
        r#"{"systemInstruction":{"parts": [{"text":"x"}]},"contents":[{"parts":[]}],"toolConfig":null,"tools":[]}"#;
    assert_eq!(
        body(&line(whole)),
        whole.replace(": ", ":").replace(r#"{"parts":[{"text":"x"}]}"#, r#"{"parts": [{"text":"x"}]}"#)
    );
}

#[test]
fn the_key_is_that_of_the_line_as_written_with_what_the_header_says() {
    let own = r#"{"input": "hello", "mode": "call"}"#;
    for job in [line_with(own, &Header::default()).unwrap(), line(r#"{"input":"hello"}"#), line(own)] {
        assert_eq!((job.key, job.content), (idempotency_key(own), digest(own)));
    }
    let options = header(r#"{"mode": "call", "request": {"generationConfig": {"seed": 1}}}"#);
    let own = line_with(r#"{"input": "a", "generation_config": {"seed": 2}}"#, &options).unwrap();
    assert_eq!(own.key, idempotency_key(r#"{"generation_config": {"seed": 2}, "input": "a", "mode": "call"}"#));
    assert!(
        body(&own).contains(r#""seed": 2"#) && !body(&own).contains(r#""seed": 1"#),
        "the line's own wins in either spelling"
    );
    assert!(body(&line_with(r#"{"input": "a"}"#, &options).unwrap()).contains(r#""generationConfig":{"seed": 1}"#));
}

#[test]
fn what_only_interactions_have_is_refused_with_what_to_use() {
    let formats = "a plain call has generationConfig.responseMimeType and generationConfig.responseJsonSchema";
    assert_bad(r#""input": "a", "response_format": {}"#, &format!("response_format: {formats}"));
    assert_bad(r#""input": "a", "responseFormat": {}"#, &format!("responseFormat: {formats}"));
    for (name, _) in INSTEAD {
        let error = line_with(&format!(r#"{{"input": "a", "{name}": {{}}}}"#), &calls()).unwrap_err();
        assert!(error.message.starts_with(&format!("{name}: ")), "{error}");
    }
    // A header that did not know that a line is a call.
    let options = header(r#"{"request": {"response_format": {}}}"#);
    assert!(
        line_with(r#"{"input": "a", "mode": "call"}"#, &options).unwrap_err().message.starts_with("response_format: ")
    );
    line_with(r#"{"input": "a"}"#, &options).unwrap();
}

#[test]
fn bad_fields_are_named() {
    let form = "as [{\"role\": \"user\", \"parts\": [{\"text\": …}]}]";
    assert_bad(r#""a": 1"#, "input: missing; a call has an input, or contents");
    assert_bad(r#""input": null"#, "input: must not be null");
    assert_bad(r#""input": """#, "input: must not be empty");
    assert_bad(r#""input": []"#, "input: must not be empty");
    assert_bad(r#""input": {"parts": []}"#, "input: must be a string, or an array of contents, not an object");
    assert_bad(
        r#""input": [{"type": "text", "text": "a"}]"#,
        &format!("input: must hold generateContent's contents, {form}"),
    );
    assert_bad(r#""contents": "a""#, &format!("contents: must be an array, {form}, not a string"));
    assert_bad(r#""input": "a", "contents": [{"parts": []}]"#, "input: contents are there too; give one of the two");
    assert_bad(
        r#""input": "a", "tool_config": {}, "toolConfig": {}"#,
        "tool_config: it is there in both spellings; toolConfig is one field",
    );
    assert_bad(r#""input": "a", "generationConfig": []"#, "generationConfig: must be an object, not an array");
    assert_bad(r#""input": "a", "tools": {}"#, "tools: must be an array, not an object");
    assert_bad(r#""input": "a", "system_instruction": """#, "system_instruction: must not be empty");
    let missing = line_with(r#"{"contents": [{"parts": []}]}"#, &Header::default()).unwrap_err();
    assert_eq!(missing.message, "input: missing; contents are for a plain call: say \"mode\": \"call\"");
    for (options, message) in [
        (r#"{"mode": "call", "request": {"input": "a"}}"#, "gleaner.request.input: each line has its own"),
        (
            r#"{"mode": "call", "request": {"model": "a"}}"#,
            "gleaner.request.model: the model of calls is gleaner.model",
        ),
        (r#"{"mode": "call", "request": {"date": 1}}"#, "gleaner.request.date: generateContent has no such field"),
        (
            r#"{"mode": "call", "request": {"store": true}}"#,
            "gleaner.request.store: a plain call is not kept at Gemini; leave it out",
        ),
    ] {
        let error = parse_header(format!("{{\"gleaner\": {options}}}").as_bytes()).unwrap_err();
        assert_eq!((error.class, error.message.as_str()), ("bad_line:header", message));
    }
    let other = line_with(
        r#"{"input": "a", "mode": "interaction"}"#,
        &header(r#"{"mode": "call", "request": {"toolConfig": {}}}"#),
    );
    assert_eq!(
        other.unwrap_err().message,
        "mode: an interaction has no toolConfig, which the header sets for every line"
    );
}

fn changed(job: &JobLine, patch: &str) -> Result<JobLine, String> {
    let changes = Changes { model: None, request: Some(RawValue::from_string(patch.to_owned()).unwrap()) };
    job.changed(&changes).map_err(|error| error.message)
}

#[test]
fn a_replay_changes_a_call_and_leaves_its_key() {
    let job = line(
        r#"{"input": "a", "generation_config": {"seed": 12345678901234567890123, "maxOutputTokens": 10}, "tools": []}"#,
    );
    let patch = r#"{"generationConfig": {"maxOutputTokens": 8192}, "tools": null, "system_instruction": "Long."}"#;
    let new = changed(&job, patch).unwrap();
    assert_eq!(
        body(&new),
        concat!(
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"seed":12345678901234567890123,"#,
            r#""maxOutputTokens":8192},"systemInstruction":{"parts":[{"text":"Long."}]}}"#
        )
    );
    assert_eq!((&new.key, &new.content, &new.mode, &new.target), (&job.key, &job.content, &job.mode, &job.target));
    let other = body(&changed(&job, r#"{"input": "b"}"#).unwrap());
    assert!(other.contains(r#""text":"b""#) && !other.contains(r#""text":"a""#), "{other}");
    assert_eq!(
        changed(&job, r#"{"contents": null}"#).unwrap_err(),
        "request.contents: must be an array, as [{\"role\": \"user\", \"parts\": [{\"text\": …}]}], not null"
    );
    assert_eq!(changed(&job, r#"{"seed": 1}"#).unwrap_err(), "request.seed: Gemini's request has no such field");
    assert!(
        changed(&job, r#"{"model": "m"}"#).unwrap_err().starts_with("request.model: another model is given beside")
    );
    assert!(
        changed(&job, r#"{"response_format": {}}"#)
            .unwrap_err()
            .starts_with("request.response_format: a plain call has")
    );
    assert_eq!(body(&job.changed(&Changes::default()).unwrap()), body(&job));
}

#[test]
fn a_replay_changes_an_interaction_and_leaves_its_key() {
    let job =
        line_with(r#"{"agent": "deep", "input": "a", "tools": [1.0e2], "idempotency_key": "k"}"#, &Header::default())
            .unwrap();
    let new = changed(&job, r#"{"generation_config": {"max_output_tokens": 9}, "input": "b"}"#).unwrap();
    assert_eq!((&new.key, &new.content), (&job.key, &job.content));
    let own = String::from_utf8(new.create_body("deep", None)).unwrap();
    assert!(
        own.starts_with(r#"{"agent":"deep","input":"b","tools":[1.0e2],"generation_config":{"max_output_tokens":9},"#),
        "{own}"
    );
    let other = String::from_utf8(new.create_body("gemini-pro-latest", None)).unwrap();
    assert!(other.starts_with(r#"{"input":"b","#) && other.contains(r#""model":"gemini-pro-latest","#), "{other}");
    assert_eq!(changed(&job, r#"{"input": null}"#).unwrap_err(), "request.input: missing; every job has one");
    assert!(changed(&job, r#"{"background": false}"#).unwrap_err().starts_with("request.background: set by gleaner"));
    assert!(changed(&job, "[]").unwrap_err().starts_with("request: must be an object"));
}
