//! The system's clock and randomness.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use rand::{Rng, RngExt};

use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;

/// The clock on the wall, and the runtime's timer. `sleep` needs a Tokio runtime with its timer on.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    /// Unix time. A clock that stands before 1970 is told as it is, as a negative time.
    fn now(&self) -> Millis {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
        let now = SystemTime::now();
        from_system(now)
    }

    async fn sleep(&self, wait: Duration) {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
        tokio::time::sleep(wait).await;
    }
}

/// A time of the operating system, such as a file's, in whole milliseconds; stays within the range rather than wrapping.
#[must_use]
pub fn from_system(time: SystemTime) -> Millis {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Millis(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
        Err(before) => Millis(i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |before| -before)),
    }
}

/// The operating system's random number generator.
///
/// A machine whose generator fails can't run this program: a guessed rev or nonce would break what they are for, so
/// that the call panics rather than making one up.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn token(&self) -> String {
        let mut bytes = [0; 16];
        UnwrapErr(SysRng).fill_bytes(&mut bytes);
        hex::encode(bytes)
    }

    fn fraction(&self) -> f64 {
        UnwrapErr(SysRng).random()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_are_32_hex_digits_and_do_not_repeat() {
        let tokens: HashSet<String> = (0..1000).map(|_| SystemIds.token()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit())));
    }

    #[test]
    fn fractions_fill_the_range_and_stay_in_it() {
        let fractions: Vec<f64> = (0..1000).map(|_| SystemIds.fraction()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        assert!(fractions.iter().any(|&fraction| fraction < 0.25) && fractions.iter().any(|&fraction| fraction > 0.75));
    }

    #[test]
    fn times_before_1970_are_negative() {
        assert_eq!(from_system(UNIX_EPOCH + Duration::from_millis(1500)), Millis(1500));
        assert_eq!(from_system(UNIX_EPOCH - Duration::from_millis(1500)), Millis(-1500));
    }

    #[tokio::test]
    async fn sleeping_takes_at_least_that_long() {
        let before = SystemClock.now();
        SystemClock.sleep(Duration::from_millis(20)).await;
        // The timer is steady and the clock may be set back by others meanwhile: only a set clock could fail this.
        assert!(SystemClock.now().since(before) >= Duration::from_millis(19));
    }
}
