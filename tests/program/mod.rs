//! The real program.

use std::path::Path;
use std::process::Command;

/// The program, run in `folder`, with no setting of whoever runs the tests.
pub fn gleaner(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleaner"));
    command.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let known = name.to_string_lossy();
        if known.starts_with("GLEANER_") || known.starts_with("GEMINI_") || known.ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command
}
