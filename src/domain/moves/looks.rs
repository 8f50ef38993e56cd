//! What follows from looks at handles.

use std::time::Duration;

use super::{Job, Now, exhausted};
use crate::domain::classify::Judgement;
use crate::domain::job::{Fate, Handle, State};
use crate::domain::step::later_look;
use crate::domain::time::Millis;

/// How many looks in a row may stay without an answer where somebody would wait for ever: past the deadline of a live
/// handle, and at a later look of a given-up one. At the default longest wait that is a day, and a machine that was
/// switched off for a week doesn't use any of them up.
pub(super) const LOOKS_WITHOUT_ANSWER: u32 = 288;

/// The longest delay that an answer to a look can name: longer ones are looked after anyway.
const LONGEST_PATIENCE: Duration = Duration::from_secs(3600);

impl Job {
    /// A handle was looked at and is still under way: it is looked at again, later each time; past its deadline it
    /// is given up.
    pub fn still_running(&mut self, id: &str, now: Now<'_>) {
        let Some(handle) = self.looked_at(id) else { return };
        handle.missing_since = None;
        if handle.fate == Fate::GivenUp {
            count_later_look(handle);
        } else if handle.deadline <= now.at {
            self.give_up(id, "deadline", "still running at its deadline", now);
            return;
        } else {
            handle.polls = handle.polls.saturating_add(1);
        }
        self.schedule(now);
    }

    /// A look at a handle brought no answer about it. It is looked at again; a new submit never follows from it.
    ///
    /// A handle that nobody can look at (its API key is gone, say) must not keep its job open for ever: when its
    /// deadline has passed and look after look still stays without an answer, the job is parked as `no_answer`.
    pub fn look_failed(&mut self, id: &str, named_delay: Option<Duration>, now: Now<'_>) {
        let Some(handle) = self.looked_at(id) else { return };
        handle.polls = handle.polls.saturating_add(1);
        if handle.fate == Fate::GivenUp {
            if handle.polls >= LOOKS_WITHOUT_ANSWER {
                count_later_look(handle);
            }
        } else if handle.deadline <= now.at {
            handle.looks = handle.looks.saturating_add(1);
            if handle.looks >= LOOKS_WITHOUT_ANSWER {
                self.park_without_answer(id, now);
                return;
            }
        }
        self.schedule(now);
        if let Some(delay) = named_delay
            && self.is_polled()
        {
            let earliest = now.at.plus(delay.min(LONGEST_PATIENCE));
            self.due_at = self.due_at.map(|due| due.max(earliest));
            if self.state == State::Parked {
                // Its message doesn't wait for Gemini.
                self.due_at = self.due_at.map(|due| due.min(self.letter.due(self.since)));
            }
        }
    }

    /// The look at a handle that comes before sending again brought no answer: nothing is sent, and it is looked at
    /// again, later each time. A handle that nobody can look at parks the job in the end, since only a person can
    /// say whether to pay a second time.
    pub fn look_back_failed(&mut self, id: &str, named_delay: Option<Duration>, now: Now<'_>) {
        if !matches!(self.state, State::Retryable | State::GivenUp) {
            return;
        }
        let Some(handle) = self.handle_mut(id) else { return };
        handle.polls = handle.polls.saturating_add(1);
        if handle.polls >= LOOKS_WITHOUT_ANSWER {
            handle.polls = 0;
            self.park("no_answer", "no look at an earlier attempt has been answered, so it is not sent again", now);
            return;
        }
        let wait = now.policy.next_look(handle.polls).max(named_delay.unwrap_or_default().min(LONGEST_PATIENCE));
        self.due_at = Some(now.at.plus(wait));
    }

    fn park_without_answer(&mut self, id: &str, now: Now<'_>) {
        self.mark_given_up(id, now);
        if self.goes_on() {
            self.schedule(now);
        } else {
            let why = "no look at it has been answered since its deadline; it may have finished at Gemini";
            self.park("no_answer", why, now);
        }
    }

    /// Gemini says 403 or 404 for a handle to a key that may see it. Not believed within the grace time.
    pub fn missing(&mut self, id: &str, message: &str, now: Now<'_>) {
        let Some(handle) = self.looked_at(id) else { return };
        let believed = handle.missing_since.get_or_insert(now.at).plus(now.policy.not_found_grace);
        if handle.fate == Fate::GivenUp {
            count_later_look(handle);
            self.schedule(now);
        } else if believed <= now.at {
            self.give_up(id, "not_found", message, now);
        } else {
            handle.polls = handle.polls.saturating_add(1);
            self.schedule(now);
            if self.is_polled() {
                self.due_at = self.due_at.map(|due| due.min(believed));
            }
        }
    }

    /// The remote job of a handle expired, was cancelled, is not found or passed its deadline. The next attempt
    /// may follow after a back-off; the handle is still looked at after 24 h and 48 h. Said again of a given-up
    /// handle it is one of these looks.
    pub fn give_up(&mut self, id: &str, class: &str, message: &str, now: Now<'_>) {
        let Some(handle) = self.looked_at(id) else { return };
        if handle.fate == Fate::GivenUp {
            count_later_look(handle);
            self.schedule(now);
            return;
        }
        self.mark_given_up(id, now);
        if self.goes_on() {
            self.schedule(now);
        } else if !self.may_go_on_by_itself() {
            self.park(&exhausted(class), message, now);
        } else if self.unclear_beside_another() {
            self.enter(State::Unclear, Some(now.grace_ends()), now.at);
        } else {
            self.blame(class, message);
            self.enter(State::GivenUp, Some(now.after_backoff(self.attempts)), now.at);
        }
    }

    fn mark_given_up(&mut self, id: &str, now: Now<'_>) {
        let latest = self.attempts;
        let Some(handle) = self.handle_mut(id) else { return };
        handle.fate = Fate::GivenUp;
        handle.given_up_at = Some(now.at);
        handle.looks = 0;
        handle.polls = 0;
        // An older create was counted when the job was sent again past it.
        self.maybe_accepted |= handle.attempt == latest;
    }

    /// The work of a handle failed, or its answer has no usable value. Only the last live handle moves the job: what a
    /// given-up one brings late is no news for an attempt that came after it, nor for a dead letter.
    pub fn failed(&mut self, id: &str, judgement: &Judgement, message: &str, now: Now<'_>) {
        let latest = self.attempts;
        let Some(handle) = self.looked_at(id) else { return };
        handle.fate = Fate::Ended;
        if handle.attempt == latest {
            self.maybe_accepted = false;
        }
        if self.goes_on() {
            self.schedule(now);
        } else {
            self.fall(judgement, message, now);
        }
    }

    /// A given-up or ended handle turns out to be still under way: it is polled again instead of sending anew.
    pub fn revive(&mut self, id: &str, now: Now<'_>) {
        if !matches!(self.state, State::Retryable | State::GivenUp) {
            return;
        }
        let latest = self.attempts;
        let Some(handle) = self.handle_mut(id) else { return };
        let had_ended = handle.fate == Fate::Ended;
        if !had_ended && handle.fate != Fate::GivenUp {
            return;
        }
        handle.fate = Fate::Live;
        handle.missing_since = None;
        handle.given_up_at = None;
        handle.looks = 0;
        handle.polls = 0;
        if had_ended && handle.attempt < latest {
            // It was sent again since this handle had failed, without counting: that was a duplicate after all.
            self.possible_duplicates = self.possible_duplicates.saturating_add(1);
        }
        self.enter(State::Submitted, Some(now.first_look()), now.at);
    }

    /// A handle that a look can be news of. What a closed job's handles do is nobody's matter any more.
    fn looked_at(&mut self, id: &str) -> Option<&mut Handle> {
        if self.state.is_closed() {
            return None;
        }
        self.handle_mut(id).filter(|handle| matches!(handle.fate, Fate::Live | Fate::GivenUp))
    }

    /// Whether the end of one handle changes nothing yet: another one is live, or the job isn't in its hands.
    fn goes_on(&self) -> bool {
        self.state != State::Submitted || self.has_live_handle()
    }

    /// Something says that there is news of a live handle: it is looked at now. False: it isn't looked at, or is due.
    pub fn look_soon(&mut self, id: &str, now: Now<'_>) -> bool {
        let is_live = self.handle(id).is_some_and(|handle| handle.fate == Fate::Live);
        let waits = self.state == State::Submitted && self.due_at.is_none_or(|due| due > now.at);
        if is_live && waits {
            self.due_at = Some(now.at);
        }
        is_live && waits
    }

    /// Whether its due time is that of a look.
    const fn is_polled(&self) -> bool {
        matches!(self.state, State::Submitted | State::Parked)
    }

    /// Sets the next look, after looks: at the live handle that is due first. A dead letter is due for its message, and
    /// looked at where a given-up handle has a later look to come; one that stays without an answer is tried again after
    /// a wait.
    pub(in crate::domain) fn schedule(&mut self, now: Now<'_>) {
        let again = |handle: &Handle| now.at.plus(now.policy.next_look(handle.polls));
        let of_fate = |fate| self.handles.iter().filter(move |handle| handle.fate == fate);
        match self.state {
            // The later looks of given-up handles are made along with these, at most the longest wait after their time.
            State::Submitted => self.due_at = of_fate(Fate::Live).map(again).min().or(self.due_at),
            State::Parked => {
                let later = |handle: &Handle| {
                    let failing = handle.polls > 0;
                    later_look(handle).map(|at| if failing { at.max(again(handle)) } else { at })
                };
                let look = of_fate(Fate::GivenUp).filter_map(later).min();
                self.due_at = Some(self.letter.due(self.since)).into_iter().chain(look).min();
            }
            _ => {}
        }
        self.look_at_heard(now);
    }

    pub(super) fn next_later_look(&self) -> Option<Millis> {
        let given_up = self.handles.iter().filter(|handle| handle.fate == Fate::GivenUp);
        given_up.filter_map(later_look).min()
    }
}

const fn count_later_look(handle: &mut Handle) {
    handle.looks = handle.looks.saturating_add(1);
    handle.polls = 0;
}
