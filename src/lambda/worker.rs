//! The worker: one message of the work queue at a time, brought on as far as its time allows.

use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Error;
use serde_json::Value;
use tracing::{error, info};

use super::service::NoGemini;
use super::{Event, Service, metrics};
use crate::adapters::aws::sqs::open;
use crate::app::engine::Engine;
use crate::app::work::{Work, work};
use crate::domain::time::Millis;

/// The longest that one invocation takes lines: Lambda's own limit is shorter.
const LONGEST: Duration = Duration::from_secs(3600);

/// Serves a batch of messages. Those that met trouble are named in the answer and come again; the others are done with.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let batch: SqsEvent = serde_json::from_str(event.payload.get())?;
    let until = service.until(event.context.deadline, LONGEST)?;
    let (engine, no_gemini) = service.engine_until(event.context.deadline).await?;
    let mut answer = SqsBatchResponse::default();
    for message in &batch.records {
        if let Err(error) = bring_on(service, &engine, no_gemini.as_ref(), message, until).await {
            error!(message.id = message.message_id, %error, "the message comes again");
            let mut failure = BatchItemFailure::default();
            // A failure without a name would have Lambda repeat the whole batch, which is right then.
            failure.item_identifier = message.message_id.clone().unwrap_or_default();
            answer.batch_item_failures.push(failure);
        }
    }
    Ok(serde_json::to_value(answer)?)
}

async fn bring_on(
    service: &Service,
    engine: &Engine,
    no_gemini: Option<&NoGemini>,
    message: &SqsMessage,
    until: Millis,
) -> Result<(), Error> {
    let parts = service.parts()?;
    let body = open(&*parts.objects, message.body.clone().unwrap_or_default()).await?;
    let named: Work = serde_json::from_str(&body).map_err(|error| format!("it names no work: {error}"))?;
    // A file can be landed without asking Gemini.
    if let (Work::Item(_) | Work::Call { .. } | Work::Event(_), Some(why)) = (&named, no_gemini) {
        return Err(why.to_string().into());
    }
    let consumed = work(engine, Some(&*parts.inbox), &named, until).await?;
    if consumed > 0 {
        metrics::print_consumed(service, consumed)?;
    }
    info!(work = ?named, "worked");
    Ok(())
}
