//! What the program needs from outside: one small trait a file, with typed errors.
//!
//! With the feature `testing`, `conformance` holds one suite per port that every adapter passes.

pub mod batches;
pub mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod gemini;
pub mod handover;
pub mod ids;
pub mod inbox;
pub mod ledger;
pub mod notices;
pub mod objects;
pub mod queue;
pub mod seed;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod webhook_keys;
pub mod webhooks;
