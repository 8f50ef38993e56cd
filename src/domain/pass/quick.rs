//! The quick way through lines of the usual shape. Whatever is unusual in the least is left to the general code, and
//! what is taken here comes out as the general code would have it, which property tests check (`tests/quick.rs`).

mod node;
mod plan;
mod scan;

use self::scan::Scan;
use super::asks::{Known, is_asking};

pub(super) use plan::Plan;

/// An answer of the usual shape: one response that ended with `STOP` or says nothing of its end, nothing beside it.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    /// The row's key. It has no escapes.
    pub key: &'a str,
    /// The value of `usageMetadata` as written, if there is one.
    pub usage: Option<&'a str>,
}

/// Members whose spelling differs from Gemini's own; the general code knows what they mean.
const SNAKE: [&[u8]; 2] = [b"usage_metadata", b"finish_reason"];

/// Reads a line of the output. The visible text of candidate 0 is put into `text`: it is UTF-8, and may be empty.
pub(super) fn answer<'a>(line: &'a str, text: &mut Vec<u8>) -> Option<Answer<'a>> {
    text.clear();
    let mut scan = Scan::of(line);
    let (mut key, mut response, mut usage) = (None, false, None);
    scan.object(|scan, name| match name {
        b"key" if key.is_none() => {
            key = Some(scan.plain_string()?);
            Some(())
        }
        b"response" if !response => {
            response = true;
            usage = self::response(scan, text)?;
            Some(())
        }
        b"key" | b"response" | b"error" | b"status" => None,
        _ => scan.skip(),
    })?;
    scan.end()?;
    let key = key.filter(|_| response)?;
    Some(Answer { key: line.get(key)?, usage: usage.and_then(|range| line.get(range)) })
}

/// The range of a value.
type Place = std::ops::Range<usize>;

fn response(scan: &mut Scan<'_>, text: &mut Vec<u8>) -> Option<Option<Place>> {
    let (mut usage, mut candidates) = (None, false);
    scan.object(|scan, name| match name {
        b"candidates" if !candidates => {
            candidates = true;
            let mut first = true;
            scan.array(|scan| if std::mem::take(&mut first) { candidate(scan, text) } else { scan.skip() })
        }
        b"usageMetadata" if usage.is_none() => {
            usage = Some(scan.place()?);
            Some(())
        }
        b"candidates" | b"usageMetadata" => None,
        _ if SNAKE.contains(&name) => None,
        _ => scan.skip(),
    })?;
    candidates.then_some(usage)
}

fn candidate(scan: &mut Scan<'_>, text: &mut Vec<u8>) -> Option<()> {
    let (mut reason, mut content) = (false, false);
    scan.object(|scan, name| match name {
        b"content" if !content => {
            content = true;
            let mut parts = false;
            scan.object(|scan, name| match name {
                b"parts" if !parts => {
                    parts = true;
                    scan.array(|scan| part(scan, text))
                }
                b"parts" => None,
                _ => scan.skip(),
            })
        }
        b"finishReason" if !reason => {
            reason = true;
            let word = scan.plain_string()?;
            (scan.bytes(word)? == b"STOP").then_some(())
        }
        b"content" | b"finishReason" => None,
        _ if SNAKE.contains(&name) => None,
        _ => scan.skip(),
    })
}

fn part(scan: &mut Scan<'_>, text: &mut Vec<u8>) -> Option<()> {
    let mut has_text = false;
    scan.object(|scan, name| match name {
        b"text" if !has_text => {
            has_text = true;
            scan.unescape(text)
        }
        b"text" | b"thought" => None,
        _ => scan.skip(),
    })
}

/// Reads a line of the input: its key, and the text of its request's `generationConfig`, if it has one and nothing
/// else that says what the answer must be.
pub(super) fn row<'a>(line: &'a str, known: &Known) -> Option<(&'a str, Option<&'a str>)> {
    let mut scan = Scan::of(line);
    let (mut key, mut request, mut config) = (None, false, None);
    scan.object(|scan, name| match name {
        b"key" if key.is_none() => {
            key = Some(scan.plain_string()?);
            Some(())
        }
        b"request" if !request => {
            request = true;
            scan.object(|scan, name| match name {
                b"generationConfig" if config.is_none() => {
                    // Most rows say here what the row before them says.
                    let place = scan.known_object(known.config.as_bytes()).or_else(|| scan.place())?;
                    config = Some(place);
                    Some(())
                }
                _ if is_asking(str::from_utf8(name).ok()?) => None,
                _ => scan.skip(),
            })
        }
        b"key" | b"request" => None,
        _ => scan.skip(),
    })?;
    scan.end()?;
    let key = key.filter(|_| request)?;
    Some((line.get(key)?, config.and_then(|place| line.get(place))))
}

/// The key in the beginning of a line that is too long to be read.
pub(super) fn key_at_head(head: &[u8]) -> Option<String> {
    let mut scan = Scan::of_bytes(head);
    let mut key = None;
    // The scan ends at the first value that is cut; the key may have come before.
    let _cut = scan.object(|scan, name| match name {
        b"key" => {
            key = serde_json::from_slice(scan.token()?).ok();
            None
        }
        _ => scan.skip(),
    });
    key
}
