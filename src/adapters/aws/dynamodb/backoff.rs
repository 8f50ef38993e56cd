//! Waiting a little longer each time before DynamoDB is asked again.

use std::time::Duration;

use crate::adapters::system::{SystemClock, SystemIds};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;

/// Waits without any progress before it is given up: about three seconds in all.
const WAITS: u32 = 8;

/// The first wait at most; the next ones at most twice as long each.
const FIRST: Duration = Duration::from_millis(25);

/// How often was waited without any progress.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Something was brought on: the waits begin anew.
    pub fn progress(&mut self) {
        self.0 = 0;
    }

    /// Waits, between half and the whole of the time, so that many who wait don't come back together. False: it has
    /// been long enough.
    pub async fn wait(&mut self) -> bool {
        if self.0 == WAITS {
            return false;
        }
        let longest = FIRST.saturating_mul(1 << self.0);
        SystemClock.sleep(longest.mul_f64(0.5 + SystemIds.fraction() / 2.0)).await;
        self.0 += 1;
        true
    }
}
