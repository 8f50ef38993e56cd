//! Reading the input of a batch, which is checked when the batch is created: one bad line refuses all of it
//! (gemini-api, sections 2.1 and 2.2).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::super::answer::{Digest, Question};
use super::row::Row;

/// The fields of a request, in lower camel case.
const FIELDS: &[(&str, char)] = &[
    ("cachedContent", '"'),
    ("contents", '['),
    ("generationConfig", '{'),
    ("labels", '{'),
    ("model", '"'),
    ("safetySettings", '['),
    ("serviceTier", '"'),
    ("store", ' '),
    ("systemInstruction", '{'),
    ("toolConfig", '{'),
    ("tools", '['),
];

/// The fields of a request's `generationConfig`, in lower camel case.
const CONFIG: &[&str] = &[
    "_responseJsonSchema",
    "candidateCount",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "imageConfig",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

/// A line that the service would take.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Option<String>,
    /// Beside an inline request.
    pub(super) metadata: Option<Value>,
    /// With its fields in lower camel case, however they were written.
    pub(super) request: Value,
}

impl Entry {
    /// Reads one line. An error is the end of the sentence about it.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let fields: Value = serde_json::from_slice(line)
            .map_err(|error| format!("invalid JSON, near column {}: {error}", error.column()))?;
        let Value::Object(mut fields) = fields else {
            return Err("invalid JSON, near column 1: expected '{'".to_owned());
        };
        let key = match fields.remove("key") {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) => Some(key),
            Some(other) => return Err(unexpected(line, "key", &other, '"')),
        };
        let metadata = fields.remove("metadata");
        let request = match fields.remove("request") {
            Some(Value::Object(request)) => checked(line, request)?,
            Some(other) => return Err(unexpected(line, "request", &other, '{')),
            None => return Err("no request".to_owned()),
        };
        Ok(Self { key, metadata, request })
    }
}

/// The request with its names in lower camel case, if it has no others.
fn checked(line: &[u8], request: Map<String, Value>) -> Result<Value, String> {
    let mut fields = Map::new();
    for (written, mut value) in request.into_iter().filter(|(_, value)| !value.is_null()) {
        let name = camel(&written);
        let Some((_, start)) = FIELDS.iter().find(|(known, _)| *known == name) else {
            return Err(no_such_field(line, &written));
        };
        if *start != ' ' && !value.to_string().starts_with(*start) {
            return Err(unexpected(line, &written, &value, *start));
        }
        if name == "generationConfig" {
            value = Value::Object(checked_config(line, value)?);
        }
        fields.insert(name, value);
    }
    let contents = fields.get("contents").and_then(Value::as_array);
    if contents.is_none_or(|contents| contents.is_empty() || !contents.iter().all(Value::is_object)) {
        return Err("GenerateContentRequest.contents: contents is not specified".to_owned());
    }
    Ok(Value::Object(fields))
}

fn checked_config(line: &[u8], config: Value) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    for (written, value) in config.as_object().cloned().unwrap_or_default() {
        let name = camel(&written);
        if !CONFIG.contains(&name.as_str()) {
            return Err(no_such_field(line, &written));
        }
        fields.insert(name, value);
    }
    Ok(fields)
}

/// `response_mime_type` as `responseMimeType`; a leading underscore stays.
fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut up = false;
    for letter in name.chars() {
        if letter == '_' && !camel.is_empty() {
            up = true;
        } else if up {
            camel.extend(letter.to_uppercase());
            up = false;
        } else {
            camel.push(letter);
        }
    }
    camel
}

/// Where a name stands in a line, from 1 on.
fn column(line: &[u8], name: &str) -> usize {
    let quoted = Value::from(name).to_string();
    let found = line.windows(quoted.len()).position(|window| window == quoted.as_bytes());
    found.map_or(1, |place| place + 1)
}

pub(super) fn no_such_field(line: &[u8], name: &str) -> String {
    format!("invalid JSON, near column {}: no such field: '{name}'", column(line, name))
}

fn unexpected(line: &[u8], name: &str, value: &Value, expected: char) -> String {
    let found = value.to_string().chars().next().unwrap_or(' ');
    let column = column(line, name);
    format!("invalid JSON, near column {column}: unexpected character: '{found}'; expected '{expected}'")
}

/// What was read of an input.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    /// One sentence for each bad line.
    pub(super) errors: Vec<String>,
    pub(super) bytes: u64,
}

/// Reads and checks every line. `refuse` says of a good one whether it shall be refused all the same.
pub(super) fn read(path: &Path, refuse: impl Fn(Digest) -> bool) -> io::Result<Read> {
    let (mut lines, mut line) = (BufReader::with_capacity(1 << 17, File::open(path)?), Vec::new());
    let mut read = Read::default();
    for number in 1_u64.. {
        line.clear();
        let length = u64::try_from(lines.read_until(b'\n', &mut line)?).unwrap_or(u64::MAX);
        if length == 0 {
            break;
        }
        let offset = read.bytes;
        read.bytes += length;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Entry::read(&line) {
            Ok(entry) => {
                let question = Question::of_contents(&entry.request);
                if refuse(question.digest) {
                    read.errors.push(format!("Error on line {number}: {}", no_such_field(&line, "contents")));
                    continue;
                }
                let (digest, wants_json) = (question.digest.0, question.wants_json());
                read.rows.push(Row { offset, length, key: entry.key, digest, nth: 0, fault: None, wants_json });
            }
            Err(why) => read.errors.push(format!("Error on line {number}: {why}")),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_are_the_same_request() {
        let camel =
            r#"{"key":"a","request":{"contents":[{"parts":[]}],"generationConfig":{"responseMimeType":"text/plain"}}}"#;
        let snake = r#"{"key":"a","request":{"contents":[{"parts":[]}],"generation_config":{"response_mime_type":"text/plain"}}}"#;
        assert_eq!(Entry::read(camel.as_bytes()).unwrap(), Entry::read(snake.as_bytes()).unwrap());
    }

    #[test]
    fn bad_lines_are_told_with_their_place() {
        for (line, why) in [
            (r#"{"key":"#, "invalid JSON, near column 7: EOF while parsing"),
            (r#"[]"#, "invalid JSON, near column 1: expected '{'"),
            (r#"{"key":7,"request":{}}"#, "invalid JSON, near column 2: unexpected character: '7'; expected '\"'"),
            (r#"{"key":"a"}"#, "no request"),
            (r#"{"key":"a","request":{}}"#, "GenerateContentRequest.contents: contents is not specified"),
            (r#"{"request":{"thinking_config":{}}}"#, "invalid JSON, near column 13: no such field: 'thinking_config'"),
            (r#"{"request":{"generation_config":{"x":1}}}"#, "invalid JSON, near column 34: no such field: 'x'"),
            (
                r#"{"request":{"system_instruction":[]}}"#,
                "invalid JSON, near column 13: unexpected character: '['; expected '{'",
            ),
        ] {
            let error = Entry::read(line.as_bytes()).unwrap_err();
            assert!(error.starts_with(why), "{line}: {error}");
        }
        assert!(Entry::read(json!({"custom_id": "x", "request": {"contents": [{}]}}).to_string().as_bytes()).is_ok());
    }
}
