//! From which dead letters the rows of a part of replayed rows came: written once beside its rows, so that whoever tells
//! what became of them finds the same items.

use std::collections::HashMap;

use bytes::Bytes;

use super::lines::{broken, key_of};
use crate::app::engine::{Engine, Trouble};
use crate::domain::part::{Part, PartId};
use crate::domain::pass::KeyName;

/// How such an object begins.
const HEAD: &str = "gleaner origins 1\n";

/// The names of dead letters, by the keys of their rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins(HashMap<KeyName, String>);

/// The object of a part of replayed rows and its halves.
fn object(run: &str, part: &PartId) -> String {
    format!("runs/{run}/{}.origins", part.whole())
}

impl Origins {
    /// Those of a part; none of its rows has one where it is no part of replayed rows.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn of(engine: &Engine, part: &Part) -> Result<Self, Trouble> {
        if !part.part.is_replay() || part.of_group.is_some() {
            return Ok(Self::default());
        }
        let object = object(&part.run, &part.part);
        let bytes = engine.objects.get(&object).await?;
        let text = str::from_utf8(&bytes).ok().and_then(|text| text.strip_prefix(HEAD));
        let text = text.ok_or_else(|| broken(&object, 0, "it does not begin as such a list does"))?;
        let mut origins = Self::default();
        for line in text.lines() {
            let (name, id) = line.split_once(' ').ok_or_else(|| broken(&object, 0, "a line without an id"))?;
            let mut key = [0; 16];
            hex::decode_to_slice(name, &mut key).map_err(|error| broken(&object, 0, &error.to_string()))?;
            origins.0.insert(KeyName(key), id.to_owned());
        }
        Ok(origins)
    }

    /// The row of that key came from the dead letter of that name.
    pub fn add(&mut self, key: &str, id: &str) {
        self.0.insert(KeyName::of(key), id.to_owned());
    }

    /// Writes them beside the rows of a part.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn write(&self, engine: &Engine, part: &Part) -> Result<(), Trouble> {
        let mut lines: Vec<String> = self.0.iter().map(|(key, id)| format!("{key} {id}\n")).collect();
        lines.sort_unstable();
        let text = format!("{HEAD}{}", lines.concat());
        engine.objects.put(&object(&part.run, &part.part), Bytes::from(text)).await?;
        Ok(())
    }

    /// The name of the dead letter from which the row of that key came.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(&KeyName::of(key)).map(String::as_str)
    }

    /// The same for a line of an object, which ends at `end`.
    ///
    /// # Errors
    /// The line has no key.
    pub fn of_line(&self, object: &str, end: u64, line: &[u8]) -> Result<Option<&str>, Trouble> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = key_of(line).map_err(|why| broken(object, end.saturating_sub(line.len() as u64), &why))?;
        Ok(self.get(&key))
    }
}
