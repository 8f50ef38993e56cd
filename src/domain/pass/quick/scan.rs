//! A walk over JSON text that checks its grammar, eight bytes at a time within strings. `None` is never a verdict: it
//! means that the general code must look.

use std::ops::Range;

/// How deep values may be nested here.
const DEPTH: u8 = 24;

/// A place in a text.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    depth: u8,
}

impl<'a> Scan<'a> {
    pub fn of(text: &'a str) -> Self {
        Self::of_bytes(text.as_bytes())
    }

    pub fn of_bytes(text: &'a [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn bytes(&self, place: Range<usize>) -> Option<&'a [u8]> {
        self.text.get(place)
    }

    /// Nothing but white space follows.
    pub fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Skips white space; whether there was any.
    #[inline]
    pub fn space(&mut self) -> bool {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        self.at != start
    }

    /// The members of an object; each is handed its name, without escapes, and must step over its value.
    #[inline]
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.space();
        self.open(b'{')?;
        self.space();
        if self.take(b'}').is_none() {
            loop {
                let name = self.plain_string()?;
                let name = self.bytes(name)?;
                self.space();
                self.take(b':')?;
                self.space();
                member(self, name)?;
                self.space();
                if self.take(b',').is_none() {
                    self.take(b'}')?;
                    break;
                }
                self.space();
            }
        }
        self.close();
        Some(())
    }

    /// The elements of an array; each must be stepped over.
    #[inline]
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        self.open(b'[')?;
        self.space();
        if self.take(b']').is_none() {
            loop {
                element(self)?;
                self.space();
                if self.take(b',').is_none() {
                    self.take(b']')?;
                    break;
                }
                self.space();
            }
        }
        self.close();
        Some(())
    }

    /// Enters an array or an object.
    #[inline]
    pub fn open(&mut self, mark: u8) -> Option<()> {
        self.take(mark)?;
        self.deeper()
    }

    /// Leaves it.
    #[inline]
    pub fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn deeper(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= DEPTH).then_some(())
    }

    /// Steps over any value; where it lies.
    pub fn place(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        self.skip()?;
        Some(start..self.at)
    }

    /// The text of a string, with its quotes.
    pub fn token(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.string()?;
        self.text.get(start..self.at)
    }

    /// Steps over an object, if it is just that text.
    pub fn known_object(&mut self, known: &[u8]) -> Option<Range<usize>> {
        let start = self.at;
        (known.first() == Some(&b'{') && self.text.get(start..)?.starts_with(known)).then(|| {
            self.at += known.len();
            start..self.at
        })
    }

    /// Steps over any value.
    pub fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'{' => {
                self.open(b'{')?;
                self.space();
                if self.take(b'}').is_none() {
                    loop {
                        self.string()?;
                        self.space();
                        self.take(b':')?;
                        self.space();
                        self.skip()?;
                        self.space();
                        if self.take(b',').is_none() {
                            self.take(b'}')?;
                            break;
                        }
                        self.space();
                    }
                }
                self.close();
                Some(())
            }
            b'[' => self.array(Self::skip),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(|_| ()),
        }
    }

    pub fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    /// Steps over a number; whether it has neither fraction nor exponent, and whether it has an exponent.
    pub fn number(&mut self) -> Option<Number> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => {
                self.digits()?;
            }
            _ => return None,
        }
        let mut number = Number { whole: true, exponent: false };
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            number.whole = false;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
            number = Number { whole: false, exponent: true };
        }
        Some(number)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Steps over a string without escapes; where its inside lies.
    #[inline]
    pub fn plain_string(&mut self) -> Option<Range<usize>> {
        self.take(b'"')?;
        let start = self.at;
        self.plain();
        let end = self.at;
        self.take(b'"')?;
        Some(start..end)
    }

    /// Steps over a string. Halves of surrogate pairs are let through.
    pub fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.plain();
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        self.hex()?;
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// Steps over a string; its text, escapes undone, is put behind `out`.
    pub fn unescape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        self.take(b'"')?;
        loop {
            if let Some(chunk) = self.text.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
                // All eight are copied, and what was too much is taken back: that is quicker than to copy by length.
                out.extend_from_slice(chunk);
                let special = special(*chunk);
                if special == 0 {
                    self.at += 8;
                    continue;
                }
                let plain = first(special);
                out.truncate(out.len() - 8 + plain);
                self.at += plain;
            }
            match self.next()? {
                b'\\' => self.escape(out)?,
                b'"' => return Some(()),
                0..0x20 => return None,
                // Fewer than eight bytes are left.
                plain => out.push(plain),
            }
        }
    }

    #[inline]
    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let mark = self.next()?;
        match *ESCAPES.get(usize::from(mark))? {
            0 => {
                (mark == b'u').then_some(())?;
                let c = self.character()?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            byte => out.push(byte),
        }
        Some(())
    }

    /// What stands behind `\u`: a character, or both halves of a surrogate pair.
    pub fn character(&mut self) -> Option<char> {
        let code = self.hex()?;
        if !(0xd800..0xdc00).contains(&code) {
            return char::from_u32(code);
        }
        self.take(b'\\')?;
        self.take(b'u')?;
        let low = self.hex()?;
        (0xdc00..0xe000).contains(&low).then_some(())?;
        char::from_u32(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex(&mut self) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            code = code << 4 | char::from(self.next()?).to_digit(16)?;
        }
        Some(code)
    }

    #[inline]
    pub fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// Steps over what may stand in a string as it is, up to a quote, a backslash, a control or the end.
    #[inline]
    pub fn plain(&mut self) {
        while let Some(chunk) = self.text.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
            let special = special(*chunk);
            if special != 0 {
                self.at += first(special);
                return;
            }
            self.at += 8;
        }
        while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.at += 1;
        }
    }
}

/// What stands for a character behind a backslash; nothing for `u` and for what is no escape.
static ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let pairs = *b"\"\"\\\\//n\nt\tr\rb\x08f\x0c";
    let (mut pairs, mut rest) = (pairs.as_slice(), true);
    while rest {
        if let [mark, byte, more @ ..] = pairs {
            if let (_, [place, ..]) = table.split_at_mut(*mark as usize) {
                *place = *byte;
            }
            pairs = more;
        } else {
            rest = false;
        }
    }
    table
};

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// With neither fraction nor exponent.
    pub whole: bool,
    /// With an exponent.
    pub exponent: bool,
}

/// The highest bit of each byte that is a quote, a backslash or a control. Above the lowest of them there may be
/// bits too many: subtraction borrows.
#[inline]
pub(super) fn special(chunk: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = u64::from_le_bytes(chunk);
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let quote = zero(word ^ (ONES * b'"' as u64));
    let backslash = zero(word ^ (ONES * b'\\' as u64));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

/// The first byte of those, 0 to 7; 8 if there is none.
#[inline]
pub(super) fn first(special: u64) -> usize {
    special.trailing_zeros() as usize / 8
}
