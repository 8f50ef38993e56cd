//! The time of day, and waiting.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::time::Millis;

/// The only way to the time. In tests the test owns it.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> Millis;

    /// Returns once at least `wait` has passed. Cancel safe.
    async fn sleep(&self, wait: Duration);
}
