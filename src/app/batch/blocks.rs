//! Reading an object in blocks of whole lines, in bounded memory.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use crate::app::engine::Trouble;
use crate::ports::objects::Objects;

/// How much is read at once, in bytes: what a block holds unless a line is longer.
pub const BLOCK: u64 = 2 << 20;

/// The longest line that is held, in bytes: an answer may hold images, and a function has 512 MB.
pub const LONGEST: usize = 64 << 20;

/// How much is kept of each end of a longer line.
const ENDS: usize = 64 << 10;

/// A block.
#[derive(Debug, Clone)]
pub enum Block {
    /// Whole lines; only the last one of an object may lack its line ending.
    Lines {
        /// Where they begin.
        at: u64,
        /// They themselves.
        bytes: Bytes,
    },
    /// One line that is longer than [`LONGEST`].
    Oversized {
        /// Where it begins.
        at: u64,
        /// Its length, line ending included.
        length: u64,
        /// Its beginning.
        head: Bytes,
        /// Its end, without the line ending.
        tail: Bytes,
    },
}

/// The blocks of an object, one after the other. What is read is handed on as it is: the beginning of a line that is cut
/// by the end of a block is read once more with the next one.
#[derive(Debug)]
pub struct Blocks {
    objects: Arc<dyn Objects>,
    name: String,
    /// Where the next block begins.
    at: u64,
    at_end: bool,
    longest: u64,
}

impl Blocks {
    /// From the start.
    #[must_use]
    pub fn of(objects: &Arc<dyn Objects>, name: &str) -> Self {
        Self::from(objects, name, 0)
    }

    /// From a place where a line begins.
    #[must_use]
    pub fn from(objects: &Arc<dyn Objects>, name: &str, at: u64) -> Self {
        let objects = Arc::clone(objects);
        Self { objects, name: name.to_owned(), at, at_end: false, longest: LONGEST as u64 }
    }

    /// The next block. None: the object has ended.
    ///
    /// # Errors
    /// Trouble with the object.
    pub async fn next(&mut self) -> Result<Option<Block>, Trouble> {
        let mut length = BLOCK;
        while !self.at_end {
            let chunk = self.read(self.at, length).await?;
            self.at_end = (chunk.len() as u64) < length;
            if self.at_end {
                return Ok((!chunk.is_empty()).then(|| self.take(chunk)));
            }
            if let Some(newline) = memchr::memrchr(b'\n', &chunk) {
                return Ok(Some(self.take(chunk.slice(..=newline))));
            }
            if length > self.longest {
                return self.skip(chunk).await.map(Some);
            }
            length = (length * 4).min(self.longest + 1);
        }
        Ok(None)
    }

    async fn read(&self, at: u64, length: u64) -> Result<Bytes, Trouble> {
        Ok(self.objects.read(&self.name, at..at + length).await?)
    }

    fn take(&mut self, bytes: Bytes) -> Block {
        let at = self.at;
        self.at += bytes.len() as u64;
        Block::Lines { at, bytes }
    }

    /// Passes over a line that is too long to be held, and begins with `chunk`.
    async fn skip(&mut self, mut chunk: Bytes) -> Result<Block, Trouble> {
        let at = self.at;
        let head = chunk.slice(..ENDS.min(chunk.len()));
        let mut tail = BytesMut::new();
        loop {
            let newline = memchr::memchr(b'\n', &chunk);
            let seen = newline.unwrap_or(chunk.len());
            tail.extend_from_slice(chunk.get(seen.saturating_sub(ENDS)..seen).unwrap_or_default());
            tail.advance(tail.len().saturating_sub(ENDS));
            self.at += (seen + usize::from(newline.is_some())) as u64;
            if newline.is_some() || self.at_end {
                // What is behind the line is read anew.
                self.at_end &= newline.is_none();
                return Ok(Block::Oversized { at, length: self.at - at, head, tail: tail.freeze() });
            }
            chunk = self.read(self.at, BLOCK).await?;
            self.at_end = (chunk.len() as u64) < BLOCK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::local::folder::FolderObjects;
    use crate::domain::time::Millis;

    async fn blocks(text: &[u8], longest: u64) -> Vec<Block> {
        let dir = tempfile::tempdir().unwrap();
        let objects: Arc<dyn Objects> = Arc::new(FolderObjects::open(dir.path(), Millis(0)).unwrap());
        objects.put("o", Bytes::copy_from_slice(text)).await.unwrap();
        let mut reader = Blocks { longest, ..Blocks::of(&objects, "o") };
        let mut all = Vec::new();
        while let Some(block) = reader.next().await.unwrap() {
            all.push(block);
        }
        all
    }

    #[tokio::test]
    async fn every_byte_comes_once_in_whole_lines() {
        let line = format!("{}\n", "x".repeat(1_000_000));
        let text = format!("{}{}\nlast without an ending", line.repeat(11), "y".repeat(9_000_000));
        let mut seen = Vec::new();
        let all = blocks(text.as_bytes(), LONGEST as u64).await;
        assert!(all.len() > 2);
        for (n, block) in all.iter().enumerate() {
            let Block::Lines { at, bytes } = block else { panic!("{block:?}") };
            assert_eq!(*at, seen.len() as u64);
            assert!(bytes.ends_with(b"\n") || n == all.len() - 1);
            seen.extend_from_slice(bytes);
        }
        assert_eq!(seen, text.as_bytes());
        assert!(blocks(b"", LONGEST as u64).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let text = format!("a\n{{\"key\":\"k\"{}\"end\":1}}\nb\n", " ".repeat(9_000_000));
        let all = blocks(text.as_bytes(), 5_000_000).await;
        let text_of = |block: &Block| match block {
            Block::Lines { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
            Block::Oversized { at, length, head, tail } => {
                assert!(head.starts_with(b"{\"key\":\"k\"") && tail.ends_with(b"\"end\":1}"));
                format!("{at}+{length}\n")
            }
        };
        let told: String = all.iter().map(text_of).collect();
        assert_eq!(told, format!("a\n2+{}\nb\n", text.len() - 4));
    }
}
