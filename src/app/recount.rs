//! Counting what an intake's lines have become, item by item, for a ledger that keeps no totals.

use std::collections::{BTreeMap, HashMap};

use super::engine::{Engine, Trouble};
use super::lines::{LineReader, Reading, read_line};
use crate::domain::intake::Intake;
use crate::domain::item::{Item, ItemId, Kind};
use crate::domain::job::State;
use crate::domain::line::Header;
use crate::ports::ledger::Total;

/// Lines whose items are read at once.
const PAGE: usize = 500;

/// The items of an intake, by kind and state: of each line behind the cursor the item that it has become. Costs one
/// read of the ledger a line.
///
/// # Errors
/// Trouble with the ledger or the object.
pub async fn recount(engine: &Engine, intake: &Intake) -> Result<Vec<Total>, Trouble> {
    let header = engine.header_of(intake).await?;
    let mut reader = LineReader::new(&*engine.objects, &intake.sha256, 0, 0);
    let mut counting = Counting { engine, intake, totals: BTreeMap::new() };
    let mut lines = Vec::new();
    while let Some(raw) = reader.next().await? {
        // What a holder of the intake has written beyond the cursor counts too: it is in the ledger.
        lines.extend(named(&raw, &header));
        if lines.len() == PAGE {
            counting.add(std::mem::take(&mut lines)).await?;
        }
    }
    counting.add(lines).await?;
    Ok(counting.totals.into_values().collect())
}

/// A line's number, and the key of the job that it asks for; none for a line that no job can be made of.
struct Line {
    number: u64,
    job: Option<ItemId>,
}

fn named(raw: &super::lines::RawLine, header: &Header) -> Option<Line> {
    match read_line(raw, header) {
        Reading::Nothing => None,
        Reading::Bad(_) => Some(Line { number: raw.line, job: None }),
        Reading::Job(line, _) => Some(Line { number: raw.line, job: Some(ItemId::job(&line.key)) }),
    }
}

struct Counting<'a> {
    engine: &'a Engine,
    intake: &'a Intake,
    totals: BTreeMap<(Kind, State), Total>,
}

impl Counting<'_> {
    async fn add(&mut self, lines: Vec<Line>) -> Result<(), Trouble> {
        let jobs: Vec<ItemId> = lines.iter().filter_map(|line| line.job.clone()).collect();
        let found = self.engine.ledger.get_many(&jobs).await?;
        let found: HashMap<ItemId, Item> = found.into_iter().map(|item| (item.id(), item)).collect();
        let mut others = Vec::new();
        for line in lines {
            match line.job.and_then(|id| found.get(&id)) {
                Some(item @ Item::Job(job)) if self.is_own(&job.input, line.number) => self.count(item),
                // A repeat, which has no item of its own, or a bad line, which may be found as late as its reserving.
                _ => others.push(ItemId::bad_line(&self.intake.sha256, line.number)),
            }
        }
        for item in self.engine.ledger.get_many(&others).await? {
            self.count(&item);
        }
        Ok(())
    }

    fn is_own(&self, input: &crate::domain::job::InputRef, line: u64) -> bool {
        input.intake == self.intake.sha256 && input.line == line
    }

    fn count(&mut self, item: &Item) {
        let (kind, state) = (item.kind(), item.state());
        let empty = Total { kind, state, items: 0, possible_duplicates: 0 };
        let total = self.totals.entry((kind, state)).or_insert(empty);
        total.items += 1;
        total.possible_duplicates += u64::from(item.possible_duplicates());
    }
}
