//! A data folder with a run in it, made by hand: its items and objects as the engine leaves them, the files of each pass
//! by the pass itself.

use std::sync::Arc;

use bytes::Bytes;
use gleaner::adapters::local::DataFolder;
use gleaner::domain::dead::{DeadGroup, DeadRow};
use gleaner::domain::intake::{Cursor, Intake, Run, run_key};
use gleaner::domain::item::{BadLine, Item};
use gleaner::domain::job::{InputRef, Job, JobKey, State};
use gleaner::domain::part::{Attempt, Counts, File, Part, PartId, Passed, Sending, attempt_key};
use gleaner::domain::pass::find::dead;
use gleaner::domain::pass::{Blame, Index, Pass, Rows, Terms, row_id};
use gleaner::ports::conformance::sample;
use gleaner::ports::ledger::Ledger;
use gleaner::ports::objects::Objects;
use gleaner::ports::testing::TestIds;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;

use super::Folder;

/// A row as it is handed in.
pub fn row(key: &str) -> String {
    json!({"key": key, "request": {"contents": [{"parts": [{"text": format!("ask {key}")}]}]}}).to_string()
}

/// Gemini's output for rows.
pub fn good(key: &str) -> String {
    let content = json!({"parts": [{"text": format!("answer {key}")}]});
    json!({"key": key, "response": {"candidates": [{"content": content, "finishReason": "STOP"}]}}).to_string()
}

pub fn busy(key: &str) -> String {
    json!({"key": key, "error": {"code": 503, "message": "try later", "status": "UNAVAILABLE"}}).to_string()
}

pub fn blocked(key: &str) -> String {
    json!({"key": key, "response": {"promptFeedback": {"blockReason": "SAFETY"}}}).to_string()
}

/// The folder and what is in it so far.
pub struct MadeRun {
    pub folder: Folder,
    pub intake: Intake,
    data: DataFolder,
    ids: TestIds,
    runtime: Runtime,
}

impl MadeRun {
    /// A file `rows.jsonl` that landed as a run; none of its rows is in a part yet.
    pub fn of(keys: &[&str]) -> Self {
        let folder = Folder::new();
        let data = DataFolder::open(folder.path(".gleaner"), sample::START).unwrap();
        let text: String = keys.iter().map(|key| row(key) + "\n").collect();
        let sha256 = hex::encode(Sha256::digest(text.as_bytes()));
        let ids = TestIds::new(1);
        let mut intake = sample::intake(&sha256, ids.rev());
        intake.file = "rows.jsonl".to_owned();
        (intake.bytes, intake.lines) = (text.len() as u64, keys.len() as u64);
        (intake.lease, intake.due_at) = (None, None);
        intake.cursor = Cursor::default();
        intake.run = Some(Run {
            key: run_key(&sha256),
            model: "gemini-flash-latest".to_owned(),
            max_attempts: 4,
            deadline_s: 259_200,
            parts: 0,
            held: None,
            let_go: Vec::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = Self { folder, intake, data, ids, runtime };
        run.put(&format!("intakes/{sha256}.jsonl"), &text);
        run.create(Item::Intake(run.intake.clone()));
        run
    }

    pub fn key(&self) -> String {
        run_key(&self.intake.sha256)
    }

    /// The beginning of its key.
    pub fn start(&self, digits: usize) -> String {
        self.key().chars().take(digits).collect()
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let bytes = Bytes::copy_from_slice(bytes.as_ref());
        self.runtime.block_on(self.data.objects.put(name, bytes)).unwrap();
    }

    pub fn create(&self, item: Item) {
        self.runtime.block_on(self.data.ledger.create(&item)).unwrap();
    }

    /// Changes the intake's item.
    pub fn change(&mut self, change: impl FnOnce(&mut Intake)) {
        let read = self.intake.rev.clone();
        change(&mut self.intake);
        self.intake.rev = self.ids.rev();
        let item = Item::Intake(self.intake.clone());
        self.runtime.block_on(self.data.ledger.replace(&read, &item)).unwrap();
    }

    /// Its next rows become the next part.
    pub fn cut(&mut self, keys: &[&str]) -> Made {
        let number = self.intake.run.as_ref().unwrap().parts + 1;
        let lines = self.intake.lines;
        self.change(|intake| {
            intake.run.as_mut().unwrap().parts = number;
            let text: usize = keys.iter().map(|key| row(key).len() + 1).sum();
            let cursor = intake.cursor;
            let (line, jobs) = (cursor.line + keys.len() as u64, cursor.jobs + keys.len() as u64);
            intake.cursor = Cursor { offset: cursor.offset + text as u64, line, jobs, ..cursor };
            if intake.cursor.taken() == lines {
                intake.state = State::Read;
            }
        });
        self.made(PartId::numbered(number), keys)
    }

    fn made(&self, id: PartId, keys: &[&str]) -> Made {
        let text: String = keys.iter().map(|key| row(key) + "\n").collect();
        let rows_at = format!("runs/{}/{id}.jsonl", self.key());
        self.put(&rows_at, &text);
        let mut part = sample::part(1, self.ids.rev());
        (part.run, part.part, part.intake) = (self.key(), id, self.intake.sha256.clone());
        (part.state, part.due_at, part.lease) = (State::Waiting, None, None);
        (part.rows_at, part.rows, part.bytes) = (rows_at, keys.len() as u64, text.len() as u64);
        (part.used, part.halved, part.discarded) = (0, false, 0);
        (part.attempts, part.passes, part.intent) = (Vec::new(), Vec::new(), None);
        Made { part, open: text, settled: Vec::new() }
    }

    /// A half, with these of the rows that are open.
    pub fn half(&self, of: &mut Made, which: usize, keys: &[&str]) -> Made {
        of.part.halved = true;
        let mut half = self.made(of.part.part.halves()[which].clone(), keys);
        half.part.used = of.part.tries();
        half
    }

    /// Sends what is open of a part as its next attempt, which is at Gemini now.
    pub fn send(&self, made: &mut Made) -> u32 {
        let number = made.part.attempts.len() as u32 + 1;
        let rows_at = format!("runs/{}/{}.sent{number}.jsonl", self.key(), made.part.part);
        self.put(&rows_at, &made.open);
        let sending = Sending {
            number,
            rows_at: rows_at.clone(),
            rows: made.open.lines().count() as u64,
            bytes: made.open.len() as u64,
            tries: made.part.tries() + 1,
            free: false,
            ended: None,
        };
        made.part.attempts.push(sending.clone());
        made.part.state = State::UnderWay;
        number
    }

    /// The job of an attempt, with the raw output of its pass.
    fn job(&self, made: &Made, sending: &Sending, output: Option<&str>) -> Job {
        let Part { run, part, .. } = &made.part;
        let key = attempt_key(run, part, sending.number);
        let state = if output.is_some() { State::Consumed } else { State::Submitted };
        let mut job = sample::job_in(&key.0, self.ids.rev(), state, sample::minute(1), None);
        job.handles = vec![sample::handle(&format!("batches/{part}-{}", sending.number))];
        job.input = InputRef { intake: self.intake.sha256.clone(), line: 0, offset: 0, length: 0 };
        job.answer = output.map(|output| {
            let name = format!("answers/{key}.jsonl");
            self.put(&name, output);
            name
        });
        job.batch = Some(Box::new(Attempt {
            run: run.clone(),
            part: part.clone(),
            number: sending.number,
            rows_at: sending.rows_at.clone(),
            rows: sending.rows,
            bytes: sending.bytes,
            file: None,
            not_listed: None,
            refusals: 0,
            output: None,
            calls: None,
        }));
        job
    }

    /// A pass over the output of an attempt; what is to be tried again is open then.
    pub fn pass(&self, made: &mut Made, number: u32, lines: &[String], late: bool) {
        let output: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let sending = made.part.attempt(number).unwrap().clone();
        self.create(Item::Job(self.job(made, &sending, Some(&output))));
        let input = std::fs::read(self.folder.path(".gleaner").join(&sending.rows_at)).unwrap();
        let missing = Blame::missing();
        let terms = Terms { attempt: sending.tries, last: sending.tries == 4, late, expect: None, missing };
        let index = Arc::new(Index::of(Rows::read(0, &input).unwrap(), terms).unwrap());
        let mut pass = Pass::new(Arc::clone(&index));
        for (settled, attempt) in &made.settled {
            pass.settle(settled, *attempt).unwrap();
        }
        let results = pass.merge(index.judge(0, output.as_bytes())).unwrap().results;
        let (retry, dead_rows) = pass.count(pass.rest(0, &input).unwrap()).unwrap();
        let outcome = pass.finish().unwrap();
        let found = outcome.counts;
        let passed = Passed {
            attempt: number,
            name: format!("{number:012}"),
            late,
            without_output: false,
            counts: Counts {
                rows: found.rows,
                succeeded: found.succeeded,
                retry: found.retry,
                dead: found.dead,
                settled_before: found.settled_before,
                recovered: found.recovered,
                ..Counts::default()
            },
            classes: found.dead_by_class,
            told: dead_rows.len() as u64,
            dead_bytes: dead_rows.len() as u64,
            mended: 0,
            recovered_bytes: 0,
            retry_bytes: retry.len() as u64,
            healed: 0,
            result_bytes: 0,
        };
        let Part { run, part, .. } = &made.part;
        for (file, bytes) in [
            (File::Results, &results),
            (File::Dead, &dead_rows),
            (File::Retry, &retry),
            (File::Settled, &outcome.settled),
        ] {
            self.put(&passed.object(run, part, file), bytes);
        }
        if !late {
            made.open = String::from_utf8(retry).unwrap();
        }
        made.settled.push((outcome.settled, number));
        made.part.passes.push(passed);
    }

    /// Sends what is open, and passes over its output.
    pub fn attempt(&self, made: &mut Made, lines: &[String]) -> u32 {
        let number = self.send(made);
        self.pass(made, number, lines, false);
        number
    }

    /// Writes the part's item, with the jobs of attempts that are out.
    pub fn write(&self, made: Made) {
        let mut made = made;
        let is_out = made.part.is_out();
        if let Some(latest) = made.part.latest().filter(|_| is_out) {
            self.create(Item::Job(self.job(&made, latest, None)));
        }
        if made.open.is_empty() || made.part.halved {
            made.part.state = State::Settled;
        } else if !is_out {
            made.part.state = State::Waiting;
        }
        self.create(Item::Part(Box::new(made.part)));
    }

    /// The dead letters of a part's dead rows, as items of their own.
    pub fn dead_rows(&self, made: &Made) {
        for passed in &made.part.passes {
            let object = passed.object(&made.part.run, &made.part.part, File::Dead);
            let text = std::fs::read_to_string(self.folder.path(".gleaner").join(&object)).unwrap();
            let mut at = 0;
            for line in text.lines() {
                let found = dead(line).unwrap();
                let id = row_id(&made.part.run, &found.key, passed.attempt);
                self.create(Item::DeadRow(DeadRow {
                    intake: self.intake.sha256.clone(),
                    run: made.part.run.clone(),
                    part: made.part.part.clone(),
                    attempt: passed.attempt,
                    attempts: found.attempts,
                    key: found.key.to_string(),
                    at: (object.clone(), at, line.len() as u64),
                    class: found.class.to_string(),
                    message: found.message.to_string(),
                    ..sample::dead_row(&id, self.ids.rev())
                }));
                at += line.len() as u64 + 1;
            }
        }
    }

    /// One dead letter for all dead rows of a class.
    pub fn dead_group(&self, class: &str) {
        self.create(Item::DeadGroup(DeadGroup {
            intake: self.intake.sha256.clone(),
            run: self.key(),
            ..sample::dead_group(class, self.ids.rev())
        }));
    }

    /// A line that no row could be made of.
    pub fn bad_line(&mut self, line: u64, text: &str) {
        let input = InputRef { intake: self.intake.sha256.clone(), line, offset: 0, length: 10 };
        self.create(Item::BadLine(BadLine {
            input,
            class: "bad_line:key_taken".to_owned(),
            excerpt: text.to_owned(),
            ..sample::bad_line(line, self.ids.rev())
        }));
        self.change(|intake| {
            intake.lines += 1;
            intake.cursor.bad_lines += 1;
        });
    }

    /// The key of an attempt's job.
    pub fn job_key(&self, part: &str, number: u32) -> JobKey {
        attempt_key(&self.key(), &PartId(part.to_owned()), number)
    }
}

/// A part that is being made.
pub struct Made {
    pub part: Part,
    /// Lines of the rows that are open.
    pub open: String,
    settled: Vec<(Vec<u8>, u32)>,
}
