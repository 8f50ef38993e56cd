//! Outcomes that somebody else has judged: rows that another program had sent and settled.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::index::Index;
use super::super::lines::{Lines, text_of};
use super::super::name::KeyName;
use super::super::{Blame, PassError};
use super::{Judged, Said, What};

/// A line that says what became of a row: `{"key","value"}`, or `{"key","class","message","passing"}` with the `error`
/// that it came with beside, by which people find it as in an output of Gemini's.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    /// None, too, for a value `null`.
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(default)]
    class: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    passing: bool,
}

impl Index {
    /// Takes a block of such lines, which begins at byte `at` of their object, in the place of [`Index::judge`].
    ///
    /// # Errors
    /// A line that can't be read, or is of no row: such objects are this program's own.
    pub fn known(&self, at: u64, block: &[u8]) -> Result<Judged, PassError> {
        let whole = str::from_utf8(block).ok();
        let mut judged = Judged { at, end: at + block.len() as u64, ..Judged::default() };
        for line in Lines::of(at, block) {
            let broken = |problem: String| PassError::Input { at: line.at, problem };
            let text = text_of(&line, whole, at).ok_or_else(|| broken("a known outcome is not UTF-8".to_owned()))?;
            let known: Line<'_> = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
            let row = self.find(KeyName::of(&known.key)).ok_or_else(|| broken("it is of no row".to_owned()))?;
            judged.tally.lines += 1;
            let what = match known.class {
                Some(class) => {
                    let blame = Blame { class, message: known.message, passing: known.passing };
                    What::Failed { blame: Box::new(blame), at: line.at }
                }
                None => {
                    let value = known.value.unwrap_or(RawValue::NULL).to_owned();
                    self.say(&known.key, Ok((value, RawValue::NULL.to_owned())), line.at, &mut judged.text)
                }
            };
            judged.lines.push(Said { row, what });
        }
        Ok(judged)
    }
}
