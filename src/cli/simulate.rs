//! `simulator`: Gemini as a server on this machine.

use std::sync::Arc;

use serde_json::json;

use super::args::Simulator;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::signal::Signals;
use crate::adapters::system::{SystemClock, SystemIds};
use crate::ports::ids::Ids;
use crate::simulator::{Config, JournalConfig};

/// Runs it until Ctrl-C.
pub async fn simulator(context: &Context, args: &Simulator) -> Result<Exit, Stop> {
    let config = Config {
        seed: args.seed,
        latency: args.latency,
        polls_until_done: args.polls,
        faults: open::faults(&args.faults)?,
        journal: args.journal.clone().map(|path| JournalConfig { path, writer: SystemIds.token() }),
        answer_bytes: args.answer_bytes,
        batch_expiry: Some(args.batch_expiry),
        batch_jobs: args.batch_jobs,
        enqueued_tokens: args.batch_tokens,
        event_late: args.event_late,
        event_retry: args.event_retry,
        ..Config::default()
    };
    let mut signals = Signals::catch()?;
    let running = open::start(args.port, config, Arc::new(SystemClock)).await?;
    context.console.tell(&json!({"base_url": running.base_url()}))?;
    context.console.say(&running.base_url())?;
    signals.next().await;
    let stopped = running.stop().await;
    stopped.map_err(|error| Stop::Person(format!("the simulator ended badly: {error}")))?;
    Ok(Exit::Done)
}
