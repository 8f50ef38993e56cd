//! What is found afterwards: the ledger's items, the results folder, and the simulator's log of accepted work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gleaner::adapters::local::DataFolder;
use gleaner::adapters::system::SystemClock;
use gleaner::domain::item::Item;
use gleaner::domain::job::{Fate, HISTORY_LENGTH, Job, State};
use gleaner::domain::line::{Header, parse_line};
use gleaner::ports::clock::Clock;
use gleaner::ports::ledger::{Ledger, Place};
use gleaner::simulator::answer::Digest;
use serde_json::Value;

use crate::common::Simulator;

pub struct Evidence {
    /// The input of each line, by idempotency key.
    inputs: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Job>,
    /// The result files, by name without `.json`.
    results: BTreeMap<String, Value>,
    /// Accepted work: key and planned outcome.
    accepted: Vec<(String, String)>,
}

/// What was paid for.
pub struct Paid {
    pub accepted: u64,
    pub beyond_one: u64,
    /// Accepted work that Gemini itself let fail.
    pub failed: u64,
    /// The sum of `possible_duplicates`.
    pub told: u64,
    /// Sendings again after an unclear create or a handle that was given up, by the items' own histories.
    pub explained: u64,
}

impl Evidence {
    pub fn gather(data: &Path, file: &Path, simulator: &Simulator) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let inputs = text.lines().map(|line| {
            let job = parse_line(line.as_bytes(), &Header::default()).unwrap().unwrap();
            let value: Value = serde_json::from_str(line).unwrap();
            (job.key.0, value["input"].clone())
        });
        let results = std::fs::read_dir(data.join("results")).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            let key =
                path.file_name().unwrap().to_str().unwrap().strip_suffix(".json").expect("a result file").to_owned();
            (key, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap())
        });
        Self {
            inputs: inputs.collect(),
            jobs: runtime.block_on(all_jobs(data)),
            results: results.collect(),
            accepted: simulator
                .log()
                .iter()
                .map(|entry| {
                    let key = entry["labels"]["gleaner"].as_str().expect("our label").to_owned();
                    (key, entry["outcome"].as_str().unwrap().to_owned())
                })
                .collect(),
        }
    }

    /// Every job has ended, and report, ledger and folder agree.
    pub fn check_sums(&self, report: &Value, jobs: usize) {
        let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
        let in_state = |state| self.jobs.values().filter(|job| job.state == state).count() as u64;
        assert_eq!(self.inputs.len(), jobs);
        assert_eq!(self.jobs.keys().collect::<BTreeSet<_>>(), self.inputs.keys().collect::<BTreeSet<_>>());
        assert_eq!((number("jobs"), number("open")), (jobs as u64, 0));
        assert_eq!((number("repeats"), number("bad_lines")), (0, 0));
        assert_eq!(number("consumed"), in_state(State::Consumed));
        assert_eq!(number("parked"), in_state(State::Parked));
        assert_eq!(number("consumed") + number("parked") + number("recovered"), jobs as u64);
        let settled = self.jobs.values().filter(|job| matches!(job.state, State::Consumed | State::Recovered));
        let settled: BTreeSet<_> = settled.map(|job| &job.key.0).collect();
        assert_eq!(settled, self.results.keys().collect::<BTreeSet<_>>(), "a result for each settled job and no other");
    }

    /// Each result lies under the key of the very input that it answers, and names a handle that is on record.
    pub fn check_results(&self) {
        for (key, result) in &self.results {
            let digest = Digest::of(&self.inputs[key]).to_string();
            assert_eq!(result["idempotency_key"], key.as_str());
            assert!(
                result["value"].to_string().contains(&digest),
                "{key}: {} does not carry {digest}",
                result["value"]
            );
            let handle = result["handle"].as_str().unwrap();
            assert_eq!(result["response"]["id"], handle);
            let job = &self.jobs[key];
            assert!(job.handles.iter().any(|known| known.id == handle && known.fate == Fate::Won), "{key}: {handle}");
        }
    }

    /// For each job: accepted work beyond one is covered by failures that Gemini told and by the duplicates told.
    pub fn check_paid_work(&self) -> Paid {
        let mut paid = Paid { accepted: self.accepted.len() as u64, beyond_one: 0, failed: 0, told: 0, explained: 0 };
        for (key, job) in &self.jobs {
            let of_job = || self.accepted.iter().filter(|(of, _)| of == key);
            let beyond_one = (of_job().count() as u64).saturating_sub(1);
            let failed = job.handles.iter().filter(|handle| handle.fate == Fate::Ended).count() as u64;
            let told = u64::from(job.possible_duplicates);
            let explained = unclear_sent_again(job);
            assert!(
                beyond_one <= told + failed,
                "{key}: {beyond_one} beyond one, {told} told, {failed} failed: {job:#?}"
            );
            if job.history.len() < HISTORY_LENGTH {
                // A late definite refusal takes its doubt back, and an older handle that is given up was counted before.
                assert!(told <= explained, "{key}: {told} told, {explained} explained: {job:#?}");
            }
            paid.beyond_one += beyond_one;
            paid.failed += failed;
            paid.told += told;
            paid.explained += explained;
        }
        assert!(self.accepted.iter().all(|(key, _)| self.jobs.contains_key(key)));
        paid
    }

    /// Each job was replayed so many times, whatever became of it then.
    pub fn check_replays(&self, times: u32) {
        for (key, job) in &self.jobs {
            assert_eq!(job.replays, times, "{key}: {job:#?}");
        }
    }

    /// No more are parked than the cap and the rate of failure predict, with five standard deviations.
    pub fn check_parked(&self, report: &Value, attempts: u32, share: f64) {
        let parked = report["parked"].as_u64().unwrap() as f64;
        let jobs = self.jobs.len() as f64;
        let chance = share.powi(i32::try_from(attempts).unwrap());
        let most = jobs * chance + 5.0 * (jobs * chance * (1.0 - chance)).sqrt();
        eprintln!(
            "parked {parked}; predicted {:.1}, at most {most:.1} (share of attempts that fail, at most: {share:.3})",
            jobs * chance
        );
        assert!(parked <= most, "{parked} parked, at most {most} predicted");
        for job in self.jobs.values().filter(|job| job.state == State::Parked) {
            let class = job.class.as_deref().unwrap_or_default();
            assert!(class.starts_with("exhausted:"), "only the cap parks a passing fault: {job:#?}");
            assert_eq!(job.attempts, attempts);
        }
    }
}

/// How often a job was reserved again after a create that stayed unclear or a handle that was given up.
fn unclear_sent_again(job: &Job) -> u64 {
    let mut maybe_accepted = false;
    let mut again = 0;
    for moment in &job.history {
        match moment.1 {
            State::Unclear | State::GivenUp => maybe_accepted = true,
            State::Submitted => maybe_accepted = false,
            State::Reserving => {
                again += u64::from(maybe_accepted);
                maybe_accepted = false;
            }
            _ => {}
        }
    }
    again
}

async fn all_jobs(data: &Path) -> BTreeMap<String, Job> {
    let data = DataFolder::open(data, SystemClock.now()).unwrap();
    let mut jobs = BTreeMap::new();
    for state in State::OF_JOBS {
        let mut place = None;
        loop {
            let page = data.ledger.in_state(state, place.as_ref(), 500).await.unwrap();
            let Some(last) = page.last() else { break };
            place = Some(Place(last.since(), last.id()));
            for item in page {
                if let Item::Job(job) = item {
                    jobs.insert(job.key.0.clone(), job);
                }
            }
        }
    }
    jobs
}
