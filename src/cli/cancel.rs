//! `cancel`: a job, or what is left of a file, stopped here and at Gemini.

use std::time::Duration;

use serde_json::{Value, json};

use super::args::Cancel;
use super::find::find;
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::table::{count, low_row, plain, table, text};
use crate::app::batch::cancel::cancel_run;
use crate::app::cancel::{Cancelled, cancel_bad_line, cancel_intake, cancel_job};
use crate::app::engine::Engine;
use crate::app::report::{Progress, progress};
use crate::app::submit::submit_intake;
use crate::domain::intake::Intake;
use crate::domain::intake::run_key;
use crate::domain::item::Item;
use crate::domain::job::{Job, State};
use crate::domain::time::Millis;

/// How long a run may take to let go of a cancelled file, which it looks at every second.
const LETS_GO: u32 = 20;
const MOMENT: Duration = Duration::from_millis(250);

/// Cancels it.
pub async fn cancel(context: &Context, args: &Cancel) -> Result<Exit, Stop> {
    let desk = open::work_on(context, &args.simulate, None).await?;
    match find(&desk.engine, &args.id).await? {
        Item::Job(job) if job.batch.is_some() => Err(Stop::Usage(format!(
            "{} is an attempt of a batch run, whose rows would only go out again; cancel the run:\n  {}",
            args.id,
            see(context, &format!("cancel {}", run_key(&job.input.intake)))
        ))),
        Item::Job(job) => {
            let outcome = cancel_job(&desk.engine, job.clone(), &args.reason).await?;
            report(context, &[Line::of(&job, outcome)], None)
        }
        Item::Intake(intake) => cancel_file(context, &desk.engine, intake, &args.reason).await,
        Item::BadLine(bad) => {
            let id = Item::BadLine(bad.clone()).id().to_string();
            let outcome = cancel_bad_line(&desk.engine, bad, &args.reason).await?;
            report(context, &[Line { id, outcome }], None)
        }
        Item::Part(_) | Item::DeadRow(_) | Item::DeadGroup(_) => Err(Stop::Usage(format!(
            "{} is a part of a batch run, or rows of one that died; only the whole run is cancelled, by its name:\n  {}",
            args.id,
            see(context, "cancel RUN")
        ))),
        Item::Event(_) | Item::Stray(_) => Err(Stop::Usage(format!(
            "{} is an event of Gemini's, which is no work; nothing is to be cancelled",
            args.id
        ))),
        Item::Gate(_) => Err(Stop::Usage(format!(
            "{} is a gate, which opens by itself, or by:\n  {}",
            args.id,
            see(context, "resume")
        ))),
    }
}

/// What became of one thing.
struct Line {
    /// A job's key, or a bad line's id.
    id: String,
    outcome: Cancelled,
}

impl Line {
    fn of(job: &Job, outcome: Cancelled) -> Self {
        Self { id: job.key.to_string(), outcome }
    }
}

async fn cancel_file(context: &Context, engine: &Engine, intake: Intake, reason: &str) -> Result<Exit, Stop> {
    let sha256 = intake.sha256.clone();
    let before = progress(engine, &sha256).await?;
    let outcomes = if intake.run.is_some() {
        cancel_run(engine, intake, reason).await?
    } else {
        cancel_intake(engine, intake, reason).await?
    };
    let after = take_off(engine, &sha256).await?;
    if after.intake.state == State::Reading {
        context.console.note(
            "Another run holds this file. It stops sending within a moment; the lines that wait\nare discarded by the \
             next tick or run after its lease has ended, which takes two\nminutes at most, where nobody set it longer.",
        );
    }
    // The ledger's own counts, and not the cursor's: a run that goes on meanwhile moves that one, too, and a cancel
    // makes it meet again what it has sent already.
    let stopped = outcomes.iter().filter(|(_, outcome)| is_discarded(outcome)).count() as u64;
    let lines = after.tally.discarded.saturating_sub(before.tally.discarded).saturating_sub(stopped);
    let outcomes: Vec<Line> = outcomes.into_iter().map(|(job, outcome)| Line::of(&job, outcome)).collect();
    report(context, &outcomes, Some((lines, after.intake.lines)))
}

/// Has the lines that wait written down as discarded, each by itself; nobody else's lines are touched. A run that
/// holds the file lets go of it within a moment.
async fn take_off(engine: &Engine, sha256: &str) -> Result<Progress, Stop> {
    for _ in 0..LETS_GO {
        let taken = submit_intake(engine, sha256, Millis(i64::MAX)).await?;
        let after = progress(engine, sha256).await?;
        if !taken.elsewhere || after.intake.state != State::Reading {
            return Ok(after);
        }
        engine.clock.sleep(MOMENT).await;
    }
    Ok(progress(engine, sha256).await?)
}

const fn is_discarded(outcome: &Cancelled) -> bool {
    matches!(outcome, Cancelled::Discarded | Cancelled::StillRemote(_))
}

fn report(context: &Context, outcomes: &[Line], lines: Option<(u64, u64)>) -> Result<Exit, Stop> {
    let jobs: Vec<Value> = outcomes.iter().map(as_json).collect();
    context.console.tell(&json!({"jobs": jobs, "lines_discarded": lines.map(|(discarded, _)| discarded)}))?;
    if !outcomes.is_empty() {
        context.console.say(&outcomes_table(outcomes))?;
    }
    if let Some((discarded, all)) = lines {
        context.console.say(&format!(
            "{} cancelled or asked for.\n{discarded} of {} had not been sent, and never will be.",
            count(outcomes.len() as u64, "open job"),
            count(all, "line")
        ))?;
    }
    if outcomes.iter().any(|line| line.outcome == Cancelled::AlreadyFinished) {
        let tick = see(context, "tick");
        context
            .console
            .note(&format!("What had finished at Gemini is paid for. This, or a run, collects it:\n  {tick}"));
    }
    if outcomes.iter().any(|line| matches!(line.outcome, Cancelled::StillRemote(_))) {
        return Err(Stop::Person("something may still run at Gemini; cancel again to try again".to_owned()));
    }
    Ok(Exit::Done)
}

fn as_json(Line { id, outcome }: &Line) -> Value {
    match outcome {
        Cancelled::Discarded => json!({"id": id, "outcome": "discarded"}),
        Cancelled::AlreadyFinished => json!({"id": id, "outcome": "already_finished"}),
        Cancelled::Ended(state) => json!({"id": id, "outcome": "ended", "state": state}),
        Cancelled::StillRemote(handles) => {
            let handles: Vec<Value> = handles.iter().map(|(id, why)| json!({"handle": id, "why": why})).collect();
            json!({"id": id, "outcome": "still_remote", "handles": handles})
        }
    }
}

fn outcomes_table(outcomes: &[Line]) -> String {
    let mut rows = table(&["job", "outcome"]);
    for Line { id, outcome } in outcomes {
        rows.add_row(low_row([plain(id), words(id, outcome)], 4));
    }
    text(rows)
}

fn words(id: &str, outcome: &Cancelled) -> String {
    match outcome {
        Cancelled::Discarded if id.starts_with("line/") => "discarded".to_owned(),
        Cancelled::Discarded => "discarded, here and at Gemini".to_owned(),
        Cancelled::AlreadyFinished => "had finished at Gemini: it is collected".to_owned(),
        Cancelled::Ended(state) => format!("had ended before: {state}"),
        Cancelled::StillRemote(handles) => {
            let why: Vec<String> = handles.iter().map(|(id, why)| format!("{}: {}", plain(id), plain(why))).collect();
            format!("discarded here, but not stopped at Gemini: {}", why.join("; "))
        }
    }
}
