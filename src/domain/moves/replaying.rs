//! What people do about a dead letter: having it tried anew, giving it up.

use super::consuming::INTERNAL_CONSUME;
use super::{Job, Now};
use crate::domain::job::State;

/// What a person's replay gives a job.
#[derive(Debug, Clone, Copy)]
pub struct Again<'a> {
    /// Further attempts. Those that were used stay used.
    pub granted: u32,
    /// Why, for whoever wonders.
    pub reason: &'a str,
    /// Another model; none: the one that it has.
    pub model: Option<&'a str>,
    /// The object with what takes the place of its line's own fields; none: what it has.
    pub changes: Option<&'a str>,
}

impl Job {
    /// A person has it tried anew: it is due now, with further attempts, and recovers or becomes a dead letter again. Before
    /// anything is sent every handle on record is looked at once more, as before every other attempt. False: it is no dead
    /// letter, or an attempt of a batch run, whose rows are replayed and not it.
    pub fn replay(&mut self, again: &Again<'_>, now: Now<'_>) -> bool {
        if self.state != State::Parked || self.batch.is_some() {
            return false;
        }
        self.replays = self.replays.saturating_add(1);
        self.max_attempts = self.attempts.saturating_add(again.granted.max(1));
        self.letter.note(Some(again.reason));
        if let Some(model) = again.model {
            model.clone_into(&mut self.model);
        }
        if let Some(changes) = again.changes {
            self.changes = Some(changes.to_owned());
        }
        self.enter(State::Retryable, Some(now.at), now.at);
        true
    }

    /// A person has a result handed on anew that could not be handed on: nothing is sent for it. False: it is no such dead
    /// letter.
    pub fn replay_hand_over(&mut self, reason: &str, now: Now<'_>) -> bool {
        let fits = self.hand_on_again(now);
        if fits {
            self.replays = self.replays.saturating_add(1);
            self.letter.note(Some(reason));
        }
        fits
    }

    /// A person gave a dead letter up. Closed. Nothing is cancelled by it. False: it is none.
    pub fn discard_letter(&mut self, reason: &str, now: Now<'_>) -> bool {
        let fits = self.state == State::Parked;
        if fits {
            self.letter.note(Some(reason));
            self.discard(reason, now);
        }
        fits
    }

    /// Whether it is a dead letter since its result could not be made durable or handed on.
    #[must_use]
    pub fn could_not_be_consumed(&self) -> bool {
        self.class.as_deref() == Some(INTERNAL_CONSUME)
    }
}
