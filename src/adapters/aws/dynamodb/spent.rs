//! What the ledger's calls cost, as DynamoDB tells it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use aws_sdk_dynamodb::types::ConsumedCapacity;

/// An operation of DynamoDB that the ledger uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A create, a replace, or a carrier of a handle.
    PutItem,
    /// One item by its id.
    GetItem,
    /// Up to 100 items by their ids.
    BatchGetItem,
    /// A page of an index.
    Query,
}

/// Calls that were answered, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Units {
    /// How many.
    pub calls: u64,
    /// Read units.
    pub read: f64,
    /// Write units, those of the indexes among them.
    pub write: f64,
}

/// What the calls of a ledger have cost, by operation.
///
/// A put whose condition doesn't hold is not in it: it costs as much as one that does without the indexes, and
/// DynamoDB doesn't say so.
#[derive(Debug, Default)]
pub struct Spent(Mutex<BTreeMap<Operation, Units>>);

impl Spent {
    /// What was spent so far.
    #[must_use]
    pub fn so_far(&self) -> BTreeMap<Operation, Units> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a call.
    pub(super) fn add<'a>(&self, operation: Operation, told: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units: f64 = told.into_iter().filter_map(|consumed| consumed.capacity_units).sum();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = all.entry(operation).or_default();
        sum.calls += 1;
        match operation {
            Operation::PutItem => sum.write += units,
            Operation::GetItem | Operation::BatchGetItem | Operation::Query => sum.read += units,
        }
    }
}
