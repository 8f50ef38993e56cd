//! What requests ask their answers to be. Most rows of a run ask for the same, so each asking is kept once, by its
//! text.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::quick::Plan;
use crate::domain::extract::Expectation;
use crate::domain::raw::members;
use crate::domain::schema::Schema;

/// The number of an asking that there was no room for.
pub(super) const NO_ROOM: u32 = u32::MAX;

/// Bytes of askings that are kept, and what each is reckoned to cost beside its text.
const ROOM: usize = 16 << 20;
const EACH: usize = 160;

/// Askings that stay compiled; the others are compiled for each answer. A compiled schema is some kilobytes.
const COMPILED: usize = 256;

/// The members of a request that say what its answer must be (see [`Expectation::of`]).
const ASKING: [&str; 13] = [
    "_responseJsonSchema",
    "generationConfig",
    "generation_config",
    "responseFormat",
    "responseJsonSchema",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "response_format",
    "response_json_schema",
    "response_mime_type",
    "response_modalities",
    "response_schema",
];

/// Whether a member of a request says what its answer must be.
pub(super) fn is_asking(name: &str) -> bool {
    ASKING.contains(&name)
}

/// What a request asks: the text of an object with only those of its members that say so.
///
/// # Errors
/// The request is no object that can be read.
pub(super) fn config_of(request: &RawValue) -> Result<String, String> {
    let members = members(request).ok_or("the request is no object that can be read")?;
    let asking: BTreeMap<&str, &RawValue> =
        members.iter().filter(|(name, _)| is_asking(name)).map(|(name, value)| (name.as_str(), *value)).collect();
    if asking.is_empty() {
        return Ok(String::new());
    }
    serde_json::to_string(&asking).map_err(|error| format!("the request's configuration can't be kept: {error}"))
}

/// Askings by number, in the order in which they were first met.
#[derive(Debug, Default)]
pub(super) struct Asks {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    bytes: usize,
}

impl Asks {
    /// The number of an asking; [`NO_ROOM`] when it is new and there is no room for it.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let bytes = self.bytes + text.len() + EACH;
        let Some(number) = u32::try_from(self.texts.len()).ok().filter(|_| bytes <= ROOM) else { return NO_ROOM };
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        self.bytes = bytes;
        number
    }

    /// Takes in the askings of another part of the input; the numbers that they have here.
    pub fn merge(&mut self, other: &Self) -> Vec<u32> {
        other.texts.iter().map(|text| self.number(text)).collect()
    }

    /// Askings ready to judge by.
    pub fn ready(self, expect: Option<Value>) -> Ready {
        let compiled = self.texts.iter().take(COMPILED).map(|_| OnceLock::new()).collect();
        Ready { texts: self.texts, compiled, expect }
    }
}

/// The asking that was met last, which most rows repeat.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// `"generationConfig":` and what follows is told by these bytes alone.
    pub config: String,
    number: Option<u32>,
}

impl Known {
    /// As if a row with that `generationConfig` had come before.
    #[cfg(test)]
    pub fn at(config: &str) -> Self {
        Self { config: config.to_owned(), number: None }
    }

    /// The number of an asking whose only member is `generationConfig`, by its value's text; none: no member at all.
    pub fn number(&mut self, config: Option<&str>, asks: &mut Asks) -> u32 {
        let Some(config) = config else { return asks.number("") };
        if let Some(number) = self.number.filter(|_| self.config == config) {
            return number;
        }
        let number = asks.number(&format!("{{\"generationConfig\":{config}}}"));
        config.clone_into(&mut self.config);
        self.number = Some(number);
        number
    }
}

/// Askings ready to judge by.
#[derive(Debug)]
pub(super) struct Ready {
    texts: Vec<Arc<str>>,
    compiled: Vec<OnceLock<Arc<Asked>>>,
    expect: Option<Value>,
}

impl Ready {
    /// What that number asks; none when there was no room for it.
    pub fn get(&self, number: u32) -> Option<Arc<Asked>> {
        let number = usize::try_from(number).ok()?;
        let text = self.texts.get(number)?;
        let compile = || Arc::new(Asked::of(text, self.expect.as_ref()));
        Some(match self.compiled.get(number) {
            Some(kept) => Arc::clone(kept.get_or_init(compile)),
            None => compile(),
        })
    }

    /// What a request asks.
    pub fn of(&self, request: &RawValue) -> Result<Asked, String> {
        Ok(Asked::of(&config_of(request)?, self.expect.as_ref()))
    }
}

/// What an answer must be, ready to check it.
#[derive(Debug)]
pub(super) struct Asked {
    /// The expectation, or why the request has none that can be read.
    pub expectation: Result<Expectation, String>,
    /// The quick way to the same, for answers that fit without any question.
    pub plan: Option<Plan>,
    schema: OnceLock<Result<Schema, String>>,
}

impl Asked {
    pub fn of(config: &str, expect: Option<&Value>) -> Self {
        let request = match config {
            "" => Ok(Value::Object(Map::new())),
            text => serde_json::from_str(text).map_err(|error| format!("the request can't be read: {error}")),
        };
        let expectation = request.and_then(|request| Expectation::of(&request, expect));
        let plan = expectation.as_ref().ok().and_then(Plan::of);
        Self { expectation, plan, schema: OnceLock::new() }
    }

    /// Whether a value fits, as [`crate::domain::extract::fits`] says.
    pub fn fits(&self, value: &Value) -> Result<(), String> {
        let Ok(Expectation { schema: Some(schema), .. }) = &self.expectation else { return Ok(()) };
        crate::domain::extract::fits_compiled(value, self.schema.get_or_init(|| Schema::compile(schema)))
    }
}
