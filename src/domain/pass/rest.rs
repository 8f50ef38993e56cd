//! The input read once more: what goes out again, and what is dead.

use serde_json::value::RawValue;

use super::PassError;
use super::blames::Kept;
use super::lines::Lines;
use super::merge::{End, Pass};
use super::name::KeyName;
use super::rows::InputLine;
use crate::domain::classify::exhausted;
use crate::domain::json::quoted;

/// What a block of the input comes to, once the whole output was merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest {
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) retry: Vec<u8>,
    pub(super) dead: Vec<u8>,
    pub(super) retry_rows: u64,
    pub(super) dead_rows: u64,
}

impl Pass {
    /// Whether a block of the input holds anything for [`Pass::rest`] to write. Where it doesn't, its bytes need not
    /// be read: [`Pass::skip`] stands for them.
    #[must_use]
    pub fn wants(&self, at: u64, end: u64) -> bool {
        !self.index.terms.late && self.index.within(at, end).any(|row| self.end(row).is_some())
    }

    /// What stands for a block that [`Pass::wants`] nothing of.
    #[must_use]
    pub fn skip(at: u64, end: u64) -> Rest {
        Rest { at, end, ..Rest::default() }
    }

    /// The rows of a block of the input, which begins at byte `at`, that have no result: their lines exactly as they
    /// are for the next attempt, and `{"key","class","message","attempts","request"}` for each that is dead. A late
    /// pass has neither.
    ///
    /// # Errors
    /// The block is not what it was when it was read first.
    pub fn rest(&self, at: u64, block: &[u8]) -> Result<Rest, PassError> {
        let end = at + block.len() as u64;
        let mut rest = Rest { at, end, ..Rest::default() };
        if self.index.terms.late {
            return Ok(rest);
        }
        for row in self.index.within(at, end) {
            let (Some(end), Some(known)) = (self.end(row), self.index.rows.get(row)) else { continue };
            let broken = |problem: String| PassError::Input { at: known.at, problem };
            let start = usize::try_from(known.at - at).unwrap_or(usize::MAX);
            let line = block.get(start..).and_then(|rest| Lines::of(known.at, rest).next());
            let text = line.and_then(|line| str::from_utf8(line.bytes).ok()).unwrap_or_default();
            let line = InputLine::of(text).map_err(broken)?;
            if KeyName::of(&line.key) != known.name {
                return Err(broken("the row there is not the one that was there before".to_owned()));
            }
            match end {
                End::Retry => {
                    rest.retry_rows += 1;
                    rest.retry.extend_from_slice(text.as_bytes());
                    rest.retry.push(b'\n');
                }
                End::Dead(kept, output) => {
                    rest.dead_rows += 1;
                    self.bury(&line.key, line.request, kept, output, &mut rest.dead);
                }
            }
        }
        Ok(rest)
    }

    /// The class under which a row is dead: in the last attempt, what would be tried again is exhausted.
    pub(super) fn dead_class(&self, kept: Kept) -> String {
        let class = self.blames.class(kept);
        if kept.passing { exhausted(class) } else { class.to_owned() }
    }

    fn bury(&self, key: &str, request: &RawValue, kept: Kept, at: u64, dead: &mut Vec<u8>) {
        let line = format!(
            "{{\"key\":{},\"class\":{},\"message\":{},\"attempts\":{},\"request\":{request}}}\n",
            quoted(key),
            quoted(&self.dead_class(kept)),
            quoted(&self.blames.message(kept, at)),
            self.index.terms.attempt,
        );
        dead.extend_from_slice(line.as_bytes());
    }
}
