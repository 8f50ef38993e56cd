//! Blocks cut into lines.

use memchr::memchr;

/// A line of a block: where it begins, counted from the start of the object, and its bytes without the line end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub at: u64,
    pub bytes: &'a [u8],
}

impl Line<'_> {
    /// Nothing but white space.
    pub fn is_blank(&self) -> bool {
        // Most lines show at once that they aren't.
        self.bytes.first().is_none_or(u8::is_ascii_whitespace) && self.bytes.trim_ascii().is_empty()
    }
}

/// The lines of a block that begins at that byte of its object. What follows the last line end is a line too, if
/// there is anything. A byte order mark at the start of the object belongs to no line.
pub(super) struct Lines<'a> {
    at: u64,
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    pub fn of(at: u64, block: &'a [u8]) -> Self {
        match block.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if at == 0 => Self { at: (block.len() - rest.len()) as u64, rest },
            _ => Self { at, rest: block },
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let (bytes, after) = self.rest.split_at_checked(end)?;
        let line = Line { at: self.at, bytes };
        self.rest = after.get(1..).unwrap_or_default();
        self.at += (end + 1) as u64;
        Some(line)
    }
}

/// The block as text: one check for all of its lines, where all are UTF-8. A line that isn't is none.
pub(super) fn text_of<'a>(line: &Line<'a>, whole: Option<&'a str>, start: u64) -> Option<&'a str> {
    match whole {
        Some(text) => {
            let from = usize::try_from(line.at.checked_sub(start)?).ok()?;
            text.get(from..from.checked_add(line.bytes.len())?)
        }
        None => str::from_utf8(line.bytes).ok(),
    }
}
