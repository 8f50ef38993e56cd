//! `webhook list` and `webhook ping`.

use std::collections::BTreeSet;

use serde_json::json;

use super::{ENABLED, FAILED, all, find, is_same, told};
use crate::cli::args::Ping;
use crate::cli::hint::{quoted, see};
use crate::cli::open::{self, Context, Hooks};
use crate::cli::outcome::{Exit, Stop};
use crate::cli::table::{count, facts, plain, wrapped};
use crate::domain::webhook::Keyring;
use crate::ports::webhooks::Webhook;

/// Lists them all.
pub(super) async fn list(context: &Context) -> Result<Exit, Stop> {
    let hooks = open::hooks(context).await?;
    let webhooks = all(&hooks).await?;
    let ring = hooks.secrets.read().await?;
    let listed: Vec<_> = webhooks.iter().map(|webhook| told(&hooks, webhook, &ring)).collect();
    context.console.tell(&json!({"webhooks": listed, "nameless_secrets": ring.nameless()}))?;
    if webhooks.is_empty() {
        context.console.say(&format!(
            "No webhook is registered with this API key. Register one:\n  {}",
            see(context, "webhook register https://...")
        ))?;
    } else {
        context.console.say(&rows(&hooks, &webhooks, &ring))?;
    }
    for hint in hints(context, &hooks, &webhooks, &ring) {
        context.console.note(&wrapped(&plain(&hint)));
    }
    Ok(Exit::Done)
}

/// One under the other, so that URLs can be copied in one piece.
fn rows(hooks: &Hooks, webhooks: &[Webhook], ring: &Keyring) -> String {
    let of = |webhook: &Webhook| {
        let secrets = match ring.valid_of(&webhook.id, hooks.clock.now()) {
            0 => "none kept here".to_owned(),
            n => format!("{n} kept here"),
        };
        let name = webhook.name.iter().map(|name| ("name", plain(name)));
        facts([("id", plain(&webhook.id))].into_iter().chain(name).chain([
            ("url", plain(&webhook.uri)),
            ("events", plain(&webhook.events.join(", "))),
            ("state", plain(&webhook.state)),
            ("secrets", secrets),
        ]))
    };
    webhooks.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// What a person may want to do about them.
fn hints(context: &Context, hooks: &Hooks, webhooks: &[Webhook], ring: &Keyring) -> Vec<String> {
    let mut hints = Vec::new();
    let now = hooks.clock.now();
    for webhook in webhooks {
        let id = quoted(&webhook.id);
        if webhook.state == FAILED {
            hints.push(format!(
                "{id}: Gemini sends nothing more, since its deliveries failed for long. When {} answers again: `{}`",
                webhook.uri,
                see(context, &format!("webhook register {}", quoted(&webhook.uri)))
            ));
        }
        let is_ours = hooks.url.as_ref().is_some_and(|url| is_same(&webhook.uri, url));
        if is_ours && ring.valid_of(&webhook.id, now) == 0 {
            hints.push(format!(
                "{id} sends to our URL, and no secret of it is kept here: its events are refused. `{}`",
                see(context, &format!("webhook rotate {id}"))
            ));
        }
    }
    if ring.nameless() > 0 {
        hints.push(format!(
            "Of {} in {} nothing says whose they are; events signed with them are taken.",
            count(ring.nameless() as u64, "secret"),
            hooks.kept_in
        ));
    }
    let listed: BTreeSet<&str> = webhooks.iter().map(|webhook| webhook.id.as_str()).collect();
    for gone in ring.webhooks().difference(&listed) {
        hints.push(format!(
            "Secrets of {} are kept, which Gemini doesn't have with this API key. If it is gone for good: `{}`",
            quoted(gone),
            see(context, &format!("webhook delete {} --forget", quoted(gone)))
        ));
    }
    hints
}

/// Has Gemini send an event.
pub(super) async fn ping(context: &Context, args: &Ping) -> Result<Exit, Stop> {
    let hooks = open::hooks(context).await?;
    let webhook = find(context, &hooks, args.id.as_deref(), "ping").await?;
    let ring = hooks.secrets.read().await?;
    let id = quoted(&webhook.id);
    if webhook.state != ENABLED {
        context.console.warn(&format!("{id} is {}: Gemini may send nothing", plain(&webhook.state)));
    }
    if ring.valid_of(&webhook.id, hooks.clock.now()) == 0 && ring.nameless() == 0 {
        context.console.warn(&format!(
            "no secret of {id} is kept here: its events are refused. `{}`",
            see(context, &format!("webhook rotate {id}"))
        ));
    }
    let pinged = hooks.gemini.ping(&webhook.id).await;
    pinged.map_err(|error| Stop::Person(format!("Gemini sends no event. {error}")))?;
    context.console.tell(&json!({"webhook": webhook.id, "url": webhook.uri}))?;
    let seen = match &context.stack {
        Some(stack) => format!(
            "Whether it came is in the log of the webhook's function:\n  aws logs tail {} --since 5m",
            quoted(&format!("/aws/lambda/{stack}-webhook"))
        ),
        None => "`gleaner webhook serve` prints a line for each event that comes.".to_owned(),
    };
    context.console.say(&format!("Gemini was asked to send an event to {}.\n{seen}", plain(&webhook.uri)))?;
    Ok(Exit::Done)
}
