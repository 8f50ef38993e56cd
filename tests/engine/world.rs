//! A data folder, a simulator, and engines that work on them, all in this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gleaner::adapters::gemini::{ApiKey, HttpGemini, Options};
use gleaner::adapters::local::DataFolder;
use gleaner::app::drive::OPEN;
use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::land::{LandError, Landed, land};
use gleaner::app::report::{Progress, progress};
use gleaner::app::settings::Settings;
use gleaner::app::tick::{Ticked, tick};
use gleaner::domain::item::Item;
use gleaner::domain::job::{Job, JobKey, KeyId, State};
use gleaner::domain::line::{Header, parse_line};
use gleaner::domain::time::Millis;
use gleaner::ports::handover::{Handover, HandoverError};
use gleaner::ports::testing::{TestClock, TestIds};
use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::simulated::Sim;

/// Where the clocks begin: 2026-11-29T20:00:00Z, noon in California.
pub const START: Millis = Millis(1_795_982_400_000);

/// The key that engines have unless a test says otherwise.
pub const KEY: &str = "test-key-1";

/// A lease of the default policy, and a moment.
pub const LEASE: Duration = Duration::from_secs(121);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
/// The grace of an unclear create, and a moment.
pub const GRACE: Duration = Duration::from_secs(15 * 60 + 1);

/// Real time that a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(90);

/// Lets real time pass: for sockets and threads, which no test clock moves.
#[expect(clippy::disallowed_methods, reason = "sockets and threads take real time")]
pub async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until `seen` says so.
pub async fn eventually(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    let tries = PATIENCE.as_millis() / 5;
    for _ in 0..tries {
        if seen().await {
            return;
        }
        a_moment().await;
    }
    panic!("it never came to this: {what}");
}

/// How an engine is made.
#[derive(Clone)]
pub struct Maker {
    pub keys: Vec<&'static str>,
    pub http_timeout: Duration,
    pub call_timeout: Duration,
    pub settings: Settings,
}

impl Default for Maker {
    fn default() -> Self {
        let call_timeout = Duration::from_secs(600);
        Self { keys: vec![KEY], http_timeout: Duration::from_secs(30), call_timeout, settings: Settings::default() }
    }
}

/// Results as they were handed on; it fails and waits when told to.
#[derive(Debug)]
pub struct Hands {
    pub taken: std::sync::Mutex<Vec<(JobKey, Bytes)>>,
    pub failures: AtomicU64,
    pub open: watch::Sender<bool>,
    /// Where the objects are.
    pub folder: std::sync::Mutex<std::path::PathBuf>,
}

impl Default for Hands {
    fn default() -> Self {
        Self {
            taken: std::sync::Mutex::default(),
            failures: AtomicU64::new(0),
            open: watch::Sender::new(true),
            folder: std::sync::Mutex::default(),
        }
    }
}

impl Hands {
    pub fn count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }

    /// Every result was handed on `times` times, always with the same bytes.
    pub fn assert_each(&self, times: usize) {
        let mut seen: BTreeMap<JobKey, Vec<Bytes>> = BTreeMap::new();
        for (key, bytes) in self.taken.lock().unwrap().iter() {
            seen.entry(key.clone()).or_default().push(bytes.clone());
        }
        for (key, all) in seen {
            assert_eq!(all.len(), times, "{key}");
            assert!(all.iter().all(|bytes| *bytes == all[0]), "{key}: other bytes the second time");
        }
    }
}

#[async_trait]
impl Handover for Hands {
    async fn hand_on(&self, id: &JobKey, _receiver: Option<&str>, object: &str) -> Result<(), HandoverError> {
        let result = Bytes::from(std::fs::read(self.folder.lock().unwrap().join(object)).unwrap());
        self.taken.lock().unwrap().push((id.clone(), result));
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        let less = |left: u64| left.checked_sub(1);
        match self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(HandoverError::Refused("the receiver is ill".to_owned())),
            Err(_) => Ok(()),
        }
    }
}

pub struct World {
    pub clock: Arc<TestClock>,
    pub folder: tempfile::TempDir,
    pub sim: Sim,
    pub hands: Arc<Hands>,
    pub engine: Engine,
    pub maker: Maker,
    made: AtomicU64,
}

impl World {
    /// A world with these faults, `NAME=RATE` each.
    pub async fn new(faults: &[&str]) -> Self {
        Self::with(faults, Config::default(), Maker::default()).await
    }

    pub async fn with(faults: &[&str], config: Config, maker: Maker) -> Self {
        let clock = Arc::new(TestClock::standing(START));
        let faults = Faults::parse(faults.iter().copied()).unwrap();
        let sim = Sim::start_at(Config { faults, ..config }, clock.clone()).await;
        let folder = tempfile::tempdir().unwrap();
        let hands = Arc::new(Hands::default());
        *hands.folder.lock().unwrap() = folder.path().join("data");
        let made = AtomicU64::new(1);
        let engine = engine(&folder, &sim.running.base_url(), &maker, clock.clone(), &hands, 1);
        Self { clock, folder, sim, hands, engine, maker, made }
    }

    /// Another process on the same folder.
    pub fn second(&self) -> Engine {
        self.another(&self.maker, self.clock.clone())
    }

    /// Another process whose clock stands still unless it is moved: a paused one, for it never renews a lease.
    pub fn paused(&self) -> (Engine, Arc<TestClock>) {
        let clock = Arc::new(TestClock::standing(self.now()));
        (self.another(&self.maker, clock.clone()), clock)
    }

    /// Another process, which can't reach Gemini: its connections are refused.
    pub fn unreachable(&self) -> Engine {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let seed = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        engine(&self.folder, &format!("http://{nobody}"), &self.maker, self.clock.clone(), &self.hands, seed)
    }

    /// Another process, for which Gemini is somewhere else.
    pub fn with_gemini_at(&self, base_url: &str) -> Engine {
        let seed = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        engine(&self.folder, base_url, &self.maker, self.clock.clone(), &self.hands, seed)
    }

    /// Another process, made as `maker` says.
    pub fn another(&self, maker: &Maker, clock: Arc<TestClock>) -> Engine {
        let seed = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        engine(&self.folder, &self.sim.running.base_url(), maker, clock, &self.hands, seed)
    }

    pub fn now(&self) -> Millis {
        gleaner::ports::clock::Clock::now(&*self.clock)
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub async fn set_faults(&self, faults: &[&str]) {
        let rates: BTreeMap<&str, f64> = faults.iter().map(|f| f.split_once('=').unwrap()).map(rate).collect();
        let (status, body) = self.sim.send(Method::PUT, "/simulator/faults", Some(&json!(rates))).await.unwrap();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    }

    /// Writes `text` to a file and lands it.
    pub async fn try_land(&self, name: &str, text: impl AsRef<[u8]>) -> Result<Landed, LandError> {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        land(&self.engine, &path, None).await
    }

    /// The same for a file that must land. Returns its sha256.
    pub async fn land(&self, text: impl AsRef<[u8]>) -> String {
        self.try_land("jobs.jsonl", text).await.unwrap().intake.sha256
    }

    pub fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join("in");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    /// One tick of the first engine, which must go well.
    pub async fn tick(&self) -> Ticked {
        tick_of(&self.engine).await.unwrap()
    }

    /// Ticks on, each time at the next due time, until the intake is over.
    pub async fn until_over(&self, intake: &str) -> Progress {
        self.until_over_by(&[&self.engine], intake).await
    }

    /// The same with several engines at once.
    pub async fn until_over_by(&self, engines: &[&Engine], intake: &str) -> Progress {
        for _ in 0..5_000 {
            for ticked in futures::future::join_all(engines.iter().map(|engine| tick_of(engine))).await {
                ticked.unwrap();
            }
            let progress = self.progress(intake).await;
            if progress.is_over() {
                self.check().await;
                self.agree().await;
                return progress;
            }
            self.skip().await;
        }
        panic!("it never ends: {:?}", self.progress(intake).await);
    }

    /// Moves the clock to the next due time, a second at least.
    pub async fn skip(&self) {
        let due = self.engine.ledger.next_due(&OPEN).await.unwrap();
        let wait = due.map_or(Duration::ZERO, |due| due.since(self.now()));
        self.advance(wait.max(Duration::from_secs(1)));
    }

    /// Ticks once a `step` for `span`.
    pub async fn pass(&self, span: Duration, step: Duration) {
        let end = self.now().plus(span);
        while self.now() < end {
            self.advance(step);
            self.tick().await;
        }
    }

    pub async fn progress(&self, intake: &str) -> Progress {
        progress(&self.engine, intake).await.unwrap()
    }

    /// Every job.
    pub async fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for state in State::OF_JOBS {
            let items = gleaner::app::report::every(&self.engine, state, usize::MAX).await.unwrap();
            jobs.extend(items.into_iter().filter_map(|item| match item {
                Item::Job(job) => Some(job),
                _ => None,
            }));
        }
        jobs
    }

    /// The only job.
    pub async fn job(&self) -> Job {
        let jobs = self.jobs().await;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.into_iter().next().unwrap()
    }

    /// The state of the only job.
    pub async fn state(&self) -> State {
        self.job().await.state
    }

    /// Everything that the simulator accepted.
    pub async fn log(&self) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), json!(0));
        while let Some(from) = after.as_u64() {
            let page = self.sim.get(&format!("/simulator/log?after={from}")).await;
            all.extend(page["entries"].as_array().unwrap().iter().cloned());
            after = page["next"].clone();
        }
        all
    }

    /// How many interactions would have been paid for.
    pub async fn accepted(&self) -> usize {
        self.log().await.len()
    }

    /// How many requests of a kind came (`create`, `get`, `cancel`).
    pub async fn requests(&self, kind: &str) -> u64 {
        self.sim.get("/simulator/stats").await["requests"][kind].as_u64().unwrap_or(0)
    }

    /// Every item's rev: two equal ones mean that nothing was written between.
    pub async fn revs(&self) -> BTreeMap<String, String> {
        let mut revs = BTreeMap::new();
        for state in State::OF_JOBS.into_iter().chain([State::Reading, State::Read, State::Gate]) {
            for item in gleaner::app::report::every(&self.engine, state, usize::MAX).await.unwrap() {
                revs.insert(item.id().to_string(), item.rev().0.clone());
            }
        }
        revs
    }

    /// Names of a folder of objects.
    pub fn objects(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.data().join(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

fn rate<'a>((name, rate): (&'a str, &str)) -> (&'a str, f64) {
    (name, rate.parse().unwrap())
}

pub async fn tick_of(engine: &Engine) -> Result<Ticked, Trouble> {
    tick(engine, engine.clock.now().plus(HOUR * 1000)).await
}

fn engine(
    folder: &tempfile::TempDir,
    base_url: &str,
    maker: &Maker,
    clock: Arc<TestClock>,
    hands: &Arc<Hands>,
    seed: u64,
) -> Engine {
    let data = DataFolder::open(folder.path().join("data"), START).unwrap();
    let dead_letters = Arc::new(data.dead_letters(clock.clone()).unwrap());
    let keys = maker.keys.iter().map(|key| ApiKey::new(key).unwrap()).collect();
    let (http_timeout, call_timeout) = (maker.http_timeout, maker.call_timeout);
    let options = Options { base_url: base_url.to_owned(), http_timeout, call_timeout, ..Options::new(keys) };
    Engine {
        ledger: data.ledger,
        objects: data.objects,
        gemini: Arc::new(HttpGemini::new(options).unwrap()),
        clock,
        ids: Arc::new(TestIds::new(seed)),
        work_queue: None,
        left_work: None,
        dead_letters,
        ends: None,
        handover: hands.clone(),
        settings: maker.settings.clone(),
        headers: Default::default(),
        sweeps: Default::default(),
        stopping: Default::default(),
    }
}

/// The fingerprint of an API key.
pub fn key_id(key: &str) -> KeyId {
    ApiKey::new(key).unwrap().fingerprint()
}

/// A line that asks for a text.
pub fn text(input: &str) -> String {
    json!({"input": input}).to_string() + "\n"
}

/// A line that asks for JSON of a schema.
pub fn json_line(input: &str) -> String {
    let schema = json!({"type": "object", "required": ["title", "score"],
        "properties": {"title": {"type": "string"}, "score": {"type": "integer"}}});
    let format = json!({"type": "text", "mime_type": "application/json", "schema": schema});
    json!({"input": input, "response_format": format}).to_string() + "\n"
}

/// `count` lines, English and Japanese, text and JSON.
pub fn lines(count: usize) -> String {
    let line = |n: usize| match n % 4 {
        0 => text(&format!("Summarize chapter {n} in one sentence.")),
        1 => text(&format!("第{n}章を一文で要約してください。")),
        2 => json_line(&format!("Rate chapter {n}.")),
        _ => json_line(&format!("第{n}章を評価してください。")),
    };
    (0..count).map(line).collect()
}

/// The key of a line.
pub fn key_of(line: &str) -> JobKey {
    parse_line(line.trim_end().as_bytes(), &Header::default()).unwrap().unwrap().key
}
