//! Finding a job by what Gemini calls it.
//!
//! A job's item is in the index with its first handle, which never changes. Each further handle (a job that was sent
//! again) has a carrier: an item of two attributes, whose key tells the job. A carrier is written before the item that
//! has its handle on record, so that no handle is ever without a way to its job; one that is left over by a write that
//! didn't happen leads to a job that doesn't have the handle, and so to nothing.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use futures::{StreamExt, TryStreamExt, stream};

use super::attributes::{Attributes, HANDLE, HANDLE_INDEX, PK, handle_key, text};
use super::batch;
use super::fault;
use super::table::{Condition, Question, Table};
use crate::domain::item::{Item, ItemId};
use crate::domain::time::Millis;
use crate::ports::ledger::LedgerError;

/// What the key of a carrier begins with; no kind of item has this word.
const CARRIER: &str = "handle/";

/// Carriers written, and items of one handle read, at once: a job has a handful in all.
const CALLS: usize = 4;

/// Makes sure that every handle of `item` but the first, which the item itself carries, has a carrier. Costs nothing
/// for a job with one handle, and a read for each further one that was carried before.
pub async fn carry(table: &Table, item: &Item) -> Result<(), LedgerError> {
    let id = item.id();
    let mut keys = item.handles().filter_map(handle_key);
    let Some(first) = keys.next() else { return Ok(()) };
    let mut carriers: HashMap<String, String> =
        keys.filter(|key| *key != first).map(|key| (carrier(&id, &key), key)).collect();
    if carriers.is_empty() {
        return Ok(());
    }
    // A read costs a fifth of a write. One by one: the webhook has the right to no other reading.
    let asked: Vec<String> = carriers.keys().cloned().collect();
    let asked = stream::iter(asked).map(|pk| async move { table.get(&pk).await });
    let there: Vec<Option<Attributes>> = asked.buffer_unordered(CALLS).try_collect().await?;
    for pk in there.iter().flatten().filter_map(|there| text(there, PK)) {
        carriers.remove(pk);
    }
    let puts = carriers.into_iter().map(|(pk, key)| {
        let carrier = [(PK, pk), (HANDLE, key)].map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
        table.put(HashMap::from(carrier), Condition::None)
    });
    stream::iter(puts).buffer_unordered(CALLS).try_for_each(|_| async { Ok(()) }).await
}

fn carrier(id: &ItemId, key: &str) -> String {
    format!("{CARRIER}{id}/{key}")
}

/// The job that an entry of the index leads to: the item itself, or the one that a carrier's key tells.
fn owner(table: &Table, entry: &Attributes) -> Result<ItemId, LedgerError> {
    let Some(pk) = text(entry, PK) else {
        return Err(fault::unreadable(table.name(), "an entry of its index handle", "its key is missing"));
    };
    let Some(carried) = pk.strip_prefix(CARRIER) else { return Ok(ItemId(pk.to_owned())) };
    // An item's id is two words with a slash between; what follows the second slash may hold any characters.
    let mut slashes = carried.match_indices('/').map(|(at, _)| at);
    let id = slashes.nth(1).and_then(|end| carried.get(..end));
    id.map(|id| ItemId(id.to_owned()))
        .ok_or_else(|| fault::unreadable(table.name(), pk, "it is no carrier that this program writes"))
}

/// The job that has `handle` on record; of several, the one that wrote it down first.
pub async fn by_handle(table: &Table, handle: &str) -> Result<Option<ItemId>, LedgerError> {
    let Some(key) = handle_key(handle) else { return Ok(None) };
    let question = Question { index: HANDLE_INDEX, hash: (HANDLE, key), up_to: None, wanted: None, page: None };
    let mut owners = BTreeSet::new();
    let mut after = None;
    loop {
        let page = table.query(&question, after).await?;
        for entry in &page.entries {
            owners.insert(owner(table, entry)?);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // Almost always one. The webhook, which anybody may call, has the right to read items one by one and no other.
    let items = stream::iter(owners).map(|id| async move { batch::get(table, &id).await });
    let items: Vec<Option<Item>> = items.buffered(CALLS).try_collect().await?;
    let items = items.into_iter().flatten().collect::<Vec<_>>();
    let holders = items.iter().filter_map(|item| written_down(item, handle).map(|at| (at, item.id())));
    Ok(holders.min().map(|(_, id)| id))
}

/// When an item wrote `handle` down.
fn written_down(item: &Item, handle: &str) -> Option<Millis> {
    let Item::Job(job) = item else { return None };
    job.handle(handle).map(|record| record.at)
}
