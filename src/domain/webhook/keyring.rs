//! The signing secrets that are kept, and which webhook each belongs to.

use serde::{Deserialize, Serialize};

use super::secret::SigningSecret;
use crate::domain::time::Millis;

/// What the secret, or the file, with signing secrets holds: `{"webhook_secrets": ["whsec_..."]}` and, for those that
/// this program put there, what is known about each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyring {
    /// The secrets, newest first.
    webhook_secrets: Vec<String>,
    /// What is known about some of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    about: Vec<About>,
}

/// What is known about one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    /// Its fingerprint.
    secret: String,
    /// The webhook's id at Gemini.
    webhook: String,
    /// When Gemini stops signing with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Millis>,
}

impl Keyring {
    /// Those that an event of `now` may be signed with.
    #[must_use]
    pub fn valid(&self, now: Millis) -> Vec<SigningSecret> {
        let parsed = self.webhook_secrets.iter().filter_map(|text| SigningSecret::parse(text).ok());
        parsed.filter(|secret| !self.is_over(&secret.fingerprint(), now)).collect()
    }

    fn is_over(&self, fingerprint: &str, now: Millis) -> bool {
        self.about.iter().any(|about| about.secret == fingerprint && about.until.is_some_and(|until| until <= now))
    }
}
