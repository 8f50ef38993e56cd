//! The ledger in one DynamoDB table, with two sparse indexes.
//!
//! - An **item** lies under its id as native attributes, so that a person can read it in the console. One of an ordinary
//!   interaction stays under 1 KB all its life: each write of it costs one unit, and what its indexes cost.
//! - What [expires](Item::expires) carries the time in the attribute **`expires_at`**, by which DynamoDB deletes it. No
//!   job does: its key names it for ever.
//! - The index **`due`** holds what [is listed](State::is_listed): by state (in four shards, for DynamoDB writes at
//!   most 1000 entries a second under one key) and due time. A closed job has left it and costs nothing any more.
//! - The index **`handle`** finds a job by what Gemini calls it. The job's item is in it with its first handle; each
//!   further one has an item of its own, a carrier.
//!
//! Reads by id are consistent. Indexes follow the items within moments and promise no more: what they name is read by
//! its id before anybody sees it.
//!
//! The table is made by the stack's template, never by this program: hash key `pk` (S); index `due` with hash `open` (S),
//! range `due` (N) and the attribute `since` included; index `handle` with hash `handle` (S), keys only.

mod attributes;
mod batch;
mod due;
mod fault;
mod handles;
mod lane;
mod listing;
mod spent;
mod table;
mod writes;

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;

pub use self::spent::{Operation, Spent, Units};

use self::listing::Listings;
use self::table::Table;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Rev, State};
use crate::domain::time::Millis;
use crate::ports::ledger::{Counts, CreateError, Ledger, LedgerError, Place, ReplaceError, Total};

/// The ledger of one stack.
///
/// When two jobs have the same handle, [`by_handle`](Ledger::by_handle) answers with the one that wrote it down first.
#[derive(Debug)]
pub struct DynamoLedger {
    table: Table,
    listings: Listings,
}

impl DynamoLedger {
    /// The ledger in the table of that name. Nothing is asked yet.
    ///
    /// The client should be made from a [tuned](super::tuned) configuration: it asks again by itself when it is
    /// throttled, and only then is a caller told [`LedgerError::Busy`].
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { table: Table::new(client, table), listings: Listings::default() }
    }

    /// The same ledger, summing up in `spent` what its calls cost.
    #[must_use]
    pub fn counting(mut self, spent: Arc<Spent>) -> Self {
        self.table.count_in(spent);
        self
    }

    /// The same ledger, keeping no more than so many entries of the index for the next pages of a listing.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn keeping(mut self, entries: usize) -> Self {
        self.listings.keep_at_most(entries);
        self
    }

    /// The name of its table.
    #[must_use]
    pub fn table(&self) -> &str {
        self.table.name()
    }
}

#[async_trait]
impl Ledger for DynamoLedger {
    async fn create(&self, item: &Item) -> Result<(), CreateError> {
        writes::create(&self.table, item).await
    }

    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
        writes::replace(&self.table, read, item).await
    }

    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError> {
        batch::get(&self.table, id).await
    }

    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError> {
        batch::get_many(&self.table, ids.iter().cloned()).await
    }

    /// Asks the index for every state and shard at once: 4 requests a state, more when much is due.
    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
        due::due(&self.table, states, now, limit).await
    }

    /// Asks the index for the first entry of every state and shard: 4 requests a state.
    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError> {
        due::next_due(&self.table, states).await
    }

    /// The index is not in the order of a listing, so that the first page reads the state's part of it to the end:
    /// about one read unit for 100 entries. The pages after it, within a minute, go on from what was read then.
    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError> {
        self.listings.in_state(&self.table, state, after, limit).await
    }

    /// Reads the index to the end: about one read unit for 100 items that are listed. Read intakes, whose number grows
    /// for ever, are not counted.
    async fn counts(&self) -> Result<Counts, LedgerError> {
        listing::counts(&self.table).await
    }

    /// None: a total would have to be changed with each write, by all who write at once.
    async fn totals(&self, _intake: &str) -> Result<Option<Vec<Total>>, LedgerError> {
        Ok(None)
    }

    /// The index shows a handle moments after it was written down.
    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError> {
        handles::by_handle(&self.table, handle).await
    }

    /// DynamoDB does so by itself, by the attribute `expires_at`, within a few days
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html>). Until then an item that has expired
    /// is there, and read and replaced like any other: that it is forgotten saves room and decides nothing. An event
    /// that is known for longer is a duplicate for longer, which is what it is; the time in which it can come again is
    /// bounded by its signature.
    async fn forget(&self, _now: Millis, _limit: usize) -> Result<u64, LedgerError> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
