//! The SQLite files that the seed scripts write, read without a trace.
//!
//! Nothing is opened in its own place: SQLite makes files beside a database in WAL mode, even for one who only reads, and
//! rolls a broken-off transaction back. So the file is copied, with the `-wal` or `-journal` beside it, and the copy is
//! opened. It is copied and read again until both times show the same bytes: then the copy is of one moment.

mod copy;
mod table;

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use self::table::{Row, Table};
use crate::domain::job::clip;
use crate::ports::seed::{Entry, Refused, SeedError, SeedJob, SeedLedger, SeedLetter, SeedRow};

/// A folder for what is needed for a moment, for nobody else's eyes; removed when it is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one. `token` is random.
    ///
    /// # Errors
    /// The folder for temporary files can't be written.
    pub fn new(token: &str) -> Result<Self, SeedError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("gleaner-import-{token}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "a temporary folder stays; it may be deleted");
        }
    }
}

/// The names of the tables, and what they hold.
const TABLES: [Table; 3] = [
    Table {
        name: "dead_letter",
        key: "job_id",
        needed: &["job_id", "payload_json", "status"],
        known: &["model", "error_class", "error_message", "attempts", "first_seen", "last_seen"],
        read: letter,
    },
    Table {
        name: "jobs",
        key: "idem",
        needed: &["idem", "status"],
        known: &["handle", "submitted_at", "updated_at"],
        read: job,
    },
    Table {
        name: "rows",
        key: "key",
        needed: &["key", "payload", "status"],
        known: &["attempts", "last_error", "result", "updated_at"],
        read: row,
    },
];

/// A seed's ledger in a file.
#[derive(Debug)]
pub struct SeedFile {
    shown: String,
    connection: Connection,
}

impl SeedFile {
    /// Opens a copy of the file, made in `scratch`. Blocks.
    ///
    /// # Errors
    /// It is no database, or has none of the seeds' tables, or one without the columns that are needed; it is being
    /// written; it can't be read or copied.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, SeedError> {
        let shown = path.display().to_string();
        let copy = copy::copy(path, scratch)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(copy, flags).and_then(|connection| {
            // The first statement reads the file, and takes in what lies beside it.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(connection)
        });
        let connection = opened.map_err(|error| unreadable(&shown, &error))?;
        let file = Self { shown, connection };
        file.check()?;
        Ok(file)
    }

    /// The tables that are there, without SQLite's own.
    fn tables(&self) -> Result<Vec<String>, SeedError> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
        let found = self.connection.prepare(sql).and_then(|mut statement| {
            let names = statement.query_map([], |row| row.get(0))?;
            names.collect::<rusqlite::Result<Vec<String>>>()
        });
        found.map_err(|error| unreadable(&self.shown, &error))
    }

    fn check(&self) -> Result<(), SeedError> {
        let found = self.tables()?;
        let known: Vec<&Table> = TABLES.iter().filter(|table| found.iter().any(|name| name == table.name)).collect();
        if known.is_empty() {
            let names = TABLES.map(|table| table.name).join(", ");
            let has = if found.is_empty() { "no table".to_owned() } else { format!("the tables {}", found.join(", ")) };
            return Err(SeedError::Unusable(format!(
                "{}: no seed script's ledger: it has {has}, and none of {names}",
                self.shown
            )));
        }
        for table in known {
            let columns = self.columns(table)?;
            if let Some(missing) = table.needed.iter().find(|column| !columns.iter().any(|name| name == *column)) {
                return Err(SeedError::Unusable(format!(
                    "{}: its table {} has no column {missing}, so it is none of the seed scripts'; it has {}. Nothing was \
                     taken over",
                    self.shown,
                    table.name,
                    columns.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn columns(&self, table: &Table) -> Result<Vec<String>, SeedError> {
        let sql = "SELECT name FROM pragma_table_info(?1)";
        let found = self.connection.prepare(sql).and_then(|mut statement| {
            let names = statement.query_map([table.name], |row| row.get(0))?;
            names.collect::<rusqlite::Result<Vec<String>>>()
        });
        found.map_err(|error| unreadable(&self.shown, &error))
    }

    fn read_table(&self, table: &Table, take: &mut dyn FnMut(Entry) -> io::Result<()>) -> Result<(), SeedError> {
        let broken = |error: rusqlite::Error| unreadable(&self.shown, &error);
        let columns = self.columns(table)?;
        for unknown in columns.iter().filter(|column| !table.has(column)) {
            take(refused(table, None, format!("its column {unknown} is none of the seed scripts' and is left out")))?;
        }
        let there = |column: &&str| columns.iter().any(|name| name == column);
        let columns: Vec<&str> = table.columns().filter(there).collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        let mut statement = self.connection.prepare(&sql).map_err(broken)?;
        let mut rows = statement.query([]).map_err(broken)?;
        while let Some(found) = rows.next().map_err(broken)? {
            let row = Row { columns: &columns, row: found };
            match (table.read)(&row) {
                Ok(entry) => take(entry)?,
                Err(why) => take(refused(table, row.shown(table.key), why))?,
            }
        }
        Ok(())
    }
}

impl SeedLedger for SeedFile {
    fn read(&mut self, take: &mut dyn FnMut(Entry) -> io::Result<()>) -> Result<(), SeedError> {
        let found = self.tables()?;
        for name in found.iter().filter(|name| TABLES.iter().all(|table| table.name != name.as_str())) {
            let why = "none of the seed scripts' tables; it is left out".to_owned();
            take(Entry::Refused(Refused { table: name.clone(), key: None, why }))?;
        }
        for table in TABLES.iter().filter(|table| found.iter().any(|name| name == table.name)) {
            self.read_table(table, take)?;
        }
        Ok(())
    }
}

fn unreadable(shown: &str, error: &rusqlite::Error) -> SeedError {
    let why = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => "it is no SQLite database".to_owned(),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            format!("it is damaged ({error}): `sqlite3 FILE .recover` may save what is left. Nothing was taken over")
        }
        _ => error.to_string(),
    };
    SeedError::Unusable(format!("{shown}: {why}"))
}

fn refused(table: &Table, key: Option<String>, why: String) -> Entry {
    Entry::Refused(Refused { table: table.name.to_owned(), key: key.map(|key| clip(&key, 256)), why })
}

fn job(row: &Row<'_, '_>) -> Result<Entry, String> {
    Ok(Entry::Job(SeedJob {
        idem: row.needed("idem")?,
        handle: row.text("handle")?.filter(|handle| !handle.is_empty()),
        status: row.needed("status")?,
        submitted_at: row.time("submitted_at"),
        updated_at: row.time("updated_at"),
    }))
}

fn row(row: &Row<'_, '_>) -> Result<Entry, String> {
    Ok(Entry::Row(SeedRow {
        key: row.needed("key")?,
        payload: row.text("payload")?,
        status: row.needed("status")?,
        attempts: row.count("attempts")?,
        last_error: row.text("last_error")?,
        result: row.text("result")?,
    }))
}

fn letter(row: &Row<'_, '_>) -> Result<Entry, String> {
    Ok(Entry::Letter(SeedLetter {
        job_id: row.needed("job_id")?,
        payload: row.text("payload_json")?,
        model: row.text("model")?.filter(|model| !model.is_empty()),
        class: row.text("error_class")?,
        message: row.text("error_message")?,
        attempts: row.count("attempts")?,
        first_seen: row.time("first_seen"),
        last_seen: row.time("last_seen"),
        status: row.needed("status")?,
    }))
}

#[cfg(test)]
mod tests;
