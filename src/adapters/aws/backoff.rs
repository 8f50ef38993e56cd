//! Waiting between tries that the SDK doesn't make by itself.

use std::time::Duration;

use crate::adapters::system::{SystemClock, SystemIds};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;

/// The longest wait before the first try again; it doubles with each one.
const FIRST: Duration = Duration::from_millis(100);

/// The longest wait of all.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits before another try, after `failed` tries that failed: anything up to twice as long as before, so that those
/// who were refused together don't come again together.
pub async fn pause(failed: u32) {
    let longest = FIRST.saturating_mul(1 << failed.saturating_sub(1).min(10)).min(LONGEST);
    SystemClock.sleep(longest.mul_f64(SystemIds.fraction())).await;
}
