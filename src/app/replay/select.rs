//! Which dead letters somebody means: from the ledger alone, oldest first.

use std::collections::{HashMap, HashSet};

use super::ReplayError;
use crate::app::engine::{Engine, Trouble};
use crate::app::report::letter;
use crate::domain::intake::run_key;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, Mode, State, clip};
use crate::domain::time::Millis;
use crate::ports::ledger::Place;

/// The most that one call takes.
pub const MOST: usize = 1000;

/// How many a listing takes at once.
const PAGE: usize = 500;

/// The shortest beginning of an id, or of the file or run in it, that may stand for the whole.
const SHORTEST: usize = 6;

/// How much of an id that can't be found is quoted, in bytes.
const QUOTED: usize = 100;

/// Which dead letters. What is not said narrows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Which<'a> {
    /// Only this class, or all that begin with it and a colon.
    pub class: Option<&'a str>,
    /// Only these, by the ids that `dead` lists; they may be shortened.
    pub ids: Option<&'a [String]>,
    /// Only of this run (with its bad lines), by its key or six digits of it or more.
    pub run: Option<&'a str>,
    /// Only of this mode; a bad line is of none.
    pub mode: Option<Mode>,
    /// Only those that became dead letters before, when they last did.
    pub before: Option<Millis>,
    /// At most so many.
    pub limit: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Selected {
    /// The dead letters, oldest first by when they last became that.
    pub letters: Vec<Item>,
    /// What was named by its id and is not among them, each with the reason.
    pub others: Vec<(Item, String)>,
}

impl Which<'_> {
    /// What of it keeps a dead letter out; none: nothing.
    fn excludes(&self, item: &Item) -> Option<String> {
        let Some(letter) = letter(item) else {
            let was = match item {
                Item::Job(job) => job.parked_at.is_some(),
                _ => may_be_letter(item),
            };
            let any_more = if was { " any more" } else { "" };
            return Some(format!("it is no dead letter{any_more}, but {}", item.state()));
        };
        let class = letter.class.as_str();
        let of_class = |asked| class == asked || class.strip_prefix(asked).is_some_and(|rest| rest.starts_with(':'));
        if !self.class.is_none_or(of_class) {
            return Some(format!("its class is {class}"));
        }
        let of_run = |run: &str| {
            let key = item.intake().map(run_key);
            key.is_some_and(|key| key == run || (run.len() >= SHORTEST && key.starts_with(run)))
        };
        if !self.run.is_none_or(of_run) {
            return Some("it is of another run, or of none".to_owned());
        }
        if self.mode.is_some_and(|mode| mode_of(item) != Some(mode)) {
            return Some("it is of another mode".to_owned());
        }
        if self.before.is_some_and(|before| item.since() >= before) {
            return Some("it is younger than that".to_owned());
        }
        None
    }
}

fn mode_of(item: &Item) -> Option<Mode> {
    match item {
        Item::Job(job) => Some(job.mode),
        Item::DeadRow(_) | Item::DeadGroup(_) => Some(Mode::Batch),
        _ => None,
    }
}

/// Selects.
///
/// # Errors
/// An id that names nothing, or more than one thing: nothing should be done then; trouble with the ledger.
pub async fn select(engine: &Engine, which: &Which<'_>) -> Result<Selected, ReplayError> {
    match which.ids {
        Some(ids) => by_ids(engine, which, ids).await,
        None => {
            let mut letters = Vec::new();
            let narrow = which.class.is_some() || which.run.is_some() || which.mode.is_some();
            let page = if narrow { PAGE } else { which.limit.clamp(1, PAGE) };
            each_letter(engine, page, |item| {
                let is_enough = letters.len() >= which.limit;
                if !is_enough && which.excludes(&item).is_none() {
                    letters.push(item);
                }
                !is_enough && letters.len() < which.limit
            })
            .await?;
            Ok(Selected { letters, others: Vec::new() })
        }
    }
}

/// Shows every dead letter, oldest first, as long as `visit` wants to see more.
async fn each_letter(engine: &Engine, page: usize, mut visit: impl FnMut(Item) -> bool) -> Result<(), Trouble> {
    let mut place = None;
    loop {
        let items = engine.ledger.in_state(State::Parked, place.as_ref(), page).await?;
        let Some(last) = items.last() else { return Ok(()) };
        place = Some(Place(last.since(), last.id()));
        for item in items {
            if !visit(item) {
                return Ok(());
            }
        }
    }
}

async fn by_ids(engine: &Engine, which: &Which<'_>, ids: &[String]) -> Result<Selected, ReplayError> {
    let mut named: Vec<&str> = ids.iter().map(|id| id.trim()).collect();
    let mut met = HashSet::new();
    named.retain(|id| met.insert(*id));
    let mut found = exactly(engine, &named).await?;
    named.retain(|id| !found.contains_key(*id));
    if !named.is_empty() {
        found.extend(shortened(engine, &named).await?);
        named.retain(|id| !found.contains_key(*id));
    }
    if let Some(unknown) = named.first() {
        return Err(ReplayError::Bad(format!(
            "there is no dead letter {}: `gleaner dead` lists them with their ids",
            clip(unknown, QUOTED)
        )));
    }
    let mut items: Vec<Item> = found.into_values().collect();
    items.sort_by_key(|item| (item.since(), item.id()));
    items.dedup_by_key(|item| item.id());
    let mut selected = Selected::default();
    for item in items {
        match which.excludes(&item) {
            Some(why) => selected.others.push((item, why)),
            None if selected.letters.len() >= which.limit => {
                selected.others.push((item, format!("it is beyond the limit of {}", which.limit)));
            }
            None => selected.letters.push(item),
        }
    }
    Ok(selected)
}

/// Items that an id names wholly: as `dead` lists it, as the ledger has it, or as Gemini does.
async fn exactly(engine: &Engine, ids: &[&str]) -> Result<HashMap<String, Item>, Trouble> {
    let names =
        |id: &str| [ItemId::job(&JobKey(id.to_owned())), ItemId::dead_row(id), ItemId(id.to_owned())].into_iter();
    let asked: Vec<ItemId> = ids.iter().flat_map(|id| names(id)).collect();
    let items = engine.ledger.get_many(&asked).await?.into_iter().map(|item| (item.id(), item));
    let items: HashMap<ItemId, Item> = items.filter(|(_, item)| may_be_letter(item)).collect();
    let mut found = HashMap::new();
    for id in ids {
        if let Some(item) = names(id).find_map(|name| items.get(&name)) {
            found.insert((*id).to_owned(), item.clone());
        } else if let Some(owner) = engine.ledger.by_handle(id).await?
            && let Some(item) = engine.ledger.get(&owner).await?
        {
            found.insert((*id).to_owned(), item);
        }
    }
    Ok(found)
}

const fn may_be_letter(item: &Item) -> bool {
    matches!(item, Item::Job(_) | Item::BadLine(_) | Item::DeadRow(_) | Item::DeadGroup(_))
}

/// Dead letters whose id begins so, or is written with a shortened file or run.
async fn shortened(engine: &Engine, ids: &[&str]) -> Result<HashMap<String, Item>, ReplayError> {
    let mut found: HashMap<String, Item> = HashMap::new();
    let mut twice = None;
    each_letter(engine, PAGE, |item| {
        let Some(letter) = letter(&item) else { return true };
        for id in ids.iter().filter(|id| stands_for(id, &letter.id)) {
            match found.get(*id) {
                Some(other) => {
                    twice.get_or_insert_with(|| ((*id).to_owned(), other.id(), item.id()));
                }
                None => {
                    found.insert((*id).to_owned(), item.clone());
                }
            }
        }
        twice.is_none()
    })
    .await?;
    match twice {
        None => Ok(found),
        Some((id, one, other)) => Err(ReplayError::Bad(format!(
            "more than one dead letter begins with {}: {one}, {other}; name more of it",
            clip(&id, QUOTED)
        ))),
    }
}

/// Whether what somebody typed is the beginning of an id: of a key, or (as in `line/9f86d0/3`) of the file or run in it.
fn stands_for(typed: &str, id: &str) -> bool {
    let parts = |id: &str| {
        let mut parts = id.splitn(3, '/').map(str::to_owned);
        Some((parts.next()?, parts.next()?, parts.next()?))
    };
    match (parts(typed), parts(id)) {
        (Some((kind, start, rest)), Some((own_kind, of, own_rest))) => {
            kind == own_kind && rest == own_rest && start.len() >= SHORTEST && of.starts_with(&start)
        }
        (None, None) => typed.len() >= SHORTEST && id.starts_with(typed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_stands_for_it() {
        let line = format!("line/{}/12", "9f86d081".repeat(8));
        let rows = format!("rows/{}/permanent:400", "9f86d081".repeat(4));
        for (typed, id, fits) in [
            ("3f2a9c", "3f2a9c0d41e7b6885a0c9d1e2f3a4b5c", true),
            ("3f2a9", "3f2a9c0d41e7b6885a0c9d1e2f3a4b5c", false),
            ("line/9f86d0/12", line.as_str(), true),
            ("line/9f86d0/1", line.as_str(), false),
            ("line/9f86d", line.as_str(), false),
            ("rows/9f86d081/permanent:400", rows.as_str(), true),
            ("rows/9f86d081/permanent", rows.as_str(), false),
            ("rows/9f86d0/12", line.as_str(), false),
            ("line/9f8/12", line.as_str(), false),
        ] {
            assert_eq!(stands_for(typed, id), fits, "{typed}");
        }
    }
}
