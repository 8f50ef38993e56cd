//! Finding an item by what people have at hand of it.

use std::path::Path;

use super::outcome::Stop;
use crate::app::engine::{Engine, Trouble};
use crate::app::report::every;
use crate::domain::intake::{Intake, Run, run_key};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, State};
use crate::ports::ledger::LedgerError;

/// The shortest beginning of a sha256 that may stand for it.
const SHORTEST: usize = 6;

/// Finds a job by its key or a handle, an intake by its sha256, the beginning of it or its file's name, a bad line, a
/// part or dead rows by their id, in which the intake or the run may be shortened too; and anything by its id in the
/// ledger.
///
/// Jobs are not found by the beginning of their key: the ledger has no order by key, and may hold millions.
pub async fn find(engine: &Engine, id: &str) -> Result<Item, Stop> {
    let id = id.trim();
    let exact = [ItemId::job(&JobKey(id.to_owned())), ItemId::intake(id), ItemId::dead_row(id), ItemId(id.to_owned())];
    for id in exact {
        if let Some(item) = get(engine, &id).await? {
            return Ok(item);
        }
    }
    if let Some(found) = engine.ledger.by_handle(id).await.map_err(stop)?
        && let Some(item) = get(engine, &found).await?
    {
        return Ok(item);
    }
    // A handle that events named, and no job has.
    if let Some(item) = get(engine, &ItemId::stray(id)).await? {
        return Ok(item);
    }
    if let Some(short) = Shortened::read(id)
        && let Some(intake) = by_sha256(engine, short.start).await?
        && let Some(item) = get(engine, &short.whole(&intake.sha256)).await?
    {
        return Ok(item);
    }
    if let Some(intake) = by_sha256(engine, id).await? {
        return Ok(Item::Intake(intake));
    }
    if let Some(intake) = by_name(engine, id).await? {
        return Ok(Item::Intake(intake));
    }
    Err(Stop::Usage(format!(
        "there is nothing with the id {id} here. A job is found by its whole key (a line that waits \
         has none yet), or by an id that Gemini gave it; a file by its sha256, its first {SHORTEST} digits or more, \
         or its name."
    )))
}

/// Finds a run by its key, its intake's sha256, a beginning of either, or its file's name.
pub async fn run(engine: &Engine, name: &str) -> Result<(Intake, Run), Stop> {
    let name = name.trim();
    let found = match by_sha256(engine, name).await? {
        Some(intake) => Some(intake),
        None => by_name(engine, name).await?,
    };
    match found {
        None => Err(Stop::Usage(format!(
            "there is no batch run {name} here. A run is found by its key or its first {SHORTEST} digits or more, or \
             by its file's name."
        ))),
        Some(intake) => match intake.run.clone() {
            Some(run) => Ok((intake, run)),
            None => Err(Stop::Usage(format!("{name} is a file of jobs, and no batch run"))),
        },
    }
}

/// An id that begins with an intake or a run, which may be shortened.
struct Shortened<'a> {
    kind: &'a str,
    start: &'a str,
    rest: &'a str,
}

impl<'a> Shortened<'a> {
    fn read(id: &'a str) -> Option<Self> {
        let (kind, rest) = id.split_once('/')?;
        let (start, rest) = rest.split_once('/')?;
        matches!(kind, "line" | "part" | "rows").then_some(Self { kind, start, rest })
    }

    /// The whole id, from the sha256 of the intake.
    fn whole(&self, sha256: &str) -> ItemId {
        let of = if self.kind == "line" { sha256.to_owned() } else { run_key(sha256) };
        ItemId(format!("{}/{of}/{}", self.kind, self.rest))
    }
}

/// The only intake whose sha256 begins so.
async fn by_sha256(engine: &Engine, start: &str) -> Result<Option<Intake>, Stop> {
    let digits = start.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || !(SHORTEST..=64).contains(&start.len()) {
        return Ok(None);
    }
    let start = start.to_ascii_lowercase();
    only(intakes(engine).await?.into_iter().filter(|intake| intake.sha256.starts_with(&start)).collect(), &|| {
        format!("more than one file begins with {start}; name more digits")
    })
}

/// The only intake of a file of that name.
async fn by_name(engine: &Engine, name: &str) -> Result<Option<Intake>, Stop> {
    let name = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    only(intakes(engine).await?.into_iter().filter(|intake| intake.file == name).collect(), &|| {
        format!("more than one file is called {name}; name one by its first digits")
    })
}

fn only(mut found: Vec<Intake>, problem: &dyn Fn() -> String) -> Result<Option<Intake>, Stop> {
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|intake| format!("  {} {}", intake.sha256, intake.file)).collect();
        return Err(Stop::Usage(format!("{}:\n{}", problem(), names.join("\n"))));
    }
    Ok(found.pop())
}

async fn intakes(engine: &Engine) -> Result<Vec<Intake>, Stop> {
    let mut found = Vec::new();
    for state in [State::Reading, State::Read] {
        for item in every(engine, state, usize::MAX).await? {
            if let Item::Intake(intake) = item {
                found.push(intake);
            }
        }
    }
    Ok(found)
}

async fn get(engine: &Engine, id: &ItemId) -> Result<Option<Item>, Stop> {
    engine.ledger.get(id).await.map_err(stop)
}

fn stop(error: LedgerError) -> Stop {
    Trouble::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_a_shortened_intake_are_read() {
        let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let run = run_key(sha256);
        for (id, whole) in [
            ("line/9f86d0/12", format!("line/{sha256}/12")),
            ("part/9f86d0/3a", format!("part/{run}/3a")),
            ("rows/9f86d0/permanent:400", format!("rows/{run}/permanent:400")),
        ] {
            let short = Shortened::read(id).unwrap();
            assert_eq!((short.start, short.whole(sha256).0), ("9f86d0", whole));
        }
        for id in ["line/9f86d0", "job/9f86d0/1", "9f86d0"] {
            assert!(Shortened::read(id).is_none(), "{id}");
        }
    }
}
