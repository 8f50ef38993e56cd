//! The moves of an attempt of a batch run. What becomes of its rows is its part's matter; an attempt is consumed when its
//! part knows.

use std::time::Duration;

use super::{Job, Now, UNCLEAR};
use crate::domain::job::{Fate, Lease, State};
use crate::domain::part::{Output, Uploaded};
use crate::domain::policy::LATER_LOOKS;

/// A batch job is looked at again after this part of its age, where that is longer than other waits.
const RARELY: u32 = 10;

/// But no later than this.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Job {
    /// Leases an attempt that waits to be sent, for its rows to be uploaded. False: it doesn't wait.
    pub fn begin_upload(&mut self, holder: &str, now: Now<'_>) -> bool {
        if self.state != State::Retryable {
            return false;
        }
        let until = now.policy.lease_from(now.at);
        self.due_at = Some(until);
        self.lease = Some(Lease { holder: holder.to_owned(), until });
        true
    }

    /// Its rows are at Gemini. False: its holder lost the lease.
    pub fn uploaded(&mut self, holder: &str, name: &str, now: Now<'_>) -> bool {
        let held = self.state == State::Retryable && self.lease.as_ref().is_some_and(|lease| lease.holder == holder);
        match &mut self.batch {
            Some(batch) if held => batch.file = Some(Uploaded { name: name.to_owned(), at: now.at }),
            _ => return false,
        }
        self.lease = None;
        self.due_at = Some(now.at);
        true
    }

    /// Its rows could not be uploaded: again after a wait. False: its holder lost the lease.
    pub fn upload_failed(&mut self, holder: &str, class: &str, why: &str, now: Now<'_>) -> bool {
        if self.state != State::Retryable || self.lease.as_ref().is_none_or(|lease| lease.holder != holder) {
            return false;
        }
        self.consume_tries = self.consume_tries.saturating_add(1);
        self.blame(class, why);
        self.lease = None;
        self.due_at = Some(now.at.plus(now.policy.consume_backoff(self.consume_tries)));
        true
    }

    /// Nobody knows whether Gemini took its create: it is looked for by its name, soon.
    pub fn look_for_name(&mut self, now: Now<'_>) {
        if self.state == State::Unclear && self.batch.is_some() {
            self.due_at = Some(now.first_look());
        }
    }

    /// A complete listing has none of its name. Two of them, far enough apart, say that it was not created: it is sent
    /// again, and counted as a possible duplicate all the same, since no page of Gemini's says how late a listing may be.
    pub fn not_listed(&mut self, now: Now<'_>) -> bool {
        if self.state != State::Unclear {
            return false;
        }
        let Some(batch) = &mut self.batch else { return false };
        let first = *batch.not_listed.get_or_insert(now.at);
        let proved = first.plus(now.policy.list_gap);
        if now.at < proved || first == now.at {
            self.due_at = Some(proved.max(now.first_look()));
            return true;
        }
        batch.not_listed = None;
        self.maybe_accepted = true;
        self.enter(State::Retryable, Some(now.at), now.at);
        true
    }

    /// A given-up attempt without a handle is not in the list a day later either: it is over.
    pub fn never_listed(&mut self, now: Now<'_>) -> bool {
        if self.state != State::GivenUp || !self.handles.is_empty() {
            return false;
        }
        self.enter(State::Discarded, None, now.at);
        true
    }

    /// No listing could be read to its end: again later, and nothing is known.
    pub fn listing_failed(&mut self, now: Now<'_>) -> bool {
        if !matches!(self.state, State::Unclear | State::GivenUp) {
            return false;
        }
        self.due_at = Some(now.at.plus(now.policy.gate_wait));
        true
    }

    /// Gemini has ended the batch job of `id`, with an output: to be taken now, whatever the attempt waits for.
    pub fn output_is_there(&mut self, id: &str, output: Output, now: Now<'_>) -> bool {
        if self.state.is_closed() || self.state == State::Done {
            return false;
        }
        let Some(handle) = self.handles.iter_mut().find(|handle| handle.id == id) else { return false };
        handle.fate = Fate::Won;
        handle.missing_since = None;
        handle.polls = 0;
        let Some(batch) = &mut self.batch else { return false };
        batch.output = Some(output);
        self.consume_tries = 0;
        self.enter(State::Done, Some(now.at), now.at);
        true
    }

    /// Its create was refused for some of its lines: `outcome` is the object that says of which, and why. The refusal is
    /// taken like an output.
    pub fn refused_for_lines(&mut self, nonce: &str, outcome: &str, class: &str, message: &str, now: Now<'_>) -> bool {
        if !self.awaits(nonce) {
            return false;
        }
        self.take_back_duplicate();
        self.blame(class, message);
        self.answer = Some(outcome.to_owned());
        self.consume_tries = 0;
        self.enter(State::Done, Some(now.at), now.at);
        true
    }

    /// Its create was definitely refused, and naming no row: it will not be sent again.
    pub fn refused_for_good(&mut self, nonce: &str, class: &str, message: &str, now: Now<'_>) -> bool {
        if !self.awaits(nonce) {
            return false;
        }
        self.take_back_duplicate();
        self.blame(class, message);
        self.enter(State::Retryable, Some(now.policy.lease_from(now.at)), now.at);
        true
    }

    /// It has ended without an outcome for its rows, which its part has taken back. Given-up handles are looked at twice
    /// more; without one it is over.
    pub fn rows_went_back(&mut self, class: &str, message: &str, now: Now<'_>) -> bool {
        // One that is done has an outcome after all, which is taken.
        if self.state.is_closed() || matches!(self.state, State::GivenUp | State::Done) {
            return false;
        }
        self.blame(class, message);
        for handle in self.handles.iter_mut().filter(|handle| handle.fate == Fate::Live) {
            handle.fate = Fate::GivenUp;
            handle.given_up_at = Some(now.at);
            handle.looks = 0;
            handle.polls = 0;
        }
        match self.next_later_look() {
            Some(later) => self.enter(State::GivenUp, Some(later), now.at),
            // It was perhaps created, and shows up in the list one day.
            None if self.maybe_accepted && self.handles.is_empty() => {
                self.enter(State::GivenUp, Some(now.at.plus(LATER_LOOKS[0])), now.at);
            }
            None => self.enter(State::Discarded, None, now.at),
        }
        true
    }

    /// The batch job of a handle was looked at, and is under way.
    pub fn is_under_way(&mut self, id: &str, now: Now<'_>) {
        self.is_not_ended(id, None, now);
    }

    /// Gemini doesn't show the batch job of a handle, which is not believed at first.
    pub fn is_not_there(&mut self, id: &str, now: Now<'_>) {
        self.is_not_ended(id, Some(now), now);
    }

    fn is_not_ended(&mut self, id: &str, missing: Option<Now<'_>>, now: Now<'_>) {
        let grace = now.policy.not_found_grace;
        let given_up = self.handles.iter_mut().find(|handle| handle.id == id && handle.fate == Fate::GivenUp);
        if let Some(handle) = given_up.filter(|_| self.state == State::Submitted) {
            // One of its later looks, beside a handle that lives.
            handle.looks = handle.looks.saturating_add(1);
            handle.polls = 0;
            self.schedule(now);
            return;
        }
        let live = self.handles.iter_mut().find(|handle| handle.id == id && handle.fate == Fate::Live);
        let Some(handle) = live.filter(|_| self.state == State::Submitted) else { return };
        handle.polls = handle.polls.saturating_add(1);
        let since = missing.map(|now| *handle.missing_since.get_or_insert(now.at));
        if since.is_none() {
            handle.missing_since = None;
        }
        let age = now.at.since(handle.at);
        self.schedule(now);
        // Hours of waiting are not made shorter by looks every few minutes, each of which is a write.
        let rarely = now.at.plus((age / RARELY).min(LONGEST_WAIT));
        self.due_at = self.due_at.map(|due| due.max(rarely));
        if let Some(since) = since {
            let believed = since.plus(grace).max(now.first_look());
            self.due_at = self.due_at.map(|due| due.min(believed));
        }
    }

    /// A handle's job has failed as a whole: nothing will ever come of it.
    pub fn came_to_nothing(&mut self, id: &str) {
        if let Some(handle) = self.handles.iter_mut().find(|handle| handle.id == id) {
            handle.fate = Fate::Ended;
            handle.missing_since = None;
        }
    }

    /// A given-up attempt was looked at and there is no output: again at the next later look; after the last one it is
    /// over.
    pub fn nothing_yet(&mut self, id: &str, answered: bool, now: Now<'_>) {
        if self.state != State::GivenUp {
            return;
        }
        if let Some(handle) = self.handles.iter_mut().find(|handle| handle.id == id) {
            if answered {
                handle.looks = handle.looks.saturating_add(1);
                handle.polls = 0;
            } else {
                handle.polls = handle.polls.saturating_add(1);
                // Gemini was out of reach for a day of tries: this look is over too.
                if handle.polls >= super::looks::LOOKS_WITHOUT_ANSWER {
                    handle.looks = handle.looks.saturating_add(1);
                    handle.polls = 0;
                }
            }
        }
        match self.next_later_look() {
            Some(later) if answered => self.due_at = Some(later.max(now.at)),
            Some(later) => self.due_at = Some(later.max(now.at.plus(now.policy.poll_max))),
            None => {
                let class = self.class.clone().unwrap_or_else(|| UNCLEAR.to_owned());
                let message = self.message.clone().unwrap_or_default();
                self.blame(&class, &message);
                self.enter(State::Discarded, None, now.at);
            }
        }
    }

    /// Its part knows what became of its rows. Closed.
    pub fn outcome_taken(&mut self, answer: Option<String>, now: Now<'_>) -> bool {
        if self.state.is_closed() {
            return false;
        }
        self.answer = answer.or(self.answer.take());
        self.maybe_accepted = false;
        self.enter(State::Consumed, None, now.at);
        true
    }
}
