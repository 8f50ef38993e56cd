//! What counts of all that was said of a row, and what that makes of the row.

use std::sync::Arc;

use super::blames::{Blames, Kept};
use super::index::Index;
use super::judge::{Judged, KEY_AT, Said, Tally, What};
use super::name::KeyName;
use super::rest::Rest;
use super::settled::{self, Kind};
use super::{Blame, Counts, Outcome, PassError};

/// A pass under way.
#[derive(Debug)]
pub struct Pass {
    pub(super) index: Arc<Index>,
    pub(super) states: Vec<State>,
    /// Whether the output has a line for the row.
    seen: Vec<bool>,
    pub(super) blames: Blames,
    pub(super) missing: Kept,
    /// Where the next block of the output begins, and of the input.
    output: u64,
    input: u64,
    tally: Tally,
    duplicates: u64,
    rest: [u64; 2],
}

/// What is known of a row: 24 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// Nothing yet.
    Open,
    /// The first line about it says that it failed; that line begins at `at` of the output.
    Failed { kept: Kept, at: u64 },
    /// It succeeded in this pass.
    Here,
    /// It had died in that attempt, and succeeded in this pass.
    Recovered,
    /// It succeeded in an earlier pass.
    Before,
    /// It died in an earlier pass.
    Died { attempt: u32 },
}

/// What becomes of a row that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The next attempt's; in a late pass, the successor's.
    Retry,
    /// Dead.
    Dead(Kept, u64),
}

/// What a block of the output adds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merged {
    /// Lines of `results`: `{"key","value","usage","attempt"}`.
    pub results: Vec<u8>,
    /// A line for each of these rows that had died before: `{"key","name","attempt"}`, with the [`KeyName`] and the
    /// attempt in which it had died, which name its item (see [`super::row_id`]).
    pub recovered: Vec<u8>,
}

impl Pass {
    /// A pass about which nothing is known yet.
    #[must_use]
    pub fn new(index: Arc<Index>) -> Self {
        let mut blames = Blames::default();
        let missing = blames.keep(&index.terms.missing);
        let rows = index.len();
        Self {
            states: vec![State::Open; rows],
            seen: vec![false; rows],
            blames,
            missing,
            index,
            output: 0,
            input: 0,
            tally: Tally::default(),
            duplicates: 0,
            rest: [0; 2],
        }
    }

    /// Takes in the `settled` object of another pass of the part, made in that attempt. Keys that this attempt
    /// doesn't have are passed over. Before the first [`Pass::merge`].
    ///
    /// # Errors
    /// It is no such object, or it comes too late.
    pub fn settle(&mut self, object: &[u8], attempt: u32) -> Result<(), PassError> {
        if self.output != 0 {
            return Err(PassError::Order { what: "settled rows", at: self.output, expected: 0 });
        }
        let settled = settled::read(object).map_err(|problem| PassError::Settled { attempt, problem })?;
        for (name, kind) in settled {
            let row = self.index.find(name).and_then(|row| usize::try_from(row).ok());
            let Some(state) = row.and_then(|row| self.states.get_mut(row)) else { continue };
            // Whichever is read first: a success counts, and of deaths the last.
            *state = match (*state, kind) {
                (State::Before, _) | (_, Kind::Succeeded) => State::Before,
                (State::Died { attempt: other }, Kind::Died) => State::Died { attempt: other.max(attempt) },
                (_, Kind::Died) => State::Died { attempt },
            };
        }
        Ok(())
    }

    /// Takes in the next block of the output.
    ///
    /// # Errors
    /// It is not the next block, or rows in it are still undecided.
    pub fn merge(&mut self, judged: Judged) -> Result<Merged, PassError> {
        if judged.at != self.output {
            return Err(PassError::Order { what: "the output", at: judged.at, expected: self.output });
        }
        self.output = judged.end;
        self.tally.add(judged.tally);
        let mut merged = Merged::default();
        // Where every value counts, which is nearly always so, the lines are handed on as they are.
        let mut kept = 0;
        let mut dropped = false;
        let mut chosen = Vec::new();
        for Said { row, what } in judged.lines {
            let Some((state, seen)) = self.row_mut(row) else { continue };
            let again = std::mem::replace(seen, true);
            let was = *state;
            match what {
                What::Value { text, key } if matches!(was, State::Open | State::Failed { .. } | State::Died { .. }) => {
                    *state = State::Here;
                    if let State::Died { attempt } = was {
                        *state = State::Recovered;
                        let key = judged.text.get(text.start + KEY_AT..text.start + KEY_AT + key);
                        self.recover(row, key.unwrap_or_default(), attempt, &mut merged.recovered);
                    }
                    dropped |= text.start != kept;
                    kept = text.end;
                    chosen.push(text);
                }
                What::Value { .. } => {}
                What::Failed { blame, at } => {
                    if matches!(was, State::Open) {
                        self.fail(row, &blame, at);
                    }
                }
                What::Undecided => {
                    let at = self.index.row(row).map_or(0, |row| row.at);
                    let problem = "its answer was not decided before it was merged".to_owned();
                    return Err(PassError::Undecided { at, problem });
                }
            }
            self.duplicates += u64::from(again);
        }
        merged.results = if dropped || kept != judged.text.len() {
            chosen.into_iter().filter_map(|range| judged.text.get(range)).collect::<Vec<_>>().concat()
        } else {
            judged.text
        };
        Ok(merged)
    }

    /// Takes in the next block of the input's second reading; its lines of `retry` and of `dead`.
    ///
    /// # Errors
    /// It is not the next block.
    pub fn count(&mut self, rest: Rest) -> Result<(Vec<u8>, Vec<u8>), PassError> {
        if rest.at != self.input {
            return Err(PassError::Order { what: "the input", at: rest.at, expected: self.input });
        }
        self.input = rest.end;
        let [retry, dead] = &mut self.rest;
        *retry += rest.retry_rows;
        *dead += rest.dead_rows;
        Ok((rest.retry, rest.dead))
    }

    /// Ends the pass.
    ///
    /// # Errors
    /// Its sums don't add up, or the input was not read to its end a second time.
    pub fn finish(self) -> Result<Outcome, PassError> {
        let counts = self.counts();
        let ends = counts.succeeded + counts.retry + counts.dead + counts.settled_before;
        let lines = counts.outcomes
            + counts.duplicates
            + counts.unknown_keys
            + counts.without_key
            + counts.unreadable
            + counts.blank;
        let wrong = |what: &str, sum: u64, whole: u64| PassError::Sums(format!("{what} are {sum}, not {whole}"));
        if ends != counts.rows {
            return Err(wrong("the rows that ended", ends, counts.rows));
        }
        if lines != counts.lines {
            return Err(wrong("the lines of the output that were counted", lines, counts.lines));
        }
        if !self.index.terms.late {
            let [retry, dead] = self.rest;
            if self.input != self.index.end {
                return Err(wrong("the bytes of the input that were read again", self.input, self.index.end));
            }
            if retry != counts.retry {
                return Err(wrong("the lines for the next attempt", retry, counts.retry));
            }
            if dead != counts.dead {
                return Err(wrong("the lines of dead rows", dead, counts.dead));
            }
        }
        Ok(Outcome { settled: self.settled(), counts })
    }

    /// What becomes of a row; none when it succeeded, or was settled before.
    pub(super) fn end(&self, row: usize) -> Option<End> {
        let terms = &self.index.terms;
        let (kept, at) = match self.states.get(row)? {
            State::Open => (self.missing, 0),
            State::Failed { kept, at } => (*kept, *at),
            State::Here | State::Recovered | State::Before | State::Died { .. } => return None,
        };
        Some(if terms.late || (kept.passing && !terms.last) { End::Retry } else { End::Dead(kept, at) })
    }

    fn row_mut(&mut self, row: u32) -> Option<(&mut State, &mut bool)> {
        let row = usize::try_from(row).ok()?;
        Some((self.states.get_mut(row)?, self.seen.get_mut(row)?))
    }

    fn fail(&mut self, row: u32, blame: &Blame, at: u64) {
        let kept = self.blames.keep(blame);
        if let Some((state, _)) = self.row_mut(row) {
            *state = State::Failed { kept, at };
        }
    }

    fn recover(&self, row: u32, key: &[u8], attempt: u32, out: &mut Vec<u8>) {
        let name = self.index.row(row).map_or_else(String::new, |row| row.name.to_string());
        out.extend_from_slice(b"{\"key\":");
        out.extend_from_slice(key);
        out.extend_from_slice(format!(",\"name\":\"{name}\",\"attempt\":{attempt}}}\n").as_bytes());
    }

    /// Rows that have a line in the output so far, whatever it says.
    #[must_use]
    pub fn outcomes(&self) -> u64 {
        self.seen.iter().map(|seen| u64::from(*seen)).sum()
    }

    fn counts(&self) -> Counts {
        let Tally { lines, blank, unreadable, without_key, unknown_keys } = self.tally;
        let mut counts = Counts {
            rows: self.index.len() as u64,
            lines,
            blank,
            unreadable,
            without_key,
            unknown_keys,
            duplicates: self.duplicates,
            ..Counts::default()
        };
        for (row, (state, seen)) in self.states.iter().zip(&self.seen).enumerate() {
            counts.outcomes += u64::from(*seen);
            match state {
                State::Here => counts.succeeded += 1,
                State::Recovered => {
                    counts.succeeded += 1;
                    counts.recovered += 1;
                }
                State::Before | State::Died { .. } => counts.settled_before += 1,
                State::Open | State::Failed { .. } => {
                    counts.missing += u64::from(matches!(state, State::Open));
                    match self.end(row) {
                        Some(End::Dead(kept, _)) => {
                            counts.dead += 1;
                            *counts.dead_by_class.entry(self.dead_class(kept)).or_default() += 1;
                        }
                        _ => counts.retry += 1,
                    }
                }
            }
        }
        counts
    }

    fn settled(&self) -> Vec<u8> {
        let names = |wanted: fn(&Self, usize) -> bool| {
            let rows = self.index.rows.iter().enumerate();
            rows.filter(move |(row, _)| wanted(self, *row)).map(|(_, row)| row.name)
        };
        let succeeded = names(|pass, row| matches!(pass.states.get(row), Some(State::Here | State::Recovered)));
        let died = names(|pass, row| matches!(pass.end(row), Some(End::Dead(..))));
        settled::write(succeeded, died)
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.blank += other.blank;
        self.unreadable += other.unreadable;
        self.without_key += other.without_key;
        self.unknown_keys += other.unknown_keys;
    }
}

/// The names of rows are all that `settled` needs of them.
impl From<KeyName> for [u8; 16] {
    fn from(name: KeyName) -> Self {
        name.0
    }
}
