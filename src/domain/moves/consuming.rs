//! From a finished remote job to a consumed result.

use super::{Job, Now};
use crate::domain::job::{Fate, Lease, State};
use crate::domain::policy::CONSUME_TRIES;

/// The class of a dead letter whose result could not be persisted or handed on.
pub(super) const INTERNAL_CONSUME: &str = "internal:consume";

impl Job {
    /// Gemini has finished: the result of `id` is to be persisted by `holder` under a consume lease, whatever the job
    /// waits for. An answer that turns up for a dead letter has all its tries.
    pub fn finished(&mut self, id: &str, holder: &str, now: Now<'_>) {
        if self.state.is_closed() || self.state == State::Done {
            return;
        }
        let Some(handle) = self.handle(id) else { return };
        // Should it come to be sent again by a person, it is paid for twice.
        self.maybe_accepted |= handle.attempt == self.attempts || self.latest_is_open();
        for handle in &mut self.handles {
            if handle.id == id {
                handle.fate = Fate::Won;
                handle.missing_since = None;
                handle.polls = 0;
            } else if handle.fate == Fate::Won {
                // Its answer could not be made durable in five tries.
                handle.fate = Fate::Ended;
            }
        }
        self.consume_tries = 0;
        self.take_to_consume(holder, now);
    }

    /// Takes a job whose consume lease ran out. False: its tries are used up, and it was parked with its answer kept.
    pub fn consume_again(&mut self, holder: &str, now: Now<'_>) -> bool {
        if self.state != State::Done {
            return false;
        }
        if self.consume_tries >= CONSUME_TRIES {
            let why = self.message.clone().unwrap_or_else(|| "its consumer ended without a word each time".to_owned());
            self.park(INTERNAL_CONSUME, &why, now);
            return false;
        }
        self.take_to_consume(holder, now);
        true
    }

    pub(super) fn take_to_consume(&mut self, holder: &str, now: Now<'_>) {
        self.consume_tries += 1;
        let until = now.policy.lease_from(now.at);
        if self.state == State::Done {
            self.due_at = Some(until);
        } else {
            self.enter(State::Done, Some(until), now.at);
        }
        self.lease = Some(Lease { holder: holder.to_owned(), until });
    }

    /// The result could not be persisted or handed on; another try follows after a back-off. With `charged` false
    /// the try is given back, since the reason is the machine's and not the job's (a full disk).
    pub fn consume_failed(&mut self, message: &str, charged: bool, now: Now<'_>) {
        if self.state != State::Done {
            return;
        }
        self.lease = None;
        if !charged {
            self.consume_tries = self.consume_tries.saturating_sub(1);
        }
        self.blame(INTERNAL_CONSUME, message);
        if charged && self.consume_tries >= CONSUME_TRIES {
            self.park(INTERNAL_CONSUME, message, now);
            return;
        }
        let mut wait = now.policy.consume_backoff(self.consume_tries.max(1));
        // What isn't charged is not bounded by the tries: it comes later each time instead.
        if !charged && let Some(won) = self.handles.iter_mut().find(|handle| handle.fate == Fate::Won) {
            if won.polls > 0 {
                wait = wait.max(now.policy.next_look(won.polls));
            }
            won.polls = won.polls.saturating_add(1);
        }
        self.due_at = Some(now.at.plus(wait));
    }

    /// A person has mended what kept a finished result from being handed on: it has all its tries again. Nothing is
    /// sent for it. False: it is no such dead letter.
    pub fn hand_on_again(&mut self, now: Now<'_>) -> bool {
        let fits = self.state == State::Parked && self.class.as_deref() == Some(INTERNAL_CONSUME);
        if fits {
            self.consume_tries = 0;
            self.enter(State::Done, Some(now.at), now.at);
        }
        fits
    }

    /// The result is durable and handed on. A job that had been a dead letter is `recovered`.
    pub fn consumed(&mut self, now: Now<'_>) {
        if self.state != State::Done {
            return;
        }
        self.class = None;
        self.message = None;
        self.maybe_accepted = false;
        let state = if self.parked_at.is_some() { State::Recovered } else { State::Consumed };
        self.enter(state, None, now.at);
    }
}
