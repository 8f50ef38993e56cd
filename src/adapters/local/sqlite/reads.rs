//! The threads that read, and the queries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, params, params_from_iter};
use tokio::sync::oneshot;

use super::fault::Fault;
use super::{file, row};
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::{Count, LedgerError, Place, Total};

/// Threads that read: a listing in one doesn't hold up the look-ups in the other.
const THREADS: usize = 2;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the threads that read. Dropping it waits until they have ended.
#[derive(Debug)]
pub struct Readers {
    queue: Option<Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
}

impl Readers {
    /// Starts the threads, each with a connection of its own.
    pub fn start(path: &Path) -> Result<Self, LedgerError> {
        let (queue, waiting) = mpsc::channel::<Read>();
        let waiting = Arc::new(Mutex::new(waiting));
        let mut readers = Self { queue: Some(queue), threads: Vec::new(), path: path.to_owned() };
        for _ in 0..THREADS {
            let connection = file::open_for_reading(path).map_err(|fault| fault.of(path))?;
            let waiting = Arc::clone(&waiting);
            readers.threads.push(spawn("ledger-reader", move || {
                while let Some(read) = next(&waiting) {
                    read(&connection);
                }
            })?);
        }
        Ok(readers)
    }

    /// Runs a query on one of the threads.
    pub async fn read<T, Q>(&self, query: Q) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        Q: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (answer, found) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            if answer.send(query(connection)).is_err() {
                tracing::debug!("nobody waits for this read any more");
            }
        });
        let queue = self.queue.as_ref().ok_or_else(|| ended(&self.path))?;
        queue.send(read).map_err(|_| ended(&self.path))?;
        found.await.map_err(|_| ended(&self.path))?.map_err(|fault| fault.of(&self.path))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue = None;
        self.threads.drain(..).for_each(|thread| join(Some(thread)));
    }
}

fn next(waiting: &Mutex<Receiver<Read>>) -> Option<Read> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Starts a thread of the ledger.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LedgerError> {
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|error| LedgerError::Busy(format!("no thread could be started for the ledger: {error}")))
}

/// Waits for the end of a thread of the ledger.
pub fn join(thread: Option<JoinHandle<()>>) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("a thread of the ledger has panicked");
    }
}

/// The error of a call whose thread is no more: it has panicked.
pub fn ended(path: &Path) -> LedgerError {
    LedgerError::NeedsPerson(format!(
        "the thread that works on {} has ended, which is a fault of this program; start it again and report it",
        path.display()
    ))
}

/// The item of that id.
pub fn get(connection: &Connection, id: &str) -> Result<Option<Item>, Fault> {
    let found = items(connection, "SELECT id, doc FROM items WHERE id = ?1", [id])?;
    Ok(found.into_iter().next())
}

/// Those of `ids` that are there, each once.
pub fn get_many(connection: &Connection, ids: &[ItemId]) -> Result<Vec<Item>, Fault> {
    let ids: BTreeSet<&str> = ids.iter().map(|id| id.0.as_str()).collect();
    let found = ids.into_iter().map(|id| get(connection, id));
    found.filter_map(Result::transpose).collect()
}

/// Items in any of `states` that are due, those due longest first.
pub fn due(connection: &Connection, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, Fault> {
    if states.is_empty() {
        return Ok(Vec::new());
    }
    let states = words(states);
    let values = [now.0, sql_limit(limit)].map(Value::from).into_iter();
    items(
        connection,
        &due_sql(states.len()),
        params_from_iter(values.chain(states.into_iter().map(|word| Value::from(word.to_owned())))),
    )
}

/// When the next item in any of `states` is due.
pub fn next_due(connection: &Connection, states: &[State]) -> Result<Option<Millis>, Fault> {
    if states.is_empty() {
        return Ok(None);
    }
    let states = words(states);
    let mut query = connection.prepare_cached(&next_due_sql(states.len()))?;
    let next = query.query_row(params_from_iter(states), |found| found.get(0)).optional()?;
    Ok(next.map(Millis))
}

/// Items in `state`, by the time they entered it and their id, after `place`.
pub fn in_state(
    connection: &Connection,
    state: State,
    place: Option<&Place>,
    limit: usize,
) -> Result<Vec<Item>, Fault> {
    let (since, id) = place.map_or((i64::MIN, ""), |place| (place.0.0, place.1.0.as_str()));
    items(connection, &in_state_sql(), params![state.word(), since, id, sql_limit(limit)])
}

/// How many items of each kind are in each state, and since when the oldest.
pub fn counts(connection: &Connection) -> Result<Vec<Count>, Fault> {
    let mut query = connection.prepare_cached(COUNTS)?;
    let mut rows = query.query([])?;
    let mut counts = Vec::new();
    while let Some(found) = rows.next()? {
        let (kind, state) = words_of(found)?;
        let oldest: Option<i64> = found.get("oldest")?;
        counts.push(Count { kind, state, items: count(found, "items")?, oldest: oldest.map(Millis) });
    }
    Ok(counts)
}

/// What the lines of an intake have become.
pub fn totals(connection: &Connection, intake: &str) -> Result<Vec<Total>, Fault> {
    // The empty name is that of the whole ledger.
    if intake.is_empty() {
        return Ok(Vec::new());
    }
    let mut query = connection.prepare_cached(TOTALS)?;
    let mut rows = query.query([intake])?;
    let mut totals = Vec::new();
    while let Some(found) = rows.next()? {
        let (kind, state) = words_of(found)?;
        let possible_duplicates = count(found, "possible_duplicates")?;
        totals.push(Total { kind, state, items: count(found, "items")?, possible_duplicates });
    }
    Ok(totals)
}

/// The item that has that handle.
pub fn by_handle(connection: &Connection, handle: &str) -> Result<Option<ItemId>, Fault> {
    let mut query = connection.prepare_cached("SELECT id FROM handles WHERE handle = ?1")?;
    Ok(query.query_row([handle], |found| found.get(0)).optional()?.map(ItemId))
}

/// Whether any item has expired at `now`.
pub fn has_expired(connection: &Connection, now: Millis) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(HAS_EXPIRED)?.query_row([now.0], |found| found.get(0))?)
}

pub const HAS_EXPIRED: &str = "SELECT EXISTS (SELECT 1 FROM items WHERE expires <= ?1)";

pub const COUNTS: &str = "SELECT kind, state, items,
        (SELECT since FROM items WHERE items.kind = tallies.kind AND items.state = tallies.state
         ORDER BY since LIMIT 1) AS oldest
    FROM tallies WHERE intake = '' AND items <> 0";

pub const TOTALS: &str = "SELECT kind, state, items, possible_duplicates FROM tallies WHERE intake = ?1 AND items <> 0";

/// One part per state, each in the order of the index, which SQLite merges without sorting: an index over due times
/// alone would make every tick step over items that are due in other states. Parameters: now, limit, the states.
pub fn due_sql(states: usize) -> String {
    let parts =
        (0..states).map(|n| format!("SELECT due_at, id, doc FROM items WHERE state = ?{} AND due_at <= ?1", n + 3));
    format!("{} ORDER BY due_at, id LIMIT ?2", union(parts))
}

/// In one statement, so that an item that changes its state meanwhile can't be missed. Parameters: the states.
pub fn next_due_sql(states: usize) -> String {
    let parts =
        (0..states).map(|n| format!("SELECT due_at FROM items WHERE state = ?{} AND due_at IS NOT NULL", n + 1));
    format!("{} ORDER BY due_at LIMIT 1", union(parts))
}

/// One part per kind, merged as above, so that the index that finds the oldest of each kind serves here too.
/// Parameters: state, since, id, limit.
pub fn in_state_sql() -> String {
    let parts = Kind::ALL.into_iter().map(|kind| {
        format!(
            "SELECT since, id, doc FROM items WHERE kind = '{}' AND state = ?1 AND (since, id) > (?2, ?3)",
            kind.word()
        )
    });
    format!("{} ORDER BY since, id LIMIT ?4", union(parts))
}

fn union(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" UNION ALL ")
}

/// A limit, as SQL takes it.
pub fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The words of `states`, each once: a state that is named twice must not bring its items twice.
fn words(states: &[State]) -> BTreeSet<&'static str> {
    states.iter().map(|state| state.word()).collect()
}

fn items(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Item>, Fault> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query(params)?;
    let mut items = Vec::new();
    while let Some(found) = rows.next()? {
        items.push(row::item(found)?);
    }
    Ok(items)
}

fn words_of(found: &rusqlite::Row<'_>) -> Result<(Kind, State), Fault> {
    let kind: String = found.get("kind")?;
    let state: String = found.get("state")?;
    Kind::from_word(&kind).zip(State::from_word(&state)).ok_or_else(|| Fault::Document {
        id: format!("the count of {kind} {state}"),
        reason: "this program doesn't know these words".to_owned(),
    })
}

fn count(found: &rusqlite::Row<'_>, column: &str) -> Result<u64, Fault> {
    let number: i64 = found.get(column)?;
    u64::try_from(number).map_err(|_| Fault::Document {
        id: format!("the count {column}"),
        reason: format!("{number} is less than nothing"),
    })
}
