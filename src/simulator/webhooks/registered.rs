//! The registered webhooks and their signing secrets (gemini-api, section 3.1).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::super::faults::hash;
use super::super::files::shelf::letters;
use super::keys::bytes_of;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// How long the secrets before go on after `revoke_previous_secrets_after_h24`.
const REVOKED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Whether events go to a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Enabled,
    Disabled,
    /// By the service, after 24 hours of failures.
    Failed,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Failed => "disabled_due_to_failed_deliveries",
        }
    }
}

#[derive(Debug, Clone)]
struct Secret {
    key: [u8; 32],
    expires: Option<Millis>,
}

impl Secret {
    fn text(&self) -> String {
        format!("whsec_{}", STANDARD.encode(self.key))
    }

    fn valid(&self, now: Millis) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// As the resource shows it.
    fn shown(&self) -> Value {
        let truncated: String = self.text().chars().take(10).chain("...".chars()).collect();
        let mut shown = json!({"truncated_secret": truncated});
        if let (Some(fields), Some(expires)) = (shown.as_object_mut(), self.expires) {
            fields.insert("expire_time".into(), json!(expires.to_string()));
        }
        shown
    }
}

/// What a client says of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) uri: String,
    pub(super) events: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) state: State,
}

#[derive(Debug)]
struct Hook {
    id: String,
    owner: KeyId,
    draft: Draft,
    created: Millis,
    updated: Millis,
    /// The newest first.
    secrets: Vec<Secret>,
    /// When it last accepted an event.
    accepted: Option<Millis>,
}

impl Hook {
    fn resource(&self, now: Millis) -> Value {
        let secrets: Vec<Value> = self.secrets.iter().filter(|secret| secret.valid(now)).map(Secret::shown).collect();
        let mut resource = json!({
            "id": self.id, "uri": self.draft.uri, "subscribed_events": self.draft.events,
            "state": self.draft.state.word(), "create_time": self.created.to_string(),
            "update_time": self.updated.to_string(), "signing_secrets": secrets,
        });
        if let (Some(fields), Some(name)) = (resource.as_object_mut(), &self.draft.name) {
            fields.insert("name".into(), json!(name));
        }
        resource
    }
}

/// Where an event for a registered webhook goes now.
#[derive(Debug)]
pub(super) struct Aim {
    pub(super) uri: String,
    pub(super) enabled: bool,
    /// The newest first.
    pub(super) keys: Vec<[u8; 32]>,
}

#[derive(Debug, Default)]
struct Hooks {
    /// In the order of creation.
    all: BTreeMap<u64, Hook>,
    made: u64,
    secrets: u64,
}

impl Hooks {
    fn secret(&mut self, seed: u64, writer: &str) -> Secret {
        self.secrets += 1;
        Secret { key: bytes_of(seed, &format!("webhook-secret/{writer}"), self.secrets), expires: None }
    }

    fn of(&mut self, owner: &KeyId, id: &str) -> Option<&mut Hook> {
        self.all.values_mut().find(|hook| hook.id == id && hook.owner == *owner)
    }
}

/// All registered webhooks. Each key sees its own.
#[derive(Debug, Default)]
pub(super) struct Registered(Mutex<Hooks>);

impl Registered {
    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a webhook, and shows it with its secret, for the only time.
    pub(super) fn add(&self, owner: KeyId, draft: Draft, (seed, writer): (u64, &str), now: Millis) -> Value {
        let mut hooks = self.hooks();
        let secret = hooks.secret(seed, writer);
        let (seq, text) = (hooks.made, secret.text());
        hooks.made += 1;
        let id = letters(|part| hash(seed, &format!("webhook/{writer}"), seq, &[part]), 24);
        let hook = Hook { id, owner, draft, created: now, updated: now, secrets: vec![secret], accepted: None };
        let mut resource = hook.resource(now);
        hooks.all.insert(seq, hook);
        if let Some(fields) = resource.as_object_mut() {
            fields.insert("new_signing_secret".into(), json!(text));
        }
        resource
    }

    /// At most `size` webhooks from the one numbered `from` on, and the number of the next.
    pub(super) fn page(&self, owner: &KeyId, from: u64, size: usize, now: Millis) -> (Vec<Value>, Option<u64>) {
        let hooks = self.hooks();
        let mut own = hooks.all.range(from..).filter(|(_, hook)| hook.owner == *owner);
        let page = own.by_ref().take(size).map(|(_, hook)| hook.resource(now)).collect();
        (page, own.next().map(|(seq, _)| *seq))
    }

    pub(super) fn get(&self, owner: &KeyId, id: &str, now: Millis) -> Option<Value> {
        self.hooks().of(owner, id).map(|hook| hook.resource(now))
    }

    /// Changes one, unless `change` refuses. None when there is none of that id.
    pub(super) fn change<E>(
        &self,
        owner: &KeyId,
        id: &str,
        now: Millis,
        change: impl FnOnce(&mut Draft) -> Result<(), E>,
    ) -> Option<Result<Value, E>> {
        let mut hooks = self.hooks();
        let hook = hooks.of(owner, id)?;
        let mut draft = hook.draft.clone();
        Some(change(&mut draft).map(|()| {
            hook.draft = draft;
            hook.updated = now;
            hook.resource(now)
        }))
    }

    /// Whether there was one.
    pub(super) fn remove(&self, owner: &KeyId, id: &str) -> bool {
        let mut hooks = self.hooks();
        let before = hooks.all.len();
        hooks.all.retain(|_, hook| hook.id != id || hook.owner != *owner);
        hooks.all.len() < before
    }

    /// Gives one a new secret, which is returned, and revokes those before: at once, or in 24 hours.
    pub(super) fn rotate(
        &self,
        owner: &KeyId,
        id: &str,
        (seed, writer): (u64, &str),
        at_once: bool,
        now: Millis,
    ) -> Option<String> {
        let mut hooks = self.hooks();
        hooks.of(owner, id)?;
        let secret = hooks.secret(seed, writer);
        let hook = hooks.of(owner, id)?;
        let text = secret.text();
        if at_once {
            hook.secrets.clear();
        }
        hook.secrets.retain(|secret| secret.valid(now));
        for before in &mut hook.secrets {
            before.expires = before.expires.or(Some(now.plus(REVOKED_AFTER)));
        }
        hook.secrets.insert(0, secret);
        hook.updated = now;
        Some(text)
    }

    /// Whether a key has any.
    pub(super) fn any(&self, owner: &KeyId) -> bool {
        self.hooks().all.values().any(|hook| hook.owner == *owner)
    }

    /// The ids of a key's webhooks that want an event.
    pub(super) fn subscribed(&self, owner: &KeyId, kind: &str) -> Vec<String> {
        let hooks = self.hooks();
        let wants = |hook: &&Hook| {
            hook.owner == *owner
                && hook.draft.state == State::Enabled
                && hook.draft.events.iter().any(|event| event == kind)
        };
        hooks.all.values().filter(wants).map(|hook| hook.id.clone()).collect()
    }

    /// Where events for a webhook go now; None when it was deleted.
    pub(super) fn aim(&self, id: &str, now: Millis) -> Option<Aim> {
        let hooks = self.hooks();
        let hook = hooks.all.values().find(|hook| hook.id == id)?;
        let keys = hook.secrets.iter().filter(|secret| secret.valid(now)).map(|secret| secret.key).collect();
        Some(Aim { uri: hook.draft.uri.clone(), enabled: hook.draft.state == State::Enabled, keys })
    }

    /// Notes that a webhook accepted an event.
    pub(super) fn accepted(&self, id: &str, now: Millis) {
        let mut hooks = self.hooks();
        if let Some(hook) = hooks.all.values_mut().find(|hook| hook.id == id) {
            hook.accepted = Some(now);
        }
    }

    /// Disables a webhook that did not accept an event made at that time, for as long as it was tried, nor any since.
    pub(super) fn gave_up(&self, id: &str, made: Millis, now: Millis) {
        let mut hooks = self.hooks();
        let failing = |hook: &&mut Hook| {
            hook.id == id && hook.draft.state == State::Enabled && hook.accepted.is_none_or(|accepted| accepted < made)
        };
        if let Some(hook) = hooks.all.values_mut().find(failing) {
            hook.draft.state = State::Failed;
            hook.updated = now;
        }
    }
}

impl Draft {
    /// Sets one field, by its name in the resource.
    ///
    /// # Errors
    /// A sentence about a value that can't be, or a field that can't be set.
    pub(super) fn set(&mut self, field: &str, fields: &Map<String, Value>) -> Result<(), String> {
        let value = fields.get(field).filter(|value| !value.is_null());
        match (field, value) {
            ("name", None) => self.name = None,
            ("name", Some(Value::String(name))) => self.name = Some(name.clone()),
            ("uri", Some(Value::String(uri))) => {
                super::address::read(uri).ok_or_else(|| format!("'{uri}' is not an address for events."))?;
                self.uri.clone_from(uri);
            }
            ("subscribed_events", Some(Value::Array(events))) if !events.is_empty() => {
                self.events.clear();
                for event in events {
                    let known = super::event::KINDS.iter().find(|known| event.as_str() == Some(**known));
                    self.events.push((*known.ok_or_else(|| format!("There is no event {event}."))?).to_owned());
                }
            }
            ("state", Some(state)) if *state == json!("enabled") => self.state = State::Enabled,
            ("state", Some(state)) if *state == json!("disabled") => self.state = State::Disabled,
            ("name" | "uri" | "subscribed_events" | "state", _) => {
                return Err(format!("Invalid or missing value at '{field}'."));
            }
            _ => return Err(format!("'{field}' is unknown, or can't be set.")),
        }
        Ok(())
    }

    /// What a create says.
    ///
    /// # Errors
    /// As [`set`](Self::set); and `uri` and `subscribed_events` are required.
    pub(super) fn new(fields: &Map<String, Value>) -> Result<Self, String> {
        let mut draft = Self { uri: String::new(), events: Vec::new(), name: None, state: State::Enabled };
        let required = ["uri", "subscribed_events"].into_iter();
        for field in required.chain(fields.keys().map(String::as_str)) {
            if field == "state" {
                return Err("'state' can't be set at create.".to_owned());
            }
            draft.set(field, fields)?;
        }
        Ok(draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: (u64, &str) = (1, "");

    fn one() -> (Registered, KeyId, String) {
        let (hooks, owner) = (Registered::default(), KeyId("k".into()));
        let draft =
            json!({"uri": "http://127.0.0.1/", "subscribed_events": ["batch.failed"]}).as_object().cloned().unwrap();
        let made = hooks.add(owner.clone(), Draft::new(&draft).unwrap(), NAMES, Millis(0));
        let id = made["id"].as_str().unwrap().to_owned();
        (hooks, owner, id)
    }

    #[test]
    fn a_webhook_that_accepted_something_meanwhile_is_not_disabled() {
        let (hooks, _, id) = one();
        hooks.accepted(&id, Millis(50));
        hooks.gave_up(&id, Millis(50), Millis(100));
        assert!(hooks.aim(&id, Millis(100)).unwrap().enabled);
        hooks.gave_up(&id, Millis(51), Millis(100));
        assert!(!hooks.aim(&id, Millis(100)).unwrap().enabled);
    }

    #[test]
    fn a_second_rotation_prolongs_no_secret() {
        let (hooks, owner, id) = one();
        let keys = |now| hooks.aim(&id, now).unwrap().keys.len();
        let hour = Duration::from_secs(3600);
        hooks.rotate(&owner, &id, NAMES, false, Millis(0)).unwrap();
        let later = Millis(0).plus(hour);
        hooks.rotate(&owner, &id, NAMES, false, later).unwrap();
        assert_eq!(keys(later), 3);
        assert_eq!(keys(Millis(0).plus(REVOKED_AFTER)), 2);
        assert_eq!(keys(later.plus(REVOKED_AFTER)), 1);
        assert!(hooks.rotate(&KeyId("other".into()), &id, NAMES, false, later).is_none());
    }
}
