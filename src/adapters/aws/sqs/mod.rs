//! Queues in SQS.
//!
//! A body that SQS would not take (too long, empty, or with characters that it refuses) is kept as an object
//! `messages/<sha256>.json`, and `{"gleaner_object": "messages/…"}` is sent in its place. Objects are never
//! removed by the queue: a message may come twice, and two messages may share one. A lifecycle rule may remove them, but
//! not before the last message that points at them can be gone: a message that is sent again with the same body points at
//! the old object.

mod batch;
mod pointer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{Message as Received, MessageSystemAttributeName};

use self::batch::{Doing, MOST, Outcomes};
pub use self::pointer::open;
use super::fault::bare;
use crate::ports::objects::{ObjectError, Objects};
use crate::ports::queue::{Message, Queue, QueueError};

/// What SQS says of a message that nobody holds any more.
const NOT_AVAILABLE: &str = "does not exist or is not available for visibility timeout change";

/// The longest time that SQS hides a message.
const LONGEST_HIDDEN: Duration = Duration::from_secs(12 * 3600);

/// One queue in SQS.
///
/// When the object of a pointer is out of reach, [`receive`](Queue::receive) leaves that message out: it stays hidden and
/// comes again. When the object is no more, or not what was sent, the message comes with the pointer as its body, and the
/// log says so: whoever reads it can't take it for another one, and it ends as any message that can't be read.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
    objects: Option<Arc<dyn Objects>>,
}

impl SqsQueue {
    /// The queue at `url`; `objects` keeps the bodies that SQS would not take.
    #[must_use]
    pub const fn new(client: Client, url: String, objects: Arc<dyn Objects>) -> Self {
        Self { client, url, objects: Some(objects) }
    }

    /// The queue at `url`, for who sends only bodies that SQS takes as they are, and receives none. Others are refused.
    #[must_use]
    pub const fn without_objects(client: Client, url: String) -> Self {
        Self { client, url, objects: None }
    }

    async fn closed(&self, body: &str) -> Result<String, QueueError> {
        match &self.objects {
            Some(objects) => Ok(pointer::close(&**objects, body).await?),
            None if pointer::fits(body) => Ok(body.to_owned()),
            None => Err(QueueError::NeedsPerson(format!("a message of {} bytes can't be sent from here", body.len()))),
        }
    }

    async fn receive_batch(&self, limit: usize, hidden: i32) -> Result<Vec<Received>, QueueError> {
        let request = self.client.receive_message().queue_url(&self.url).wait_time_seconds(0);
        let request = request.max_number_of_messages(i32::try_from(limit.min(MOST)).unwrap_or(1));
        let request = request.visibility_timeout(hidden);
        let request = request.message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        let answer = request.send().await.map_err(|error| self.fault("receiving from", &error))?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// The message as it was sent. None: its object is out of reach.
    async fn opened(&self, received: Received) -> Result<Option<Message>, ObjectError> {
        let (Some(receipt), Some(body)) = (received.receipt_handle, received.body) else {
            tracing::error!(queue = self.url, id = received.message_id, "SQS sent a message without receipt or body");
            return Ok(None);
        };
        let receives = received
            .attributes
            .and_then(|attributes| attributes.get(&MessageSystemAttributeName::ApproximateReceiveCount)?.parse().ok());
        let message = |body| Some(Message { body, receipt, receives: receives.unwrap_or(1) });
        let Some(objects) = &self.objects else { return Ok(message(body)) };
        match open(&**objects, body.clone()).await {
            Ok(body) => Ok(message(body)),
            Err(ObjectError::NotFound(name)) => {
                tracing::error!(queue = self.url, object = name, "the body of a message is no more");
                Ok(message(body))
            }
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Queue for SqsQueue {
    /// Messages whose sending fails for the queue as a whole (no permission, out of reach) end the call: those that come
    /// after them are not tried and have the same error.
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        let mut outcomes = Outcomes::of(bodies.len());
        let mut waiting = Vec::new();
        for (at, body) in bodies.iter().enumerate() {
            match self.closed(body).await {
                Ok(body) => waiting.push((at, body)),
                Err(error) => outcomes.settle(at, Err(error)),
            }
        }
        self.settle_all(Doing::Send, waiting, &mut outcomes).await;
        outcomes.into_vec()
    }

    /// SQS looks in some of its servers only, so that it may bring less than there is.
    async fn receive(&self, limit: usize, hidden: Duration) -> Result<Vec<Message>, QueueError> {
        let hidden = seconds(hidden);
        let (mut messages, mut received, mut kept_back) = (Vec::new(), 0, None);
        while received < limit {
            let batch = match self.receive_batch(limit - received, hidden).await {
                Ok(batch) => batch,
                Err(error) if received == 0 => return Err(error),
                Err(error) => {
                    // Those that were received would be lost for as long as they are hidden.
                    tracing::warn!(queue = self.url, %error, "no more messages can be received for now");
                    break;
                }
            };
            if batch.is_empty() {
                break;
            }
            received += batch.len();
            for message in batch {
                match self.opened(message).await {
                    Ok(message) => messages.extend(message),
                    Err(error) => {
                        tracing::warn!(queue = self.url, %error, "a message is left until its body can be read");
                        kept_back = Some(error);
                    }
                }
            }
        }
        match kept_back {
            Some(error) if messages.is_empty() => Err(error.into()),
            _ => Ok(messages),
        }
    }

    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>> {
        let mut outcomes = Outcomes::of(messages.len());
        let receipts = messages.iter().map(|message| message.receipt.clone()).enumerate().collect();
        self.settle_all(Doing::Delete, receipts, &mut outcomes).await;
        outcomes.into_vec()
    }

    async fn release(&self, message: &Message) -> Result<(), QueueError> {
        let request = self.client.change_message_visibility().queue_url(&self.url);
        let Err(error) = request.receipt_handle(&message.receipt).visibility_timeout(0).send().await else {
            return Ok(());
        };
        // For a message that was deleted SQS has long said that a value is invalid, and why.
        let is_free = match error.code().map(bare) {
            Some("MessageNotInflight" | "ReceiptHandleIsInvalid") => true,
            Some(_) => error.message().is_some_and(|message| message.contains(NOT_AVAILABLE)),
            None => false,
        };
        if is_free {
            return Ok(());
        }
        Err(self.fault("releasing a message of", &error).into())
    }
}

impl From<ObjectError> for QueueError {
    /// What the queue says when the object of a body can't be written or read.
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Busy(why) => Self::Busy(why),
            ObjectError::NeedsPerson(why) => Self::NeedsPerson(why),
            error @ ObjectError::NotFound(_) => Self::NeedsPerson(error.to_string()),
        }
    }
}

/// Whole seconds, as SQS counts them, and never fewer than were asked for.
fn seconds(hidden: Duration) -> i32 {
    let whole = hidden.min(LONGEST_HIDDEN);
    let more = u64::from(whole.subsec_nanos() > 0);
    i32::try_from(whole.as_secs() + more).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_hidden_for_less_than_was_asked() {
        for (hidden, whole) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (u64::MAX, 43_200)] {
            assert_eq!(seconds(Duration::from_millis(hidden)), whole);
        }
    }
}
