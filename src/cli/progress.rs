//! How far a run is: a bar on a terminal, now and then a line elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::hint::see;
use super::open::Context;
use super::outcome::Stop;
use super::table::{brief, count, plain};
use crate::app::report::Progress;
use crate::domain::gate::{EVERYTHING, Gate};
use crate::domain::time::Millis;

/// At most one line in this time, where there is no bar.
const LINES_APART: Duration = Duration::from_secs(5);

/// How much is shown of why a gate is closed, in characters.
const REASON: usize = 120;

/// Shows progress until it is dropped or ended.
#[derive(Debug)]
pub struct Watch<'a> {
    context: &'a Context,
    bar: Option<ProgressBar>,
    shown: String,
    shown_at: Option<Millis>,
    last: String,
}

impl<'a> Watch<'a> {
    /// Of a file with that many lines.
    pub(super) fn new(context: &'a Context, lines: u64) -> Result<Self, Stop> {
        let bar = if context.console.is_watched() { Some(bar(context, lines)?) } else { None };
        Ok(Self { context, bar, shown: String::new(), shown_at: None, last: String::new() })
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, progress: &Progress, gates: &[Gate], now: Millis) {
        let done = done(progress);
        let details = details(self.context, progress, gates, now);
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(details);
            return;
        }
        self.last = format!("{done}/{} ended: {details}", progress.intake.lines);
        let early = self.shown_at.is_some_and(|at| now.since(at) < LINES_APART);
        if self.last != self.shown && !early {
            self.shown_at = Some(now);
            self.tell_last();
        }
    }

    fn tell_last(&mut self) {
        self.context.console.note(&self.last);
        self.shown.clone_from(&self.last);
    }

    /// Takes the bar away, or says the last word.
    pub(super) fn end(mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        } else if self.last != self.shown {
            self.tell_last();
        }
    }
}

fn bar(context: &Context, lines: u64) -> Result<ProgressBar, Stop> {
    let style = ProgressStyle::with_template("{spinner} [{bar:20}] {pos}/{len} {wide_msg}");
    let style = style.map_err(|error| Stop::Person(format!("the progress bar can't be drawn: {error}")))?;
    let bar = context.console.bars.add(ProgressBar::new(lines).with_style(style.progress_chars("=> ")));
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}

/// Lines that have come to their end.
fn done(progress: &Progress) -> u64 {
    let tally = progress.tally;
    tally.jobs.saturating_sub(tally.open) + tally.repeats + tally.bad_lines
}

/// What is open, and what holds it up.
fn details(context: &Context, progress: &Progress, gates: &[Gate], now: Millis) -> String {
    let mut parts: Vec<String> = progress
        .states
        .iter()
        .filter(|(_, jobs)| *jobs > 0)
        .map(|(state, jobs)| format!("{jobs} {}", state.word().replace('_', " ")))
        .collect();
    if progress.tally.repeats > 0 {
        parts.push(count(progress.tally.repeats, "repeat"));
    }
    if progress.tally.bad_lines > 0 {
        parts.push(count(progress.tally.bad_lines, "bad line"));
    }
    if progress.waiting() > 0 {
        parts.push(format!("{} waiting{}", progress.waiting(), elsewhere(progress, now)));
    }
    // The counts come first: the end of the line is cut off on a narrow terminal, and Gemini's words are long.
    let held = gates.iter().filter_map(|gate| closed(context, gate, now));
    std::iter::once(parts.join(", ")).filter(|counts| !counts.is_empty()).chain(held).collect::<Vec<_>>().join("; ")
}

/// Who else takes the lines that wait. It is shown after a tick, when this process has given its own lease back: so
/// a lease that stands is another process's, at work or killed, and its end is the longest wait.
fn elsewhere(progress: &Progress, now: Millis) -> String {
    match &progress.intake.lease {
        Some(lease) if lease.until > now => {
            let left = brief(lease.until.since(now).max(Duration::from_secs(1)));
            format!(" for another process, {left} at most if it has died")
        }
        _ => String::new(),
    }
}

/// Why a gate is closed, in Gemini's own words, and until when; none when it isn't.
pub fn closed(context: &Context, gate: &Gate, now: Millis) -> Option<String> {
    let whose = if gate.name == EVERYTHING { "everything" } else { model(gate) };
    if let Some(reason) = &gate.paused {
        return Some(plain(&format!("{whose} paused until `{}` ({})", see(context, "resume"), shortened(reason))));
    }
    let until = gate.until.filter(|until| *until > now)?;
    let class = gate.class.as_deref().unwrap_or("no reason on record");
    let words = gate.message.as_deref().filter(|words| !words.is_empty());
    let why = words.map_or_else(|| class.to_owned(), |words| format!("{class}: {}", shortened(words)));
    Some(plain(&format!("{whose} closed for {} ({why})", brief(until.since(now).max(Duration::from_secs(1))))))
}

/// The beginning of a reason: the whole of it is in `status --json`.
fn shortened(words: &str) -> String {
    let mut rest = words.chars();
    let mut start: String = rest.by_ref().take(REASON).collect();
    if rest.next().is_some() {
        start.push('…');
    }
    start
}

/// The model of a gate, out of `<key id>/<mode>/<model>`.
pub fn model(gate: &Gate) -> &str {
    gate.name.splitn(3, '/').nth(2).unwrap_or(&gate.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::report::Tally;
    use crate::domain::intake::Cursor;
    use crate::domain::job::{Rev, State};
    use crate::ports::conformance::sample;

    #[test]
    fn a_closed_gate_says_why_and_how_long() {
        let context = &Context::on_folder("my work", false);
        let now = Millis(1_000_000);
        let mut gate = Gate::open("k/interaction/models/x".to_owned(), Rev(String::new()), now);
        assert_eq!(closed(context, &gate, now), None);
        gate.until = Some(now.plus(Duration::from_secs(90)));
        gate.class = Some("queue:429".to_owned());
        assert_eq!(closed(context, &gate, now).unwrap(), "models/x closed for 1m 30s (queue:429)");
        gate.message = Some("quota\u{1b}[2J gone".to_owned());
        assert_eq!(
            closed(context, &gate, now).unwrap(),
            "models/x closed for 1m 30s (queue:429: quota\u{fffd}[2J gone)"
        );
        gate.message = Some("長".repeat(500));
        assert_eq!(closed(context, &gate, now).unwrap().matches('長').count(), REASON);
        assert_eq!(closed(context, &gate, now.plus(Duration::from_secs(90))), None, "one may try then");
        gate.paused = Some("why\u{1b}[31m".to_owned());
        let resume = "gleaner --data 'my work' resume";
        let paused = format!("models/x paused until `{resume}` (why\u{fffd}[31m)");
        assert_eq!(closed(context, &gate, now).unwrap(), paused);
    }

    #[test]
    fn the_counts_come_before_what_holds_them_up() {
        let context = &Context::on_folder("d", true);
        let now = Millis(1_000_000);
        let mut intake = sample::intake(&"a".repeat(64), Rev(String::new()));
        (intake.lines, intake.cursor, intake.lease) = (5, Cursor { jobs: 3, ..Cursor::default() }, None);
        let tally = Tally { jobs: 3, open: 3, ..Tally::default() };
        let states = vec![(State::Submitted, 2), (State::GivenUp, 1), (State::Parked, 0)];
        let progress = Progress { intake, tally, states, bad_lines_parked: 0, run: None };
        let mut gate = Gate::open(EVERYTHING.to_owned(), Rev(String::new()), now);
        gate.paused = Some("why".to_owned());
        let told = details(context, &progress, &[gate], now);
        let counts = "2 submitted, 1 given up, 2 waiting";
        assert_eq!(told, format!("{counts}; everything paused until `gleaner --data d resume` (why)"));
    }
}
