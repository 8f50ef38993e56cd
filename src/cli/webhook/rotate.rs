//! `webhook rotate` and `webhook delete`: secrets that end.

use std::time::Duration;

use serde_json::json;

use super::{absent, all, bare, find, is_definite, keep};
use crate::cli::args::{Delete, Rotate};
use crate::cli::hint::{quoted, see};
use crate::cli::open::{self, Context, Hooks};
use crate::cli::outcome::{Exit, Stop};
use crate::cli::table::{count, plain};
use crate::ports::gemini::ReadError;
use crate::ports::webhooks::Revoke;

/// How long Gemini signs with the older secrets beside the new one, unless they end at once.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Has Gemini make a new secret, and keeps it.
pub(super) async fn rotate(context: &Context, args: &Rotate) -> Result<Exit, Stop> {
    keep::to_its_end(context, rotate_it(context, args)).await
}

async fn rotate_it(context: &Context, args: &Rotate) -> Result<Exit, Stop> {
    let hooks = open::hooks(context).await?;
    let webhook = find(context, &hooks, args.id.as_deref(), "rotate").await?;
    let _alone = keep::prove(&hooks).await?;
    let (revoke, until) =
        if args.now { (Revoke::AtOnce, hooks.clock.now()) } else { (Revoke::InADay, hooks.clock.now().plus(A_DAY)) };
    let rotated = hooks.gemini.rotate(&webhook.id, revoke).await;
    let secret = rotated.map_err(|error| unrotated(context, &webhook.id, args.now, &error))?;
    let kept = keep::change(&hooks, |ring| {
        ring.add(&webhook.id, secret.clone());
        ring.retire(&webhook.id, &secret, until);
    });
    let (ring, ()) = kept.await.map_err(|error| {
        Stop::Person(format!(
            "Gemini made a new secret, which could not be kept: {error}\n{}\nMend that, then rotate again:\n  {}",
            meanwhile(args.now),
            again(context, &webhook.id, args.now)
        ))
    })?;
    let secrets = ring.valid_of(&webhook.id, hooks.clock.now());
    let ends = (secrets > 1).then(|| until.to_string());
    let unnamed = ring.nameless();
    context
        .console
        .tell(&json!({"webhook": webhook.id, "secrets": secrets, "older_until": ends, "unnamed_secrets": unnamed}))?;
    let mut older = match ends {
        Some(ends) => format!("Older ones are good until {ends}."),
        None => "No older one of it is good any more.".to_owned(),
    };
    if unnamed > 0 {
        older = format!(
            "{older}\n{} there {} of no webhook that is known here, and good as before. If one was of this webhook,\n\
             take it out by hand.",
            count(unnamed as u64, "secret"),
            if unnamed == 1 { "is" } else { "are" }
        );
    }
    context.console.say(&format!("The new secret of {} is kept in {}.\n{older}", plain(&webhook.id), hooks.kept_in))?;
    Ok(Exit::Done)
}

/// Why there is no new secret, or why nobody knows whether there is.
fn unrotated(context: &Context, id: &str, now: bool, error: &ReadError) -> Stop {
    if is_definite(error) {
        return Stop::Person(format!("there is no new secret, and the older ones are as good as before. {error}"));
    }
    Stop::Person(format!(
        "it is not known whether there is a new secret, and if there is, it is lost. {error}\n{}\nRotate again:\n  {}",
        meanwhile(now),
        again(context, id, now)
    ))
}

fn meanwhile(now: bool) -> &'static str {
    if now {
        "If it is so, events are refused until there is a secret that is kept here; Gemini sends them again for 24 hours."
    } else {
        "The older ones go on verifying events for 24 hours."
    }
}

fn again(context: &Context, id: &str, now: bool) -> String {
    see(context, &format!("webhook rotate {}{}", quoted(id), if now { " --now" } else { "" }))
}

/// Deletes a webhook, and then its secrets.
pub(super) async fn delete(context: &Context, args: &Delete) -> Result<Exit, Stop> {
    keep::to_its_end(context, delete_it(context, args)).await
}

async fn delete_it(context: &Context, args: &Delete) -> Result<Exit, Stop> {
    let hooks = open::hooks(context).await?;
    let id = bare(&args.id);
    let kept = hooks.secrets.read().await?.of(id);
    let is_there = all(&hooks).await?.iter().any(|webhook| webhook.id == id);
    if is_there {
        unregister(context, &hooks, id).await?;
    } else if kept == 0 {
        return Err(Stop::Usage(absent(id, &see(context, "webhook list"))));
    } else if !args.forget {
        // With the key of another project it would look the same, and a secret is told only once.
        return Err(Stop::Usage(format!(
            "Gemini knows no webhook {id} with this API key, and {} of it {} kept here. If it is gone for good:\n  {}",
            count(kept as u64, "secret"),
            if kept == 1 { "is" } else { "are" },
            see(context, &format!("webhook delete {} --forget", quoted(id)))
        )));
    }
    let removed = if kept == 0 {
        0
    } else {
        let _alone = hooks.alone().await?;
        let changed = keep::change(&hooks, |ring| ring.remove(id)).await;
        let (_, removed) = changed.map_err(|error| {
            Stop::Person(format!(
                "the webhook is deleted, and its secrets are still kept: {error}\nMend that, then remove them:\n  {}",
                see(context, &format!("webhook delete {} --forget", quoted(id)))
            ))
        })?;
        removed
    };
    context.console.tell(&json!({"webhook": id, "deleted": is_there, "secrets_removed": removed}))?;
    let gone = if is_there { "Deleted" } else { "Forgotten" };
    context.console.say(&format!("{gone}: {}; {} removed here.", plain(id), count(removed as u64, "secret")))?;
    Ok(Exit::Done)
}

async fn unregister(context: &Context, hooks: &Hooks, id: &str) -> Result<(), Stop> {
    hooks.gemini.unregister(id).await.map_err(|error| {
        if is_definite(&error) {
            return Stop::Person(format!("the webhook was not deleted. {error}"));
        }
        Stop::Person(format!(
            "it is not known whether the webhook was deleted; its secrets are still kept. {error}\nLook: `{}`",
            see(context, "webhook list")
        ))
    })
}
