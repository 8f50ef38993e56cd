//! `pause` and `resume`: the gate that a person closes and opens.

use serde_json::json;

use super::args::{Pause, Resume};
use super::find;
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::progress::model;
use super::table::{plain, wrapped};
use crate::app::batch::hold::let_go_on;
use crate::app::engine::Engine;
use crate::app::gates;
use crate::domain::gate::EVERYTHING;

/// Closes it.
pub async fn pause(context: &Context, args: &Pause) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    let gate = gates::pause(&desk.engine, &args.reason).await?;
    context.console.tell(&json!({"paused": gate.paused}))?;
    context.console.say(&format!(
        "Paused: nothing new is sent, and results are still collected.\n`{}` ends it.",
        see(context, "resume")
    ))?;
    Ok(Exit::Done)
}

/// Opens it; or lets a run go on.
pub async fn resume(context: &Context, args: &Resume) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    if let Some(name) = &args.run {
        return resume_run(context, &desk.engine, name).await;
    }
    let opened = gates::resume(&desk.engine).await?;
    context.console.tell(&json!({"opened": opened.iter().map(|gate| &gate.name).collect::<Vec<_>>()}))?;
    if opened.is_empty() {
        context.console.say("Nothing was paused or closed.")?;
    }
    for gate in &opened {
        let whose = if gate.name == EVERYTHING { "everything" } else { model(gate) };
        let why = gate.paused.as_ref().or(gate.class.as_ref()).map(|why| format!(" (it was: {why})"));
        context.console.say(&plain(&format!("Open: {whose}{}", why.unwrap_or_default())))?;
    }
    Ok(Exit::Done)
}

/// Lets the next parts of a run out, although many of its rows died.
async fn resume_run(context: &Context, engine: &Engine, name: &str) -> Result<Exit, Stop> {
    let (intake, run) = find::run(engine, name).await?;
    let held = let_go_on(engine, intake.clone()).await?;
    context.console.tell(&json!({"run": run.key, "held": held}))?;
    let text = match &held {
        Some(held) => format!(
            "The run of {} goes on, whatever becomes of more rows as {} (it was: {})",
            intake.file, held.class, held.message
        ),
        None => format!("The run of {} was not held.", intake.file),
    };
    context.console.say(&wrapped(&plain(&text)))?;
    Ok(Exit::Done)
}
