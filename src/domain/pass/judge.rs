//! Lines of the output, each judged for itself. What counts of several lines for one row is decided by `merge`.

mod general;
mod known;
mod oversized;

use std::ops::Range;
use std::sync::Arc;

use super::asks::Asked;
use super::index::Index;
use super::lines::{Lines, text_of};
use super::name::KeyName;
use super::rows::InputLine;
use super::{Blame, PassError, quick};

pub(super) use general::{Judgeable, Reading, judge_response, read};
pub use oversized::Oversized;

/// A judged block of the output.
#[derive(Debug, Default)]
pub struct Judged {
    pub(super) at: u64,
    pub(super) end: u64,
    /// Lines of results, one for each value.
    pub(super) text: Vec<u8>,
    /// What was said of which row, in the order of the lines.
    pub(super) lines: Vec<Said>,
    pub(super) tally: Tally,
    undecided: Vec<Undecided>,
}

/// What a line says of a row.
#[derive(Debug)]
pub(super) struct Said {
    pub row: u32,
    pub what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// It has a value: the line of results lies at `text`, and the key in it begins at 7 and has that many bytes.
    Value { text: Range<usize>, key: usize },
    /// It failed; the line begins at that byte of the output.
    Failed { blame: Box<Blame>, at: u64 },
    /// What its answer must be is not kept here.
    Undecided,
}

/// Lines that say nothing of a row.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub lines: u64,
    pub blank: u64,
    pub unreadable: u64,
    pub without_key: u64,
    pub unknown_keys: u64,
}

/// An answer that waits for its request.
#[derive(Debug)]
struct Undecided {
    /// Which of the block's lines.
    said: usize,
    row: u32,
    at: u64,
    line: String,
}

/// Where the key begins in a line of results.
pub(super) const KEY_AT: usize = "{\"key\":".len();

/// What judging a block keeps from line to line.
#[derive(Default)]
struct Scratch {
    /// The asking that was met last.
    asked: Option<(u32, Arc<Asked>)>,
    /// The row that is likely to come next.
    next: u32,
    /// The text of an answer.
    text: Vec<u8>,
}

impl Index {
    /// Judges a block of whole lines that begins at byte `at` of the output.
    #[must_use]
    pub fn judge(&self, at: u64, block: &[u8]) -> Judged {
        let whole = str::from_utf8(block).ok();
        // Results are shorter than what they are taken from.
        let text = Vec::with_capacity(block.len());
        let mut judged = Judged { at, end: at + block.len() as u64, text, ..Judged::default() };
        let mut scratch = Scratch::default();
        for line in Lines::of(at, block) {
            judged.tally.lines += 1;
            if line.is_blank() {
                judged.tally.blank += 1;
                continue;
            }
            match text_of(&line, whole, at) {
                Some(text) => {
                    if self.judge_quickly(text, &mut judged, &mut scratch).is_none() {
                        self.judge_line(line.at, text, &mut judged, &mut scratch);
                    }
                }
                None => judged.tally.unreadable += 1,
            }
        }
        judged
    }

    /// The same as [`Index::judge`] without the quick way, for tests to compare.
    #[cfg(test)]
    pub(super) fn judge_slowly(&self, at: u64, block: &[u8]) -> Judged {
        let mut judged = Judged { at, end: at + block.len() as u64, ..Judged::default() };
        for line in Lines::of(at, block) {
            judged.tally.lines += 1;
            match str::from_utf8(line.bytes) {
                Ok(_) if line.is_blank() => judged.tally.blank += 1,
                Ok(text) => self.judge_line(line.at, text, &mut judged, &mut Scratch::default()),
                Err(_) => judged.tally.unreadable += 1,
            }
        }
        judged
    }

    /// Where in the input the lines lie that [`Index::decide`] needs, in its order.
    ///
    /// Most blocks need none: it is for runs whose rows ask for so many different things that they are not all kept.
    pub fn undecided<'a>(&'a self, judged: &'a Judged) -> impl Iterator<Item = Range<u64>> + 'a {
        judged.undecided.iter().filter_map(|undecided| self.line_of(undecided.row))
    }

    /// Decides what was left undecided, by the lines of the input at [`Index::undecided`].
    ///
    /// # Errors
    /// Other lines than those.
    pub fn decide<L: AsRef<[u8]>>(&self, mut judged: Judged, lines: &[L]) -> Result<Judged, PassError> {
        let waiting = std::mem::take(&mut judged.undecided);
        if waiting.len() != lines.len() {
            let at = waiting.first().and_then(|first| self.row(first.row)).map_or(0, |row| row.at);
            let problem = format!("{} lines were given for {} rows", lines.len(), waiting.len());
            return Err(PassError::Undecided { at, problem });
        }
        for (undecided, line) in waiting.into_iter().zip(lines) {
            self.decide_one(&mut judged, &undecided, line.as_ref())?;
        }
        Ok(judged)
    }

    fn decide_one(&self, judged: &mut Judged, undecided: &Undecided, input: &[u8]) -> Result<(), PassError> {
        let row = self.row(undecided.row);
        let at = row.map_or(0, |row| row.at);
        let broken = |problem: String| PassError::Undecided { at, problem };
        let line = Lines::of(at, input).next().and_then(|line| str::from_utf8(line.bytes).ok());
        let line = line.ok_or_else(|| broken("its line is empty or not UTF-8".to_owned()))?;
        let line = InputLine::of(line).map_err(broken)?;
        if row.is_none_or(|row| row.name != KeyName::of(&line.key)) {
            return Err(broken("the line given for it has another key".to_owned()));
        }
        let asked = self.asks.of(line.request).map_err(broken)?;
        // It was read before, when it was found to be undecided.
        if let Reading::Of(Judgeable { key, outcome: Ok(response) }) = read(&undecided.line) {
            let what = self.say(&key, judge_response(response, &asked), undecided.at, &mut judged.text);
            if let Some(said) = judged.lines.get_mut(undecided.said) {
                said.what = what;
            }
        }
        Ok(())
    }

    /// Takes an answer of the usual shape that is what it should be; anything else is left as it was.
    fn judge_quickly(&self, line: &str, judged: &mut Judged, scratch: &mut Scratch) -> Option<()> {
        let mut text = std::mem::take(&mut scratch.text);
        let taken = quick::answer(line, &mut text).and_then(|answer| {
            let Some(row) = self.find_near(KeyName::of(answer.key), scratch.next) else {
                judged.tally.unknown_keys += 1;
                return Some(());
            };
            scratch.next = row + 1;
            let plan = self.asked(row, scratch)?.plan.as_ref()?;
            let start = judged.text.len();
            let said = self.say_quickly(&answer, plan, &text, &mut judged.text);
            match said {
                Some(key) => judged.lines.push(Said { row, what: What::Value { text: start..judged.text.len(), key } }),
                None => judged.text.truncate(start),
            }
            said.map(|_| ())
        });
        scratch.text = text;
        taken
    }

    /// Writes a line of results; how many bytes its key has there.
    fn say_quickly(
        &self,
        answer: &quick::Answer<'_>,
        plan: &quick::Plan,
        text: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        out.extend_from_slice(b"{\"key\":\"");
        out.extend_from_slice(answer.key.as_bytes());
        out.extend_from_slice(b"\",\"value\":");
        plan.write(text, out)?;
        out.extend_from_slice(b",\"usage\":");
        out.extend_from_slice(answer.usage.unwrap_or("null").as_bytes());
        out.extend_from_slice(self.attempt.as_bytes());
        Some(answer.key.len() + 2)
    }

    fn judge_line(&self, at: u64, line: &str, judged: &mut Judged, scratch: &mut Scratch) {
        let judgeable = match read(line) {
            Reading::Of(judgeable) => judgeable,
            Reading::NoKey => {
                judged.tally.without_key += 1;
                return;
            }
            Reading::OddKey => {
                judged.tally.unknown_keys += 1;
                return;
            }
            Reading::Unreadable => {
                judged.tally.unreadable += 1;
                return;
            }
        };
        let Some(row) = self.find(KeyName::of(&judgeable.key)) else {
            judged.tally.unknown_keys += 1;
            return;
        };
        let said = judged.lines.len();
        let what = match judgeable.outcome {
            Err(blame) => What::Failed { blame: Box::new(blame), at },
            Ok(response) => match self.asked(row, scratch) {
                Some(asked) => {
                    let judgement = judge_response(response, asked);
                    self.say(&judgeable.key, judgement, at, &mut judged.text)
                }
                None => {
                    judged.undecided.push(Undecided { said, row, at, line: line.to_owned() });
                    What::Undecided
                }
            },
        };
        judged.lines.push(Said { row, what });
    }

    /// What an answer to that row must be; none when that is not kept.
    fn asked<'s>(&self, row: u32, scratch: &'s mut Scratch) -> Option<&'s Asked> {
        let number = self.row(row)?.ask;
        if scratch.asked.as_ref().is_none_or(|(last, _)| *last != number) {
            scratch.asked = Some((number, self.asks.get(number)?));
        }
        scratch.asked.as_ref().map(|(_, asked)| asked.as_ref())
    }

    /// Writes a line of results, if there is a value.
    fn say(&self, key: &str, judgement: general::Judgement, at: u64, text: &mut Vec<u8>) -> What {
        match judgement {
            Err(blame) => What::Failed { blame: Box::new(blame), at },
            Ok((value, usage)) => {
                let start = text.len();
                let key = crate::domain::json::quoted(key);
                let attempt = self.terms.attempt;
                let line = format!("{{\"key\":{key},\"value\":{value},\"usage\":{usage},\"attempt\":{attempt}}}\n");
                text.extend_from_slice(line.as_bytes());
                What::Value { text: start..text.len(), key: key.len() }
            }
        }
    }
}
