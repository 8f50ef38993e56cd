//! The standard streams: results on standard output, everything else on standard error, around a progress bar.

use std::io::{self, IsTerminal, Write};

use indicatif::MultiProgress;
use serde::Serialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::outcome::Stop;
use super::table::plain;

/// The log filter where `GLEANER_LOG` says nothing.
const LOG: &str = "warn";

/// The standard streams of one command.
#[derive(Debug, Clone)]
pub struct Console {
    /// Whether standard output carries one JSON object, and nothing else.
    pub json: bool,
    /// The progress bars; none is drawn when standard error is no terminal.
    pub bars: MultiProgress,
}

impl Console {
    pub(super) fn new(json: bool) -> Self {
        Self { json, bars: MultiProgress::new() }
    }

    /// Whether people watch standard error.
    pub(super) fn is_watched(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Prints text for people, unless JSON is asked for.
    pub(super) fn say(&self, text: &str) -> Result<(), Stop> {
        if self.json { Ok(()) } else { self.print(text) }
    }

    /// Prints the JSON object, if JSON is asked for.
    pub(super) fn tell(&self, value: &impl Serialize) -> Result<(), Stop> {
        if !self.json {
            return Ok(());
        }
        let json = serde_json::to_string(value);
        let json = json.map_err(|error| Stop::Person(format!("the answer can't be written as JSON: {error}")))?;
        self.print(&escape_controls(&json))
    }

    /// Prints to standard output. A reader that has gone away, as in `| head`, is a quiet end.
    pub(super) fn print(&self, text: &str) -> Result<(), Stop> {
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(text.trim_end().as_bytes())?;
            out.write_all(b"\n")?;
            out.flush()
        };
        match self.bars.suspend(write) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Stop::Person(format!("standard output can't be written: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Tells people something beside the result.
    pub(super) fn note(&self, text: &str) {
        let mut lines = text.trim_end().lines().map(plain).collect::<Vec<_>>().join("\n");
        lines.push('\n');
        self.bars.suspend(|| complain(lines.as_bytes()));
    }

    /// Tells people of something that they may not have meant.
    pub(super) fn warn(&self, text: &str) {
        self.note(&format!("gleaner: warning: {text}"));
    }

    /// Tells people why the program ends.
    pub(super) fn error(&self, text: &str) {
        self.note(&format!("gleaner: {text}"));
    }

    /// Sends logs to standard error, as `GLEANER_LOG` asks.
    pub(super) fn start_logs(&self) -> Result<(), Stop> {
        let asked = std::env::var_os("GLEANER_LOG").map(|asked| asked.to_string_lossy().trim().to_owned());
        let asked = asked.filter(|asked| !asked.is_empty()).unwrap_or_else(|| LOG.to_owned());
        let filter = EnvFilter::try_new(&asked).map_err(|error| {
            Stop::Usage(format!("the setting GLEANER_LOG can't be read: {error} (it is {asked:?})"))
        })?;
        let logs = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(self.clone())
            .with_ansi(io::stderr().is_terminal())
            .with_target(false)
            // Its own complaints would go to standard error by a call that panics when nobody reads there.
            .log_internal_errors(false)
            .try_init();
        logs.map_err(|error| Stop::Person(format!("the log can't be started: {error}")))
    }
}

/// Writes to standard error.
fn complain(bytes: &[u8]) {
    if io::stderr().lock().write_all(bytes).is_err() {
        // Nobody reads there: there is no one left to tell, and what the text was about is in the ledger.
    }
}

/// One log line, kept apart from the progress bar.
#[derive(Debug)]
pub struct LogLine(MultiProgress);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| complain(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Console {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine(self.bars.clone())
    }
}

/// JSON in which no control character is left raw: serde_json leaves those from U+007F on as they are, and some
/// terminals obey them. In JSON text they can only stand within strings.
pub(super) fn escape_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if super::table::is_unsafe(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_reads_back_the_same_without_raw_controls() {
        let value = "a\u{1b}[31m \u{7f}\u{9b}2J\u{202e} 日本\n";
        let json = escape_controls(&serde_json::to_string(value).unwrap());
        assert!(!json.chars().any(|c| c.is_control() || c == '\u{202e}'), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
    }
}
