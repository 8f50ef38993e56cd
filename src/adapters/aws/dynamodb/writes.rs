//! Creating and replacing, each one conditional put.

use super::attributes::{self, Attributes, REV, text};
use super::handles::carry;
use super::table::{Condition, Put, Table};
use crate::domain::item::Item;
use crate::domain::job::Rev;
use crate::ports::ledger::{CreateError, LedgerError, ReplaceError};

/// Adds `item` if none of its id is there.
pub async fn create(table: &Table, item: &Item) -> Result<(), CreateError> {
    let put = write(table, item, Condition::Absent).await?;
    match met(table, item, put).await? {
        Met::Own => Ok(()),
        Met::Other(stored) => Err(CreateError::Exists(stored)),
        Met::Nothing => {
            // A person has deleted it, or its time was over: who asks again is not in the way of what isn't there.
            let why = format!("table {}: {} was in the way of a new one, and is gone now", table.name(), item.id());
            Err(LedgerError::Busy(why).into())
        }
    }
}

/// Puts `item` in place of the stored one, if that one's rev is `read`.
pub async fn replace(table: &Table, read: &Rev, item: &Item) -> Result<(), ReplaceError> {
    if item.rev() == read {
        // It would look like a call that was made before, and the change would be lost without a word.
        let message = format!("a change of {} carries the rev that it read instead of a fresh one", item.id());
        return Err(LedgerError::NeedsPerson(message).into());
    }
    let put = write(table, item, Condition::Rev(read)).await?;
    match met(table, item, put).await? {
        Met::Own => Ok(()),
        Met::Other(stored) => Err(ReplaceError::Stale(Some(stored))),
        Met::Nothing => Err(ReplaceError::Stale(None)),
    }
}

async fn write(table: &Table, item: &Item, condition: Condition<'_>) -> Result<Put, LedgerError> {
    let attributes = attributes::of(item)?;
    // First: a handle whose item can't be found is lost, a carrier that comes to nothing is not.
    carry(table, item).await?;
    table.put(attributes, condition).await
}

/// What is stored under an item's id after a put.
enum Met {
    /// The item itself: by this call, or by the same one made before and not answered.
    Own,
    /// Another version.
    Other(Box<Item>),
    /// Nothing.
    Nothing,
}

async fn met(table: &Table, item: &Item, put: Put) -> Result<Met, LedgerError> {
    let stored: Option<Attributes> = match put {
        Put::Written => return Ok(Met::Own),
        Put::Refused(Some(stored)) => Some(stored),
        // Real DynamoDB says what it met; what it doesn't say is asked.
        Put::Refused(None) => table.get(&item.id().0).await?,
    };
    let Some(stored) = stored else { return Ok(Met::Nothing) };
    if text(&stored, REV) == Some(item.rev().0.as_str()) {
        return Ok(Met::Own);
    }
    Ok(Met::Other(Box::new(attributes::read(table.name(), stored)?)))
}
