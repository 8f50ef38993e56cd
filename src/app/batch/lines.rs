//! The lines of a run's objects, and their keys.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr, memchr2};
use serde::Deserialize;

use super::blocks::{Block, Blocks};
use crate::app::engine::Trouble;
use crate::ports::objects::Objects;

/// Some lines of an object, which lie one after the other.
#[derive(Debug, Clone)]
pub struct Lines {
    /// Where they begin.
    at: u64,
    bytes: Bytes,
}

/// A line of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it begins.
    pub at: u64,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
}

impl Lines {
    /// One after the other, blank ones left out.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut at = self.at;
        let mut rest = &*self.bytes;
        let cut = std::iter::from_fn(move || {
            let (bytes, after) = rest.split_at_checked(memchr(b'\n', rest).unwrap_or(rest.len()))?;
            let ended = !after.is_empty();
            let line = (ended || !bytes.is_empty()).then_some(Line { at, bytes })?;
            rest = after.get(1..).unwrap_or_default();
            at += bytes.len() as u64 + u64::from(ended);
            Some(line)
        });
        // Most lines show at once that they aren't blank.
        cut.filter(|line| line.bytes.first() == Some(&b'{') || !line.bytes.trim_ascii().is_empty())
    }

    /// All of them as they lie there.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads an object of lines from its start.
#[derive(Debug)]
pub struct LinesOf {
    blocks: Blocks,
    passes_over_long: bool,
    name: String,
}

impl LinesOf {
    /// One that this program wrote: no line of it is too long to be held.
    #[must_use]
    pub fn own(objects: &Arc<dyn Objects>, name: &str) -> Self {
        Self { blocks: Blocks::of(objects, name), passes_over_long: false, name: name.to_owned() }
    }

    /// Gemini's raw output, of which lines that are too long to be held are passed over.
    #[must_use]
    pub fn raw(objects: &Arc<dyn Objects>, name: &str) -> Self {
        Self { passes_over_long: true, ..Self::own(objects, name) }
    }

    /// The next lines; none at the end of the object.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn next(&mut self) -> Result<Option<Lines>, Trouble> {
        loop {
            match self.blocks.next().await? {
                None => return Ok(None),
                Some(Block::Lines { at, bytes }) => return Ok(Some(Lines { at, bytes })),
                Some(Block::Oversized { .. }) if self.passes_over_long => {}
                Some(Block::Oversized { at, length, .. }) => {
                    return Err(broken(&self.name, at, &format!("a line of {length} bytes")));
                }
            }
        }
    }
}

/// The key of a row's line, as it was handed in, as a result or as a dead row.
///
/// # Errors
/// The line has none; in words.
pub fn key_of(line: &[u8]) -> Result<Cow<'_, str>, String> {
    if let Some(key) = quick_key(line) {
        return Ok(Cow::Borrowed(key));
    }
    #[derive(Deserialize)]
    struct Keyed<'a> {
        #[serde(borrow)]
        key: Cow<'a, str>,
    }
    let keyed: Result<Keyed<'_>, _> = serde_json::from_slice(line);
    keyed.map(|keyed| keyed.key).map_err(|error| error.to_string())
}

/// The key where it comes first and is written as it is: nearly always.
fn quick_key(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(b"{\"key\":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"")?;
    let end = memchr2(b'"', b'\\', rest)?;
    let (key, after) = rest.split_at_checked(end)?;
    if after.first() != Some(&b'"') {
        return None;
    }
    str::from_utf8(key).ok()
}

/// A line of an object that this program wrote and can't read.
#[must_use]
pub fn broken(object: &str, at: u64, why: &str) -> Trouble {
    Trouble::NeedsPerson(format!("the object {object} is broken at byte {at}: {why}; was it changed?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_however_they_are_written() {
        for (line, key) in [
            (r#"{"key":"a","value":1}"#, "a"),
            (r#"{"key": "a b", "request": {"x": "\"key\""}}"#, "a b"),
            (r#"{"request": {"key": "no"}, "key": "yes"}"#, "yes"),
            (r#"{"key":"日\u672c \"x\""}"#, "日本 \"x\""),
            (r#"{"key":""}"#, ""),
        ] {
            assert_eq!(key_of(line.as_bytes()).as_deref(), Ok(key), "{line}");
        }
        for line in ["", "{}", r#"{"key":1}"#, r#"{"key":"a"#, "{\"key\":\"\\"] {
            assert!(key_of(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_know_where_they_lie() {
        let text = "{\"a\":1}\n\n \r\nx\n{}";
        let lines = Lines { at: 100, bytes: Bytes::from(text) };
        let found: Vec<(u64, &[u8])> = lines.iter().map(|line| (line.at, line.bytes)).collect();
        assert_eq!(found, [(100, b"{\"a\":1}".as_slice()), (112, b"x"), (114, b"{}")]);
    }
}
