//! The functions: an event in, a call to [`app`](crate::app), an answer out (design, section 8).
//!
//! One program serves all of them. Which one it is says `_HANDLER`, Lambda's name for the `Handler` of the template.

mod environment;
mod event;
mod http;
mod logs;
mod metrics;
mod replay;
mod service;
mod summary;
mod tick;
mod webhook;
mod worker;

use lambda_runtime::{Diagnostic, Error, LambdaEvent, run, service_fn};
use serde_json::value::RawValue;
use tracing::Instrument;

pub use self::environment::{Environment, Function, Parts};
pub use self::service::Service;

/// An event as it came: its very bytes count for the keys of jobs in it.
pub type Event = LambdaEvent<Box<RawValue>>;

/// Serves invocations until Lambda ends the process.
///
/// # Errors
/// An environment that nothing can be done with, which fails the function's start; its log says what to mend.
pub async fn main() -> Result<(), Error> {
    logs::start()?;
    // As text: the runtime would print the error's own structure.
    let environment = Environment::of_process().map_err(|error| error.to_string())?;
    let function = environment.function;
    let service = &Service::new(environment)?;
    // On the heap: what an engine does nests deeply, and each layer would hold all those below it.
    run(service_fn(|event: Event| {
        let span = tracing::info_span!("invocation", request.id = event.context.request_id);
        Box::pin(handle(service, function, event).instrument(span))
    }))
    .await
}

/// Serves one invocation.
///
/// # Errors
/// In words; Lambda then counts the invocation as failed, tries an asynchronous one again, and keeps its event.
pub async fn handle(service: &Service, function: Function, event: Event) -> Result<serde_json::Value, Diagnostic> {
    let outcome = match function {
        Function::Tick => Box::pin(tick::handle(service, &event)).await,
        Function::Worker => Box::pin(worker::handle(service, &event)).await,
        Function::Webhook => Box::pin(webhook::handle(service, &event)).await,
        Function::Replay => Box::pin(replay::handle(service, &event)).await,
        Function::Summary => Box::pin(summary::handle(service)).await,
    };
    outcome.map_err(|error| {
        tracing::error!(%error, "the invocation failed");
        Diagnostic { error_type: "gleaner".to_owned(), error_message: error.to_string() }
    })
}
