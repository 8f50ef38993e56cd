//! What is in a state, in the order in which it came; and counting.
//!
//! The index is in the order of due times. To find the first page of a state in the order of a listing, its part of the
//! index is read to the end: with 100,000 entries 8 requests of 1 MB each, about 1,000 read units. What was read is
//! kept for a minute for the pages after it, which cost the items that they hold and no more; 100,000 items in pages of
//! 500 read the index three times, not 200 times. At most [`KEPT`] entries (some 5 MB) are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::attributes::SINCE;
use super::lane::{Entry, Lane, Wanted, read_on};
use super::table::Table;
use super::{batch, fault};
use crate::adapters::system::SystemClock;
use crate::domain::item::{Item, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;
use crate::ports::ledger::{Count, Counts, LedgerError, Place};

/// Entries of the index that are kept for the pages to come.
const KEPT: usize = 50_000;

/// How old what is kept may become: somebody who waits between two pages sees what came meanwhile.
const FRESH: Duration = Duration::from_secs(60);

/// Listings that are remembered at once.
const LISTINGS: usize = 4;

/// Items that are read at once.
const WAVE: usize = 1000;

/// The places of a state's entries that come next in a listing.
#[derive(Debug)]
struct Ahead {
    places: BTreeSet<Entry>,
    /// Places behind what was left out, of items that told them themselves: the index may show these items elsewhere.
    far: BTreeSet<Entry>,
    /// Whether nothing was left out behind them.
    whole: bool,
    read_at: Millis,
}

impl Ahead {
    /// Reads the state's part of the index to the end, and keeps the first places after `after`, `kept` at most.
    async fn read(table: &Table, state: State, after: Option<&Entry>, kept: usize) -> Result<Self, LedgerError> {
        let mut ahead = Self { places: BTreeSet::new(), far: BTreeSet::new(), whole: true, read_at: SystemClock.now() };
        let mut lanes = Lane::all(&[state], Wanted { time: SINCE, due_at: None, page: None });
        while read_on(table, &mut lanes).await? {
            for entry in lanes.iter_mut().flat_map(Lane::take) {
                if Some(&entry) > after {
                    ahead.places.insert(entry);
                }
                if ahead.places.len() > kept {
                    ahead.places.pop_last();
                    ahead.whole = false;
                }
            }
        }
        Ok(ahead)
    }

    /// Takes the next places, in their order.
    fn take(&mut self, wanted: usize) -> Vec<Entry> {
        let mut taken = Vec::new();
        while taken.len() < wanted.min(WAVE)
            && let Some(place) = self.places.pop_first()
        {
            taken.push(place);
        }
        taken
    }

    /// Adds the place of an item that turned out to stand further back than the index said.
    fn put_back(&mut self, place: Entry) {
        if self.whole || self.places.last().is_some_and(|last| place < *last) {
            self.places.insert(place);
        } else {
            self.far.insert(place);
        }
    }
}

/// Listings under way: what comes after a place in a state.
#[derive(Debug)]
pub struct Listings {
    under_way: Mutex<Vec<(State, Entry, Ahead)>>,
    kept: usize,
}

impl Default for Listings {
    fn default() -> Self {
        Self { under_way: Mutex::default(), kept: KEPT }
    }
}

impl Listings {
    /// Keeps no more than so many entries.
    #[cfg(any(test, feature = "testing"))]
    pub fn keep_at_most(&mut self, entries: usize) {
        self.kept = entries;
    }

    /// At most `limit` items in `state`, by the time they entered it and their id, after `after`.
    ///
    /// The index may be behind, so that each item says itself whether it is in the state, and since when: its place in
    /// the listing is the one that it tells, for that is where the caller will go on.
    pub async fn in_state(
        &self,
        table: &Table,
        state: State,
        after: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<Item>, LedgerError> {
        if !state.is_listed() {
            return Err(LedgerError::NeedsPerson(format!(
                "table {}: items that are {state} are not listed, since there may be millions of them; ask for one by \
                 its id, or look at the results in the bucket",
                table.name()
            )));
        }
        if limit == 0 {
            return Ok(Vec::new());
        }
        let after: Option<Entry> = after.map(|place| (place.0, place.1.clone()));
        let mut ahead = match after.as_ref().and_then(|after| self.take(state, after)) {
            Some(ahead) => ahead,
            None => Ahead::read(table, state, after.as_ref(), self.kept).await?,
        };
        let mut page: BTreeMap<Entry, Item> = BTreeMap::new();
        let mut reached = after.clone();
        while page.len() < limit {
            let places = ahead.take(limit.saturating_sub(page.len()));
            let Some(last) = places.last().cloned() else {
                if ahead.whole {
                    break;
                }
                let far = ahead.far;
                ahead = Ahead::read(table, state, reached.as_ref(), self.kept).await?;
                far.into_iter().for_each(|place| ahead.put_back(place));
                continue;
            };
            reached = Some(last);
            for item in batch::get_readable(table, places.into_iter().map(|(_, id)| id)).await? {
                let own = (item.since(), item.id());
                if item.state() != state || Some(&own) <= after.as_ref() {
                    continue;
                }
                if Some(&own) > reached.as_ref() {
                    ahead.put_back(own);
                } else {
                    page.insert(own, item);
                }
            }
        }
        if let Some((last, _)) = page.last_key_value()
            && page.len() == limit
        {
            self.keep(state, last.clone(), ahead);
        }
        Ok(page.into_values().collect())
    }

    /// What comes after `after`, when a page that ended there was read a moment ago.
    fn take(&self, state: State, after: &Entry) -> Option<Ahead> {
        let mut all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemClock.now();
        // A clock that was set back makes them fresh for longer than they should be: then they are dropped.
        all.retain(|(.., ahead)| ahead.read_at <= now && now.since(ahead.read_at) < FRESH);
        let at = all.iter().position(|(of, place, _)| *of == state && place == after)?;
        Some(all.swap_remove(at).2)
    }

    /// Keeps what comes after a page. Nothing is kept when that is nothing: what comes later is read then.
    fn keep(&self, state: State, last: Entry, ahead: Ahead) {
        if ahead.places.is_empty() && ahead.far.is_empty() {
            return;
        }
        let mut all = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == LISTINGS {
            all.remove(0);
        }
        all.push((state, last, ahead));
    }
}

/// Count and oldest of every kind and state that is listed, read intakes excepted.
pub async fn counts(table: &Table) -> Result<Counts, LedgerError> {
    let states: Vec<State> =
        State::OF_JOBS.into_iter().chain(State::OF_OTHERS).filter(|state| *state != State::Read).collect();
    let mut lanes = Lane::all(&states, Wanted { time: SINCE, due_at: None, page: None });
    let mut counts: BTreeMap<(Kind, State), (u64, Millis)> = BTreeMap::new();
    while read_on(table, &mut lanes).await? {
        for lane in &mut lanes {
            let state = lane.state();
            for (since, id) in lane.take() {
                let kind = id.0.split('/').next().and_then(Kind::from_word);
                let kind = kind.ok_or_else(|| fault::unreadable(table.name(), &id.0, "its id names no kind"))?;
                let (items, oldest) = counts.entry((kind, state)).or_insert((0, since));
                *items += 1;
                *oldest = since.min(*oldest);
            }
        }
    }
    let count = |((kind, state), (items, oldest))| Count { kind, state, items, oldest: Some(oldest) };
    Ok(Counts { items: counts.into_iter().map(count).collect(), has_closed: false })
}
