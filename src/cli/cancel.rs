//! `cancel`: a job, or what is left of a file, stopped here and at Gemini.

use serde_json::{Value, json};

use super::args::Cancel;
use super::find::find;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::run::see;
use super::table::{count, low_row, plain, table, text};
use crate::app::cancel::{Cancelled, cancel_intake, cancel_job};
use crate::app::engine::Engine;
use crate::app::report::progress;
use crate::app::submit::submit_intake;
use crate::domain::intake::Intake;
use crate::domain::item::Item;
use crate::domain::job::{Job, State};
use crate::domain::time::Millis;

/// Cancels it.
pub async fn cancel(context: &Context, args: &Cancel) -> Result<Exit, Stop> {
    let desk = open::work_on(context, &args.simulate, None).await?;
    match find(&desk.engine, &args.id).await? {
        Item::Job(job) => {
            let outcome = cancel_job(&desk.engine, job.clone(), &args.reason).await?;
            report(context, &[(job, outcome)], None)
        }
        Item::Intake(intake) => cancel_file(context, &desk.engine, intake, &args.reason).await,
        Item::BadLine(_) | Item::Gate(_) => {
            Err(Stop::Usage(format!("{} is neither a job nor a file of jobs", args.id)))
        }
    }
}

async fn cancel_file(context: &Context, engine: &Engine, intake: Intake, reason: &str) -> Result<Exit, Stop> {
    let sha256 = intake.sha256.clone();
    let before = progress(engine, &sha256).await?;
    let outcomes = cancel_intake(engine, intake, reason).await?;
    // The lines that wait are written down as discarded, each by itself, and nobody else's lines are touched.
    let taken = submit_intake(engine, &sha256, Millis(i64::MAX)).await?;
    let after = progress(engine, &sha256).await?;
    if taken.elsewhere && after.intake.state == State::Reading {
        context.console.note(
            "Another run holds this file. It stops sending within a moment; the lines that wait are discarded by the \
             next tick or run after its lease has ended, which takes two minutes at most.",
        );
    }
    report(context, &outcomes, Some(before.waiting().saturating_sub(after.waiting())))
}

fn report(context: &Context, outcomes: &[(Job, Cancelled)], lines: Option<u64>) -> Result<Exit, Stop> {
    let jobs: Vec<Value> = outcomes.iter().map(|(job, outcome)| as_json(job, outcome)).collect();
    context.console.tell(&json!({"jobs": jobs, "lines_discarded": lines}))?;
    if !outcomes.is_empty() {
        context.console.say(&outcomes_table(outcomes))?;
    }
    if let Some(lines) = lines {
        context.console.say(&format!(
            "{} cancelled or asked for, {} that waited taken off.",
            count(outcomes.len() as u64, "open job"),
            count(lines, "line")
        ))?;
    }
    if outcomes.iter().any(|(_, outcome)| *outcome == Cancelled::AlreadyFinished) {
        let tick = see(context, "tick");
        context.console.note(&format!("What had finished at Gemini is paid for: `{tick}` or a run collects it."));
    }
    if outcomes.iter().any(|(_, outcome)| matches!(outcome, Cancelled::StillRemote(_))) {
        return Err(Stop::Person("something may still run at Gemini; cancel again to try again".to_owned()));
    }
    Ok(Exit::Done)
}

fn as_json(job: &Job, outcome: &Cancelled) -> Value {
    let id = &job.key;
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

fn outcomes_table(outcomes: &[(Job, Cancelled)]) -> String {
    let mut rows = table(&["job", "outcome"]);
    for (job, outcome) in outcomes {
        rows.add_row(low_row([plain(&job.key.0), words(outcome)], 4));
    }
    text(rows)
}

fn words(outcome: &Cancelled) -> String {
    match outcome {
        Cancelled::Discarded => "discarded, here and at Gemini".to_owned(),
        Cancelled::AlreadyFinished => "had finished at Gemini: it is collected".to_owned(),
        Cancelled::Ended(state) => format!("had ended before: {state}"),
        Cancelled::StillRemote(handles) => {
            let why: Vec<String> = handles.iter().map(|(id, why)| format!("{}: {}", plain(id), plain(why))).collect();
            format!("discarded here, but not stopped at Gemini: {}", why.join("; "))
        }
    }
}
