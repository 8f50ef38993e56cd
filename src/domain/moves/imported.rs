//! Jobs that were taken over from a ledger which kept no lines.

use super::Now;
use crate::domain::job::{Job, Mode, State};

/// The class of a job that may have to be sent, and whose line nobody knows.
pub const NO_PAYLOAD: &str = "import:no_payload";

/// The class of a dead letter whose payload can't be sent as it is.
pub const BAD_PAYLOAD: &str = "import:bad_payload";

/// The same as [`NO_PAYLOAD`] in words, for people.
pub const WHY_NO_PAYLOAD: &str = "it was taken over from a ledger that kept no payload: hand in the file with its line \
                                  (`gleaner run FILE`), and it goes on under this key";

impl Job {
    /// Its line was handed in: `planned` is the job that the line asks for. False: it has one, or is closed and needs none.
    ///
    /// One that waited for its payload goes on. Whoever reserved it may have sent it, so its next create counts as a
    /// possible duplicate, and the attempt that was begun is not held against it. Nothing else is sent for this: a job that
    /// is under way is judged by its line from now on, and a dead letter can be replayed.
    pub fn take_line(&mut self, planned: &Self, now: Now<'_>) -> bool {
        if !self.has_no_line() || self.state.is_closed() {
            return false;
        }
        self.input.clone_from(&planned.input);
        self.content.clone_from(&planned.content);
        self.deadline_s = planned.deadline_s;
        self.model.clone_from(&planned.model);
        // What is at Gemini is an interaction, whatever the line says.
        self.mode = if self.handles.is_empty() { planned.mode } else { Mode::Interaction };
        let waited = self.state == State::Parked && self.class.as_deref() == Some(NO_PAYLOAD);
        self.max_attempts = planned.max_attempts.max(self.attempts.saturating_add(u32::from(waited)));
        if waited {
            self.class = None;
            self.message = None;
            self.parked_at = None;
            self.maybe_accepted = true;
            self.enter(State::Retryable, Some(now.at), now.at);
        } else if self.state == State::Parked {
            // Its message has no payload yet.
            self.letter.changed();
            self.schedule(now);
        }
        true
    }

    /// It would be sent again, and can't be: it waits for its line.
    pub fn wait_for_line(&mut self, now: Now<'_>) {
        let why = self.message.take().map_or_else(
            || WHY_NO_PAYLOAD.to_owned(),
            |message| format!("{WHY_NO_PAYLOAD}. What went wrong last: {message}"),
        );
        self.park(NO_PAYLOAD, &why, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::Rev;
    use crate::domain::moves::{Ticket, fresh_handle};
    use crate::domain::policy::Policy;
    use crate::domain::time::Millis;
    use crate::ports::conformance::sample;

    fn line() -> Job {
        let mut planned = sample::job("k", Rev("r".to_owned()));
        planned.content = "c".repeat(32);
        planned.input.line = 7;
        planned.max_attempts = 1;
        planned
    }

    fn lineless() -> Job {
        let mut job = sample::job("k", Rev("r".to_owned()));
        job.content = String::new();
        (job.attempts, job.max_attempts) = (1, 1);
        job
    }

    #[test]
    fn a_reservation_goes_on_with_its_line_and_its_next_create_is_a_possible_duplicate() {
        let policy = Policy::default();
        let now = Now { at: Millis(5_000), fraction: 0.0, policy: &policy };
        let mut job = lineless();
        job.wait_for_line(Now { at: Millis(1_000), ..now });
        assert_eq!((job.state, job.class.as_deref()), (State::Parked, Some(NO_PAYLOAD)));
        assert!(job.take_line(&line(), now));
        assert_eq!((job.state, job.due_at, job.input.line), (State::Retryable, Some(now.at), 7));
        assert_eq!((&job.class, job.parked_at), (&None, None), "it was no failure");
        assert!(!job.take_line(&line(), now), "it has one");
        job.reserve(Ticket { nonce: "n".to_owned(), holder: "h".to_owned() }, now);
        assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Reserving, 2, 1));
    }

    #[test]
    fn nothing_is_sent_for_a_line_of_a_job_that_is_under_way_or_has_ended() {
        let policy = Policy::default();
        let now = Now { at: Millis(5_000), fraction: 0.0, policy: &policy };
        let key = crate::domain::job::KeyId("k".to_owned());
        let mut job = lineless();
        job.handles.push(fresh_handle("v1_a".to_owned(), 1, key, job.deadline(), now.at));
        job.enter(State::Submitted, Some(now.at), now.at);
        let mut planned = line();
        planned.mode = Mode::Call;
        assert!(job.take_line(&planned, now));
        assert_eq!((job.state, job.mode, job.due_at), (State::Submitted, Mode::Interaction, Some(now.at)));
        let mut failed = lineless();
        failed.park("import:failed", "it failed", now);
        failed.letter.begin("h", now);
        assert!(failed.letter.was_sent("h", now));
        assert!(failed.take_line(&line(), now));
        assert_eq!((failed.state, failed.class.as_deref()), (State::Parked, Some("import:failed")));
        assert_eq!((failed.letter.sent, failed.due_at), (None, Some(now.at)), "its message gets its payload");
        let mut consumed = lineless();
        consumed.enter(State::Consumed, None, now.at);
        let before = consumed.clone();
        assert!(!consumed.take_line(&line(), now));
        assert_eq!(consumed, before);
    }
}
