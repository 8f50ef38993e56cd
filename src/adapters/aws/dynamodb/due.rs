//! What is due, and what will be next.

use std::collections::HashSet;

use super::attributes::{DUE, SHARDS};
use super::batch;
use super::lane::{Lane, Wanted, read_on};
use super::table::Table;
use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::ledger::LedgerError;

/// Entries of one page at most. 1000 are about 100 KB.
const LONGEST_PAGE: usize = 1000;

/// At most `limit` items in one of `states` that are due at `now`, those due longest first.
///
/// The index may be behind: an entry may be of an item that has moved on. So entries only name items, the items say
/// themselves whether they are due, and as long as too few are, the next entries are taken: what has moved on can't
/// hide what is due behind it.
pub async fn due(table: &Table, states: &[State], now: Millis, limit: usize) -> Result<Vec<Item>, LedgerError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut lanes = Lane::all(states, Wanted { time: DUE, due_at: Some(now), page: Some(page(limit)) });
    let mut asked = HashSet::new();
    let mut due = Vec::new();
    while due.len() < limit {
        let ids = earliest(table, &mut lanes, &mut asked, limit.saturating_sub(due.len())).await?;
        if ids.is_empty() {
            break;
        }
        let items = batch::get_readable(table, ids).await?;
        let is_due = |item: &Item| states.contains(&item.state()) && item.due_at().is_some_and(|due| due <= now);
        due.extend(items.into_iter().filter(is_due));
    }
    due.sort_by_cached_key(|item| (item.due_at(), item.id()));
    due.truncate(limit);
    Ok(due)
}

/// How long a lane's page should be for `limit` items: as if they were all of one state, whose shards are about evenly
/// filled, and some more.
fn page(limit: usize) -> i32 {
    let even = limit.div_ceil(usize::from(SHARDS));
    let page = even.saturating_add(even / 4).saturating_add(2).min(LONGEST_PAGE);
    i32::try_from(page).unwrap_or(i32::MAX)
}

/// The ids of the next `wanted` entries over all lanes, the earliest first, none that was asked for before. Fewer only
/// when there are no more.
async fn earliest(
    table: &Table,
    lanes: &mut [Lane],
    asked: &mut HashSet<ItemId>,
    wanted: usize,
) -> Result<Vec<ItemId>, LedgerError> {
    let mut ids = Vec::new();
    while ids.len() < wanted {
        // An unread lane may hold the earliest entry of all.
        read_on(table, lanes).await?;
        let first = lanes.iter_mut().filter(|lane| lane.first().is_some()).min_by(|a, b| a.first().cmp(&b.first()));
        let Some((_, id)) = first.and_then(Lane::take_first) else { break };
        // An item that changes its state may be met in both.
        if asked.insert(id.clone()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

/// When the next item in one of `states` becomes due, or became, as the index has it.
pub async fn next_due(table: &Table, states: &[State]) -> Result<Option<Millis>, LedgerError> {
    // Up to the last of all times: what is never due stands behind it.
    let mut lanes = Lane::all(states, Wanted { time: DUE, due_at: Some(Millis(i64::MAX)), page: Some(1) });
    read_on(table, &mut lanes).await?;
    Ok(lanes.iter().filter_map(Lane::first).map(|(due, _)| *due).min())
}
