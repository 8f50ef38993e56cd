//! The real program, as people and scripts run it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at what it doesn't expect")]
#![expect(clippy::indexing_slicing, reason = "a missing field of JSON reads as null and fails the assertion")]

mod batch;
#[path = "../common/mod.rs"]
mod common;
mod handing_on;
mod holding;
mod importing;
mod looking;
mod made_run;
mod merging;
mod refusing;
mod replaying;
mod rows;
mod running;
mod webhook;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use common::Simulator;

/// A folder to run the program in.
struct Folder(TempDir);

/// What a program that has ended said.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    /// The same, after it ended with that exit code.
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output, which must be one JSON object on one line.
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{}", self.out);
        let json: Value = serde_json::from_str(&self.out).unwrap();
        assert!(json.is_object(), "{json}");
        json
    }
}

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// A file of `count` jobs, which are the same for the same words.
    fn write_jobs(&self, name: &str, words: &str, count: usize) {
        let lines: Vec<String> = (0..count).map(|n| format!("{{\"input\": \"{words} {n}\"}}\n")).collect();
        self.write(name, lines.concat());
    }

    fn gleaner(&self, arguments: &[&str]) -> Command {
        let mut command = common::gleaner(self.0.path());
        command.args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Said {
        self.gleaner(arguments).output().unwrap().into()
    }

    /// The program with a simulator of its own process as Gemini, and short waits.
    fn with(&self, simulator: &Simulator, arguments: &[&str]) -> Command {
        let mut command = self.gleaner(arguments);
        command
            .env("GEMINI_BASE_URL", &simulator.base_url)
            .env("GEMINI_API_KEY", "AIza-a-key-for-tests")
            .env("GLEANER_POLL_MIN", "50ms")
            .env("GLEANER_POLL_MAX", "200ms")
            .env("GLEANER_BACKOFF_BASE", "10ms")
            .env("GLEANER_UNCLEAR_GRACE", "100ms");
        command
    }

    fn run_with(&self, simulator: &Simulator, arguments: &[&str]) -> Said {
        self.with(simulator, arguments).output().unwrap().into()
    }

    /// The result files of the default data folder, by name.
    fn results(&self) -> Vec<(String, Value)> {
        let mut results: Vec<(String, Value)> = std::fs::read_dir(self.path(".gleaner/results"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                (name, json_file(&path))
            })
            .collect();
        results.sort_by(|one, other| one.0.cmp(&other.0));
        results
    }
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Sends a signal to a child by its own pid.
fn signal(child: &std::process::Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}
