//! The next lines to write, and reading them from where they lie.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::index::{Index, Place};
use crate::app::batch::lines::broken;
use crate::app::engine::Trouble;
use crate::ports::objects::Objects;

/// Bytes of lines that a window holds, at least one line whatever it weighs.
const WINDOW: u64 = 24 << 20;

/// What a line costs beside its bytes.
const EACH: u64 = 96;

/// Bytes between two lines that are read along rather than skipped: a read of its own takes longer.
const GAP: u64 = 256 << 10;

/// Bytes of one read, unless one line is longer.
const READ: u64 = 4 << 20;

/// Reads under way at once.
const AT_ONCE: usize = 2;

/// A line to write.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// One that lies there.
    Line(Place),
    /// This one.
    Text(Vec<u8>),
}

/// The next lines to write, in order.
#[derive(Debug, Default)]
pub(super) struct Window {
    slots: Vec<Slot>,
    bytes: u64,
}

impl Window {
    pub fn push(&mut self, slot: Slot) {
        self.bytes += EACH
            + match &slot {
                Slot::Line(place) => u64::from(place.length),
                Slot::Text(text) => text.len() as u64,
            };
        self.slots.push(slot);
    }

    /// Whether it should be written before more goes in.
    pub const fn is_full(&self) -> bool {
        self.bytes >= WINDOW
    }

    /// Reads its lines, and empties it.
    pub async fn read(&mut self, objects: &dyn Objects, index: &Index) -> Result<Read, Trouble> {
        let slots = std::mem::take(&mut self.slots);
        self.bytes = 0;
        let (mut wanted, mut ends, mut length) = (Vec::new(), Vec::with_capacity(slots.len()), 0);
        for slot in &slots {
            if let Slot::Line(place) = slot {
                wanted.push((length, *place));
                length += long(place)?;
            }
            ends.push(length);
        }
        wanted.sort_unstable_by_key(|(_, place)| (place.file, place.at));
        // One piece of memory for all: a part of a read would keep all of it, and many small pieces leave holes.
        let mut bytes = vec![0; length];
        let mut reads = stream::iter(neighbours(&wanted))
            .map(|near| async move {
                let range = span(near);
                let name = near.first().map_or("", |(_, place)| index.name(place.file));
                objects.read(name, range.clone()).await.map(|bytes| (near, range.start, bytes))
            })
            .buffered(AT_ONCE);
        while let Some((near, start, read)) = reads.try_next().await? {
            for (to, place) in near {
                let line = cut(&read, start, place);
                let line = line.ok_or_else(|| broken(index.name(place.file), place.at, "it ends within a line"))?;
                if let Some(to) = bytes.get_mut(*to..to + line.len()) {
                    to.copy_from_slice(line);
                }
            }
        }
        drop(reads);
        Ok(Read { slots, ends, bytes })
    }
}

/// What was read of a window.
#[derive(Debug)]
pub(super) struct Read {
    slots: Vec<Slot>,
    /// Where the line of each slot ends, and that of the next one begins.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Read {
    /// The lines in order.
    pub fn lines(&self) -> impl Iterator<Item = (&Slot, &[u8])> {
        let mut begin = 0;
        self.slots.iter().zip(&self.ends).map(move |(slot, end)| {
            let line = match slot {
                Slot::Text(text) => text,
                Slot::Line(_) => self.bytes.get(begin..*end).unwrap_or_default(),
            };
            begin = *end;
            (slot, line)
        })
    }
}

/// Bytes of a line in memory.
fn long(place: &Place) -> Result<usize, Trouble> {
    usize::try_from(place.length).map_err(|error| Trouble::NeedsPerson(error.to_string()))
}

fn end(place: &Place) -> u64 {
    place.at + u64::from(place.length)
}

/// The bytes that hold lines which lie in order.
fn span(near: &[(usize, Place)]) -> std::ops::Range<u64> {
    let start = near.first().map_or(0, |(_, place)| place.at);
    start..near.last().map_or(start, |(_, place)| end(place))
}

/// Lines that are read at once, from lines in the order in which they lie.
fn neighbours(wanted: &[(usize, Place)]) -> Vec<&[(usize, Place)]> {
    let mut groups = Vec::new();
    let mut rest = wanted;
    while let Some((_, first)) = rest.first() {
        let mut before = first;
        let far = rest.iter().position(|(_, place)| {
            let apart = place.file != first.file
                || place.at.saturating_sub(end(before)) > GAP
                || (place.at > first.at && end(place) - first.at > READ);
            before = place;
            apart
        });
        let (near, next) = rest.split_at(far.unwrap_or(rest.len()).max(1));
        groups.push(near);
        rest = next;
    }
    groups
}

fn cut<'a>(bytes: &'a Bytes, start: u64, place: &Place) -> Option<&'a [u8]> {
    let from = usize::try_from(place.at.checked_sub(start)?).ok()?;
    bytes.get(from..from.checked_add(usize::try_from(place.length).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::super::index::Kind;
    use super::*;

    fn place(file: u32, at: u64, length: u32) -> (usize, Place) {
        (0, Place { file, kind: Kind::Result, length, at })
    }

    #[test]
    fn neighbours_are_read_at_once_and_no_read_is_too_long() {
        let big = u32::try_from(READ).unwrap() * 2;
        let wanted = [
            place(0, 0, 10),
            place(0, 11, 10),
            place(0, 21 + GAP, 10),
            place(0, 32 + 2 * GAP, 10),
            place(0, 43 + 2 * GAP, big),
            place(0, 44 + 2 * GAP + u64::from(big), 10),
            place(1, 0, 10),
        ];
        let groups: Vec<usize> = neighbours(&wanted).iter().map(|near| near.len()).collect();
        assert_eq!(groups, [3, 1, 1, 1, 1]);
        assert!(neighbours(&[]).is_empty());
    }
}
