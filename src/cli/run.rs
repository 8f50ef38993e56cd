//! `run`: a file taken in and driven to its end.

use serde::Serialize;

use super::args::Run;
use super::hint::{see, this_command};
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::progress::{Watch, waits_for_person};
use super::signal::interruptible;
use super::submit::report_landing;
use super::table::{align_right, count, table, text};
use crate::app::batch::report::RunProgress;
use crate::app::drive::{Drove, drive, follow};
use crate::app::engine::{Engine, Trouble};
use crate::app::gates::try_mended;
use crate::app::land::{check, hand_results_to, land};
use crate::app::report::{Progress, Tally, progress};
use crate::domain::gate::Gate;

/// Runs it.
pub async fn run(context: &Context, args: &Run) -> Result<Exit, Stop> {
    check(&args.file).await?;
    let desk = open::work(context, &args.work.simulate, args.work.on_result.as_deref()).await?;
    interruptible(&desk.engine, &context.console, drive_file(context, &desk.engine, args)).await
}

async fn drive_file(context: &Context, engine: &Engine, args: &Run) -> Result<Exit, Stop> {
    let landed = land(engine, &args.file, args.mode.map(Into::into)).await?;
    report_landing(context, &args.file, &landed);
    if let Some(command) = &args.work.on_result {
        hand_results_to(engine, landed.intake.clone(), command).await?;
    }
    try_mended(engine).await?;
    let mut watch = Watch::new(context, landed.intake.lines)?;
    let sha256 = &landed.intake.sha256;
    let show = |progress: &Progress, gates: &[Gate]| watch.show(progress, gates, engine.clock.now());
    let driven = match context.stack {
        Some(_) => follow(engine, sha256, show).await,
        None => drive(engine, sha256, show).await,
    };
    watch.end();
    match driven {
        Ok(drove) => report(context, &drove),
        Err(trouble) => fail(context, engine, &landed.intake.sha256, trouble).await,
    }
}

fn report(context: &Context, drove: &Drove) -> Result<Exit, Stop> {
    let Drove { progress, parked_elsewhere, stopped } = drove;
    print(context, progress)?;
    let console = &context.console;
    let tally = progress.tally;
    match &progress.run {
        Some(run) => console.say(&run_lines(context, run))?,
        None if tally.consumed + tally.recovered > 0 => {
            console.say(&format!("Results: {}", context.path("results/<key>.json")))?;
        }
        None => {}
    }
    if tally.possible_duplicates > 0 {
        let what = if progress.run.is_some() { "a batch of rows" } else { "a job" };
        console.say(&format!(
            "Possible duplicates: {}. That many times {what} was sent again although\nGemini may have accepted it before.",
            tally.possible_duplicates
        ))?;
    }
    let dead = tally.parked + progress.bad_lines_parked;
    match &progress.run {
        _ if dead == 0 => {}
        Some(run) => {
            let list = see(context, &format!("dead --run {}", short(&run.run.key)));
            console.say(&format!("Dead rows and bad lines: {dead}. `{list}` lists them."))?;
        }
        None => {
            let list = see(context, "dead");
            console.say(&format!("{} in all: `{list}` lists them.", count(dead, "dead letter")))?;
        }
    }
    if *parked_elsewhere > 0 {
        console.note(&format!(
            "{} of this file came with another file and ended as dead letters there: `{}` lists them.",
            count(*parked_elsewhere, "job"),
            see(context, "dead")
        ));
    }
    if let Some(wrong) = progress.wrong_sums() {
        return Err(Stop::Person(format!("the books don't add up: {wrong}. Please report this.")));
    }
    if *stopped {
        go_on(context, progress);
        return Ok(Exit::Interrupted);
    }
    if let Some(held) = progress.run.as_ref().and_then(|run| waits_for_person(context, &run.run))
        && !progress.is_over()
    {
        return Err(Stop::Person(format!("the run is {held}.")));
    }
    let untaken = progress.run.as_ref().map_or(0, RunProgress::attempts_parked);
    if untaken > 0 {
        console.note(&format!(
            "{} of the run is a dead letter: its output could not be taken, or not be handed on; `{}` tells. The same\ncommand tries again.",
            count(untaken, "attempt"),
            see(context, "dead")
        ));
    }
    Ok(if dead + parked_elsewhere + untaken > 0 { Exit::Parked } else { Exit::Done })
}

/// As much of a run's key as people need.
fn short(key: &str) -> String {
    key.chars().take(12).collect()
}

/// A run's own lines of the report.
fn run_lines(context: &Context, run: &RunProgress) -> String {
    let key = &run.run.key;
    let parts = run.parts.iter().filter(|part| !part.halved).count() as u64;
    let mut lines = format!("Run {key}: {} in all, in {}.", count(run.attempts(), "attempt"), count(parts, "part"));
    if run.tally.consumed + run.tally.recovered > 0 {
        lines.push_str(&format!("\nResults: {}", context.path(&format!("results/{key}/"))));
        let merge = see(context, &format!("results {} -o FILE", short(key)));
        lines.push_str(&format!("\nAs one file, in the order of the rows:\n  {merge}"));
    }
    lines
}

/// What there is, before the trouble itself is told.
async fn fail(context: &Context, engine: &Engine, sha256: &str, trouble: Trouble) -> Result<Exit, Stop> {
    match progress(engine, sha256).await {
        Ok(progress) => {
            print(context, &progress)?;
            go_on(context, &progress);
        }
        Err(second) => tracing::warn!(error = %second, "how far it is can't be told either"),
    }
    Err(trouble.into())
}

fn print(context: &Context, progress: &Progress) -> Result<(), Stop> {
    context.console.tell(&as_json(progress))?;
    context.console.say(&tally_table(&progress.tally, progress.run.is_some()))
}

/// The last word of `run --json` (design, section 10).
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    tally: Tally,
    #[serde(flatten)]
    run: Option<RunSummary<'a>>,
}

/// What it says of a run beside.
#[derive(Serialize)]
struct RunSummary<'a> {
    run: &'a str,
    rows: u64,
    succeeded: u64,
    dead: u64,
    attempts: u64,
}

fn as_json(progress: &Progress) -> Summary<'_> {
    let tally = progress.tally;
    let run = progress.run.as_ref().map(|run| RunSummary {
        run: &run.run.key,
        rows: run.rows(),
        succeeded: tally.consumed + tally.recovered,
        dead: tally.parked,
        attempts: run.attempts(),
    });
    Summary { tally, run }
}

fn go_on(context: &Context, progress: &Progress) {
    let what = if progress.run.is_some() { "row" } else { "job" };
    context.console.note(&format!(
        "{} open, {} not taken up yet. {}:\n  {}",
        count(progress.tally.open, what),
        count(progress.waiting(), "line"),
        if context.stack.is_some() { "The stack goes on by itself; this watches it" } else { "This goes on" },
        this_command()
    ));
}

fn tally_table(tally: &Tally, is_run: bool) -> String {
    let columns = [
        (if is_run { "rows" } else { "jobs" }, tally.jobs),
        ("consumed", tally.consumed),
        ("parked", tally.parked),
        ("recovered", tally.recovered),
        ("discarded", tally.discarded),
        ("open", tally.open),
        ("repeats", tally.repeats),
        ("bad lines", tally.bad_lines),
    ];
    let mut counts = table(&columns.map(|(name, _)| name));
    counts.add_row(columns.map(|(_, n)| n.to_string()).to_vec());
    align_right(&mut counts, 0..columns.len());
    text(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_count_and_fits() {
        let big = 1_234_567;
        let tally = Tally { jobs: big, consumed: big, repeats: big, bad_lines: 2, parked: 3, ..Tally::default() };
        insta::assert_snapshot!(tally_table(&tally, false), @r#"
   JOBS  CONSUMED  PARKED  RECOVERED  DISCARDED  OPEN  REPEATS  BAD LINES
1234567   1234567       3          0          0     0  1234567          2
"#);
    }
}
