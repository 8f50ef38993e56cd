//! The rows of an attempt, from its input.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::asks::{Asks, Known, NO_ROOM};
use super::lines::{Lines, text_of};
use super::name::KeyName;
use super::{PassError, quick};

/// The rows of an attempt's input, in its order: 32 bytes each, whatever they weigh.
#[derive(Debug, Default)]
pub struct Rows {
    at: u64,
    pub(super) end: u64,
    pub(super) rows: Vec<Row>,
    pub(super) asks: Asks,
}

/// What is kept of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub name: KeyName,
    /// Where its input line begins.
    pub at: u64,
    /// What its request asks answers to be: a number of [`Asks`].
    pub ask: u32,
}

impl Rows {
    /// Reads a block of whole lines that begins at byte `at` of the input. Blank lines are passed over.
    ///
    /// # Errors
    /// A line that is no row: `{"key": "...", "request": {...}}`.
    pub fn read(at: u64, block: &[u8]) -> Result<Self, PassError> {
        let whole = str::from_utf8(block).ok();
        let mut rows = Vec::new();
        let mut asks = Asks::default();
        let mut known = Known::default();
        for line in Lines::of(at, block).filter(|line| !line.is_blank()) {
            let broken = |problem: &str| PassError::Input { at: line.at, problem: problem.to_owned() };
            let text = text_of(&line, whole, at).ok_or_else(|| broken("the line is not UTF-8"))?;
            let row = match quick::row(text, &known) {
                Some((key, config)) => {
                    let ask = known.number(config, &mut asks);
                    Row { name: KeyName::of(key), at: line.at, ask }
                }
                None => {
                    let row = InputLine::of(text).map_err(|problem| broken(&problem))?;
                    let ask = asks.number(&super::asks::config_of(row.request).map_err(|problem| broken(&problem))?);
                    Row { name: KeyName::of(&row.key), at: line.at, ask }
                }
            };
            rows.push(row);
        }
        Ok(Self { at, end: at + block.len() as u64, rows, asks })
    }

    /// Takes in the rows of the next block.
    ///
    /// # Errors
    /// It is not the next block; or there are more rows than can be numbered.
    pub fn append(&mut self, next: Self) -> Result<(), PassError> {
        if next.at != self.end {
            return Err(PassError::Order { what: "the input", at: next.at, expected: self.end });
        }
        if self.rows.len() + next.rows.len() >= NO_ROOM as usize {
            let problem = format!("it has more than {NO_ROOM} rows");
            return Err(PassError::Input { at: next.at, problem });
        }
        let numbers = self.asks.merge(&next.asks);
        self.rows.extend(next.rows.into_iter().map(|row| {
            let number = usize::try_from(row.ask).ok().and_then(|ask| numbers.get(ask)).copied();
            Row { ask: number.unwrap_or(NO_ROOM), ..row }
        }));
        self.end = next.end;
        Ok(())
    }
}

/// A line of the input, read in full.
#[derive(Deserialize)]
pub(super) struct InputLine<'a> {
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    #[serde(borrow)]
    pub request: &'a RawValue,
}

impl<'a> InputLine<'a> {
    /// # Errors
    /// Why it is none, in words that don't repeat it.
    pub fn of(text: &'a str) -> Result<Self, String> {
        let line: Self = serde_json::from_str(text)
            .map_err(|error| format!("the line is no row with a key and a request: {error}"))?;
        if !line.request.get().starts_with('{') {
            return Err("the request is no object".to_owned());
        }
        Ok(line)
    }
}
