//! The command line: arguments in, calls to [`app`](crate::app), text out.

mod args;
mod cancel;
mod console;
mod dead;
mod discard;
mod find;
mod help;
mod hint;
mod import_seed;
mod open;
mod outcome;
mod pause;
mod progress;
mod replay;
mod results;
mod row;
mod run;
mod show;
mod signal;
mod simulate;
mod status;
mod submit;
mod summary;
mod table;
mod webhook;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use self::args::{Args, Command};
use self::console::Console;
use self::open::Context;
use self::outcome::{Exit, Stop};
use crate::adapters::local::command;
use crate::app::settings::unknown;

/// Runs the program with the process's own arguments, environment and standard streams.
#[must_use]
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let console = Console::new(args.json);
    match start(args, &console) {
        Ok(exit) => exit.code(),
        Err(stop) => {
            console.error(&stop.to_string());
            stop.code()
        }
    }
}

/// Help, the version, or arguments that can't be used: in clap's words.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Whoever reads has seen enough.
        Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

fn start(args: Args, console: &Console) -> Result<Exit, Stop> {
    console.start_logs()?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    // A command that a hand-over runs may well be this program again.
    for name in unknown(names).into_iter().filter(|name| ![command::ID, command::RESULT].contains(&name.as_str())) {
        console.warn(&format!("there is no setting {name}: is it misspelt? `gleaner --help` has them all"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Person(format!("no threads can be started: {error}")))?;
    runtime.block_on(dispatch(args, console))
}

async fn dispatch(args: Args, console: &Console) -> Result<Exit, Stop> {
    let context = Context::new(args.data, args.stack, console);
    let context = &context;
    match args.command {
        Command::Run(args) => run::run(context, &args).await,
        Command::Submit(args) => submit::submit(context, &args).await,
        Command::Tick(args) => submit::tick(context, &args).await,
        Command::Status => status::status(context).await,
        Command::Show(args) => show::show(context, &args).await,
        Command::Dead(args) => dead::dead(context, &args).await,
        Command::Replay(args) => replay::replay(context, &args).await,
        Command::Discard(args) => discard::discard(context, &args).await,
        Command::Summary => summary::summary(context).await,
        Command::Pause(args) => pause::pause(context, &args).await,
        Command::Row(args) => row::row(context, &args).await,
        Command::Results(args) => results::results(context, &args).await,
        Command::Resume(args) => pause::resume(context, &args).await,
        Command::Cancel(args) => cancel::cancel(context, &args).await,
        Command::Webhook(args) => webhook::webhook(context, &args.command).await,
        Command::ImportSeed(args) => import_seed::import_seed(context, &args).await,
        Command::Simulator(args) => simulate::simulator(context, &args).await,
    }
}
