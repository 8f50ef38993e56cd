//! What a create call carries so that Gemini calls back.

use serde_json::{Value, json};

/// Where Gemini is to send the event of one job, and what comes back with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook<'a> {
    /// `GLEANER_WEBHOOK_URL`.
    pub url: &'a str,
    /// The job's key.
    pub key: &'a str,
    /// The reservation's nonce: nobody else can know it.
    pub nonce: &'a str,
}

impl Hook<'_> {
    /// `webhook_config` of an interaction.
    #[must_use]
    pub fn of_interaction(&self) -> Value {
        json!({"uris": [self.url], "user_metadata": self.user_metadata()})
    }

    /// `webhookConfig` of a batch job.
    #[must_use]
    pub fn of_batch(&self) -> Value {
        json!({"uris": [self.url], "userMetadata": self.user_metadata()})
    }

    fn user_metadata(&self) -> Value {
        json!({"key": self.key, "nonce": self.nonce})
    }
}
