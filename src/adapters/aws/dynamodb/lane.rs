//! One state's shard in the index `due`, read page by page.

use std::collections::VecDeque;

use futures::{StreamExt, TryStreamExt, stream};

use super::attributes::{Attributes, DUE, DUE_INDEX, OPEN, PK, SHARDS, open, text, time};
use super::fault;
use super::table::{Question, Table};
use crate::domain::item::ItemId;
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::LedgerError;

/// Pages that are asked for at once.
const CALLS: usize = 16;

/// An entry of the index: a time of an item (its due time, or since when it has been in its state), and its id.
pub type Entry = (Millis, ItemId);

/// Which time of the entries is wanted, and which entries.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The attribute.
    pub time: &'static str,
    /// Only what is due at that time; none: everything, due or not.
    pub due_at: Option<Millis>,
    /// Entries of one page at most.
    pub page: Option<i32>,
}

#[derive(Debug)]
enum Next {
    First,
    After(Attributes),
    Ended,
}

/// A state's shard, as far as it was read.
#[derive(Debug)]
pub struct Lane {
    state: State,
    question: Question,
    time: &'static str,
    next: Next,
    entries: VecDeque<Entry>,
}

impl Lane {
    /// The lanes of those of `states` that are listed, each state once, nothing of them read.
    pub fn all(states: &[State], wanted: Wanted) -> Vec<Self> {
        let mut states = states.to_vec();
        states.retain(|state| state.is_listed());
        states.sort_unstable();
        states.dedup();
        let lane = |state, shard| Self {
            state,
            question: Question {
                index: DUE_INDEX,
                hash: (OPEN, open(state, shard)),
                up_to: wanted.due_at.map(|due| (DUE, due.0)),
                wanted: Some(wanted.time),
                page: wanted.page,
            },
            time: wanted.time,
            next: Next::First,
            entries: VecDeque::new(),
        };
        states.into_iter().flat_map(|state| (0..SHARDS).map(move |shard| lane(state, shard))).collect()
    }

    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The next entry.
    pub fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// Takes the next entry.
    pub fn take_first(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// Takes what was read.
    pub fn take(&mut self) -> impl Iterator<Item = Entry> {
        self.entries.drain(..)
    }

    /// Whether nothing that was read is left, although there may be more.
    fn is_dry(&self) -> bool {
        self.entries.is_empty() && !matches!(self.next, Next::Ended)
    }

    /// Reads on until there is an entry, or the end.
    async fn read_on(&mut self, table: &Table) -> Result<(), LedgerError> {
        while self.is_dry() {
            let after = match std::mem::replace(&mut self.next, Next::Ended) {
                Next::First => None,
                Next::After(key) => Some(key),
                Next::Ended => return Ok(()),
            };
            let page = table.query(&self.question, after).await?;
            self.next = page.next.map_or(Next::Ended, Next::After);
            for entry in page.entries {
                self.entries.push_back(self.entry(table, &entry)?);
            }
        }
        Ok(())
    }

    fn entry(&self, table: &Table, entry: &Attributes) -> Result<Entry, LedgerError> {
        let Some(id) = text(entry, PK) else {
            return Err(fault::unreadable(table.name(), "an entry of its index due", "its key is missing"));
        };
        let Some(time) = time(entry, self.time) else {
            let why = format!("its entry in the index {DUE_INDEX} has no {}, which the index must include", self.time);
            return Err(fault::unreadable(table.name(), id, &why));
        };
        Ok((time, ItemId(id.to_owned())))
    }
}

/// Reads on in all lanes that are dry, many at once. False: no lane was dry.
pub async fn read_on(table: &Table, lanes: &mut [Lane]) -> Result<bool, LedgerError> {
    let reads: Vec<_> = lanes.iter_mut().filter(|lane| lane.is_dry()).map(|lane| lane.read_on(table)).collect();
    if reads.is_empty() {
        return Ok(false);
    }
    stream::iter(reads).buffer_unordered(CALLS).try_for_each(|()| async { Ok(()) }).await?;
    Ok(true)
}
