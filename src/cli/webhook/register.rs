//! `webhook register`.

use serde_json::json;

use super::keep;
use super::{ENABLED, all, check, is_definite, is_same, told};
use crate::cli::args::Register;
use crate::cli::hint::{quoted, see};
use crate::cli::open::{self, Context, Hooks};
use crate::cli::outcome::{Exit, Stop};
use crate::cli::table::{count, plain};
use crate::domain::webhook::SigningSecret;
use crate::ports::gemini::ReadError;
use crate::ports::webhook_keys::KeysError;
use crate::ports::webhooks::Webhook;

/// All events of batches and interactions that the SDK's list has (google-genai 3.3.0). The guide also names
/// `batch.cancelled` and `interaction.cancelled`: who cancels knows, and `--event` takes any.
const EVENTS: [&str; 6] = [
    "batch.succeeded",
    "batch.expired",
    "batch.failed",
    "interaction.requires_action",
    "interaction.completed",
    "interaction.failed",
];

/// Registers our URL, unless it is.
pub(super) async fn register(context: &Context, args: &Register) -> Result<Exit, Stop> {
    if let Some(url) = &args.url {
        check(url)?;
    }
    let hooks = open::hooks(context).await?;
    let url = args.url.as_ref().or(hooks.url.as_ref()).ok_or_else(|| {
        Stop::Usage(format!(
            "to which URL? Name it, or set GLEANER_WEBHOOK_URL:\n  {}",
            see(context, "webhook register https://...")
        ))
    })?;
    check(url)?;
    let ours: Vec<Webhook> = all(&hooks).await?.into_iter().filter(|webhook| is_same(&webhook.uri, url)).collect();
    if let Some(per_job) = &hooks.per_job {
        context.console.note(&format!(
            "GLEANER_WEBHOOK_URL is set: events of jobs go to {per_job} whatever is registered, signed with Gemini's own keys."
        ));
    }
    match ours.is_empty() {
        true => keep::to_its_end(context, make(context, &hooks, url, args)).await,
        false => look_after(context, &hooks, ours, args).await,
    }
}

async fn make(context: &Context, hooks: &Hooks, url: &str, args: &Register) -> Result<Exit, Stop> {
    let _alone = keep::prove(hooks).await?;
    let events: Vec<String> =
        if args.events.is_empty() { EVENTS.map(str::to_owned).to_vec() } else { args.events.clone() };
    let made = hooks.gemini.register(url, &events, args.name.as_deref()).await;
    let (webhook, secret) = made.map_err(|error| unregistered(context, url, &error))?;
    let kept = keep::change(hooks, |ring| ring.add(&webhook.id, secret.clone())).await;
    let (ring, ()) = match kept {
        Ok(kept) => kept,
        Err(error) => return Err(lost(context, hooks, &webhook, &secret, &error).await),
    };
    context.console.tell(&json!({"webhook": told(hooks, &webhook, &ring), "made": true, "enabled_again": false}))?;
    context.console.say(&format!(
        "Registered: {} for {}\nEvents: {}\nIts signing secret is kept in {}.\nSee whether events come: `{}`",
        plain(&webhook.id),
        plain(&webhook.uri),
        plain(&webhook.events.join(", ")),
        hooks.kept_in,
        see(context, &format!("webhook ping {}", quoted(&webhook.id)))
    ))?;
    Ok(Exit::Done)
}

/// Why there is no webhook, or why nobody knows whether there is.
fn unregistered(context: &Context, url: &str, error: &ReadError) -> Stop {
    if is_definite(error) {
        return Stop::Person(format!("nothing was registered. {error}"));
    }
    Stop::Person(format!(
        "it is not known whether the webhook was registered, and if it was, its secret is lost. {error}\n\
         Register it again: that makes no second one, and says what to do if it is there.\n  {}",
        see(context, &format!("webhook register {}", quoted(url)))
    ))
}

/// Takes back a webhook whose secret could not be kept: it would never verify an event.
async fn lost(context: &Context, hooks: &Hooks, webhook: &Webhook, secret: &SigningSecret, error: &KeysError) -> Stop {
    let id = quoted(&webhook.id);
    // Its writing may have gone through all the same.
    let is_kept = hooks.secrets.read().await.is_ok_and(|ring| ring.valid(hooks.clock.now()).contains(secret));
    if is_kept {
        return Stop::Person(format!(
            "the webhook {id} is registered and its secret is kept, but not for sure: {error}\nLook: `{}`",
            see(context, "webhook list")
        ));
    }
    match hooks.gemini.unregister(&webhook.id).await {
        Ok(()) => Stop::Person(format!(
            "the secret of the new webhook could not be kept, so the webhook was deleted again: {error}\n\
             Mend that, and register again."
        )),
        Err(stays) => Stop::Person(format!(
            "the webhook {id} is registered, and its secret is lost since it could not be kept: {error}\n\
             It could not be deleted again either. {stays}\nMend that, then have Gemini make a new secret, or delete it:\n  {}\n  {}",
            see(context, &format!("webhook rotate {id} --now")),
            see(context, &format!("webhook delete {id}"))
        )),
    }
}

/// The URL is registered: is it enabled, and is its secret here?
async fn look_after(context: &Context, hooks: &Hooks, ours: Vec<Webhook>, args: &Register) -> Result<Exit, Stop> {
    let ring = hooks.secrets.read().await?;
    let now = hooks.clock.now();
    let several = ours.len();
    let best = ours.into_iter().max_by_key(|webhook| (ring.valid_of(&webhook.id, now) > 0, webhook.state == ENABLED));
    let Some(mut webhook) = best else { return Ok(Exit::Done) };
    if several > 1 {
        context.console.warn(&format!(
            "{} are registered with that URL, and each sends every event: delete all but one (`{}`)",
            count(several as u64, "webhook"),
            see(context, "webhook list")
        ));
    }
    let was_off = webhook.state.starts_with("disabled");
    if was_off {
        let enabled = hooks.gemini.enable(&webhook.id).await;
        webhook = enabled.map_err(|error| {
            Stop::Person(format!("the webhook {} could not be enabled again. {error}", quoted(&webhook.id)))
        })?;
    }
    let id = quoted(&webhook.id);
    let state = if was_off { "Enabled again" } else { "Registered already" };
    if ring.valid_of(&webhook.id, now) == 0 {
        let nameless = match ring.nameless() {
            0 => String::new(),
            n => format!(" (unless one of {} of which nothing says whose they are)", count(n as u64, "secret")),
        };
        return Err(Stop::Person(format!(
            "{}: {id} for {}. But no secret of it is kept in {}{nameless}, so that its events are refused.\n\
             Gemini tells a secret once. Have it make a new one:\n  {}",
            state.to_lowercase(),
            plain(&webhook.uri),
            hooks.kept_in,
            see(context, &format!("webhook rotate {id}"))
        )));
    }
    let mut asked = args.events.clone();
    let mut has = webhook.events.clone();
    asked.sort();
    has.sort();
    if !asked.is_empty() && asked != has {
        context.console.warn(&format!(
            "it is registered for other events: {}. To change them, delete it and register again:\n  {}",
            plain(&webhook.events.join(", ")),
            see(context, &format!("webhook delete {id}"))
        ));
    }
    context.console.tell(&json!({"webhook": told(hooks, &webhook, &ring), "made": false, "enabled_again": was_off}))?;
    context.console.say(&format!(
        "{state}: {} for {}; its secret is kept.",
        plain(&webhook.id),
        plain(&webhook.uri)
    ))?;
    Ok(Exit::Done)
}
