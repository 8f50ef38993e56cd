//! Answers checked against the usual schemas while they are read.

use super::node::{ANY, EXACT, Node, kind};
use super::scan::{Scan, first, special};
use crate::domain::extract::Expectation;
use crate::domain::schema::to_json_schema;

/// How to take an answer's text that is as it should be. What isn't, or may not be, is not taken.
#[derive(Debug)]
pub(in super::super) enum Plan {
    /// Text.
    Text,
    /// JSON that fits.
    Json(Node),
}

impl Plan {
    /// The plan for an expectation, if its schema is one of the usual.
    pub fn of(expectation: &Expectation) -> Option<Self> {
        match (&expectation.schema, expectation.json) {
            (None, false) => Some(Self::Text),
            (None, true) => Some(Self::Json(Node::any())),
            (Some(_), false) => None,
            (Some(schema), true) => Node::of(&to_json_schema(schema).ok()?).map(Self::Json),
        }
    }

    /// Writes the value of an answer's text, which is UTF-8, behind `out`. When it is not taken, `out` may have more
    /// than before.
    pub fn write(&self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Text => {
                text.iter().any(u8::is_ascii_graphic).then_some(())?;
                quote(text, out);
                Some(())
            }
            Self::Json(node) => {
                let mut walk = Walk { scan: Scan::of_bytes(text), text, out, from: 0, names: Vec::new() };
                walk.space()?;
                walk.value(node)?;
                walk.space()?;
                walk.scan.end()?;
                walk.flush()
            }
        }
    }
}

/// A walk over an answer that checks and writes it.
struct Walk<'t, 'o> {
    scan: Scan<'t>,
    text: &'t [u8],
    out: &'o mut Vec<u8>,
    /// Up to here it is written.
    from: usize,
    /// Names that no schema knows, of all objects that are open.
    names: Vec<&'t [u8]>,
}

impl Walk<'_, '_> {
    /// Leaves out white space.
    #[inline]
    fn space(&mut self) -> Option<()> {
        if let Some(b' ' | b'\n' | b'\r' | b'\t') = self.scan.peek() {
            self.flush()?;
            self.scan.space();
            self.from = self.scan.at();
        }
        Some(())
    }

    fn flush(&mut self) -> Option<()> {
        self.out.extend_from_slice(self.text.get(self.from..self.scan.at())?);
        self.from = self.scan.at();
        Some(())
    }

    fn value(&mut self, node: &Node) -> Option<()> {
        match self.scan.peek()? {
            b'"' => self.string(node),
            b'{' => self.object(node),
            b'[' => self.array(node),
            b't' => self.word(node, kind::BOOLEAN, b"true"),
            b'f' => self.word(node, kind::BOOLEAN, b"false"),
            b'n' => self.word(node, kind::NULL, b"null"),
            _ => self.number(node),
        }
    }

    fn word(&mut self, node: &Node, kind: u8, word: &[u8]) -> Option<()> {
        node.takes(kind)?;
        node.words.as_ref().is_none_or(|words| kind == kind::NULL && words.null).then_some(())?;
        self.scan.word(word)
    }

    fn number(&mut self, node: &Node) -> Option<()> {
        let start = self.scan.at();
        let number = self.scan.number()?;
        let digits = self.scan.at() - start;
        // What is as long as this may be too large for an integer, or for a float.
        (node.words.is_none() && !number.exponent && digits <= 18).then_some(())?;
        node.takes(if number.whole { kind::INTEGER } else { kind::FRACTION })?;
        if let Some((least, most)) = node.range {
            let number: f64 = str::from_utf8(self.text.get(start..self.scan.at())?).ok()?.parse().ok()?;
            (number.abs() < EXACT && least <= number && number <= most).then_some(())?;
        }
        Some(())
    }

    fn string(&mut self, node: &Node) -> Option<()> {
        node.takes(kind::STRING)?;
        self.scan.take(b'"')?;
        let start = self.scan.at();
        let mut escaped = false;
        loop {
            self.scan.plain();
            match self.scan.next()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    match self.scan.next()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            self.scan.character()?;
                        }
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
        if node.words.is_none() && node.length.is_none() {
            return Some(());
        }
        let text = self.text.get(start..self.scan.at() - 1).filter(|_| !escaped)?;
        if let Some(words) = &node.words {
            words.strings.iter().any(|word| word.as_bytes() == text).then_some(())?;
        }
        if let Some((least, most)) = node.length {
            // Every byte but those that go on with a character begins one.
            let length = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            (least <= length && length <= most).then_some(())?;
        }
        Some(())
    }

    fn array(&mut self, node: &Node) -> Option<()> {
        node.takes(kind::ARRAY)?;
        node.words.is_none().then_some(())?;
        let item = node.item.as_deref().unwrap_or(&ANY);
        self.scan.open(b'[')?;
        let mut items = 0;
        self.space()?;
        if self.scan.take(b']').is_none() {
            loop {
                items += 1;
                self.value(item)?;
                self.space()?;
                if self.scan.take(b',').is_none() {
                    self.scan.take(b']')?;
                    break;
                }
                self.space()?;
            }
        }
        self.scan.close();
        let (least, most) = node.items;
        (least <= items && items <= most).then_some(())
    }

    fn object(&mut self, node: &Node) -> Option<()> {
        node.takes(kind::OBJECT)?;
        node.words.is_none().then_some(())?;
        self.scan.open(b'{')?;
        let outer = self.names.len();
        let (mut seen, mut next) = (0_u64, 0);
        self.space()?;
        if self.scan.take(b'}').is_none() {
            loop {
                let name = self.scan.plain_string()?;
                let name = self.scan.bytes(name)?;
                self.space()?;
                self.scan.take(b':')?;
                self.space()?;
                if let Some((place, member)) = node.member(name, next) {
                    // No name twice.
                    (seen & 1 << place == 0).then_some(())?;
                    seen |= 1 << place;
                    next = place + 1;
                    self.value(member)?;
                } else {
                    self.other(name, outer, node)?;
                }
                self.space()?;
                if self.scan.take(b',').is_none() {
                    self.scan.take(b'}')?;
                    break;
                }
                self.space()?;
            }
        }
        self.scan.close();
        self.names.truncate(outer);
        (seen & node.required == node.required).then_some(())
    }
}

impl<'t> Walk<'t, '_> {
    /// A member that the schema doesn't name.
    fn other(&mut self, name: &'t [u8], outer: usize, node: &Node) -> Option<()> {
        let before = self.names.get(outer..)?;
        // Beyond a few names it takes a better way to find one that comes twice.
        (!node.closed && before.len() < 32 && !before.contains(&name)).then_some(())?;
        self.names.push(name);
        self.value(&ANY)
    }
}

/// Writes text as a JSON string, just as `serde_json` does.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let special = special(*chunk);
        out.extend_from_slice(chunk);
        if special == 0 {
            rest = after;
            continue;
        }
        let plain = first(special);
        out.truncate(out.len() - 8 + plain);
        let Some((byte, after)) = rest.get(plain..).and_then(<[u8]>::split_first) else { break };
        escape(*byte, out);
        rest = after;
    }
    rest.iter().for_each(|byte| escape(*byte, out));
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let escaped: &[u8] = match byte {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'\n' => b"\\n",
        b'\r' => b"\\r",
        b'\t' => b"\\t",
        0x08 => b"\\b",
        0x0c => b"\\f",
        0..0x20 => {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            return;
        }
        plain => {
            out.push(plain);
            return;
        }
    };
    out.extend_from_slice(escaped);
}
