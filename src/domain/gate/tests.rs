use super::*;
use crate::domain::classify::Delay;
use crate::domain::policy::{LONGEST_DELAY, Policy};
use crate::ports::conformance::sample::START;

const SECOND: Duration = Duration::from_secs(1);

/// A gate, the time and the settings.
struct Guard {
    gate: Gate,
    at: Millis,
    policy: Policy,
}

impl Guard {
    fn new() -> Self {
        let gate = Gate::open("k/interaction/m".to_owned(), Rev("rev".to_owned()), START);
        Self { gate, at: START, policy: Policy::default() }
    }

    fn with<T>(&mut self, change: impl FnOnce(&mut Gate, Now<'_>) -> T) -> T {
        change(&mut self.gate, Now { at: self.at, fraction: 0.0, policy: &self.policy })
    }

    fn close(&mut self, delay: Option<Delay>) {
        self.close_as(Verdict::Queue, "queue:429", delay);
    }

    fn close_as(&mut self, verdict: Verdict, class: &str, delay: Option<Delay>) {
        let judgement = Judgement { verdict, class: class.to_owned(), delay };
        self.with(|gate, now| gate.close(&judgement, &format!("words for {class}"), now));
    }

    /// How long it stays closed from now on.
    fn closed_for(&self) -> Duration {
        self.gate.until.expect("it is closed").since(self.at)
    }

    fn wait(&mut self, wait: Duration) {
        self.at = self.at.plus(wait);
    }

    fn until_probe(&mut self) {
        self.at = self.gate.until.expect("it is closed");
    }

    fn ask(&self) -> Answer {
        self.gate.ask(self.at)
    }
}

#[test]
fn a_gate_that_nobody_closed_is_open() {
    assert_eq!(Guard::new().ask(), Answer::Open);
}

#[test]
fn closed_means_closed_until_its_time_and_then_one_may_probe() {
    let mut guard = Guard::new();
    guard.close(None);
    assert_eq!(guard.ask(), Answer::Closed(Some(START.plus(30 * SECOND))));
    guard.wait(30 * SECOND);
    assert_eq!(guard.ask(), Answer::MayProbe);
}

#[test]
fn until_is_the_later_of_the_old_and_the_new() {
    let mut guard = Guard::new();
    guard.close(Some(Delay::After(300 * SECOND)));
    guard.close(Some(Delay::After(20 * SECOND)));
    assert_eq!(guard.closed_for(), 300 * SECOND);
    guard.close(None);
    assert_eq!(guard.closed_for(), 300 * SECOND);
    guard.close(Some(Delay::After(400 * SECOND)));
    assert_eq!(guard.closed_for(), 400 * SECOND);
}

#[test]
fn one_probe_at_a_time() {
    let mut guard = Guard::new();
    guard.close(None);
    guard.until_probe();
    guard.with(|gate, now| gate.claim_probe("first", now));
    assert_eq!(guard.ask(), Answer::Closed(Some(guard.at.plus(2 * SECOND))), "soon worth asking again");
    guard.wait(119 * SECOND);
    assert_eq!(guard.ask(), Answer::Closed(Some(guard.at.plus(SECOND))), "at the end of its lease at the latest");
    guard.wait(SECOND);
    assert_eq!(guard.ask(), Answer::MayProbe, "a probe whose holder ended holds nobody up");
}

#[test]
fn a_probe_that_told_nothing_lets_the_next_one_try_at_once() {
    let mut guard = Guard::new();
    guard.close(None);
    guard.until_probe();
    guard.with(|gate, now| gate.claim_probe("first", now));
    guard.gate.drop_probe("somebody else");
    assert_ne!(guard.ask(), Answer::MayProbe, "only its holder gives it back");
    guard.gate.drop_probe("first");
    assert_eq!(guard.ask(), Answer::MayProbe);
}

#[test]
fn a_probe_that_went_through_opens_it_and_the_next_closing_is_a_first_one() {
    let mut guard = Guard::new();
    for _ in 0..3 {
        guard.close(None);
        guard.until_probe();
    }
    guard.with(|gate, now| gate.reopen(now.at));
    assert_eq!((guard.ask(), &guard.gate.class, &guard.gate.message), (Answer::Open, &None, &None));
    guard.close(None);
    assert_eq!(guard.closed_for(), 30 * SECOND);
}

#[test]
fn each_refused_probe_doubles_the_default_up_to_its_longest() {
    let mut guard = Guard::new();
    let mut waits = Vec::new();
    for _ in 0..7 {
        guard.close(None);
        waits.push(guard.closed_for().as_secs());
        guard.until_probe();
        guard.with(|gate, now| gate.claim_probe("probe", now));
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600]);
}

#[test]
fn refusals_of_calls_that_were_under_way_together_double_nothing() {
    let mut guard = Guard::new();
    for _ in 0..16 {
        guard.close(None);
        assert_eq!((guard.closed_for(), guard.gate.refusals), (30 * SECOND, 1));
    }
    guard.wait(5 * SECOND);
    guard.close(None);
    assert_eq!(guard.closed_for(), 30 * SECOND, "counted from the last of them");
}

#[test]
fn a_named_delay_wins_over_the_default_and_counts_for_no_doubling() {
    let mut guard = Guard::new();
    for _ in 0..3 {
        guard.close(Some(Delay::After(7 * SECOND)));
        assert_eq!(guard.closed_for(), 7 * SECOND);
        guard.until_probe();
    }
    guard.close(None);
    assert_eq!(guard.closed_for(), 30 * SECOND);
}

#[test]
fn a_named_delay_is_neither_endless_nor_a_loop() {
    let mut guard = Guard::new();
    guard.close(Some(Delay::After(Duration::ZERO)));
    assert_eq!(guard.closed_for(), SECOND);
    guard.close(Some(Delay::After(Duration::MAX)));
    assert_eq!(guard.closed_for(), LONGEST_DELAY);
    let mut fast = Guard::new();
    fast.policy.gate_wait = Duration::from_millis(20);
    fast.close(Some(Delay::After(Duration::ZERO)));
    assert_eq!(fast.closed_for(), Duration::from_millis(20));
}

#[test]
fn a_quota_of_the_day_waits_for_midnight_pacific() {
    let mut guard = Guard::new();
    guard.close(Some(Delay::NextPacificMidnight));
    assert_eq!(guard.gate.until.map(|until| until.to_string()).as_deref(), Some("2026-11-30T08:00:00Z"));
}

#[test]
fn a_pause_outlives_every_expiry_and_every_probe() {
    let mut guard = Guard::new();
    guard.gate.paused = Some("a person said so".to_owned());
    assert_eq!(guard.ask(), Answer::Closed(None));
    guard.close(None);
    guard.wait(100 * 24 * 3600 * SECOND);
    assert_eq!(guard.ask(), Answer::Closed(None));
    guard.with(|gate, now| gate.reopen(now.at));
    assert_eq!((guard.ask(), guard.gate.paused.as_deref()), (Answer::Closed(None), Some("a person said so")));
}

#[test]
fn what_only_a_person_can_mend_is_said_until_it_is_mended() {
    let mut guard = Guard::new();
    guard.close_as(Verdict::Operator, "operator:key", None);
    assert!(guard.gate.needs_person);
    // A call that was under way at the same time met a passing refusal: the key is still rejected.
    guard.close(None);
    assert!(guard.gate.needs_person);
    assert_eq!(guard.gate.class.as_deref(), Some("operator:key"));
    assert_eq!(guard.gate.message.as_deref(), Some("words for operator:key"));
    // A probe that is refused for a passing reason shows that the key is accepted again.
    guard.until_probe();
    guard.close(None);
    assert_eq!((guard.gate.needs_person, guard.gate.class.as_deref()), (false, Some("queue:429")));
    guard.close_as(Verdict::Operator, "operator:billing", None);
    assert_eq!((guard.gate.needs_person, guard.gate.class.as_deref()), (true, Some("operator:billing")));
    guard.with(|gate, now| gate.reopen(now.at));
    assert!(!guard.gate.needs_person);
}

#[test]
fn a_refusal_ends_the_probe() {
    let mut guard = Guard::new();
    guard.close(None);
    guard.until_probe();
    guard.with(|gate, now| gate.claim_probe("probe", now));
    guard.close(None);
    assert_eq!((guard.ask(), &guard.gate.probe), (Answer::Closed(guard.gate.until), &None));
}

#[test]
fn a_gate_stays_small_whatever_gemini_says() {
    let mut guard = Guard::new();
    let judgement = Judgement { verdict: Verdict::Queue, class: "q".repeat(10_000), delay: None };
    guard.with(|gate, now| gate.close(&judgement, &"日本語".repeat(10_000), now));
    assert!(serde_json::to_string(&guard.gate).unwrap().len() < 1_000);
}

#[test]
fn a_gate_is_of_a_key_a_mode_and_a_model() {
    assert_eq!(
        name(&KeyId("a1b2c3d4e5f6".to_owned()), Mode::Call, "gemini-pro-latest"),
        "a1b2c3d4e5f6/call/gemini-pro-latest"
    );
}

#[test]
fn class_and_words_are_those_of_the_refusal_that_said_until_when() {
    let mut guard = Guard::new();
    guard.close_as(Verdict::Queue, "queue:429", Some(Delay::After(3600 * SECOND)));
    let until = guard.gate.until;
    for (class, delay) in [("queue:599", None), ("queue:503", Some(Delay::After(20 * SECOND)))] {
        guard.wait(SECOND);
        guard.close_as(Verdict::Queue, class, delay);
        assert_eq!((guard.gate.until, guard.gate.class.as_deref()), (until, Some("queue:429")), "{class}");
        assert_eq!(guard.gate.message.as_deref(), Some("words for queue:429"), "{class}");
    }
    guard.close_as(Verdict::Queue, "queue:502", Some(Delay::After(4000 * SECOND)));
    assert_eq!((guard.closed_for(), guard.gate.class.as_deref()), (4000 * SECOND, Some("queue:502")));
    assert_eq!(guard.gate.message.as_deref(), Some("words for queue:502"));
    // What only a person can mend is said at once, however long it was to wait anyway.
    guard.close_as(Verdict::Operator, "operator:key", None);
    assert_eq!((guard.closed_for(), guard.gate.class.as_deref()), (4000 * SECOND, Some("operator:key")));
    // A closing that is over says nothing about the next one.
    guard.until_probe();
    guard.close_as(Verdict::Queue, "queue:599", None);
    assert_eq!((guard.closed_for(), guard.gate.class.as_deref()), (30 * SECOND, Some("queue:599")));
}
