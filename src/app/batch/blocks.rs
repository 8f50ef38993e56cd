//! Reading objects of lines block by block, in memory bounded by a block and the longest line.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use memchr::{memchr, memchr2, memrchr};
use serde::Deserialize;

use crate::app::engine::Trouble;
use crate::ports::objects::Objects;

/// How much is read of an object at once: a few large reads, since each one to a bucket takes its time.
pub const CHUNK: u64 = 8 << 20;

/// Whole lines of an object.
#[derive(Debug, Clone)]
pub struct Block {
    /// Where it begins.
    pub at: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// A line of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it begins.
    pub at: u64,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
}

impl Block {
    /// Its lines, blank ones left out.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
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
}

impl Line<'_> {
    /// Where it lies, without the line end.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.at..self.at + self.bytes.len() as u64
    }
}

/// Reads an object from its start, block by block.
#[derive(Debug)]
pub struct Blocks<'a> {
    objects: &'a dyn Objects,
    name: String,
    /// Where the next block begins.
    at: u64,
    /// The beginning of its first line, which the last read ended in.
    begun: Vec<u8>,
    at_end: bool,
}

impl<'a> Blocks<'a> {
    /// Of that object.
    #[must_use]
    pub fn of(objects: &'a dyn Objects, name: &str) -> Self {
        Self { objects, name: name.to_owned(), at: 0, begun: Vec::new(), at_end: false }
    }

    /// The next one; none at the end of the object.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn next(&mut self) -> Result<Option<Block>, Trouble> {
        while !self.at_end {
            let from = self.at + self.begun.len() as u64;
            let chunk = self.objects.read(&self.name, from..from + CHUNK).await?;
            self.at_end = (chunk.len() as u64) < CHUNK;
            let whole = match memrchr(b'\n', &chunk) {
                _ if self.at_end => chunk.len(),
                Some(last) => last + 1,
                None => 0,
            };
            let rest = chunk.slice(whole..);
            if whole == 0 {
                self.begun.extend_from_slice(&rest);
                continue;
            }
            let mut bytes = chunk.slice(..whole);
            if !self.begun.is_empty() {
                let mut joined = std::mem::take(&mut self.begun);
                joined.extend_from_slice(&bytes);
                bytes = joined.into();
            }
            self.begun = rest.to_vec();
            let block = Block { at: self.at, bytes };
            self.at += block.bytes.len() as u64;
            return Ok(Some(block));
        }
        if self.begun.is_empty() {
            return Ok(None);
        }
        let block = Block { at: self.at, bytes: std::mem::take(&mut self.begun).into() };
        self.at += block.bytes.len() as u64;
        Ok(Some(block))
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
    use std::sync::Arc;

    use super::*;
    use crate::adapters::local::folder::FolderObjects;
    use crate::domain::time::Millis;

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

    #[tokio::test]
    async fn blocks_are_whole_lines_whatever_their_lengths_are() {
        let folder = tempfile::tempdir().unwrap();
        let objects: Arc<dyn Objects> = Arc::new(FolderObjects::open(folder.path(), Millis(0)).unwrap());
        let chunk = usize::try_from(CHUNK).unwrap();
        let lengths = [3, chunk - 4, 0, 5, 2 * chunk + 7, 1, chunk - 1, 9];
        for ending in ["\n", ""] {
            let lines: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let text = format!("{}{ending}", lines.join("\n"));
            let name = format!("rows{}.jsonl", ending.len());
            objects.put(&name, Bytes::from(text.clone())).await.unwrap();
            let mut blocks = Blocks::of(&*objects, &name);
            let (mut found, mut at) = (Vec::new(), 0);
            while let Some(block) = blocks.next().await.unwrap() {
                assert_eq!(block.at, at);
                at += block.bytes.len() as u64;
                for line in block.lines() {
                    assert_eq!(
                        text.get(line.at as usize..).unwrap().as_bytes().get(..line.bytes.len()),
                        Some(line.bytes)
                    );
                    found.push(line.bytes.len());
                }
            }
            assert_eq!(at, text.len() as u64);
            assert_eq!(found, lengths.into_iter().filter(|length| *length > 0).collect::<Vec<_>>());
        }
    }
}
