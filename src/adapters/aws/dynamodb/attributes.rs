//! From item to attributes and back.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use sha2::{Digest, Sha256};

use super::fault;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::LedgerError;

/// An item as DynamoDB holds it.
pub type Attributes = HashMap<String, AttributeValue>;

/// The hash key of the table: the item's id.
pub const PK: &str = "pk";
/// The hash key of the index [`DUE_INDEX`]: state and shard of an item that is listed.
pub const OPEN: &str = "open";
/// The range key of the index [`DUE_INDEX`]: when the item is due, [`NEVER`] when it isn't.
pub const DUE: &str = "due";
/// The hash key of the index [`HANDLE_INDEX`].
pub const HANDLE: &str = "handle";
/// The attribute that every change is conditional on.
pub const REV: &str = "rev";
/// Since when the item has been in its state; the index [`DUE_INDEX`] holds a copy.
pub const SINCE: &str = "since";

/// When DynamoDB deletes the item, in epoch seconds; only events and what they leave have it.
pub const EXPIRES_AT: &str = "expires_at";

/// The index of what is listed, by state and due time.
pub const DUE_INDEX: &str = "due";
/// The index of handles.
pub const HANDLE_INDEX: &str = "handle";

/// Parts that each state is spread over. Another number would lose sight of what was written under this one.
pub const SHARDS: u8 = 4;

/// Where an item that is listed and not due at any time stands in the index: behind every time that 64 bits can hold,
/// and yet two bytes long, for DynamoDB stores no trailing zeros.
const NEVER: &str = "100000000000000000000";

/// The longest handle that is its own key in the index: a longer one would make its job's item larger than it need be,
/// and a very long one can't be a key at all.
const LONGEST_HANDLE: usize = 128;

/// What is written for `item`: its own fields, its key, its places in the indexes, and when it is deleted.
pub fn of(item: &Item) -> Result<Attributes, LedgerError> {
    let id = item.id();
    let mut attributes: Attributes = serde_dynamo::to_item(item)
        .map_err(|error| LedgerError::NeedsPerson(format!("{id} can't be written as attributes: {error}")))?;
    if item.state().is_listed() {
        let due = item.due_at().map_or_else(|| NEVER.to_owned(), |due| due.0.to_string());
        attributes.insert(OPEN.to_owned(), AttributeValue::S(open(item.state(), shard(&id))));
        attributes.insert(DUE.to_owned(), AttributeValue::N(due));
    }
    if let Some(handle) = item.handles().find_map(handle_key) {
        attributes.insert(HANDLE.to_owned(), AttributeValue::S(handle));
    }
    if let Some(expires) = item.expires() {
        attributes.insert(EXPIRES_AT.to_owned(), AttributeValue::N(seconds_up(expires).to_string()));
    }
    attributes.insert(PK.to_owned(), AttributeValue::S(id.0));
    Ok(attributes)
}

/// Reads an item that lies in `table`. An item that can't be read, or that lies under another one's id, is an error
/// that names it.
pub fn read(table: &str, mut attributes: Attributes) -> Result<Item, LedgerError> {
    let id = match attributes.remove(PK) {
        Some(AttributeValue::S(id)) => ItemId(id),
        _ => return Err(fault::unreadable(table, "an item without an id", "its key is missing")),
    };
    for name in [OPEN, DUE, HANDLE, EXPIRES_AT] {
        attributes.remove(name);
    }
    match serde_dynamo::from_item::<_, Item>(attributes) {
        Ok(item) if item.id() == id => Ok(item),
        Ok(item) => Err(fault::unreadable(table, &id.0, &format!("it holds {}", item.id()))),
        Err(error) => Err(fault::unreadable(table, &id.0, &error.to_string())),
    }
}

/// The first whole second that is not before `time`: nothing is deleted too early.
fn seconds_up(time: Millis) -> i64 {
    time.0.div_euclid(1000) + i64::from(time.0.rem_euclid(1000) > 0)
}

/// A text attribute.
pub fn text<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    attributes.get(name).and_then(|value| value.as_s().ok()).map(String::as_str)
}

/// A time attribute.
pub fn time(attributes: &Attributes, name: &str) -> Option<Millis> {
    attributes.get(name).and_then(|value| value.as_n().ok()).and_then(|number| number.parse().ok()).map(Millis)
}

/// The key of a state's shard in the index [`DUE_INDEX`].
pub fn open(state: State, shard: u8) -> String {
    format!("{}#{shard}", state.word())
}

/// The shard of an item, the same for ever.
pub fn shard(id: &ItemId) -> u8 {
    let digest = Sha256::digest(id.0.as_bytes());
    digest.first().map_or(0, |byte| byte % SHARDS)
}

/// The key of a handle in the index [`HANDLE_INDEX`]: itself, or its digest when it is long. None for the empty one,
/// which can't be a key. Two handles of one key are told apart by reading the items.
pub fn handle_key(handle: &str) -> Option<String> {
    match handle.len() {
        0 => None,
        1..=LONGEST_HANDLE => Some(handle.to_owned()),
        _ => Some(format!("sha256:{}", hex::encode(Sha256::digest(handle.as_bytes())))),
    }
}
