//! Taking a batch in: its input is read and checked, the limits are looked at, the faults of its rows are drawn,
//! and from then on it is paid for.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::super::accepted::Pace;
use super::super::faults::{Fault, Phase, Stay, hash};
use super::super::files::shelf::letters;
use super::super::refusal::{Kind, Refusal};
use super::super::world::World;
use super::input::{self, Read};
use super::job::{Course, Job, Plan, Record, Standing};
use crate::domain::job::KeyId;

/// A batch that is about to be accepted.
#[derive(Debug)]
pub(super) struct New {
    pub(super) display_name: String,
    pub(super) model: String,
    pub(super) key: KeyId,
    pub(super) subject: u64,
    pub(super) source: Source,
    pub(super) webhook_config: Option<Value>,
    /// What will become of the create's answer.
    pub(super) create: Option<Fault>,
}

/// Where the rows come from.
#[derive(Debug)]
pub(super) enum Source {
    /// An uploaded file's id.
    File(String),
    /// Inline requests, one a line.
    Inline(Vec<u8>),
}

impl World {
    pub(super) fn course(&self) -> Course {
        let pace = Pace { latency: self.config.latency, polls: self.config.polls_until_done };
        Course { pace, expiry: self.config.batch_expiry, now: self.now() }
    }

    /// Accepts a batch, or refuses all of it. Blocks.
    pub(super) fn accept_batch(&self, new: New) -> io::Result<Result<Arc<Job>, Refusal>> {
        let shelf = self.shelf();
        // Kept under a name of its own until there is an id.
        let (path, _inline) = match &new.source {
            Source::File(id) => (shelf.path(id, "data"), None),
            Source::Inline(lines) => {
                let mut file = shelf.blank()?;
                file.write_all(lines)?;
                (file.path().to_owned(), Some(file))
            }
        };
        let read = self.read_input(&path)?;
        if let Some(refusal) = refused(&read, &new.source) {
            return Ok(Err(refusal));
        }
        // One at a time, so that the limits hold.
        let _alone = self.accepting();
        if let Some(refusal) = self.beyond_limits(&new, &read)? {
            return Ok(Err(refusal));
        }
        let nth = self.accepted_before([new.subject]).pop().unwrap_or(0);
        let id =
            letters(|part| hash(self.config.seed, &format!("batch/{}", self.writer()), new.subject, &[nth, part]), 36);
        let record = self.plan_batch(new, read, id, nth, &path)?;
        self.note_batch(&record)?;
        Ok(Ok(self.add_batch(record)))
    }

    fn read_input(&self, path: &Path) -> io::Result<Read> {
        let (faults, seed) = (self.faults(), self.config.seed);
        let refused = std::cell::Cell::new(0);
        let read = input::read(path, |digest| {
            let met = faults.draw(seed, Phase::RowCreate, digest.0, &[]).is_some();
            refused.set(refused.get() + u64::from(met));
            met
        })?;
        self.count_fault(Fault::RowRefused, refused.get());
        Ok(read)
    }

    fn beyond_limits(&self, new: &New, read: &Read) -> io::Result<Option<Refusal>> {
        let (shelf, course) = (self.shelf(), self.course());
        let (mut jobs, mut tokens) = (0, read.bytes.div_ceil(4));
        for job in self.all_batches().iter().filter(|job| job.record.key == new.key && !job.gone(&shelf)) {
            if matches!(job.standing(&shelf, course)?, Standing::Pending | Standing::Running) {
                jobs += 1;
                tokens += if job.record.model == new.model { job.record.tokens() } else { 0 };
            }
        }
        let enqueued = self.config.enqueued_tokens.is_some_and(|limit| tokens > limit);
        Ok((jobs >= self.config.batch_jobs || enqueued).then(|| Refusal::rate_limit(None)))
    }

    /// Draws the faults of a batch and of its rows, and puts its input and its index in place.
    fn plan_batch(&self, new: New, read: Read, id: String, nth: u64, path: &Path) -> io::Result<Record> {
        let (shelf, faults, seed, subject) = (self.shelf(), self.faults(), self.config.seed, new.subject);
        let draw = |phase| faults.draw(seed, phase, subject, &[nth]);
        let inline = matches!(new.source, Source::Inline(_));
        let plan = Plan {
            create: new.create,
            hidden: draw(Phase::Hidden),
            unlisted: draw(Phase::Unlisted),
            course: draw(Phase::BatchCourse),
            outcome: draw(Phase::BatchOutcome),
            cancel: draw(Phase::Cancel),
            output: draw(Phase::Output).filter(|_| !inline),
        };
        let (mut failed, mut row_faults) = (0, BTreeMap::new());
        let mut index = BufWriter::new(shelf.blank()?);
        let tries = self.accepted_before(read.rows.iter().map(|row| row.digest));
        let count = u64::try_from(read.rows.len()).unwrap_or(u64::MAX);
        for (mut row, nth) in read.rows.into_iter().zip(tries) {
            row.nth = nth;
            let json = |fault: &Fault| *fault != Fault::RowBadJson || row.wants_json;
            row.fault = faults.draw(seed, Phase::Row, row.digest, &[nth]).filter(json);
            let lasts = row.fault.is_some_and(|fault| fault.stay() == Stay::Lasting);
            if plan.outcome == Some(Fault::BatchPartly) && !lasts && hash(seed, &id, row.offset, &[]).is_multiple_of(3)
            {
                row.fault = Some(Fault::RowError4);
            }
            failed += u64::from(row.fails());
            if let Some(fault) = row.fault {
                *row_faults.entry(fault).or_default() += 1;
            }
            index.write_all(&row.line()?)?;
        }
        let file = match new.source {
            Source::File(file) => {
                shelf.keep(&file, &id)?;
                Some(file)
            }
            Source::Inline(_) => {
                std::fs::copy(path, shelf.path(&id, "input"))?;
                None
            }
        };
        shelf.put(&id, "rows", index.into_inner().map_err(io::IntoInnerError::into_error)?)?;
        Ok(Record {
            id,
            display_name: new.display_name,
            model: new.model,
            file,
            subject,
            nth,
            at: self.now(),
            key: new.key,
            rows: count,
            failed,
            bytes: read.bytes,
            answer_bytes: self.config.answer_bytes,
            seed,
            plan,
            row_faults,
            webhook_config: new.webhook_config,
        })
    }
}

/// The refusal of a bad input: one sentence for each bad line, or, of inline requests, the first field.
fn refused(read: &Read, source: &Source) -> Option<Refusal> {
    let invalid = |message: String| Some(Refusal::new(Kind::InvalidRequest, message));
    match (read.errors.first(), source) {
        (None, _) if read.rows.is_empty() => invalid("The input holds no request.".to_owned()),
        (None, _) => None,
        (Some(_), Source::File(_)) => invalid(read.errors.join("\n")),
        (Some(first), Source::Inline(_)) => {
            let (line, why) = first.trim_start_matches("Error on line ").split_once(": ")?;
            let place = line.parse::<u64>().ok()?.saturating_sub(1);
            let field = format!("batch.input_config.requests.requests[{place}]");
            let violation = serde_json::json!({"field": field, "description": why});
            let message = format!("Invalid JSON payload received at '{field}': {why}");
            Some(Refusal::new(Kind::InvalidRequest, message).with([serde_json::json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation],
            })]))
        }
    }
}
