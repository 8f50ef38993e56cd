//! Cutting a run into parts: rows in the order of the file, each part an object of its own and an item of the ledger.
//!
//! A part is found first and written then, under a name that says what is in it, so that whoever goes on after a crash
//! finds the same bytes there. Its item is created before the intake's cursor moves over it, and an item that is there
//! already is taken as it is.

use std::collections::HashSet;

use tracing::{info, warn};

use super::feed::Outlet;
use crate::app::engine::{Engine, Trouble};
use crate::app::lines::{LineReader, REPEATED_KEY, ReadingRow, RowReader, header, object_name};
use crate::app::plan::{bad_line, write_bad};
use crate::app::take::{Taken, lease, let_go};
use crate::domain::intake::{Cursor, Intake, Run};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::line::Header;
use crate::domain::part::{Part, PartId};
use crate::domain::time::Millis;
use crate::ports::ledger::{CreateError, ReplaceError};

/// How many bytes of a request one token is taken for: of English text four, and of others fewer tokens than bytes.
const BYTES_PER_TOKEN: u64 = 4;

/// Cuts a run, until `until` or its end.
///
/// # Errors
/// Trouble; what was cut before it stays.
pub async fn cut(engine: &Engine, intake: Intake, until: Millis) -> Result<Taken, Trouble> {
    let Some(run) = intake.run.clone() else { return Ok(Taken::default()) };
    let Some(intake) = lease(engine, intake).await? else {
        return Ok(Taken { elsewhere: true, ..Taken::default() });
    };
    let taken_before = intake.cursor.taken();
    let mut cutting = Cutting { engine, header: read_header(engine, &intake).await?, intake, run, lost: false };
    let outcome = cutting.all(until).await;
    let taken = cutting.intake.cursor.taken() - taken_before;
    cutting.end(outcome.as_ref().is_ok_and(|at_end| *at_end)).await?;
    outcome.map(|_| Taken { lines: taken, ..Taken::default() })
}

async fn read_header(engine: &Engine, intake: &Intake) -> Result<Header, Trouble> {
    let (header, _) = header(&*engine.objects, &intake.sha256).await?.map_err(|(line, error)| {
        Trouble::NeedsPerson(format!("{} line {line}: {}", object_name(&intake.sha256), error.message))
    })?;
    Ok(header)
}

fn row_reader(header: &Header) -> Result<RowReader, Trouble> {
    RowReader::new(header.clone()).map_err(|error| Trouble::NeedsPerson(error.message))
}

struct Cutting<'a> {
    engine: &'a Engine,
    header: Header,
    intake: Intake,
    run: Run,
    lost: bool,
}

/// A part that was found: the lines of the intake up to `upto`.
struct Found {
    upto: Cursor,
    rows: u64,
    bytes: u64,
    /// Lines in it that repeat a key.
    repeats: HashSet<u64>,
    at_end: bool,
}

impl<'a> Cutting<'a> {
    /// True: the whole run is cut.
    async fn all(&mut self, until: Millis) -> Result<bool, Trouble> {
        // Keys are unique within the whole run, so what was cut before is read again.
        let mut rows = row_reader(&self.header)?;
        let cursor = self.intake.cursor;
        let mut before = self.reader(0, 0);
        while before.cursor().offset < cursor.offset {
            let Some(raw) = before.next().await? else { break };
            rows.read(&raw);
            self.stay().await?;
        }
        let mut reader = self.reader(cursor.offset, cursor.line);
        // One part at least: what came before it was read for it.
        let mut cut_one = false;
        while !self.lost && (!cut_one || self.engine.clock.now() < until) && !self.engine.is_stopping() {
            cut_one = true;
            let id = PartId::numbered(self.run.parts + 1);
            if let Some(part) = self.existing(&id).await? {
                let Some(upto) = part.upto else { return Err(strange(&part)) };
                while reader.cursor().offset < upto.offset {
                    let Some(raw) = reader.next().await? else { break };
                    rows.read(&raw);
                }
                self.moved(upto, true).await?;
                continue;
            }
            let from = self.intake.cursor;
            let Some(found) = self.find(&mut reader, &mut rows).await? else { return Ok(false) };
            if found.rows > 0 {
                self.write(&id, from, &found).await?;
            }
            self.moved(found.upto, found.rows > 0).await?;
            if found.at_end {
                return Ok(true);
            }
            // The row that didn't fit is the next part's first.
            if reader.cursor().offset != found.upto.offset {
                reader = self.reader(found.upto.offset, found.upto.line);
                rows.forget_last();
            }
        }
        Ok(false)
    }

    fn reader(&self, offset: u64, line: u64) -> LineReader<'a> {
        LineReader::new(&*self.engine.objects, &self.intake.sha256, offset, line).of_rows()
    }

    async fn existing(&self, id: &PartId) -> Result<Option<Box<Part>>, Trouble> {
        match self.engine.ledger.get(&ItemId::part(&self.run.key, id)).await? {
            Some(Item::Part(part)) => Ok(Some(part)),
            _ => Ok(None),
        }
    }

    /// Reads on until the next part is full. None: somebody else has the intake.
    async fn find(&mut self, reader: &mut LineReader<'_>, rows: &mut RowReader) -> Result<Option<Found>, Trouble> {
        let limits = self.engine.settings.parts;
        let mut found = Found { upto: self.intake.cursor, rows: 0, bytes: 0, repeats: HashSet::new(), at_end: false };
        let mut tokens = 0;
        loop {
            let Some(raw) = reader.next().await? else {
                found.at_end = true;
                return Ok(Some(found));
            };
            match rows.read(&raw) {
                ReadingRow::Nothing => {}
                ReadingRow::Row(row) => {
                    let bytes = row.to_line().len() as u64;
                    let own = row.request.len() as u64 / BYTES_PER_TOKEN + 1;
                    let full =
                        found.rows >= limits.rows || found.bytes + bytes > limits.bytes || tokens + own > limits.tokens;
                    if found.rows > 0 && full {
                        return Ok(Some(found));
                    }
                    found.rows += 1;
                    found.bytes += bytes;
                    found.upto.jobs += 1;
                    tokens += own;
                }
                ReadingRow::Bad(error) => {
                    if error.class == REPEATED_KEY {
                        found.repeats.insert(raw.line);
                    }
                    write_bad(self.engine, bad_line(self.engine, &self.intake, &raw, error)).await?;
                    found.upto.bad_lines += 1;
                }
            }
            (found.upto.offset, found.upto.line) = (raw.end, raw.line);
            self.stay().await?;
            if self.lost {
                return Ok(None);
            }
        }
    }

    /// Writes a part's rows, then its item.
    async fn write(&mut self, id: &PartId, from: Cursor, found: &Found) -> Result<(), Trouble> {
        let name = format!("runs/{}/{id}.{}-{}.jsonl", self.run.key, from.offset, found.upto.offset);
        let mut outlet = Outlet::new(&self.engine.objects, name.clone());
        match self.fill(&mut outlet, from, found).await {
            Ok(()) => outlet.close().await?,
            Err(trouble) => {
                outlet.give_up().await;
                return Err(trouble);
            }
        };
        let now = self.engine.clock.now();
        let part = Part {
            run: self.run.key.clone(),
            part: id.clone(),
            rev: self.engine.rev(),
            state: State::Waiting,
            since: now,
            due_at: Some(now),
            lease: None,
            intake: self.intake.sha256.clone(),
            model: self.run.model.clone(),
            rows_at: name,
            rows: found.rows,
            bytes: found.bytes,
            upto: Some(found.upto),
            used: 0,
            granted: 0,
            replays: 0,
            maybe_paid: false,
            of_group: None,
            by_call: false,
            attempts: Vec::new(),
            intent: None,
            passes: Vec::new(),
            halved: false,
            discarded: 0,
        };
        match self.engine.create(&Item::Part(Box::new(part.clone()))).await {
            Ok(()) => {
                info!(run = part.run, part = %part.part, part.rows = part.rows, part.bytes = part.bytes, "cut");
                Ok(())
            }
            // Somebody else cuts the same run; whose lease it is shows when the cursor is written.
            Err(CreateError::Exists(found)) => match *found {
                Item::Part(found) if found.rows_at == part.rows_at => Ok(()),
                Item::Part(found) => Err(Trouble::Passing(format!("part {} was cut elsewhere", found.part))),
                other => Err(Trouble::NeedsPerson(format!("the ledger item {} is no part", other.id()))),
            },
            Err(CreateError::Ledger(error)) => Err(error.into()),
        }
    }

    /// The rows of a part once more, as they are sent.
    async fn fill(&self, outlet: &mut Outlet, from: Cursor, found: &Found) -> Result<(), Trouble> {
        let upto = found.upto;
        let mut rows = row_reader(&self.header)?;
        let mut reader = self.reader(from.offset, from.line);
        let mut sent = 0;
        while reader.cursor().offset < upto.offset {
            let Some(raw) = reader.next().await? else { break };
            if !found.repeats.contains(&raw.line)
                && let ReadingRow::Row(row) = rows.read(&raw)
            {
                sent += 1;
                outlet.write(row.to_line()).await;
            }
        }
        let expected = upto.jobs - from.jobs;
        if sent != expected {
            return Err(Trouble::NeedsPerson(format!(
                "{} has changed: {sent} rows where {expected} were",
                object_name(&self.intake.sha256)
            )));
        }
        Ok(())
    }

    /// Keeps the lease. Once it is lost, nothing more is written.
    async fn stay(&mut self) -> Result<(), Trouble> {
        let now = self.engine.now();
        let third = now.policy.submit_lease / 3;
        let ends = self.intake.lease.as_ref().map(|lease| lease.until);
        if ends.is_some_and(|until| until.since(now.at) > third * 2) {
            return Ok(());
        }
        self.write_cursor(self.intake.clone()).await
    }

    /// Moves the cursor, and counts the part.
    async fn moved(&mut self, upto: Cursor, is_part: bool) -> Result<(), Trouble> {
        let mut next = self.intake.clone();
        next.cursor = upto;
        if let Some(run) = &mut next.run {
            run.parts += u32::from(is_part);
        }
        self.write_cursor(next).await?;
        self.run.parts = self.intake.run.as_ref().map_or(self.run.parts, |run| run.parts);
        Ok(())
    }

    async fn write_cursor(&mut self, mut next: Intake) -> Result<(), Trouble> {
        if self.lost {
            return Ok(());
        }
        let now = self.engine.now();
        let until = now.policy.lease_from(now.at);
        next.due_at = Some(until);
        if let Some(lease) = &mut next.lease {
            lease.until = until;
        }
        match self.engine.replace(&self.intake.rev, Item::Intake(next)).await {
            Ok(Item::Intake(intake)) => self.intake = intake,
            Ok(_) | Err(ReplaceError::Stale(_)) => {
                warn!(run = self.run.key, "somebody else changed the run while it was being cut");
                self.lost = true;
            }
            Err(ReplaceError::Ledger(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Gives the lease back; at the end nothing is left to cut.
    async fn end(self, at_end: bool) -> Result<(), Trouble> {
        if self.lost {
            return let_go(self.engine, &self.intake).await;
        }
        let now = self.engine.clock.now();
        let mut next = self.intake.clone();
        next.lease = None;
        next.due_at = Some(now);
        if at_end {
            next.state = State::Read;
            next.since = now;
            next.due_at = None;
        }
        match self.engine.replace(&self.intake.rev, Item::Intake(next)).await {
            Ok(_) => Ok(()),
            Err(ReplaceError::Stale(_)) => let_go(self.engine, &self.intake).await,
            Err(ReplaceError::Ledger(error)) => Err(error.into()),
        }
    }
}

fn strange(part: &Part) -> Trouble {
    Trouble::NeedsPerson(format!(
        "part {} of the run {} does not say how far the file is read with it",
        part.part, part.run
    ))
}
