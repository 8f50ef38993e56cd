//! Ctrl-C and SIGTERM: the first asks nicely, the second doesn't wait.

use std::io;
use std::sync::atomic::Ordering;

use super::console::Console;
use super::outcome::{Exit, Stop};
use crate::app::engine::Engine;

/// The signals that ask the program to end.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// From now on the signals no longer end the program by themselves.
    pub(super) fn catch() -> Result<Self, Stop> {
        let caught = Self::try_catch();
        caught.map_err(|error| Stop::Person(format!("Ctrl-C can't be listened for: {error}")))
    }

    #[cfg(unix)]
    fn try_catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(not(unix))]
    fn try_catch() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Returns when one of them has come.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Returns when one of them has come.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Does `work`. The first signal sets [`Engine::stopping`], so that it ends when what is under way has; the second one
/// drops it where it stands.
pub async fn interruptible(
    engine: &Engine,
    console: &Console,
    work: impl Future<Output = Result<Exit, Stop>>,
) -> Result<Exit, Stop> {
    let mut signals = Signals::catch()?;
    let mut work = std::pin::pin!(work);
    let mut asked = false;
    loop {
        tokio::select! {
            ended = &mut work => return ended,
            () = signals.next() => {
                if asked {
                    console.note("Stopped at once. Nothing is lost: the next run looks after what was under way.");
                    return Ok(Exit::Interrupted);
                }
                asked = true;
                engine.stopping.store(true, Ordering::Relaxed);
                console.note("Stopping: nothing new is begun, and what is under way ends first. Ctrl-C again stops at once.");
            }
        }
    }
}

/// This very command, as it can be typed again.
pub fn this_command() -> String {
    std::env::args_os().map(|argument| quoted(&argument.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_can_be_typed_again() {
        let given = ["run", "my jobs.jsonl", "--on-result", "it's $HOME", "", "日本"];
        let typed = given.map(quoted).join(" ");
        assert_eq!(typed, r"run 'my jobs.jsonl' --on-result 'it'\''s $HOME' '' '日本'");
        let echoed =
            std::process::Command::new("sh").arg("-c").arg(format!("printf '%s\\n' {typed}")).output().unwrap();
        assert_eq!(String::from_utf8(echoed.stdout).unwrap(), given.map(|argument| format!("{argument}\n")).concat());
    }
}
