//! Queues in SQS.
