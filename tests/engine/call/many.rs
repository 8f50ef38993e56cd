//! Many calls in bad weather: all end, no more are dead than chance says, every named wait is kept, and each request is an
//! attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use gleaner::domain::gate::Gate;
use gleaner::domain::job::State;
use gleaner::domain::letter::Letter;
use gleaner::domain::policy::Policy;
use gleaner::simulator::Config;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

use super::plain::calls;
use super::script::{Answer, Script};
use crate::world::{Maker, World, tick_of};

const JOBS: usize = 5_000;

impl World {
    /// Every call that the simulator answered.
    pub async fn calls(&self) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), json!(0));
        while let Some(from) = after.as_u64() {
            let page = self.sim.get(&format!("/simulator/calls?after={from}")).await;
            all.extend(page["entries"].as_array().unwrap().iter().cloned());
            after = page["next"].clone();
        }
        all
    }
}

fn input(n: usize) -> String {
    format!("Question {n}?")
}

/// Seconds of a delay such as `45.25s`.
fn seconds(delay: &str) -> f64 {
    delay.trim_end_matches('s').parse().unwrap()
}

#[tokio::test]
async fn five_thousand_calls_of_which_every_third_fails() {
    let faults = ["call-429=0.15", "call-500=0.05", "call-503=0.1"];
    let world = World::with(&faults, Config { seed: 5, ..Config::default() }, Maker::default()).await;
    let intake = world.land(calls((0..JOBS).map(input))).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.open, tally.consumed + tally.parked), (5_000, 0, 5_000), "{tally:?}");
    // 0.3^4 of them: 40.5, and four standard deviations of 6.3.
    assert!((15..=66).contains(&tally.parked), "{tally:?}");
    assert_eq!(world.hands.count() as u64, tally.consumed);

    let asked = world.calls().await;
    let mut by_input: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for call in &asked {
        by_input.entry(call["input_digest"].as_str().unwrap().to_owned()).or_default().push(call.clone());
    }
    let jobs = world.jobs().await;
    assert_eq!(
        jobs.iter().map(|job| u64::from(job.attempts)).sum::<u64>(),
        asked.len() as u64,
        "an attempt is a request"
    );
    let policy = Policy::default();
    let (mut named, mut failed, mut duplicates) = (0, 0, 0);
    let text = std::fs::read_to_string(world.data().join(format!("intakes/{intake}.jsonl"))).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for job in &jobs {
        let line: Value = serde_json::from_str(lines[usize::try_from(job.input.line).unwrap() - 1]).unwrap();
        let contents = json!([{"role": "user", "parts": [{"text": line["input"]}]}]);
        let calls = &by_input[&Digest::of(&contents).to_string()];
        assert_eq!(calls.len(), job.attempts as usize, "{job:?}");
        let is_last_good = calls.last().unwrap()["status"] == 200;
        assert_eq!(job.state, if is_last_good { State::Consumed } else { State::Parked }, "{job:?}");
        for (n, pair) in calls.windows(2).enumerate() {
            failed += 1;
            let waited = (pair[1]["at"].as_i64().unwrap() - pair[0]["at"].as_i64().unwrap()) as f64 / 1000.0;
            let backoff = policy.backoff(u32::try_from(n).unwrap() + 1, 0.0).as_secs_f64();
            let delay = pair[0]["delay"].as_str().map_or(0.0, seconds);
            named += u64::from(delay > backoff + 1.0);
            assert!(waited >= backoff.max(delay), "{waited} s after {}", pair[0]);
            let status = pair[0]["status"].as_u64().unwrap();
            assert!([429, 500, 503].contains(&status), "sent again after {status}");
            // One that was refused with 429 came after it, and was no duplicate of it.
            let is_again = calls[n + 1..].iter().any(|later| later["status"] != 429);
            duplicates += u32::from(status >= 500 && is_again);
        }
        if job.state == State::Parked {
            failed += 1;
            let class = format!("exhausted:{}", calls.last().unwrap()["status"]);
            assert_eq!((job.attempts, job.class.as_deref()), (4, Some(class.as_str())));
            assert_ne!(job.letter, Letter::default(), "nobody was told of {job:?}");
        }
    }
    assert!(named > 200, "only {named} waits were longer than the back-off");
    let share = f64::from(failed) / asked.len() as f64;
    assert!((0.27..0.33).contains(&share), "{share}");
    assert_eq!(jobs.iter().map(|job| job.possible_duplicates).sum::<u32>(), duplicates);
    assert!(world.accepted().await as u64 <= tally.consumed + tally.possible_duplicates + tally.parked);
}

/// Gemini is down: the calls of a file are not used up one after the other.
#[tokio::test]
async fn failures_in_a_row_close_the_gate_for_a_while() {
    for (fault, class) in [("call-503=1", "queue:503"), ("call-429=1", "queue:429"), ("create-drop=1", "queue:unclear")]
    {
        let mut maker = Maker::default();
        maker.settings.concurrency = 1;
        let world = World::with(&[fault], Config::default(), maker).await;
        let intake = world.land(calls((0..50).map(input))).await;
        world.tick().await;
        assert_eq!(world.requests("generate").await, 8, "{fault}");
        let gates = gleaner::app::gates::closed_gates(&world.engine).await.unwrap();
        assert_eq!(gates.first().and_then(|gate| gate.class.as_deref()), Some(class));
        world.tick().await;
        assert_eq!(world.requests("generate").await, 8, "{fault}");
        world.set_faults(&[]).await;
        world.advance(Duration::from_secs(60));
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, tally.parked), (50, 0), "{fault}");
    }
}

/// Each job waits as long as it was told; the model, which other jobs call too, waits no day for what one answer named.
#[tokio::test]
async fn a_wait_that_one_call_was_told_is_not_the_gates() {
    let refusal = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"}}).to_string();
    let script = Script::always(Answer::Http(429, vec!["retry-after: 80000"], refusal)).await;
    let mut maker = Maker::default();
    maker.settings.concurrency = 1;
    let world = World::with(&[], Config::default(), maker).await;
    world.land(calls((0..20).map(input))).await;
    let engine = world.with_gemini_at(&script.url);
    tick_of(&engine).await.unwrap();
    let asked = script.posts();
    assert!((8..20).contains(&asked), "{asked}");
    let gates = gleaner::app::gates::closed_gates(&engine).await.unwrap();
    let closed_for = |gates: &[Gate]| gates[0].until.unwrap().since(world.now());
    assert_eq!(closed_for(&gates), Duration::from_secs(30));
    let told: Vec<_> = world.jobs().await.into_iter().filter(|job| job.attempts == 1).collect();
    assert_eq!(told.len() as u64, asked);
    for job in told {
        assert_eq!(job.due_at.unwrap().since(world.now()), Duration::from_secs(80_000));
    }
    // Neither does a probe that is told the same.
    world.advance(Duration::from_secs(30));
    tick_of(&engine).await.unwrap();
    assert_eq!(script.posts(), asked + 1);
    let gates = gleaner::app::gates::closed_gates(&engine).await.unwrap();
    assert_eq!(closed_for(&gates), Duration::from_secs(60));
}

#[tokio::test]
async fn every_way_to_fail_at_once_and_two_processes() {
    for seed in 1..=3 {
        let faults = ["passing=0.2", "row-safety=0.03", "row-max-tokens=0.03", "row-bad-json=0.05"];
        let config = Config { seed, late: Duration::ZERO, ..Config::default() };
        let world = World::with(&faults, config, Maker::default()).await;
        let intake = world.land(super::plain::many(300)).await;
        let second = world.second();
        let tally = world.until_over_by(&[&world.engine, &second], &intake).await.tally;
        assert_eq!((tally.jobs, tally.consumed + tally.parked), (300, 300), "{tally:?}");
        world.hands.assert_each(1);
        assert_eq!(world.hands.count() as u64, tally.consumed);
        let attempts: u64 = world.jobs().await.iter().map(|job| u64::from(job.attempts)).sum();
        assert_eq!(attempts, world.requests("generate").await);
    }
}
