//! Requests about several messages at once, each of which may fail by itself.

use std::error::Error;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{BatchResultErrorEntry, DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};

use super::SqsQueue;
use crate::adapters::aws::backoff::pause;
use crate::adapters::aws::fault::{self, Fault, bare, passes};
use crate::ports::queue::QueueError;

/// How many messages SQS takes in one request.
pub const MOST: usize = 10;

/// The most bytes of bodies in one request: what a queue takes that was not told to take more.
const MOST_BYTES: usize = 256 << 10;

/// How often a message that failed by itself is tried in all.
const TRIES: u32 = 5;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// To take messages; their texts are bodies.
    Send,
    /// To delete messages; their texts are receipts.
    Delete,
}

/// A message of a request: its place among all that the caller handed over, and its text.
pub type Entry = (usize, String);

/// What became of each message of a request.
struct Answer {
    /// The ids of those for which it was done.
    done: Vec<String>,
    /// The others, each with its reason.
    failed: Vec<BatchResultErrorEntry>,
}

/// The outcomes of many messages, in their order.
#[derive(Debug)]
pub struct Outcomes(Vec<Option<Result<(), QueueError>>>);

impl Outcomes {
    pub fn of(messages: usize) -> Self {
        Self(vec![None; messages])
    }

    pub fn settle(&mut self, at: usize, outcome: Result<(), QueueError>) {
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(outcome);
        }
    }

    pub fn into_vec(self) -> Vec<Result<(), QueueError>> {
        let missing = || Err(QueueError::Busy("SQS did not say what became of the message".to_owned()));
        self.0.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }
}

impl SqsQueue {
    /// Makes as many requests as it takes, one after the other, until one fails as a whole: its error is that of all
    /// the messages after it too.
    pub(super) async fn settle_all(&self, doing: Doing, entries: Vec<Entry>, outcomes: &mut Outcomes) {
        let mut ended: Option<QueueError> = None;
        for batch in batches(doing, entries) {
            match &ended {
                None => ended = self.settle(doing, batch, outcomes).await.err(),
                Some(error) => fail(&batch, error, outcomes),
            }
        }
    }

    /// One request, and again about those that failed for a passing reason.
    async fn settle(&self, doing: Doing, mut batch: Vec<Entry>, outcomes: &mut Outcomes) -> Result<(), QueueError> {
        for failed in 1..=TRIES {
            let answer = self.ask(doing, &batch).await.map_err(QueueError::from);
            let answer = answer.inspect_err(|error| fail(&batch, error, outcomes))?;
            batch.retain(|(at, _)| {
                let id = at.to_string();
                if answer.done.contains(&id) {
                    outcomes.settle(*at, Ok(()));
                    return false;
                }
                // One that the answer doesn't mention is asked about again.
                let Some(entry) = answer.failed.iter().find(|entry| entry.id == id) else { return true };
                let (outcome, again) = judge(doing, entry);
                outcomes.settle(*at, outcome);
                again
            });
            if batch.is_empty() {
                break;
            }
            if failed < TRIES {
                pause(failed).await;
            }
        }
        Ok(())
    }

    async fn ask(&self, doing: Doing, batch: &[Entry]) -> Result<Answer, Fault> {
        match doing {
            Doing::Send => {
                let entries = batch.iter().map(|(at, body)| {
                    SendMessageBatchRequestEntry::builder().id(at.to_string()).message_body(body).build()
                });
                let entries = entries.collect::<Result<_, _>>().map_err(incomplete)?;
                let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
                let answer = request.send().await.map_err(|error| self.fault("sending to", &error))?;
                let done = answer.successful.into_iter().map(|entry| entry.id).collect();
                Ok(Answer { done, failed: answer.failed })
            }
            Doing::Delete => {
                let entries = batch.iter().map(|(at, receipt)| {
                    DeleteMessageBatchRequestEntry::builder().id(at.to_string()).receipt_handle(receipt).build()
                });
                let entries = entries.collect::<Result<_, _>>().map_err(incomplete)?;
                let request = self.client.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
                let answer = request.send().await.map_err(|error| self.fault("deleting from", &error))?;
                let done = answer.successful.into_iter().map(|entry| entry.id).collect();
                Ok(Answer { done, failed: answer.failed })
            }
        }
    }

    /// The error of a whole request.
    pub(super) fn fault<E>(&self, doing: &str, error: &SdkError<E>) -> Fault
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        fault::judge(&format!("{doing} {}", self.url), error)
    }
}

impl From<Fault> for QueueError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy(why) => Self::Busy(why),
            Fault::NeedsPerson(why) => Self::NeedsPerson(why),
        }
    }
}

fn incomplete(error: aws_sdk_sqs::error::BuildError) -> Fault {
    Fault::NeedsPerson(format!("a request to SQS could not be written, which is a fault of this program: {error}"))
}

fn fail(batch: &[Entry], error: &QueueError, outcomes: &mut Outcomes) {
    batch.iter().for_each(|(at, _)| outcomes.settle(*at, Err(error.clone())));
}

/// What the reason of one message means, and whether it may go away by itself.
fn judge(doing: Doing, entry: &BatchResultErrorEntry) -> (Result<(), QueueError>, bool) {
    // SQS says yes to deleting what is gone. Should it not know the receipt any more, then the message is gone too, or
    // comes again to somebody, which any message may.
    if doing == Doing::Delete && bare(&entry.code) == "ReceiptHandleIsInvalid" {
        tracing::warn!(code = entry.code, message = entry.message, "a message was not there to be deleted");
        return (Ok(()), false);
    }
    let why = format!("{}: {}", entry.code, entry.message.as_deref().unwrap_or("SQS says no more"));
    // Being throttled by the key service is called the sender's fault too.
    if entry.sender_fault && !passes(&entry.code) {
        return (Err(QueueError::NeedsPerson(format!("SQS refuses the message for good: {why}"))), false);
    }
    (Err(QueueError::Busy(why)), true)
}

/// Splits messages into requests.
fn batches(doing: Doing, entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut batches: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for (at, text) in entries {
        let size = if doing == Doing::Send { text.len() } else { 0 };
        match batches.last_mut().filter(|batch| batch.len() < MOST && bytes + size <= MOST_BYTES) {
            Some(batch) => {
                batch.push((at, text));
                bytes += size;
            }
            None => {
                batches.push(vec![(at, text)]);
                bytes = size;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_by_number_and_by_length() {
        let sizes = |doing, lengths: &[usize]| {
            let entries = lengths.iter().map(|length| "x".repeat(*length)).enumerate().collect();
            batches(doing, entries).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(Doing::Send, &[]), [0_usize; 0]);
        assert_eq!(sizes(Doing::Send, &[1; 25]), [10, 10, 5]);
        assert_eq!(sizes(Doing::Send, &[200_000, 62_144, 1]), [2, 1]);
        assert_eq!(sizes(Doing::Send, &[200_000; 3]), [1, 1, 1]);
        assert_eq!(sizes(Doing::Delete, &[200_000; 11]), [10, 1]);
    }

    #[test]
    fn the_reason_of_one_message_says_whether_it_is_tried_again() {
        let entry = |code: &str, sender_fault| {
            BatchResultErrorEntry::builder().id("0").code(code).sender_fault(sender_fault).build().unwrap()
        };
        for (doing, code, sender_fault, expected) in [
            (Doing::Send, "InternalError", false, None),
            (Doing::Send, "KMS.ThrottlingException", true, None),
            (Doing::Send, "AWS.SimpleQueueService.OverLimit", true, None),
            (Doing::Send, "InvalidMessageContents", true, Some(false)),
            (Doing::Send, "ReceiptHandleIsInvalid", true, Some(false)),
            (Doing::Delete, "ReceiptHandleIsInvalid", true, Some(true)),
            (Doing::Delete, "InvalidIdFormat", true, Some(false)),
        ] {
            let (outcome, again) = judge(doing, &entry(code, sender_fault));
            assert_eq!(again, expected.is_none(), "{code}");
            match expected {
                None => assert!(matches!(outcome, Err(QueueError::Busy(_))), "{code}"),
                Some(true) => assert_eq!(outcome, Ok(())),
                Some(false) => assert!(matches!(outcome, Err(QueueError::NeedsPerson(_))), "{code}"),
            }
        }
    }
}
