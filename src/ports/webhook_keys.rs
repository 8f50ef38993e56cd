//! What events are verified with: signing secrets of registered webhooks, and Gemini's public keys.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;

use crate::domain::webhook::{KeySet, Keyring};

/// Why they can't be had. No text of it shows any part of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeysError {
    /// Out of reach for now.
    #[error("{0}")]
    Busy(String),
    /// A person must act.
    #[error("{0}")]
    NeedsPerson(String),
}

/// The signing secrets that are kept.
#[async_trait]
pub trait SigningSecrets: fmt::Debug + Send + Sync {
    /// Those that are kept now. Where reading costs they are read, or tried to be read, at most once a minute, however
    /// many ask; what is older is not used. An empty one when nobody has put any there.
    async fn current(&self) -> Result<Arc<Keyring>, KeysError>;

    /// Reads them now.
    async fn read(&self) -> Result<Keyring, KeysError>;

    /// Keeps these in the place of what is kept.
    async fn keep(&self, keyring: &Keyring) -> Result<(), KeysError>;
}

/// Gemini's public keys.
#[async_trait]
pub trait PublicKeys: fmt::Debug + Send + Sync {
    /// The keys as they were last fetched; fetched now if they never were.
    async fn known(&self) -> Result<Arc<KeySet>, KeysError>;

    /// The keys, for who met a signature that `seen` doesn't prove: fetched anew, unless they were fetched, or tried to
    /// be, within the last minute. The same [`Arc`] when there is nothing new.
    async fn newer_than(&self, seen: &Arc<KeySet>) -> Result<Arc<KeySet>, KeysError>;
}
