//! No Gemini at all, for who only looks into the ledger or takes files in.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::domain::batch::{Batch, Page};
use crate::domain::interaction::Interaction;
use crate::domain::job::KeyId;
use crate::domain::webhook::{Hook, SigningSecret};
use crate::ports::batches::{Batches, Download, Upload, UploadError};
use crate::ports::gemini::{CallError, CreateError, Gemini, ReadError};
use crate::ports::webhooks::{Revoke, Webhook, Webhooks};

/// Sends nothing and knows nothing.
#[derive(Debug)]
pub struct Offline(KeyId);

impl Default for Offline {
    fn default() -> Self {
        Self(KeyId("none".to_owned()))
    }
}

const WHY: &str = "Gemini is not asked here";

#[async_trait]
impl Gemini for Offline {
    fn creates_as(&self) -> &KeyId {
        &self.0
    }

    fn keys(&self) -> Vec<KeyId> {
        Vec::new()
    }

    fn has_key(&self, _key: &KeyId) -> bool {
        false
    }

    async fn create_interaction(&self, _body: Bytes) -> Result<Interaction, CreateError> {
        Err(CreateError::NotSent(WHY.to_owned()))
    }

    async fn generate(&self, _model: &str, _body: Bytes) -> Result<Box<RawValue>, CallError> {
        Err(CallError::NotSent(WHY.to_owned()))
    }

    async fn get_interaction(&self, _handle: &str, _created_by: &KeyId) -> Result<Interaction, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn cancel_interaction(&self, _handle: &str, _created_by: &KeyId) -> Result<Interaction, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }
}

#[async_trait]
impl Batches for Offline {
    async fn upload(&self, _upload: Upload<'_>) -> Result<String, UploadError> {
        Err(UploadError::Gemini(ReadError::NoAnswer(WHY.to_owned())))
    }

    async fn create_batch(
        &self,
        _model: &str,
        _file: &str,
        _display_name: &str,
        _hook: Option<&Hook<'_>>,
    ) -> Result<Batch, CreateError> {
        Err(CreateError::NotSent(WHY.to_owned()))
    }

    async fn get_batch(&self, _name: &str, _created_by: &KeyId) -> Result<Batch, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn list_batches(&self, _page: Option<&str>) -> Result<Page, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn cancel_batch(&self, _name: &str, _created_by: &KeyId) -> Result<(), ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn download(&self, _file: &str, _created_by: &KeyId) -> Result<Download, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn delete_file(&self, _file: &str, _created_by: &KeyId) -> Result<(), ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }
}

#[async_trait]
impl Webhooks for Offline {
    async fn register(
        &self,
        _uri: &str,
        _events: &[String],
        _name: Option<&str>,
    ) -> Result<(Webhook, SigningSecret), ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn enable(&self, _id: &str) -> Result<Webhook, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn ping(&self, _id: &str) -> Result<(), ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn rotate(&self, _id: &str, _revoke: Revoke) -> Result<SigningSecret, ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }

    async fn unregister(&self, _id: &str) -> Result<(), ReadError> {
        Err(ReadError::NoAnswer(WHY.to_owned()))
    }
}
