//! Points in time and the few calendar rules that the ledger needs.

use std::fmt;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// California's time, as a rule (POSIX): summer time from the second Sunday of March to the first of November, since 2007
/// (<https://www.law.cornell.edu/uscode/text/15/260a>). No time zone data needs to be carried along for it.
const PACIFIC: &str = "PST8PDT,M3.2.0,M11.1.0";

/// A point in time: milliseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// This point moved on by `wait`, whole milliseconds; stays at the end of time rather than wrapping.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(wait))
    }

    /// How long after `earlier` this is; zero when it isn't after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let gap = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(gap).unwrap_or(0))
    }

    /// The next midnight in California strictly after this point, when Gemini's daily quotas are reset
    /// (<https://ai.google.dev/gemini-api/docs/rate-limits>). Follows daylight saving.
    #[must_use]
    pub fn next_pacific_midnight(self) -> Self {
        let next = jiff::Timestamp::from_millisecond(self.0)
            .and_then(|now| Ok(now.to_zoned_datetime(TimeZone::posix(PACIFIC)?)))
            .and_then(|local| local.tomorrow())
            .and_then(|tomorrow| tomorrow.start_of_day());
        match next {
            Ok(midnight) => Self(midnight.timestamp().as_millisecond()),
            // Only a time outside jiff's years -9999 to 9999 gets here; a day later is as good as any.
            Err(_) => self.plus(Duration::from_secs(24 * 3600)),
        }
    }
}

impl fmt::Display for Millis {
    /// RFC 3339 in UTC, whole seconds: `2026-11-29T22:30:21Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0.div_euclid(1000)) {
            Ok(time) => write!(f, "{time}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Millis {
        Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn pacific_midnight_follows_daylight_saving() {
        // In winter midnight is 08:00 UTC, in summer 07:00 UTC.
        assert_eq!(at("2026-11-29T22:30:00Z").next_pacific_midnight(), at("2026-11-30T08:00:00Z"));
        assert_eq!(at("2026-07-01T06:59:59Z").next_pacific_midnight(), at("2026-07-01T07:00:00Z"));
        // At midnight itself the next one is a day away.
        assert_eq!(at("2026-07-01T07:00:00Z").next_pacific_midnight(), at("2026-07-02T07:00:00Z"));
        // The night on which the clocks go back has 25 hours (2026-11-01).
        assert_eq!(at("2026-11-01T07:00:00Z").next_pacific_midnight(), at("2026-11-02T08:00:00Z"));
        // And that on which they go forward 23 (2027-03-14).
        assert_eq!(at("2027-03-14T08:00:00Z").next_pacific_midnight(), at("2027-03-15T07:00:00Z"));
    }

    #[test]
    fn arithmetic_saturates_and_never_goes_negative() {
        assert_eq!(Millis(i64::MAX).plus(Duration::from_secs(1)), Millis(i64::MAX));
        assert_eq!(Millis(5).since(Millis(9)), Duration::ZERO);
        assert_eq!(Millis(9).since(Millis(5)), Duration::from_millis(4));
        assert_eq!(at("2026-11-29T22:30:21Z").to_string(), "2026-11-29T22:30:21Z");
    }
}
