//! Who vouches for an event.

use std::sync::Arc;

use super::{Reception, Stop};
use crate::domain::webhook::{Delivery, Proof, Refusal, Request};

/// Verifies a request. Secrets are read, and keys fetched, only for signatures that need them.
///
/// An event is refused only when everything that could prove it is at hand: what can't be read now may come again.
pub(super) async fn verify(reception: &Reception, request: &Request) -> Result<Proof, Stop> {
    let now = reception.clock.now();
    let delivery = Delivery::read(request, now)?;
    let mut unreadable = None;
    if delivery.asks_for_secrets() {
        match reception.secrets.current().await {
            Ok(keyring) => {
                if let Some(proof) = delivery.proved_by_secrets(&keyring.valid(now)) {
                    return Ok(proof);
                }
            }
            Err(error) => unreadable = Some(error),
        }
    }
    if !delivery.asks_for_public_keys() {
        return Err(unreadable.map_or_else(nobody, Stop::from));
    }
    let known = reception.public_keys.known().await?;
    let audience = reception.audience.as_deref();
    let refusal = match delivery.proved_by_keys(&known, audience, now) {
        Ok(proof) => return Ok(proof),
        Err(refusal) => refusal,
    };
    // Gemini may have changed its keys.
    let newer = reception.public_keys.newer_than(&known).await?;
    if !Arc::ptr_eq(&newer, &known)
        && let Ok(proof) = delivery.proved_by_keys(&newer, audience, now)
    {
        return Ok(proof);
    }
    Err(unreadable.map_or(Stop::Refused(refusal), Stop::from))
}

fn nobody() -> Stop {
    Stop::Refused(Refusal::Unsigned("no signature fits".to_owned()))
}
