//! The engine as it runs, with the ledger in DynamoDB: behind a proxy, a folder for objects, HTTP and the simulator, and
//! a clock that the tests move.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gleaner::adapters::aws::dynamodb::{DynamoLedger, Operation, Spent};
use gleaner::adapters::aws::s3::{self, S3Inbox};
use gleaner::adapters::gemini::{ApiKey, HttpGemini, Options};
use gleaner::adapters::local::folder::FolderObjects;
use gleaner::adapters::local::sqlite::SqliteQueue;
use gleaner::app::drive::OPEN;
use gleaner::app::engine::Engine;
use gleaner::app::land::land;
use gleaner::app::report::{Progress, progress};
use gleaner::app::tick::{Ticked, tick};
use gleaner::app::work::{Work, work};
use gleaner::domain::job::Mode;
use gleaner::ports::clock::Clock;
use gleaner::ports::conformance::sample::START;
use gleaner::ports::handover::Nobody;
use gleaner::ports::ledger::Ledger;
use gleaner::ports::queue::{Message, Queue, QueueError};
use gleaner::ports::testing::{TestClock, TestIds};
use gleaner::simulator::{Config, Running, start};
use tokio::net::TcpListener;

use super::emulator::config;
use super::emulator::proxy::Proxy;
use super::table::behind_proxy;
use super::units::{Written, written};

const HOUR: Duration = Duration::from_secs(3600);

/// The work queue, in memory.
#[derive(Debug, Default)]
struct Handed(Mutex<Vec<String>>);

#[async_trait]
impl Queue for Handed {
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        self.0.lock().unwrap().extend_from_slice(bodies);
        vec![Ok(()); bodies.len()]
    }

    async fn receive(&self, _limit: usize, _hidden: Duration) -> Result<Vec<Message>, QueueError> {
        panic!("the world hands work on by itself")
    }

    async fn delete(&self, _messages: &[Message]) -> Vec<Result<(), QueueError>> {
        panic!("nothing is received")
    }

    async fn release(&self, _message: &Message) -> Result<(), QueueError> {
        panic!("nothing is received")
    }
}

pub struct World {
    pub proxy: Proxy,
    pub ledger: Arc<DynamoLedger>,
    pub spent: Arc<Spent>,
    pub engine: Engine,
    clock: Arc<TestClock>,
    handed: Arc<Handed>,
    folder: tempfile::TempDir,
    _simulator: Running,
}

impl World {
    pub async fn new(config: Config) -> Self {
        let clock = Arc::new(TestClock::standing(START));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let simulator = start(listener, config, clock.clone()).await.unwrap();
        let (proxy, ledger) = behind_proxy().await;
        let spent = Arc::new(Spent::default());
        let ledger = Arc::new(ledger.counting(Arc::clone(&spent)));
        let folder = tempfile::tempdir().unwrap();
        let objects = FolderObjects::open(folder.path().join("objects"), START).unwrap();
        let keys = vec![ApiKey::new("test-key-1").unwrap()];
        let options = Options { base_url: simulator.base_url(), ..Options::new(keys) };
        let dead_letters = SqliteQueue::open(folder.path().join("dead-letters.db"), clock.clone()).unwrap();
        let engine = Engine {
            ledger: ledger.clone(),
            objects: Arc::new(objects),
            gemini: Arc::new(HttpGemini::new(options).unwrap()),
            clock: clock.clone(),
            ids: Arc::new(TestIds::new(1)),
            work_queue: None,
            left_work: None,
            dead_letters: Arc::new(dead_letters),
            ends: None,
            handover: Arc::new(Nobody),
            settings: Default::default(),
            headers: Default::default(),
            sweeps: Default::default(),
            stopping: Default::default(),
        };
        let handed = Arc::default();
        Self { proxy, ledger, spent, engine, clock, handed, folder, _simulator: simulator }
    }

    /// From now on ticks hand over what takes long, as on AWS.
    pub fn hand_over(mut self) -> Self {
        self.engine.work_queue = Some(self.handed.clone());
        self
    }

    /// Does what was handed over, as the worker does.
    async fn work(&self) {
        let handed = std::mem::take(&mut *self.handed.0.lock().unwrap());
        if handed.is_empty() {
            return;
        }
        let worker = Engine { work_queue: None, ..self.engine.clone() };
        // Nothing here comes from an inbox.
        let nobodys = S3Inbox::new(s3::client(&config("http://127.0.0.1:9")), "none".to_owned());
        for body in handed {
            let named: Work = serde_json::from_str(&body).unwrap();
            work(&worker, Some(&nobodys), &named, self.clock.now().plus(HOUR)).await.unwrap();
        }
    }

    /// Lands a file of `jobs` lines, and returns its sha256.
    pub async fn land(&self, jobs: usize) -> String {
        let path = self.folder.path().join("jobs.jsonl");
        let lines = (0..jobs).map(|n| format!("{{\"input\": \"Summarize chapter {n} in one sentence.\"}}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        land(&self.engine, &path, None).await.unwrap().intake.sha256
    }

    /// Lands a run of these rows, and returns its sha256.
    pub async fn land_rows(&self, rows: &str) -> String {
        let path = self.folder.path().join("rows.jsonl");
        std::fs::write(&path, rows).unwrap();
        land(&self.engine, &path, Some(Mode::Batch)).await.unwrap().intake.sha256
    }

    /// What was written so far, after checking it against what the emulator says.
    pub fn written(&self) -> Vec<Written> {
        let seen = self.proxy.take_seen();
        let written = written(&seen);
        // ministack follows the same rules for puts; it says nothing of those whose condition didn't hold.
        let told = self.spent.so_far()[&Operation::PutItem];
        assert!(seen.iter().all(|seen| seen.json()["ReturnConsumedCapacity"] == "TOTAL"));
        assert_eq!(told.calls, written.len() as u64, "no put was refused");
        // Its batches of reads say nothing of their cost, which is a unit for each item that is there.
        println!("{:?}", self.spent.so_far());
        assert_eq!(told.write, written.iter().map(|put| put.units).sum::<usize>() as f64);
        written
    }

    /// How many messages are in the queue of dead letters.
    pub async fn messages(&self) -> usize {
        let all = self.engine.dead_letters.receive(usize::MAX, HOUR).await.unwrap();
        let release = all.iter().map(|message| self.engine.dead_letters.release(message));
        futures::future::try_join_all(release).await.unwrap();
        all.len()
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub async fn tick(&self) -> Ticked {
        tick(&self.engine, self.clock.now().plus(HOUR)).await.unwrap()
    }

    /// Ticks on, each time at the next due time, until the intake is over.
    pub async fn until_over(&self, intake: &str) -> Progress {
        for _ in 0..200 {
            self.tick().await;
            self.work().await;
            let progress = progress(&self.engine, intake).await.unwrap();
            if progress.is_over() {
                assert_eq!(progress.wrong_sums(), None);
                return progress;
            }
            let due = self.ledger.next_due(&OPEN).await.unwrap();
            let wait = due.map_or(Duration::ZERO, |due| due.since(self.clock.now()));
            self.clock.advance(wait.max(Duration::from_secs(1)));
        }
        panic!("it never ends");
    }
}
