//! `submit` and `tick`: the two halves of `run`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::args::{Submit, Tick};
use super::hint::{quoted, see};
use super::open::{self, Context, Desk};
use super::outcome::{Exit, Stop};
use super::progress::closed;
use super::signal::interruptible;
use super::status::next;
use super::table::{align_right, count, low_row, plain, table, text, wrapped};
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::{all_gates, closed_gates};
use crate::app::inbox::{HandedOver, empty};
use crate::app::land::{LandError, Landed, check, land};
use crate::app::report;
use crate::app::send::operator_message;
use crate::app::tick;
use crate::domain::time::Millis;

/// How long a tick may begin new things.
const TICK: Duration = Duration::from_secs(50);

/// Takes files in.
pub async fn submit(context: &Context, args: &Submit) -> Result<Exit, Stop> {
    for file in &args.files {
        check(file).await?;
    }
    let desk = open::land(context, args.simulate).await?;
    let mut landings = Vec::new();
    let mut refused = Vec::new();
    for file in &args.files {
        match land(&desk.engine, file, args.mode.map(Into::into)).await {
            Ok(landed) => {
                report_landing(context, file, &landed);
                landings.push((file, landed));
            }
            Err(LandError::Unusable(why)) => refused.push(why),
            Err(stop) => return Err(stop.into()),
        }
    }
    let intakes: Vec<_> = landings.iter().map(|(file, landed)| intake_json(file, landed)).collect();
    let waiting = report::status(&desk.engine).await?.waiting;
    context.console.tell(&json!({"intakes": intakes, "waiting": waiting}))?;
    if !landings.is_empty() {
        context.console.say(&landing_table(&landings))?;
        let run = match args.files.as_slice() {
            [file] => format!("run {}", quoted(&file.to_string_lossy())),
            _ => "run FILE".to_owned(),
        };
        let waiting = if waiting == 1 { "1 line waits".to_owned() } else { format!("{waiting} lines wait") };
        context.console.say(&match context.stack {
            Some(_) => {
                format!("{waiting} to be sent, which the stack does. This watches it:\n  {}", see(context, &run))
            }
            None => format!(
                "{waiting} to be sent. This does it, again and again:\n  {}\nor this, once for each file:\n  {}",
                see(context, "tick"),
                see(context, &run),
            ),
        })?;
    }
    if refused.is_empty() { Ok(Exit::Done) } else { Err(Stop::Usage(refused.join("\n"))) }
}

fn intake_json(file: &Path, landed: &Landed) -> serde_json::Value {
    let intake = &landed.intake;
    json!({
        "file": file.display().to_string(), "sha256": intake.sha256, "lines": intake.lines,
        "bad_lines": if landed.before { None } else { Some(landed.bad_lines) }, "before": landed.before,
        "unsent": landed.unsent,
    })
}

fn landing_table(landings: &[(&std::path::PathBuf, Landed)]) -> String {
    let mut rows = table(&["file", "lines", "bad lines", "sha256", ""]);
    for (file, landed) in landings {
        let bad = if landed.before { String::new() } else { landed.bad_lines.to_string() };
        let before = if landed.before { "was here before" } else { "" };
        rows.add_row(low_row(
            [
                plain(&file.display().to_string()),
                landed.intake.lines.to_string(),
                bad,
                landed.intake.sha256.chars().take(12).collect(),
                before.to_owned(),
            ],
            3,
        ));
    }
    align_right(&mut rows, [1, 2]);
    text(rows)
}

/// Tells what the landing of a file found, on standard error.
pub fn report_landing(context: &Context, file: &Path, landed: &Landed) {
    let console = &context.console;
    for bad in &landed.bad {
        console.note(bad);
    }
    let untold = landed.bad_lines.saturating_sub(landed.bad.len() as u64);
    if untold > 0 {
        console.note(&format!("{}: and {} more", file.display(), count(untold, "bad line")));
    }
    if landed.bad_lines > 0 {
        console.note(&format!(
            "{}: {}; the other lines go on",
            file.display(),
            if landed.bad_lines == 1 {
                "1 bad line is kept as a dead letter".to_owned()
            } else {
                format!("{} bad lines are kept as dead letters", landed.bad_lines)
            },
        ));
    }
    if landed.begins_badly {
        console.note(&format!("{}: each line must be one whole JSON object", file.display()));
    }
    if !landed.unsent.is_empty() {
        let fields: Vec<&str> = landed.unsent.iter().map(String::as_str).collect();
        console.note(&format!(
            "{}: kept, part of the job's key, and not sent to Gemini: {}",
            file.display(),
            fields.join(", ")
        ));
    }
    if let Some(reason) = &landed.intake.cancelled {
        console.note(&format!(
            "{}: this file was cancelled ({reason}): lines that had not been sent are discarded",
            file.display()
        ));
    }
}

/// Does what is due, once.
pub async fn tick(context: &Context, args: &Tick) -> Result<Exit, Stop> {
    let desk = open::work_on(context, &args.work.simulate, args.work.on_result.as_deref()).await?;
    interruptible(&desk.engine, &context.console, tick_once(context, &desk)).await
}

async fn tick_once(context: &Context, desk: &Desk) -> Result<Exit, Stop> {
    let engine = &desk.engine;
    let until = engine.clock.now().plus(TICK);
    if let Some(inbox) = &desk.inbox {
        // What can't be taken stays in the inbox and keeps nothing else from being done.
        if let (_, Some(trouble)) = empty(engine, &**inbox, &HandedOver::default(), until).await {
            context.console.warn(&format!("a file stays in the inbox: {trouble}"));
        }
    }
    let (ticked, cut_short) = match tick::tick(engine, until).await {
        Ok(ticked) => (ticked, None),
        Err(Trouble::Passing(why)) => (tick::Ticked::default(), Some(why)),
        Err(stop) => return Err(stop.into()),
    };
    let status = report::status(engine).await?;
    let gates = all_gates(engine).await?;
    let held: Vec<String> = gates.iter().filter_map(|gate| closed(context, gate, status.at)).collect();
    context.console.tell(&json!({
        "stepped": ticked.collected.stepped, "events": ticked.followed.messages, "consumed": ticked.consumed(),
        "sent": ticked.submitted.first, "sent_again": ticked.submitted.again, "lines": ticked.submitted.lines,
        "waiting": status.waiting, "next_due": status.next_due.map(|due| due.to_string()),
    }))?;
    context.console.say(&format!(
        "{} looked at, {} consumed, {} sent, {} sent again.\n{} not taken up yet. {}",
        count(ticked.collected.stepped + ticked.followed.messages, "job"),
        ticked.consumed(),
        ticked.submitted.first,
        ticked.submitted.again,
        count(status.waiting, "line"),
        next(&status, !held.is_empty()).unwrap_or_else(|| match status.next_due {
            Some(_) => "The rest is held up.".to_owned(),
            None => "Nothing is left to do.".to_owned(),
        }),
    ))?;
    for held in held {
        context.console.note(&wrapped(&format!("held up: {held}")));
    }
    if let Some(why) = cut_short {
        context.console.warn(&format!("the tick ended early ({why}); the next one goes on"));
    }
    if engine.is_stopping() {
        return Ok(Exit::Interrupted);
    }
    match unmended(engine, status.at).await? {
        Some(why) => Err(Stop::Person(why)),
        None => Ok(Exit::Done),
    }
}

/// What only a person can mend with this very key. It is told by each tick, and not only by the one that met it: who
/// reads cron's mails must not take the silence after the first for the end of it.
async fn unmended(engine: &Engine, now: Millis) -> Result<Option<String>, Stop> {
    let closed = closed_gates(engine).await?;
    let unmended = closed.iter().find(|gate| gate.needs_person && gate.until.is_some_and(|until| until > now));
    Ok(unmended.map(|gate| {
        let class = gate.class.as_deref().unwrap_or_default();
        operator_message(engine, engine.gemini.creates_as(), class, gate.message.as_deref().unwrap_or_default())
    }))
}
