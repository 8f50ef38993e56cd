//! Randomness.

use std::fmt;

/// The only way to randomness. In tests the test owns it.
pub trait Ids: fmt::Debug + Send + Sync {
    /// 128 random bits in 32 hex digits, which nobody can guess: revs, nonces, holders of leases.
    fn token(&self) -> String;

    /// A number in `0.0..1.0`: jitter and shuffling.
    fn fraction(&self) -> f64;
}
