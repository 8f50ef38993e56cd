//! The settings that the rules of a job's life depend on, and the waits they give.

use std::time::Duration;

use super::job::Mode;
use super::time::Millis;

/// When a given-up handle is looked at again, counted from giving up (design, section 2).
pub const LATER_LOOKS: [Duration; 2] = [Duration::from_secs(24 * 3600), Duration::from_secs(48 * 3600)];

/// How often a result is tried to be persisted and handed on before its job is parked (design, section 2).
pub const CONSUME_TRIES: u32 = 5;

/// The longest time that one answer of Gemini's can put work off: its longest quota is a day's.
pub const LONGEST_DELAY: Duration = Duration::from_secs(48 * 3600);

/// What to do with an interaction whose create stayed unclear through the grace time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnclear {
    /// Send it again, counting a possible duplicate.
    Resubmit,
    /// Park it for a person.
    Park,
}

/// The settings behind the rules; each field is the setting of that name (design, section 10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `GLEANER_SUBMIT_LEASE`.
    pub submit_lease: Duration,
    /// `GLEANER_CALL_TIMEOUT`: one plain call.
    pub call_timeout: Duration,
    /// `GLEANER_UNCLEAR_GRACE`.
    pub unclear_grace: Duration,
    /// `GLEANER_ON_UNCLEAR`.
    pub on_unclear: OnUnclear,
    /// `GLEANER_POLL_MIN`.
    pub poll_min: Duration,
    /// `GLEANER_POLL_MAX`.
    pub poll_max: Duration,
    /// `GLEANER_NOT_FOUND_GRACE`.
    pub not_found_grace: Duration,
    /// `GLEANER_LIST_GAP`.
    pub list_gap: Duration,
    /// `GLEANER_BACKOFF_BASE`.
    pub backoff_base: Duration,
    /// `GLEANER_BACKOFF_MAX`.
    pub backoff_max: Duration,
    /// `GLEANER_GATE_WAIT`: how long a gate closes when Gemini names no delay; doubled with each refusal in a row.
    pub gate_wait: Duration,
    /// `GLEANER_GATE_WAIT_MAX`: where that doubling ends.
    pub gate_wait_max: Duration,
}

impl Policy {
    /// The wait after `attempts` tries: `min(base * 2^(attempts - 1), max)` and up to half a base of jitter:
    /// with the defaults `min(2^n, 30) + U(0, 1)` seconds. `fraction` is random in `0.0..1.0`.
    #[must_use]
    pub fn backoff(&self, attempts: u32, fraction: f64) -> Duration {
        let wait = doubled(self.backoff_base, attempts.saturating_sub(1), self.backoff_max);
        // Not a number is no jitter; `mul_f64` would panic.
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        wait.saturating_add(self.backoff_base.mul_f64(fraction / 2.0))
    }

    /// The wait after `tries` tries to persist a result and hand it on: five bases, four times as long each time, at
    /// most `gate_wait_max`. With the defaults the five tries take about a quarter of an hour, so that a database
    /// that restarts in the night makes no dead letters.
    #[must_use]
    pub fn consume_backoff(&self, tries: u32) -> Duration {
        doubled(self.backoff_base.saturating_mul(5), tries.saturating_sub(1).saturating_mul(2), self.gate_wait_max)
    }

    /// The wait before the next look at a handle after `polls` looks that found it running: `poll_min`, half as much
    /// again after each, at most `poll_max`.
    #[must_use]
    pub fn next_look(&self, polls: u32) -> Duration {
        // 1.5^40 is ten million: enough to reach any longest wait from any first one.
        let growth = 1.5_f64.powi(i32::try_from(polls.min(40)).unwrap_or(40));
        let wait = self.poll_min.as_secs_f64() * growth;
        if wait < self.poll_max.as_secs_f64() { Duration::from_secs_f64(wait) } else { self.poll_max }
    }

    /// The wait before the next look at a handle that an event named, after `polls` looks that did not show it: ten
    /// seconds, or `poll_min` where that is shorter, half as much again after each, at most five minutes. Rare polling
    /// doesn't hold it up: something may be waiting to be sent again.
    #[must_use]
    pub fn next_proof(&self, polls: u32) -> Duration {
        let quick = Self {
            poll_min: self.poll_min.min(Duration::from_secs(10)),
            poll_max: self.poll_max.min(Duration::from_secs(300)),
            ..self.clone()
        };
        quick.next_look(polls)
    }

    /// How long a gate closes after `refusals` refusals in a row that named no delay.
    #[must_use]
    pub fn gate_closes(&self, refusals: u32) -> Duration {
        doubled(self.gate_wait, refusals, self.gate_wait_max)
    }

    /// When a lease taken now ends.
    #[must_use]
    pub fn lease_from(&self, now: Millis) -> Millis {
        now.plus(self.submit_lease)
    }

    /// How long the reservation of a job of that mode lasts unless it is renewed. A plain call's is longer than the call.
    #[must_use]
    pub fn reservation(&self, mode: Mode) -> Duration {
        match mode {
            Mode::Call => self.submit_lease.saturating_add(self.call_timeout),
            Mode::Interaction | Mode::Batch => self.submit_lease,
        }
    }
}

impl Default for Policy {
    /// The design's defaults (section 10).
    fn default() -> Self {
        Self {
            submit_lease: Duration::from_secs(120),
            call_timeout: Duration::from_secs(10 * 60),
            unclear_grace: Duration::from_secs(15 * 60),
            on_unclear: OnUnclear::Resubmit,
            poll_min: Duration::from_secs(10),
            poll_max: Duration::from_secs(5 * 60),
            not_found_grace: Duration::from_secs(10 * 60),
            list_gap: Duration::from_secs(2 * 60),
            backoff_base: Duration::from_secs(2),
            backoff_max: Duration::from_secs(30),
            gate_wait: Duration::from_secs(30),
            gate_wait_max: Duration::from_secs(10 * 60),
        }
    }
}

/// `base * 2^times`, at most `max`.
fn doubled(base: Duration, times: u32, max: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(max).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let policy = Policy::default();
        let waits: Vec<u64> = (1..=7).map(|attempts| policy.backoff(attempts, 0.0).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(policy.backoff(1, 1.0), Duration::from_secs(3));
        assert_eq!(policy.backoff(u32::MAX, 0.0), policy.backoff_max);
    }

    #[test]
    fn handing_on_is_tried_for_a_quarter_of_an_hour() {
        let policy = Policy::default();
        let waits: Vec<u64> = (1..=5).map(|tries| policy.consume_backoff(tries).as_secs()).collect();
        assert_eq!(waits, [10, 40, 160, 600, 600]);
        assert_eq!(policy.consume_backoff(u32::MAX), policy.gate_wait_max);
    }

    #[test]
    fn gates_close_longer_each_time_up_to_the_longest() {
        let policy = Policy::default();
        let waits: Vec<u64> = [0, 1, 2, 5, 40].map(|refusals| policy.gate_closes(refusals).as_secs()).into();
        assert_eq!(waits, [30, 60, 120, 600, 600]);
    }

    #[test]
    fn jitter_is_at_most_half_a_base_whatever_the_fraction() {
        let policy = Policy::default();
        let waits = [f64::NAN, -1.0, 0.5, 7.0, f64::INFINITY].map(|fraction| policy.backoff(1, fraction).as_millis());
        assert_eq!(waits, [2000, 2000, 2500, 3000, 3000]);
        let huge = Policy { backoff_base: Duration::MAX, backoff_max: Duration::MAX, ..policy };
        assert_eq!(huge.backoff(3, 1.0), Duration::MAX);
    }

    #[test]
    fn looks_come_less_often_up_to_the_longest_wait() {
        let policy = Policy::default();
        let wait = |policy: &Policy, polls| policy.next_look(polls).as_millis();
        assert_eq!(
            [0, 1, 2, 8, 9, u32::MAX].map(|polls| wait(&policy, polls)),
            [10_000, 15_000, 22_500, 256_289, 300_000, 300_000]
        );
        let contrary = Policy { poll_min: Duration::from_secs(600), ..policy };
        assert_eq!(wait(&contrary, 0), 300_000, "the longest wait wins over the first one");
    }
}
