//! A line that is longer than the caller can hold: its key is looked for in its first and last bytes.

use super::super::{Blame, quick};
use super::{Index, Judged, KeyName, Said, What};

/// A line of the output that is too long to be read: its beginning and its end.
#[derive(Debug, Clone, Copy)]
pub struct Oversized<'a> {
    /// Where it begins in the output.
    pub at: u64,
    /// Its bytes, with its line end.
    pub length: u64,
    /// Its first bytes.
    pub head: &'a [u8],
    /// Its last bytes, without its line end.
    pub tail: &'a [u8],
    /// The longest line that is read, in bytes, for the message.
    pub limit: u64,
}

impl Index {
    /// Judges a line that is too long to be read. If its key is found, its row has failed for good as
    /// `internal:too_long`: it would be as long again. Else the line is unreadable.
    #[must_use]
    pub fn judge_oversized(&self, line: &Oversized<'_>) -> Judged {
        let mut judged = Judged { at: line.at, end: line.at + line.length, ..Judged::default() };
        judged.tally.lines = 1;
        let Some(key) = key_of(line) else {
            judged.tally.unreadable = 1;
            return judged;
        };
        let Some(row) = self.find(KeyName::of(&key)) else {
            judged.tally.unknown_keys = 1;
            return judged;
        };
        let message = format!(
            "its line in the output is {} bytes long, and at most {} are read; it is kept at byte {} of the raw output",
            line.length, line.limit, line.at
        );
        let blame = Blame { class: "internal:too_long".to_owned(), message, passing: false };
        judged.lines.push(Said { row, what: What::Failed { blame: Box::new(blame), at: line.at } });
        judged
    }
}

/// The key, if one end of the line shows it; none if the two ends show two.
fn key_of(line: &Oversized<'_>) -> Option<String> {
    let head = quick::key_at_head(line.head);
    let tail = key_at_tail(line.tail);
    match (head, tail) {
        (Some(head), Some(tail)) => Some(head).filter(|head| *head == tail),
        (head, tail) => head.or(tail),
    }
}

/// The key, if it is the last member of the object that ends here: `"key": "..."}`.
///
/// Within a string every quote has an odd number of backslashes before it, so that the beginning of the last string
/// can be found from its end. One closing brace only: so it is the outermost object's member.
fn key_at_tail(tail: &[u8]) -> Option<String> {
    let rest = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let (value, rest) = last_string(rest)?;
    let (name, rest) = last_string(rest.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end())?;
    let begins = rest.trim_ascii_end().last().is_some_and(|byte| matches!(byte, b',' | b'{'));
    if !begins || name != b"\"key\"" {
        return None;
    }
    serde_json::from_slice(value).ok()
}

/// The string token at the end, and what is before it.
fn last_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_suffix(b"\"")?;
    let mut end = inside.len();
    loop {
        let quote = inside.get(..end)?.iter().rposition(|byte| *byte == b'"')?;
        let backslashes = inside.get(..quote)?.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some((text.get(quote..)?, text.get(..quote)?));
        }
        end = quote;
    }
}
