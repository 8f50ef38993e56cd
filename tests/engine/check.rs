//! What must hold at any moment, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};

use gleaner::app::letters::tidy;
use gleaner::app::recount::recount;
use gleaner::app::report::{every, progress};
use gleaner::domain::intake::Intake;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Fate, Job, Mode, State};
use gleaner::domain::part::{File, object};
use gleaner::ports::ledger::Total;
use gleaner::simulator::answer::Digest;
use serde_json::{Value, json};

use super::agree::{agree, dead_letters};
use super::world::{HOUR, LEASE, World, eventually};

/// A dead letter for which nothing is to be done but to renew its message.
pub fn is_told_only(job: &Job) -> bool {
    let letter = &job.letter;
    job.state == State::Parked && letter.sent.is_some() && job.due_at == Some(letter.due(job.since))
}

impl World {
    /// Lets what is under way with messages come to its end, and checks that the queue of dead letters and the ledger agree.
    /// Returns the messages by item.
    pub async fn agree(&self) -> BTreeMap<ItemId, Value> {
        tidy(&self.engine, HOUR).await;
        let waits = |item: &Item| item.letter().is_some_and(|letter| letter.sent.is_none());
        if dead_letters(&self.engine).await.values().any(waits) {
            // Whoever was sending one is gone.
            self.advance(LEASE);
            tidy(&self.engine, HOUR).await;
        }
        agree(&self.engine).await
    }

    /// The jobs of mode `call` by the digest of what they ask.
    async fn callers(&self) -> BTreeMap<String, String> {
        let callers = self.jobs().await.into_iter().filter(|job| job.mode == Mode::Call);
        callers.map(|job| (self.digest_of(&job), job.key.to_string())).collect()
    }

    /// Checks every invariant that holds between two writes:
    ///
    /// - the sums of every intake that is read to its end, and its totals, which a recount gives too;
    /// - an open item is due some time, a closed one never; leases are only where somebody works;
    /// - no more attempts than allowed, no more handles than attempts;
    /// - Gemini accepted no more of a job than was told: one, and one for each possible duplicate, and one for each
    ///   sending again after an answer that brought no value (its handle is `ended`); rows that go out as calls aside;
    /// - every accepted interaction is of a job that exists, and of that job's own input;
    /// - a result lies there for every job that was consumed and for none that was not, under the right key, with an answer to its own input.
    pub async fn check(&self) {
        for state in [State::Reading, State::Read] {
            for item in every(&self.engine, state, usize::MAX).await.unwrap() {
                let Item::Intake(intake) = item else { panic!("{item:?}") };
                let sums = progress(&self.engine, &intake.sha256).await.unwrap();
                assert_eq!(sums.wrong_sums(), None, "{sums:?}");
                if intake.run.is_none() {
                    self.check_recount(&intake).await;
                }
                assert_eq!(intake.due_at.is_some(), intake.state == State::Reading, "{intake:?}");
            }
        }
        let jobs: BTreeMap<String, Job> = self.jobs().await.into_iter().map(|job| (job.key.to_string(), job)).collect();
        let mut accepted: BTreeMap<String, u32> = BTreeMap::new();
        // A killed process's last write may still be on its way, so that a job moves while the states are listed.
        let mut callers = self.callers().await;
        callers.extend(self.callers().await);
        // Whose rows go out as calls: its tests count them.
        let by_call = |job: &Job| job.batch.as_ref().is_some_and(|attempt| attempt.calls.is_some());
        let has_called_rows = jobs.values().any(by_call);
        for entry in self.log().await {
            if entry["kind"] == "batch" {
                let key = entry["display_name"].as_str().unwrap().to_owned();
                let job = jobs.get(&key).unwrap_or_else(|| panic!("paid for an attempt that is not there: {entry}"));
                assert_eq!(Some(entry["rows"].as_u64().unwrap()), job.batch.as_ref().map(|batch| batch.rows), "{key}");
                *accepted.entry(key).or_default() += 1;
                continue;
            }
            if entry["kind"] == "call" {
                // Nothing in a call tells whose it is but what it asks.
                let own = callers.get(entry["input_digest"].as_str().unwrap());
                if own.is_none() && has_called_rows {
                    continue;
                }
                let own = own.unwrap_or_else(|| panic!("paid for a call of no job: {entry}"));
                *accepted.entry(own.clone()).or_default() += 1;
                continue;
            }
            let key = entry["labels"]["gleaner"].as_str().unwrap().to_owned();
            let job = jobs.get(&key).unwrap_or_else(|| panic!("paid for a job that is not there: {entry}"));
            assert_eq!(entry["input_digest"], self.digest_of(job), "{key}: another input was sent");
            *accepted.entry(key).or_default() += 1;
        }
        let mut results = BTreeSet::new();
        let answers = if self.data().join("answers").is_dir() { self.objects("answers") } else { Vec::new() };
        for (key, job) in &jobs {
            check_item(job);
            let ended = match job.mode {
                // Answers without a value are kept.
                Mode::Call => answers.iter().filter(|name| name.starts_with(key.as_str())).count(),
                _ => job.handles.iter().filter(|handle| handle.fate == Fate::Ended).count(),
            };
            let told = 1 + job.possible_duplicates + u32::try_from(ended).unwrap();
            let paid = accepted.get(key).copied().unwrap_or(0);
            assert!(paid <= told, "{paid} accepted, {told} told: {job:?}");
            if job.batch.is_some() {
                continue;
            }
            self.check_result(job);
            if may_have_result(job) {
                results.insert(format!("{key}.json"));
            }
        }
        for name in self.objects("results") {
            if self.data().join("results").join(&name).is_dir() {
                self.check_results_of_run(&name).await;
                continue;
            }
            assert!(results.contains(&name), "{name} belongs to nobody");
        }
    }

    /// Every file of results of a run is of a pass that counts, or of the one that is being made.
    async fn check_results_of_run(&self, run: &str) {
        let mut known = BTreeSet::new();
        for state in State::OF_OTHERS.into_iter().chain([State::Parked, State::Discarded]) {
            for item in every(&self.engine, state, usize::MAX).await.unwrap() {
                let Item::Part(part) = item else { continue };
                known.extend(part.passes.iter().map(|passed| passed.object(&part.run, &part.part, File::Results)));
                let intent = part.intent.as_ref();
                known.extend(intent.map(|intent| {
                    object(&part.run, &part.part, intent.attempt, &intent.name(&part.passes), File::Results)
                }));
            }
        }
        for name in self.objects(&format!("results/{run}")) {
            assert!(known.contains(&format!("results/{run}/{name}")), "{run}/{name} does not count");
        }
    }

    /// Counting an intake's lines one by one gives what the ledger's own totals say; whoever writes meanwhile may come
    /// between the two, so that one look of several must show it.
    async fn check_recount(&self, intake: &Intake) {
        let by_place = |mut totals: Vec<Total>| {
            totals.retain(|total| total.items > 0);
            totals.sort_by_key(|total| (total.kind, total.state));
            totals
        };
        eventually("a recount gives the ledger's totals", async || {
            let told = self.engine.ledger.totals(&intake.sha256).await.unwrap().unwrap();
            by_place(recount(&self.engine, intake).await.unwrap()) == by_place(told)
        })
        .await;
    }

    /// The digest of a job's own input, as it lies in its intake.
    fn digest_of(&self, job: &Job) -> String {
        let object = self.data().join(format!("intakes/{}.jsonl", job.input.intake));
        let mut line = vec![0; usize::try_from(job.input.length).unwrap()];
        let object = std::fs::File::open(object).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&object, &mut line, job.input.offset).unwrap();
        let line: Value = serde_json::from_slice(&line).unwrap();
        let asked = match (job.mode, &line["input"]) {
            (Mode::Call, Value::String(text)) => json!([{"role": "user", "parts": [{"text": text}]}]),
            (Mode::Call, Value::Null) => line["contents"].clone(),
            (_, input) => input.clone(),
        };
        Digest::of(&asked).to_string()
    }

    /// Whoever was consumed has a result; and if there is one, it must be the job's own.
    fn check_result(&self, job: &Job) {
        let path = self.data().join(format!("results/{}.json", job.key));
        let Ok(bytes) = std::fs::read(&path) else {
            assert!(!matches!(job.state, State::Consumed | State::Recovered), "no result: {job:?}");
            return;
        };
        assert!(may_have_result(job), "a result: {job:?}");
        let result: Value = serde_json::from_slice(&bytes).unwrap();
        let digest = self.digest_of(job);
        assert_eq!(result["idempotency_key"], job.key.0);
        assert_eq!(result["input_ref"], serde_json::to_value(&job.input).unwrap());
        assert!(result["value"].to_string().contains(&digest), "{digest} is not in {}", result["value"]);
        if job.mode == Mode::Call {
            assert_eq!(result["response"]["responseId"], result["handle"]);
            return;
        }
        let handle = job.handle(result["handle"].as_str().unwrap());
        assert_eq!(handle.map(|handle| handle.fate), Some(Fate::Won), "{job:?}");
        assert_eq!(result["response"]["id"], result["handle"]);
    }
}

/// A result is written before its job is consumed, and stays when it could not be handed on.
fn may_have_result(job: &Job) -> bool {
    // That of a call is there before the ledger says so.
    let kept = job.class.as_deref() == Some("internal:consume") || job.mode == Mode::Call;
    matches!(job.state, State::Consumed | State::Recovered | State::Done) || kept
}

fn check_item(job: &Job) {
    let closed = matches!(job.state, State::Consumed | State::Recovered | State::Discarded);
    assert!(!closed || job.due_at.is_none(), "closed and due: {job:?}");
    assert!(closed || job.due_at.is_some(), "open and never due: {job:?}");
    let uploads = job.batch.is_some() && job.state == State::Retryable;
    let worked_on = uploads || matches!(job.state, State::Reserving | State::Done);
    assert!(worked_on || job.lease.is_none(), "a lease: {job:?}");
    assert!(job.attempts <= job.max_attempts, "{job:?}");
    assert!(job.handles.len() <= job.attempts as usize, "{job:?}");
    // The rows of a batch attempt may have been paid for with the attempt before it.
    let before = u32::from(job.batch.as_ref().is_some_and(|batch| batch.number > 1 || batch.part.is_replay()));
    // Of rows that go out as calls each one may.
    let by_call = job.batch.as_ref().is_some_and(|batch| batch.calls.is_some());
    assert!(by_call || job.possible_duplicates < job.attempts.max(1) + before, "{job:?}");
    assert!(!matches!(job.state, State::Parked | State::Discarded) || job.class.is_some(), "no reason: {job:?}");
    assert!(serde_json::to_vec(job).unwrap().len() < 8_000, "{job:?}");
}
