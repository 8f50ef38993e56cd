//! Opening the file: settings, version, tables.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::PATIENCE;
use super::fault::Fault;

/// What a file is for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose {
    /// Marks it as a file of this program for this purpose (`PRAGMA application_id`).
    pub application: i32,
    /// The statements that make its tables, as the newest version has them.
    pub tables: &'static str,
    /// What brings tables of version 1 to version 2, those to version 3, …, each a batch of statements.
    pub upgrades: &'static [&'static str],
}

impl Purpose {
    /// The version of its tables (`PRAGMA user_version`): the first is 1.
    fn version(self) -> i32 {
        i32::try_from(self.upgrades.len()).map_or(i32::MAX, |upgrades| upgrades.saturating_add(1))
    }
}

/// A ledger: "glnr".
const LEDGER: Purpose = Purpose { application: 0x676c_6e72, tables: TABLES, upgrades: &[EXPIRY] };

/// The tables of a ledger.
///
/// `tallies` counts items per intake, kind and state, and once more under the intake `''` for the whole ledger. The
/// indexes hold every column that a query orders by, so that none has to sort; that of due items leaves out those
/// that are never due, so that closed items cost nothing, and that of items that expire leaves out all others.
///
/// `items` has row numbers: ids are random, and a table in the order of ids would put each new document on another
/// page (measured with groups of 16: 2.6 times as many pages in the log, and twice the processor time).
const TABLES: &str = "
CREATE TABLE items (
    id TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    rev TEXT NOT NULL,
    due_at INTEGER,
    since INTEGER NOT NULL,
    intake TEXT NOT NULL,
    possible_duplicates INTEGER NOT NULL,
    doc TEXT NOT NULL,
    expires INTEGER
) STRICT;
CREATE INDEX items_due ON items (state, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX items_in_state ON items (kind, state, since, id);
CREATE INDEX items_expires ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE handles (
    handle TEXT NOT NULL PRIMARY KEY,
    id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tallies (
    intake TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    items INTEGER NOT NULL,
    possible_duplicates INTEGER NOT NULL,
    PRIMARY KEY (intake, kind, state)
) STRICT, WITHOUT ROWID;
";

/// To version 2. No item of version 1 ever expires. A program of version 1 that has the file open meanwhile goes on: it
/// names the columns that it writes, and writes nothing that expires.
const EXPIRY: &str = "
ALTER TABLE items ADD COLUMN expires INTEGER;
CREATE INDEX items_expires ON items (expires) WHERE expires IS NOT NULL;
";

/// How long one wait for a lock is. Short, since SQLite's own waits grow to 100 ms, by when a process that writes
/// without a pause has taken the lock again.
pub const NAP: Duration = Duration::from_millis(1);

/// Opens the file of a ledger for the thread that writes; makes the tables when the file is new, and brings them up to
/// date when it is an old one.
pub fn open_for_writing(path: &Path) -> Result<Connection, Fault> {
    open_for(LEDGER, path)
}

/// Opens a file for reading and writing; makes its tables, or brings them up to date.
pub fn open_for(purpose: Purpose, path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    wait_for_locks(&mut connection)?;
    patiently(|| check_or_create(&connection, purpose))?;
    patiently(|| log_ahead(&connection))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA cache_size = -16000;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 33554432;",
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Lets the file have that many pages and no more, as far as this connection writes.
pub fn limit(connection: &Connection, pages: u32) -> Result<(), Fault> {
    Ok(connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?)
}

/// Opens a file that [`open_for_writing`] has seen to, for a thread that reads.
pub fn open_for_reading(path: &Path) -> Result<Connection, Fault> {
    // Even a reader writes into the memory that the processes share, so that a read-only connection isn't enough.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    wait_for_locks(&mut connection)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Makes the connection wait up to [`PATIENCE`] for other processes.
pub fn wait_for_locks(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(|waits: i32| {
        nap();
        u128::from(waits.unsigned_abs()) * NAP.as_millis() < PATIENCE.as_millis()
    }))
}

/// Waits for [`NAP`].
#[expect(clippy::disallowed_methods, reason = "SQLite's waiting for another process, which no test clock can move")]
pub fn nap() {
    std::thread::sleep(NAP);
}

/// Tries again while the file is locked: SQLite doesn't wait by itself where it changes the journal's mode.
fn patiently(mut attempt: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
    let tries = PATIENCE.as_millis() / NAP.as_millis();
    for _ in 0..tries {
        match attempt() {
            Err(Fault::Sqlite(error)) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => nap(),
            settled => return settled,
        }
    }
    attempt()
}

fn check_or_create(connection: &Connection, purpose: Purpose) -> Result<(), Fault> {
    if marks(connection)? == (purpose.application, purpose.version()) {
        return Ok(());
    }
    // Whatever else it is shows under the lock only: another process may be making or changing the tables right now.
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = create_or_upgrade(connection, purpose);
    if made.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    made
}

/// Makes the tables, or brings them up to date, unless another process was faster.
fn create_or_upgrade(connection: &Connection, purpose: Purpose) -> Result<(), Fault> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (marks(connection)?, tables) {
        ((application, version), _) if application == purpose.application => {
            upgrade(connection, purpose, version)?;
        }
        ((0, 0), 0) => {
            connection.execute_batch(purpose.tables)?;
            connection.pragma_update(None, "application_id", purpose.application)?;
            connection.pragma_update(None, "user_version", purpose.version())?;
        }
        _ => {
            return Err(Fault::NotOurs(
                "is a database of another program, or for another purpose; name another data folder, or move the file \
                 away if nobody needs it"
                    .to_owned(),
            ));
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}

fn upgrade(connection: &Connection, purpose: Purpose, version: i32) -> Result<(), Fault> {
    let newest = purpose.version();
    let behind = version.checked_sub(1).and_then(|done| usize::try_from(done).ok());
    let Some(to_do) = behind.and_then(|done| purpose.upgrades.get(done..)) else {
        return Err(Fault::NotOurs(format!(
            "has version {version}, and this program reads and writes version {newest}; use the newer gleaner that \
             made it"
        )));
    };
    for statements in to_do {
        connection.execute_batch(statements)?;
    }
    if version != newest {
        connection.pragma_update(None, "user_version", newest)?;
    }
    Ok(())
}

/// Whose database it is, and of which version.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get(0));
    Ok((number("application_id")?, number("user_version")?))
}

/// Turns write-ahead logging on; it stays on in the file.
fn log_ahead(connection: &Connection) -> Result<(), Fault> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Fault::NotOurs(format!(
        "lies where SQLite can't use write-ahead logging (it offers {mode}); put the data folder on a local disk"
    )))
}
