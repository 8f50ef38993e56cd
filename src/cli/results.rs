//! `results`: the results of a run as one file.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::NamedTempFile;

use super::args::Results;
use super::console::escape_controls;
use super::find;
use super::hint::{quoted, see};
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::table::count;
use crate::app::batch::merge::{MergeError, Merged, merge};
use crate::app::batch::report::RunProgress;
use crate::app::engine::Engine;
use crate::app::report::progress;
use crate::domain::intake::Intake;

/// What is gathered before it is written, in bytes.
const BUFFER: usize = 1 << 20;

/// Writes them.
pub async fn results(context: &Context, args: &Results) -> Result<Exit, Stop> {
    if context.console.json && args.output.is_none() {
        return Err(Stop::Usage(
            "the results themselves go to standard output; with --json name a file for them: -o FILE".to_owned(),
        ));
    }
    let desk = open::look(context).await?;
    let (intake, _) = find::run(&desk.engine, &args.run).await?;
    let progress = progress(&desk.engine, &intake.sha256).await?;
    let Some(run) = &progress.run else { return Err(Stop::Usage(format!("{} is no batch run", args.run))) };
    let merging = Merging { engine: &desk.engine, intake: &progress.intake, run, with_dead: args.with_dead };
    let merged = match &args.output {
        Some(file) => merging.to_file(file).await?,
        None => match merging.to_standard_output().await? {
            Some(merged) => merged,
            None => return Ok(Exit::Done),
        },
    };
    let file = args.output.as_ref().map(|file| file.display().to_string());
    context.console.tell(&json!({
        "run": run.run.key, "rows": run.rows() + merged.waiting, "results": merged.results, "dead": merged.dead,
        "discarded": merged.discarded, "open": merged.open + merged.waiting, "file": file,
    }))?;
    context.console.note(&words(args, &merged, progress.tally.discarded));
    if merged.is_whole() {
        return Ok(Exit::Done);
    }
    let open = merged.open + merged.waiting;
    Err(Stop::Person(format!(
        "{} still open, and in what was written {} missing. This goes on with the run:\n  {}",
        if open == 1 { "1 row is".to_owned() } else { format!("{open} rows are") },
        if open == 1 { "it is" } else { "they are" },
        see(context, &format!("run {}", quoted(&intake.file))),
    )))
}

/// What became of the rows, on standard error: standard output may be the results.
fn words(args: &Results, merged: &Merged, discarded: u64) -> String {
    let place = args.output.as_ref().map(|file| format!(" in {}", file.display())).unwrap_or_default();
    let mut told = format!("{}{place}", count(merged.results, "result"));
    let without = |n: u64, what: &str| {
        let how = if args.with_dead { "with their errors" } else { "left out" };
        (n > 0).then(|| format!("; {n} {what}, {how}"))
    };
    // A dead row that a person has discarded still has its error.
    let given_up = discarded.saturating_sub(merged.discarded).min(merged.dead);
    told.extend(without(merged.dead - given_up, "dead"));
    told.extend(without(given_up, "dead and discarded"));
    told.extend(without(merged.discarded, "discarded"));
    told.push('.');
    told
}

struct Merging<'a> {
    engine: &'a Engine,
    intake: &'a Intake,
    run: &'a RunProgress,
    with_dead: bool,
}

impl Merging<'_> {
    async fn to(&self, out: &mut (dyn Write + Send)) -> Result<Merged, MergeError> {
        merge(self.engine, self.intake, self.run, self.with_dead, out).await
    }

    /// The whole file or none: another one of that name stays until this one is written.
    async fn to_file(&self, file: &Path) -> Result<Merged, Stop> {
        let unwritable = |error: &io::Error| Stop::Person(format!("{} can't be written: {error}", file.display()));
        if std::fs::metadata(file).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return self.to_device(file).await;
        }
        let written = temporary(file).map_err(|error| unwritable(&error))?;
        let mut out = BufWriter::with_capacity(BUFFER, written);
        let merged = match self.to(&mut out).await {
            Ok(merged) => merged,
            Err(MergeError::Trouble(trouble)) => return Err(trouble.into()),
            Err(MergeError::Out(error)) => return Err(unwritable(&error)),
        };
        let written = out.into_inner().map_err(|error| unwritable(error.error()))?;
        written.as_file().sync_all().map_err(|error| unwritable(&error))?;
        written.persist(file).map_err(|error| unwritable(&error.error))?;
        Ok(merged)
    }

    /// A pipe or a device is written to, and never replaced.
    async fn to_device(&self, file: &Path) -> Result<Merged, Stop> {
        let unwritable = |error: &io::Error| Stop::Person(format!("{} can't be written: {error}", file.display()));
        let device = std::fs::OpenOptions::new().write(true).open(file).map_err(|error| unwritable(&error))?;
        let mut out = BufWriter::with_capacity(BUFFER, device);
        let merged = match self.to(&mut out).await {
            Ok(merged) => merged,
            Err(MergeError::Trouble(trouble)) => return Err(trouble.into()),
            Err(MergeError::Out(error)) => return Err(unwritable(&error)),
        };
        out.flush().map_err(|error| unwritable(&error))?;
        Ok(merged)
    }

    /// None: the reader has gone away, as in `| head`, which is a quiet end.
    async fn to_standard_output(&self) -> Result<Option<Merged>, Stop> {
        let out = io::stdout();
        let is_watched = out.is_terminal();
        let mut buffered = BufWriter::with_capacity(BUFFER, out);
        let merged =
            if is_watched { self.to(&mut Harmless(&mut buffered)).await } else { self.to(&mut buffered).await };
        match merged {
            Ok(merged) => Ok(Some(merged)),
            Err(MergeError::Trouble(trouble)) => Err(trouble.into()),
            Err(MergeError::Out(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            Err(MergeError::Out(error)) => Err(Stop::Person(format!("standard output can't be written: {error}"))),
        }
    }
}

/// A file beside the one that it will become: on the same disk.
fn temporary(file: &Path) -> io::Result<NamedTempFile> {
    if file.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    let folder = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_owned);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gleaner-");
    // Readable for everybody whom the umask allows, as any other file; the default is the owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// A terminal: control characters in JSON text, which it could obey, come escaped, which is the same JSON. What is
/// written must be whole characters.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        self.0.write_all(escape_controls(text).as_bytes())?;
        self.0.write_all(end.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_a_person_discarded_are_told_apart() {
        let merged = Merged { results: 5, dead: 4, discarded: 2, ..Merged::default() };
        let args = |with_dead| Results { run: "9f86d0".to_owned(), output: None, with_dead };
        assert_eq!(
            words(&args(true), &merged, 5),
            "5 results; 1 dead, with their errors; 3 dead and discarded, with their errors; 2 discarded, with their errors."
        );
        assert_eq!(words(&args(false), &merged, 2), "5 results; 4 dead, left out; 2 discarded, left out.");
    }

    #[test]
    fn a_terminal_gets_the_same_json_without_controls() {
        let mut out = Vec::new();
        let line = "{\"value\":\"\u{9b}2J\u{202e}日本\"}";
        Harmless(&mut out).write_all(line.as_bytes()).unwrap();
        Harmless(&mut out).write_all(b"\n").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("}\n") && !text.contains('\u{9b}') && !text.contains('\u{202e}'), "{text:?}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["value"], "\u{9b}2J\u{202e}日本");
    }
}
