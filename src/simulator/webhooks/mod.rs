//! Gemini's webhooks (gemini-api, section 3): registered ones, those that a request names, and the signed events that
//! both are sent when work ends.
//!
//! Who is told: when an interaction in the background or a batch ends, the addresses of the request's own
//! `webhook_config` if it has any, else the key's registered webhooks that are enabled and subscribe to the event. How
//! an end is noticed is told at [`mod@watch`]. Nothing is sent for `incomplete` and `budget_exceeded`, for which no event is
//! documented, nor for work that was deleted.
//!
//! Simulated events never leave the machine: see [`mod@address`].
//!
//! Webhooks, their secrets and events that were not delivered are in memory only. After a restart webhooks must be
//! registered anew, and what a journal remembers of earlier work causes no event: whoever waits must ask for it. Of
//! several simulators on one journal only the one that accepted a piece of work sends events about it.

mod address;
mod config;
mod deliver;
mod delivery;
mod event;
mod hub;
mod keys;
mod registered;
mod routes;
mod sign;
mod watch;

pub(super) use self::config::WebhookConfig;
pub(super) use self::event::{Data, End};
pub(super) use self::hub::Hub;
pub(super) use self::routes::{jwks, routes};
pub(super) use self::watch::{Work, look, watch};
