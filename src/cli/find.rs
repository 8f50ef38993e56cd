//! Finding an item by what people have at hand of it.

use super::outcome::Stop;
use crate::app::engine::{Engine, Trouble};
use crate::app::report::every;
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, State};
use crate::ports::ledger::LedgerError;

/// The shortest beginning of a sha256 that may stand for it.
const SHORTEST: usize = 6;

/// Finds a job by its key or a handle, an intake by its sha256 or the beginning of it, a bad line by its id, in which
/// the intake may be shortened too; and anything by its id in the ledger.
///
/// Jobs are not found by the beginning of their key: the ledger has no order by key, and may hold millions.
pub async fn find(engine: &Engine, id: &str) -> Result<Item, Stop> {
    let id = id.trim();
    let exact = [ItemId::job(&JobKey(id.to_owned())), ItemId::intake(id), ItemId(id.to_owned())];
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
    if let Some((start, number)) = bad_line(id)
        && let Some(intake) = intake(engine, start).await?
        && let Some(item) = get(engine, &ItemId::bad_line(&intake.sha256, number)).await?
    {
        return Ok(item);
    }
    if let Some(intake) = intake(engine, id).await? {
        return Ok(Item::Intake(intake));
    }
    Err(Stop::Usage(format!(
        "there is nothing with the id {id} here. A job is found by its whole key (a line that waits \
         has none yet), or by an id that Gemini gave it; a file by its sha256 or its first {SHORTEST} digits or more."
    )))
}

/// `line/<intake>/<number>`.
fn bad_line(id: &str) -> Option<(&str, u64)> {
    let (intake, number) = id.strip_prefix("line/")?.split_once('/')?;
    Some((intake, number.parse().ok()?))
}

/// The only intake whose sha256 begins so.
async fn intake(engine: &Engine, start: &str) -> Result<Option<Intake>, Stop> {
    let digits = start.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || !(SHORTEST..=64).contains(&start.len()) {
        return Ok(None);
    }
    let start = start.to_ascii_lowercase();
    let mut found = Vec::new();
    for state in [State::Reading, State::Read] {
        for item in every(engine, state, usize::MAX).await? {
            if let Item::Intake(intake) = item
                && intake.sha256.starts_with(&start)
            {
                found.push(intake);
            }
        }
    }
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|intake| format!("  {} {}", intake.sha256, intake.file)).collect();
        return Err(Stop::Usage(format!(
            "more than one file begins with {start}; name more digits:\n{}",
            names.join("\n")
        )));
    }
    Ok(found.pop())
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
    fn ids_of_bad_lines_are_read() {
        assert_eq!(bad_line("line/9f86d0/12"), Some(("9f86d0", 12)));
        for id in ["line/9f86d0", "line/9f86d0/x", "job/9f86d0/1", "9f86d0"] {
            assert_eq!(bad_line(id), None, "{id}");
        }
    }
}
