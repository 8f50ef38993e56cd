//! Sending an event until it is accepted.
//!
//! A try that is not answered with 2xx is made again after 1 s, 2 s, 4 s and so on up to ten minutes, for 24 hours
//! ([`Config::event_retry`](super::super::Config::event_retry),
//! [`Config::event_retry_for`](super::super::Config::event_retry_for)). The id stays the same; the timestamp, the
//! signature, the secrets and a registered webhook's address are those of the try.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;

use super::super::faults::Fault;
use super::super::world::World;
use super::address;
use super::delivery::{Delivery, Outcome, Target, Try};
use super::keys::Rsa;
use super::registered::Aim;
use super::sign::{Form, Message, Truth};

/// The shortest pause between two tries, whatever is asked for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// How far back the fault `event-old-timestamp` dates a try. Receivers take five minutes.
const OLD: Duration = Duration::from_secs(600);

/// Sends an event in the background, until it is accepted or the simulator ends.
pub(super) fn deliver(world: &Arc<World>, delivery: Arc<Delivery>) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        tokio::select! {
            outcome = outcome(&world, &delivery) => world.hub().ended(&delivery, outcome),
            () = world.closed() => {}
        }
    });
}

async fn outcome(world: &World, delivery: &Delivery) -> Outcome {
    match delivery.fault {
        Some(Fault::EventLost) => return Outcome::Lost,
        Some(Fault::EventLate) => world.clock.sleep(world.config.event_late).await,
        Some(Fault::EventShuffled) => tokio::select! {
            () = world.hub().overtaken(delivery) => {}
            () = world.clock.sleep(world.config.event_held) => {}
        },
        Some(Fault::EventTwice) => {
            let (one, other) = futures::join!(tries(world, delivery), tries(world, delivery));
            return if one == Outcome::Accepted { other } else { one };
        }
        _ => {}
    }
    tries(world, delivery).await
}

async fn tries(world: &World, delivery: &Delivery) -> Outcome {
    let (hub, config) = (world.hub(), &world.config);
    let mut pause = config.event_retry.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut first = true;
    loop {
        let aim = match &delivery.target {
            Target::Named(uri) => Some(Aim { uri: uri.clone(), enabled: true, keys: Vec::new() }),
            Target::Registered(id) => hub.registered.aim(id, world.now()),
        };
        let Some(aim) = aim.filter(|aim| aim.enabled || delivery.ping) else { return Outcome::Dropped };
        if !address::read(&aim.uri).is_some_and(|url| address::is_here(&url)) {
            return Outcome::Undeliverable;
        }
        let tried = {
            // The semaphore is never closed.
            let _permit = hub.at_once.acquire().await;
            let at = world.now();
            hub.sent();
            Try::new(at, send(world, delivery, &aim, first).await)
        };
        let (accepted, now) = (tried.is_accepted(), world.now());
        hub.tried(delivery, tried);
        if let (true, Target::Registered(id)) = (accepted, &delivery.target) {
            hub.registered.accepted(id, now);
        }
        if accepted {
            return Outcome::Accepted;
        }
        if delivery.ping || now.since(delivery.made) + pause > config.event_retry_for {
            if let (false, Target::Registered(id)) = (delivery.ping, &delivery.target) {
                hub.registered.gave_up(id, delivery.made, now);
            }
            return Outcome::GivenUp;
        }
        world.clock.sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        first = false;
    }
}

/// One try: the status of the answer, or why there is none.
async fn send(world: &World, delivery: &Delivery, aim: &Aim, first: bool) -> Result<u16, String> {
    let (event, now) = (&delivery.event, world.now().0.div_euclid(1000));
    let old = first && delivery.fault == Some(Fault::EventOldTimestamp);
    let at = if old { now.saturating_sub_unsigned(OLD.as_secs()) } else { now };
    let message = Message { id: &event.id, at, body: &event.body };
    let truth = Truth::of(delivery.fault, first);
    let signature = match delivery.form {
        Form::V1 => message.v1(&aim.keys, truth),
        Form::V1a => message.v1a(&world.hub().ed25519, truth),
        Form::Jwt => message.token(Rsa::get().await.map_err(|error| error.to_string())?, &aim.uri)?,
    };
    post(world.hub().client()?, &aim.uri, &message, signature).await.map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    })
}

async fn post(client: &Client, uri: &str, message: &Message<'_>, signature: String) -> reqwest::Result<u16> {
    let request = client.post(uri).header("content-type", "application/json");
    let request = request.header("webhook-id", message.id).header("webhook-timestamp", message.at);
    let answer = request.header("webhook-signature", signature).body(message.body.to_vec()).send().await?;
    let status = answer.status().as_u16();
    // Read to its end, so that the connection can be used again; but no more than anybody would send.
    let short = answer.content_length().is_some_and(|length| length <= 64 << 10);
    if short && let Err(error) = answer.bytes().await {
        tracing::debug!(%error, "simulator: the answer to an event broke off behind its status");
    }
    Ok(status)
}
