//! The test binary once more, as another process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "GLEANER_TEST_ROLE";
const FOLDER: &str = "GLEANER_TEST_FOLDER";

/// This binary, playing `role` in `folder`: it runs its ignored test `another_process`, which asks for [`role`].
/// `wrapper` is a command that runs it, such as `unshare --mount`.
pub fn command(wrapper: &[&str], role: &str, folder: &Path) -> Command {
    let own = std::env::current_exe().unwrap();
    let arguments = ["--exact", "another_process", "--ignored", "--nocapture", "--test-threads=2"];
    let mut command = match wrapper {
        [] => Command::new(own),
        [program, before @ ..] => {
            let mut command = Command::new(program);
            command.args(before).arg(own);
            command
        }
    };
    command.args(arguments).env(ROLE, role).env(FOLDER, folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The role and the folder of this process, when it is another one.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FOLDER)?.into()))
}

/// A runtime with as many threads as tasks race in the tests.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap()
}
