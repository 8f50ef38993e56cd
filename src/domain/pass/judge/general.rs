//! Any line of the output, read in full by the rules of `generated` and `classify`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::Blame;
use super::super::asks::Asked;
use crate::domain::classify::{Judgement as Verdict, Met, classify};
use crate::domain::failure::Failure;
use crate::domain::generated;
use crate::domain::raw::{members, text};

/// A value and its usage, or why there is none.
pub(in super::super) type Judgement = Result<(Box<RawValue>, Box<RawValue>), Blame>;

/// A line of the output.
pub(in super::super) enum Reading<'a> {
    /// It says something of a row.
    Of(Judgeable<'a>),
    /// An object without a key, or with one that is no string.
    NoKey,
    /// Its key holds half a surrogate pair, as no row's key does.
    OddKey,
    /// No JSON object.
    Unreadable,
}

/// What a line says of a row: its response, or why it failed.
pub(in super::super) struct Judgeable<'a> {
    pub key: String,
    pub outcome: Result<&'a RawValue, Blame>,
}

/// Reads a line: `error` if there is one, else `response`, else `status`; `null` is none of them.
pub(in super::super) fn read(line: &str) -> Reading<'_> {
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(line) else { return Reading::Unreadable };
    let Some(raw) = fields.get("key").filter(|raw| raw.get().starts_with('"')) else { return Reading::NoKey };
    let Ok(key) = serde_json::from_str::<String>(raw.get()) else { return Reading::OddKey };
    let get = |name: &str| fields.get(name).copied().filter(|value| value.get() != "null");
    let outcome = match (get("error"), get("response"), get("status")) {
        (Some(error), _, _) | (None, None, Some(error)) => Err(blame(&failure(error))),
        (None, Some(response), _) => Ok(response),
        (None, None, None) if fields.contains_key("response") => {
            Err(Blame::of(Verdict::empty(), "the response is null".to_owned()))
        }
        (None, None, None) => {
            let message = "the line has neither a response nor an error".to_owned();
            Err(Blame::of(Verdict::retryable("unknown"), message))
        }
    };
    Reading::Of(Judgeable { key, outcome })
}

/// The value of a response, by what was asked.
pub(in super::super) fn judge_response(response: &RawValue, asked: &Asked) -> Judgement {
    let expectation = asked.expectation.as_ref().map_err(|problem| {
        let message = format!("there is an answer, but what it must be can't be read from the request: {problem}");
        Blame { class: "extract:schema".to_owned(), message, passing: false }
    })?;
    let value = generated::extract_by(response, expectation, &|value| asked.fits(value));
    match value {
        Ok(value) => Ok((value, generated::usage(response))),
        Err((judgement, message)) => Err(Blame::of(judgement, message)),
    }
}

fn blame(failure: &Failure) -> Blame {
    Blame::of(classify(failure, Met::InWork), failure.summary())
}

/// An error, as far as it can be read: a member that can't (nested too deep, half a surrogate pair) hides no other.
fn failure(error: &RawValue) -> Failure {
    let value = serde_json::from_str(error.get()).ok().or_else(|| lossy(error)).unwrap_or(Value::Null);
    Failure::from_error(&value)
}

fn lossy(error: &RawValue) -> Option<Value> {
    let Some(members) = members(error) else { return text(error).map(Value::String) };
    let read = |raw: &RawValue| serde_json::from_str(raw.get()).ok().or_else(|| text(raw).map(Value::String));
    let members: Map<String, Value> = members.into_iter().filter_map(|(name, raw)| Some((name, read(raw)?))).collect();
    Some(Value::Object(members))
}
