//! Writes that share one transaction: each is judged by itself, one commit makes all of them durable. And forgetting,
//! which has one of its own.

use rusqlite::{CachedStatement, Connection, OptionalExtension, named_params, params};

use super::row::{Row, Stored, Tallies};
use super::turn::Turn;
use super::writes::{Verdict, Write};

/// Where a transaction broke. Nothing of it was written.
#[derive(Debug)]
pub enum Broken {
    /// One of the writes broke it; the others may go through without that one.
    InAWrite(rusqlite::Error),
    /// It could not begin or commit.
    Whole(rusqlite::Error),
}

/// Makes all of `writes` durable together, and says what became of each, in their order.
pub fn commit(connection: &Connection, turn: &Turn, writes: &[Write]) -> Result<Vec<Verdict>, Broken> {
    transact(connection, turn, |tallies| writes.iter().map(|write| judge(connection, write, tallies)).collect())
}

/// Deletes at most `limit` items that have expired at `now`, those that did first first, and says how many.
pub fn forget(connection: &Connection, turn: &Turn, now: i64, limit: i64) -> Result<u64, Broken> {
    transact(connection, turn, |tallies| {
        let mut statement = prepared(connection, FORGET)?;
        let mut forgotten = statement.query([now, limit])?;
        let mut count = 0;
        while let Some(found) = forgotten.next()? {
            let words = |column| found.get::<_, String>(column);
            let (intake, kind, state) = (words("intake")?, words("kind")?, words("state")?);
            tallies.add(&intake, &kind, &state, -1, found.get("possible_duplicates")?);
            count += 1;
        }
        Ok(count)
    })
}

/// No item that expires has a handle. Parameters: now, limit.
pub const FORGET: &str = "DELETE FROM items
    WHERE rowid IN (SELECT rowid FROM items WHERE expires <= ?1 ORDER BY expires LIMIT ?2)
    RETURNING kind, state, intake, possible_duplicates";

/// Runs `work` in a transaction that is durable when this returns, tallies included.
fn transact<T>(
    connection: &Connection,
    turn: &Turn,
    work: impl FnOnce(&mut Tallies) -> rusqlite::Result<T>,
) -> Result<T, Broken> {
    let outcome = attempt(connection, turn, work);
    // Some errors end the transaction by themselves and others leave it open.
    if outcome.is_err()
        && !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction of the ledger could not be rolled back");
    }
    outcome
}

fn attempt<T>(
    connection: &Connection,
    turn: &Turn,
    work: impl FnOnce(&mut Tallies) -> rusqlite::Result<T>,
) -> Result<T, Broken> {
    let run = |sql| prepared(connection, sql).and_then(|mut statement| statement.execute([]));
    turn.take(|| run("BEGIN IMMEDIATE")).map_err(Broken::Whole)?;
    let mut tallies = Tallies::default();
    let done = work(&mut tallies);
    let done = done.and_then(|done| tally(connection, &tallies).map(|()| done)).map_err(Broken::InAWrite)?;
    run("COMMIT").map_err(Broken::Whole)?;
    Ok(done)
}

fn prepared<'c>(connection: &'c Connection, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
    connection.prepare_cached(sql)
}

/// What is there already, as far as a write is judged by it.
struct Before {
    rev: String,
    kind: String,
    state: String,
    intake: String,
    possible_duplicates: i64,
}

fn judge(connection: &Connection, write: &Write, tallies: &mut Tallies) -> rusqlite::Result<Verdict> {
    let row = &write.row;
    let before = before(connection, &row.id)?;
    match (before, &write.read) {
        // The very same call has been made before: SQLite said it failed, or the caller didn't wait for the answer.
        (Some(before), _) if before.rev == row.rev => return Ok(Verdict::Written),
        (None, None) => {
            insert(connection, row)?;
        }
        (Some(before), Some(read)) if before.rev == read.0 => {
            update(connection, row)?;
            tallies.add(&before.intake, &before.kind, &before.state, -1, before.possible_duplicates);
        }
        (Some(_), _) => {
            return Ok(Verdict::InTheWay(Some(stored(connection, &row.id)?)));
        }
        (None, Some(_)) => return Ok(Verdict::InTheWay(None)),
    }
    tallies.add(&row.intake, row.kind, row.state, 1, row.possible_duplicates);
    for handle in &row.handles {
        record(connection, handle, &row.id)?;
    }
    Ok(Verdict::Written)
}

fn before(connection: &Connection, id: &str) -> rusqlite::Result<Option<Before>> {
    prepared(connection, "SELECT rev, kind, state, intake, possible_duplicates FROM items WHERE id = ?1")?
        .query_row([id], |found| {
            Ok(Before {
                rev: found.get(0)?,
                kind: found.get(1)?,
                state: found.get(2)?,
                intake: found.get(3)?,
                possible_duplicates: found.get(4)?,
            })
        })
        .optional()
}

fn stored(connection: &Connection, id: &str) -> rusqlite::Result<Stored> {
    prepared(connection, "SELECT id, doc FROM items WHERE id = ?1")?
        .query_row([id], |found| Ok(Stored { id: found.get(0)?, doc: found.get(1)? }))
}

fn insert(connection: &Connection, row: &Row) -> rusqlite::Result<()> {
    let sql = "INSERT INTO items (id, kind, state, rev, due_at, since, intake, possible_duplicates, doc, expires)
               VALUES (:id, :kind, :state, :rev, :due_at, :since, :intake, :possible_duplicates, :doc, :expires)";
    store(connection, sql, row)
}

fn update(connection: &Connection, row: &Row) -> rusqlite::Result<()> {
    let sql = "UPDATE items SET kind = :kind, state = :state, rev = :rev, due_at = :due_at, since = :since,
               intake = :intake, possible_duplicates = :possible_duplicates, doc = :doc, expires = :expires WHERE id = :id";
    store(connection, sql, row)
}

fn store(connection: &Connection, sql: &str, row: &Row) -> rusqlite::Result<()> {
    prepared(connection, sql)?.execute(named_params! {
        ":id": row.id,
        ":kind": row.kind,
        ":state": row.state,
        ":rev": row.rev,
        ":due_at": row.due_at,
        ":since": row.since,
        ":intake": row.intake,
        ":possible_duplicates": row.possible_duplicates,
        ":doc": row.doc,
        ":expires": row.expires,
    })?;
    Ok(())
}

/// Writes down whose handle it is; the first item to have it keeps it.
fn record(connection: &Connection, handle: &str, id: &str) -> rusqlite::Result<()> {
    let owner: Option<String> = prepared(connection, "SELECT id FROM handles WHERE handle = ?1")?
        .query_row([handle], |found| found.get(0))
        .optional()?;
    match owner {
        None => {
            prepared(connection, "INSERT INTO handles (handle, id) VALUES (?1, ?2)")?.execute([handle, id])?;
        }
        Some(owner) if owner == id => {}
        Some(owner) => tracing::warn!(handle, id, owner, "two items have the same handle; it stays with the first"),
    }
    Ok(())
}

fn tally(connection: &Connection, tallies: &Tallies) -> rusqlite::Result<()> {
    let mut statement = prepared(
        connection,
        "INSERT INTO tallies (intake, kind, state, items, possible_duplicates) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET items = items + excluded.items,
             possible_duplicates = possible_duplicates + excluded.possible_duplicates",
    )?;
    for ((intake, kind, state), (items, possible_duplicates)) in &tallies.0 {
        if (*items, *possible_duplicates) != (0, 0) {
            statement.execute(params![intake, kind, state, items, possible_duplicates])?;
        }
    }
    Ok(())
}
