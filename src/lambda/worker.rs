//! The worker: one message of the work queue at a time, brought on as far as its time allows.

use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Error;
use serde_json::Value;
use tracing::{error, info};

use super::{Event, Service};
use crate::app::engine::Engine;
use crate::app::work::{Work, work};
use crate::domain::time::Millis;

/// The longest that one invocation takes lines: Lambda's own limit is shorter.
const LONGEST: Duration = Duration::from_secs(3600);

/// Serves a batch of messages. Those that met trouble are named in the answer and come again; the others are done with.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let batch: SqsEvent = serde_json::from_str(event.payload.get())?;
    let until = service.until(event.context.deadline, LONGEST)?;
    let (engine, no_gemini) = service.engine().await?;
    let mut answer = SqsBatchResponse::default();
    for message in &batch.records {
        let outcome = match &no_gemini {
            None => bring_on(service, &engine, message, until).await,
            Some(why) => Err(why.to_string().into()),
        };
        if let Err(error) = outcome {
            error!(message.id = message.message_id, %error, "the message comes again");
            let mut failure = BatchItemFailure::default();
            // A failure without a name would have Lambda repeat the whole batch, which is right then.
            failure.item_identifier = message.message_id.clone().unwrap_or_default();
            answer.batch_item_failures.push(failure);
        }
    }
    Ok(serde_json::to_value(answer)?)
}

async fn bring_on(service: &Service, engine: &Engine, message: &SqsMessage, until: Millis) -> Result<(), Error> {
    let parts = service.parts()?;
    let body = message.body.as_deref().unwrap_or_default();
    let body = parts.work_queue.open(body).await?;
    let named: Work = serde_json::from_str(&body).map_err(|error| format!("it names no work: {error}"))?;
    work(engine, &*parts.inbox, &named, until).await?;
    info!(work = ?named, "worked");
    Ok(())
}
