//! Items by their ids, one or many at once.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};

use super::attributes::{self, Attributes};
use super::table::Table;
use crate::adapters::aws::backoff::pause;
use crate::domain::item::{Item, ItemId};
use crate::ports::ledger::LedgerError;

/// Ids in one call: DynamoDB takes no more.
const BATCH: usize = 100;

/// Calls under way at once for one reading.
const CALLS: usize = 8;

/// How often in a row DynamoDB is asked again when it has got to nothing: for some seconds.
const TRIES: u32 = 6;

/// The longest key that DynamoDB takes, in bytes. Nothing lies under a longer one, nor under the empty one.
const LONGEST_KEY: usize = 2048;

/// The item under `id`.
pub async fn get(table: &Table, id: &ItemId) -> Result<Option<Item>, LedgerError> {
    if !can_be_key(&id.0) {
        return Ok(None);
    }
    table.get(&id.0).await?.map(|found| attributes::read(table.name(), found)).transpose()
}

/// Those of `ids` that are there, each once.
pub async fn get_many(table: &Table, ids: impl IntoIterator<Item = ItemId>) -> Result<Vec<Item>, LedgerError> {
    let found = get_raw(table, ids.into_iter().map(|id| id.0)).await?;
    found.into_iter().map(|found| attributes::read(table.name(), found)).collect()
}

/// The same for listings: one that can't be read is told in the log and left out, so that it holds up no other.
pub async fn get_readable(table: &Table, ids: impl IntoIterator<Item = ItemId>) -> Result<Vec<Item>, LedgerError> {
    let found = get_raw(table, ids.into_iter().map(|id| id.0)).await?;
    let read = found.into_iter().filter_map(|found| match attributes::read(table.name(), found) {
        Ok(item) => Some(item),
        Err(error) => {
            tracing::error!(%error, "an item is left out");
            None
        }
    });
    Ok(read.collect())
}

/// The same, unread.
pub async fn get_raw(table: &Table, ids: impl IntoIterator<Item = String>) -> Result<Vec<Attributes>, LedgerError> {
    let ids: BTreeSet<String> = ids.into_iter().filter(|id| can_be_key(id)).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    let batches: Vec<Vec<String>> = ids.chunks(BATCH).map(<[String]>::to_vec).collect();
    stream::iter(batches).map(|batch| get_batch(table, batch)).buffer_unordered(CALLS).try_concat().await
}

/// A batch, asked for again until DynamoDB has got to all of it.
async fn get_batch(table: &Table, mut left: Vec<String>) -> Result<Vec<Attributes>, LedgerError> {
    let mut all = Vec::new();
    let mut in_vain = 0;
    loop {
        let (found, unprocessed) = table.get_batch(&left).await?;
        all.extend(found);
        if unprocessed.is_empty() {
            return Ok(all);
        }
        // What was brought on a little gets all its tries anew.
        in_vain = if unprocessed.len() < left.len() { 1 } else { in_vain + 1 };
        left = unprocessed;
        if in_vain > TRIES {
            let why =
                format!("table {}: {} items were asked for again and again, and left out", table.name(), left.len());
            return Err(LedgerError::Busy(why));
        }
        pause(in_vain).await;
    }
}

fn can_be_key(id: &str) -> bool {
    (1..=LONGEST_KEY).contains(&id.len())
}
