//! The moves between a job's states. Each is pure: it changes the item in memory, and the caller writes it under
//! the rev that was read. A move that no longer fits the stored state changes nothing, and those that can meet such a
//! state in the ordinary course of things answer `false`.
//!
//! What `possible_duplicates` counts: each create that may have been accepted, and isn't known to have failed, counts
//! once, when the job is sent again past it. No handle is live when a job is sent again, so every create before the
//! latest one has been counted, refused or seen to fail by then, and `maybe_accepted` need only speak of the latest.

mod batch;
mod calls;
mod consuming;
mod heard;
mod imported;
mod looks;
mod replaying;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use replaying::Again;

use super::classify::{Delay, Judgement, Verdict, exhausted};
use super::job::{Fate, Handle, Job, KeyId, Lease, Mode, State};
use super::policy::{LONGEST_DELAY, OnUnclear, Policy};
use super::time::Millis;

pub use self::imported::{BAD_PAYLOAD, NO_PAYLOAD, WHY_NO_PAYLOAD};

/// The class of a create that may or may not have been accepted.
pub const UNCLEAR: &str = "unclear";

/// What a move needs to know besides the job.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// The time.
    pub at: Millis,
    /// Random in `0.0..1.0`, for jitter.
    pub fraction: f64,
    /// The settings.
    pub policy: &'a Policy,
}

impl Now<'_> {
    fn after_backoff(&self, attempts: u32) -> Millis {
        self.at.plus(self.policy.backoff(attempts, self.fraction))
    }

    fn first_look(&self) -> Millis {
        self.at.plus(self.policy.poll_min)
    }

    fn grace_ends(&self) -> Millis {
        self.at.plus(self.policy.unclear_grace)
    }
}

/// Who reserves: fresh for each reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Written with the reservation; it comes back with an event, and tells a holder its own reservation.
    pub nonce: String,
    /// The process.
    pub holder: String,
}

impl Job {
    /// Counts an attempt and goes into `reserving` under the submit lease, right before the create call. Only a job
    /// that waits for its next attempt, and has one left, is reserved: nothing may be sent without it. While an event's word
    /// is unsettled, that another create was accepted, nothing is sent either.
    pub fn reserve(&mut self, ticket: Ticket, now: Now<'_>) {
        let waits = matches!(self.state, State::Retryable | State::GivenUp) && self.heard.is_empty();
        if !waits || !self.may_try_again() {
            return;
        }
        if self.mode != Mode::Call {
            self.keep_doubtful_nonce();
        }
        self.attempts += 1;
        self.counted_duplicate = self.maybe_accepted;
        if self.maybe_accepted {
            self.possible_duplicates = self.possible_duplicates.saturating_add(1);
            self.maybe_accepted = false;
        }
        self.nonce = ticket.nonce;
        let until = now.at.plus(now.policy.reservation(self.mode));
        self.enter(State::Reserving, Some(until), now.at);
        self.lease = Some(Lease { holder: ticket.holder, until });
    }

    /// Whether the reservation that stands is that of `nonce`.
    #[must_use]
    pub fn is_reserved_by(&self, nonce: &str) -> bool {
        self.state == State::Reserving && self.nonce == nonce
    }

    /// Whether what became of the create call of `nonce` is still open: it is under way, or its answer was unclear.
    fn awaits(&self, nonce: &str) -> bool {
        self.latest_is_open() && self.nonce == nonce
    }

    /// Whether nobody knows what became of the latest create call, nor has waited out its grace.
    fn latest_is_open(&self) -> bool {
        matches!(self.state, State::Reserving | State::Unclear) || self.unclear_beside_another()
    }

    /// Whether the latest create is unclear, its grace not over, while the job goes on with the handle of another.
    fn unclear_beside_another(&self) -> bool {
        self.state == State::Submitted && self.class.as_deref() == Some(UNCLEAR)
    }

    /// How long a lease on it lasts in the state that it is in.
    #[must_use]
    pub fn lease_length(&self, policy: &Policy) -> Duration {
        if self.state == State::Reserving { policy.reservation(self.mode) } else { policy.submit_lease }
    }

    /// Moves the end of a lease that is still held. False: the lease is somebody else's by now.
    pub fn renew(&mut self, holder: &str, now: Now<'_>) -> bool {
        let until = now.at.plus(self.lease_length(now.policy));
        match &mut self.lease {
            Some(lease) if lease.holder == holder => lease.until = until,
            _ => return false,
        }
        self.due_at = Some(until);
        true
    }

    /// The create call of the reservation of `nonce` may or may not have been accepted.
    ///
    /// With another live handle on record (a late one) the job goes on with that one, and waits out the grace time
    /// only if that one brings nothing.
    pub fn unclear(&mut self, nonce: &str, why: &str, now: Now<'_>) -> bool {
        if !self.is_reserved_by(nonce) {
            return false;
        }
        self.blame(UNCLEAR, why);
        if self.has_live_handle() {
            self.enter(State::Submitted, Some(now.first_look()), now.at);
        } else {
            self.enter(State::Unclear, Some(now.grace_ends()), now.at);
            self.look_at_heard(now);
        }
        true
    }

    /// A handle was brought back by a create call, an event or a look-up. True when that is news.
    ///
    /// It is never refused: what a job can come to have several of is kept, and what is paid for is collected. A
    /// dead letter that gets one is polled like any other, but is not sent again by itself when it brings nothing. A second
    /// handle of one attempt is told as a possible duplicate.
    pub fn attach(&mut self, handle: Handle, nonce: &str, now: Now<'_>) -> bool {
        if self.handles.iter().any(|known| known.id == handle.id) {
            return false;
        }
        self.forget_heard(now, |heard| heard.id == handle.id);
        let own = self.is_reserved_by(nonce);
        let latest = handle.attempt == self.attempts;
        let has_won = self.handles.iter().any(|known| known.fate == Fate::Won);
        // One create brings one handle: another of the same attempt is paid for besides.
        let is_second = self.handles.iter().any(|known| known.attempt == handle.attempt);
        self.possible_duplicates = self.possible_duplicates.saturating_add(u32::from(is_second));
        self.handles.push(handle);
        match self.state {
            // Another create call is under way: its own answer moves the job on.
            State::Reserving if !own => {}
            // Its result is there, and only its consumption failed: another handle adds nothing to it.
            State::Parked if has_won => {}
            State::Reserving | State::Unclear | State::Retryable | State::GivenUp | State::Parked => {
                self.note_answered(latest);
                self.enter(State::Submitted, Some(now.first_look()), now.at);
            }
            // On the way with another handle: polled with it.
            State::Submitted => self.note_answered(latest),
            // Finished or closed: kept on record.
            State::Done | State::Consumed | State::Recovered | State::Discarded => {}
            State::Reading | State::Read | State::Gate | State::Waiting | State::UnderWay | State::Settled => {}
            State::Taken | State::Handled | State::Unmatched => {}
        }
        true
    }

    /// A create call turns out to have been accepted: if it is the latest one, nothing is unclear any more.
    fn note_answered(&mut self, latest: bool) {
        if latest && self.class.as_deref() == Some(UNCLEAR) {
            self.class = None;
            self.message = None;
        }
    }

    /// The reservation of `nonce` was definitely not accepted, for a reason that concerns the whole queue: the
    /// attempt is given back, and the job waits for `until`. A late answer counts too, as long as nothing was sent
    /// after it.
    pub fn give_back(&mut self, nonce: &str, class: &str, message: &str, until: Millis, now: Now<'_>) -> bool {
        if !self.awaits(nonce) {
            return false;
        }
        self.take_back_duplicate();
        self.attempts = self.attempts.saturating_sub(1);
        self.blame(class, message);
        if self.has_live_handle() {
            self.enter(State::Submitted, Some(now.first_look()), now.at);
        } else {
            self.enter(State::Retryable, Some(until), now.at);
        }
        true
    }

    /// The reservation of `nonce` was definitely not accepted, for a reason of its own. A late answer counts too, as
    /// long as nothing was sent after it.
    pub fn refused(&mut self, nonce: &str, judgement: &Judgement, message: &str, now: Now<'_>) -> bool {
        if !self.awaits(nonce) {
            return false;
        }
        self.take_back_duplicate();
        if self.has_live_handle() {
            self.blame(&judgement.class, message);
            self.enter(State::Submitted, Some(now.first_look()), now.at);
        } else {
            self.fall(judgement, message, now);
        }
        true
    }

    /// The create call of the present reservation was not accepted: it was no duplicate, and what was in doubt before
    /// it is in doubt again. No event can bring its nonce back.
    fn take_back_duplicate(&mut self) {
        let nonce = std::mem::take(&mut self.nonce);
        self.heard.retain(|heard| heard.nonce != nonce);
        self.maybe_accepted = self.counted_duplicate;
        self.possible_duplicates = self.possible_duplicates.saturating_sub(u32::from(self.counted_duplicate));
        self.counted_duplicate = false;
    }

    /// The grace time of an unclear create is over: sent again or parked, as the policy says.
    pub fn end_grace(&mut self, now: Now<'_>) -> bool {
        if self.state != State::Unclear || !self.heard.is_empty() {
            return false;
        }
        self.maybe_accepted = true;
        let why = self.message.clone().unwrap_or_default();
        match now.policy.on_unclear {
            OnUnclear::Park => self.park(UNCLEAR, &why, now),
            OnUnclear::Resubmit if self.may_go_on_by_itself() => {
                self.enter(State::Retryable, Some(now.at), now.at);
            }
            OnUnclear::Resubmit => self.park(&exhausted(UNCLEAR), &why, now),
        }
        true
    }

    /// Its next attempt may not be sent before `until`, since the gate is closed. A closed item stays closed.
    pub fn hold_back(&mut self, until: Millis) {
        if self.due_at.is_some() {
            self.due_at = Some(until);
        }
    }

    /// A person gave it up, with a reason. Closed. What has closed before stays as it is.
    pub fn discard(&mut self, reason: &str, now: Now<'_>) {
        if self.state.is_closed() {
            return;
        }
        self.blame("discarded", reason);
        self.enter(State::Discarded, None, now.at);
    }

    /// Makes it a dead letter. Given-up handles are still looked at: a late result recovers it.
    pub fn park(&mut self, class: &str, message: &str, now: Now<'_>) {
        if self.state.is_closed() {
            return;
        }
        self.maybe_accepted |= self.unclear_beside_another();
        self.blame(class, message);
        self.parked_at.get_or_insert(now.at);
        self.enter(State::Parked, None, now.at);
        self.letter.changed();
        self.schedule(now);
    }

    /// Whether another attempt may follow without a person: a dead letter that nobody has replayed is polled when a
    /// late handle turns up, but it is not sent again.
    fn may_go_on_by_itself(&self) -> bool {
        self.may_try_again() && (self.parked_at.is_none() || self.replays > 0)
    }

    /// A failure's consequence: another attempt after a wait, or a dead letter.
    fn fall(&mut self, judgement: &Judgement, message: &str, now: Now<'_>) {
        if judgement.verdict == Verdict::Permanent {
            self.park(&judgement.class, message, now);
        } else if !self.may_go_on_by_itself() {
            self.park(&exhausted(&judgement.class), message, now);
        } else if self.unclear_beside_another() {
            self.enter(State::Unclear, Some(now.grace_ends()), now.at);
        } else {
            // A queue's refusal of finished work is a passing failure of that work.
            let backoff = now.after_backoff(self.attempts);
            let due = named_time(judgement.delay, now.at).map_or(backoff, |named| named.max(backoff));
            self.blame(&judgement.class, message);
            self.enter(State::Retryable, Some(due), now.at);
        }
    }

    /// Whether a handle on record may still bring a result.
    #[must_use]
    pub fn has_live_handle(&self) -> bool {
        self.handles.iter().any(|handle| handle.fate == Fate::Live)
    }

    /// The handle of that id.
    #[must_use]
    pub fn handle(&self, id: &str) -> Option<&Handle> {
        self.handles.iter().find(|handle| handle.id == id)
    }

    fn handle_mut(&mut self, id: &str) -> Option<&mut Handle> {
        self.handles.iter_mut().find(|handle| handle.id == id)
    }
}

/// A fresh handle of the present attempt.
#[must_use]
pub fn fresh_handle(id: String, attempt: u32, key: KeyId, deadline: Duration, now: Millis) -> Handle {
    Handle {
        id,
        attempt,
        key,
        at: now,
        deadline: now.plus(deadline),
        polls: 0,
        missing_since: None,
        fate: Fate::Live,
        given_up_at: None,
        looks: 0,
    }
}

/// The time that a delay names, at most [`LONGEST_DELAY`] away.
#[must_use]
pub fn named_time(delay: Option<Delay>, now: Millis) -> Option<Millis> {
    delay.map(|delay| match delay {
        Delay::After(wait) => now.plus(wait.min(LONGEST_DELAY)),
        Delay::NextPacificMidnight => now.next_pacific_midnight(),
    })
}
