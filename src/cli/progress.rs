//! How far a run is: a bar on a terminal, now and then a line elsewhere.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::hint::see;
use super::open::Context;
use super::outcome::Stop;
use super::table::{brief, count, plain};
use crate::app::batch::report::RunProgress;
use crate::app::report::Progress;
use crate::domain::gate::{EVERYTHING, Gate};
use crate::domain::intake::Run;
use crate::domain::job::{Fate, Job, State};
use crate::domain::part::{Part, Sending};
use crate::domain::time::Millis;

/// At most one line in this time, where there is no bar.
const LINES_APART: Duration = Duration::from_secs(5);

/// How many attempts are shown below the bar, and in a line where there is none.
const BELOW: usize = 6;
const BESIDE: usize = 3;

/// How much is shown of why a gate is closed, in characters.
const REASON: usize = 120;

/// Shows progress until it is dropped or ended.
pub struct Watch<'a> {
    context: &'a Context,
    bars: Option<Bars>,
    shown: String,
    shown_at: Option<Millis>,
    last: String,
}

impl<'a> Watch<'a> {
    /// Of a file with that many lines.
    pub(super) fn new(context: &'a Context, lines: u64) -> Result<Self, Stop> {
        let bars = if context.console.is_watched() { Some(Bars::new(context, lines)?) } else { None };
        Ok(Self { context, bars, shown: String::new(), shown_at: None, last: String::new() })
    }

    /// Shows how far it is.
    pub(super) fn show(&mut self, progress: &Progress, gates: &[Gate], now: Millis) {
        let done = done(progress);
        let details = details(self.context, progress, gates, now);
        let out = |now, most| progress.run.as_ref().map(|run| out(run, now, most)).unwrap_or_default();
        if let Some(bars) = &mut self.bars {
            bars.show(done, details, &out(Some(now), BELOW));
            return;
        }
        // Without times, which are news every second: a run takes a day, and its mail should be short.
        let all = std::iter::once(details).chain(out(None, BESIDE)).filter(|part| !part.is_empty());
        self.last = format!("{done}/{} ended: {}", progress.intake.lines, all.collect::<Vec<_>>().join("; "));
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
        if let Some(bars) = self.bars.take() {
            bars.end();
        } else if self.last != self.shown {
            self.tell_last();
        }
    }
}

/// A bar, and a line below it for each attempt of a run that is out.
struct Bars {
    all: MultiProgress,
    bar: ProgressBar,
    below: Vec<ProgressBar>,
    line: ProgressStyle,
}

impl Bars {
    fn new(context: &Context, lines: u64) -> Result<Self, Stop> {
        let style = |template| {
            let style = ProgressStyle::with_template(template);
            style.map_err(|error| Stop::Person(format!("the progress bar can't be drawn: {error}")))
        };
        let all = context.console.bars.clone();
        let bar = ProgressBar::new(lines)
            .with_style(style("{spinner} [{bar:20}] {pos}/{len} {wide_msg}")?.progress_chars("=> "));
        let bar = all.add(bar);
        bar.enable_steady_tick(Duration::from_millis(200));
        // What doesn't fit the terminal's width is cut off.
        Ok(Self { all, bar, below: Vec::new(), line: style("  {wide_msg}")? })
    }

    fn show(&mut self, done: u64, details: String, lines: &[String]) {
        self.bar.set_position(done);
        self.bar.set_message(details);
        while self.below.len() < lines.len() {
            self.below.push(self.all.add(ProgressBar::new_spinner().with_style(self.line.clone())));
        }
        for surplus in self.below.split_off(lines.len()) {
            self.all.remove(&surplus);
        }
        for (below, line) in self.below.iter().zip(lines) {
            below.set_message(line.clone());
        }
    }

    fn end(self) {
        for below in &self.below {
            self.all.remove(below);
        }
        self.bar.finish_and_clear();
    }
}

/// Lines that have come to their end.
fn done(progress: &Progress) -> u64 {
    let tally = progress.tally;
    tally.jobs.saturating_sub(tally.open) + tally.repeats + tally.bad_lines
}

/// What is open, and what holds it up.
fn details(context: &Context, progress: &Progress, gates: &[Gate], now: Millis) -> String {
    let mut parts: Vec<String> = match &progress.run {
        Some(run) => rows(run),
        None => progress
            .states
            .iter()
            .filter(|(_, jobs)| *jobs > 0)
            .map(|(state, jobs)| format!("{jobs} {}", state.word().replace('_', " ")))
            .collect(),
    };
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
    let waiting = progress.run.as_ref().filter(|run| !run.is_over());
    let held = held.chain(waiting.and_then(|run| waits_for_person(context, &run.run)));
    std::iter::once(parts.join(", ")).filter(|counts| !counts.is_empty()).chain(held).collect::<Vec<_>>().join("; ")
}

/// What became of the rows of a run so far.
fn rows(run: &RunProgress) -> Vec<String> {
    let tally = run.tally;
    let counts = [
        (tally.consumed + tally.recovered, "succeeded"),
        (tally.open, "open"),
        (tally.parked, "dead"),
        (tally.discarded, "discarded"),
    ];
    counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect()
}

/// The attempts of a run that are out, in the order of its rows; at most `most` of them, and how many more there are.
/// Without `now`, nothing of how long each takes.
pub fn out(run: &RunProgress, now: Option<Millis>, most: usize) -> Vec<String> {
    let all: Vec<(&Part, &Sending)> = run
        .parts
        .iter()
        .filter(|part| part.is_out() && !part.state.is_closed())
        .filter_map(|part| Some((part, part.latest()?)))
        .collect();
    let told = if all.len() > most { most.saturating_sub(1) } else { most };
    let mut lines: Vec<String> = all
        .iter()
        .take(told)
        .map(|(part, latest)| {
            let stands =
                run.job_of(part, latest.number).map_or_else(|| "about to be sent".to_owned(), |job| standing(job, now));
            let rows = count(latest.rows, "row");
            format!("part {} attempt {}: {rows}, {stands}", part.part, latest.number)
        })
        .collect();
    if all.len() > told {
        lines.push(format!("and {} more", count((all.len() - told) as u64, "attempt")));
    }
    lines
}

/// Where the job of an attempt stands, in a few words; since when, or until when, if `now` is given.
pub fn standing(job: &Job, now: Option<Millis>) -> String {
    let long = |time: Duration| brief(time.max(Duration::from_secs(1)));
    let since = |at: Millis| now.map(|now| format!(" for {}", long(now.since(at)))).unwrap_or_default();
    let class = |otherwise: &str| plain(job.class.as_deref().unwrap_or(otherwise));
    match job.state {
        State::Submitted => {
            let at = job.handles.iter().rfind(|handle| handle.fate == Fate::Live).map_or(job.since, |handle| handle.at);
            format!("running at Gemini{}", since(at))
        }
        State::Reserving => "being sent".to_owned(),
        State::Unclear => format!("being looked up at Gemini{}", since(job.since)),
        State::Done => format!("its output is being judged{}", since(job.since)),
        State::Retryable if job.class.is_none() => "about to be sent".to_owned(),
        State::Retryable => {
            let due = now.zip(job.due_at).filter(|(now, due)| due > now);
            let due = due.map(|(now, due)| format!(", next try in {}", long(due.since(now))));
            format!("waits ({}){}", class("for its turn"), due.unwrap_or_default())
        }
        State::GivenUp => format!("given up{} ({})", since(job.since), class("lost")),
        other => other.word().replace('_', " "),
    }
}

/// Why the next parts of a run wait for a person, and how they go on; none when they don't.
pub fn waits_for_person(context: &Context, run: &Run) -> Option<String> {
    let held = run.held.as_ref()?;
    let start: String = run.key.chars().take(12).collect();
    Some(plain(&format!(
        "held: its rows die or are refused one after the other as {} ({}). `{}` lets the rest go out all the same",
        held.class,
        shortened(&held.message),
        see(context, &format!("resume {start}"))
    )))
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
    use crate::domain::job::Rev;
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
