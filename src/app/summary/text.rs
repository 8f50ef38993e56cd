//! The summary as people read it, in a terminal or in a mail.

use crate::domain::intake::HELD_BY_IMPORT;
use std::time::Duration;

use super::Summary;
use super::expiry::{Expiry, Kept};

/// How many classes are told one by one.
const CLASSES: usize = 20;

/// How many characters of a name or id are told: more than a line, less than what somebody may have put into it.
const NAME: usize = 100;

impl Summary {
    /// In one line, for a log or the subject of a mail.
    #[must_use]
    pub fn line(&self) -> String {
        if self.clean {
            return "clean: no dead letters".to_owned();
        }
        let mut parts = vec![many(self.dead_letters, "dead letter")];
        if let Some(class) = self.classes.first() {
            parts.push(format!("mostly {}", short(&class.class)));
        }
        if !self.held_runs.is_empty() {
            let waits = if self.held_runs.len() == 1 { "waits" } else { "wait" };
            parts.push(format!("{} {waits} for you", many(self.held_runs.len() as u64, "run")));
        }
        if let Some(expiry) = self.expiries.first() {
            parts.push(format!("next expiry in {}", in_days(expiry.days)));
        }
        if self.possible_duplicates > 0 {
            parts.push(many(self.possible_duplicates, "possible duplicate"));
        }
        parts.join(", ")
    }

    /// In some lines, with what to do about it. `see` makes a command that can be copied out of a subcommand.
    #[must_use]
    pub fn text(&self, see: &dyn Fn(&str) -> String) -> String {
        let mut lines = Vec::new();
        if self.clean {
            lines.push("Clean: there are no dead letters, and no run waits for a person.".to_owned());
            return lines.join("\n");
        }
        self.tell_dead_letters(&mut lines);
        self.tell_files(&mut lines);
        self.tell_the_rest(&mut lines);
        self.tell_expiries(&mut lines);
        lines.push(String::new());
        for held in &self.held_runs {
            lines.push(format!("  {}", see(&format!("resume {}", held.run))));
        }
        if self.dead_letters > 0 {
            lines.push(format!("  {}", see("dead")));
            lines.push(format!("  {}", see("replay")));
        }
        if self.dead_letters == 0 && self.held_runs.is_empty() {
            lines.push(format!("  {}", see("status")));
        }
        lines.join("\n")
    }

    fn tell_dead_letters(&self, lines: &mut Vec<String>) {
        if self.dead_letters == 0 {
            lines.push("There are no dead letters.".to_owned());
            return;
        }
        let wait = if self.dead_letters == 1 { "waits" } else { "wait" };
        let age = Duration::from_secs(self.oldest_age_s.unwrap_or_default());
        let of = match self.parked == self.dead_letters {
            true => String::new(),
            false => format!(" (of {} jobs, rows and lines)", self.parked),
        };
        lines.push(format!("{} {wait}{of}, the oldest for {}.", many(self.dead_letters, "dead letter"), brief(age)));
        lines.push(String::new());
        for class in self.classes.iter().take(CLASSES) {
            lines.push(format!("{:>9}  {}", class.count, short(&class.class)));
        }
        let others: u64 = self.classes.iter().skip(CLASSES).map(|class| class.count).sum();
        if others > 0 {
            lines.push(format!("{others:>9}  of {} other classes", self.classes.len() - CLASSES));
        }
    }

    fn tell_files(&self, lines: &mut Vec<String>) {
        if self.files.len() > 1 {
            lines.extend([String::new(), "By file:".to_owned(), String::new()]);
        } else if let Some(file) = self.files.first() {
            lines.extend([String::new(), format!("All of {}.", short(&file.file))]);
            return;
        }
        for file in &self.files {
            let run = file.run.as_ref().map(|run| format!(" (run {})", run.chars().take(12).collect::<String>()));
            lines.push(format!("{:>9}  {}{}", file.count, short(&file.file), run.unwrap_or_default()));
        }
        let told: u64 = self.files.iter().map(|file| file.count).sum();
        if told < self.parked {
            lines.push(format!("{:>9}  of other files", self.parked - told));
        }
    }

    fn tell_the_rest(&self, lines: &mut Vec<String>) {
        let mut notes = Vec::new();
        for held in &self.held_runs {
            let (file, class) = (short(&held.file), short(&held.class));
            notes.push(match held.class.as_str() {
                HELD_BY_IMPORT => format!("The run of {file} waits for you: {}.", held.message),
                _ => format!("The run of {file} waits for you: too many of its rows died as {class}."),
            });
        }
        if self.no_payload > 0 {
            let jobs = many(self.no_payload, "imported job");
            notes.push(format!("{jobs} without a line: hand the file of their lines in, and they go on."));
        }
        if self.possible_duplicates > 0 {
            let times = many(self.possible_duplicates, "possible duplicate");
            notes.push(format!("{times}: jobs sent again that may have been accepted before, and paid for twice."));
        }
        if self.unsent_messages > 0 {
            notes.push(format!("{} still to be sent to the queue.", many(self.unsent_messages, "message")));
        }
        if !notes.is_empty() {
            lines.push(String::new());
            lines.append(&mut notes);
        }
    }

    fn tell_expiries(&self, lines: &mut Vec<String>) {
        if self.expiries.is_empty() {
            return;
        }
        lines.extend([String::new(), "What is deleted next:".to_owned(), String::new()]);
        for expiry in &self.expiries {
            let (what, note) = what(expiry);
            lines.extend([format!("  in {}: {what}", in_days(expiry.days)), format!("    {note}")]);
        }
    }
}

/// What is deleted, and by whom and what that means.
fn what(expiry: &Expiry) -> (String, &'static str) {
    let id = short(&expiry.id);
    let name = short(expiry.name.as_deref().unwrap_or_default());
    let (thing, note) = match expiry.what {
        Kept::Message => (format!("the message of {id}"), "SQS forgets it; the tick sends another one before."),
        Kept::Interaction => {
            (format!("the interaction {name} of {id}"), "Gemini deletes it; on the free tier a day after it was made.")
        }
        Kept::BatchOutput => (format!("the output of {name}, of {id}"), "Gemini deletes it."),
        Kept::InputFile => (format!("the input {name} of {id}"), "Gemini deletes it; its rows are kept here."),
    };
    let first = if expiry.items > 1 { format!(" (the first of {})", expiry.items) } else { String::new() };
    (format!("{thing}{first}"), note)
}

/// Text from elsewhere as one line that a terminal and a mail can show.
fn short(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}') =>
        {
            '\u{fffd}'
        }
        c => c,
    };
    let mut short: String = text.chars().map(plain).take(NAME).collect();
    if text.chars().nth(NAME).is_some() {
        short.push('…');
    }
    short
}

fn many(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn in_days(days: f64) -> String {
    match days.floor() as u64 {
        0 => "less than a day".to_owned(),
        whole => many(whole, "day"),
    }
}

/// A duration in its two largest units.
fn brief(duration: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string();
    whole.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
