//! Handles that events name for a create in doubt.

use super::looks::LOOKS_WITHOUT_ANSWER;
use super::{Job, Now, UNCLEAR};
use crate::domain::job::{Heard, State};

/// How many nonces of earlier reservations are kept. A fifth create in doubt in a row is not waited for.
const DOUBTFUL: usize = 4;

/// How many handles that no look has shown are kept: one create brings one, whatever events say.
const HEARD: usize = 4;

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

    /// An event named a handle with the nonce of the create in doubt, and Gemini does not show it yet. It is asked for
    /// again, and until that is settled nothing is sent. False: it is no create in doubt, or known already.
    pub fn heard(&mut self, id: &str, nonce: &str, now: Now<'_>) -> bool {
        let in_doubt = matches!(self.state, State::Reserving | State::Unclear) && self.nonce == nonce;
        let is_known = self.handle(id).is_some() || self.heard.iter().any(|heard| heard.id == id);
        if !in_doubt || is_known || self.heard.len() >= HEARD {
            return false;
        }
        self.heard.push(Heard { id: id.to_owned(), nonce: nonce.to_owned(), at: now.at, polls: 0 });
        self.look_at_heard(now);
        true
    }

    /// A look did not show the heard handle. With `denied`, Gemini says to every key at hand that there is none such:
    /// believed after the grace time for that. Without any answer it is asked for as long as another handle would be.
    pub fn heard_not_shown(&mut self, id: &str, denied: bool, now: Now<'_>) {
        let grace = now.policy.not_found_grace;
        for heard in self.heard.iter_mut().filter(|heard| heard.id == id) {
            heard.polls = heard.polls.saturating_add(1);
        }
        self.heard.retain(|heard| {
            let is_refuted = denied && heard.at.plus(grace) <= now.at;
            heard.id != id || !(is_refuted || heard.polls >= LOOKS_WITHOUT_ANSWER)
        });
        self.look_at_heard(now);
    }

    /// What a look showed contradicts the event: it is forgotten.
    pub fn heard_wrongly(&mut self, id: &str, now: Now<'_>) {
        self.heard.retain(|heard| heard.id != id);
        self.look_at_heard(now);
    }

    /// Sets when an unclear job is due: at the next look at what was heard, else at the end of its grace time.
    pub(super) fn look_at_heard(&mut self, now: Now<'_>) {
        if self.state != State::Unclear {
            return;
        }
        let next = self.heard.iter().map(|heard| now.at.plus(now.policy.next_look(heard.polls))).min();
        self.due_at = Some(next.unwrap_or_else(|| self.since.plus(now.policy.unclear_grace)));
    }
}
