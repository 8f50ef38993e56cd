//! A queue that forgets messages after 14 days, as SQS does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gleaner::domain::time::Millis;
use gleaner::ports::clock::Clock;
use gleaner::ports::queue::{Message, Queue, QueueError};

use crate::world::HOUR;

/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);

/// Another queue, and when each message was sent.
#[derive(Debug)]
pub struct Forgetful {
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    sent: Mutex<BTreeMap<String, Millis>>,
    pub forgotten: AtomicU64,
}

impl Forgetful {
    pub fn new(queue: Arc<dyn Queue>, clock: Arc<dyn Clock>) -> Self {
        Self { queue, clock, sent: Mutex::default(), forgotten: AtomicU64::new(0) }
    }

    fn is_forgotten(&self, message: &Message) -> bool {
        let now = self.clock.now();
        // One that was sent before this was made counts as sent when it is first seen.
        let sent = *self.sent.lock().unwrap().entry(message.body.clone()).or_insert(now);
        now.since(sent) >= KEPT
    }
}

#[async_trait]
impl Queue for Forgetful {
    async fn send(&self, bodies: &[String]) -> Vec<Result<(), QueueError>> {
        for body in bodies {
            self.sent.lock().unwrap().insert(body.clone(), self.clock.now());
        }
        self.queue.send(bodies).await
    }

    async fn receive(&self, limit: usize, hidden: Duration) -> Result<Vec<Message>, QueueError> {
        loop {
            let (old, kept): (Vec<_>, Vec<_>) =
                self.queue.receive(limit, hidden).await?.into_iter().partition(|message| self.is_forgotten(message));
            self.forgotten.fetch_add(old.len() as u64, Ordering::SeqCst);
            self.queue.delete(&old).await.into_iter().for_each(|deleted| deleted.unwrap());
            if !kept.is_empty() || old.is_empty() {
                return Ok(kept);
            }
        }
    }

    async fn delete(&self, messages: &[Message]) -> Vec<Result<(), QueueError>> {
        self.queue.delete(messages).await
    }

    async fn release(&self, message: &Message) -> Result<(), QueueError> {
        self.queue.release(message).await
    }
}

#[tokio::test]
async fn it_forgets_to_the_millisecond() {
    let world = crate::world::World::new(&[]).await;
    let queue = Forgetful::new(world.engine.dead_letters.clone(), world.clock.clone());
    queue.send(&["a".to_owned(), "b".to_owned()]).await.into_iter().for_each(|sent| sent.unwrap());
    world.advance(KEPT - Duration::from_millis(1));
    let received = queue.receive(10, HOUR).await.unwrap();
    assert_eq!(received.len(), 2);
    for message in &received {
        queue.release(message).await.unwrap();
    }
    world.advance(Duration::from_millis(1));
    assert_eq!(queue.receive(10, HOUR).await.unwrap(), []);
    assert_eq!(queue.forgotten.load(Ordering::SeqCst), 2);
}
