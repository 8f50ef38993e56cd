//! The message that stands for a dead letter in the queue of dead letters (design, section 7).
//!
//! The item is the truth, and the message follows it: its number is written down before it is sent, and that it was sent
//! afterwards. So whoever goes on after a crash sends one of a new number, and a message whose number is not its item's
//! any more, or whose item is no dead letter any more, is dropped.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::job::{Lease, MESSAGE_BYTES, clip};
use super::moves::Now;
use super::time::Millis;

/// How old a message gets before another one takes its place. SQS forgets after 14 days
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
pub const RENEWED_AFTER: Duration = Duration::from_secs(10 * 24 * 3600);

/// What a dead letter remembers of its messages, and of what people did about it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Letter {
    /// How many messages were begun for it: the number of the latest one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u32,
    /// When the latest one was sent; none: it is still to be sent, or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Millis>,
    /// Who is sending it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Lease>,
    /// The reason that a person gave for the last replay or discard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Letter {
    /// Nothing to say yet.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    /// The item became a dead letter, again perhaps, or what it says has changed: the message that stands for it is still
    /// to be sent.
    pub fn changed(&mut self) {
        self.sent = None;
        self.sender = None;
    }

    /// When its message must be sent: at once (`since` says since when), when a sender's time is over, or when the last
    /// one is to be renewed.
    #[must_use]
    pub fn due(&self, since: Millis) -> Millis {
        match (&self.sender, self.sent) {
            (Some(sender), _) => sender.until,
            (None, Some(sent)) => sent.plus(RENEWED_AFTER),
            (None, None) => since,
        }
    }

    /// Whether a message must be sent at `now`.
    #[must_use]
    pub fn is_due(&self, since: Millis, now: Millis) -> bool {
        self.due(since) <= now
    }

    /// Begins the next message: its number is taken before it is sent, by `holder` alone for as long as a lease lasts.
    pub fn begin(&mut self, holder: &str, now: Now<'_>) {
        self.number = self.number.saturating_add(1);
        self.sent = None;
        self.sender = Some(Lease { holder: holder.to_owned(), until: now.policy.lease_from(now.at) });
    }

    /// The message of that number was sent. False: another one stands for the item by now.
    pub fn was_sent(&mut self, holder: &str, now: Now<'_>) -> bool {
        let is_ours = self.sender.as_ref().is_some_and(|sender| sender.holder == holder);
        if is_ours {
            self.sender = None;
            self.sent = Some(now.at);
        }
        is_ours
    }

    /// Writes a person's reason down, cut to [`MESSAGE_BYTES`].
    pub fn note(&mut self, reason: Option<&str>) {
        self.reason = reason.map(|reason| clip(reason, MESSAGE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::policy::Policy;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_message_is_due_at_once_then_after_ten_days_and_when_its_sender_is_gone() {
        let policy = Policy::default();
        let since = Millis(1_000);
        let now = Now { at: since, fraction: 0.0, policy: &policy };
        let mut letter = Letter::default();
        assert_eq!((letter.due(since), letter.is_due(since, since)), (since, true));
        letter.begin("a", now);
        assert_eq!((letter.number, letter.due(since)), (1, since.plus(policy.submit_lease)));
        assert!(!letter.was_sent("b", now), "somebody else's");
        assert!(letter.was_sent("a", now));
        assert!(!letter.was_sent("a", now), "told before");
        assert_eq!(letter.due(since), since.plus(DAY * 10));
        let later = Now { at: since.plus(DAY * 10), ..now };
        assert!(letter.is_due(since, later.at));
        letter.begin("c", later);
        letter.begin("d", later);
        assert!(!letter.was_sent("c", later), "its time was over, and another one has taken it up");
        assert_eq!(letter.number, 3);
        letter.changed();
        assert_eq!((letter.number, letter.due(later.at)), (3, later.at));
    }
}
