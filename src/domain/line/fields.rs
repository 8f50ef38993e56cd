//! The fields that lines and headers share: which the create call has, which are the program's own, and what each
//! may hold.

use super::super::job::{Mode, clip};
use super::super::json::{Json, Member};
use super::super::model;
use super::{KEY_LABEL, LineError, member};

/// The documented fields of the create call that a line may set
/// (<https://ai.google.dev/api/interactions-api>, and the types of google-genai 3.3.0).
const CREATE: [&str; 17] = [
    "input",
    "model",
    "agent",
    "system_instruction",
    "generation_config",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "tools",
    "safety_settings",
    "previous_interaction_id",
    "service_tier",
    "labels",
    "environment",
    "agent_config",
    "cached_content",
    "continuation_token",
];

/// Fields of the create call that only the program sets.
const OWN: [&str; 4] = ["background", "store", "stream", "webhook_config"];

/// How many bytes of a name or a value a message may quote.
const QUOTED_BYTES: usize = 48;

/// Whether the create call has that field, and a line may set it.
pub(super) fn is_create_field(name: &str) -> bool {
    CREATE.contains(&name)
}

/// An object whose fields are read, and the path under which errors name them: empty for a line,
/// `gleaner.request.` for the header's fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'m, 'a> {
    pub path: &'static str,
    pub class: &'static str,
    pub members: &'m [Member<'a>],
}

impl<'m, 'a> Fields<'m, 'a> {
    /// The fields of a line.
    pub fn of_line(members: &'m [Member<'a>]) -> Self {
        Self { path: "", class: "bad_line:field", members }
    }

    /// Fields of the header, under a path that ends in a dot.
    pub fn of_header(path: &'static str, members: &'m [Member<'a>]) -> Self {
        Self { path, class: "bad_line:header", members }
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&'m Member<'a>> {
        member(self.members, name)
    }

    /// An error about the field of that name.
    pub fn bad(&self, name: &str, why: &str) -> LineError {
        let message = format!("{}{}: {why}", self.path, clip(&name.escape_debug().to_string(), QUOTED_BYTES));
        LineError { class: self.class, message }
    }

    /// The text of a field that must be a string with something in it.
    pub fn text(&self, name: &str) -> Result<Option<&'m str>, LineError> {
        match self.get(name).map(|member| &member.value) {
            None => Ok(None),
            Some(Json::Text(text)) if text.is_empty() => Err(self.bad(name, "must not be empty")),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.bad(name, &format!("must be a string, not {}", other.kind()))),
        }
    }

    /// The members of a field that must be an object.
    pub fn object(&self, name: &str) -> Result<Option<&'m Member<'a>>, LineError> {
        match self.get(name) {
            Some(Member { value: Json::Object(_), .. }) | None => Ok(self.get(name)),
            Some(other) => Err(self.bad(name, &format!("must be an object, not {}", other.value.kind()))),
        }
    }

    /// `mode`.
    pub fn mode(&self) -> Result<Option<Mode>, LineError> {
        let Some(word) = self.text("mode")? else { return Ok(None) };
        let known = [Mode::Interaction, Mode::Call, Mode::Batch].into_iter().find(|mode| mode.word() == word);
        known.map(Some).ok_or_else(|| self.bad("mode", "must be interaction, call or batch"))
    }

    /// `model`, of which a URL must be made.
    pub fn model(&self) -> Result<Option<&'m str>, LineError> {
        match self.text("model")? {
            Some(model) if model::path(model).is_none() => Err(self.bad("model", model::NO_URL)),
            model => Ok(model),
        }
    }

    /// The model or agent that is named.
    pub fn target(&self) -> Result<Option<&'m str>, LineError> {
        match (self.model()?, self.text("agent")?) {
            (Some(_), Some(_)) => Err(self.bad("agent", "a model is named too; Gemini takes one of the two")),
            (model, agent) => Ok(model.or(agent)),
        }
    }

    /// Refuses fields that only the program sets, and labels that Gemini would refuse.
    pub fn check_create_fields(&self) -> Result<(), LineError> {
        if let Some(own) = OWN.into_iter().find(|name| self.get(name).is_some()) {
            return Err(self.bad(own, "set by gleaner itself, for every job; leave it out"));
        }
        let Some(labels) = self.object("labels")? else { return Ok(()) };
        match &labels.value {
            Json::Object(labels) => labels.iter().try_for_each(|label| self.check_label(label)),
            _ => Ok(()),
        }
    }

    /// The rules of <https://ai.google.dev/api/interactions-api>: at most 63 of `a-z 0-9 _ -`, and a name begins
    /// with a letter.
    fn check_label(&self, label: &Member<'_>) -> Result<(), LineError> {
        let bad = |why| Err(self.bad(&format!("labels.{}", label.name), why));
        if label.name == KEY_LABEL {
            return bad("set by gleaner itself, for every job; leave it out");
        }
        if !is_label_text(&label.name) || !label.name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return bad("a label's name is 1 to 63 of a-z 0-9 _ - and begins with a letter");
        }
        match &label.value {
            Json::Text(value) if is_label_text(value) => Ok(()),
            Json::Text(_) => bad("a label's value is at most 63 of a-z 0-9 _ -"),
            other => bad(&format!("must be a string, not {}", other.kind())),
        }
    }
}

/// Whether a label may hold that text: at most 63 of `a-z 0-9 _ -`. Empty is fine here.
#[must_use]
pub fn is_label_text(text: &str) -> bool {
    text.len() <= 63 && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}
