//! Each rule of the design's section 2 that concerns one job, by name; and random lives against invariants.

mod creates;
mod heard;
mod lives;
mod looks;
mod replays;
mod results;
mod size;

use std::time::Duration;

use super::{Now, Ticket, fresh_handle};
use crate::domain::classify::{Judgement, Verdict};
use crate::domain::item::Item;
use crate::domain::job::{Fate, Job, KeyId, Rev, State};
use crate::domain::letter::RENEWED_AFTER;
use crate::domain::policy::{OnUnclear, Policy};
use crate::domain::step::{Action, step};
use crate::domain::time::Millis;
use crate::ports::conformance::sample;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// A reservation as its holder knows it.
#[derive(Debug, Clone)]
struct Reservation {
    nonce: String,
    attempt: u32,
}

/// A job, its time and its policy.
#[derive(Debug, Clone)]
struct Life {
    job: Job,
    at: Millis,
    policy: Policy,
    tokens: u32,
}

impl Life {
    /// A job that waits for its first attempt, due now.
    fn new() -> Self {
        let mut job = sample::job("key", Rev("rev".to_owned()));
        (job.attempts, job.state, job.lease, job.due_at) = (0, State::Retryable, None, Some(sample::START));
        job.history.clear();
        Self { job, at: sample::START, policy: Policy::default(), tokens: 0 }
    }

    fn parking_what_is_unclear() -> Self {
        let mut life = Self::new();
        life.policy.on_unclear = OnUnclear::Park;
        life
    }

    /// A job whose first create was accepted, and the id of its handle.
    fn submitted() -> (Self, String) {
        let mut life = Self::new();
        let first = life.reserve();
        let id = life.accepted(&first);
        (life, id)
    }

    /// A job whose first create is unclear.
    fn unclear() -> (Self, Reservation) {
        let mut life = Self::new();
        let first = life.reserve();
        assert!(life.doubt(&first));
        (life, first)
    }

    /// A job whose first create stayed unclear and that was reserved again.
    fn sent_again() -> (Self, Reservation, Reservation) {
        let (mut life, first) = Self::unclear();
        life.pass_grace();
        let second = life.reserve();
        (life, first, second)
    }

    /// Changes the job now, with the life's policy and no jitter.
    fn with<T>(&mut self, change: impl FnOnce(&mut Job, Now<'_>) -> T) -> T {
        change(&mut self.job, Now { at: self.at, fraction: 0.0, policy: &self.policy })
    }

    fn step(&self) -> Action {
        step(&Item::Job(self.job.clone()), self.at)
    }

    fn wait(&mut self, wait: Duration) {
        self.at = self.at.plus(wait);
    }

    /// Goes on to the time at which the job is due.
    fn until_due(&mut self) {
        self.at = self.at.max(self.job.due_at.expect("an open job is due"));
    }

    fn token(&mut self, kind: &str) -> String {
        self.tokens += 1;
        format!("{kind}{}", self.tokens)
    }

    fn reserve(&mut self) -> Reservation {
        self.until_due();
        assert_eq!(self.step(), Action::Submit);
        let nonce = self.token("nonce");
        let ticket = Ticket { nonce: nonce.clone(), holder: self.token("holder") };
        self.with(|job, now| job.reserve(ticket, now));
        assert!(self.job.is_reserved_by(&nonce));
        Reservation { nonce, attempt: self.job.attempts }
    }

    /// The create of `reservation` was accepted, and its holder, or an event, brings the handle.
    fn accepted(&mut self, reservation: &Reservation) -> String {
        let id = self.token("v1_");
        assert!(self.bring(reservation, &id), "a fresh handle is news");
        id
    }

    fn bring(&mut self, reservation: &Reservation, id: &str) -> bool {
        let key = KeyId("a1b2c3d4e5f6".to_owned());
        let handle = fresh_handle(id.to_owned(), reservation.attempt, key, self.job.deadline(), self.at);
        self.with(|job, now| job.attach(handle, &reservation.nonce, now))
    }

    fn doubt(&mut self, reservation: &Reservation) -> bool {
        self.with(|job, now| job.unclear(&reservation.nonce, "the connection broke", now))
    }

    fn refuse(&mut self, reservation: &Reservation, verdict: Verdict) -> bool {
        let judgement = judgement(verdict);
        self.with(|job, now| job.refused(&reservation.nonce, &judgement, "no", now))
    }

    fn give_back(&mut self, reservation: &Reservation) -> bool {
        let until = self.at.plus(MINUTE);
        self.with(|job, now| job.give_back(&reservation.nonce, "queue:429", "too many", until, now))
    }

    fn pass_grace(&mut self) {
        self.until_due();
        assert_eq!(self.step(), Action::EndGrace);
        assert!(self.with(|job, now| job.end_grace(now)));
    }

    fn fail(&mut self, id: &str, verdict: Verdict) {
        let judgement = judgement(verdict);
        self.with(|job, now| job.failed(id, &judgement, "it failed", now));
    }

    /// Sends the message of a dead letter, which comes before anything else.
    fn tell(&mut self) {
        self.until_due();
        assert_eq!(self.step(), Action::Tell);
        let holder = self.token("holder");
        self.with(|job, now| {
            job.letter.begin(&holder, now);
            assert!(job.letter.was_sent(&holder, now));
            job.schedule(now);
        });
    }

    /// When the message that stands for it must be renewed.
    fn renewal(&self) -> Option<Millis> {
        assert!(self.job.letter.sent.is_some(), "it was told");
        Some(self.job.letter.due(self.job.since))
    }

    fn give_up(&mut self, id: &str) {
        self.with(|job, now| job.give_up(id, "cancelled", "cancelled at Gemini", now));
    }

    fn finish(&mut self, id: &str) {
        let holder = self.token("holder");
        self.with(|job, now| job.finished(id, &holder, now));
        assert_eq!(self.job.state, State::Done);
    }

    fn fate(&self, id: &str) -> Fate {
        self.job.handle(id).expect("a handle is never lost").fate
    }

    fn class(&self) -> &str {
        self.job.class.as_deref().unwrap_or_default()
    }

    fn states(&self) -> Vec<State> {
        self.job.history.iter().map(|moment| moment.1).collect()
    }
}

fn judgement(verdict: Verdict) -> Judgement {
    let class = match verdict {
        Verdict::Permanent => "permanent:400",
        Verdict::Retryable => "retryable:503",
        Verdict::Queue => "queue:429",
        Verdict::Operator => "operator:key",
    };
    Judgement { verdict, class: class.to_owned(), delay: None }
}
