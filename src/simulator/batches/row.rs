//! A row of a batch: where its request lies, how often its like came before, and what becomes of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::answer::Question;
use super::super::content::{Shape, Source, response};
use super::super::faults::{Fault, hash};
use super::input::Entry;
use super::job::Record;

/// A line of the index beside a batch's input. Written as an array, to stay short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Row {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(in super::super) key: Option<String>,
    /// Of its contents.
    pub(in super::super) digest: u64,
    /// How many rows of the same contents were accepted before.
    pub(in super::super) nth: u64,
    pub(in super::super) fault: Option<Fault>,
    /// Whether it asks for JSON. Known only when the input is read, and not written down.
    pub(super) wants_json: bool,
}

#[derive(Serialize, Deserialize)]
struct Written(u64, u64, Option<String>, u64, u64, Option<Fault>);

impl Row {
    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        let written = Written(self.offset, self.length, self.key.clone(), self.digest, self.nth, self.fault);
        let mut line = serde_json::to_vec(&written)?;
        line.push(b'\n');
        Ok(line)
    }

    /// The rows in an index, in the order of the input.
    pub(in super::super) fn all(index: &Path) -> io::Result<impl Iterator<Item = io::Result<Self>> + use<>> {
        let lines = BufReader::with_capacity(1 << 16, File::open(index)?).split(b'\n');
        Ok(lines.map(|line| {
            let Written(offset, length, key, digest, nth, fault) = serde_json::from_slice(&line?)?;
            Ok(Self { offset, length, key, digest, nth, fault, wants_json: false })
        }))
    }

    /// Whether its outcome is an error.
    pub(super) fn fails(&self) -> bool {
        self.fault.is_some_and(|fault| code(fault).is_some())
    }

    /// Reads its line out of the input.
    pub(super) fn entry(&self, input: &mut File) -> io::Result<Entry> {
        input.seek(SeekFrom::Start(self.offset))?;
        let mut line = Vec::new();
        input.take(self.length).read_to_end(&mut line)?;
        Entry::read(&line).map_err(io::Error::other)
    }

    /// What became of it: `response` or `error`, and its key.
    pub(super) fn outcome(&self, batch: &Record, entry: &Entry) -> Map<String, Value> {
        let mut line = Map::new();
        if let Some((code, message)) = self.fault.and_then(code) {
            let mut error = json!({"message": message});
            if let (Some(error), false) = (error.as_object_mut(), code.is_null()) {
                error.insert("code".into(), code);
            }
            line.insert("error".into(), error);
        } else {
            let id = format!("{:016x}", hash(batch.seed, &batch.id, self.digest, &[self.nth]));
            let question = Question::of_contents(&entry.request);
            let source = Source { model: &batch.model, id: &id, at_least: batch.answer_bytes };
            line.insert("response".into(), response(source, &question, Shape::of(self.fault)));
        }
        if let Some(key) = &self.key {
            line.insert("key".into(), json!(key));
        }
        line
    }
}

/// The code, or null for none, and the message of a row that fails (gemini-api, section 5.3).
fn code(fault: Fault) -> Option<(Value, &'static str)> {
    Some(match fault {
        Fault::RowError1 => (json!(1), "The operation was cancelled."),
        Fault::RowError4 => (json!(4), "Deadline expired before operation could complete."),
        Fault::RowError8 => (json!(8), "Resource has been exhausted (e.g. check quota)."),
        Fault::RowError13 => (json!(13), "An internal error has occurred."),
        Fault::RowError14 => (json!(14), "The service is currently unavailable."),
        Fault::RowErrorBare => (Value::Null, "An internal error has occurred."),
        Fault::RowErrorHttp => (json!(503), "The model is overloaded. Please try again later."),
        Fault::RowErrorWord => (json!("UNAVAILABLE"), "The service is currently unavailable."),
        Fault::RowError3 => (json!(3), "Request contains an invalid argument."),
        _ => return None,
    })
}
