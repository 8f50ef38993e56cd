//! From a good answer to a value (design, section 6). An answer without a usable value is never a success.

use serde_json::value::RawValue;

use super::classify::Judgement;
use super::interaction::Interaction;

/// What a job's answer must be, taken from its request and its `expect`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expectation {
    /// JSON rather than text.
    pub json: bool,
    /// The schema it must fit: JSON Schema, or Gemini's upper-case OpenAPI dialect.
    pub schema: Option<serde_json::Value>,
    /// Whether an answer that doesn't fit may be tried again under the cap (`expect.retry`).
    pub retry: bool,
    /// Whether the request asked for something other than text (images, audio): then a media part is a value too.
    pub media: bool,
}

impl Expectation {
    /// From the create call's fields (`response_format`, `response_mime_type`, `response_modalities`,
    /// `generation_config`) and the line's `expect`, which decides where both speak.
    ///
    /// # Errors
    /// A field that can't be read or a schema that is no schema, in words that name the field.
    pub fn of(request: &serde_json::Value, expect: Option<&serde_json::Value>) -> Result<Self, String> {
        unimplemented!("{request:?} {expect:?}")
    }
}

/// The value of a completed interaction, or why it has none.
///
/// # Errors
/// The judgement to act on, and a message for people.
pub fn extract(interaction: &Interaction, expectation: &Expectation) -> Result<Box<RawValue>, (Judgement, String)> {
    unimplemented!("{interaction:?} {expectation:?}")
}
