//! Gemini's public keys, fetched from where it publishes them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Url};
use tokio::sync::Mutex;

use super::answer::{Answer, End, reason};
use super::client::once_only;
use super::endpoint::is_loopback;
use crate::domain::time::Millis;
use crate::domain::webhook::KeySet;
use crate::ports::clock::Clock;
use crate::ports::webhook_keys::{KeysError, PublicKeys};

/// One fetch from connecting to the last byte: an event must be answered within seconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The longest answer, in bytes.
const MAX_BODY: u64 = 256 * 1024;

/// Between two fetches, however they ended: whoever sends forged events must not make us ask more often.
const GAP: Duration = Duration::from_secs(60);

/// How long keys are used before they are fetched anew: what Gemini has withdrawn is out of use after that.
const FRESH: Duration = Duration::from_secs(6 * 3600);

/// How long they are used when they can't be fetched anew.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The keys at a URL. One for the whole process. It sends no API key, follows no redirect, and fetches at most once a
/// minute, once for all who ask at the same time.
#[derive(Debug)]
pub struct HttpPublicKeys {
    client: Client,
    url: Url,
    clock: Arc<dyn Clock>,
    known: RwLock<Option<Known>>,
    /// The last fetch. Who fetches holds it; who only needs what is known doesn't wait for it.
    last: Mutex<Option<Fetch>>,
}

#[derive(Debug, Clone)]
struct Known {
    keys: Arc<KeySet>,
    at: Millis,
}

#[derive(Debug)]
struct Fetch {
    at: Millis,
    /// Why it failed.
    failed: Option<KeysError>,
}

impl HttpPublicKeys {
    /// The keys at that URL, such as `https://generativelanguage.googleapis.com/.well-known/jwks.json`. Nothing is sent
    /// yet. `http://` is taken for this machine only: on the way, keys could be swapped.
    ///
    /// # Errors
    /// A URL that can't be used (a person must mend it).
    pub fn new(url: String, clock: Arc<dyn Clock>) -> Result<Self, KeysError> {
        let bad =
            |why: &str| KeysError::NeedsPerson(format!("the URL of Gemini's public keys (GLEANER_WEBHOOK_KEYS) {why}"));
        let url = Url::parse(url.trim()).map_err(|error| bad(&format!("is no URL: {error}")))?;
        let plain = match url.scheme() {
            "https" => false,
            "http" if is_loopback(url.host_str().unwrap_or_default()) => true,
            "http" => return Err(bad("is http://, which is allowed within this machine only: use https://")),
            _ => return Err(bad("does not begin with https://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("has a user name or password in it, which is not supported"));
        }
        let client = once_only(plain, TIMEOUT, TIMEOUT).build();
        let client = client.map_err(|error| bad(&format!("can't be asked: {}", reason(error))))?;
        Ok(Self { client, url, clock, known: RwLock::default(), last: Mutex::default() })
    }

    /// What is known, unless it is older than `longest`.
    fn held(&self, longest: Duration) -> Option<Arc<KeySet>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|known| self.clock.now().since(known.at) < longest)?;
        Some(Arc::clone(&known.keys))
    }

    /// Fetches them, unless somebody has within the last minute, and keeps what came. Tells why the last fetch failed.
    async fn refresh(&self) -> Result<(), KeysError> {
        let mut last = self.last.lock().await;
        let now = self.clock.now();
        if let Some(fetch) = &*last
            // A clock that was set back must not stop fetching until it is there again.
            && now >= fetch.at
            && now.since(fetch.at) < GAP
        {
            return fetch.failed.clone().map_or(Ok(()), Err);
        }
        // Counts from the beginning, and also when whoever asked goes away before its end.
        let begun = KeysError::Busy(format!("Gemini's public keys could not be fetched from {} in time", self.url));
        *last = Some(Fetch { at: now, failed: Some(begun) });
        let failed = match self.fetch().await {
            Ok(keys) => {
                let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
                let same = known.take().map(|known| known.keys).filter(|known| **known == keys);
                *known = Some(Known { keys: same.unwrap_or_else(|| Arc::new(keys)), at: now });
                None
            }
            Err(error) => {
                tracing::warn!(keys.url = %self.url, "{error}");
                Some(error)
            }
        };
        *last = Some(Fetch { at: now, failed: failed.clone() });
        failed.map_or(Ok(()), Err)
    }

    async fn fetch(&self) -> Result<KeySet, KeysError> {
        let what = format!("Gemini's public keys at {}", self.url);
        let sent = self.client.get(self.url.clone()).send().await;
        let sent = sent.map_err(|error| KeysError::Busy(format!("{what} are out of reach: {}", reason(error))))?;
        let answer = Answer::read(sent, MAX_BODY).await;
        let see = "see GLEANER_WEBHOOK_KEYS";
        match answer.status.as_u16() {
            200 => {}
            status @ (408 | 429 | 500..) => {
                return Err(KeysError::Busy(format!("{what} are out of reach: answered {status}")));
            }
            status => return Err(KeysError::NeedsPerson(format!("{what} are not there: answered {status}; {see}"))),
        }
        match answer.end {
            End::Whole => {}
            End::Broken(why) => return Err(KeysError::Busy(format!("{what} came in part: {why}"))),
            End::TooLong(limit) => {
                return Err(KeysError::NeedsPerson(format!("{what} are longer than {limit} bytes; {see}")));
            }
        }
        KeySet::parse(&answer.body)
            .map_err(|error| KeysError::NeedsPerson(format!("{what} can't be used: {error}; {see}")))
    }
}

#[async_trait]
impl PublicKeys for HttpPublicKeys {
    /// After 6 hours they are fetched anew; a set that can't be is used for 24 hours, and then no more.
    async fn known(&self) -> Result<Arc<KeySet>, KeysError> {
        if let Some(keys) = self.held(FRESH) {
            return Ok(keys);
        }
        let refreshed = self.refresh().await;
        match (self.held(KEPT), refreshed) {
            (Some(keys), _) => Ok(keys),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(KeysError::Busy(format!("Gemini's public keys at {} are too old", self.url))),
        }
    }

    /// When they can't be fetched anew nobody knows whether the signature is one of newer keys: that is an error, not "the
    /// same".
    async fn newer_than(&self, seen: &Arc<KeySet>) -> Result<Arc<KeySet>, KeysError> {
        if let Some(keys) = self.held(FRESH)
            && !Arc::ptr_eq(&keys, seen)
        {
            return Ok(keys);
        }
        self.refresh().await?;
        Ok(self.held(KEPT).unwrap_or_else(|| Arc::clone(seen)))
    }
}
