//! Rows by key. Nothing here changes once it is made, so that any number of threads can judge by it.

use super::asks::{NO_ROOM, Ready};
use super::name::KeyName;
use super::rows::{Row, Rows};
use super::{PassError, Terms};

/// The rows of an attempt, by key, and the terms by which they are judged.
#[derive(Debug)]
pub struct Index {
    pub(super) terms: Terms,
    pub(super) rows: Vec<Row>,
    /// The input's length.
    pub(super) end: u64,
    pub(super) asks: Ready,
    /// How a line of results ends.
    pub(super) attempt: String,
    table: Table,
}

impl Index {
    /// Takes all rows of the input.
    ///
    /// # Errors
    /// Two rows have the same key.
    pub fn of(rows: Rows, terms: Terms) -> Result<Self, PassError> {
        let Rows { end, rows, asks, .. } = rows;
        let table = Table::of(&rows).map_err(|second| PassError::Input {
            at: second.at,
            problem: "the key of this row is another row's too".to_owned(),
        })?;
        let attempt = format!(",\"attempt\":{}}}\n", terms.attempt);
        Ok(Self { attempt, asks: asks.ready(terms.expect.clone()), terms, rows, end, table })
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of the row with that name.
    pub(super) fn find(&self, name: KeyName) -> Option<u32> {
        self.table.find(name, &self.rows)
    }

    /// The same, for a name that is likely to be that of row `next`: an output is mostly in the order of its input.
    pub(super) fn find_near(&self, name: KeyName, next: u32) -> Option<u32> {
        if self.row(next).is_some_and(|row| row.name == name) { Some(next) } else { self.find(name) }
    }

    pub(super) fn row(&self, number: u32) -> Option<&Row> {
        self.rows.get(usize::try_from(number).ok()?)
    }

    /// The numbers of the rows whose input lines begin within `at..end`.
    pub(super) fn within(&self, at: u64, end: u64) -> std::ops::Range<usize> {
        self.rows.partition_point(|row| row.at < at)..self.rows.partition_point(|row| row.at < end)
    }

    /// Where a row's input line lies: from its beginning to the next row's, or to the end of the input.
    pub(super) fn line_of(&self, number: u32) -> Option<std::ops::Range<u64>> {
        let place = usize::try_from(number).ok()?;
        let end = self.rows.get(place + 1).map_or(self.end, |next| next.at);
        Some(self.rows.get(place)?.at..end)
    }
}

/// Row numbers in a table of open addresses, at most half of it taken: 8 to 16 bytes a row.
#[derive(Debug)]
struct Table {
    bits: u32,
    places: Vec<u32>,
}

impl Table {
    fn of(rows: &[Row]) -> Result<Self, Row> {
        let bits = (rows.len().max(8) * 2).next_power_of_two().trailing_zeros();
        let mut table = Self { bits, places: vec![NO_ROOM; 1 << bits] };
        for (number, row) in rows.iter().enumerate() {
            let place = table.probe(row.name, rows);
            // `Rows` holds fewer rows than there are numbers.
            let number = u32::try_from(number).unwrap_or(NO_ROOM);
            match place.and_then(|place| table.places.get_mut(place)) {
                Some(free) if *free == NO_ROOM => *free = number,
                _ => return Err(*row),
            }
        }
        Ok(table)
    }

    fn find(&self, name: KeyName, rows: &[Row]) -> Option<u32> {
        let place = self.probe(name, rows)?;
        self.places.get(place).copied().filter(|number| *number != NO_ROOM)
    }

    /// The place where that name is, or would be put.
    fn probe(&self, name: KeyName, rows: &[Row]) -> Option<usize> {
        let mask = self.places.len() - 1;
        let mut place = name.place(self.bits) & mask;
        loop {
            let number = *self.places.get(place)?;
            if number == NO_ROOM || rows.get(usize::try_from(number).ok()?)?.name == name {
                return Some(place);
            }
            place = (place + 1) & mask;
        }
    }
}
