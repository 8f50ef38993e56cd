//! An interaction as Gemini returns it, its bytes kept unchanged.

use serde_json::value::RawValue;

use super::failure::Failure;
use super::mask::bound;
use super::raw::{elements, field, members};

/// Models whose answers still come in the old `outputs`, which the SDK reads as one step of output.
const OLD_OUTPUTS: [&str; 2] = ["lyria-3-pro-preview", "lyria-3-clip-preview"];

/// Where an interaction stands. Open: what this program doesn't know is `Running` until the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// `queued`, `in_progress`, `requires_continuation`, `idle`, or a word this program doesn't know.
    Running,
    /// `completed`.
    Completed,
    /// `failed`.
    Failed,
    /// `cancelled`.
    Cancelled,
    /// `incomplete` or `budget_exceeded`.
    Truncated,
    /// `requires_action`.
    RequiresAction,
}

/// The longest id that is taken, in bytes: the ledger keeps it in every item. Those seen have tens to
/// hundreds.
pub const ID_BYTES: usize = 1024;

/// An interaction.
#[derive(Debug, Clone)]
pub struct Interaction {
    /// Gemini's own bytes, valid JSON.
    pub raw: Box<RawValue>,
    /// Its id.
    pub id: String,
    /// `status` as it came.
    pub status: String,
}

/// An image, a sound or a video in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// `image`, `audio` or `video`.
    pub kind: String,
    /// Its MIME type, if it says so.
    pub mime_type: Option<String>,
    /// Where its bytes lie when they are not in the answer.
    pub uri: Option<String>,
    /// The JSON pointer (RFC 6901) to its content part in the answer.
    pub pointer: String,
}

impl Interaction {
    /// Reads an interaction: a JSON object with a non-empty string `id`; unknown fields pass, and the rest is read
    /// only when it is asked for. White space around the object is not kept. Nesting of any depth is taken.
    ///
    /// # Errors
    /// What is wrong, in words without the content; an `error` that came under a success status is told.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let raw: Box<RawValue> = serde_json::from_slice(body).map_err(|e| format!("the answer is no JSON: {e}"))?;
        let fields = members(&raw).ok_or("the answer is no JSON object")?;
        let Some(id) = field(&fields, "id").filter(|id| !id.is_empty()) else {
            let error = fields.get("error").map(|error| failure_in(error)).filter(|error| *error != Failure::default());
            return Err(error.map_or_else(
                || "the answer has no id".to_owned(),
                |error| format!("the answer has no id but an error: {}", error.summary()),
            ));
        };
        if id.len() > ID_BYTES {
            return Err(format!("the answer's id has {} bytes; at most {ID_BYTES} are taken", id.len()));
        }
        let status = field(&fields, "status").unwrap_or_default();
        drop(fields);
        Ok(Self { raw, id, status })
    }

    /// The label of that name, where the answer repeats the labels it was created with.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<String> {
        let fields = members(&self.raw)?;
        fields.get("labels").and_then(|labels| members(labels)).and_then(|labels| field(&labels, name))
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.status.as_str() {
            "completed" => Standing::Completed,
            "failed" => Standing::Failed,
            "cancelled" => Standing::Cancelled,
            "incomplete" | "budget_exceeded" => Standing::Truncated,
            "requires_action" => Standing::RequiresAction,
            _ => Standing::Running,
        }
    }

    /// Why it failed: its `errors`, else its last step's error, else a failure without a code.
    ///
    /// Of several `errors` it is the first that says something; of several steps with an error after the last
    /// `user_input`, the last.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let fields = members(&self.raw).unwrap_or_default();
        let told = |failure: &Failure| *failure != Failure::default();
        let errors = fields.get("errors").and_then(|errors| elements(errors)).unwrap_or_default();
        let steps = self.turn();
        let of_steps = || steps.iter().rev().filter_map(|step| step.error.map(failure_in)).find(told);
        errors.into_iter().map(failure_in).find(told).or_else(of_steps).unwrap_or_default()
    }

    /// The error with which the answer broke off: that of its very last step of output. A finished interaction that
    /// has one holds no whole answer, whatever its status says.
    #[must_use]
    pub fn broken_off(&self) -> Option<Failure> {
        let steps = self.turn();
        let last = steps.iter().rev().find(|step| step.kind == "model_output")?;
        last.error.map(failure_in).filter(|failure| *failure != Failure::default())
    }

    /// Its `usage`, unchanged; `null` when it has none.
    #[must_use]
    pub fn usage(&self) -> Box<RawValue> {
        let fields = members(&self.raw).unwrap_or_default();
        fields.get("usage").map_or_else(|| RawValue::NULL.to_owned(), |usage| (*usage).to_owned())
    }

    /// The text that people see, as the SDK's `output_text` (google-genai 3.3.0): from the end back over output and
    /// thought steps to the last `user_input`; once text was found, any other step or part ends it. Empty when
    /// there is none.
    #[must_use]
    pub fn output_text(&self) -> String {
        let mut found: Vec<String> = Vec::new();
        'steps: for step in self.turn().iter().rev() {
            match step.kind.as_str() {
                "thought" => {}
                "model_output" => {
                    for part in step.content.iter().rev() {
                        let fields = members(part).unwrap_or_default();
                        if field(&fields, "type").as_deref() == Some("text") {
                            found.push(field(&fields, "text").unwrap_or_default());
                        } else if !found.is_empty() {
                            break 'steps;
                        }
                    }
                }
                _ if found.is_empty() => {}
                _ => break,
            }
        }
        found.reverse();
        found.concat()
    }

    /// Images, sounds and videos of the answer, in their order.
    #[must_use]
    pub fn media(&self) -> Vec<Media> {
        let mut media = Vec::new();
        for step in self.turn().iter().filter(|step| step.kind == "model_output") {
            for (index, part) in step.content.iter().enumerate() {
                let fields = members(part).unwrap_or_default();
                if let Some(kind) =
                    field(&fields, "type").filter(|kind| matches!(kind.as_str(), "image" | "audio" | "video"))
                {
                    let pointer = format!("{}/{index}", step.pointer);
                    media.push(Media {
                        kind,
                        mime_type: field(&fields, "mime_type"),
                        uri: field(&fields, "uri"),
                        pointer,
                    });
                }
            }
        }
        media
    }

    /// The steps after the last `user_input`, in their order.
    fn turn(&self) -> Vec<Step<'_>> {
        let fields = members(&self.raw).unwrap_or_default();
        let is_old = || field(&fields, "model").is_some_and(|model| OLD_OUTPUTS.contains(&model.as_str()));
        let steps = match (fields.get("steps"), fields.get("outputs")) {
            (None, Some(outputs)) if is_old() => vec![Step {
                kind: "model_output".to_owned(),
                content: elements(outputs).unwrap_or_default(),
                error: None,
                pointer: "/outputs".to_owned(),
            }],
            (steps, _) => steps
                .and_then(|steps| elements(steps))
                .unwrap_or_default()
                .into_iter()
                .enumerate()
                .map(Step::read)
                .collect(),
        };
        let start = steps.iter().rposition(|step| step.kind == "user_input").map_or(0, |input| input + 1);
        steps.into_iter().skip(start).collect()
    }
}

/// One step of the timeline.
struct Step<'a> {
    kind: String,
    content: Vec<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// The JSON pointer to its content.
    pointer: String,
}

impl<'a> Step<'a> {
    fn read((index, raw): (usize, &'a RawValue)) -> Self {
        let fields = members(raw).unwrap_or_default();
        Self {
            kind: field(&fields, "type").unwrap_or_default(),
            content: fields.get("content").and_then(|content| elements(content)).unwrap_or_default(),
            error: fields.get("error").copied(),
            pointer: format!("/steps/{index}/content"),
        }
    }
}

/// The failure that an error object tells. One that can't be read as a whole is kept as its text.
fn failure_in(error: &RawValue) -> Failure {
    let read = serde_json::from_str(error.get()).map(|error| Failure::from_error(&error));
    read.unwrap_or_else(|_| Failure::from_error(&serde_json::Value::String(bound(error.get(), 4_000))))
}

#[cfg(test)]
mod tests;
