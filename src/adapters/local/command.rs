//! Handing results on to a shell command.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::{Child, Command};

use crate::domain::job::{JobKey, excerpt};
use crate::domain::mask::mask;
use crate::ports::clock::Clock;
use crate::ports::handover::{Handover, HandoverError};

/// The variable in which the command finds the result's id.
pub const ID: &str = "GLEANER_ID";

/// The variable in which the command finds the path of the result's file.
pub const RESULT: &str = "GLEANER_RESULT";

/// How much of what a failing command said on standard error goes into the message, in bytes: its end, where programs
/// put the reason.
const TAIL: u64 = 300;

/// Exit codes of a shell that could not run its command: not executable, not found.
const NOT_RUN: [i32; 2] = [126, 127];

/// Runs `sh -c COMMAND` for each result: the result's own durable file as standard input, its id in [`ID`], the path
/// of the file in [`RESULT`]. The result is taken when the command ends with exit code 0.
///
/// The file itself is the standard input, so that a command which outlives this process still reads all of it. The
/// command's standard output goes to our standard error, as does its standard error once it has ended. It sees no API
/// key. It runs in a process group of its own, so that a Ctrl-C at the terminal stops the run and not a hand-over in
/// its middle. When it takes longer than the time-out, or the future is dropped, the shell is killed.
#[derive(Debug, Clone)]
pub struct CommandHandover {
    command: Option<String>,
    results: PathBuf,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl CommandHandover {
    /// `command` is for results whose intake names none. `results` is the folder of the results' files; made absolute
    /// where it can be, since the command may go elsewhere.
    #[must_use]
    pub fn new(command: Option<String>, results: PathBuf, timeout: Duration, clock: Arc<dyn Clock>) -> Self {
        let results = std::path::absolute(&results).unwrap_or(results);
        Self { command, results, timeout, clock }
    }

    fn start(&self, command: &str, id: &JobKey, object: &str, said: &File) -> io::Result<Child> {
        let result = self.results.join(object.strip_prefix("results/").unwrap_or(object));
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(command)
            .env(ID, &id.0)
            .env(RESULT, &result)
            .env_remove("GEMINI_API_KEY")
            .stdin(Stdio::from(File::open(&result)?))
            .stdout(Stdio::from(io::stderr()))
            .stderr(Stdio::from(said.try_clone()?))
            .kill_on_drop(true);
        #[cfg(unix)]
        shell.process_group(0);
        shell.spawn()
    }
}

/// Shows what the command said, and returns the end of it.
///
/// It went to a file and not through a pipe: what a command leaves running in the background could hold a pipe open for
/// ever.
fn tell(mut said: File) -> io::Result<String> {
    said.seek(SeekFrom::Start(0))?;
    let length = io::copy(&mut said, &mut io::stderr())?;
    said.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    said.take(TAIL).read_to_end(&mut tail)?;
    Ok(excerpt(tail.trim_ascii(), tail.len()))
}

#[async_trait]
impl Handover for CommandHandover {
    async fn hand_on(&self, id: &JobKey, receiver: Option<&str>, object: &str) -> Result<(), HandoverError> {
        let Some(command) = receiver.or(self.command.as_deref()) else { return Ok(()) };
        let machine = |what: &str, error: io::Error| HandoverError::NeedsPerson(format!("{what}: {error}"));
        let said = tempfile::tempfile().map_err(|error| machine("no temporary file can be made", error))?;
        let started = self.start(command, id, object, &said);
        let mut child = started.map_err(|error| machine("the command can't be started", error))?;
        let status = tokio::select! {
            status = child.wait() => status.map_err(|error| machine("the command can't be waited for", error))?,
            () = self.clock.sleep(self.timeout) => {
                child.start_kill().map_err(|error| machine("the command can't be ended", error))?;
                let waited = humantime::format_duration(self.timeout);
                return Err(HandoverError::Refused(format!("the command was still running after {waited} and was ended")));
            }
        };
        let tail = tokio::task::spawn_blocking(move || tell(said))
            .await
            .map_err(io::Error::other)
            .flatten()
            .unwrap_or_else(|error| format!("(what it said can't be read: {error})"));
        let ended = if tail.is_empty() {
            format!("the command ended with {status} and said nothing")
        } else {
            format!("the command ended with {status} and said: {}", mask(&tail))
        };
        match status.code() {
            Some(0) => Ok(()),
            Some(code) if NOT_RUN.contains(&code) => Err(HandoverError::NeedsPerson(ended)),
            _ => Err(HandoverError::Refused(ended)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::adapters::system::SystemClock;

    const KEY: &str = "some-key";

    fn handover(command: Option<&str>, folder: &Path, timeout: Duration) -> CommandHandover {
        CommandHandover::new(command.map(str::to_owned), folder.to_owned(), timeout, Arc::new(SystemClock))
    }

    /// Hands on a result whose file holds `result`.
    async fn try_run(command: &str, folder: &Path, result: &[u8]) -> Result<(), HandoverError> {
        std::fs::write(folder.join(format!("{KEY}.json")), result).unwrap();
        let handover = handover(Some(command), folder, Duration::from_secs(600));
        handover.hand_on(&JobKey(KEY.to_owned()), None, &format!("results/{KEY}.json")).await
    }

    async fn run(command: &str, folder: &Path, result: &[u8]) -> Result<(), String> {
        try_run(command, folder, result).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_command_gets_the_result_its_id_and_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let command = format!("cat > {0}; echo \"$GLEANER_ID $GLEANER_RESULT\" >> {0}", out.display());
        // Longer than a pipe holds.
        let result = b"0123456789".repeat(50_000);
        run(&command, folder.path(), &result).await.unwrap();
        let got = std::fs::read(&out).unwrap();
        let (head, tail) = got.split_at(result.len());
        assert!(head == result);
        assert_eq!(
            String::from_utf8_lossy(tail),
            format!("some-key {}\n", folder.path().join("some-key.json").display())
        );
    }

    #[tokio::test]
    async fn a_command_that_does_not_read_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run("exit 0", folder.path(), &b"x".repeat(1_000_000)).await, Ok(()));
    }

    #[tokio::test]
    async fn failures_carry_the_end_of_what_the_command_said() {
        let folder = tempfile::tempdir().unwrap();
        let message = run(
            "echo early >&2; head -c 5000 /dev/zero | tr '\\0' . >&2; printf '\\033[31mlate\\n' >&2; exit 7",
            folder.path(),
            b"x",
        )
        .await
        .unwrap_err();
        assert!(message.contains("exit status: 7") && message.ends_with("[31mlate"), "{message}");
        assert!(!message.contains("early") && message.len() < 400 && !message.contains('\u{1b}'), "{message}");
        let killed = run("kill -KILL $$", folder.path(), b"x").await.unwrap_err();
        assert!(killed.contains("signal: 9"), "{killed}");
    }

    #[tokio::test]
    async fn the_intakes_own_receiver_comes_first_and_without_any_nobody_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("{KEY}.json")), "x").unwrap();
        let hand_on = async |process: Option<&str>, intake: Option<&str>| {
            let handover = handover(process, folder.path(), Duration::from_secs(600));
            handover.hand_on(&JobKey(KEY.to_owned()), intake, &format!("results/{KEY}.json")).await.is_ok()
        };
        assert!(hand_on(None, None).await && hand_on(Some("exit 1"), Some("exit 0")).await);
        assert!(!hand_on(None, Some("exit 1")).await && !hand_on(Some("exit 1"), None).await);
    }

    #[tokio::test]
    async fn what_is_no_results_fault_needs_a_person() {
        let folder = tempfile::tempdir().unwrap();
        let not_executable = folder.path().join("no-program");
        std::fs::write(&not_executable, "").unwrap();
        for command in ["no-such-command-anywhere", &not_executable.display().to_string()] {
            let told = try_run(command, folder.path(), b"x").await;
            assert!(matches!(told, Err(HandoverError::NeedsPerson(_))), "{command}: {told:?}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("{KEY}.json")), "x").unwrap();
        let handover = handover(Some("exec sleep 600"), folder.path(), Duration::from_millis(50));
        let told = handover.hand_on(&JobKey(KEY.to_owned()), None, &format!("results/{KEY}.json")).await;
        assert!(
            matches!(&told, Err(HandoverError::Refused(why)) if why.contains("still running after 50ms")),
            "{told:?}"
        );
    }

    #[tokio::test]
    async fn the_command_learns_no_key_and_tells_none() {
        let folder = tempfile::tempdir().unwrap();
        let told =
            run("echo \"got key=AIzaSyA1234567890123456789012345678901\" >&2; exit 1", folder.path(), b"x").await;
        let told = told.unwrap_err();
        assert!(!told.contains("AIzaSyA1234"), "{told}");
    }

    #[tokio::test]
    async fn what_stays_in_the_background_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        run(&format!("sleep 600 & echo $! > {}", pid.display()), folder.path(), b"x").await.unwrap();
        let pid = std::fs::read_to_string(pid).unwrap();
        assert!(std::process::Command::new("kill").arg(pid.trim()).status().unwrap().success());
    }

    #[tokio::test]
    async fn dropping_the_future_kills_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", pid.display());
        let place = folder.path().to_owned();
        let handing = tokio::spawn(async move { run(&command, &place, b"x").await });
        while !pid.exists() {
            tokio::task::yield_now().await;
        }
        handing.abort();
        assert!(handing.await.unwrap_err().is_cancelled());
        let pid = std::fs::read_to_string(pid).unwrap();
        // `kill -0` only asks; the process ends, and is reaped by the runtime, a moment after the abort.
        let alive = || {
            let asked = std::process::Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status();
            asked.unwrap().success()
        };
        while alive() {
            tokio::task::yield_now().await;
        }
    }
}
