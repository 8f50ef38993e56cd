//! The real program and the simulator as processes of their own.

#[path = "../program/mod.rs"]
mod program;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

pub use program::gleaner;
use serde_json::Value;

/// A simulator, killed when it is dropped.
#[derive(Debug)]
pub struct Simulator {
    /// What goes into `GEMINI_BASE_URL`.
    pub base_url: String,
    child: Child,
}

impl Simulator {
    /// Starts one on a free port, with these arguments of `gleaner simulator` beside, and waits until it is ready.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = gleaner(Path::new("."));
        command.args(["simulator", "--port", "0"]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut base_url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
        let base_url = base_url.trim().to_owned();
        let simulator = Self { base_url, child };
        assert!(simulator.base_url.starts_with("http://127.0.0.1:"), "{simulator:?}");
        simulator
    }

    /// What it accepted, and so would have been paid for, in order.
    pub fn log(&self) -> Vec<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut entries = Vec::new();
        loop {
            let url = format!("{}/simulator/log?after={}", self.base_url, entries.len());
            let page = runtime.block_on(async { http.get(url).send().await?.bytes().await }).unwrap();
            let page: Value = serde_json::from_slice(&page).unwrap();
            entries.extend(page["entries"].as_array().unwrap().iter().cloned());
            if page["next"].is_null() {
                return entries;
            }
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // The test may be failing already: what matters then is that no process stays, not how its end is told.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("the simulator could not be ended: {error}");
        }
    }
}
