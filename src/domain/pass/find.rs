//! One row looked up in the files of a run, for `row RUN KEY`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Blame;
use super::asks::{Asked, config_of};
use super::judge::{Judgeable, Reading, judge_response, read};
use super::lines::{Lines, text_of};
use super::rows::InputLine;

/// A line with the key that was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Where it begins in its file.
    pub at: u64,
    /// Without its line end.
    pub line: &'a str,
}

/// A line of `results`.
#[derive(Debug, Clone, Deserialize)]
pub struct ResultLine<'a> {
    /// The row's key.
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    /// Its value.
    #[serde(borrow)]
    pub value: &'a RawValue,
    /// What it used, in Gemini's words, or `null`.
    #[serde(borrow)]
    pub usage: &'a RawValue,
    /// In which attempt it succeeded.
    pub attempt: u32,
}

/// A line of `dead`.
#[derive(Debug, Clone, Deserialize)]
pub struct DeadLine<'a> {
    /// The row's key.
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    /// Why it is dead.
    #[serde(borrow)]
    pub class: Cow<'a, str>,
    /// The same for people.
    #[serde(borrow)]
    pub message: Cow<'a, str>,
    /// The attempt in which it died.
    pub attempts: u32,
    /// What was asked.
    #[serde(borrow)]
    pub request: &'a RawValue,
}

/// What a line of Gemini's output says of its row.
#[derive(Debug, Clone)]
pub enum Said {
    /// A value, and what it used.
    Value(Box<RawValue>, Box<RawValue>),
    /// A failure.
    Failed(Blame),
}

/// The lines with that key in a block of whole lines that begins at byte `at` of its file: an input, an output,
/// `results` or `dead`. Lines that can't be read have no key.
pub fn lines<'a>(at: u64, block: &'a [u8], key: &'a str) -> impl Iterator<Item = Found<'a>> + 'a {
    Lines::of(at, block).filter_map(move |line| {
        let text = text_of(&line, None, at)?;
        (key_of(text)? == key).then_some(Found { at: line.at, line: text })
    })
}

/// What a line of the output says, judged by the row's input line and `expect` of the run's header, as the pass does.
///
/// # Errors
/// Either line is none of its kind, in words.
pub fn said(output: &str, input: &str, expect: Option<&Value>) -> Result<Said, String> {
    let input = InputLine::of(input)?;
    let Reading::Of(Judgeable { outcome, .. }) = read(output) else {
        return Err("the line of the output can't be read, or has no key".to_owned());
    };
    let judged = match outcome {
        Ok(response) => judge_response(response, &Asked::of(&config_of(input.request)?, expect)),
        Err(blame) => Err(blame),
    };
    Ok(match judged {
        Ok((value, usage)) => Said::Value(value, usage),
        Err(blame) => Said::Failed(blame),
    })
}

/// A line of `results`.
///
/// # Errors
/// It is none.
pub fn result(line: &str) -> Result<ResultLine<'_>, String> {
    serde_json::from_str(line).map_err(|error| format!("the line is none of results: {error}"))
}

/// A line of `dead`.
///
/// # Errors
/// It is none.
pub fn dead(line: &str) -> Result<DeadLine<'_>, String> {
    serde_json::from_str(line).map_err(|error| format!("the line is none of dead rows: {error}"))
}

fn key_of(line: &str) -> Option<String> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(line).ok()?;
    serde_json::from_str(members.get("key")?.get()).ok()
}
