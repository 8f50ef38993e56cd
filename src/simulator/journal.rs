//! The file that lets a simulator remember what it had accepted before it was stopped.
//!
//! One JSON line per piece of accepted work, appended in one write before the work is answered for. It survives
//! a killed process, not a power cut. Several processes may append to one file, and read each other's lines.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::accepted::{Accepted, Facts, Plan, Work};
use super::answer::Digest;
use super::batches;
use crate::domain::job::KeyId;
use crate::domain::time::Millis;

/// Where to keep the journal, and who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalConfig {
    /// The file. It is created, with its folder, when it is not there.
    pub path: PathBuf,
    /// A token of this process (`Ids::token`), which keeps its ids apart from those of others on the same file.
    pub writer: String,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Record<'a> {
    id: String,
    at: Millis,
    digest: String,
    nth: u64,
    key: KeyId,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    plan: Plan,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// A line of the file for a batch. Its rows and files lie in the folder beside.
#[derive(Debug, Serialize, Deserialize)]
struct BatchLine<T> {
    batch: T,
}

/// What a line tells of.
#[derive(Debug)]
pub(super) enum News {
    Work(Accepted),
    Batch(batches::Record),
}

#[derive(Debug)]
struct Writer {
    file: File,
    /// Whether the last write ended in the middle of a line.
    torn: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    writer: Mutex<Writer>,
    /// Up to where complete lines were read.
    read_to: Mutex<u64>,
}

impl Journal {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let torn = ends_torn(&mut file)?;
        if torn {
            // Ends the line that a killed process left, or adds an empty one after a line that is just being written.
            file.write_all(b"\n")?;
        }
        Ok(Self { path: path.into(), writer: Mutex::new(Writer { file, torn: false }), read_to: Mutex::new(0) })
    }

    /// Adds work. On an error the caller must not accept it.
    pub(super) fn append(&self, work: &Accepted) -> io::Result<()> {
        // In JSON, line breaks are only ever spaces between tokens: within strings they are escaped.
        let body: Vec<u8> = work.body.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect();
        let record = Record {
            id: work.id.to_string(),
            at: work.at,
            digest: work.digest.to_string(),
            nth: work.nth,
            key: work.key.clone(),
            call: if let Work::Call { model } = &work.work { Some(model.clone()) } else { None },
            plan: work.plan,
            body: serde_json::from_slice(&body)?,
        };
        self.write(serde_json::to_vec(&record)?)
    }

    /// Adds a batch. On an error the caller must not accept it.
    pub(super) fn append_batch(&self, batch: &batches::Record) -> io::Result<()> {
        self.write(serde_json::to_vec(&BatchLine { batch })?)
    }

    fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.torn {
            line.insert(0, b'\n');
        }
        let written = writer.file.write_all(&line);
        writer.torn = written.is_err();
        written
    }

    /// What the lines tell that were added since the last call, by any process.
    pub(super) fn news(&self) -> io::Result<Vec<News>> {
        let mut read_to = self.read_to.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() == *read_to {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(*read_to))?;
        let mut lines = BufReader::new(file);
        let (mut news, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                // The end, or a line that is being written.
                return Ok(news);
            }
            if !line.trim_ascii().is_empty() {
                match read(&line) {
                    Ok(work) => news.push(work),
                    Err(error) => tracing::warn!(
                        journal = %self.path.display(), at.byte = *read_to, %error,
                        "simulator: a broken line of the journal is left out"
                    ),
                }
            }
            *read_to += u64::try_from(length).unwrap_or(u64::MAX);
        }
    }
}

fn ends_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn read(line: &[u8]) -> Result<News, String> {
    if line.starts_with(b"{\"batch\":") {
        let line: BatchLine<batches::Record> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        return Ok(News::Batch(line.batch));
    }
    let record: Record<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_str(record.body.get()).map_err(|error| error.to_string())?;
    let flag = |name: &str| body.get(name).and_then(Value::as_bool);
    let stored = record.call.is_none() && flag("store").unwrap_or(true);
    let work = match record.call {
        Some(model) => Work::Call { model },
        None => Work::Interaction { background: flag("background").unwrap_or(false) },
    };
    let facts = Facts {
        id: record.id.into(),
        work,
        body: record.body.get().as_bytes().into(),
        digest: Digest(u64::from_str_radix(&record.digest, 16).map_err(|error| error.to_string())?),
        nth: record.nth,
        at: record.at,
        key: record.key,
        plan: record.plan,
        stored,
    };
    Ok(News::Work(facts.into()))
}
