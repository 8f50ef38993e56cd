//! A line that is a row of a batch run: `{"key": …, "request": …}` (design, section 4).

use super::super::job::Mode;
use super::super::json::{self, Json, Member};
use super::fields::Fields;
use super::{Header, LineError, header, member, members_of};

/// The longest row that is taken, in bytes. Its request may hold images; Gemini bounds the whole file, at 2 GB
/// (<https://ai.google.dev/gemini-api/docs/batch-api>).
pub const ROW_BYTES: u64 = 50_000_000;

/// The longest key, in bytes. Gemini documents no limit; keys name files and database rows.
pub const ROW_KEY_BYTES: usize = 2048;

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLine {
    /// Its key.
    pub key: String,
    /// Its request as JSON, the header's fields merged in.
    pub request: String,
    /// The part of the request by which its answer is judged, as JSON: every field but the contents.
    pub asks: String,
    /// Fields that are not sent.
    pub unsent: Vec<String>,
}

impl RowLine {
    /// The line as it is sent, with its line ending.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{{\"key\":{},\"request\":{}}}\n", json::quoted(&self.key), self.request)
    }
}

/// Reads a row after the header (without its line ending). None: a blank line.
///
/// What is checked is cheap and certain: JSON, `key`, and a `request` that is an object with contents. Gemini checks the
/// rest when the batch is created, line by line.
///
/// # Errors
/// A line that is no row.
pub fn parse_row(line: &[u8], header: &Header) -> Result<Option<RowLine>, LineError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let bytes = line.len() as u64;
    if bytes > ROW_BYTES {
        let message = format!("the line is {bytes} bytes long; at most {ROW_BYTES} are taken");
        return Err(LineError { class: "bad_line:too_long", message });
    }
    let members = members_of(Json::parse(json::text_of(line)?)?).map_err(|kind| LineError {
        class: "bad_line:not_an_object",
        message: format!("a row must be a JSON object, not {kind}"),
    })?;
    let fields = Fields::of_line(&members);
    if member(&members, header::NAME).is_some() {
        return Err(fields.bad(header::NAME, "options stand alone in the first line of a file"));
    }
    let key = key(&fields)?;
    for own in ["expect", "mode", "model", "idempotency_key"] {
        if fields.get(own).is_some() {
            return Err(fields.bad(own, "a row has a key and a request; options of a run stand in its header"));
        }
    }
    let Some(Member { value: Json::Object(request), .. }) = fields.object("request")? else {
        return Err(fields.bad("request", "missing; every row has one"));
    };
    if member(request, "model").is_some() {
        return Err(fields.bad("request.model", "a run has one model: gleaner.model in its header, or GLEANER_MODEL"));
    }
    check_contents(&fields, request)?;
    let unsent = members.iter().filter(|field| field.name != "key" && field.name != "request");
    let (request, asks) = merged(request, header);
    Ok(Some(RowLine { key, request, asks, unsent: unsent.map(|field| field.name.clone().into_owned()).collect() }))
}

fn key(fields: &Fields<'_, '_>) -> Result<String, LineError> {
    match fields.text("key")? {
        None => Err(fields.bad("key", "missing; every row has one")),
        Some(key) if key.len() > ROW_KEY_BYTES => {
            Err(fields.bad("key", &format!("has {} bytes; at most {ROW_KEY_BYTES} are taken", key.len())))
        }
        Some(key) => Ok(key.to_owned()),
    }
}

fn check_contents(fields: &Fields<'_, '_>, request: &[Member<'_>]) -> Result<(), LineError> {
    match member(request, "contents").map(|contents| &contents.value) {
        Some(Json::Array(contents)) if contents.iter().all(|content| matches!(content, Json::Object(_))) => {
            if contents.is_empty() { Err(fields.bad("request.contents", "must not be empty")) } else { Ok(()) }
        }
        None => Err(fields.bad("request.contents", "missing; every request has contents")),
        Some(Json::Array(_)) => {
            Err(fields.bad("request.contents", "must hold objects, as {\"parts\": [{\"text\": …}]}"))
        }
        Some(other) => {
            let why = format!("must be an array, as [{{\"parts\": [{{\"text\": …}}]}}], not {}", other.kind());
            Err(fields.bad("request.contents", &why))
        }
    }
}

/// The request with the header's fields for what it doesn't set itself, in either spelling; and the same without its
/// contents.
fn merged(request: &[Member<'_>], header: &Header) -> (String, String) {
    let (mut whole, mut asks) = (String::from("{"), String::from("{"));
    for field in request {
        push(&mut whole, &field.name, field.text);
        if field.name != "contents" {
            push(&mut asks, &field.name, field.text);
        }
    }
    for (name, value) in &header.request {
        if !request.iter().any(|field| snake(&field.name) == snake(name)) {
            push(&mut whole, name, value.get());
            push(&mut asks, name, value.get());
        }
    }
    whole.push('}');
    asks.push('}');
    (whole, asks)
}

fn push(object: &mut String, name: &str, value: &str) {
    if object.len() > 1 {
        object.push(',');
    }
    object.push_str(&json::quoted(name));
    object.push(':');
    object.push_str(value);
}

/// `generationConfig` and `generation_config` are one field.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Whether a header's fields may be for a mode that was named elsewhere.
///
/// # Errors
/// The header names another one.
pub fn agree(header: &Header, named: Mode) -> Result<(), LineError> {
    match header.mode {
        Some(own) if own != named => Err(LineError {
            class: "bad_line:header",
            message: format!("gleaner.mode: says {}, and {} is asked for", own.word(), named.word()),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_header;
    use super::*;

    fn row(line: &str) -> RowLine {
        parse_row(line.as_bytes(), &Header::default()).unwrap().unwrap()
    }

    #[track_caller]
    fn bad(line: &str, said: &str) {
        let error = parse_row(line.as_bytes(), &Header::default()).unwrap_err();
        assert!(error.message.contains(said), "{error}");
    }

    #[test]
    fn a_row_is_sent_as_it_was_written() {
        let line = row(
            r#"{"custom_id": 7, "request": {"contents": [{"parts": [{"text": "日本 \u00e9"}]}], "generation_config": {"seed": 1.0}}, "key": "r\u0041"}"#,
        );
        assert_eq!(
            line.to_line(),
            "{\"key\":\"rA\",\"request\":{\"contents\":[{\"parts\": [{\"text\": \"日本 \\u00e9\"}]}],\"generation_config\":{\"seed\": 1.0}}}\n"
        );
        assert_eq!(
            (line.asks.as_str(), line.unsent),
            ("{\"generation_config\":{\"seed\": 1.0}}", vec!["custom_id".to_owned()])
        );
        assert_eq!(parse_row(b" \r", &Header::default()), Ok(None));
    }

    #[test]
    fn the_headers_fields_are_for_rows_that_do_not_set_them_in_either_spelling() {
        let header = br#"{"gleaner": {"mode": "batch", "request": {"generation_config": {"seed": 1}, "tools": []}}}"#;
        let header = parse_header(header).unwrap().unwrap();
        let merge = |request: &str| {
            let line = format!(r#"{{"key": "a", "request": {request}}}"#);
            parse_row(line.as_bytes(), &header).unwrap().unwrap().request
        };
        assert_eq!(merge(r#"{"contents":[{}]}"#), r#"{"contents":[{}],"generation_config":{"seed": 1},"tools":[]}"#);
        let own = r#"{"contents":[{}],"generationConfig":{"seed":2}}"#;
        assert_eq!(merge(own), own.replace("}}", "},\"tools\":[]}"));
    }

    #[test]
    fn what_is_no_row_is_told() {
        bad(r#"{"request": {"contents": [{}]}}"#, "key: missing");
        bad(r#"{"key": "", "request": {"contents": [{}]}}"#, "key: must not be empty");
        bad(r#"{"key": 5, "request": {"contents": [{}]}}"#, "key: must be a string");
        bad(&format!(r#"{{"key": "{}", "request": {{"contents": [{{}}]}}}}"#, "k".repeat(3000)), "key: has 3000 bytes");
        bad(r#"{"key": "a"}"#, "request: missing");
        bad(r#"{"key": "a", "request": []}"#, "request: must be an object");
        bad(r#"{"key": "a", "request": {}}"#, "request.contents: missing");
        bad(r#"{"key": "a", "request": {"contents": "hi"}}"#, "must be an array");
        bad(r#"{"key": "a", "request": {"contents": ["hi"]}}"#, "must hold objects");
        bad(r#"{"key": "a", "request": {"contents": []}}"#, "must not be empty");
        bad(r#"{"key": "a", "request": {"contents": [{}], "contents": [{}]}}"#, "contents");
        bad(r#"{"key": "a", "expect": {}, "request": {"contents": [{}]}}"#, "expect: a row has");
        bad(r#"{"key": "a", "request": {"model": "x", "contents": [{}]}}"#, "request.model: a run has one model");
        bad(r#"{"gleaner": {}}"#, "options stand alone");
        bad("[]", "must be a JSON object");
        bad("{\"key\": ", "column");
    }
}
