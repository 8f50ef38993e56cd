//! Webhooks that are registered with Gemini.

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::HttpGemini;
use super::verdict::{Done, Parsed};
use crate::domain::webhook::SigningSecret;
use crate::ports::gemini::ReadError;
use crate::ports::webhooks::{Revoke, Webhook, Webhooks};

/// How many pages of webhooks are read. Each may hold a thousand.
const PAGES: usize = 100;

/// A webhook as it was just made, with its secret.
struct Made(Webhook, SigningSecret);

/// The answer to a rotation.
struct NewSecret(SigningSecret);

/// One page of the list.
struct Page {
    webhooks: Vec<Webhook>,
    next: Option<String>,
}

#[async_trait]
impl Webhooks for HttpGemini {
    async fn register(
        &self,
        uri: &str,
        events: &[String],
        name: Option<&str>,
    ) -> Result<(Webhook, SigningSecret), ReadError> {
        let mut body = json!({"uri": uri, "subscribed_events": events});
        if let (Some(name), Some(body)) = (name, body.as_object_mut()) {
            body.insert("name".to_owned(), name.into());
        }
        let url = Some(self.endpoint.webhooks());
        let Made(webhook, secret) = self.ask(Method::POST, url, &self.creating, Some(bytes(&body))).await?;
        Ok((webhook, secret))
    }

    async fn webhooks(&self) -> Result<Vec<Webhook>, ReadError> {
        let mut all = Vec::new();
        let mut page: Option<String> = None;
        for _ in 0..PAGES {
            let url = self.endpoint.list_webhooks(page.as_deref());
            let listed: Page = self.read(Method::GET, Some(url), &self.creating).await?;
            all.extend(listed.webhooks);
            if listed.next.is_none() {
                return Ok(all);
            }
            if listed.next == page {
                return Err(ReadError::NoAnswer(
                    "the list of webhooks goes round: a page names itself as the next".to_owned(),
                ));
            }
            page = listed.next;
        }
        Err(ReadError::NoAnswer(format!("the list of webhooks doesn't end within {PAGES} pages")))
    }

    async fn enable(&self, id: &str) -> Result<Webhook, ReadError> {
        let url = self.endpoint.change_webhook(id, "state");
        self.ask(Method::PATCH, url, &self.creating, Some(bytes(&json!({"state": "enabled"})))).await
    }

    async fn ping(&self, id: &str) -> Result<(), ReadError> {
        let url = self.endpoint.of_webhook(id, "ping");
        let Done = self.ask(Method::POST, url, &self.creating, Some(bytes(&json!({})))).await?;
        Ok(())
    }

    async fn rotate(&self, id: &str, revoke: Revoke) -> Result<SigningSecret, ReadError> {
        let behavior = match revoke {
            Revoke::InADay => "revoke_previous_secrets_after_h24",
            Revoke::AtOnce => "revoke_previous_secrets_immediately",
        };
        let url = self.endpoint.of_webhook(id, "rotateSigningSecret");
        let body = Some(bytes(&json!({"revocation_behavior": behavior})));
        let NewSecret(secret) = self.ask(Method::POST, url, &self.creating, body).await?;
        Ok(secret)
    }

    async fn unregister(&self, id: &str) -> Result<(), ReadError> {
        let Done = self.read(Method::DELETE, self.endpoint.webhook(id), &self.creating).await?;
        Ok(())
    }
}

fn bytes(body: &Value) -> Bytes {
    Bytes::from(body.to_string())
}

impl Parsed for Made {
    const WHAT: &'static str = "webhook with its signing secret";

    fn parse(body: &[u8]) -> Result<Self, String> {
        let value = object(body)?;
        Ok(Self(webhook(&value)?, secret(&value)?))
    }
}

impl Parsed for NewSecret {
    const WHAT: &'static str = "signing secret";

    fn parse(body: &[u8]) -> Result<Self, String> {
        secret(&object(body)?).map(Self)
    }
}

impl Parsed for Webhook {
    const WHAT: &'static str = "webhook";

    fn parse(body: &[u8]) -> Result<Self, String> {
        webhook(&object(body)?)
    }
}

impl Parsed for Page {
    const WHAT: &'static str = "page of webhooks";

    fn parse(body: &[u8]) -> Result<Self, String> {
        let value = object(body)?;
        let webhooks = match field(&value, &["webhooks"]) {
            // An empty list may be left out.
            None => Vec::new(),
            Some(Value::Array(webhooks)) => webhooks.iter().map(webhook).collect::<Result<_, _>>()?,
            Some(_) => return Err("its webhooks are no list".to_owned()),
        };
        Ok(Self { webhooks, next: text(&value, &["next_page_token", "nextPageToken"]) })
    }
}

/// An object, without any part of it in the error: a secret may be in it.
fn object(body: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("it is no JSON: {error}"))?;
    if !value.is_object() {
        return Err("it is no JSON object".to_owned());
    }
    Ok(value)
}

fn webhook(value: &Value) -> Result<Webhook, String> {
    let name = text(value, &["name"]);
    // Other resources of Gemini have their id in their name.
    let id = text(value, &["id"]).or_else(|| name.clone().filter(|name| name.starts_with("webhooks/")));
    let id = id.ok_or("it has no id")?;
    let events = field(value, &["subscribed_events", "subscribedEvents"]).and_then(Value::as_array);
    let events = events.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(Webhook {
        id: id.strip_prefix("webhooks/").unwrap_or(&id).to_owned(),
        name,
        uri: text(value, &["uri"]).ok_or("it has no uri")?,
        events: events.collect(),
        state: text(value, &["state"]).unwrap_or_default(),
    })
}

/// The secret under the name that registering or that rotating has for it: which of them does is written down for the
/// SDK, and for nobody else.
fn secret(value: &Value) -> Result<SigningSecret, String> {
    let secret =
        text(value, &["new_signing_secret", "newSigningSecret", "secret"]).ok_or("it has no signing secret")?;
    SigningSecret::parse(&secret).map_err(|error| format!("its signing secret is none: {error}"))
}

fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().filter_map(|name| value.get(name)).find(|field| !field.is_null())
}

fn text(value: &Value, names: &[&str]) -> Option<String> {
    field(value, names).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
