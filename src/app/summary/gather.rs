//! Counting, item by item.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::expiry::{Doomed, Kept, doomed};
use super::{Class, File, HeldRun, Summary};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::Job;
use crate::domain::time::Millis;

/// The class of an imported job whose line nobody has.
const NO_PAYLOAD: &str = "import:no_payload";

/// Since when the oldest and the newest have been there.
#[derive(Debug, Clone, Copy)]
struct Span(Millis, Millis);

impl Span {
    fn with(seen: Option<Self>, other: Self) -> Self {
        seen.map_or(other, |Self(oldest, newest)| Self(oldest.min(other.0), newest.max(other.1)))
    }
}

/// What has been counted so far.
#[derive(Debug)]
pub(super) struct Gathering {
    now: Millis,
    messages_kept: Option<Duration>,
    dead_letters: u64,
    parked: u64,
    span: Option<Span>,
    classes: BTreeMap<String, (u64, Span)>,
    modes: BTreeMap<&'static str, u64>,
    /// By sha256 of the intake.
    files: BTreeMap<String, u64>,
    /// By kind: what is deleted first, with its dead letter's id, and how many are to be deleted.
    expiries: BTreeMap<Kept, (Doomed, String, u64)>,
    unsent_messages: u64,
    no_payload: u64,
    possible_duplicates: u64,
}

/// What a dead letter says of itself.
struct Told<'a> {
    id: String,
    class: &'a str,
    mode: &'static str,
    /// Jobs, rows or lines.
    count: u64,
    span: Span,
}

fn told(item: &Item) -> Option<Told<'_>> {
    let told = match item {
        Item::Job(job) => Told {
            id: job.key.to_string(),
            class: job.class.as_deref().unwrap_or_default(),
            mode: job.mode.word(),
            count: rows_of(job),
            span: Span(job.parked_at.unwrap_or(job.since), job.since),
        },
        Item::BadLine(bad) => Told {
            id: ItemId::bad_line(&bad.input.intake, bad.input.line).to_string(),
            class: &bad.class,
            mode: "line",
            count: 1,
            span: Span(bad.first_seen, bad.since),
        },
        Item::DeadRow(row) => Told {
            id: row.id.clone(),
            class: &row.class,
            mode: "batch",
            count: 1,
            span: Span(row.first_seen, row.since),
        },
        Item::DeadGroup(group) => Told {
            id: item.id().to_string(),
            class: &group.class,
            mode: "batch",
            count: group.count(),
            span: Span(group.first_seen, group.since),
        },
        // A part that waits for a person waits with its attempt, which is the dead letter.
        Item::Intake(_) | Item::Gate(_) | Item::Part(_) | Item::Event(_) | Item::Stray(_) => return None,
    };
    Some(told)
}

/// An attempt of a part stands for the rows in it.
fn rows_of(job: &Job) -> u64 {
    job.batch.as_ref().map_or(1, |attempt| attempt.rows.max(1))
}

impl Gathering {
    pub(super) const fn new(now: Millis, messages_kept: Option<Duration>) -> Self {
        Self {
            now,
            messages_kept,
            dead_letters: 0,
            parked: 0,
            span: None,
            classes: BTreeMap::new(),
            modes: BTreeMap::new(),
            files: BTreeMap::new(),
            expiries: BTreeMap::new(),
            unsent_messages: 0,
            no_payload: 0,
            possible_duplicates: 0,
        }
    }

    /// Counts an item that is parked.
    pub(super) fn add(&mut self, item: &Item) {
        let Some(Told { id, class, mode, count, span }) = told(item) else { return };
        self.dead_letters += 1;
        self.parked += count;
        self.span = Some(Span::with(self.span, span));
        match self.classes.get_mut(class) {
            Some((counted, seen)) => {
                *counted += count;
                *seen = Span::with(Some(*seen), span);
            }
            None => {
                self.classes.insert(class.to_owned(), (count, span));
            }
        }
        *self.modes.entry(mode).or_default() += count;
        if let Some(intake) = item.intake() {
            *self.files.entry(intake.to_owned()).or_default() += count;
        }
        self.no_payload += u64::from(class == NO_PAYLOAD);
        self.unsent_messages += u64::from(item.letter().is_some_and(|letter| letter.sent.is_none()));
        self.possible_duplicates += u64::from(item.possible_duplicates());
        for next in doomed(item, self.messages_kept) {
            self.expect(next, &id);
        }
    }

    /// Notes what is deleted, unless it is gone already.
    fn expect(&mut self, next: Doomed, id: &str) {
        if next.at <= self.now {
            return;
        }
        match self.expiries.get_mut(&next.what) {
            Some((first, of, items)) => {
                *items += 1;
                if next.at < first.at {
                    (*first, *of) = (next, id.to_owned());
                }
            }
            None => {
                self.expiries.insert(next.what, (next, id.to_owned(), 1));
            }
        }
    }

    /// Counts an item that is open.
    pub(super) fn add_open(&mut self, item: &Item) {
        self.possible_duplicates += u64::from(item.possible_duplicates());
    }

    /// The intakes with the most dead letters, by their sha256.
    pub(super) fn largest_files(&self, limit: usize) -> Vec<(String, u64)> {
        let mut files: Vec<(String, u64)> = self.files.iter().map(|(sha256, count)| (sha256.clone(), *count)).collect();
        files.sort_by_key(|(_, count)| Reverse(*count));
        files.truncate(limit);
        files
    }

    pub(super) fn finish(self, files: Vec<File>, held_runs: Vec<HeldRun>) -> Summary {
        let mut classes: Vec<Class> = self
            .classes
            .into_iter()
            .map(|(class, (count, Span(oldest, newest)))| Class {
                class,
                count,
                oldest: oldest.to_string(),
                newest: newest.to_string(),
            })
            .collect();
        classes.sort_by_key(|class| Reverse(class.count));
        let mut expiries: Vec<(Doomed, String, u64)> = self.expiries.into_values().collect();
        expiries.sort_by_key(|(doomed, ..)| doomed.at);
        let expiries: Vec<_> =
            expiries.into_iter().map(|(doomed, id, items)| doomed.told(id, items, self.now)).collect();
        Summary {
            at: self.now.to_string(),
            clean: self.dead_letters == 0 && held_runs.is_empty() && self.possible_duplicates == 0,
            dead_letters: self.dead_letters,
            parked: self.parked,
            classes,
            modes: self.modes,
            files,
            oldest: self.span.map(|Span(oldest, _)| oldest.to_string()),
            newest: self.span.map(|Span(_, newest)| newest.to_string()),
            oldest_age_s: self.span.map(|Span(oldest, _)| self.now.since(oldest).as_secs()),
            days_until_expiry: expiries.first().map(|first| first.days),
            expiries,
            unsent_messages: self.unsent_messages,
            no_payload: self.no_payload,
            possible_duplicates: self.possible_duplicates,
            held_runs,
        }
    }
}
