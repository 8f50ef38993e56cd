//! Rows of a seed's ledger, written down as the intake of a run, as the rows of its parts, and as what is known of them.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::import::Outcomes;
use crate::app::import::prepare::{Written, shown};
use crate::app::lines::{RawLine, ReadingRow, RowReader};
use crate::domain::classify::{Met, Verdict, classify, exhausted};
use crate::domain::failure::Failure;
use crate::domain::job::{CLASS_BYTES, InputRef, Mode, clip, excerpt};
use crate::domain::json::{Json, quoted};
use crate::domain::line::{Header, LineError, ROW_BYTES, ROW_KEY_BYTES};
use crate::domain::pass::KeyName;
use crate::domain::raw::one_line;
use crate::ports::seed::SeedRow;

/// The first line of the intake.
const HEADER: &str = r#"{"gleaner":{"mode":"batch"}}"#;

/// How many bytes of a bad line are shown.
const EXCERPT_BYTES: usize = 200;

/// What the script writes as the error of an answer that had no value in it.
const NO_VALUE: &str = "schema_extract_failed";

/// The most attempts that are told apart: no row of the script's has more than four.
const MOST_ATTEMPTS: u32 = 100;

/// Rows of as many attempts, which make one part.
#[derive(Debug)]
pub(in crate::app::import) struct Group {
    /// Attempts that its rows have used.
    pub tried: u32,
    pub rows: u64,
    pub bytes: u64,
    /// The rows' lines.
    pub lines_at: PathBuf,
    /// What is known of each, where the last of these attempts said something of it.
    pub known_at: Option<PathBuf>,
}

/// A row that can't be sent as it is, and is to be.
#[derive(Debug)]
pub(in crate::app::import) struct BadRow {
    pub place: InputRef,
    pub error: LineError,
    pub excerpt: String,
}

/// The run that the rows are.
#[derive(Debug)]
pub(in crate::app::import) struct RowsPlan {
    pub intake_at: PathBuf,
    /// Lines of the intake, its header included, and its bytes.
    pub lines: u64,
    pub bytes: u64,
    pub rows: u64,
    pub groups: Vec<Group>,
    pub bad: Vec<BadRow>,
    /// By what they are told as.
    pub outcomes: Outcomes,
}

/// Writes rows down, one after the other.
pub(in crate::app::import) struct RowsWriter {
    folder: PathBuf,
    intake: Written,
    reader: RowReader,
    names: HashSet<KeyName>,
    /// By attempts used, and whether something is known of the rows.
    groups: BTreeMap<(u32, bool), (Written, Option<Written>)>,
    bad: Vec<BadRow>,
    outcomes: Outcomes,
}

/// What the script says of a row.
enum Said {
    Nothing,
    Value(String),
    Failed { error: String, class: String, message: String, passing: bool },
}

impl RowsWriter {
    pub fn new(scratch: &Path) -> io::Result<Self> {
        let mut intake = Written::new(scratch, "rows.jsonl")?;
        intake.line(HEADER)?;
        let reader = RowReader::new(Header { mode: Some(Mode::Batch), ..Header::default() });
        Ok(Self {
            folder: scratch.to_owned(),
            intake,
            reader: reader.map_err(|error| io::Error::other(error.message))?,
            names: HashSet::new(),
            groups: BTreeMap::new(),
            bad: Vec::new(),
            outcomes: Outcomes::new(),
        })
    }

    /// Takes a row. Inside: why it is not taken over.
    pub fn take(&mut self, row: SeedRow) -> io::Result<Result<(), String>> {
        let (told_as, tried, said) = match read(&row) {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        if !self.names.insert(KeyName::of(&row.key)) {
            return Ok(Err("key: an earlier row has it too; that one is taken over".to_owned()));
        }
        let (key, payload) = (quoted(&row.key), row.payload.unwrap_or_default());
        let as_json = Json::parse(&payload).is_ok().then(|| one_line(&payload));
        let request = as_json.clone().unwrap_or_else(|| quoted(&payload));
        let line = match self.check(format!("{{\"key\":{key},\"request\":{request}}}")) {
            Ok(line) => line,
            Err((line, error)) if matches!(said, Said::Nothing | Said::Failed { passing: true, .. }) => {
                let place = self.intake.line(&line)?;
                self.bad.push(BadRow { place, error, excerpt: excerpt(line.as_bytes(), EXCERPT_BYTES) });
                *self.outcomes.entry("bad_lines").or_default() += 1;
                return Ok(Ok(()));
            }
            // What it asked for need not be sent again.
            Err(_) => format!("{{\"key\":{key},\"request\":{{\"payload\":{request}}}}}"),
        };
        if line.len() as u64 > ROW_BYTES {
            return Ok(Err(format!("payload: has {} bytes; at most {ROW_BYTES} are taken", payload.len())));
        }
        self.intake.line(&line)?;
        let is_known = !matches!(said, Said::Nothing);
        let (lines, known) = self.group(tried, is_known)?;
        lines.line(&line)?;
        if let (Some(known), Some(line)) = (known, known_line(&key, said)) {
            known.line(&line)?;
        }
        *self.outcomes.entry(told_as).or_default() += 1;
        Ok(Ok(()))
    }

    /// The line as it is sent; or what is wrong with it.
    fn check(&mut self, line: String) -> Result<String, (String, LineError)> {
        let length = line.len() as u64;
        let raw = RawLine {
            line: 1,
            offset: 0,
            length,
            end: length + 1,
            bytes: line.clone().into(),
            is_too_long: length > ROW_BYTES,
        };
        match self.reader.read(&raw) {
            ReadingRow::Row(row) => Ok(row.to_line().trim_end().to_owned()),
            ReadingRow::Bad(error) => Err((line, error)),
            ReadingRow::Nothing => {
                let message = "nothing is there".to_owned();
                Err((line, LineError { class: "bad_line:row", message }))
            }
        }
    }

    fn group(&mut self, tried: u32, is_known: bool) -> io::Result<(&mut Written, Option<&mut Written>)> {
        use std::collections::btree_map::Entry;
        let (lines, known) = match self.groups.entry((tried, is_known)) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => {
                let lines = Written::new(&self.folder, &name(tried, is_known, "rows"))?;
                let known =
                    is_known.then(|| Written::new(&self.folder, &name(tried, is_known, "known"))).transpose()?;
                free.insert((lines, known))
            }
        };
        Ok((lines, known.as_mut()))
    }

    /// What all of them come to; none when there are none.
    pub fn end(mut self) -> io::Result<Option<RowsPlan>> {
        if self.intake.lines <= 1 {
            return Ok(None);
        }
        self.intake.file.flush()?;
        let mut groups = Vec::new();
        for ((tried, is_known), (mut lines, known)) in self.groups {
            lines.file.flush()?;
            if let Some(mut known) = known {
                known.file.flush()?;
            }
            groups.push(Group {
                tried,
                rows: lines.lines,
                bytes: lines.bytes,
                lines_at: self.folder.join(name(tried, is_known, "rows")),
                known_at: is_known.then(|| self.folder.join(name(tried, is_known, "known"))),
            });
        }
        Ok(Some(RowsPlan {
            intake_at: self.folder.join("rows.jsonl"),
            lines: self.intake.lines,
            bytes: self.intake.bytes,
            rows: groups.iter().map(|group| group.rows).sum(),
            groups,
            bad: self.bad,
            outcomes: self.outcomes,
        }))
    }
}

fn name(tried: u32, is_known: bool, what: &str) -> String {
    format!("{what}-{tried}-{}.jsonl", if is_known { "known" } else { "open" })
}

/// What the script says of a row: what it is told as, how many attempts it has used, and its outcome.
///
/// The script counts a failure that is followed by another attempt, and no other: a row that has ended has used one more
/// than it says.
fn read(row: &SeedRow) -> Result<(&'static str, u32, Said), String> {
    if row.key.len() > ROW_KEY_BYTES {
        return Err(format!("key: has {} bytes; at most {ROW_KEY_BYTES} are taken", row.key.len()));
    }
    let attempts = row.attempts.min(MOST_ATTEMPTS);
    match row.status.as_str() {
        "pending" => Ok(("pending", attempts, Said::Nothing)),
        "retryable" => Ok(("retryable", attempts.max(1), failed(row.last_error.as_deref(), true))),
        "permanent" => Ok(("dead", attempts + 1, failed(row.last_error.as_deref(), false))),
        "succeeded" => match &row.result {
            Some(result) => Ok(("succeeded", attempts + 1, Said::Value(value(result)))),
            None => Err("result: nothing is there, although it has succeeded".to_owned()),
        },
        other => Err(format!("status: {} is none of the script's", shown(other))),
    }
}

/// A result as JSON: what is none is a text.
fn value(result: &str) -> String {
    match serde_json::from_str::<&RawValue>(result) {
        Ok(_) => one_line(result),
        Err(_) => quoted(result),
    }
}

/// A failure by this program's rules; whether it passes is for the script to say, whose state is kept.
fn failed(last_error: Option<&str>, passing: bool) -> Said {
    let text = last_error.unwrap_or_default();
    let object = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    if object.is_none() && text == NO_VALUE {
        let message = "the script found no value in the answer".to_owned();
        return Said::Failed {
            error: json!({"message": text}).to_string(),
            class: "extract:schema".to_owned(),
            message,
            passing,
        };
    }
    let error = object.as_ref().map_or_else(|| json!({"message": text}).to_string(), |_| one_line(text));
    let failure = Failure::from_error(&object.unwrap_or_else(|| Value::from(text)));
    let judgement = classify(&failure, Met::InWork);
    let class = match judgement.verdict {
        Verdict::Retryable | Verdict::Queue if !passing => exhausted(&judgement.class),
        _ => judgement.class,
    };
    Said::Failed { error, class: clip(&class, CLASS_BYTES), message: failure.summary(), passing }
}

/// A line for [`Index::known`](crate::domain::pass::Index::known).
fn known_line(key: &str, said: Said) -> Option<String> {
    match said {
        Said::Nothing => None,
        Said::Value(value) => Some(format!("{{\"key\":{key},\"value\":{value}}}")),
        Said::Failed { error, class, message, passing } => Some(format!(
            "{{\"key\":{key},\"error\":{error},\"class\":{},\"message\":{},\"passing\":{passing}}}",
            quoted(&class),
            quoted(&message)
        )),
    }
}
