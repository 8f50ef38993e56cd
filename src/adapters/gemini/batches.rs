//! Batch jobs and files, but for the transfers.

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use serde_json::json;

use super::client::HttpGemini;
use super::verdict::Done;
use crate::domain::batch::{Batch, Page};
use crate::domain::job::KeyId;
use crate::domain::model::refusal;
use crate::domain::webhook::Hook;
use crate::ports::batches::{Batches, Download, Upload, UploadError};
use crate::ports::gemini::{CreateError, Gemini, ReadError};

#[async_trait]
impl Batches for HttpGemini {
    async fn upload(&self, upload: Upload<'_>) -> Result<String, UploadError> {
        self.upload_object(upload).await
    }

    async fn create_batch(
        &self,
        model: &str,
        file: &str,
        display_name: &str,
        hook: Option<&Hook<'_>>,
    ) -> Result<Batch, CreateError> {
        let no_url = || CreateError::Refused(Box::new(refusal(model)));
        let url = self.endpoint.batch_of(model).ok_or_else(no_url)?;
        let mut batch = json!({"displayName": display_name, "inputConfig": {"fileName": file}});
        if let (Some(fields), Some(hook)) = (batch.as_object_mut(), hook) {
            fields.insert("webhookConfig".to_owned(), hook.of_batch());
        }
        self.create(url, Bytes::from(json!({"batch": batch}).to_string())).await
    }

    async fn get_batch(&self, name: &str, created_by: &KeyId) -> Result<Batch, ReadError> {
        self.read(Method::GET, self.endpoint.batch(name), self.key(created_by)).await
    }

    async fn list_batches(&self, page: Option<&str>) -> Result<Page, ReadError> {
        let url = self.endpoint.list_batches(page);
        let listed: Page = self.read(Method::GET, Some(url), &self.creating).await?;
        if page.is_some() && listed.next.as_deref() == page {
            return Err(ReadError::NoAnswer(
                "the list of batch jobs goes round: a page names itself as the next".into(),
            ));
        }
        Ok(listed)
    }

    async fn cancel_batch(&self, name: &str, created_by: &KeyId) -> Result<(), ReadError> {
        let Done = self.read(Method::POST, self.endpoint.cancel_batch(name), self.key(created_by)).await?;
        Ok(())
    }

    async fn download(&self, file: &str, created_by: &KeyId) -> Result<Download, ReadError> {
        self.begin_download(file, created_by).await
    }

    async fn delete_file(&self, file: &str, created_by: &KeyId) -> Result<(), ReadError> {
        match self.read(Method::DELETE, self.endpoint.file(file), self.key(created_by)).await {
            Ok(Done) => Ok(()),
            // With another key than its own, a file that is there isn't found either.
            Err(ReadError::Refused(failure)) if failure.http == Some(404) && self.has_key(created_by) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
