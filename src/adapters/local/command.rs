//! Handing results on to a shell command.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::domain::job::{JobKey, excerpt};
use crate::ports::handover::{Handover, HandoverError};

/// The variable in which the command finds the result's id.
pub const ID: &str = "GLEANER_ID";

/// The variable in which the command finds the path of the result's file.
pub const RESULT: &str = "GLEANER_RESULT";

/// How much of what a failing command said on standard error goes into the message, in bytes: its end, where programs
/// put the reason.
const TAIL: u64 = 300;

/// Runs `sh -c COMMAND` for each result: the result on standard input, its id in [`ID`], the path of its file in
/// [`RESULT`]. The result is taken when the command ends with exit code 0.
///
/// The command's standard output goes to our standard error, as does its standard error once it has ended. It runs in
/// a process group of its own, so that a Ctrl-C at the terminal stops the run and not a hand-over in its middle. When
/// the future is dropped the shell is killed.
#[derive(Debug, Clone)]
pub struct CommandHandover {
    command: String,
    results: PathBuf,
}

impl CommandHandover {
    /// `results` is the folder of the results' files; made absolute where it can be, since the command may go elsewhere.
    #[must_use]
    pub fn new(command: String, results: PathBuf) -> Self {
        let results = std::path::absolute(&results).unwrap_or(results);
        Self { command, results }
    }

    fn start(&self, id: &JobKey, said: &File) -> io::Result<Child> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&self.command)
            .env(ID, &id.0)
            .env(RESULT, self.results.join(format!("{id}.json")))
            .stdin(Stdio::piped())
            .stdout(Stdio::from(io::stderr()))
            .stderr(Stdio::from(said.try_clone()?))
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }
}

/// Writes the result to the command and waits for its end. A command that ends without having read it is fine.
async fn feed(child: &mut Child, result: &[u8]) -> io::Result<ExitStatus> {
    let mut stdin = child.stdin.take();
    let write = async move {
        if let Some(pipe) = &mut stdin {
            match pipe.write_all(result).await {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        // Closed, so that a command that reads to the end sees it.
        drop(stdin);
        Ok::<(), io::Error>(())
    };
    let mut write = std::pin::pin!(write);
    let mut written = false;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            done = &mut write, if !written => {
                done?;
                written = true;
            }
        }
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
    async fn hand_on(&self, id: &JobKey, result: Bytes) -> Result<(), HandoverError> {
        let failed = |what: &str, error: io::Error| HandoverError(format!("{what}: {error}"));
        let said = tempfile::tempfile().map_err(|error| failed("no temporary file", error))?;
        let mut child = self.start(id, &said).map_err(|error| failed("the command could not be started", error))?;
        let status = feed(&mut child, &result).await.map_err(|error| failed("the command could not be fed", error))?;
        let tail = tokio::task::spawn_blocking(move || tell(said))
            .await
            .map_err(io::Error::other)
            .flatten()
            .unwrap_or_else(|error| format!("(what it said can't be read: {error})"));
        match (status.success(), tail.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => Err(HandoverError(format!("the command ended with {status} and said nothing"))),
            (false, false) => Err(HandoverError(format!("the command ended with {status} and said: {tail}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(command: &str, folder: &std::path::Path, result: &[u8]) -> Result<(), String> {
        let handover = CommandHandover::new(command.to_owned(), folder.to_owned());
        let handed = handover.hand_on(&JobKey("some-key".to_owned()), Bytes::copy_from_slice(result)).await;
        handed.map_err(|error| error.0)
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
        let handing = tokio::spawn(async move { run(&command, std::path::Path::new("/"), b"x").await });
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
