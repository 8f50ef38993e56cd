//! `webhook`: the webhooks that are registered with Gemini, and their signing secrets.

mod door;
mod keep;
mod look;
mod register;
mod rotate;
mod serve;

use std::net::IpAddr;

use reqwest::Url;
use serde_json::{Value, json};

use super::args::WebhookCommand;
use super::hint::{quoted, see};
use super::open::{Context, Hooks};
use super::outcome::{Exit, Stop};
use super::table::plain;
use crate::domain::webhook::Keyring;
use crate::ports::gemini::ReadError;
use crate::ports::webhooks::Webhook;

/// The state of a webhook that events are sent to.
const ENABLED: &str = "enabled";

/// That of one whose deliveries have failed for long.
const FAILED: &str = "disabled_due_to_failed_deliveries";

/// Does what is asked.
pub async fn webhook(context: &Context, command: &WebhookCommand) -> Result<Exit, Stop> {
    match command {
        WebhookCommand::Register(args) => register::register(context, args).await,
        WebhookCommand::List => look::list(context).await,
        WebhookCommand::Ping(args) => look::ping(context, args).await,
        WebhookCommand::Rotate(args) => rotate::rotate(context, args).await,
        WebhookCommand::Delete(args) => rotate::delete(context, args).await,
        WebhookCommand::Serve(args) => serve::serve(context, args).await,
    }
}

/// A webhook, for scripts.
fn told(hooks: &Hooks, webhook: &Webhook, ring: &Keyring) -> Value {
    json!({
        "id": webhook.id, "name": webhook.name, "url": webhook.uri, "events": webhook.events, "state": webhook.state,
        "secrets": ring.valid_of(&webhook.id, hooks.clock.now()),
    })
}

/// The one of that id; without an id the only one of ours.
async fn find(context: &Context, hooks: &Hooks, id: Option<&str>, command: &str) -> Result<Webhook, Stop> {
    let all = all(hooks).await?;
    let list = see(context, "webhook list");
    if let Some(id) = id {
        let found = all.into_iter().find(|webhook| webhook.id == bare(id));
        return found.ok_or_else(|| Stop::Usage(absent(id, &list)));
    }
    let ring = hooks.secrets.read().await?;
    let kept = ring.webhooks();
    // A registered webhook needs no setting, so that often the secrets alone say which one is ours.
    let is_ours = |webhook: &Webhook| match &hooks.url {
        Some(url) => is_same(&webhook.uri, url),
        None => kept.contains(webhook.id.as_str()),
    };
    let ours: Vec<Webhook> = all.into_iter().filter(is_ours).collect();
    match (<[Webhook; 1]>::try_from(ours), &hooks.url) {
        (Ok([webhook]), _) => Ok(webhook),
        (Err(none), Some(url)) if none.is_empty() => Err(Stop::Usage(format!(
            "no webhook is registered with {url}:\n  {}",
            see(context, &format!("webhook register {}", quoted(url)))
        ))),
        (Err(several), Some(url)) => Err(Stop::Usage(format!(
            "several webhooks are registered with {url}. Name one of them: {}",
            several.iter().map(|webhook| plain(&webhook.id)).collect::<Vec<_>>().join(", ")
        ))),
        (Err(none), None) if none.is_empty() && kept.is_empty() => Err(Stop::Usage(format!(
            "no webhook of ours is known here. Name one of `{list}`, or register one:\n  {}\n  {}",
            see(context, &format!("webhook {command} ID")),
            see(context, "webhook register https://...")
        ))),
        (Err(_), None) => Err(Stop::Usage(format!(
            "which webhook? Name one of `{list}`, or set GLEANER_WEBHOOK_URL to the URL of yours:\n  {}",
            see(context, &format!("webhook {command} ID"))
        ))),
    }
}

fn absent(id: &str, list: &str) -> String {
    format!("Gemini knows no webhook {id} with this API key: `{list}` has them all")
}

async fn all(hooks: &Hooks) -> Result<Vec<Webhook>, Stop> {
    hooks.gemini.webhooks().await.map_err(|error| Stop::Person(format!("webhooks can't be listed. {error}")))
}

/// An id as Gemini's paths have it.
fn bare(id: &str) -> &str {
    id.strip_prefix("webhooks/").unwrap_or(id)
}

/// Whether two texts are the same URL.
fn is_same(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Whether an error says that nothing was done. Else it may have been, and no answer tells.
fn is_definite(error: &ReadError) -> bool {
    match error {
        ReadError::Refused(failure) => {
            failure.http.is_some_and(|http| (400..500).contains(&http) && !matches!(http, 408 | 409))
        }
        ReadError::NoAnswer(_) | ReadError::TooLong(_) => false,
    }
}

/// Checks a URL that events are to be sent to: over the network only unreadable for others.
fn check(url: &str) -> Result<(), Stop> {
    let wrong = |why: &str| Err(Stop::Usage(format!("no events can be sent to {url}: {why}")));
    let Ok(parsed) = Url::parse(url) else { return wrong("it is no URL; it must be like https://example.com/webhook") };
    let host = parsed.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|ip| ip.is_loopback());
    match parsed.scheme() {
        _ if host.is_empty() => wrong("it names no host"),
        _ if !parsed.username().is_empty() || parsed.password().is_some() => {
            wrong("it has a user name or password in it")
        }
        _ if parsed.fragment().is_some() => wrong("it has a `#` in it"),
        "https" => Ok(()),
        "http" if is_here => Ok(()),
        _ => wrong("it must be https:// (http:// is for this machine alone)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_go_over_https_or_stay_on_this_machine() {
        for url in [
            "https://example.test/webhook",
            "https://example.test:8443/a?b=c",
            "http://127.0.0.1:8081/webhook",
            "http://localhost/webhook",
            "http://[::1]:80/webhook",
            "http://abc.execute-api.localhost:4566/webhook",
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
        for url in [
            "example.test/webhook",
            "http://example.test/webhook",
            "http://localhost.example.test/webhook",
            "http://10.0.0.1/webhook",
            "ftp://127.0.0.1/webhook",
            "https://user:pass@example.test/webhook",
            "https://example.test/webhook#x",
            "file:///etc/passwd",
        ] {
            assert!(matches!(check(url), Err(Stop::Usage(_))), "{url}");
        }
    }

    #[test]
    fn urls_are_compared_as_urls() {
        assert!(is_same("https://Example.test", "https://example.test:443/"));
        assert!(!is_same("https://example.test/a", "https://example.test/a/"));
        assert!(!is_same("https://example.test/a", "http://example.test/a"));
    }
}
