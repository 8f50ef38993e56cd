//! Ctrl-C and SIGTERM: the first asks nicely, the second doesn't wait.

use std::io;
use std::sync::atomic::Ordering;

use super::console::Console;
use super::hint::this_command;
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
                    console.note(&format!(
                        "Stopped at once. Nothing is lost: what was under way is looked after. This goes on:\n  {}",
                        this_command()
                    ));
                    return Ok(Exit::Interrupted);
                }
                asked = true;
                engine.stopping.store(true, Ordering::Relaxed);
                console.note(
                    "Stopping: nothing new is begun, and what is under way ends first.\nCtrl-C again stops at once.",
                );
            }
        }
    }
}
