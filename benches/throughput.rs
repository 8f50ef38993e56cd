//! Figures of the whole engine on one machine: `cargo bench --bench throughput [-- JOBS CLOSED]`.
//!
//! First JOBS jobs (default 100,000) against a simulator without latency in a process of its own: jobs per second,
//! ledger calls per job, peak memory of this process. Then a tick with nothing due, on a ledger without closed items
//! and on one with CLOSED of them (default 1,000,000).

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench stops at what it doesn't expect")]
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use gleaner::adapters::gemini::{ApiKey, HttpGemini, Options};
use gleaner::adapters::local::DataFolder;
use gleaner::adapters::system::{SystemClock, SystemIds};
use gleaner::app::drive::drive;
use gleaner::app::engine::Engine;
use gleaner::app::land::land;
use gleaner::app::lines::Headers;
use gleaner::app::settings::Settings;
use gleaner::app::tick::tick;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Rev, State};
use gleaner::domain::time::Millis;
use gleaner::ports::clock::Clock;
use gleaner::ports::conformance::sample;
use gleaner::ports::handover::Nobody;
use gleaner::ports::ids::Ids;
use gleaner::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let jobs = numbers.first().copied().unwrap_or(100_000);
    let closed = numbers.get(1).copied().unwrap_or(1_000_000);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(jobs));
    runtime.block_on(idle(closed));
}

/// A simulator in a process of its own, ended when dropped.
struct Simulator(Child, String);

impl Simulator {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gleaner"))
            .args(["simulator", "--port", "0", "--latency", "0ms", "--polls", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("a base URL").to_owned();
        Self(child, url)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Counts the calls that go through to a ledger.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Ledger>,
    writes: AtomicU64,
    reads: AtomicU64,
}

impl Counting {
    fn new(inner: Arc<dyn Ledger>) -> Arc<Self> {
        Arc::new(Self { inner, writes: AtomicU64::new(0), reads: AtomicU64::new(0) })
    }

    fn wrote(&self) -> &dyn Ledger {
        self.writes.fetch_add(1, Ordering::Relaxed);
        &*self.inner
    }

    fn read(&self) -> &dyn Ledger {
        self.reads.fetch_add(1, Ordering::Relaxed);
        &*self.inner
    }
}

#[async_trait]
impl Ledger for Counting {
    async fn create(&self, item: &Item) -> Result<(), CreateError> {
        self.wrote().create(item).await
    }
    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
        self.wrote().replace(read, item).await
    }
    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError> {
        self.read().get(id).await
    }
    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError> {
        self.read().get_many(ids).await
    }
    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.read().due(states, now, limit).await
    }
    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError> {
        self.read().next_due(states).await
    }
    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.read().in_state(state, after, limit).await
    }
    async fn counts(&self) -> Result<Counts, LedgerError> {
        self.read().counts().await
    }
    async fn totals(&self, intake: &str) -> Result<Option<Vec<Total>>, LedgerError> {
        self.read().totals(intake).await
    }
    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError> {
        self.read().by_handle(handle).await
    }
    async fn forget(&self, now: Millis, limit: usize) -> Result<u64, LedgerError> {
        self.wrote().forget(now, limit).await
    }
}

fn engine(folder: &Path, base_url: &str) -> (Engine, Arc<Counting>) {
    let data = DataFolder::open(folder, SystemClock.now()).unwrap();
    let dead_letters = data.dead_letters(Arc::new(SystemClock)).unwrap();
    let ledger = Counting::new(data.ledger);
    let options = Options { base_url: base_url.to_owned(), ..Options::new(vec![ApiKey::new("bench").unwrap()]) };
    let mut settings = Settings::default();
    settings.policy.poll_min = Duration::from_millis(10);
    let engine = Engine {
        ledger: Arc::<Counting>::clone(&ledger),
        objects: data.objects,
        gemini: Arc::new(HttpGemini::new(options).unwrap()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        work_queue: None,
        left_work: None,
        dead_letters: Arc::new(dead_letters),
        ends: None,
        handover: Arc::new(Nobody),
        settings,
        headers: Headers::default(),
        sweeps: Default::default(),
        stopping: Arc::default(),
    };
    (engine, ledger)
}

async fn run(jobs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let simulator = Simulator::start();
    let (engine, ledger) = engine(&folder.path().join("data"), &simulator.1);
    let file = folder.path().join("jobs.jsonl");
    let mut lines = String::new();
    for n in 0..jobs {
        writeln!(
            lines,
            r#"{{"input": "Summarise document {n} in one sentence. 第{n}号の記事を一文で要約してください。"}}"#
        )
        .unwrap();
    }
    std::fs::write(&file, lines).unwrap();
    let start = Instant::now();
    let landed = land(&engine, &file, None).await.unwrap();
    let landing = start.elapsed();
    let drove = drive(&engine, &landed.intake.sha256, |_, _| {}).await.unwrap();
    let took = start.elapsed();
    assert_eq!(drove.progress.tally.consumed, jobs as u64, "{:?}", drove.progress);
    let per_job = |calls: &AtomicU64| calls.load(Ordering::Relaxed) as f64 / jobs as f64;
    println!("jobs                      {jobs}");
    println!("seconds                   {:.1} (landing {:.1})", took.as_secs_f64(), landing.as_secs_f64());
    println!("jobs per second           {:.0}", jobs as f64 / took.as_secs_f64());
    println!("ledger writes per job     {:.3}", per_job(&ledger.writes));
    println!("ledger reads per job      {:.3}", per_job(&ledger.reads));
    println!("peak memory, MB           {:.0}", peak_memory_mb());
}

fn peak_memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1024.0
}

async fn idle(closed: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (engine, ledger) = engine(&folder.path().join("data"), "http://127.0.0.1:9");
    let before = idle_tick(&engine, &ledger).await;
    let fill = stream::iter(0..closed).map(|n| {
        let mut job =
            sample::job_in(&format!("{n:032x}"), Rev(SystemIds.token()), State::Consumed, Millis(n as i64), None);
        job.answer = None;
        let ledger = &engine.ledger;
        async move { ledger.create(&Item::Job(job)).await.unwrap() }
    });
    fill.buffer_unordered(500).for_each(|()| async {}).await;
    let after = idle_tick(&engine, &ledger).await;
    println!("closed items              0 / {closed}");
    println!("idle tick, ledger calls   {} / {}", before.1, after.1);
    println!("idle tick, microseconds   {:.0} / {:.0} (median of 200)", before.0, after.0);
}

/// Median time of a tick with nothing due, in microseconds, and its ledger calls.
async fn idle_tick(engine: &Engine, ledger: &Counting) -> (f64, u64) {
    let calls = || ledger.reads.load(Ordering::Relaxed) + ledger.writes.load(Ordering::Relaxed);
    let mut times = Vec::new();
    let mut made = 0;
    for _ in 0..200 {
        let (start, before) = (Instant::now(), calls());
        assert!(tick(engine, engine.clock.now().plus(Duration::from_secs(5))).await.unwrap().was_idle());
        times.push(start.elapsed().as_secs_f64() * 1e6);
        made = calls() - before;
    }
    times.sort_by(f64::total_cmp);
    (times.get(100).copied().unwrap(), made)
}
