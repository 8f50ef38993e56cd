//! Queues of messages: the work queue, and the queue of dead letters that people look at (design, sections 7 and 8).

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

/// Why a queue could not be asked, or a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueueError {
    /// Busy or out of reach for now. It may have been done or not; the same call may be made again.
    #[error("the queue is out of reach: {0}")]
    Busy(String),
    /// A person must act: no such queue, no permission, a message that the queue will never take.
    #[error("{0}")]
    NeedsPerson(String),
}

/// A message that was received and is hidden from others for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What was sent.
    pub body: String,
    /// Names this receipt of it: for deleting and releasing.
    pub receipt: String,
    /// How often it was received, this time included.
    pub receives: u32,
}

/// A queue that hands each message over at least once, in no certain order.
#[async_trait]
pub trait Queue: fmt::Debug + Send + Sync {
    /// Sends messages, each durable when its own outcome is `Ok`; outcomes come in the order of `bodies`. Bodies may be
    /// any text of any size; a message may arrive twice when its sending was repeated.
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>>;

    /// At most `limit` messages that nobody else has, which are hidden from others for `hidden`. None may be there
    /// although some are: ask again.
    async fn receive(&self, limit: usize, hidden: Duration) -> Result<Vec<Message>, QueueError>;

    /// Deletes received messages for good; outcomes come in the order of `messages`. One that is gone is a success.
    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>>;

    /// Hands a received message back: others may receive it at once. One that is gone, or that nobody holds any more, is a
    /// success.
    async fn release(&self, message: &Message) -> Result<(), QueueError>;
}
