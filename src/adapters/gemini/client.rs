//! The client itself.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Url};
use serde_json::value::RawValue;

use super::answer::Answer;
use super::endpoint::Endpoint;
use super::key::ApiKey;
use super::options::{Options, OptionsError};
use super::verdict::{self, Parsed};
use crate::adapters::system::SystemClock;
use crate::domain::interaction::Interaction;
use crate::domain::job::KeyId;
use crate::domain::model::refusal;
use crate::ports::clock::Clock;
use crate::ports::gemini::{CallError, CreateError, Gemini, ReadError};

pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const API_REVISION: HeaderName = HeaderName::from_static("api-revision");
const USER_AGENT: &str = concat!("gleaner/", env!("CARGO_PKG_VERSION"));

/// The content type of every request with a body of its own.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The length of a body that isn't there.
pub(super) const NO_LENGTH: HeaderValue = HeaderValue::from_static("0");

/// How long an unused connection is kept. Shorter than servers keep theirs, since a create that meets a
/// connection which the server is just closing is an unclear one.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// Gemini over HTTPS. One for the whole process, so that its connections are shared.
///
/// It holds API keys and shows none: not when it is formatted, and not in its errors.
#[derive(Debug)]
pub struct HttpGemini {
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) creating: ApiKey,
    /// All of them, the creating one first.
    pub(super) keys: Arc<[ApiKey]>,
    pub(super) http_timeout: Duration,
    call_timeout: Duration,
    pub(super) max_body: u64,
    pub(super) clock: Arc<dyn Clock>,
    /// The place of the MIME type that the last upload went through with.
    pub(super) mime: AtomicUsize,
}

impl HttpGemini {
    /// Makes the client. Nothing is sent.
    ///
    /// For `https://` it takes the system's certificates and proxy settings. For `http://`, which stays within this
    /// machine, it takes neither: a proxy would see the key.
    ///
    /// # Errors
    /// Options that can't be used.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let Options { base_url, keys, http_timeout, call_timeout, connect_timeout, max_body } = options;
        let creating = keys.first().cloned().ok_or(OptionsError::NoKey)?;
        for (nothing, name) in [
            (http_timeout.is_zero(), "the HTTP time-out (GLEANER_HTTP_TIMEOUT)"),
            (call_timeout.is_zero(), "the time-out of calls (GLEANER_CALL_TIMEOUT)"),
            (connect_timeout.is_zero(), "the connect time-out"),
            (max_body == 0, "the longest answer"),
        ] {
            if nothing {
                return Err(OptionsError::Zero(name));
            }
        }
        let endpoint = Endpoint::parse(&base_url)?;
        let client = build(&endpoint, http_timeout, connect_timeout)
            .map_err(|error| OptionsError::Client(super::answer::reason(error)))?;
        let (keys, clock, mime) = (keys.into(), Arc::new(SystemClock), AtomicUsize::new(0));
        Ok(Self { client, endpoint, creating, keys, http_timeout, call_timeout, max_body, clock, mime })
    }

    /// The same client with another clock. It times the waits within an upload and the idle time-outs of uploads and
    /// downloads; the time-outs of all other requests are the HTTP library's own.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The key of that fingerprint, else the creating one.
    pub(super) fn key(&self, created_by: &KeyId) -> &ApiKey {
        self.keys.iter().find(|key| key.id() == created_by).unwrap_or(&self.creating)
    }

    async fn send(&self, method: Method, url: Url, key: &ApiKey, body: Option<Bytes>) -> reqwest::Result<Answer> {
        self.send_within(self.http_timeout, method, url, key, body).await
    }

    async fn send_within(
        &self,
        timeout: Duration,
        method: Method,
        url: Url,
        key: &ApiKey,
        body: Option<Bytes>,
    ) -> reqwest::Result<Answer> {
        let needs_length = method == Method::POST;
        let mut request = self.client.request(method, url).timeout(timeout).header(API_KEY, key.header());
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, JSON).body(body);
        } else if needs_length {
            // hyper leaves it out, and Google's front answers 411 to a POST without a length.
            request = request.header(CONTENT_LENGTH, NO_LENGTH);
        }
        Ok(Answer::read(request.send().await?, self.max_body).await)
    }

    /// A create, sent once, with the creating key.
    pub(super) async fn create<T: Parsed>(&self, url: Url, body: Bytes) -> Result<T, CreateError> {
        let answer = self
            .send(Method::POST, url, &self.creating, Some(body))
            .await
            .map_err(|error| verdict::of_silent_create(error, self.http_timeout, &self.keys))?;
        verdict::of_create(&answer, &self.keys)
    }

    /// Anything that may be asked again. No URL: the name that was given can't be in one.
    pub(super) async fn read<T: Parsed>(&self, method: Method, url: Option<Url>, key: &ApiKey) -> Result<T, ReadError> {
        self.ask(method, url, key, None).await
    }

    /// The same with a body.
    pub(super) async fn ask<T: Parsed>(
        &self,
        method: Method,
        url: Option<Url>,
        key: &ApiKey,
        body: Option<Bytes>,
    ) -> Result<T, ReadError> {
        let url = url.ok_or_else(no_url)?;
        let answer = self
            .send(method, url, key, body)
            .await
            .map_err(|error| verdict::of_silent_read(error, self.http_timeout, &self.keys))?;
        verdict::of_read(&answer, &self.keys)
    }
}

/// Why nothing was asked.
pub(super) fn no_url() -> ReadError {
    ReadError::NoAnswer("no URL can be made of that id; nothing was sent".to_owned())
}

#[async_trait]
impl Gemini for HttpGemini {
    fn creates_as(&self) -> &KeyId {
        self.creating.id()
    }

    fn keys(&self) -> Vec<KeyId> {
        self.keys.iter().map(|own| own.id().clone()).collect()
    }

    fn has_key(&self, key: &KeyId) -> bool {
        self.keys.iter().any(|own| own.id() == key)
    }

    async fn create_interaction(&self, body: Bytes) -> Result<Interaction, CreateError> {
        self.create(self.endpoint.interactions(), body).await
    }

    async fn generate(&self, model: &str, body: Bytes) -> Result<Box<RawValue>, CallError> {
        let no_url = || CallError::Refused(Box::new(refusal(model)));
        let url = self.endpoint.calls_of(model).ok_or_else(no_url)?;
        let answer = self
            .send_within(self.call_timeout, Method::POST, url, &self.creating, Some(body))
            .await
            .map_err(|error| verdict::of_silent_call(error, self.call_timeout, &self.keys))?;
        verdict::of_call(&answer, &self.keys)
    }

    async fn get_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError> {
        self.read(Method::GET, self.endpoint.interaction(handle), self.key(created_by)).await
    }

    async fn cancel_interaction(&self, handle: &str, created_by: &KeyId) -> Result<Interaction, ReadError> {
        self.read(Method::POST, self.endpoint.cancel(handle), self.key(created_by)).await
    }
}

fn build(endpoint: &Endpoint, http_timeout: Duration, connect_timeout: Duration) -> reqwest::Result<Client> {
    let headers = HeaderMap::from_iter([(ACCEPT, JSON), (API_REVISION, HeaderValue::from_static("2026-05-20"))]);
    once_only(endpoint.is_plain(), http_timeout, connect_timeout).default_headers(headers).build()
}

/// A client that sends each request once and goes nowhere else. Plain ones stay within this machine.
pub(super) fn once_only(plain: bool, http_timeout: Duration, connect_timeout: Duration) -> ClientBuilder {
    let builder = Client::builder()
        .user_agent(USER_AGENT)
        .timeout(http_timeout)
        .connect_timeout(connect_timeout.min(http_timeout / 2))
        .pool_idle_timeout(POOL_IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false);
    if plain {
        // A machine without certificates can still talk to itself, and `localhost` is this machine whatever the
        // resolver says.
        let here = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
        builder.no_proxy().tls_certs_only([]).resolve_to_addrs("localhost", &here)
    } else {
        builder.https_only(true)
    }
}
