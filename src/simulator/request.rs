//! Reading a request the way the service does, which refuses what it doesn't know.

use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::refusal::{Kind, Refusal};
use super::webhooks::WebhookConfig;

/// The documented fields of a create call, for models and for agents (gemini-api, section 1.2).
const FIELDS: &[(&str, Shape)] = &[
    ("agent", Shape::Text),
    ("agent_config", Shape::Object),
    ("background", Shape::Bool),
    ("cached_content", Shape::Text),
    ("continuation_token", Shape::Text),
    ("environment", Shape::Any),
    ("generation_config", Shape::Object),
    ("input", Shape::Any),
    ("labels", Shape::Object),
    ("model", Shape::Text),
    ("previous_interaction_id", Shape::Text),
    ("response_format", Shape::Any),
    ("response_mime_type", Shape::Text),
    ("response_modalities", Shape::Array),
    ("safety_settings", Shape::Array),
    ("service_tier", Shape::Text),
    ("store", Shape::Bool),
    ("stream", Shape::Bool),
    ("system_instruction", Shape::Text),
    ("tools", Shape::Array),
    ("webhook_config", Shape::Object),
];

#[derive(Debug, Clone, Copy)]
enum Shape {
    Any,
    Array,
    Bool,
    Object,
    Text,
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Array => value.is_array(),
            Self::Bool => value.is_boolean(),
            Self::Object => value.is_object(),
            Self::Text => value.is_string(),
        }
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Kind::InvalidRequest, message)
}

/// The bytes of a request, in memory of their own: a part of the connection's buffer would keep all of it.
pub(super) fn bytes(body: Result<Bytes, BytesRejection>) -> Result<Box<[u8]>, Refusal> {
    body.map(|bytes| bytes.as_ref().into()).map_err(|error| invalid(format!("Request body: {error}")))
}

/// A JSON object. A null is as good as an absent field, as everywhere at Google.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let mut fields: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| invalid(format!("Invalid JSON payload received: {error}")))?;
    fields.retain(|_, value| !value.is_null());
    Ok(fields)
}

/// A create call that the service would take.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Create {
    /// The whole body.
    pub(super) body: Value,
    pub(super) background: bool,
    pub(super) store: bool,
    pub(super) previous: Option<String>,
}

impl Create {
    pub(super) fn read(fields: Map<String, Value>) -> Result<Self, Refusal> {
        for (name, value) in &fields {
            let Some((_, shape)) = FIELDS.iter().find(|(known, _)| known == name) else {
                return Err(Refusal::new(Kind::ParameterUnknown, format!("Unknown parameter: '{name}'.")));
            };
            if !shape.fits(value) {
                return Err(invalid(format!("Invalid value at '{name}': {shape:?} expected.")));
            }
        }
        let flag = |name: &str| fields.get(name).and_then(Value::as_bool);
        let create = Self {
            background: flag("background").unwrap_or(false),
            store: flag("store").unwrap_or(true),
            previous: fields.get("previous_interaction_id").and_then(Value::as_str).map(str::to_owned),
            body: Value::Object(fields),
        };
        create.check().map(|()| create)
    }

    fn check(&self) -> Result<(), Refusal> {
        let has = |name: &str| self.body.get(name);
        self.check_actor()?;
        match has("input") {
            None => return Err(invalid("Missing required parameter: 'input'.")),
            Some(Value::String(_) | Value::Array(_) | Value::Object(_)) => {}
            Some(_) => return Err(invalid("Invalid value at 'input': a string, an object or an array expected.")),
        }
        if self.background && !self.store {
            return Err(invalid("'background' needs 'store' to be true."));
        }
        if has("webhook_config").is_some() && !self.background {
            return Err(invalid("'webhook_config' needs 'background' to be true."));
        }
        if let Some(config) = has("webhook_config") {
            WebhookConfig::read(config)?;
        }
        if has("stream") == Some(&Value::Bool(true)) {
            return Err(Refusal::new(Kind::Unimplemented, "The simulator does not stream."));
        }
        check_labels(has("labels").and_then(Value::as_object))
    }

    fn check_actor(&self) -> Result<(), Refusal> {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str);
        match (text("model"), text("agent")) {
            (Some(_), Some(_)) => return Err(invalid("Only one of 'model' and 'agent' can be set.")),
            (None, None) => return Err(invalid("One of 'model' and 'agent' must be set.")),
            (Some(name), None) => check_model(name)?,
            (None, Some(name)) => {
                check_model(name)?;
                if self.body.get("generation_config").is_some() {
                    return Err(invalid("'generation_config' can't be used with 'agent'."));
                }
                if name.starts_with("deep-research") && !self.background {
                    return Err(invalid(format!("Agent '{name}' needs 'background' to be true.")));
                }
            }
        }
        if text("model").is_some() && self.body.get("agent_config").is_some() {
            return Err(invalid("'agent_config' can't be used with 'model'."));
        }
        Ok(())
    }
}

/// Names live for months, so every name is taken but the empty one and those that contain `no-such`.
pub(super) fn check_model(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.contains("no-such") {
        return Err(Refusal::new(Kind::ModelNotFound, format!("Model '{name}' was not found.")));
    }
    Ok(())
}

/// The rules of gemini-api, section 1.7.
fn check_labels(labels: Option<&Map<String, Value>>) -> Result<(), Refusal> {
    let allowed = |c: char| (c.is_alphanumeric() && !c.is_uppercase()) || c == '_' || c == '-';
    let well = |text: &str| text.chars().count() <= 63 && text.chars().all(allowed);
    for (key, value) in labels.into_iter().flatten() {
        if !well(key) || !key.starts_with(char::is_alphabetic) {
            return Err(invalid(format!("Invalid label key: '{key}'.")));
        }
        if !value.as_str().is_some_and(well) {
            return Err(invalid(format!("Invalid value of label '{key}'.")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A good request with some fields changed; null takes one away.
    fn read(changes: &Value) -> Result<Create, Refusal> {
        let mut fields = json!({"model": "gemini-flash-latest", "input": "hi"}).as_object().unwrap().clone();
        for (name, value) in changes.as_object().unwrap() {
            fields.insert(name.clone(), value.clone());
        }
        fields.retain(|_, value| !value.is_null());
        Create::read(fields)
    }

    #[test]
    fn good_requests_pass() {
        let full = json!({"background": true, "system_instruction": "Be short.", "generation_config": {"seed": 1},
            "labels": {"task": "t-000123", "empty": "", "日本": "東京"}, "webhook_config": {"uris": []}});
        let create = read(&full).unwrap();
        assert!(create.background && create.store);
        assert!(read(&json!({"store": false, "input": [{"type": "text", "text": "x"}]})).is_ok());
        assert!(read(&json!({"model": null, "agent": "deep-research-preview-04-2026", "background": true})).is_ok());
    }

    #[test]
    fn bad_requests_are_refused_with_their_word() {
        let long = "a".repeat(64);
        for (changes, word) in [
            (json!({"metadata": {}}), Kind::ParameterUnknown),
            (json!({"model": null}), Kind::InvalidRequest),
            (json!({"agent": "a"}), Kind::InvalidRequest),
            (json!({"input": null}), Kind::InvalidRequest),
            (json!({"input": 7}), Kind::InvalidRequest),
            (json!({"model": "no-such-model"}), Kind::ModelNotFound),
            (json!({"background": true, "store": false}), Kind::InvalidRequest),
            (json!({"background": "yes"}), Kind::InvalidRequest),
            (json!({"webhook_config": {}}), Kind::InvalidRequest),
            (json!({"stream": true}), Kind::Unimplemented),
            (json!({"labels": {"Task": "x"}}), Kind::InvalidRequest),
            (json!({"labels": {"1task": "x"}}), Kind::InvalidRequest),
            (json!({"labels": {"": "x"}}), Kind::InvalidRequest),
            (json!({"labels": {"task": 1}}), Kind::InvalidRequest),
            (json!({"labels": {"task": "a b"}}), Kind::InvalidRequest),
            (json!({"labels": {"task": long}}), Kind::InvalidRequest),
            (json!({"model": null, "agent": "a", "generation_config": {}}), Kind::InvalidRequest),
            (json!({"model": null, "agent": "deep-research-preview-04-2026"}), Kind::InvalidRequest),
            (json!({"agent_config": {"type": "dynamic"}}), Kind::InvalidRequest),
        ] {
            assert_eq!(read(&changes).unwrap_err().kind(), word, "{changes}");
        }
    }
}
