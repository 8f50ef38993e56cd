//! The ledger: items under their ids, changed only under the rev that was read (design, sections 1, 2 and 9).

use std::fmt;

use async_trait::async_trait;
use thiserror::Error;

use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::{Rev, State};
use crate::domain::time::Millis;

/// The ledger could not be asked, or did not answer.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// Busy or out of reach for now. The change may have been made or not; the same call may be made again.
    #[error("the ledger is busy: {0}")]
    Busy(String),
    /// A person must act: a full disk, a folder that can't be written, a file that is no ledger. Nothing was changed.
    #[error("{0}")]
    NeedsPerson(String),
}

/// Why an item was not created.
#[derive(Debug, Error)]
pub enum CreateError {
    /// An item of that id is there: this one.
    #[error("{} is there already", .0.id())]
    Exists(Box<Item>),
    /// The ledger itself.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Why an item was not replaced.
#[derive(Debug, Error)]
pub enum ReplaceError {
    /// The stored rev is another one: this item is stored now, or none.
    #[error("somebody else changed the item first")]
    Stale(Option<Box<Item>>),
    /// The ledger itself.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// How many items of a kind are in a state, and the oldest time at which one of them entered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The kind.
    pub kind: Kind,
    /// The state.
    pub state: State,
    /// How many.
    pub items: u64,
    /// Since when the oldest has been in it.
    pub oldest: Option<Millis>,
}

/// How many items there are, by kind and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Every kind and state that has items.
    pub items: Vec<Count>,
    /// Whether closed states are among them. A ledger that keeps no tally of what is over counts only what
    /// [is listed](State::is_listed), intakes that are read excepted.
    pub has_closed: bool,
}

/// How many items of an intake are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Total {
    /// The kind: jobs and bad lines are of intakes.
    pub kind: Kind,
    /// The state.
    pub state: State,
    /// How many.
    pub items: u64,
    /// The sum of their possible duplicates.
    pub possible_duplicates: u64,
}

/// A place in a listing, after which the next page begins: time of entering the state, then id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(pub Millis, pub ItemId);

/// Durable items. Every method returns only after what it says is durable.
#[async_trait]
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Adds an item if none of its id is there.
    ///
    /// An item that is there with the very rev of `item` is a success: this same call has been made before.
    async fn create(&self, item: &Item) -> Result<(), CreateError>;

    /// Puts `item` in place of the stored one of its id, if that one's rev is `read`.
    ///
    /// A stored rev that is `item`'s own is a success: this same call has been made before.
    async fn replace(&self, read: &Rev, item: &Item) -> Result<(), ReplaceError>;

    /// The item of that id, as last written by anybody.
    async fn get(&self, id: &ItemId) -> Result<Option<Item>, LedgerError>;

    /// Those of `ids` that are there, each once, in any order.
    async fn get_many(&self, ids: &[ItemId]) -> Result<Vec<Item>, LedgerError>;

    /// At most `limit` items in one of `states` that are due at `now`, those due longest first.
    ///
    /// What it finds may be a moment old: act on it only under its rev.
    async fn due(&self, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError>;

    /// When the next item in one of `states` becomes due, or became.
    async fn next_due(&self, states: &[State]) -> Result<Option<Millis>, LedgerError>;

    /// At most `limit` items in `state`, those that entered it first first, after `place`. What it finds may be a
    /// moment old.
    ///
    /// A ledger that keeps no listing of closed states refuses those with [`LedgerError::NeedsPerson`]; every state
    /// that [is listed](State::is_listed) has one.
    async fn in_state(&self, state: State, after: Option<&Place>, limit: usize) -> Result<Vec<Item>, LedgerError>;

    /// Count and oldest of every kind and state that has items. The cost does not grow with closed items.
    async fn counts(&self) -> Result<Counts, LedgerError>;

    /// What the lines of an intake have become, at a cost that does not grow with the intake. None: this ledger keeps
    /// no totals; who needs them counts the items.
    async fn totals(&self, intake: &str) -> Result<Option<Vec<Total>>, LedgerError>;

    /// The item that has `handle` on record.
    async fn by_handle(&self, handle: &str) -> Result<Option<ItemId>, LedgerError>;

    /// Deletes at most `limit` items that have [expired](Item::expires) at `now`, and says how many. A ledger that does
    /// so by itself, sooner or later, answers 0.
    async fn forget(&self, now: Millis, limit: usize) -> Result<u64, LedgerError>;
}
