//! Events that Gemini sends: who may have sent one, what it says, and what is remembered of it (design, section 8).
//!
//! What an event says is never trusted: it names a job, which is then asked for with an API key of ours.

mod body;
mod delivery;
mod hook;
mod key_set;
mod keyring;
mod received;
mod request;
mod secret;
mod signature;
mod token;

pub use self::body::{Body, Named};
pub use self::delivery::{Delivery, Proof};
pub use self::hook::Hook;
pub use self::key_set::{KeySet, KeySetError};
pub use self::keyring::{Keyring, KeyringError};
pub use self::received::{EVENT_LEASE, Event, KEPT, Outcome, Stray};
pub use self::request::{LARGEST, Refusal, Request};
pub use self::secret::{SecretFormError, SigningSecret};
