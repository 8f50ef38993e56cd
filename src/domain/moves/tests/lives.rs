//! Random lives of a job: everything that can happen to it, in any order, against what must hold at every moment.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What a create call's answer says, whenever it comes.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Accepted,
    Unclear,
    Refused(Verdict),
    QueueRefused,
}

/// What a look shows.
#[derive(Debug, Clone, Copy)]
enum Shown {
    Running,
    Value,
    Failed(Verdict),
    Cancelled,
    Missing,
    NoNews,
}

/// What becomes of a try to consume.
#[derive(Debug, Clone, Copy)]
enum Consuming {
    Succeeds,
    Fails { charged: bool },
    Crashes,
}

#[derive(Debug, Clone)]
enum Event {
    /// An unanswered create call, any earlier one, is answered; where there is none, nothing happens.
    Answer(prop::sample::Index, Answer),
    /// The webhook brings the handle of a create call; it is attached where its nonce fits.
    Webhook(prop::sample::Index),
    /// The same, and Gemini doesn't show it yet.
    WebhookTooEarly(prop::sample::Index),
    Wait(Duration),
    ClockJumpsBack(Duration),
    /// Time goes on to the due time, and a tick steps the job; looks show these things in turn.
    Tick(Vec<Shown>, Consuming),
    Discard,
}

/// A create call that was reserved, and what is known of it outside of the ledger.
#[derive(Debug, Clone)]
struct Sent {
    reservation: Reservation,
    answered: bool,
    refused: bool,
    /// Its answer was unclear, its lease ran out, or its handle was given up.
    doubted: bool,
    handle: Option<String>,
    /// What an event called it before a look showed it.
    heard: Option<String>,
}

struct World {
    life: Life,
    sent: Vec<Sent>,
    attached: BTreeSet<String>,
    /// Handles seen to have failed when the job was last sent.
    failed_before_last: usize,
    /// Failures that turned out to be none.
    revived: u32,
    consumed: u32,
}

impl World {
    fn new(on_unclear: OnUnclear) -> Self {
        let mut life = Life::new();
        life.policy.on_unclear = on_unclear;
        life.job.deadline_s = 2 * 3600;
        Self { life, sent: Vec::new(), attached: BTreeSet::new(), failed_before_last: 0, revived: 0, consumed: 0 }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Answer(which, answer) => {
                let open: Vec<usize> = (0..self.sent.len()).filter(|at| !self.sent[*at].answered).collect();
                if !open.is_empty() {
                    self.answer(open[which.index(open.len())], *answer);
                }
            }
            Event::Webhook(which) if !self.sent.is_empty() => {
                let at = which.index(self.sent.len());
                let Reservation { nonce, attempt } = self.sent[at].reservation.clone();
                let told = self.life.job.attempt_of(&nonce);
                assert!(told.is_none_or(|told| told == attempt), "a nonce tells its own attempt");
                if !self.sent[at].refused && told.is_some() {
                    self.attach(at);
                }
            }
            Event::WebhookTooEarly(which) if !self.sent.is_empty() => {
                let at = which.index(self.sent.len());
                if !self.sent[at].refused && self.sent[at].handle.is_none() {
                    let id = self.id_of(at);
                    let nonce = self.sent[at].reservation.nonce.clone();
                    self.life.with(|job, now| job.heard(&id, &nonce, now));
                }
            }
            Event::Webhook(_) | Event::WebhookTooEarly(_) => {}
            Event::Wait(wait) => self.life.wait(*wait),
            Event::ClockJumpsBack(back) => {
                let back = i64::try_from(back.as_millis()).unwrap();
                self.life.at = Millis(self.life.at.0 - back);
            }
            Event::Tick(shown, consuming) => self.tick(shown, *consuming),
            Event::Discard => self.life.with(|job, now| job.discard("not needed", now)),
        }
    }

    fn answer(&mut self, at: usize, answer: Answer) {
        self.sent[at].answered = true;
        let reservation = self.sent[at].reservation.clone();
        let attempts = self.life.job.attempts;
        match answer {
            Answer::Accepted => self.attach(at),
            Answer::Unclear => {
                self.sent[at].doubted = true;
                self.life.doubt(&reservation);
            }
            // The webhook has proved that it was accepted: no refusal comes then.
            _ if self.sent[at].handle.is_some() || self.sent[at].heard.is_some() => {}
            Answer::Refused(verdict) => {
                self.sent[at].refused = true;
                self.life.refuse(&reservation, verdict);
                assert_eq!(self.life.job.attempts, attempts);
            }
            Answer::QueueRefused => {
                self.sent[at].refused = true;
                let given_back = self.life.give_back(&reservation);
                assert!(!given_back || at + 1 == self.sent.len(), "only the reservation just made is given back");
                assert_eq!(self.life.job.attempts, attempts - u32::from(given_back));
            }
        }
    }

    fn attach(&mut self, at: usize) {
        let reservation = self.sent[at].reservation.clone();
        match self.sent[at].handle.clone() {
            Some(id) => assert!(!self.life.bring(&reservation, &id), "it is there already"),
            None => {
                let id = self.id_of(at);
                assert!(self.life.bring(&reservation, &id), "a fresh handle is news");
                assert!(self.life.job.heard.iter().all(|heard| heard.id != id), "what is attached is no hearsay");
                self.attached.insert(id.clone());
                self.sent[at].handle = Some(id);
            }
        }
    }

    /// What Gemini calls it, whoever tells first.
    fn id_of(&mut self, at: usize) -> String {
        let fresh = self.life.token("v1_");
        self.sent[at].heard.get_or_insert(fresh).clone()
    }

    fn tick(&mut self, shown: &[Shown], consuming: Consuming) {
        let Some(due) = self.life.job.due_at else { return };
        self.life.at = self.life.at.max(due);
        let mut shown = shown.iter().copied().cycle();
        match self.life.step() {
            Action::Wait => {
                let leased = self.life.job.lease.as_ref().is_some_and(|lease| lease.until > self.life.at);
                assert!(leased, "due, and nothing to do: {:?}", self.life.job);
            }
            Action::TakeOver => {
                let last = self.sent.last_mut().unwrap();
                last.doubted = true;
                let reservation = last.reservation.clone();
                assert!(self.life.doubt(&reservation));
            }
            Action::FindByName | Action::BringOn | Action::Recheck => panic!("no job here is of a batch"),
            Action::Tell => self.send_message(consuming),
            Action::Prove => {
                for heard in self.life.job.heard.clone() {
                    let denied = match shown.next().unwrap() {
                        Shown::Missing => true,
                        Shown::NoNews => false,
                        _ => {
                            let of_it = |sent: &Sent| sent.heard.as_ref() == Some(&heard.id);
                            self.attach(self.sent.iter().position(of_it).unwrap());
                            continue;
                        }
                    };
                    self.life.with(|job, now| job.heard_not_shown(&heard.id, denied, now));
                }
            }
            Action::EndGrace => assert!(self.life.with(|job, now| job.end_grace(now))),
            Action::Look(handles) => {
                for id in handles {
                    let one = shown.next().unwrap();
                    if matches!(one, Shown::Value) {
                        self.life.finish(&id);
                        self.consume(consuming);
                        break;
                    }
                    self.looked(&id, one);
                }
            }
            Action::Consume => {
                let holder = self.life.token("holder");
                if self.life.with(|job, now| job.consume_again(&holder, now)) {
                    self.consume(consuming);
                } else {
                    assert_eq!(self.life.job.state, State::Parked);
                }
            }
            Action::Submit => self.submit(shown, consuming),
            Action::TakeLines => panic!("a job is no intake"),
        }
    }

    /// The message's number is taken in one write, and another one follows when it was sent: a crash may come between.
    fn send_message(&mut self, consuming: Consuming) {
        let holder = self.life.token("holder");
        let before = self.life.job.letter.number;
        self.life.with(|job, now| {
            job.letter.begin(&holder, now);
            job.schedule(now);
        });
        assert_eq!(self.life.job.letter.number, before + 1, "no_number_is_used_twice");
        if !matches!(consuming, Consuming::Crashes) {
            self.life.with(|job, now| {
                assert!(job.letter.was_sent(&holder, now));
                job.schedule(now);
            });
        }
    }

    fn looked(&mut self, id: &str, shown: Shown) {
        match shown {
            Shown::Running => self.life.with(|job, now| job.still_running(id, now)),
            Shown::Failed(verdict) => self.life.fail(id, verdict),
            Shown::Cancelled => self.life.give_up(id),
            Shown::Missing => self.life.with(|job, now| job.missing(id, "no such interaction", now)),
            Shown::NoNews => self.life.with(|job, now| job.look_failed(id, None, now)),
            Shown::Value => panic!("taken before"),
        }
        if self.life.fate(id) == Fate::GivenUp {
            let of_handle = self.sent.iter_mut().find(|sent| sent.handle.as_deref() == Some(id)).unwrap();
            of_handle.doubted = true;
        }
    }

    fn consume(&mut self, consuming: Consuming) {
        match consuming {
            Consuming::Succeeds => {
                self.life.with(|job, now| job.consumed(now));
                self.consumed += 1;
            }
            Consuming::Fails { charged } => self.life.with(|job, now| job.consume_failed("no", charged, now)),
            Consuming::Crashes => {}
        }
    }

    /// As the program does it: every handle is looked at once more, then the next attempt is reserved.
    fn submit(&mut self, mut shown: impl Iterator<Item = Shown>, consuming: Consuming) {
        assert!(self.life.job.may_try_again(), "what is used up is parked at once: {:?}", self.life.job);
        assert!(self.life.job.heard.is_empty(), "what was heard is settled first: {:?}", self.life.job);
        assert!(!self.life.job.has_live_handle(), "what may bring a result is not sent again: {:?}", self.life.job);
        for handle in self.life.job.handles.clone() {
            match shown.next().unwrap() {
                Shown::Running if handle.deadline > self.life.at => {
                    self.revived += u32::from(handle.fate == Fate::Ended);
                    self.life.with(|job, now| job.revive(&handle.id, now));
                    return;
                }
                Shown::Value => {
                    self.life.finish(&handle.id);
                    self.consume(consuming);
                    return;
                }
                Shown::NoNews => {
                    self.life.with(|job, now| job.look_back_failed(&handle.id, None, now));
                    return;
                }
                Shown::Running | Shown::Failed(_) | Shown::Cancelled | Shown::Missing => {}
            }
        }
        self.failed_before_last = self.failed();
        let reservation = self.life.reserve();
        let (handle, heard) = (None, None);
        self.sent.push(Sent { reservation, answered: false, refused: false, doubted: false, handle, heard });
    }

    fn failed(&self) -> usize {
        self.life.job.handles.iter().filter(|handle| handle.fate == Fate::Ended).count()
    }

    fn check(&self, before: &Job) {
        let job = &self.life.job;
        assert!(job.attempts <= job.max_attempts, "attempts_stay_within_the_cap");
        if before.state.is_closed() {
            assert_eq!(job.state, before.state, "closed_is_closed_for_ever");
        }
        if job.state.is_closed() {
            assert_eq!(job.due_at, None, "a_closed_item_is_never_due");
        } else {
            assert!(job.due_at.is_some(), "an_open_item_is_due_some_time");
        }
        if job.state == State::Parked {
            assert!(job.due_at <= Some(job.letter.due(job.since)), "a_dead_letter_is_due_for_its_message: {job:?}");
        }
        assert!(job.letter.number >= before.letter.number, "the_numbers_of_messages_only_grow");
        assert!(self.consumed <= 1, "consumed_at_most_once");
        assert_eq!(self.consumed == 1, matches!(job.state, State::Consumed | State::Recovered));
        assert_eq!(
            job.state == State::Recovered,
            self.consumed == 1 && job.parked_at.is_some(),
            "what_was_a_dead_letter_ends_recovered"
        );
        assert!(job.history.len() <= 20, "the_history_is_short");
        let known: BTreeSet<String> = job.handles.iter().map(|handle| handle.id.clone()).collect();
        assert_eq!(known, self.attached, "no_handle_is_ever_lost");
        assert!(job.handles.len() <= job.attempts as usize, "a_handle_costs_an_attempt");
        assert_eq!(job.handles.iter().filter(|handle| handle.fate == Fate::Won).count(), usize::from(has_result(job)));
        self.check_duplicates();
    }

    fn check_duplicates(&self) {
        let told = self.life.job.possible_duplicates as usize;
        let maybe_accepted = self.sent.iter().filter(|sent| !sent.refused).count();
        let paid_again = maybe_accepted.saturating_sub(1 + self.failed_before_last);
        assert!(
            paid_again <= told,
            "no_duplicate_is_kept_quiet: {paid_again} of {:?} in {:?}",
            self.sent,
            self.life.job
        );
        let doubted = self.sent.iter().filter(|sent| sent.doubted).count() + self.revived as usize;
        assert!(told <= doubted, "no_duplicate_is_told_twice: {told} of {:?} in {:?}", self.sent, self.life.job);
    }

    /// Whether nothing will happen any more by itself, but that the message of a dead letter is renewed for ever.
    fn is_over(&self) -> bool {
        let job = &self.life.job;
        let is_told = job.state == State::Parked && job.letter.sent.is_some();
        job.due_at.is_none() || is_told && job.due_at == Some(job.letter.due(job.since))
    }
}

fn has_result(job: &Job) -> bool {
    job.history.iter().any(|moment| moment.1 == State::Done)
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop_oneof![4 => Just(Verdict::Retryable), 1 => Just(Verdict::Permanent), 1 => Just(Verdict::Queue)]
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        3 => Just(Answer::Accepted),
        3 => Just(Answer::Unclear),
        1 => verdicts().prop_map(Answer::Refused),
        2 => Just(Answer::QueueRefused),
    ]
}

fn shown() -> impl Strategy<Value = Shown> {
    prop_oneof![
        3 => Just(Shown::Running),
        1 => Just(Shown::Value),
        3 => verdicts().prop_map(Shown::Failed),
        2 => Just(Shown::Cancelled),
        2 => Just(Shown::Missing),
        2 => Just(Shown::NoNews),
    ]
}

fn consuming() -> impl Strategy<Value = Consuming> {
    prop_oneof![
        2 => Just(Consuming::Succeeds),
        2 => any::<bool>().prop_map(|charged| Consuming::Fails { charged }),
        2 => Just(Consuming::Crashes),
    ]
}

/// Moments, minutes, hours, days.
fn waits() -> impl Strategy<Value = Duration> {
    prop_oneof![0..2_000_u64, 0..1_200_000_u64, 0..10_000_000_u64, 0..200_000_000_u64].prop_map(Duration::from_millis)
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (any::<prop::sample::Index>(), answers()).prop_map(|(which, answer)| Event::Answer(which, answer)),
        2 => any::<prop::sample::Index>().prop_map(Event::Webhook),
        1 => any::<prop::sample::Index>().prop_map(Event::WebhookTooEarly),
        2 => waits().prop_map(Event::Wait),
        1 => waits().prop_map(Event::ClockJumpsBack),
        14 => (prop::collection::vec(shown(), 1..5), consuming()).prop_map(|(shown, end)| Event::Tick(shown, end)),
    ]
}

fn lives() -> impl Strategy<Value = Vec<Event>> {
    let discarded = prop_oneof![9 => Just(None), 1 => Just(Some(Event::Discard))];
    let life = prop::collection::vec(events(), 1..80);
    (life, discarded, any::<prop::sample::Index>()).prop_map(|(mut life, discarded, at)| {
        if let Some(event) = discarded {
            life.insert(at.index(life.len()), event);
        }
        life
    })
}

fn policies() -> impl Strategy<Value = OnUnclear> {
    prop_oneof![3 => Just(OnUnclear::Resubmit), 1 => Just(OnUnclear::Park)]
}

fn lived(on_unclear: OnUnclear, events: &[Event]) -> World {
    let mut world = World::new(on_unclear);
    for event in events {
        let before = world.life.job.clone();
        world.apply(event);
        world.check(&before);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds_at_every_moment(on_unclear in policies(), events in lives()) {
        let world = lived(on_unclear, &events);
        let text = serde_json::to_string(&world.life.job).unwrap();
        prop_assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), world.life.job);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_life_comes_to_its_end(on_unclear in policies(), events in lives(), shown in shown(), charged in any::<bool>()) {
        let mut world = lived(on_unclear, &events);
        let mut at_once = 0;
        for step in 0.. {
            if world.is_over() {
                break;
            }
            prop_assert!(step < 10_000, "it never ends: {:?}", world.life.job);
            let (before, at) = (world.life.job.clone(), world.life.at);
            // A machine whose disk is full for ever waits for ever; everything else comes to its end.
            let charged = charged || step > 20;
            world.apply(&Event::Tick(vec![shown], Consuming::Fails { charged }));
            world.check(&before);
            at_once = if world.life.at == at { at_once + 1 } else { 0 };
            prop_assert!(at_once < 10, "it spins: {:?}", world.life.job);
        }
        prop_assert!(world.life.job.state.is_ended());
    }
}
