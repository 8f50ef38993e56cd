//! Gates: when Gemini takes no new work, or a person wants none.

use std::collections::BTreeSet;
use std::time::Duration;

use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::gates::{IN_A_ROW, all_gates, pause, resume, try_mended};
use gleaner::domain::gate::{EVERYTHING, Gate};
use gleaner::domain::job::State;
use gleaner::domain::time::Millis;
use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;
use reqwest::Method;
use serde_json::json;

use super::simulated::Sim;
use super::world::{HOUR, LEASE, MINUTE, Maker, World, a_moment, eventually, key_id, lines, text, tick_of};

const LONG: Duration = Duration::from_secs(52758);

/// The gate of that model; it must have been written.
async fn gate(engine: &Engine, model: &str) -> Gate {
    let gates = all_gates(engine).await.unwrap();
    let name = format!("{}/interaction/{model}", engine.gemini.creates_as());
    gates.iter().find(|gate| gate.name == name).unwrap_or_else(|| panic!("no {name} in {gates:?}")).clone()
}

const DEFAULT: &str = "gemini-flash-latest";

#[tokio::test]
async fn a_named_time_closes_the_gate_for_that_long_and_costs_no_attempt() {
    let world = World::new(&["create-429-long=1"]).await;
    let intake = world.land(lines(20)).await;
    world.tick().await;
    assert_eq!(gate(&world.engine, DEFAULT).await.until, Some(world.now().plus(LONG)));
    let creates = world.requests("create").await;
    assert!((1..=16).contains(&creates), "{creates}");
    assert!(world.jobs().await.iter().all(|job| (job.state, job.attempts) == (State::Retryable, 0)));
    world.pass(HOUR * 14, HOUR).await;
    assert_eq!(world.requests("create").await, creates, "the gate is closed");
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (20, 0, 20));
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1));
    assert_eq!(gate(&world.engine, DEFAULT).await.until, None);
}

#[tokio::test]
async fn every_form_of_429_closes_the_gate_and_only_help_for_the_default_that_doubles() {
    let mut seen = BTreeSet::new();
    for n in 0..12 {
        let world = World::new(&["create-429=1"]).await;
        let intake = world.land(text(&format!("Refused {n}."))).await;
        world.tick().await;
        let closed_for = |gate: Gate| gate.until.unwrap().since(world.now());
        let wait = closed_for(gate(&world.engine, DEFAULT).await);
        seen.insert(wait.as_secs());
        if wait == Duration::from_secs(30) {
            for minutes in [1, 2, 4, 8, 10, 10] {
                world.skip().await;
                world.tick().await;
                assert_eq!(closed_for(gate(&world.engine, DEFAULT).await), MINUTE * minutes);
            }
        }
        assert_eq!((world.state().await, world.job().await.attempts), (State::Retryable, 0));
        world.set_faults(&[]).await;
        let tally = world.until_over(&intake).await.tally;
        assert_eq!((tally.consumed, world.accepted().await, world.job().await.attempts), (1, 1, 1));
    }
    assert!(seen.len() >= 2 && seen.contains(&30), "{seen:?}");
}

/// A world whose gate was closed by 20 jobs and is about to open.
async fn about_to_open(config: Config) -> (World, String) {
    let world = World::with(&["create-429-long=1"], config, Maker::default()).await;
    let intake = world.land(lines(20)).await;
    world.tick().await;
    world.advance(LONG);
    (world, intake)
}

#[tokio::test]
async fn one_probe_at_a_time_and_its_success_opens_the_gate() {
    let (world, intake) = about_to_open(Config { late: HOUR * 20, ..Config::default() }).await;
    let before = world.requests("create").await;
    world.set_faults(&["create-delay=1"]).await;
    let prober = world.engine.clone();
    let probing = tokio::spawn(async move { tick_of(&prober).await });
    eventually("the probe is sent", async || world.accepted().await == 1).await;
    world.set_faults(&[]).await;
    let second = world.second();
    for _ in 0..20 {
        a_moment().await;
        tick_of(&second).await.unwrap();
    }
    assert_eq!(world.requests("create").await, before + 1, "everybody waits for the probe");
    world.advance(HOUR * 20);
    probing.await.unwrap().unwrap();
    assert_eq!(gate(&world.engine, DEFAULT).await.until, None);
    let tally = world.until_over_by(&[&world.engine, &second], &intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (20, 0, 20));
}

#[tokio::test]
async fn a_probe_that_is_refused_closes_the_gate_again() {
    let (world, intake) = about_to_open(Config::default()).await;
    let before = world.requests("create").await;
    world.tick().await;
    assert_eq!(world.requests("create").await, before + 1);
    assert_eq!(gate(&world.engine, DEFAULT).await.until, Some(world.now().plus(LONG)));
    world.set_faults(&[]).await;
    assert_eq!(world.until_over(&intake).await.tally.consumed, 20);
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1));
}

#[tokio::test]
async fn an_unclear_probe_closes_the_gate_again() {
    let (world, intake) = about_to_open(Config::default()).await;
    world.set_faults(&["create-503-refused=1"]).await;
    world.tick().await;
    let unclear = || async { world.jobs().await.iter().filter(|job| job.state == State::Unclear).count() };
    assert_eq!(unclear().await, 1);
    let closed = gate(&world.engine, DEFAULT).await;
    assert!(closed.probe.is_none() && closed.until.unwrap() > world.now(), "{closed:?}");
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (20, 1, 20));
}

#[tokio::test]
async fn an_outage_of_hours_uses_up_few_attempts() {
    let world = World::new(&["create-503-refused=1"]).await;
    let intake = world.land(&lines(300)).await;
    world.tick().await;
    // What was under way together, and no more.
    let first = world.jobs().await.len();
    let most = IN_A_ROW as usize + world.engine.settings.concurrency;
    assert!(first <= most, "{first} of 300 were sent into the outage");
    world.pass(HOUR * 3, MINUTE).await;
    let sent: u32 = world.jobs().await.iter().map(|job| job.attempts).sum();
    // Beside those one probe at a time: in three hours about twenty, since the wait doubles up to ten minutes.
    assert!(sent as usize <= most + 40, "{sent} attempts in three hours of outage");
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!(tally.consumed + tally.parked, 300);
    assert!(tally.parked <= 10, "{tally:?}");
}

#[tokio::test]
async fn a_probe_whose_process_died_is_followed_by_another() {
    let (world, intake) = about_to_open(Config { late: HOUR * 90, ..Config::default() }).await;
    world.set_faults(&["create-delay=1"]).await;
    let (prober, _clock) = world.paused();
    let probing = tokio::spawn(async move { tick_of(&prober).await });
    eventually("the probe is sent", async || world.accepted().await == 1).await;
    probing.abort();
    world.set_faults(&[]).await;
    world.tick().await;
    assert_eq!(world.accepted().await, 1);
    world.advance(LEASE);
    world.tick().await;
    assert_eq!(gate(&world.engine, DEFAULT).await.until, None);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (20, 1, 21));
}

/// Inputs that the lasting fault meets, and inputs that it spares.
async fn met_and_spared(fault: &str, count: usize) -> (Vec<String>, Vec<String>) {
    let faults = Faults::parse([format!("{fault}=0.5").as_str()]).unwrap();
    let sim = Sim::start(Config { faults, ..Config::default() }).await;
    let (mut met, mut spared) = (Vec::new(), Vec::new());
    for n in 0.. {
        let input = format!("Question {n}.");
        let body = json!({"model": "m", "input": input, "background": true});
        let (status, _) = sim.send(Method::POST, "/v1/interactions", Some(&body)).await.unwrap();
        if status == 429 { &mut met } else { &mut spared }.push(input);
        if met.len() >= count && spared.len() >= count {
            break;
        }
    }
    met.truncate(count);
    spared.truncate(count);
    (met, spared)
}

#[tokio::test]
async fn a_daily_quota_waits_for_midnight_pacific_for_its_model_alone() {
    let (met, spared) = met_and_spared("create-429-daily", 20).await;
    let world = World::new(&["create-429-daily=0.5"]).await;
    let file: String = met
        .iter()
        .zip(&spared)
        .map(|(spent, fresh)| {
            format!("{}\n{}\n", json!({"input": spent, "model": "spent"}), json!({"input": fresh, "model": "fresh"}))
        })
        .collect();
    let intake = world.land(file).await;
    world.pass(HOUR, MINUTE).await;
    let midnight: Millis = world.now().next_pacific_midnight();
    assert_eq!(midnight, super::world::START.plus(HOUR * 12), "noon in California");
    assert_eq!(gate(&world.engine, "spent").await.until, Some(midnight));
    let progress = world.progress(&intake).await;
    assert_eq!((progress.tally.consumed, progress.tally.open, progress.waiting()), (20, 20, 0));
    assert!(world.requests("create").await <= 20 + 16);
    world.check().await;
    world.set_faults(&[]).await;
    world.pass(HOUR * 10 + MINUTE * 59, MINUTE).await;
    assert_eq!(world.accepted().await, 20, "not before midnight");
    let tally = world.until_over(&intake).await.tally;
    assert!(world.now() < midnight.plus(HOUR));
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (40, 0, 40));
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1));
}

#[tokio::test]
async fn a_gate_that_closes_in_the_middle_of_a_file_skips_and_repeats_no_line() {
    let world = World::new(&["create-429-long=0.04"]).await;
    let intake = world.land(lines(150)).await;
    world.tick().await;
    let progress = world.progress(&intake).await;
    assert!(progress.waiting() > 0 && progress.tally.jobs > 1, "{progress:?}");
    world.check().await;
    world.set_faults(&[]).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.repeats, world.accepted().await), (150, 150, 0, 150));
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1));
}

#[tokio::test]
async fn collection_goes_on_while_the_gate_is_closed() {
    let (met, spared) = met_and_spared("create-429-long", 5).await;
    let world = World::new(&["create-429-long=0.5"]).await;
    let all: String = spared.iter().chain(&met).map(|input| text(input)).collect();
    let intake = world.land(all).await;
    world.pass(HOUR, MINUTE).await;
    assert!(gate(&world.engine, DEFAULT).await.until.is_some());
    assert_eq!(world.progress(&intake).await.tally.consumed, 5);
}

#[tokio::test]
async fn a_pause_outlives_everything_but_a_resume() {
    let world = World::new(&[]).await;
    let first = world.land(lines(3)).await;
    world.tick().await;
    pause(&world.engine, "holidays").await.unwrap();
    let path = world.path("later.jsonl");
    std::fs::write(&path, text("Later.")).unwrap();
    let later = gleaner::app::land::land(&world.engine, &path, None).await.unwrap().intake.sha256;
    assert_eq!(world.until_over(&first).await.tally.consumed, 3, "collection goes on");
    world.pass(HOUR * 100, HOUR).await;
    let restarted = world.second();
    tick_of(&restarted).await.unwrap();
    assert_eq!((world.requests("create").await, world.progress(&later).await.waiting()), (3, 1));
    let paused = all_gates(&restarted).await.unwrap().into_iter().find(|gate| gate.name == EVERYTHING).unwrap();
    assert_eq!(paused.paused.as_deref(), Some("holidays"));
    resume(&restarted).await.unwrap();
    assert_eq!(world.until_over(&later).await.tally.consumed, 1);
    assert_eq!(world.accepted().await, 4);
}

#[tokio::test]
async fn a_pause_in_the_middle_of_a_file_loses_nothing() {
    let world = World::new(&["create-429-long=1"]).await;
    let intake = world.land(lines(40)).await;
    world.tick().await;
    pause(&world.engine, "wait").await.unwrap();
    world.set_faults(&[]).await;
    let creates = world.requests("create").await;
    world.pass(HOUR * 30, HOUR).await;
    assert_eq!(world.requests("create").await, creates);
    resume(&world.engine).await.unwrap();
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.accepted().await, tally.possible_duplicates), (40, 40, 0));
}

#[tokio::test]
async fn a_rejected_key_condemns_nobody() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(30)).await;
    let bad = world.another(&Maker { keys: vec!["bad-key"], ..Maker::default() }, world.clock.clone());
    for _ in 0..5 {
        let outcome = tick_of(&bad).await;
        if let Err(trouble) = outcome {
            assert!(matches!(&trouble, Trouble::NeedsPerson(why) if why.contains("GEMINI_API_KEY")), "{trouble}");
        }
        world.advance(MINUTE * 20);
    }
    assert!(gate(&bad, DEFAULT).await.needs_person);
    assert!(world.jobs().await.iter().all(|job| (job.state, job.attempts) == (State::Retryable, 0)));
    world.check().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.jobs, tally.consumed, tally.possible_duplicates, world.accepted().await), (30, 30, 0, 30));
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1));
    assert_ne!(key_id("bad-key"), key_id(super::world::KEY));
}

#[tokio::test]
async fn the_first_refusal_of_a_key_stops_the_tick() {
    let world = World::new(&["key-rejected=1"]).await;
    world.land(lines(30)).await;
    let trouble = tick_of(&world.engine).await.unwrap_err();
    assert!(matches!(trouble, Trouble::NeedsPerson(_)), "{trouble}");
    assert!(world.requests("create").await <= 16);
    world.check().await;
}

#[tokio::test]
async fn a_network_that_is_down_costs_no_attempt() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(20)).await;
    let cut_off = world.unreachable();
    for _ in 0..50 {
        tick_of(&cut_off).await.unwrap();
        world.advance(MINUTE * 3);
    }
    let jobs = world.jobs().await;
    assert!(!jobs.is_empty());
    for job in jobs {
        assert_eq!((job.state, job.attempts), (State::Retryable, 0));
        assert_eq!(job.class.as_deref(), Some("queue:unreachable"));
    }
    assert!(gate(&world.engine, DEFAULT).await.until.is_some());
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (20, 0, 20));
}

#[tokio::test]
async fn refusals_that_are_alike_stop_before_a_file_is_condemned() {
    let mut maker = Maker::default();
    maker.settings.model = "no-such-model".to_owned();
    let world = World::with(&[], Config::default(), maker).await;
    let intake = world.land(&lines(200)).await;
    let parked = async || world.progress(&intake).await.tally.parked as usize;
    let trouble = tick_of(&world.engine).await.unwrap_err();
    assert!(matches!(&trouble, Trouble::NeedsPerson(why) if why.contains("operator:alike")), "{trouble}");
    let first = parked().await;
    let most = IN_A_ROW as usize + world.engine.settings.concurrency;
    assert!((IN_A_ROW as usize..=most).contains(&first), "{first} of 200 were condemned");
    // Whoever starts anew without having mended it pays with one job, not with another row.
    try_mended(&world.engine).await.unwrap();
    assert!(matches!(tick_of(&world.engine).await, Err(Trouble::NeedsPerson(_))));
    assert_eq!((parked().await, world.accepted().await), (first + 1, 0));
    let waiting = world.progress(&intake).await.waiting();
    assert_eq!(waiting as usize, 200 - first - 1, "the rest waits where it was");
}
