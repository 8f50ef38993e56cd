//! One conformance suite per port: every adapter passes them.
//!
//! Each rule is a function of its own, so that a failure names it; `all` runs every rule of a port, each on a fresh
//! one that the adapter's test makes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests, although they are compiled for those of other adapters too"
)]

pub mod inbox;
pub mod ledger;
pub mod objects;
pub mod queue;
pub mod sample;
