//! Gemini's registered webhooks.

use std::fmt;

use async_trait::async_trait;

use super::gemini::ReadError;
use crate::domain::webhook::SigningSecret;

/// A webhook that is registered with Gemini.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// Where events are sent.
    pub uri: String,
    /// Which ones.
    pub events: Vec<String>,
    /// `enabled`, `disabled`, `disabled_due_to_failed_deliveries`, or a word that this program doesn't know.
    pub state: String,
}

/// What becomes of the secrets before a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoke {
    /// Gemini signs with them for 24 hours more.
    InADay,
    /// Now.
    AtOnce,
}

/// Gemini's webhooks resource, with the creating key. None of the calls is repeated.
#[async_trait]
pub trait Webhooks: fmt::Debug + Send + Sync {
    /// Registers one. The secret is told this once.
    async fn register(
        &self,
        uri: &str,
        events: &[String],
        name: Option<&str>,
    ) -> Result<(Webhook, SigningSecret), ReadError>;

    /// All of them, every page.
    async fn webhooks(&self) -> Result<Vec<Webhook>, ReadError>;

    /// Switches one on again.
    async fn enable(&self, id: &str) -> Result<Webhook, ReadError>;

    /// Has Gemini send an event to it.
    async fn ping(&self, id: &str) -> Result<(), ReadError>;

    /// Makes a new signing secret.
    async fn rotate(&self, id: &str, revoke: Revoke) -> Result<SigningSecret, ReadError>;

    /// Deletes one.
    async fn unregister(&self, id: &str) -> Result<(), ReadError>;
}
