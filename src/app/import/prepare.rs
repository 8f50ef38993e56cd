//! What is in a seed's ledger, written down as lines, and what is to be made of each.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::letters::{self, Letter};
use super::rows::prepare::{RowsPlan, RowsWriter};
use crate::domain::interaction::ID_BYTES;
use crate::domain::job::{InputRef, clip};
use crate::domain::json::quoted;
use crate::domain::line::is_label_text;
use crate::ports::seed::{Entry, Refused, SeedError, SeedJob, SeedLedger, SeedLetter};

/// The file of jobs in the scratch folder, and that of dead letters.
pub(super) const JOBS: &str = "jobs.jsonl";
pub(super) const LETTERS: &str = "dead_letters.jsonl";

/// How many bytes of a key a refusal tells.
const KEY_BYTES: usize = 256;

/// Everything that is to be taken over.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub jobs: Vec<(SeedJob, InputRef)>,
    pub letters: Vec<(Letter, InputRef)>,
    pub rows: Option<RowsPlan>,
    pub refused: Vec<Refused>,
    pub unsent: BTreeSet<String>,
}

/// Reads a seed's ledger through.
pub(super) fn prepare(seed: &mut dyn SeedLedger, scratch: &Path) -> Result<Prepared, SeedError> {
    let mut preparing = Preparing {
        prepared: Prepared::default(),
        jobs: Written::new(scratch, JOBS)?,
        letters: Written::new(scratch, LETTERS)?,
        rows: RowsWriter::new(scratch)?,
        names: HashSet::new(),
    };
    seed.read(&mut |entry| preparing.take(entry))?;
    preparing.jobs.file.flush()?;
    preparing.letters.file.flush()?;
    let mut prepared = preparing.prepared;
    prepared.rows = preparing.rows.end()?;
    Ok(prepared)
}

struct Preparing {
    prepared: Prepared,
    jobs: Written,
    letters: Written,
    rows: RowsWriter,
    /// Names that were met, by table.
    names: HashSet<(&'static str, String)>,
}

impl Preparing {
    fn take(&mut self, entry: Entry) -> io::Result<()> {
        match entry {
            Entry::Refused(refused) => self.prepared.refused.push(refused),
            Entry::Job(job) => self.job(job)?,
            Entry::Letter(letter) => self.letter(letter)?,
            Entry::Row(row) => {
                let key = row.key.clone();
                if let Err(why) = self.rows.take(row)? {
                    self.refuse("rows", &key, why);
                }
            }
        }
        Ok(())
    }

    fn refuse(&mut self, table: &str, key: &str, why: String) {
        self.prepared.refused.push(Refused { table: table.to_owned(), key: Some(clip(key, KEY_BYTES)), why });
    }

    fn job(&mut self, mut job: SeedJob) -> io::Result<()> {
        if let Err(why) = self.check_job(&job) {
            self.refuse("jobs", &job.idem, why);
            return Ok(());
        }
        let place = self.jobs.line(&job_line(&job))?;
        // Some versions of the API called it so.
        if let Some(id) = job.handle.as_deref().and_then(|handle| handle.strip_prefix("interactions/")) {
            job.handle = Some(id.to_owned());
        }
        self.prepared.jobs.push((job, place));
        Ok(())
    }

    fn check_job(&mut self, job: &SeedJob) -> Result<(), String> {
        if !is_label_text(&job.idem) {
            return Err("idem: must be 1 to 63 of a-z 0-9 _ -, as the script's own keys are".to_owned());
        }
        if !["reserving", "submitted", "done", "consumed", "failed"].contains(&job.status.as_str()) {
            return Err(format!("status: {} is none of the script's", shown(&job.status)));
        }
        if job.handle.as_deref().is_some_and(|handle| handle.len() > ID_BYTES) {
            return Err(format!("handle: longer than {ID_BYTES} bytes"));
        }
        if !self.names.insert(("jobs", job.idem.clone())) {
            return Err("idem: an earlier row has it too; that one is taken over".to_owned());
        }
        Ok(())
    }

    fn letter(&mut self, letter: SeedLetter) -> io::Result<()> {
        let known = matches!(letter.status.as_str(), "parked" | "recovered");
        let why = match (known, self.names.insert(("dead_letter", letter.job_id.clone()))) {
            (false, _) => Some(format!("status: {} is none of the script's", shown(&letter.status))),
            (true, false) => Some("job_id: an earlier row has it too; that one is taken over".to_owned()),
            (true, true) => None,
        };
        if let Some(why) = why {
            self.refuse("dead_letter", &letter.job_id, why);
            return Ok(());
        }
        let (letter, line) = letters::read(letter);
        self.prepared.unsent.extend(letter.unsent.iter().cloned());
        let place = self.letters.line(&line)?;
        self.prepared.letters.push((letter, place));
        Ok(())
    }
}

/// A word out of the file, for people.
pub(super) fn shown(word: &str) -> String {
    quoted(&clip(word, 48))
}

/// All that the file says of a job, as it is shown.
fn job_line(job: &SeedJob) -> String {
    let mut said = BTreeMap::from([("table", quoted("jobs")), ("status", quoted(&job.status))]);
    said.extend(job.handle.as_deref().map(|handle| ("handle", quoted(handle))));
    said.extend(job.submitted_at.map(|at| ("submitted_at", quoted(&at.to_string()))));
    said.extend(job.updated_at.map(|at| ("updated_at", quoted(&at.to_string()))));
    let said: Vec<String> = said.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{\"idempotency_key\":{},\"imported\":{{{}}}}}", quoted(&job.idem), said.join(","))
}

/// A file of lines that is being written.
#[derive(Debug)]
pub(super) struct Written {
    pub file: BufWriter<File>,
    /// Bytes and lines so far.
    pub bytes: u64,
    pub lines: u64,
}

impl Written {
    pub fn new(folder: &Path, name: &str) -> io::Result<Self> {
        Ok(Self { file: BufWriter::new(File::create(folder.join(name))?), bytes: 0, lines: 0 })
    }

    /// Writes a line, without its end; its place, in an intake that has no name yet.
    pub fn line(&mut self, line: &str) -> io::Result<InputRef> {
        let (offset, length) = (self.bytes, line.len() as u64);
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")?;
        self.bytes += length + 1;
        self.lines += 1;
        Ok(InputRef { intake: String::new(), line: self.lines, offset, length })
    }
}
