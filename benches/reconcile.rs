//! The pass over a large output: `cargo bench --bench reconcile [-- --rows 10000,100000,1000000 --workers 2 --no-python
//! --shuffled --keep FOLDER]`.
//!
//! Writes a seeded input and output (about 1 KB a line, answers that fit the request's schema, 1 % of the rows failed),
//! then runs the pass over them, each size in a process of its own: rows and bytes per second, peak memory, and where
//! the time goes. First as the program makes it, over a data folder and made durable; then its pure rules alone. Beside it, on the same files in the same run, what the original Python script did (`reconcile.py`),
//! with its commit per row and with a single one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a bench stops at what it doesn't expect"
)]
#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gleaner::adapters::gemini::Offline;
use gleaner::adapters::local::DataFolder;
use gleaner::adapters::system::{SystemClock, SystemIds};
use gleaner::app::batch::pass::{Made, make};
use gleaner::app::engine::Engine;
use gleaner::app::lines::Headers;
use gleaner::app::settings::Settings;
use gleaner::domain::part::{Intent, Part, Sending};
use gleaner::domain::pass::{Blame, Counts, Index, Pass, Rows, Terms};
use gleaner::ports::clock::Clock as _;
use gleaner::ports::conformance::sample;
use gleaner::ports::handover::Nobody;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// Bytes read at once.
const BLOCK: usize = 4 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1).cloned();
    let workers = option("--workers").map_or(2, |number| number.parse().unwrap());
    if let Some(folder) = option("--pass") {
        return pass(Path::new(&folder), workers);
    }
    if let Some(folder) = option("--program") {
        return program(Path::new(&folder));
    }
    let sizes = option("--rows").unwrap_or_else(|| "10000,100000,1000000".to_owned());
    let sizes: Vec<u64> = sizes.split(',').map(|size| size.parse().unwrap()).collect();
    let temporary = tempfile::tempdir().unwrap();
    let folder = option("--keep").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let mut times = BTreeMap::new();
    for rows in &sizes {
        let folder = folder.join(rows.to_string());
        write(&folder, *rows, arguments.iter().any(|word| word == "--shuffled"));
        let took = child(&folder, *rows, "--program", workers);
        child(&folder, *rows, "--pass", workers);
        times.insert(*rows, took);
        println!();
    }
    let (first, last) = (times.first_key_value().unwrap(), times.last_key_value().unwrap());
    let each = |(rows, (seconds, _)): (&u64, &(f64, f64))| seconds / *rows as f64;
    let straight = each(last) / each(first);
    println!("time a row at {} rows is {straight:.2} times that at {} rows", last.0, first.0);
    if !arguments.iter().any(|word| word == "--no-python") {
        let (most, (seconds, cores)) = last;
        let rates = [seconds, cores].map(|took| *most as f64 / took);
        let folder = folder.join(most.to_string());
        compare(&folder, 50_000.min(*most), "row", rates, 100.0);
        compare(&folder, *most, "once", rates, 12.0);
    }
}

/// What the Python script takes, and how many times as fast the pass is.
fn compare(folder: &Path, rows: u64, commits: &str, [rate, by_core]: [f64; 2], goal: f64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/reconcile.py");
    let python = std::env::var("GLEANER_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python)
        .arg(script)
        .args([folder.join("input"), folder.join("output")])
        .args([&rows.to_string(), commits])
        .output()
        .expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [theirs, theirs_by_core] = ["seconds", "cores"].map(|name| rows as f64 / said[name].as_f64().unwrap());
    println!(
        "python, commit {commits}: {rows} rows, {theirs:.0} rows/s, {theirs_by_core:.0} a core second ({}, {}, {}); the pass is {:.1} times as fast (goal {goal}), {:.1} times for each core second",
        said["succeeded"],
        said["retryable"],
        said["permanent"],
        rate / theirs,
        by_core / theirs_by_core,
    );
}

/// Runs the pass in a process of its own, so that its peak is its own; seconds, and core seconds.
fn child(folder: &Path, rows: u64, how: &str, workers: usize) -> (f64, f64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([how, folder.to_str().unwrap(), "--workers", &workers.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let seconds = said["seconds"].as_f64().unwrap();
    let mb = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len() as f64 / 1e6;
    println!(
        "{rows} rows, {}: {seconds:.3} s, {:.0} rows/s, {:.0} MB/s of output; input {:.0} MB, output {:.0} MB, results {:.0} MB; {} s of cores; peak {} MB",
        if how == "--program" { "as the program makes it" } else { "the rules alone" },
        rows as f64 / seconds,
        mb("output") / seconds,
        mb("input"),
        mb("output"),
        said["results_mb"].as_f64().unwrap(),
        said["cpu"],
        said["peak_kb"].as_u64().unwrap() / 1000,
    );
    if let Some(wall) = said["wall"].as_str() {
        println!("  wall: {wall}");
        println!("  both threads: {}", said["work"].as_str().unwrap());
    }
    println!("  {}", said["counts"].as_str().unwrap());
    (seconds, said["cpu"].as_f64().unwrap())
}

/// The pass as the program makes it: over objects in a data folder, its files durable in the end.
fn program(folder: &Path) {
    let data = folder.join("data");
    let parts = DataFolder::open(&data, SystemClock.now()).unwrap();
    for (file, object) in [("input", "runs/r/1.jsonl"), ("output", "answers/1.jsonl")] {
        let object = data.join(object);
        std::fs::create_dir_all(object.parent().unwrap()).unwrap();
        std::fs::hard_link(folder.join(file), object).unwrap();
    }
    let dead_letters = parts.dead_letters(Arc::new(SystemClock)).unwrap();
    let engine = Engine {
        ledger: parts.ledger,
        objects: parts.objects,
        gemini: Arc::new(Offline::default()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
        work_queue: None,
        left_work: None,
        dead_letters: Arc::new(dead_letters),
        ends: None,
        handover: Arc::new(Nobody),
        settings: Settings::default(),
        headers: Headers::default(),
        sweeps: Default::default(),
        stopping: Arc::default(),
    };
    let missing = Blame::missing();
    let intent = Intent {
        attempt: 1,
        output: Some("answers/1.jsonl".to_owned()),
        download: 1,
        late: false,
        blame: (missing.class, missing.message),
        announced: 0,
        last: false,
    };
    let rows = Sending {
        number: 1,
        rows_at: "runs/r/1.jsonl".to_owned(),
        rows: u64::MAX,
        bytes: 0,
        tries: 1,
        free: false,
        ended: None,
    };
    let part = Part { attempts: vec![rows], passes: Vec::new(), intent: None, ..sample::part(1, engine.rev()) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let started = Instant::now();
    let Made::Passed(passed) = runtime.block_on(make(&engine, &part, &intent, None)).unwrap() else {
        panic!("it came short")
    };
    let seconds = started.elapsed().as_secs_f64();
    let counts = passed.counts;
    let said =
        format!("succeeded {}, retry {}, dead {} {:?}", counts.succeeded, counts.retry, counts.dead, passed.classes);
    let results = data.join(passed.object(&part.run, &part.part, gleaner::domain::part::File::Results));
    println!(
        "{}",
        json!({"seconds": seconds, "cpu": cpu_seconds(), "peak_kb": peak_kb(), "counts": said, "results_mb": megabytes(&results)})
    );
}

fn megabytes(file: &Path) -> f64 {
    std::fs::metadata(file).unwrap().len() as f64 / 1e6
}

/// The pure rules of the pass over the files of a folder.
fn pass(folder: &Path, workers: usize) {
    let clock = Clock::default();
    let started = Instant::now();
    let mut rows = Rows::default();
    let open = |name: &str| File::open(folder.join(name)).unwrap();
    let create = |name: &str| File::create(folder.join(name)).unwrap();
    clock.wall("1 input", || {
        blocks(
            open("input"),
            workers,
            &clock,
            "read rows",
            |at, block| Rows::read(at, block).unwrap(),
            |more| {
                clock.work("append", || rows.append(more).unwrap());
            },
        );
    });
    let terms = Terms { attempt: 1, last: false, late: false, expect: None, missing: Blame::missing() };
    let index = Arc::new(clock.wall("2 index", || Index::of(rows, terms).unwrap()));
    let mut pass = Pass::new(Arc::clone(&index));
    let mut results = create("results");
    clock.wall("3 output", || {
        blocks(
            open("output"),
            workers,
            &clock,
            "judge",
            |at, block| index.judge(at, block),
            |judged| {
                let merged = clock.work("merge", || pass.merge(judged).unwrap());
                clock.work("write", || results.write_all(&merged.results).unwrap());
            },
        );
    });
    let (mut retry, mut dead) = (create("retry"), create("dead"));
    clock.wall("4 rest", || {
        let mut rests = Vec::new();
        blocks(
            open("input"),
            workers,
            &clock,
            "rest",
            |at, block| pass.rest(at, block).unwrap(),
            |rest| rests.push(rest),
        );
        for rest in rests {
            let (again, buried) = pass.count(rest).unwrap();
            retry.write_all(&again).unwrap();
            dead.write_all(&buried).unwrap();
        }
    });
    let outcome = clock.wall("5 finish", || pass.finish().unwrap());
    create("settled").write_all(&outcome.settled).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let Counts { succeeded, retry, dead, .. } = outcome.counts;
    let counts = format!("succeeded {succeeded}, retry {retry}, dead {dead} {:?}", outcome.counts.dead_by_class);
    let [wall, work] = clock.report();
    println!(
        "{}",
        json!({"seconds": seconds, "cpu": cpu_seconds(), "peak_kb": peak_kb(), "wall": wall, "work": work, "counts": counts, "results_mb": megabytes(&folder.join("results"))})
    );
}

/// Seconds that this process was given a core, in the program and in the system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// Peak memory of this process, in thousands of bytes.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024 / 1000
}

/// Seconds by what they were spent on: of all threads together, and by the clock on the wall.
#[derive(Default)]
struct Clock(Mutex<[BTreeMap<&'static str, Duration>; 2]>);

impl Clock {
    fn wall<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.time(0, what, work)
    }

    fn work<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        self.time(1, what, work)
    }

    fn time<T>(&self, kind: usize, what: &'static str, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        let took = started.elapsed();
        *self.0.lock().unwrap().get_mut(kind).unwrap().entry(what).or_default() += took;
        done
    }

    fn report(&self) -> [String; 2] {
        let times = self.0.lock().unwrap();
        let line = |kind: &BTreeMap<&'static str, Duration>| {
            let words: Vec<_> = kind.iter().map(|(what, took)| format!("{what} {:.3} s", took.as_secs_f64())).collect();
            words.join(", ")
        };
        [line(&times[0]), line(&times[1])]
    }
}

/// Blocks of whole lines, worked on by some threads and merged in order.
fn blocks<T: Send>(
    file: File,
    workers: usize,
    clock: &Clock,
    what: &'static str,
    work: impl Fn(u64, &[u8]) -> T + Sync,
    merge: impl FnMut(T) + Send,
) {
    let reader = Mutex::new(Reader { file, at: 0, number: 0, rest: Vec::new() });
    let merger = Mutex::new((0, BTreeMap::new(), merge));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut block = Vec::new();
                while let Some((number, at)) = clock.work("read", || reader.lock().unwrap().next(&mut block)) {
                    let done = clock.work(what, || work(at, &block));
                    let (next, waiting, merge) = &mut *merger.lock().unwrap();
                    waiting.insert(number, done);
                    while let Some(done) = waiting.remove(next) {
                        merge(done);
                        *next += 1;
                    }
                }
            });
        }
    });
}

struct Reader {
    file: File,
    at: u64,
    number: u64,
    /// The beginning of the next block.
    rest: Vec<u8>,
}

impl Reader {
    /// The next block; its number and where it begins.
    fn next(&mut self, block: &mut Vec<u8>) -> Option<(u64, u64)> {
        block.clear();
        block.append(&mut self.rest);
        block.reserve(BLOCK);
        let mut end = None;
        while end.is_none() {
            let more = (BLOCK - block.len().min(BLOCK)).max(1 << 16) as u64;
            if (&self.file).take(more).read_to_end(block).unwrap() == 0 {
                break;
            }
            end = memchr::memrchr(b'\n', block).map(|end| end + 1);
        }
        let end = end.unwrap_or(block.len());
        self.rest.extend_from_slice(&block[end..]);
        block.truncate(end);
        if block.is_empty() {
            return None;
        }
        let (number, at) = (self.number, self.at);
        self.number += 1;
        self.at += block.len() as u64;
        Some((number, at))
    }
}

/// Writes the files of so many rows. The output is in the order of the input, as Gemini promises, or shuffled.
fn write(folder: &Path, rows: u64, shuffled: bool) {
    std::fs::create_dir_all(folder).unwrap();
    let file = |name: &str| BufWriter::with_capacity(BLOCK, File::create(folder.join(name)).unwrap());
    let (mut input, mut output) = (file("input"), file("output"));
    let mut random = StdRng::seed_from_u64(4);
    let config = json!({
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "OBJECT",
            "properties": {
                "title": {"type": "STRING"},
                "summary": {"type": "STRING"},
                "category": {"type": "STRING", "enum": ["tide", "wind", "harbour", "other"]},
                "score": {"type": "NUMBER", "minimum": 0, "maximum": 1},
                "tags": {"type": "ARRAY", "items": {"type": "STRING"}},
                "places": {"type": "ARRAY", "items": {
                    "type": "OBJECT",
                    "properties": {"name": {"type": "STRING"}, "count": {"type": "INTEGER"}},
                    "required": ["name", "count"],
                }},
                "verified": {"type": "BOOLEAN"},
            },
            "required": ["title", "summary", "category", "score"],
        },
    });
    for row in 0..rows {
        let key = format!("row-{row:07}");
        let text = words(&mut random, 30);
        let contents = json!([{"role": "user", "parts": [{"text": text}]}]);
        let line = json!({"key": key, "request": {"contents": contents, "generationConfig": config}});
        writeln!(input, "{line}").unwrap();
        let line = if random.random_ratio(1, 100) { failed(&mut random) } else { answered(&mut random) };
        // A prime that divides no usual number of rows takes every row once.
        let key = if shuffled { format!("row-{:07}", row * 15_485_863 % rows) } else { key };
        // Gemini puts the key behind.
        let line = line.strip_suffix('}').unwrap();
        writeln!(output, "{line},\"key\":\"{key}\"}}").unwrap();
    }
    input.flush().unwrap();
    output.flush().unwrap();
}

/// A line without its key.
fn failed(random: &mut StdRng) -> String {
    let codes = [13, 4, 8, 14, 3];
    let code = codes[random.random_range(0..codes.len())];
    json!({"error": {"code": code, "message": "The row did not go well."}}).to_string()
}

fn answered(random: &mut StdRng) -> String {
    let places: Vec<Value> =
        (0..2).map(|_| json!({"name": words(random, 2), "count": random.random_range(0..1000)})).collect();
    let category = ["tide", "wind", "harbour", "other"][random.random_range(0..4)];
    let answer = json!({
        "title": words(random, 5),
        "summary": words(random, 45),
        "category": category,
        "score": f64::from(random.random_range(0..1000)) / 1000.0,
        "tags": [words(random, 1), words(random, 1), words(random, 1)],
        "places": places,
        "verified": random.random_bool(0.5),
    });
    let (prompt, answered) = (random.random_range(100..200), random.random_range(100..300));
    json!({"response": {
        "candidates": [{
            "content": {"parts": [{"text": serde_json::to_string_pretty(&answer).unwrap()}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        }],
        "modelVersion": "gemini-flash-latest",
        "responseId": format!("{:022x}", random.random_range(0..u64::MAX)),
        "usageMetadata": {
            "promptTokenCount": prompt,
            "candidatesTokenCount": answered,
            "totalTokenCount": prompt + answered,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
        },
    }})
    .to_string()
}

fn words(random: &mut StdRng, count: usize) -> String {
    const WORDS: [&str; 16] = [
        "tide",
        "harbour",
        "the",
        "rises",
        "潮",
        "between",
        "two",
        "lights",
        "and",
        "falls",
        "\"slack\"",
        "water",
        "moon",
        "near",
        "quay",
        "again",
    ];
    let words: Vec<&str> = (0..count).map(|_| WORDS[random.random_range(0..WORDS.len())]).collect();
    words.join(" ")
}
