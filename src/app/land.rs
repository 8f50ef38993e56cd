//! Landing an intake: the object first, under its hash; then its ledger item; and only then may the source go away.

pub mod source;

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use self::source::{LocalFile, Reader, Source};
use super::engine::{Engine, Trouble};
use super::lines::{LineReader, Reading, ReadingRow, RowReader, check_mode, header, object_name, read_line};
use crate::domain::intake::{Cursor, Intake, Run, run_key};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Mode, State};
use crate::domain::line::{Header, LineError, agree};
use crate::domain::moves::Now;
use crate::ports::ledger::CreateError;

/// How many bad lines a landing reports one by one; all of them are kept as dead letters.
const BAD_LINES_TOLD: usize = 20;

/// The class of a row among jobs.
const ROW: &str = "bad_line:row";

/// How much of a file is looked at to tell its encoding, in bytes.
const HEAD: usize = 4096;

/// Why a file was not taken in. Nothing of it was.
#[derive(Debug, Error)]
pub enum LandError {
    /// The file can't be used as it is: the sentence says what is wrong with it and where.
    #[error("{0}")]
    Unusable(String),
    /// It is not there any more.
    #[error("it is not there any more")]
    Gone,
    /// Trouble with the ledger or the objects.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// What landing found.
#[derive(Debug)]
pub struct Landed {
    /// The ledger item.
    pub intake: Intake,
    /// Whether the same bytes had landed before: then nothing was looked through again.
    pub before: bool,
    /// Fields that count for the key and are not sent.
    pub unsent: BTreeSet<String>,
    /// The first bad lines, `FILE:LINE: class: what is wrong`.
    pub bad: Vec<String>,
    /// How many bad lines there are.
    pub bad_lines: u64,
    /// Whether the first line that holds something is no whole JSON object: as in a file that is one JSON text over
    /// many lines.
    pub begins_badly: bool,
}

/// Takes a file on this machine in, as [`land_from`] does.
///
/// # Errors
/// As [`land_from`].
pub async fn land(engine: &Engine, path: &Path, mode: Option<Mode>) -> Result<Landed, LandError> {
    land_from(engine, &LocalFile(path), mode).await
}

/// Takes an intake in, in the mode that its header names, or in `mode`, which the header may not contradict. Handing in the
/// same bytes again finds the intake of the first time.
///
/// # Errors
/// A file that can't be used, with what is wrong; or trouble.
pub async fn land_from(engine: &Engine, source: &dyn Source, mode: Option<Mode>) -> Result<Landed, LandError> {
    let shown = source.shown();
    let Contents { sha256, bytes, head } = digest(source).await?;
    check_head(&head).map_err(|why| LandError::Unusable(format!("{shown}: {why}")))?;
    if let Some(Item::Intake(intake)) = engine.ledger.get(&ItemId::intake(&sha256)).await.map_err(Trouble::from)? {
        return as_before(intake, &shown, mode);
    }
    store(engine, source, &sha256, bytes).await?;
    let (scan, run) = scan(engine, &sha256, &shown, mode).await?;
    if scan.lines == 0 {
        return Err(LandError::Unusable(format!("{shown}: the file holds no jobs")));
    }
    let now = engine.clock.now();
    let intake = Intake {
        sha256,
        rev: engine.rev(),
        state: State::Reading,
        since: now,
        due_at: Some(now),
        lease: None,
        file: source.file(),
        bytes,
        lines: scan.lines,
        landed_at: now,
        mixed: scan.targets.len() > 1,
        mode: mode.filter(|_| run.is_none()),
        calls: scan.calls,
        on_result: None,
        run,
        cancelled: None,
        cursor: scan.start,
    };
    let intake = match engine.create(&Item::Intake(intake.clone())).await {
        Ok(()) => intake,
        Err(CreateError::Exists(found)) => match *found {
            Item::Intake(intake) => return as_before(intake, &shown, mode),
            other => return Err(Trouble::NeedsPerson(format!("the ledger item {} is no intake", other.id())).into()),
        },
        Err(CreateError::Ledger(error)) => return Err(Trouble::from(error).into()),
    };
    Ok(Landed {
        intake,
        before: false,
        unsent: scan.unsent,
        bad: scan.bad,
        bad_lines: scan.bad_lines,
        begins_badly: scan.begins_badly,
    })
}

/// The intake of the first time. What it was taken in as stays.
fn as_before(intake: Intake, shown: &str, mode: Option<Mode>) -> Result<Landed, LandError> {
    let is_run = intake.run.is_some();
    if mode.is_some_and(|mode| (mode == Mode::Batch) != is_run) {
        let as_what = if is_run { "a batch run" } else { "a file of jobs" };
        return Err(LandError::Unusable(format!(
            "{shown}: these bytes were taken in before as {as_what}, and stay that"
        )));
    }
    let as_calls = match mode {
        Some(Mode::Call) => intake.calls,
        Some(Mode::Interaction) => intake.mode != Some(Mode::Call),
        Some(Mode::Batch) | None => true,
    };
    if !as_calls {
        let as_what = if intake.calls { "plain calls" } else { "interactions" };
        return Err(LandError::Unusable(format!(
            "{shown}: these bytes were taken in before as {as_what}, and stay that"
        )));
    }
    Ok(Landed { intake, before: true, unsent: BTreeSet::new(), bad: Vec::new(), bad_lines: 0, begins_badly: false })
}

/// Whether a file can be taken in at all, as far as can be told at a glance: before a data folder is made for it.
///
/// # Errors
/// No file, a directory, a file that may not be read, an empty one, one in UTF-16; in words.
pub async fn check(path: &Path) -> Result<(), LandError> {
    let source = LocalFile(path);
    let mut head = Vec::new();
    let read = source.open_file().await?.take(HEAD as u64).read_to_end(&mut head).await;
    read.map_err(|error| source.broken(error))?;
    check_head(&head).map_err(|why| LandError::Unusable(format!("{}: {why}", source.shown())))
}

/// By its byte order mark, or by the NUL bytes that stand beside each letter of JSON in UTF-16, and nowhere in UTF-8.
fn is_utf16(head: &[u8]) -> bool {
    let nuls = head.iter().filter(|byte| **byte == 0).count();
    head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") || nuls > head.len() / 8
}

/// Writes down to which command the results of an intake are handed on. Asked for once, it holds for every process that
/// collects one of them, until another one is asked for.
///
/// # Errors
/// Trouble with the ledger.
pub async fn hand_results_to(engine: &Engine, intake: Intake, command: &str) -> Result<(), Trouble> {
    let change = |intake: &mut Intake, _: Now<'_>| {
        let news = intake.on_result.as_deref() != Some(command);
        intake.on_result = Some(command.to_owned());
        news
    };
    engine.settle_intake(intake, change).await.map(drop)
}

/// What a source brings.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) sha256: String,
    pub(super) bytes: u64,
    head: Vec<u8>,
}

/// Reads a source through.
pub(super) async fn digest(source: &dyn Source) -> Result<Contents, LandError> {
    let mut reader = source.open().await?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut head = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = reader.read(&mut buffer).await.map_err(|error| source.broken(error))?;
        let fresh = buffer.get(..read).unwrap_or_default();
        hash.update(fresh);
        length += read as u64;
        let missing = HEAD.saturating_sub(head.len());
        head.extend_from_slice(fresh.get(..missing).unwrap_or(fresh));
        if read == 0 {
            return Ok(Contents { sha256: hex::encode(hash.finalize()), bytes: length, head });
        }
    }
}

/// What the beginning of a file tells about all of it.
fn check_head(head: &[u8]) -> Result<(), String> {
    if head.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if is_utf16(head) {
        return Err("the file is UTF-16, and must be UTF-8: convert it, as with iconv -f UTF-16 -t UTF-8".to_owned());
    }
    Ok(())
}

/// Copies the source under its hash. One that changes meanwhile is refused, since its name would lie.
pub(super) async fn store(engine: &Engine, source: &dyn Source, sha256: &str, bytes: u64) -> Result<(), LandError> {
    let reader = source.open().await?;
    let mut checked =
        Checked { reader, hash: Sha256::new(), length: 0, expected: (sha256.to_owned(), bytes), changed: false };
    let put = engine.objects.put_stream(&object_name(sha256), &mut checked).await;
    if checked.changed {
        let why = "the file changed while it was being read; nothing was taken in";
        return Err(LandError::Unusable(format!("{}: {why}", source.shown())));
    }
    put.map(drop).map_err(|error| Trouble::from(error).into())
}

/// A reader that fails at its end unless it has brought what was digested before.
struct Checked {
    reader: Reader,
    hash: Sha256,
    length: u64,
    expected: (String, u64),
    changed: bool,
}

impl AsyncRead for Checked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        self.hash.update(fresh);
        self.length += fresh.len() as u64;
        let ended = fresh.is_empty() && buffer.remaining() > 0;
        if ended && (hex::encode(self.hash.clone().finalize()), self.length) != self.expected {
            self.changed = true;
            return Poll::Ready(Err(std::io::Error::other("the file changed while it was being read")));
        }
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct Scan {
    /// Behind the header: its line is no job, and is never taken.
    start: Cursor,
    lines: u64,
    targets: BTreeSet<(Mode, Option<String>)>,
    calls: bool,
    unsent: BTreeSet<String>,
    bad: Vec<String>,
    bad_lines: u64,
    begins_badly: bool,
}

impl Scan {
    fn bad(&mut self, shown: &str, line: u64, error: &LineError) {
        if self.lines == 0 {
            self.begins_badly = matches!(error.class, "bad_line:json" | "bad_line:not_an_object");
        }
        self.bad_lines += 1;
        if self.bad.len() < BAD_LINES_TOLD {
            self.bad.push(format!("{shown}:{line}: {}: {}", error.class, error.message));
        }
    }
}

/// Looks through every line once: what is wrong is told at hand-in and not in the night. With it, what the intake is as a
/// run, if it is one.
async fn scan(
    engine: &Engine,
    sha256: &str,
    shown: &str,
    mode: Option<Mode>,
) -> Result<(Scan, Option<Run>), LandError> {
    let (header, reader) = header(&*engine.objects, sha256)
        .await?
        .map_err(|(line, error)| LandError::Unusable(format!("{shown}:{line}: {}", error.message)))?;
    if let Some(mode) = mode {
        agree(&header, mode).map_err(|error| LandError::Unusable(format!("{shown}: {}", error.message)))?;
    }
    match mode.or(header.mode) {
        Some(Mode::Batch) => {
            let run = run_of(engine, sha256, &header);
            let scan = scan_rows(header, reader.of_rows(), shown).await?;
            Ok((scan, Some(run)))
        }
        Some(mode) => {
            check_mode(mode).map_err(|why| LandError::Unusable(format!("{shown}:1: gleaner.{why}")))?;
            let header = Header { mode: Some(mode), ..header };
            Ok((scan_jobs(&header, reader, shown).await?, None))
        }
        None => Ok((scan_jobs(&header, reader, shown).await?, None)),
    }
}

fn run_of(engine: &Engine, sha256: &str, header: &Header) -> Run {
    let settings = &engine.settings;
    Run {
        key: run_key(sha256),
        model: header.model.clone().unwrap_or_else(|| settings.model.clone()),
        max_attempts: header.max_attempts.unwrap_or(settings.max_attempts),
        deadline_s: header.deadline.unwrap_or(settings.deadline).as_secs().max(1),
        parts: 0,
        held: None,
        let_go: Vec::new(),
    }
}

async fn scan_jobs(header: &Header, mut reader: LineReader<'_>, shown: &str) -> Result<Scan, LandError> {
    let mut scan = Scan { start: reader.cursor(), ..Scan::default() };
    while let Some(raw) = reader.next().await? {
        match read_line(&raw, header) {
            Reading::Nothing => continue,
            Reading::Job(line, _) => {
                scan.calls |= line.mode == Mode::Call;
                scan.unsent.extend(line.unsent);
                if scan.targets.len() < 2 {
                    scan.targets.insert((line.mode, line.target));
                }
            }
            // All of them would become dead letters, and the file could never be a run any more.
            Reading::Bad(error) if scan.lines == 0 && error.class == ROW => {
                return Err(LandError::Unusable(format!(
                    "{shown}:{}: the file begins with a row of a batch run ({{\"key\", \"request\"}}). Add --mode batch, \
                     or a first line\n  {{\"gleaner\": {{\"mode\": \"batch\"}}}}\nNothing was taken in.",
                    raw.line
                )));
            }
            Reading::Bad(error) => scan.bad(shown, raw.line, &error),
        }
        scan.lines += 1;
    }
    Ok(scan)
}

async fn scan_rows(header: Header, mut reader: LineReader<'_>, shown: &str) -> Result<Scan, LandError> {
    let mut scan = Scan { start: reader.cursor(), ..Scan::default() };
    let mut rows =
        RowReader::new(header).map_err(|error| LandError::Unusable(format!("{shown}:1: {}", error.message)))?;
    while let Some(raw) = reader.next().await? {
        match rows.read(&raw) {
            ReadingRow::Nothing => continue,
            ReadingRow::Row(row) => scan.unsent.extend(row.unsent),
            ReadingRow::Bad(error) => scan.bad(shown, raw.line, &error),
        }
        scan.lines += 1;
    }
    if scan.lines > 0 && scan.bad_lines == scan.lines {
        let first = scan.bad.first().cloned().unwrap_or_default();
        return Err(LandError::Unusable(format!(
            "{shown}: none of its lines is a row of a batch run; the first one: {first}"
        )));
    }
    Ok(scan)
}
