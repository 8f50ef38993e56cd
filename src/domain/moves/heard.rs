//! Handles that events name for a create in doubt.

use super::looks::LOOKS_WITHOUT_ANSWER;
use super::{Job, Now, UNCLEAR};
use crate::domain::job::{Heard, State};

/// How many nonces of earlier reservations are kept. A fifth create in doubt in a row is not waited for.
const DOUBTFUL: usize = 4;

/// How many handles that no look has shown are kept: one create brings one, whatever events say.
const HEARD: usize = 8;

impl Job {
    /// The attempt whose reservation wrote that nonce, if what became of its create call is not known.
    #[must_use]
    pub fn attempt_of(&self, nonce: &str) -> Option<u32> {
        if nonce.is_empty() {
            return None;
        }
        if self.nonce == nonce {
            return Some(self.attempts);
        }
        self.doubtful.iter().find(|(_, doubtful)| doubtful == nonce).map(|(attempt, _)| *attempt)
    }

    /// Before another reservation: the nonce of one whose create stayed unclear, and has no handle, stays good.
    pub(super) fn keep_doubtful_nonce(&mut self) {
        let has_handle = self.handles.iter().any(|handle| handle.attempt == self.attempts);
        // Refused ones have another class by now.
        if self.maybe_accepted && !has_handle && self.class.as_deref() == Some(UNCLEAR) && !self.nonce.is_empty() {
            self.doubtful.push((self.attempts, self.nonce.clone()));
            let surplus = self.doubtful.len().saturating_sub(DOUBTFUL);
            self.doubtful.drain(..surplus);
        }
    }

    /// An event named a handle with the nonce of one of the job's reservations. It is written down before anything else is
    /// done, since it exists nowhere else: Gemini is asked for it soon and until that is settled, and nothing is sent
    /// meanwhile, whatever the job waits for. False: it is known already, the nonce is none of the job's, or nothing comes
    /// of the job any more.
    pub fn heard(&mut self, id: &str, nonce: &str, now: Now<'_>) -> bool {
        let is_over = self.state.is_closed() || self.state == State::Done;
        let is_known = self.handle(id).is_some() || self.has_heard_of(id);
        if is_over || is_known || self.attempt_of(nonce).is_none() || self.heard.len() >= HEARD {
            return false;
        }
        let otherwise = self.heard.first().map_or(self.due_at, |first| first.otherwise);
        self.heard.push(Heard { id: id.to_owned(), nonce: nonce.to_owned(), at: now.at, polls: 0, otherwise });
        self.look_at_heard(now);
        true
    }

    /// Whether an event named that handle, and no look has shown it yet.
    #[must_use]
    pub fn has_heard_of(&self, id: &str) -> bool {
        self.heard.iter().any(|heard| heard.id == id)
    }

    /// A look did not show the heard handle. With `denied`, Gemini says to every key at hand that there is none such:
    /// believed after the grace time for that. Without any answer it is asked for as long as another handle would be.
    pub fn heard_not_shown(&mut self, id: &str, denied: bool, now: Now<'_>) {
        let grace = now.policy.not_found_grace;
        for heard in self.heard.iter_mut().filter(|heard| heard.id == id) {
            heard.polls = heard.polls.saturating_add(1);
        }
        self.forget_heard(now, |heard| {
            let is_refuted = denied && heard.at.plus(grace) <= now.at;
            heard.id == id && (is_refuted || heard.polls >= LOOKS_WITHOUT_ANSWER)
        });
    }

    /// What a look showed contradicts the event: it is forgotten.
    pub fn heard_wrongly(&mut self, id: &str, now: Now<'_>) {
        self.forget_heard(now, |heard| heard.id == id);
    }

    /// Forgets what was heard, and when it was the last, has the job wait for what it waited for before.
    pub(super) fn forget_heard(&mut self, now: Now<'_>, is_over: impl Fn(&Heard) -> bool) {
        let Some(otherwise) = self.heard.first().map(|first| first.otherwise) else { return };
        self.heard.retain(|heard| !is_over(heard));
        if !self.heard.is_empty() {
            self.look_at_heard(now);
        } else if self.waits_for_heard() {
            // What it was due at when it was heard of says something only of the state that it was in then.
            let otherwise = otherwise.filter(|due| *due >= self.since).or(Some(now.at));
            match self.state {
                State::Unclear if self.batch.is_none() => {
                    self.due_at = Some(self.since.plus(now.policy.unclear_grace));
                }
                State::Submitted => self.schedule(now),
                State::Parked => self.schedule(now),
                State::GivenUp if self.batch.is_some() => self.due_at = self.next_later_look().or(otherwise),
                _ => self.due_at = otherwise,
            }
        }
    }

    /// Sets when the job is due, if it waits: at the next look at what was heard, or earlier if it is due earlier anyway.
    pub(super) fn look_at_heard(&mut self, now: Now<'_>) {
        let next = self.heard.iter().map(|heard| now.at.plus(now.policy.next_proof(heard.polls))).min();
        if let Some(next) = next.filter(|_| self.waits_for_heard()) {
            let anyway = self.due_at.filter(|due| *due > now.at);
            let letter = (self.state == State::Parked).then(|| self.letter.due(self.since));
            self.due_at = [Some(next), anyway, letter].into_iter().flatten().min();
        }
    }

    /// Whether the job is in nobody's hands: its due time may be that of a look at what was heard.
    fn waits_for_heard(&self) -> bool {
        self.lease.is_none()
            && matches!(
                self.state,
                State::Unclear | State::Submitted | State::Retryable | State::GivenUp | State::Parked
            )
    }
}
