//! From a good answer to a value (design, section 6). An answer without a usable value is never a success.

mod expectation;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::classify::{Judgement, Met, Verdict, classify};
use super::failure::{Code, Failure};
use super::interaction::{Interaction, Media, Standing};
use super::json::Json;
use super::raw;
use super::schema::Schema;

/// What a job's answer must be, taken from its request and its `expect`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectation {
    /// JSON rather than text.
    pub json: bool,
    /// The schema it must fit: JSON Schema, or Gemini's upper-case OpenAPI dialect.
    pub schema: Option<Value>,
    /// Whether an answer that doesn't fit may be tried again under the cap (`expect.retry`).
    pub retry: bool,
    /// Whether the request asked for something other than text (images, audio): then a media part is a value too.
    pub media: bool,
}

/// The value of a completed interaction, or why it has none.
///
/// The value is one line of JSON. Text is a JSON string. JSON is the model's own text, its numbers and escapes as
/// written, without the white space between tokens; a fenced block round the whole of it is unwrapped, and nothing
/// else is repaired. Where media was asked for and no text came, it is
/// `{"media": [{"type", "mime_type", "uri"?, "pointer"}]}`, each pointer leading into the response.
///
/// # Errors
/// The judgement to act on, and a message for people that does not repeat the answer. Any interaction that is not
/// completed has no value: it is judged by its standing; one that still runs is `unknown`, and no failure at all.
pub fn extract(interaction: &Interaction, expectation: &Expectation) -> Result<Box<RawValue>, (Judgement, String)> {
    match interaction.standing() {
        Standing::Completed => {}
        Standing::Failed => return Err(judged(&interaction.failure())),
        Standing::Cancelled => {
            let cancelled = Failure { code: Some(Code::Word("cancelled".to_owned())), ..Failure::default() };
            return Err((classify(&cancelled, Met::InWork), "Gemini cancelled the interaction".to_owned()));
        }
        Standing::Truncated => {
            let status = &interaction.status;
            return Err((Judgement::truncated(), format!("a limit cut the answer: the interaction is {status}")));
        }
        Standing::RequiresAction => {
            let message = "the interaction waits for the result of a function call".to_owned();
            return Err((Judgement::requires_action(), message));
        }
        Standing::Running => {
            return Err((Judgement::retryable("unknown"), "the interaction is not finished".to_owned()));
        }
    }
    if let Some(failure) = interaction.broken_off() {
        return Err(judged(&failure));
    }
    let text = interaction.output_text();
    if text.trim().is_empty() {
        let failure = interaction.failure();
        if failure != Failure::default() {
            return Err(judged(&failure));
        }
    }
    value(&text, &interaction.media(), expectation)
}

/// The judgement of a failure inside finished work, and its line for people.
pub(super) fn judged(failure: &Failure) -> (Judgement, String) {
    (classify(failure, Met::InWork), failure.summary())
}

/// The value of an answer's visible text and media.
pub(super) fn value(
    text: &str,
    media: &[Media],
    expectation: &Expectation,
) -> Result<Box<RawValue>, (Judgement, String)> {
    value_by(text, media, expectation, &|value| fits(value, expectation))
}

/// The same with a check that the caller keeps ready, for many answers to one expectation: it must say what
/// [`fits`] says.
pub(super) fn value_by(
    text: &str,
    media: &[Media],
    expectation: &Expectation,
    fits: &dyn Fn(&Value) -> Result<(), String>,
) -> Result<Box<RawValue>, (Judgement, String)> {
    if text.trim().is_empty() {
        if expectation.media && !expectation.json && !media.is_empty() {
            return written(&json!({"media": media.iter().map(pointed).collect::<Vec<_>>()}));
        }
        return Err((Judgement::empty(), "the answer has no visible text".to_owned()));
    }
    if expectation.json {
        return json_value(text, expectation, fits);
    }
    fits(&Value::String(text.trim().to_owned())).map_err(|message| unfit("extract:schema", message, expectation))?;
    written(&Value::String(text.to_owned()))
}

fn json_value(
    text: &str,
    expectation: &Expectation,
    fits: &dyn Fn(&Value) -> Result<(), String>,
) -> Result<Box<RawValue>, (Judgement, String)> {
    let no_json = |error: String| {
        unfit("extract:json", format!("the answer is not the JSON that was asked for: {error}"), expectation)
    };
    let text = unfenced(text);
    // As strict as a line: a name that an object repeats is an error, for readers differ on which one counts.
    let value = Json::parse(text).map_err(|error| no_json(error.to_string()))?.to_value();
    fits(&value).map_err(|message| unfit("extract:schema", message, expectation))?;
    RawValue::from_string(raw::one_line(text)).map_err(|error| no_json(error.to_string()))
}

/// Whether a value fits the schema, if there is one.
pub(super) fn fits(value: &Value, expectation: &Expectation) -> Result<(), String> {
    let Some(schema) = &expectation.schema else { return Ok(()) };
    fits_compiled(value, &Schema::compile(schema))
}

/// Whether a value fits a schema that was compiled, or that could not be.
pub(super) fn fits_compiled(value: &Value, schema: &Result<Schema, String>) -> Result<(), String> {
    let schema = schema.as_ref().map_err(|error| format!("the schema {error}"))?;
    schema.check(value).map_err(|error| format!("the answer does not fit the schema: {error}"))
}

/// An answer that isn't what was asked for fails for good, unless `expect.retry` allows attempts.
fn unfit(class: &str, message: String, expectation: &Expectation) -> (Judgement, String) {
    let verdict = if expectation.retry { Verdict::Retryable } else { Verdict::Permanent };
    (Judgement { verdict, class: class.to_owned(), delay: None }, message)
}

/// What stands inside a Markdown fence that holds the whole text: three backticks, alone or with `json`.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    let after_word = inside.split_at_checked("json".len()).filter(|(word, _)| word.eq_ignore_ascii_case("json"));
    after_word.map_or(inside, |(_, rest)| rest).trim()
}

fn pointed(media: &Media) -> Value {
    let mut value = json!({"type": media.kind, "pointer": media.pointer});
    for (name, member) in [("mime_type", &media.mime_type), ("uri", &media.uri)] {
        if let (Some(object), Some(member)) = (value.as_object_mut(), member) {
            object.insert(name.to_owned(), member.as_str().into());
        }
    }
    value
}

/// A value that this program made, as JSON.
fn written(value: &Value) -> Result<Box<RawValue>, (Judgement, String)> {
    RawValue::from_string(value.to_string())
        .map_err(|error| (Judgement::retryable("unknown"), format!("the value can't be written: {error}")))
}

#[cfg(test)]
mod tests;
