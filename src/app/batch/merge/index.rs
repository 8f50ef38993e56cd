//! Where the lines of a part's rows lie.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::app::batch::lines::{LinesOf, broken, key_of};
use crate::app::engine::Trouble;
use crate::domain::part::{File, Part, PartId};
use crate::domain::pass::KeyName;
use crate::ports::objects::Objects;

/// What a line says of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Result,
    Dead,
    /// It had died, and is with a replay that is not over.
    Open,
}

/// Where a line lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its file.
    pub file: u32,
    pub kind: Kind,
    /// Bytes of the line, without its end.
    pub length: u32,
    /// Where in the file it begins.
    pub at: u64,
}

/// The lines of the rows of a part and its halves, by key.
#[derive(Debug, Default)]
pub(super) struct Index {
    files: Vec<String>,
    places: HashMap<KeyName, Place>,
}

impl Index {
    /// Reads the files of every pass that counts: dead rows first, so that a success that came later wins; and those of a
    /// replay after what was before it.
    pub async fn of(objects: &Arc<dyn Objects>, family: &[Part]) -> Result<Self, Trouble> {
        let mut index = Self::default();
        let rows: u64 = family.iter().map(|part| part.tally().settled()).sum();
        index.places.reserve(usize::try_from(rows).unwrap_or_default());
        for parts in family.chunk_by(|part, next| part.part.whole() == next.part.whole()) {
            index.read_parts(objects, parts).await?;
        }
        Ok(index)
    }

    /// A part and its halves.
    async fn read_parts(&mut self, objects: &Arc<dyn Objects>, parts: &[Part]) -> Result<(), Trouble> {
        let Some(whole) = parts.first() else { return Ok(()) };
        // What a replay gives up is dead as before.
        let is_over = parts.iter().all(|part| part.state.is_closed());
        if whole.part.is_replay() && !is_over && whole.rows > 0 {
            self.open(objects, &whole.rows_at).await?;
        }
        for (file, kind) in [(File::Dead, Kind::Dead), (File::Results, Kind::Result)] {
            for part in parts {
                for passed in &part.passes {
                    let rows = if kind == Kind::Dead { passed.counts.dead } else { passed.counts.succeeded };
                    if rows > 0 {
                        let name = passed.object(&part.run, &part.part, file);
                        self.read(objects, name, kind, &whole.part).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of a replay are open, until it says what became of them.
    async fn open(&mut self, objects: &Arc<dyn Objects>, rows_at: &str) -> Result<(), Trouble> {
        let mut blocks = LinesOf::own(objects, rows_at);
        while let Some(lines) = blocks.next().await? {
            for line in lines.iter() {
                let key = key_of(line.bytes).map_err(|why| broken(rows_at, line.at, &why))?;
                match self.places.get_mut(&KeyName::of(&key)) {
                    Some(place) if place.kind == Kind::Dead => place.kind = Kind::Open,
                    _ => return Err(broken(rows_at, line.at, "a row that was not dead")),
                }
            }
        }
        Ok(())
    }

    async fn read(
        &mut self,
        objects: &Arc<dyn Objects>,
        name: String,
        kind: Kind,
        whole: &PartId,
    ) -> Result<(), Trouble> {
        let number = |n: usize| u32::try_from(n).map_err(|_| broken(&name, 0, "too long a line, or too many files"));
        let file = number(self.files.len())?;
        let mut blocks = LinesOf::own(objects, &name);
        while let Some(lines) = blocks.next().await? {
            for line in lines.iter() {
                let key = key_of(line.bytes).map_err(|why| broken(&name, line.at, &why))?;
                let place = Place { file, kind, length: number(line.bytes.len())?, at: line.at };
                match self.places.entry(KeyName::of(&key)) {
                    Entry::Vacant(free) => drop(free.insert(place)),
                    // A success after its death, or what became of it in a replay.
                    Entry::Occupied(mut taken)
                        if taken.get().kind != Kind::Result && (kind == Kind::Result || whole.is_replay()) =>
                    {
                        taken.insert(place);
                    }
                    Entry::Occupied(_) => return Err(broken(&name, line.at, "a row that is settled already")),
                }
            }
        }
        self.files.push(name);
        Ok(())
    }

    /// Where the line of a row lies; once, since a key is a row's alone.
    pub fn take(&mut self, key: &str) -> Option<Place> {
        self.places.remove(&KeyName::of(key))
    }

    /// The object of that number.
    pub fn name(&self, file: u32) -> &str {
        usize::try_from(file).ok().and_then(|file| self.files.get(file)).map_or("", String::as_str)
    }

    /// What nobody has asked for, in words: lines of rows that the part hasn't.
    pub fn left(&self) -> Option<String> {
        let stray = self.places.values().next()?;
        Some(format!(
            "{} of its files are of rows that it hasn't, such as the one at byte {} of {}",
            self.places.len(),
            stray.at,
            self.name(stray.file)
        ))
    }
}
