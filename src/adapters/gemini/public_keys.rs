//! Gemini's public keys over HTTP.
use crate::domain::webhook::KeySet;
use crate::ports::clock::Clock;
use crate::ports::webhook_keys::{KeysError, PublicKeys};
use async_trait::async_trait;
use std::sync::Arc;
/// Stand-in.
#[derive(Debug)]
pub struct HttpPublicKeys;
impl HttpPublicKeys {
    /// Stand-in.
    pub fn new(_url: String, _clock: Arc<dyn Clock>) -> Result<Self, String> {
        Ok(Self)
    }
}
#[async_trait]
impl PublicKeys for HttpPublicKeys {
    async fn known(&self) -> Result<Arc<KeySet>, KeysError> {
        Ok(Arc::default())
    }
    async fn newer_than(&self, seen: &Arc<KeySet>) -> Result<Arc<KeySet>, KeysError> {
        Ok(Arc::clone(seen))
    }
}
