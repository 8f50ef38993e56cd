//! The moves between a job's states. Each is pure: it changes the item in memory, and the caller writes it under
//! the rev that was read. A move that no longer fits the stored state changes nothing and answers `false`.

use super::classify::{Delay, Judgement, Verdict, exhausted};
use super::job::{Fate, Handle, Job, KeyId, Lease, State};
use super::policy::{CONSUME_TRIES, OnUnclear, Policy};
use super::step::later_look;
use super::time::Millis;

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
    /// Counts an attempt and goes into `reserving` under the submit lease, right before the create call.
    pub fn reserve(&mut self, ticket: Ticket, now: Now<'_>) {
        self.attempts += 1;
        self.counted_duplicate = self.maybe_accepted;
        if self.maybe_accepted {
            self.possible_duplicates += 1;
            self.maybe_accepted = false;
        }
        self.nonce = ticket.nonce;
        let until = now.policy.lease_from(now.at);
        self.enter(State::Reserving, Some(until), now.at);
        self.lease = Some(Lease { holder: ticket.holder, until });
    }

    /// Whether the reservation that stands is that of `nonce`.
    #[must_use]
    pub fn is_reserved_by(&self, nonce: &str) -> bool {
        self.state == State::Reserving && self.nonce == nonce
    }

    /// Moves the end of a lease that is still held. False: the lease is somebody else's by now.
    pub fn renew(&mut self, holder: &str, now: Now<'_>) -> bool {
        let until = now.policy.lease_from(now.at);
        match &mut self.lease {
            Some(lease) if lease.holder == holder => lease.until = until,
            _ => return false,
        }
        self.due_at = Some(until);
        true
    }

    /// The create call of the reservation of `nonce` may or may not have been accepted.
    ///
    /// With another live handle on record the job goes on with that one: the call that is unclear was counted as a
    /// possible duplicate when it was reserved.
    pub fn unclear(&mut self, nonce: &str, why: &str, now: Now<'_>) -> bool {
        if !self.is_reserved_by(nonce) {
            return false;
        }
        self.blame("unclear", why);
        if self.has_live_handle() {
            self.enter(State::Submitted, Some(now.at.plus(now.policy.poll_min)), now.at);
        } else {
            self.enter(State::Unclear, Some(now.at.plus(now.policy.unclear_grace)), now.at);
        }
        true
    }

    /// A handle was brought back by a create call, an event or a look-up. True when that is news.
    ///
    /// It is never refused: what a job can come to have several of is kept, and what is paid for is collected.
    pub fn attach(&mut self, handle: Handle, nonce: &str, now: Now<'_>) -> bool {
        if self.handles.iter().any(|known| known.id == handle.id) {
            return false;
        }
        let first_look = now.at.plus(now.policy.poll_min);
        let own = self.is_reserved_by(nonce);
        self.handles.push(handle);
        match self.state {
            State::Reserving if !own => {} // another create call is under way: its own answer moves the job on
            State::Reserving | State::Unclear | State::Retryable | State::GivenUp | State::Parked => {
                self.maybe_accepted = false;
                self.enter(State::Submitted, Some(first_look), now.at);
            }
            // Closed, or on the way with another handle: kept on record, polled with the others where that goes on.
            State::Submitted | State::Done | State::Consumed | State::Recovered | State::Discarded => {}
            State::Reading | State::Read | State::Gate => {}
        }
        true
    }

    /// The reservation of `nonce` was definitely not accepted, for a reason that concerns the whole queue: the
    /// attempt is given back, and the job waits for `until`.
    pub fn give_back(&mut self, nonce: &str, class: &str, message: &str, until: Millis, now: Now<'_>) -> bool {
        if !self.is_reserved_by(nonce) {
            return false;
        }
        self.take_back_duplicate();
        self.attempts = self.attempts.saturating_sub(1);
        self.blame(class, message);
        if self.has_live_handle() {
            self.enter(State::Submitted, Some(now.at.plus(now.policy.poll_min)), now.at);
        } else {
            self.enter(State::Retryable, Some(until), now.at);
        }
        true
    }

    /// The reservation of `nonce` was definitely not accepted, for a reason of its own.
    pub fn refused(&mut self, nonce: &str, judgement: &Judgement, message: &str, now: Now<'_>) -> bool {
        if !self.is_reserved_by(nonce) {
            return false;
        }
        self.take_back_duplicate();
        if self.has_live_handle() {
            self.blame(&judgement.class, message);
            self.enter(State::Submitted, Some(now.at.plus(now.policy.poll_min)), now.at);
        } else {
            self.fall(judgement, message, now);
        }
        true
    }

    /// The grace time of an unclear create is over: sent again or parked, as the policy says.
    pub fn end_grace(&mut self, now: Now<'_>) -> bool {
        if self.state != State::Unclear {
            return false;
        }
        self.maybe_accepted = true;
        let why = self.message.clone().unwrap_or_default();
        match now.policy.on_unclear {
            OnUnclear::Park => self.park("unclear", &why, now),
            OnUnclear::Resubmit if self.may_try_again() => {
                self.enter(State::Retryable, Some(now.at), now.at);
            }
            OnUnclear::Resubmit => self.park(&exhausted("unclear"), &why, now),
        }
        true
    }

    /// Its next attempt may not be sent before `until`, since the gate is closed.
    pub fn hold_back(&mut self, until: Millis) {
        self.due_at = Some(until);
    }

    /// A handle was looked at and is still under way: it is looked at again, later each time; past its deadline it
    /// is given up.
    pub fn still_running(&mut self, id: &str, now: Now<'_>) {
        let Some(handle) = self.handle_mut(id) else { return };
        handle.missing_since = None;
        let was_given_up = handle.fate == Fate::GivenUp;
        if was_given_up {
            handle.looks += 1;
            self.schedule(now);
        } else if handle.deadline <= now.at {
            self.give_up(id, "deadline", "still running at its deadline", now);
        } else {
            handle.polls = handle.polls.saturating_add(1);
            self.schedule(now);
        }
    }

    /// A look at a handle brought no answer about it. It is looked at again; nothing else follows from it.
    pub fn look_failed(&mut self, id: &str, named_delay: Option<std::time::Duration>, now: Now<'_>) {
        if let Some(handle) = self.handle_mut(id) {
            handle.polls = handle.polls.saturating_add(1);
        }
        self.schedule(now);
        // A later look that brought no answer is still to be made: soon, but not at once.
        let earliest = now.at.plus(named_delay.unwrap_or(now.policy.poll_min));
        self.due_at = self.due_at.map(|due| due.max(earliest));
    }

    /// Gemini says 403 or 404 for a handle to a key that may see it. Not believed within the grace time.
    pub fn missing(&mut self, id: &str, message: &str, now: Now<'_>) {
        let Some(handle) = self.handle_mut(id) else { return };
        let since = *handle.missing_since.get_or_insert(now.at);
        let believed = since.plus(now.policy.not_found_grace);
        if handle.fate == Fate::GivenUp {
            handle.looks += 1;
            self.schedule(now);
        } else if believed <= now.at {
            self.give_up(id, "not_found", message, now);
        } else {
            handle.polls = handle.polls.saturating_add(1);
            self.schedule(now);
            self.due_at = self.due_at.map(|due| due.min(believed));
        }
    }

    /// The remote job of a handle expired, was cancelled, is not found or passed its deadline. The next attempt
    /// may follow after a back-off; the handle is still looked at after 24 h and 48 h.
    pub fn give_up(&mut self, id: &str, class: &str, message: &str, now: Now<'_>) {
        if let Some(handle) = self.handle_mut(id) {
            handle.fate = Fate::GivenUp;
            handle.given_up_at = Some(now.at);
            handle.looks = 0;
        }
        self.maybe_accepted = true;
        if self.goes_on() {
            self.schedule(now);
            return;
        }
        self.blame(class, message);
        self.enter(State::GivenUp, Some(now.after_backoff(self.attempts)), now.at);
        if !self.may_try_again() {
            self.park(&exhausted(class), message, now);
        }
    }

    /// The work of a handle failed, or its answer has no usable value.
    pub fn failed(&mut self, id: &str, judgement: &Judgement, message: &str, now: Now<'_>) {
        if let Some(handle) = self.handle_mut(id) {
            handle.fate = Fate::Ended;
        }
        if self.goes_on() {
            self.schedule(now);
        } else {
            self.fall(judgement, message, now);
        }
    }

    /// A given-up or ended handle turns out to be still under way: it is polled again instead of sending anew.
    pub fn revive(&mut self, id: &str, now: Now<'_>) {
        if let Some(handle) = self.handle_mut(id) {
            handle.fate = Fate::Live;
            handle.missing_since = None;
        }
        self.maybe_accepted = false;
        self.enter(State::Submitted, Some(now.at.plus(now.policy.poll_min)), now.at);
    }

    /// Gemini has finished: the result of `id` is to be persisted by `holder` under a consume lease.
    pub fn finished(&mut self, id: &str, holder: &str, now: Now<'_>) {
        if let Some(handle) = self.handle_mut(id) {
            handle.fate = Fate::Won;
            handle.missing_since = None;
        }
        self.take_to_consume(holder, now);
    }

    /// Takes a job whose consume lease ran out. False: its tries are used up, and it was parked with its answer kept.
    pub fn consume_again(&mut self, holder: &str, now: Now<'_>) -> bool {
        if self.consume_tries >= CONSUME_TRIES {
            let why = self.message.clone().unwrap_or_else(|| "its consumer ended without a word each time".to_owned());
            self.park("internal:consume", &why, now);
            return false;
        }
        self.take_to_consume(holder, now);
        true
    }

    fn take_to_consume(&mut self, holder: &str, now: Now<'_>) {
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
        self.lease = None;
        if !charged {
            self.consume_tries = self.consume_tries.saturating_sub(1);
        }
        self.blame("internal:consume", message);
        if charged && self.consume_tries >= CONSUME_TRIES {
            self.park("internal:consume", message, now);
        } else {
            self.due_at = Some(now.after_backoff(self.consume_tries.max(1)));
        }
    }

    /// The result is durable and handed on. A job that had been a dead letter is `recovered`.
    pub fn consumed(&mut self, now: Now<'_>) {
        self.class = None;
        self.message = None;
        let state = if self.parked_at.is_some() { State::Recovered } else { State::Consumed };
        self.enter(state, None, now.at);
    }

    /// A person gave it up, with a reason. Closed.
    pub fn discard(&mut self, reason: &str, now: Now<'_>) {
        self.blame("discarded", reason);
        self.enter(State::Discarded, None, now.at);
    }

    /// Makes it a dead letter. Given-up handles are still looked at: a late result recovers it.
    pub fn park(&mut self, class: &str, message: &str, now: Now<'_>) {
        self.blame(class, message);
        self.parked_at.get_or_insert(now.at);
        self.enter(State::Parked, None, now.at);
        self.due_at = self.next_later_look();
    }

    /// A failure's consequence: another attempt after a wait, or a dead letter.
    fn fall(&mut self, judgement: &Judgement, message: &str, now: Now<'_>) {
        match judgement.verdict {
            Verdict::Permanent => self.park(&judgement.class, message, now),
            // A queue's refusal of finished work is a passing failure of that work.
            Verdict::Retryable | Verdict::Queue | Verdict::Operator if self.may_try_again() => {
                let backoff = now.after_backoff(self.attempts);
                let due = named_time(judgement.delay, now.at).map_or(backoff, |named| named.max(backoff));
                self.blame(&judgement.class, message);
                self.enter(State::Retryable, Some(due), now.at);
            }
            Verdict::Retryable | Verdict::Queue | Verdict::Operator => {
                self.park(&exhausted(&judgement.class), message, now);
            }
        }
    }

    /// Whether the end of one handle changes nothing yet: another one is live, or the job is a dead letter already.
    fn goes_on(&self) -> bool {
        self.state == State::Parked || self.has_live_handle()
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

    /// Sets the next look: at the live handle that is due first, or at the next later look of a given-up one.
    fn schedule(&mut self, now: Now<'_>) {
        let live = self.handles.iter().filter(|handle| handle.fate == Fate::Live);
        let next = live.map(|handle| now.at.plus(now.policy.next_look(handle))).min();
        self.due_at = match self.state {
            State::Parked => self.next_later_look(),
            _ => next.or(self.due_at),
        };
    }

    fn next_later_look(&self) -> Option<Millis> {
        let given_up = self.handles.iter().filter(|handle| handle.fate == Fate::GivenUp);
        given_up.filter_map(later_look).min()
    }

    /// The reservation's create call was not accepted: it was no duplicate, but the one before may still be.
    fn take_back_duplicate(&mut self) {
        if self.counted_duplicate {
            self.possible_duplicates = self.possible_duplicates.saturating_sub(1);
            self.counted_duplicate = false;
            self.maybe_accepted = true;
        }
    }
}

/// A fresh handle of the present attempt.
#[must_use]
pub fn fresh_handle(id: String, attempt: u32, key: KeyId, deadline: std::time::Duration, now: Millis) -> Handle {
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

/// The time that a delay names.
#[must_use]
pub fn named_time(delay: Option<Delay>, now: Millis) -> Option<Millis> {
    delay.map(|delay| match delay {
        Delay::After(wait) => now.plus(wait),
        Delay::NextPacificMidnight => now.next_pacific_midnight(),
    })
}
