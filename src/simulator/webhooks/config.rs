//! What a request says about the events of its own work: `webhook_config`, or `webhookConfig` of a batch.

use serde_json::{Map, Value};

use super::super::refusal::{Kind, Refusal};
use super::address;

/// Where the events of one piece of work go, and what they carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct WebhookConfig {
    /// In place of registered webhooks, unless there is none.
    pub(super) uris: Vec<String>,
    /// Comes back in each event as it is.
    pub(super) user_metadata: Option<Map<String, Value>>,
}

impl WebhookConfig {
    /// Reads it in either spelling.
    ///
    /// # Errors
    /// What the service would refuse.
    pub(in super::super) fn read(config: &Value) -> Result<Self, Refusal> {
        let invalid =
            |what: &str| Refusal::new(Kind::InvalidRequest, format!("Invalid value at 'webhook_config'{what}"));
        let fields = config.as_object().ok_or_else(|| invalid(": an object expected."))?;
        let mut read = Self::default();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_str(), value) {
                ("uris", Value::Array(uris)) => {
                    for uri in uris {
                        let uri = uri.as_str().filter(|uri| address::read(uri).is_some());
                        read.uris.push(uri.ok_or_else(|| invalid(".uris: addresses expected."))?.to_owned());
                    }
                }
                ("user_metadata" | "userMetadata", Value::Object(metadata)) => {
                    read.user_metadata = Some(metadata.clone());
                }
                (other, _) => return Err(invalid(&format!(": '{other}' is unknown, or of another type."))),
            }
        }
        Ok(read)
    }

    /// Of an accepted request, or of none.
    pub(super) fn of(config: Option<&Value>) -> Self {
        // It was read when the request was accepted.
        config.and_then(|config| Self::read(config).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_are_read_and_others_refused() {
        let metadata = json!({"key": "a", "n": [1, null]});
        let snake = json!({"uris": ["http://127.0.0.1/x"], "user_metadata": metadata});
        let camel = json!({"uris": ["http://127.0.0.1/x"], "userMetadata": metadata});
        let read = WebhookConfig::read(&snake).unwrap();
        assert_eq!(read, WebhookConfig::read(&camel).unwrap());
        assert_eq!((read.uris.len(), read.user_metadata), (1, metadata.as_object().cloned()));
        assert_eq!(WebhookConfig::read(&json!({})).unwrap(), WebhookConfig::default());
        for bad in [
            json!([]),
            json!({"uris": "http://127.0.0.1/x"}),
            json!({"uris": [7]}),
            json!({"uris": ["example.test"]}),
            json!({"user_metadata": "x"}),
            json!({"url": []}),
        ] {
            assert_eq!(WebhookConfig::read(&bad).unwrap_err().kind(), Kind::InvalidRequest, "{bad}");
        }
    }
}
