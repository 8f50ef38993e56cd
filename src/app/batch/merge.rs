//! The results of a run as one stream of lines, in the order of its rows.
//!
//! Part by part: an index of where each of its rows' lines lies, then its rows in order, a window of them at a time,
//! whose lines are read in the order in which they lie, neighbours at once. So what is nearly in order is read nearly as
//! a stream, what isn't is read in sweeps, and memory is bounded by the rows of a part (some tens of bytes each), a
//! window and the longest line.

mod index;
mod window;

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use thiserror::Error;

use self::index::{Index, Kind, Place};
use self::window::{Slot, Window};
use super::lines::{LinesOf, broken, key_of};
use super::report::{RunProgress, dead_now};
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::Intake;
use crate::domain::part::Part;
use crate::domain::pass::find;

/// What became of the rows of a run, as far as they were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Merged {
    /// Rows with a result: lines that were written.
    pub results: u64,
    /// Dead rows.
    pub dead: u64,
    /// Rows that a person gave up with the run.
    pub discarded: u64,
    /// Rows that nothing has settled yet.
    pub open: u64,
    /// Lines of the file that are in no part yet.
    pub waiting: u64,
}

impl Merged {
    /// Whether every row is settled.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.open == 0 && self.waiting == 0
    }
}

/// Why a merge did not come to its end.
#[derive(Debug, Error)]
pub enum MergeError {
    /// Trouble with the objects.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// What it writes to can't be written.
    #[error("{0}")]
    Out(#[from] io::Error),
}

/// Writes the lines of a run's results to `out`, in the order of its rows, as `progress` knows them. With `with_dead`
/// also `{"key","error":{"class","message","attempts"}}` in the place of each row that died or was given up.
///
/// # Errors
/// Trouble with the objects; a `NeedsPerson` when they are not what the ledger says of them; an `out` that can't be
/// written.
pub async fn merge(
    engine: &Engine,
    intake: &Intake,
    progress: &RunProgress,
    with_dead: bool,
    out: &mut (dyn Write + Send),
) -> Result<Merged, MergeError> {
    let waiting = intake.lines.saturating_sub(intake.cursor.taken());
    let mut merging = Merging {
        engine,
        intake,
        with_dead,
        out,
        merged: Merged { waiting, ..Merged::default() },
        window: Window::default(),
    };
    for family in families(&progress.parts) {
        merging.family(family).await?;
    }
    let Merging { merged, out, .. } = merging;
    out.flush()?;
    check(progress, &merged)?;
    Ok(merged)
}

/// The parts with their halves and those of their replayed rows, in the order of their rows.
fn families(parts: &[Part]) -> impl Iterator<Item = &[Part]> {
    parts.chunk_by(|_, next| !next.part.is_numbered())
}

/// What was found must be what the parts' items say.
fn check(progress: &RunProgress, merged: &Merged) -> Result<(), Trouble> {
    let tallies = progress.parts.iter().map(Part::tally);
    let results: u64 = tallies.map(|tally| tally.succeeded + tally.recovered).sum();
    let dead = dead_now(&progress.parts);
    if (merged.results, merged.dead) == (results, dead) {
        return Ok(());
    }
    Err(Trouble::NeedsPerson(format!(
        "the books don't add up: the ledger has {results} results and {dead} dead rows of the run {}, and {} and {} are in \
         its files. Please report this.",
        progress.run.key, merged.results, merged.dead
    )))
}

struct Merging<'a> {
    engine: &'a Engine,
    intake: &'a Intake,
    with_dead: bool,
    out: &'a mut (dyn Write + Send),
    merged: Merged,
    window: Window,
}

impl Merging<'_> {
    /// A part, its halves and those of its replayed rows: the rows are those of the part, whichever of them settled each.
    async fn family(&mut self, family: &[Part]) -> Result<(), MergeError> {
        let Some(whole) = family.first() else { return Ok(()) };
        let objects = &self.engine.objects;
        let mut index = Index::of(objects, family).await?;
        // While one of the halves is at work it can't be told cheaply whose row this is.
        let is_over = family.iter().all(|part| part.state.is_closed() || part.part.is_replay());
        let attempts = whole.tries();
        let mut rows = LinesOf::own(objects, &whole.rows_at);
        while let Some(lines) = rows.next().await? {
            for line in lines.iter() {
                let key = key_of(line.bytes).map_err(|why| broken(&whole.rows_at, line.at, &why))?;
                match index.take(&key) {
                    Some(place) => self.found(place),
                    None if is_over => self.given_up(&key, attempts)?,
                    None => self.merged.open += 1,
                }
                if self.window.is_full() {
                    self.write(&index).await?;
                }
            }
        }
        self.write(&index).await?;
        if let Some(left) = index.left() {
            return Err(Trouble::NeedsPerson(format!("part {}: {left}. Please report this.", whole.part)).into());
        }
        Ok(())
    }

    fn found(&mut self, place: Place) {
        match place.kind {
            Kind::Result => {
                self.merged.results += 1;
                self.window.push(Slot::Line(place));
            }
            Kind::Open => self.merged.open += 1,
            Kind::Dead => {
                self.merged.dead += 1;
                if self.with_dead {
                    self.window.push(Slot::Line(place));
                }
            }
        }
    }

    /// A row of a part that is over, which no pass has settled: a person gave it up.
    fn given_up(&mut self, key: &str, attempts: u32) -> Result<(), MergeError> {
        self.merged.discarded += 1;
        if self.with_dead {
            let message = self.intake.cancelled.as_deref().unwrap_or("given up by a person");
            let line = NoResult { key, error: Blame { class: "discarded", message, attempts } };
            self.window.push(Slot::Text(serde_json::to_vec(&line).map_err(io::Error::other)?));
        }
        Ok(())
    }

    /// Writes what the window holds.
    async fn write(&mut self, index: &Index) -> Result<(), MergeError> {
        let read = self.window.read(&*self.engine.objects, index).await?;
        for (slot, line) in read.lines() {
            let line = match slot {
                Slot::Line(Place { kind: Kind::Dead, file, at, .. }) => {
                    Cow::Owned(dead_line(line).map_err(|why| broken(index.name(*file), *at, &why))?)
                }
                _ => Cow::Borrowed(line),
            };
            self.out.write_all(&line)?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// What stands in the place of a row without a result.
#[derive(Serialize)]
struct NoResult<'a> {
    key: &'a str,
    error: Blame<'a>,
}

#[derive(Serialize)]
struct Blame<'a> {
    class: &'a str,
    message: &'a str,
    attempts: u32,
}

/// A line of a file of dead rows, without its request.
fn dead_line(line: &[u8]) -> Result<Vec<u8>, String> {
    let dead = find::dead(str::from_utf8(line).map_err(|error| error.to_string())?)?;
    let error = Blame { class: &dead.class, message: &dead.message, attempts: dead.attempts };
    serde_json::to_vec(&NoResult { key: &dead.key, error }).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_row_is_told_without_its_request_and_in_its_own_words() {
        let line =
            r#"{"key":"日\u672c","class":"permanent:400","message":"no\nsuch","attempts":2,"request":{"contents":[]}}"#;
        let told = dead_line(line.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(told).unwrap(),
            r#"{"key":"日本","error":{"class":"permanent:400","message":"no\nsuch","attempts":2}}"#
        );
        assert!(dead_line(b"{}").is_err());
    }
}
