//! A line of mode `call`: the fields of generateContent, in either spelling, and `input` as a short form of `contents`.

use serde_json::value::RawValue;

use super::super::json::{Json, Member};
use super::fields::Fields;
use super::{LineError, raw};

/// The fields of the request that a line may set (<https://ai.google.dev/api/generate-content>, and the types of
/// google-genai 3.3.0), as they are sent. The model stands in the path.
const SENT: [&str; 8] = [
    "contents",
    "systemInstruction",
    "generationConfig",
    "safetySettings",
    "tools",
    "toolConfig",
    "cachedContent",
    "serviceTier",
];

/// Fields of interactions that a call has not, and what to do instead.
const INSTEAD: [(&str, &str); 15] = [
    ("response_format", "a plain call has generationConfig.responseMimeType and generationConfig.responseJsonSchema"),
    ("response_mime_type", "a plain call has it within generationConfig, as responseMimeType"),
    ("response_schema", "a plain call has it within generationConfig, as responseSchema"),
    ("response_json_schema", "a plain call has it within generationConfig, as responseJsonSchema"),
    ("response_modalities", "a plain call has them within generationConfig, as responseModalities"),
    ("previous_interaction_id", "a plain call knows no earlier turn: put the turns into contents"),
    ("continuation_token", "a plain call can't be continued: put the turns into contents"),
    ("agent", "agents run as interactions: leave mode out, or name a model instead"),
    ("agent_config", "agents run as interactions: leave mode out"),
    ("environment", "only interactions have one: leave mode out"),
    ("background", "a plain call answers at once; leave it out"),
    ("store", "a plain call is not kept at Gemini; leave it out"),
    ("stream", "a plain call is answered as a whole; leave it out"),
    ("webhook_config", "a plain call answers at once, and no event comes for it; leave it out"),
    ("labels", "a plain call has none; leave it out"),
];

/// The name under which a field is sent; none: generateContent has no such field.
pub(super) fn sent_as(name: &str) -> Option<&'static str> {
    let name = camel(name);
    SENT.into_iter().find(|sent| *sent == name)
}

/// Checks the fields that a line, a header or a replay sets. Whether there are contents at all is asked elsewhere.
pub(super) fn check(fields: &Fields<'_, '_>) -> Result<(), LineError> {
    for member in fields.members {
        let name = snake(&member.name);
        if let Some((_, why)) = INSTEAD.iter().find(|(known, _)| *known == name) {
            return Err(fields.bad(&member.name, why));
        }
        let Some(sent) = sent_as(&member.name) else { continue };
        if fields.members.iter().filter(|other| sent_as(&other.name) == Some(sent)).count() > 1 {
            return Err(fields.bad(&member.name, &format!("it is there in both spellings; {sent} is one field")));
        }
        match (sent, &member.value) {
            ("contents", value) => check_contents(fields, &member.name, value)?,
            ("systemInstruction", Json::Text(text)) if text.is_empty() => {
                return Err(fields.bad(&member.name, "must not be empty"));
            }
            ("systemInstruction", Json::Text(_) | Json::Object(_) | Json::Null) => {}
            ("systemInstruction", other) => {
                let why =
                    format!("must be a string or an object, as {{\"parts\": [{{\"text\": …}}]}}, not {}", other.kind());
                return Err(fields.bad(&member.name, &why));
            }
            ("generationConfig" | "toolConfig", Json::Object(_) | Json::Null) => {}
            ("generationConfig" | "toolConfig", other) => {
                return Err(fields.bad(&member.name, &format!("must be an object, not {}", other.kind())));
            }
            ("tools" | "safetySettings", Json::Array(_) | Json::Null) => {}
            ("tools" | "safetySettings", other) => {
                return Err(fields.bad(&member.name, &format!("must be an array, not {}", other.kind())));
            }
            _ => {}
        }
    }
    match fields.get("input").map(|input| &input.value) {
        None => Ok(()),
        Some(_) if fields.members.iter().any(|member| sent_as(&member.name) == Some("contents")) => {
            Err(fields.bad("input", "contents are there too; give one of the two"))
        }
        Some(Json::Text(text)) if !text.is_empty() => Ok(()),
        Some(Json::Text(_)) => Err(fields.bad("input", "must not be empty")),
        Some(value @ Json::Array(_)) => check_contents(fields, "input", value),
        Some(other) => {
            let why = format!("must be a string, or an array of contents, not {}", other.kind());
            Err(fields.bad("input", &why))
        }
    }
}

/// Whether something is asked: contents, or an input that becomes them.
pub(super) fn asks(fields: &Fields<'_, '_>) -> Result<(), LineError> {
    let asks = |member: &&Member<'_>| member.name == "input" || sent_as(&member.name) == Some("contents");
    match fields.members.iter().find(asks) {
        Some(Member { value: Json::Null, name, .. }) => Err(fields.bad(name, "must not be null")),
        Some(_) => Ok(()),
        None => Err(fields.bad("input", "missing; a call has an input, or contents")),
    }
}

fn check_contents(fields: &Fields<'_, '_>, name: &str, contents: &Json<'_>) -> Result<(), LineError> {
    let form = "as [{\"role\": \"user\", \"parts\": [{\"text\": …}]}]";
    let Json::Array(contents) = contents else {
        return Err(fields.bad(name, &format!("must be an array, {form}, not {}", contents.kind())));
    };
    if contents.is_empty() {
        return Err(fields.bad(name, "must not be empty"));
    }
    let is_content = |content: &Json<'_>| match content {
        Json::Object(members) => members.iter().any(|member| member.name == "parts"),
        _ => false,
    };
    match contents.iter().all(is_content) {
        true => Ok(()),
        false => Err(fields.bad(name, &format!("must hold generateContent's contents, {form}"))),
    }
}

/// The fields as they are sent: in camelCase, `input` as contents, a bare system instruction as a content.
pub(super) fn sent(members: &[Member<'_>]) -> Result<Vec<(String, Box<RawValue>)>, LineError> {
    let mut sent = Vec::new();
    for member in members {
        match (sent_as(&member.name), &member.value) {
            (Some("systemInstruction"), Json::Text(_)) => {
                let content = format!("{{\"parts\":[{{\"text\":{}}}]}}", member.text);
                sent.push(("systemInstruction".to_owned(), raw(&content)?));
            }
            (Some(name), _) => sent.push((name.to_owned(), raw(member.text)?)),
            (None, _) if member.name == "input" => sent.push(("contents".to_owned(), raw(&contents(member))?)),
            (None, _) => {}
        }
    }
    Ok(sent)
}

/// What an input asks, as contents.
fn contents(input: &Member<'_>) -> String {
    match input.value {
        Json::Text(_) => format!("[{{\"role\":\"user\",\"parts\":[{{\"text\":{}}}]}}]", input.text),
        _ => input.text.to_owned(),
    }
}

/// `system_instruction` as `systemInstruction`; what has no underscore stays as it is.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// The other way round.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
