//! A table, and what its cells say.

use rusqlite::types::ValueRef;

use crate::domain::time::Millis;
use crate::ports::seed::Entry;

/// A table of the seed scripts.
#[derive(Debug)]
pub(super) struct Table {
    pub name: &'static str,
    /// The column that names a row.
    pub key: &'static str,
    /// Columns without which it is another script's table.
    pub needed: &'static [&'static str],
    /// Columns that it may have besides.
    pub known: &'static [&'static str],
    /// What a row says, or why it can't be read.
    pub read: fn(&Row<'_, '_>) -> Result<Entry, String>,
}

impl Table {
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.needed.iter().chain(self.known).copied()
    }

    pub fn has(&self, column: &str) -> bool {
        self.columns().any(|known| known == column)
    }
}

/// A row: SQLite keeps in each cell what was put there, whatever its column says.
pub(super) struct Row<'a, 'b> {
    pub columns: &'a [&'a str],
    pub row: &'a rusqlite::Row<'b>,
}

impl Row<'_, '_> {
    fn cell(&self, column: &str) -> ValueRef<'_> {
        let place = self.columns.iter().position(|name| *name == column);
        place.and_then(|place| self.row.get_ref(place).ok()).unwrap_or(ValueRef::Null)
    }

    /// A text; bytes are one if they are UTF-8, and a number is what Python would have put in its place.
    pub fn text(&self, column: &str) -> Result<Option<String>, String> {
        match self.cell(column) {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number.to_string())),
            ValueRef::Real(number) => Ok(Some(number.to_string())),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(error) => Err(format!("{column}: not UTF-8 ({error})")),
            },
        }
    }

    /// A text that must be there.
    pub fn needed(&self, column: &str) -> Result<String, String> {
        match self.text(column)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("{column}: nothing is there")),
        }
    }

    /// The same for people, whatever is in it.
    pub fn shown(&self, column: &str) -> Option<String> {
        match self.cell(column) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => self.text(column).ok().flatten(),
        }
    }

    /// A number of times; nothing is none.
    pub fn count(&self, column: &str) -> Result<u32, String> {
        let count = match self.cell(column) {
            ValueRef::Null => Some(0),
            ValueRef::Integer(number) => u32::try_from(number).ok(),
            ValueRef::Real(number) => format!("{number}").parse().ok(),
            ValueRef::Text(_) | ValueRef::Blob(_) => self.text(column)?.and_then(|text| text.trim().parse().ok()),
        };
        count.ok_or_else(|| format!("{column}: no whole number from 0 on"))
    }

    /// A time as Python's `time.time()` gives it, or as text. What can't be read as one is not known: no row is lost for
    /// it.
    pub fn time(&self, column: &str) -> Option<Millis> {
        match self.cell(column) {
            ValueRef::Integer(number) => seconds(number as f64),
            ValueRef::Real(number) => seconds(number),
            ValueRef::Null => None,
            ValueRef::Text(_) | ValueRef::Blob(_) => {
                let text = self.text(column).ok().flatten()?;
                let text = text.trim();
                let stamp = || text.parse::<jiff::Timestamp>().ok().map(|time| Millis(time.as_millisecond()));
                text.parse().ok().and_then(seconds).or_else(stamp)
            }
        }
    }
}

/// Seconds since the epoch, of this century or the last.
fn seconds(number: f64) -> Option<Millis> {
    (number > 0.0 && number < 1e11).then_some(Millis((number * 1000.0) as i64))
}
