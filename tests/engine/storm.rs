//! Everything at once, in an order that a seed chooses: processes that are killed, run at the same time or have clocks
//! that are wrong, faults that come and go, people who pause, cancel and hand in overlapping files. After each of it
//! the invariants hold, and in the end every line has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner::app::cancel::cancel_job;
use gleaner::app::engine::Engine;
use gleaner::app::gates::{pause, resume};
use gleaner::domain::job::State;
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::{TestClock, TestIds};
use gleaner::simulator::Config;

use tokio::task::JoinHandle;

use super::intakes::killed_tick;
use super::world::{HOUR, Maker, World, a_moment, lines, tick_of};

/// Different lines in all files of one storm.
const LINES: usize = 60;
const MOMENTS: usize = 120;

const WEATHER: [&[&str]; 12] = [
    &[],
    &[],
    &["passing=0.3"],
    &["passing=0.3", "bad-json=0.1", "blocked=0.05", "incomplete=0.05"],
    &["create-429=0.5"],
    &["create-429-long=0.3"],
    &["create-429-daily=0.3"],
    &["get-404-forever=0.3", "passing=0.1"],
    &["create-drop=0.5", "create-503-refused=0.5"],
    &["get-503=0.5", "get-cut=0.5"],
    &["cancelled-remote=0.5", "failed-silent=0.5"],
    &["key-rejected=1"],
];

/// Weather in which creates are answered late.
const LATE: [&[&str]; 6] = [
    &["create-delay=0.5"],
    &["create-delay=1"],
    &["create-delay=0.3", "create-drop=0.3"],
    &["create-delay=0.5", "get-404-forever=0.3"],
    &["create-delay=0.5", "failed-silent=0.5"],
    &[],
];

/// How late that is: later than a lease, and sometimes later than the grace.
const LATENESS: Duration = Duration::from_secs(1_200);

const WAITS: [u64; 8] = [1, 10, 40, 121, 300, 901, 3_600, 90_000];

struct Storm {
    world: World,
    dice: TestIds,
    engines: Vec<Engine>,
    /// Of the last engine: it goes wrong.
    clock: Arc<TestClock>,
    intakes: Vec<String>,
}

impl Storm {
    async fn new(seed: u64, late: Duration) -> Self {
        let config = Config { seed, late, hidden: Duration::from_secs(90), ..Config::default() };
        let world = World::with(&[], config, Maker::default()).await;
        let (wrong, clock) = world.paused();
        let engines = vec![world.second(), world.second(), wrong];
        Self { world, dice: TestIds::new(seed * 104_729), engines, clock, intakes: Vec::new() }
    }

    fn below(&self, end: usize) -> usize {
        (self.dice.fraction() * end as f64) as usize
    }

    fn one<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    async fn land(&mut self) {
        let all = lines(LINES);
        let start = self.below(LINES - 10);
        let some: Vec<&str> = all.lines().skip(start).take(1 + self.below(30)).collect();
        let name = format!("{}.jsonl", self.intakes.len());
        let landed = self.world.try_land(&name, some.join("\n")).await.unwrap();
        self.intakes.push(landed.intake.sha256);
    }

    async fn moment(&mut self) -> &'static str {
        let engine = self.one(&self.engines).clone();
        match self.below(100) {
            0..35 => {
                // Trouble is what the weather brings; what it may do is checked below.
                tick_of(&engine).await.map_or("a tick in trouble", |_| "a tick")
            }
            35..50 => {
                let other = self.one(&self.engines).clone();
                let (one, two) = tokio::join!(tick_of(&engine), tick_of(&other));
                if one.is_err() || two.is_err() { "two ticks in trouble" } else { "two ticks" }
            }
            50..62 => {
                let ended = killed_tick(&engine, 1 + self.below(60) as u32).await;
                if ended { "a tick that escaped" } else { "a killed tick" }
            }
            62..82 => {
                let wait = Duration::from_secs(*self.one(&WAITS));
                self.world.advance(wait);
                let skew = Duration::from_secs(self.below(600) as u64);
                let now = self.world.now();
                let wrong = if self.below(2) == 0 { now.plus(skew) } else { now };
                self.clock.set(wrong);
                "time passes"
            }
            82..90 => {
                let weather: &[&str] = WEATHER[self.below(WEATHER.len())];
                self.world.set_faults(weather).await;
                "the weather changes"
            }
            90..92 => {
                pause(&engine, "a storm").await.unwrap();
                "a pause"
            }
            92..95 => {
                resume(&engine).await.unwrap();
                "a resume"
            }
            95..96 => {
                let jobs = self.world.jobs().await;
                if !jobs.is_empty() {
                    // It may fail as the weather is.
                    let job = self.one(&jobs).clone();
                    if cancel_job(&engine, job, "the storm").await.is_err() {
                        return "a cancel in trouble";
                    }
                }
                "a cancel"
            }
            96..98 => {
                self.world.hands.failures.store(self.below(4) as u64, Ordering::SeqCst);
                "an ill receiver"
            }
            _ => {
                self.land().await;
                "another file"
            }
        }
    }

    async fn run(mut self, seed: u64) {
        self.land().await;
        for n in 0..MOMENTS {
            let what = self.moment().await;
            // Shown when the check fails.
            println!("seed {seed}, moment {n}: {what}");
            self.world.check().await;
        }
        self.calm_down(seed).await;
    }

    /// Holders that are late all the time: creates are answered after minutes, ticks overlap, and of half the
    /// processes the clock stands still while they wait.
    async fn run_late(mut self, seed: u64) {
        self.land().await;
        let mut ticking: Vec<JoinHandle<_>> = Vec::new();
        for _ in 0..MOMENTS {
            ticking.retain(|tick| !tick.is_finished());
            match self.below(10) {
                0..5 if ticking.len() < 5 => {
                    let engine = if self.below(2) == 0 { self.world.paused().0 } else { self.world.second() };
                    ticking.push(tokio::spawn(async move { tick_of(&engine).await.map(drop) }));
                }
                0..8 => self.world.advance(Duration::from_secs(*self.one(&WAITS[..6]))),
                8 => self.world.set_faults(LATE[self.below(LATE.len())]).await,
                _ => self.land().await,
            }
            for _ in 0..self.below(6) {
                a_moment().await;
            }
        }
        self.world.set_faults(&[]).await;
        while ticking.iter().any(|tick| !tick.is_finished()) {
            self.world.advance(LATENESS);
            a_moment().await;
        }
        self.world.check().await;
        self.calm_down(seed).await;
    }

    /// The weather is good at last: every line comes to its end.
    async fn calm_down(self, seed: u64) {
        self.world.set_faults(&[]).await;
        self.world.hands.failures.store(0, Ordering::SeqCst);
        resume(&self.world.engine).await.unwrap();
        self.world.advance(HOUR);
        for intake in &self.intakes {
            self.world.until_over(intake).await;
        }
        let jobs = self.world.jobs().await;
        assert!(jobs.iter().all(|job| job.state.is_ended()), "seed {seed}");
        for job in jobs.iter().filter(|job| job.state == State::Discarded) {
            assert_eq!(job.message.as_deref(), Some("the storm"), "seed {seed}");
        }
        let taken = self.world.hands.taken.lock().unwrap();
        for (key, bytes) in taken.iter() {
            assert!(taken.iter().all(|(other, again)| other != key || again == bytes), "seed {seed}: {key}");
        }
    }
}

/// How many seeds are tried; more when asked for.
fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("GLEANER_TEST_STORMS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

#[tokio::test]
async fn a_storm_loses_nothing() {
    for seed in seeds() {
        Storm::new(seed, Duration::ZERO).await.run(seed).await;
    }
}

#[tokio::test]
async fn late_holders_lose_nothing() {
    for seed in seeds() {
        Storm::new(seed, LATENESS).await.run_late(seed).await;
    }
}
