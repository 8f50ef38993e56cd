//! Commands that people are told to type: they work when they are copied.

use std::path::Path;

use super::open::{Context, DATA};

/// Commands that must be told that a folder's work is simulated.
const TOLD: [&str; 6] = ["run", "submit", "tick", "cancel", "replay", "import-seed"];

/// Another command on the same folder, as it can be typed.
pub fn see(context: &Context, command: &str) -> String {
    if let Some(stack) = &context.stack {
        return format!("gleaner --stack {} {command}", quoted(stack));
    }
    let is_default = context.data == Path::new(DATA) && !context.is_named_by_environment;
    let data = if is_default { String::new() } else { format!("--data {} ", quoted(&context.data.to_string_lossy())) };
    let is_told = command.split_whitespace().next().is_some_and(|first| TOLD.contains(&first));
    let simulate = if is_told && context.is_simulated() { " --simulate" } else { "" };
    format!("gleaner {data}{command}{simulate}")
}

/// This very command, as it can be typed again.
pub fn this_command() -> String {
    std::env::args_os().map(|argument| quoted(&argument.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

/// An argument as a shell takes it.
pub fn quoted(argument: &str) -> String {
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

    #[test]
    fn commands_name_the_folder_where_they_must() {
        let context = Context::on_folder;
        assert_eq!(see(&context(".gleaner", false), "dead"), "gleaner dead");
        assert_eq!(see(&context(".gleaner", true), "dead"), "gleaner --data .gleaner dead");
        let on_stack = Context { stack: Some("night ly".to_owned()), ..context(".gleaner", true) };
        assert_eq!(see(&on_stack, "dead"), "gleaner --stack 'night ly' dead");
        assert_eq!(see(&context("my work", false), "tick"), "gleaner --data 'my work' tick");
    }
}
