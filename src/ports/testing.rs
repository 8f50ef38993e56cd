//! A clock and ids that a test owns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::clock::Clock;
use super::ids::Ids;
use crate::domain::job::Rev;
use crate::domain::time::Millis;

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct TestClock {
    now: watch::Sender<Millis>,
    sleeping_advances: bool,
}

impl TestClock {
    /// Stands at `now`; who sleeps waits until [`set`](Self::set) or [`advance`](Self::advance) reaches the end of it.
    #[must_use]
    pub fn standing(now: Millis) -> Self {
        Self { now: watch::Sender::new(now), sleeping_advances: false }
    }

    /// Stands at `now`; each sleep moves it on to its own end and returns, so that hours pass at once. Sleeps that
    /// are under way together overlap as real ones do: the clock goes to the latest end, not to the sum.
    #[must_use]
    pub fn skipping(now: Millis) -> Self {
        Self { now: watch::Sender::new(now), sleeping_advances: true }
    }

    /// Sets the time, backwards too, as a system's clock may be.
    pub fn set(&self, now: Millis) {
        self.now.send_replace(now);
    }

    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = now.plus(by));
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Millis {
        *self.now.borrow()
    }

    async fn sleep(&self, wait: Duration) {
        let mut changes = self.now.subscribe();
        let end = self.now().plus(wait);
        if self.sleeping_advances {
            // Others that are about to go to sleep get to it first, so that their sleeps overlap with this one.
            tokio::task::yield_now().await;
            self.now.send_if_modified(|now| {
                let later = end > *now;
                *now = end.max(*now);
                later
            });
        }
        while *changes.borrow_and_update() < end {
            // The sender lives as long as `self`, so that this never fails.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Ids in sequence: the same in every run of a test, different ones from different seeds.
#[derive(Debug)]
pub struct TestIds {
    seed: u64,
    next: AtomicU64,
}

impl TestIds {
    /// Ids that carry `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(1) }
    }

    /// A fresh token as a rev.
    #[must_use]
    pub fn rev(&self) -> Rev {
        Rev(self.token())
    }
}

impl Ids for TestIds {
    /// The seed and a number that counts up, 16 hex digits each.
    fn token(&self) -> String {
        format!("{:016x}{:016x}", self.seed, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Spread evenly over the range (steps of the golden ratio).
    fn fraction(&self) -> f64 {
        let n = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(self.seed);
        // The top 53 bits, as many as a float holds.
        let bits = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_standing_clock_wakes_sleepers_when_it_is_moved_far_enough() {
        let clock = Arc::new(TestClock::standing(Millis(1000)));
        let sleeper = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move { clock.sleep(HOUR).await }
        });
        tokio::task::yield_now().await;
        clock.advance(HOUR / 2);
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(HOUR / 2);
        sleeper.await.unwrap();
        assert_eq!(clock.now(), Millis(1000 + 3_600_000));
        clock.set(Millis(7));
        assert_eq!(clock.now(), Millis(7));
    }

    #[tokio::test]
    async fn a_skipping_clock_overlaps_sleeps() {
        let clock = TestClock::skipping(Millis(0));
        tokio::join!(clock.sleep(HOUR), clock.sleep(HOUR / 2), clock.sleep(HOUR));
        assert_eq!(clock.now(), Millis(0).plus(HOUR));
    }

    #[test]
    fn ids_count_up_and_fractions_spread() {
        let ids = TestIds::new(7);
        assert_eq!(ids.token(), "00000000000000070000000000000001");
        assert_ne!(ids.rev(), ids.rev());
        let fractions: Vec<f64> = (0..100).map(|_| ids.fraction()).collect();
        assert!(fractions.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        for tenth in 0..10 {
            assert!(fractions.iter().any(|fraction| (fraction * 10.0) as i32 == tenth), "none in {tenth}");
        }
    }
}
