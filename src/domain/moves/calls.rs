//! What follows from a plain call. Nothing of it remains at Gemini: its answer is all there is, and a call whose answer was
//! lost is simply made again, and told.

use super::{Job, Now, UNCLEAR};
use crate::domain::classify::Judgement;
use crate::domain::job::State;
use crate::domain::part::Calls;
use crate::domain::time::Millis;

impl Job {
    /// The call of the reservation of `nonce` brought no value: it is made again after a back-off, or after the longer
    /// delay that Gemini named, or it is a dead letter. With `in_doubt` Gemini may have done the work all the same, so that
    /// the next call counts as a possible duplicate. False: the reservation is not that one any more.
    pub fn call_failed(
        &mut self,
        nonce: &str,
        judgement: &Judgement,
        message: &str,
        in_doubt: bool,
        now: Now<'_>,
    ) -> bool {
        if !self.is_reserved_by(nonce) {
            return false;
        }
        self.maybe_accepted = in_doubt;
        self.fall(judgement, message, now);
        true
    }

    /// The caller of the reservation of `nonce` ended or stalled. What it got, if anything, is lost with it.
    pub fn call_lost(&mut self, nonce: &str, now: Now<'_>) -> bool {
        let why = "its caller ended or stalled before it wrote down an answer";
        self.call_failed(nonce, &Judgement::retryable(UNCLEAR), why, true, now)
    }

    /// Each row of an attempt that goes out as calls has an outcome; the object `outcome` has them all, and is taken like an
    /// output. `again` calls were made past others that may have been answered. False: its holder lost the lease.
    pub fn rows_called(&mut self, holder: &str, outcome: &str, again: u32, calls: Calls, now: Now<'_>) -> bool {
        let held = self.state == State::Retryable && self.lease.as_ref().is_some_and(|lease| lease.holder == holder);
        let Some(batch) = self.batch.as_mut().filter(|_| held) else { return false };
        batch.calls = Some(calls);
        let before = u32::from(std::mem::take(&mut self.maybe_accepted));
        self.possible_duplicates = self.possible_duplicates.saturating_add(before).saturating_add(again);
        self.attempts += 1;
        self.answer = Some(outcome.to_owned());
        self.consume_tries = 0;
        self.enter(State::Done, Some(now.at), now.at);
        true
    }

    /// Some rows of an attempt that goes out as calls have no outcome yet: they are gone on with at `due`. False: its holder
    /// lost the lease.
    pub fn calls_left(&mut self, holder: &str, due: Millis, why: Option<(&str, &str)>) -> bool {
        if self.state != State::Retryable || self.lease.as_ref().is_none_or(|lease| lease.holder != holder) {
            return false;
        }
        if let Some((class, message)) = why {
            self.blame(class, message);
        }
        self.lease = None;
        self.due_at = Some(due);
        true
    }

    /// Its result is durable: `holder` hands it on under a consume lease, whatever the job waits for. False: it is being
    /// handed on already, or is over.
    pub fn answered(&mut self, holder: &str, now: Now<'_>) -> bool {
        if self.state.is_closed() || self.state == State::Done {
            return false;
        }
        // Should it come to be made again by a person, it is paid for twice.
        self.maybe_accepted = true;
        self.consume_tries = 0;
        self.take_to_consume(holder, now);
        true
    }
}
