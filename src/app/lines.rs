//! Reading the lines of an intake object: in order from the cursor, or one again by its place.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};

use super::engine::{Engine, Trouble};
use crate::domain::extract::Expectation;
use crate::domain::intake::Cursor;
use crate::domain::job::{InputRef, Mode, clip};
use crate::domain::line::{
    Header, JobLine, LINE_BYTES, LineError, ROW_BYTES, RowLine, parse_header, parse_line, parse_row,
};
use crate::domain::pass::KeyName;
use crate::ports::objects::Objects;

/// How much is read of an object at once.
const CHUNK: u64 = 1 << 20;

/// The same where it is read to its end.
const ROWS_CHUNK: u64 = 4 << 20;

/// The UTF-8 byte order mark, tolerated at the start of an intake.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The object of an intake.
#[must_use]
pub fn object_name(sha256: &str) -> String {
    format!("intakes/{sha256}.jsonl")
}

/// Headers of intakes read before, by sha256. Intakes never change, so a header is read once a process.
#[derive(Debug, Clone, Default)]
pub struct Headers(Arc<Mutex<HashMap<String, Arc<Header>>>>);

/// One line as it lies in the object.
#[derive(Debug, Clone)]
pub struct RawLine {
    /// Its number, from 1.
    pub line: u64,
    /// Where it begins.
    pub offset: u64,
    /// Its bytes without the line ending.
    pub length: u64,
    /// Where the next one begins.
    pub end: u64,
    /// Its bytes; when it is too long, only the first few.
    pub bytes: Bytes,
    /// Whether it is longer than what the reader takes.
    pub is_too_long: bool,
}

impl RawLine {
    /// Where it lies.
    #[must_use]
    pub fn place(&self, intake: &str) -> InputRef {
        InputRef { intake: intake.to_owned(), line: self.line, offset: self.offset, length: self.length }
    }
}

/// Reads lines one after the other. Memory is bounded by the longest line that is taken.
#[derive(Debug)]
pub struct LineReader<'a> {
    objects: &'a dyn Objects,
    name: String,
    /// Read and not yet taken, beginning at `offset`.
    buffer: BytesMut,
    offset: u64,
    line: u64,
    at_end: bool,
    /// The longest line that is taken.
    longest: u64,
    /// How much is read at once.
    chunk: u64,
}

impl<'a> LineReader<'a> {
    /// Reads an intake of jobs from `offset` on, where `line` lines lie before.
    #[must_use]
    pub fn new(objects: &'a dyn Objects, sha256: &str, offset: u64, line: u64) -> Self {
        Self {
            objects,
            name: object_name(sha256),
            buffer: BytesMut::new(),
            offset,
            line,
            at_end: false,
            longest: LINE_BYTES,
            chunk: CHUNK,
        }
    }

    /// The same for rows, in larger steps: an intake that goes out as a run, or any object of theirs.
    #[must_use]
    pub fn of_rows(self) -> Self {
        Self { longest: ROW_BYTES, chunk: ROWS_CHUNK, ..self }
    }

    /// Reads any object of rows from its start.
    #[must_use]
    pub fn of_object(objects: &'a dyn Objects, name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::new(objects, "", 0, 0).of_rows() }
    }

    /// Where the next line begins, as the cursor of an intake of which nothing was taken yet.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { offset: self.offset, line: self.line, ..Cursor::default() }
    }

    /// The next line, blank ones too. None at the end of the object.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn next(&mut self) -> Result<Option<RawLine>, Trouble> {
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.take(searched + at, 1)));
            }
            searched = self.buffer.len();
            if searched as u64 > self.longest + 2 {
                return self.skip_long_line().await.map(Some);
            }
            if self.at_end {
                return Ok((searched > 0).then(|| self.take(searched, 0)));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Trouble> {
        let from = self.offset + self.buffer.len() as u64;
        let chunk = self.objects.read(&self.name, from..from + self.chunk).await?;
        self.at_end = chunk.is_empty();
        self.buffer.extend_from_slice(&chunk);
        Ok(())
    }

    /// Takes `length` bytes and the `ending` behind them off the buffer.
    fn take(&mut self, length: usize, ending: usize) -> RawLine {
        let mut bytes = self.buffer.split_to(length).freeze();
        self.buffer.advance(ending);
        let mut offset = self.offset;
        self.offset += (length + ending) as u64;
        self.line += 1;
        if bytes.ends_with(b"\r") {
            bytes.truncate(bytes.len() - 1);
        }
        if offset == 0 && bytes.starts_with(BOM) {
            bytes.advance(BOM.len());
            offset = BOM.len() as u64;
        }
        let length = bytes.len() as u64;
        RawLine { line: self.line, offset, length, end: self.offset, bytes, is_too_long: length > self.longest }
    }

    /// Passes over a line that is longer than what is taken, without holding it.
    async fn skip_long_line(&mut self) -> Result<RawLine, Trouble> {
        let start = self.offset;
        let head = Bytes::copy_from_slice(self.buffer.get(..1000).unwrap_or_default());
        loop {
            let newline = self.buffer.iter().position(|byte| *byte == b'\n');
            let seen = newline.unwrap_or(self.buffer.len());
            self.buffer.advance(seen);
            self.offset += seen as u64;
            if newline.is_some() || self.at_end {
                let length = self.offset - start;
                if newline.is_some() {
                    self.buffer.advance(1);
                    self.offset += 1;
                }
                self.line += 1;
                let end = self.offset;
                return Ok(RawLine { line: self.line, offset: start, length, end, bytes: head, is_too_long: true });
            }
            self.fill().await?;
        }
    }
}

/// A line as the program understands it.
#[derive(Debug)]
pub enum Reading {
    /// Blank, or the header.
    Nothing,
    /// A job, and what its answer must be.
    Job(Box<JobLine>, Expectation),
    /// No job can be made of it.
    Bad(LineError),
}

/// Understands one line after the header.
#[must_use]
pub fn read_line(raw: &RawLine, header: &Header) -> Reading {
    if raw.is_too_long {
        let message = format!("the line has {} bytes; at most {LINE_BYTES} are taken", raw.length);
        return Reading::Bad(LineError { class: "bad_line:too_long", message });
    }
    match parse_line(&raw.bytes, header) {
        Ok(None) => Reading::Nothing,
        Ok(Some(line)) => match usable(&line) {
            Ok(expectation) => Reading::Job(Box::new(line), expectation),
            Err(error) => Reading::Bad(error),
        },
        Err(error) => Reading::Bad(error),
    }
}

/// What the answer to a line must be; a line that no job can be made of is told from one.
pub(super) fn usable(line: &JobLine) -> Result<Expectation, LineError> {
    check_mode(line.mode).map_err(|message| LineError { class: "bad_line:field", message })?;
    let request = line.request_value()?;
    let expect = line.expect.as_deref().map(|raw| serde_json::from_str(raw.get())).transpose();
    expect
        .map_err(|error| error.to_string())
        .and_then(|expect: Option<serde_json::Value>| Expectation::of(&request, expect.as_ref()))
        .map_err(|message| LineError { class: "bad_line:field", message })
}

/// A line of a run as the program understands it.
#[derive(Debug)]
pub enum ReadingRow {
    /// Blank, or the header.
    Nothing,
    /// A row.
    Row(Box<RowLine>),
    /// None can be made of it.
    Bad(LineError),
}

/// Reads the lines of a run, which remembers what its rows ask for: most ask alike.
#[derive(Debug)]
pub struct RowReader {
    header: Header,
    expect: Option<serde_json::Value>,
    /// What rows asked for, and what is wrong with it.
    asked: HashMap<String, Option<String>>,
    keys: HashSet<KeyName>,
    last: Option<KeyName>,
}

impl RowReader {
    /// Under a header.
    ///
    /// # Errors
    /// A header whose `expect` can't be read.
    pub fn new(header: Header) -> Result<Self, LineError> {
        let expect = header.expect.as_deref().map(|raw| serde_json::from_str(raw.get())).transpose();
        let expect = expect
            .map_err(|error| LineError { class: "bad_line:header", message: format!("gleaner.expect: {error}") })?;
        Ok(Self { header, expect, asked: HashMap::new(), keys: HashSet::new(), last: None })
    }

    /// Understands one line after the header. A key that an earlier line had makes it a bad line.
    pub fn read(&mut self, raw: &RawLine) -> ReadingRow {
        if raw.is_too_long {
            let message = format!("the line has {} bytes; at most {ROW_BYTES} are taken", raw.length);
            return ReadingRow::Bad(LineError { class: "bad_line:too_long", message });
        }
        match parse_row(&raw.bytes, &self.header) {
            Ok(None) => ReadingRow::Nothing,
            Ok(Some(row)) => match self.check(&row) {
                Ok(()) => ReadingRow::Row(Box::new(row)),
                Err(error) => ReadingRow::Bad(error),
            },
            Err(error) => ReadingRow::Bad(error),
        }
    }

    fn check(&mut self, row: &RowLine) -> Result<(), LineError> {
        if let Some(message) = self.ask(&row.asks) {
            return Err(LineError { class: "bad_line:field", message: format!("request.{message}") });
        }
        let name = KeyName::of(&row.key);
        if !self.keys.insert(name) {
            let message = format!("key: an earlier row has {:?} too; keys are unique within a run", clip(&row.key, 64));
            return Err(LineError { class: REPEATED_KEY, message });
        }
        self.last = Some(name);
        Ok(())
    }

    /// Forgets the last row's key: that row will be read again.
    pub fn forget_last(&mut self) {
        if let Some(name) = self.last.take() {
            self.keys.remove(&name);
        }
    }

    /// What is wrong with what a row asks for.
    fn ask(&mut self, asks: &str) -> Option<String> {
        if let Some(known) = self.asked.get(asks) {
            return known.clone();
        }
        if self.asked.len() >= ASKED {
            self.asked.clear();
        }
        let request = serde_json::from_str(asks).map_err(|error| error.to_string());
        let wrong = request.and_then(|request| Expectation::of(&request, self.expect.as_ref())).err();
        self.asked.insert(asks.to_owned(), wrong.clone());
        wrong
    }
}

/// The class of a row whose key an earlier one has.
pub const REPEATED_KEY: &str = "bad_line:repeated_key";

/// How many different requests are remembered, contents aside.
const ASKED: usize = 1000;

/// Whether this version runs that mode for a line of jobs.
///
/// # Errors
/// It does not; in words.
pub fn check_mode(mode: Mode) -> Result<(), String> {
    match mode {
        Mode::Interaction | Mode::Call => Ok(()),
        Mode::Batch => Err("mode: a batch run is a file of its own, of rows: {\"key\": …, \"request\": …}".to_owned()),
    }
}

/// The header of an intake, and the reader behind it (or at the start, when there is none).
///
/// # Errors
/// Trouble with the object; or, inside, a header whose options can't be read, with its line number.
pub async fn header<'a>(
    objects: &'a dyn Objects,
    sha256: &str,
) -> Result<Result<(Header, LineReader<'a>), (u64, LineError)>, Trouble> {
    let mut reader = LineReader::new(objects, sha256, 0, 0);
    while let Some(raw) = reader.next().await? {
        if !raw.is_too_long && raw.bytes.trim_ascii().is_empty() {
            continue;
        }
        let parsed = if raw.is_too_long { Ok(None) } else { parse_header(&raw.bytes) };
        return Ok(match parsed {
            Ok(Some(header)) => Ok((header, reader)),
            Ok(None) => Ok((Header::default(), LineReader::new(objects, sha256, 0, 0))),
            Err(error) => Err((raw.line, error)),
        });
    }
    Ok(Ok((Header::default(), reader)))
}

impl Engine {
    /// The header of an intake that has landed.
    ///
    /// # Errors
    /// Trouble with the object; a header that landed and can't be read any more needs a person.
    pub async fn header(&self, sha256: &str) -> Result<Arc<Header>, Trouble> {
        let known = self.headers.0.lock().unwrap_or_else(PoisonError::into_inner).get(sha256).cloned();
        if let Some(header) = known {
            return Ok(header);
        }
        let (header, _) = header(&*self.objects, sha256).await?.map_err(|(line, error)| {
            Trouble::NeedsPerson(format!("{} line {line}: {}", object_name(sha256), error.message))
        })?;
        let header = Arc::new(header);
        let mut headers = self.headers.0.lock().unwrap_or_else(PoisonError::into_inner);
        headers.insert(sha256.to_owned(), Arc::clone(&header));
        Ok(header)
    }
}
