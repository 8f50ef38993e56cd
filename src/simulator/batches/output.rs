//! Writing a batch's output: a function of its input, its index and its plan, so that every writer of it writes
//! the same bytes. At any time one row is in memory, beside the index.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde_json::{Map, Value, json};

use super::super::faults::{Fault, hash};
use super::super::files::shelf::Shelf;
use super::job::Record;
use super::row::Row;

/// What the fault `output-long-line` adds to a line, in bytes.
const LONG: usize = 3 << 20;

/// Writes the output, if it is not there.
pub(super) fn write(shelf: &Shelf, batch: &Record) -> io::Result<()> {
    if shelf.path(&batch.id, "output").exists() {
        return Ok(());
    }
    let mut rows = Row::all(&shelf.path(&batch.id, "rows"))?.collect::<io::Result<Vec<_>>>()?;
    let mut input = File::open(shelf.path(&batch.id, "input"))?;
    let odds = Odds::of(batch, rows.len());
    if batch.plan.output == Some(Fault::OutputShuffled) {
        rows.sort_by_key(|row| hash(batch.seed, "shuffle", row.offset, &[]));
    }
    let mut written =
        Lines { file: BufWriter::with_capacity(1 << 17, shelf.blank()?), held: None, blanks: 0, crlf: odds.crlf() };
    for (n, row) in rows.iter().enumerate() {
        let line = row.outcome(batch, &row.entry(&mut input)?);
        for line in odds.lines(n, line) {
            written.add(line)?;
        }
    }
    shelf.put(&batch.id, "output", written.finish(batch.plan.output)?)
}

/// The inline responses of a batch of inline requests.
pub(super) fn inline(shelf: &Shelf, batch: &Record) -> io::Result<Value> {
    let mut input = File::open(shelf.path(&batch.id, "input"))?;
    let mut responses = Vec::new();
    for row in Row::all(&shelf.path(&batch.id, "rows"))? {
        let row = row?;
        let entry = row.entry(&mut input)?;
        let mut response = row.outcome(batch, &entry);
        response.remove("key");
        response.extend(entry.metadata.map(|metadata| ("metadata".into(), metadata)));
        responses.push(response);
    }
    Ok(json!({"inlinedResponses": responses}))
}

/// What goes wrong with the lines.
#[derive(Debug)]
struct Odds<'a> {
    batch: &'a Record,
    /// The row that always meets the fault; of the others one in eight does.
    chosen: usize,
}

impl<'a> Odds<'a> {
    fn of(batch: &'a Record, rows: usize) -> Self {
        let place = hash(batch.seed, "output", batch.subject, &[batch.nth]);
        let among = u64::try_from(rows).unwrap_or(u64::MAX);
        let chosen = place.checked_rem(among).and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
        Self { batch, chosen }
    }

    fn crlf(&self) -> bool {
        self.batch.plan.output == Some(Fault::OutputCrlf)
    }

    /// The lines in place of the one of the `n`th row.
    fn lines(&self, n: usize, mut line: Map<String, Value>) -> Vec<Map<String, Value>> {
        let dice = hash(self.batch.seed, &self.batch.id, u64::try_from(n).unwrap_or(u64::MAX), &[]);
        let hit = n == self.chosen || dice.is_multiple_of(8);
        let error = json!({"code": 13, "message": "An internal error has occurred."});
        match self.batch.plan.output.filter(|_| hit) {
            Some(Fault::OutputMissing) => return Vec::new(),
            Some(Fault::OutputRepeated) => {
                let (mut other, kind) = (line.clone(), (dice / 8) % 3);
                // Twice the same, or beside a failure that comes first or last.
                if kind > 0 {
                    other.remove("response");
                    other.insert("error".into(), error);
                }
                return if kind == 1 { vec![other, line] } else { vec![line, other] };
            }
            Some(Fault::OutputUnknownKey) => {
                let mut other = line.clone();
                other.insert("key".into(), json!(format!("nobody asked for {dice:x}")));
                return vec![other, line];
            }
            Some(Fault::OutputNoKey) => {
                line.remove("key");
            }
            Some(Fault::OutputNull) => {
                line.remove("error");
                line.insert("response".into(), Value::Null);
            }
            // An empty one is written as a blank line.
            Some(Fault::OutputBlank) => return vec![Map::new(), line],
            Some(Fault::OutputStatus) => {
                line.remove("response");
                let status = line.remove("error").unwrap_or(error);
                line.insert("status".into(), status);
            }
            Some(Fault::OutputBoth) => {
                line.entry("error").or_insert(error);
                line.entry("response").or_insert(json!({}));
            }
            Some(Fault::OutputLongLine) if n == self.chosen => {
                line.insert("note".into(), json!("x".repeat(LONG)));
                if let Some(Value::Object(part)) =
                    line.get_mut("response").and_then(|answer| answer.pointer_mut("/candidates/0/content/parts/0"))
                {
                    part.insert("thoughtSignature".into(), json!("A".repeat(LONG)));
                }
            }
            _ => {}
        }
        vec![line]
    }
}

/// Writes lines, of which the last may end badly.
#[derive(Debug)]
struct Lines {
    file: BufWriter<tempfile::NamedTempFile>,
    held: Option<Vec<u8>>,
    blanks: usize,
    crlf: bool,
}

impl Lines {
    fn add(&mut self, line: Map<String, Value>) -> io::Result<()> {
        let bytes = if line.is_empty() {
            // Every other blank line holds a space.
            self.blanks += 1;
            vec![b' '; self.blanks % 2]
        } else {
            serde_json::to_vec(&line)?
        };
        if let Some(before) = self.held.replace(bytes) {
            self.file.write_all(&before)?;
            self.file.write_all(if self.crlf { b"\r\n" } else { b"\n" })?;
        }
        Ok(())
    }

    fn finish(mut self, fault: Option<Fault>) -> io::Result<tempfile::NamedTempFile> {
        let last = self.held.take().unwrap_or_default();
        match fault {
            Some(Fault::OutputCut) => self.file.write_all(last.get(..last.len() / 2).unwrap_or_default())?,
            Some(Fault::OutputNoNewline) => self.file.write_all(&last)?,
            _ if last.is_empty() => {}
            _ => {
                self.file.write_all(&last)?;
                self.file.write_all(if self.crlf { b"\r\n" } else { b"\n" })?;
            }
        }
        self.file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
