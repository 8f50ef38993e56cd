//! From item to row and back.

use std::collections::HashMap;

use rusqlite::Row as Found;

use super::fault::Fault;
use crate::domain::item::{Item, ItemId};
use crate::ports::ledger::LedgerError;

/// An item as its row is written.
#[derive(Debug)]
pub struct Row {
    pub id: String,
    pub kind: &'static str,
    pub state: &'static str,
    pub rev: String,
    pub due_at: Option<i64>,
    pub since: i64,
    /// Empty for items that are of no intake.
    pub intake: String,
    pub possible_duplicates: i64,
    pub handles: Vec<String>,
    pub doc: String,
    pub expires: Option<i64>,
}

impl Row {
    /// The row of `item`.
    pub fn of(item: &Item) -> Result<Self, LedgerError> {
        let id = item.id().0;
        let doc = serde_json::to_string(item)
            .map_err(|error| LedgerError::NeedsPerson(format!("{id} can't be written as JSON: {error}")))?;
        Ok(Self {
            kind: item.kind().word(),
            state: item.state().word(),
            rev: item.rev().0.clone(),
            due_at: item.due_at().map(|due| due.0),
            since: item.since().0,
            intake: item.intake().unwrap_or_default().to_owned(),
            possible_duplicates: i64::from(item.possible_duplicates()),
            handles: item.handles().map(str::to_owned).collect(),
            expires: item.expires().map(|expires| expires.0),
            id,
            doc,
        })
    }
}

/// A stored item that hasn't been read yet.
#[derive(Debug)]
pub struct Stored {
    pub id: String,
    pub doc: String,
}

impl Stored {
    /// Reads it.
    pub fn read(&self) -> Result<Item, LedgerError> {
        parse(&self.id, self.doc.as_bytes()).map_err(|fault| LedgerError::NeedsPerson(fault.to_string()))
    }
}

/// Reads the item from the columns `id` and `doc` of a query.
pub fn item(found: &Found<'_>) -> Result<Item, Fault> {
    let doc = found.get_ref("doc")?.as_bytes().map_err(rusqlite::Error::from)?;
    let id = found.get_ref("id")?.as_str().map_err(rusqlite::Error::from)?;
    parse(id, doc)
}

fn parse(id: &str, doc: &[u8]) -> Result<Item, Fault> {
    let unreadable = |reason: String| Fault::Document { id: id.to_owned(), reason };
    let item: Item = serde_json::from_slice(doc).map_err(|error| unreadable(error.to_string()))?;
    let own = item.id();
    if own == ItemId(id.to_owned()) { Ok(item) } else { Err(unreadable(format!("it holds {own}"))) }
}

/// What the writes of a transaction change in the table `tallies`, summed up so that each row is touched once.
#[derive(Debug, Default)]
pub struct Tallies(pub HashMap<(String, String, String), (i64, i64)>);

impl Tallies {
    /// Counts `items` (1 or -1) with their possible duplicates: for the whole ledger, and for the intake if any.
    pub fn add(&mut self, intake: &str, kind: &str, state: &str, items: i64, possible_duplicates: i64) {
        self.add_one("", kind, state, items, possible_duplicates);
        if !intake.is_empty() {
            self.add_one(intake, kind, state, items, possible_duplicates);
        }
    }

    fn add_one(&mut self, intake: &str, kind: &str, state: &str, items: i64, possible_duplicates: i64) {
        let place = (intake.to_owned(), kind.to_owned(), state.to_owned());
        let (all, duplicates) = self.0.entry(place).or_default();
        *all += items;
        *duplicates += items * possible_duplicates;
    }
}
