//! Why rows failed, kept once for all rows that say the same, within bounds.

use std::collections::HashMap;

use super::Blame;

/// Bytes of messages that are kept, and what each is reckoned to cost beside its text.
const ROOM: usize = 16 << 20;
const EACH: usize = 96;

/// Classes that are told apart. There are some dozens; but part of a class can be a word out of an answer.
const CLASSES: usize = 256;

/// Classes by number.
#[derive(Debug, Default)]
struct Interned {
    texts: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl Interned {
    fn number(&mut self, text: &str, entries: usize, bytes: usize) -> Option<u32> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        // The text is kept twice: by number, and to find its number.
        let cost = 2 * text.len() + EACH;
        if self.texts.len() >= entries || self.bytes + cost > bytes {
            return None;
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        self.bytes += cost;
        Some(number)
    }

    fn get(&self, number: u32) -> Option<&str> {
        self.texts.get(usize::try_from(number).ok()?).map(AsRef::as_ref)
    }
}

/// Classes and messages of failures.
#[derive(Debug, Default)]
pub(super) struct Blames {
    classes: Interned,
    messages: Interned,
}

/// What is kept of a row's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    class: u16,
    pub passing: bool,
    message: Option<u32>,
}

impl Blames {
    /// Keeps a failure. A class beyond the bound becomes `…:MANY`; a message beyond it is not kept.
    pub fn keep(&mut self, blame: &Blame) -> Kept {
        let (kind, _) = blame.class.split_once(':').unwrap_or((&blame.class, ""));
        let class = self.classes.number(&blame.class, CLASSES, ROOM).unwrap_or_else(|| {
            // Kinds are this program's own words, so there is an end to them.
            self.classes.number(&format!("{kind}:MANY"), CLASSES * 2, ROOM).unwrap_or_default()
        });
        let message = self.messages.number(&blame.message, usize::MAX, ROOM);
        Kept { class: u16::try_from(class).unwrap_or_default(), passing: blame.passing, message }
    }

    pub fn class(&self, kept: Kept) -> &str {
        self.classes.get(kept.class.into()).unwrap_or("unknown")
    }

    /// The message; one that was not kept says where it is: `at` is the byte of the output at which its line begins.
    pub fn message(&self, kept: Kept, at: u64) -> String {
        kept.message.and_then(|number| self.messages.get(number)).map_or_else(
            || format!("too many different messages to keep: this one is in the raw output's line at byte {at}"),
            str::to_owned,
        )
    }
}
