//! The signing secrets that are kept, and which webhook each belongs to.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use super::secret::SigningSecret;
use crate::domain::time::Millis;

/// Why a text is no keyring. It doesn't show what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// It is something else.
    #[error(r#"must be {{"webhook_secrets": ["whsec_..."]}}"#)]
    Form,
    /// One of its secrets can't be used; counted from 1.
    #[error("holds something at place {0} of webhook_secrets that is no signing secret: each is whsec_ and base64")]
    Secret(usize),
    /// One of its notes can't be read; counted from 1.
    #[error(
        "holds something at place {0} of about that can't be read: each is \
         {{\"secret\": FINGERPRINT, \"webhook\": ID}}, and \"until\" in milliseconds if it is to end"
    )]
    About(usize),
}

/// What the secret, or the file, with signing secrets holds: `{"webhook_secrets": ["whsec_..."]}`, as a person may write
/// it, and, for those that this program put there, what is known about each.
///
/// No formatting of it shows a secret; [`text`](Self::text) does.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keyring {
    /// The secrets, newest first.
    secrets: Vec<SigningSecret>,
    /// What is known about some of them.
    about: Vec<About>,
    /// Fields that other versions of this program have.
    rest: Map<String, Value>,
}

/// What is known about one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    /// Its fingerprint.
    secret: String,
    /// The webhook's id at Gemini.
    webhook: String,
    /// When Gemini stops signing with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Millis>,
    /// Fields that other versions of this program have.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Keyring {
    /// Reads one. A single secret that can't be used makes the whole of it unreadable: events would be refused for want
    /// of it, and nobody would know why.
    ///
    /// # Errors
    /// What is none, without any part of what is there.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        // serde's own messages could quote what it found, so none of them is passed on.
        let mut rest: Map<String, Value> = serde_json::from_str(text).map_err(|_| KeyringError::Form)?;
        let Some(Value::Array(secrets)) = rest.remove("webhook_secrets") else { return Err(KeyringError::Form) };
        let secrets = secrets.iter().enumerate().map(|(n, secret)| {
            let parsed = secret.as_str().and_then(|text| SigningSecret::parse(text).ok());
            parsed.ok_or(KeyringError::Secret(n + 1))
        });
        let about = match rest.remove("about") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(about)) => about,
            Some(_) => return Err(KeyringError::Form),
        };
        let about = about
            .into_iter()
            .enumerate()
            .map(|(n, about)| serde_json::from_value(about).map_err(|_| KeyringError::About(n + 1)));
        Ok(Self { secrets: secrets.collect::<Result<_, _>>()?, about: about.collect::<Result<_, _>>()?, rest })
    }

    /// The whole of it, secrets too, for where it is kept: [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut all = self.rest.clone();
        let secrets = self.secrets.iter().map(|secret| Value::from(secret.expose())).collect();
        all.insert("webhook_secrets".to_owned(), Value::Array(secrets));
        if !self.about.is_empty() {
            let about = self.about.iter().map(|about| serde_json::json!(about)).collect();
            all.insert("about".to_owned(), Value::Array(about));
        }
        Value::Object(all).to_string()
    }

    /// Those that an event of `now` may be signed with, newest first.
    #[must_use]
    pub fn valid(&self, now: Millis) -> Vec<SigningSecret> {
        self.secrets.iter().filter(|secret| !self.is_over(secret, now)).cloned().collect()
    }

    /// How many of the secrets of that webhook an event of `now` may be signed with.
    #[must_use]
    pub fn valid_of(&self, webhook: &str, now: Millis) -> usize {
        let own = self.secrets.iter().filter(|secret| self.webhook_of(secret) == Some(webhook));
        own.filter(|secret| !self.is_over(secret, now)).count()
    }

    /// How many secrets of that webhook are there, whether they are over or not.
    #[must_use]
    pub fn of(&self, webhook: &str) -> usize {
        self.secrets.iter().filter(|secret| self.webhook_of(secret) == Some(webhook)).count()
    }

    /// The webhooks that secrets are there of.
    #[must_use]
    pub fn webhooks(&self) -> BTreeSet<&str> {
        self.secrets.iter().filter_map(|secret| self.webhook_of(secret)).collect()
    }

    /// How many secrets are there of which nothing says whose they are, as when a person wrote them.
    #[must_use]
    pub fn nameless(&self) -> usize {
        self.secrets.iter().filter(|secret| self.webhook_of(secret).is_none()).count()
    }

    /// Puts in a secret of that webhook, before all others.
    pub fn add(&mut self, webhook: &str, secret: SigningSecret) {
        let fingerprint = secret.fingerprint();
        self.secrets.retain(|other| *other != secret);
        self.about.retain(|about| about.secret != fingerprint);
        self.secrets.insert(0, secret);
        self.about
            .insert(0, About { secret: fingerprint, webhook: webhook.to_owned(), until: None, rest: Map::default() });
    }

    /// Lets all secrets of that webhook but `but` be valid until `until`; those that end before stay so.
    pub fn retire(&mut self, webhook: &str, but: &SigningSecret, until: Millis) {
        let kept = but.fingerprint();
        for about in self.about.iter_mut().filter(|about| about.webhook == webhook && about.secret != kept) {
            about.until = Some(about.until.map_or(until, |earlier| earlier.min(until)));
        }
    }

    /// Removes all secrets of that webhook, and says how many there were.
    pub fn remove(&mut self, webhook: &str) -> usize {
        self.drop_where(|about| about.webhook == webhook)
    }

    /// Removes those that are over, and notes on secrets that are not there.
    pub fn prune(&mut self, now: Millis) {
        self.drop_where(|about| about.is_over(now));
        let there: Vec<String> = self.secrets.iter().map(SigningSecret::fingerprint).collect();
        self.about.retain(|about| there.contains(&about.secret));
    }

    fn drop_where(&mut self, gone: impl Fn(&About) -> bool) -> usize {
        let before = self.secrets.len();
        let about = &self.about;
        let is_gone = |fingerprint: &str| about.iter().any(|about| about.secret == fingerprint && gone(about));
        self.secrets.retain(|secret| !is_gone(&secret.fingerprint()));
        self.about.retain(|about| !gone(about));
        before - self.secrets.len()
    }

    fn webhook_of(&self, secret: &SigningSecret) -> Option<&str> {
        let fingerprint = secret.fingerprint();
        self.about.iter().find(|about| about.secret == fingerprint).map(|about| about.webhook.as_str())
    }

    fn is_over(&self, secret: &SigningSecret, now: Millis) -> bool {
        let fingerprint = secret.fingerprint();
        self.about.iter().any(|about| about.secret == fingerprint && about.is_over(now))
    }
}

impl About {
    fn is_over(&self, now: Millis) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl fmt::Debug for Keyring {
    /// Fingerprints only: nobody knows what is in the fields that are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("secrets", &self.secrets).field("about", &self.about).finish_non_exhaustive()
    }
}

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("About").field("webhook", &self.webhook).field("until", &self.until).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ONE: &str = "whsec_b25lIHNlY3JldCB0aGF0IGlzIG5vYm9keSdz";
    const TWO: &str = "whsec_dHdvIHNlY3JldHMgdGhhdCBhcmUgbm9ib2R5";
    const THREE: &str = "whsec_dGhyZWUgb2YgdGhlbSwgc3RpbGwgbm9ib2R5J3M=";
    const NOW: Millis = Millis(1_795_982_400_000);

    fn secret(text: &str) -> SigningSecret {
        SigningSecret::parse(text).unwrap()
    }

    fn texts(secrets: &[SigningSecret]) -> Vec<&str> {
        secrets.iter().map(SigningSecret::expose).collect()
    }

    #[test]
    fn what_a_person_writes_by_hand_is_read() {
        let ring = Keyring::parse(&format!("{{\"webhook_secrets\": [\"{TWO}\",\n \"{ONE}\"]}}\n")).unwrap();
        assert_eq!(texts(&ring.valid(NOW)), [TWO, ONE]);
        assert_eq!((ring.nameless(), ring.valid_of("w", NOW)), (2, 0));
        assert_eq!(Keyring::parse(r#"{"webhook_secrets": []}"#), Ok(Keyring::default()));
        assert_eq!(Keyring::default().text(), r#"{"webhook_secrets":[]}"#);
    }

    #[test]
    fn what_cannot_be_used_is_an_error_that_says_where_and_shows_nothing() {
        let about = |about: Value| json!({"webhook_secrets": [ONE], "about": about}).to_string();
        for (text, expected) in [
            (String::new(), KeyringError::Form),
            (ONE.to_owned(), KeyringError::Form),
            (format!("[\"{ONE}\"]"), KeyringError::Form),
            ("{}".to_owned(), KeyringError::Form),
            (json!({"webhook_secrets": ONE}).to_string(), KeyringError::Form),
            (json!({"webhook_secrets": [ONE]}).to_string() + "x", KeyringError::Form),
            (json!({"webhook_secrets": [ONE, ""]}).to_string(), KeyringError::Secret(2)),
            (json!({"webhook_secrets": [7, ONE]}).to_string(), KeyringError::Secret(1)),
            (json!({"webhook_secrets": [ONE, TWO, "whsec_b25lIHNlY3!"]}).to_string(), KeyringError::Secret(3)),
            (json!({"webhook_secrets": ["b25lIHNlY3JldCB0aGF0"]}).to_string(), KeyringError::Secret(1)),
            (json!({"webhook_secrets": ["whsec_"]}).to_string(), KeyringError::Secret(1)),
            (about(json!({"secret": ONE})), KeyringError::Form),
            (about(json!([ONE])), KeyringError::About(1)),
            (about(json!([{"secret": "a", "webhook": "w"}, {"secret": "b"}])), KeyringError::About(2)),
            (about(json!([{"secret": "a", "webhook": "w", "until": ONE}])), KeyringError::About(1)),
        ] {
            let error = Keyring::parse(&text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            let told = format!("{error} {error:?}");
            assert!(!told.contains("b25l") && !told.contains("dHdv"), "{told}");
        }
    }

    #[test]
    fn a_new_secret_is_the_first_and_the_older_ones_of_its_webhook_end_in_time() {
        let mut ring = Keyring::default();
        ring.add("w", secret(ONE));
        ring.add("other", secret(TWO));
        ring.add("w", secret(THREE));
        ring.retire("w", &secret(THREE), Millis(NOW.0 + 10));
        assert_eq!(texts(&ring.valid(NOW)), [THREE, TWO, ONE]);
        assert_eq!((ring.valid_of("w", NOW), ring.valid_of("other", NOW), ring.nameless()), (2, 1, 0));
        // What ends earlier isn't kept alive by the next rotation.
        ring.retire("w", &secret(THREE), Millis(NOW.0 + 99));
        assert_eq!(texts(&ring.valid(Millis(NOW.0 + 9))), [THREE, TWO, ONE]);
        assert_eq!(texts(&ring.valid(Millis(NOW.0 + 10))), [THREE, TWO]);

        let read = Keyring::parse(&ring.text()).unwrap();
        assert_eq!(read, ring);
        let mut pruned = read.clone();
        pruned.prune(Millis(NOW.0 + 9));
        assert_eq!(pruned, read);
        pruned.prune(Millis(NOW.0 + 10));
        assert!(!pruned.text().contains(ONE) && pruned.valid(NOW).len() == 2);

        // The same secret again is there once.
        pruned.add("w", secret(THREE));
        assert_eq!(texts(&pruned.valid(NOW)), [THREE, TWO]);
        assert_eq!((pruned.remove("w"), pruned.remove("w")), (1, 0));
        assert_eq!(texts(&pruned.valid(NOW)), [TWO]);
    }

    #[test]
    fn secrets_written_by_hand_are_nobodys_and_never_removed() {
        let mut ring = Keyring::parse(&json!({"webhook_secrets": [ONE]}).to_string()).unwrap();
        ring.add("w", secret(TWO));
        ring.retire("w", &secret(TWO), NOW);
        ring.prune(Millis(i64::MAX));
        assert_eq!(ring.remove("w"), 1);
        assert_eq!(texts(&ring.valid(NOW)), [ONE]);
    }

    #[test]
    fn fields_of_other_versions_survive_and_no_formatting_shows_a_secret() {
        let text = json!({
            "note": [1, {"a": null}],
            "webhook_secrets": [ONE],
            "about": [
                {"secret": secret(ONE).fingerprint(), "webhook": "w", "by": "hand"},
                {"secret": "gone", "webhook": "w"}
            ],
        });
        let mut ring = Keyring::parse(&text.to_string()).unwrap();
        ring.add("w", secret(TWO));
        ring.prune(NOW);
        let again: Value = serde_json::from_str(&ring.text()).unwrap();
        assert_eq!((&again["note"], &again["about"][1]["by"]), (&json!([1, {"a": null}]), &json!("hand")));
        assert_eq!(again["about"].as_array().unwrap().len(), 2, "a note on no secret is dropped");
        for shown in [format!("{ring:?}"), format!("{ring:#?}")] {
            assert!(!shown.contains("whsec_") && !shown.contains("b25l") && !shown.contains("hand"), "{shown}");
            assert!(shown.contains(&secret(ONE).fingerprint()), "{shown}");
        }
    }
}
