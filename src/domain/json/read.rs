//! Reading strict JSON. `serde_json` checks the grammar of the whole text first, without recursion; then one walk
//! over the valid text takes it apart, so that every part is known with the place and the bytes it was written as.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DEPTH, Fault, Json, JsonError, Member, Position};
use crate::domain::job::clip;

/// How many bytes of a name an error may quote.
const QUOTED_BYTES: usize = 40;

/// The bytes as text.
///
/// # Errors
/// [`Fault::Utf8`], with the first byte that is not UTF-8.
pub fn text_of(bytes: &[u8]) -> Result<&str, JsonError> {
    str::from_utf8(bytes).map_err(|error| {
        let valid = error.valid_up_to();
        let before = bytes.get(..valid).map_or(Cow::Borrowed(""), String::from_utf8_lossy);
        let problem = format!("not UTF-8: byte {} (counted from 1)", valid + 1);
        JsonError { fault: Fault::Utf8, problem, at: position(&before, before.len()) }
    })
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    if let Err(error) = serde_json::from_str::<&RawValue>(text) {
        return Err(syntax(text, 0, &error));
    }
    Walk { text, at: 0, depth: 0 }.value()
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A walk over a text whose grammar was checked. What grammar rules out is not asked for again.
struct Walk<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self) -> Result<Json<'a>, JsonError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            _ => self.scalar(),
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<Json<'a>, JsonError>) -> Result<Json<'a>, JsonError> {
        if self.depth == DEPTH {
            return Err(fault(self.text, self.at, Fault::Syntax, format!("nested more than {DEPTH} levels deep")));
        }
        self.depth += 1;
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Json<'a>, JsonError> {
        let mut values = Vec::new();
        while !self.ends(b']') {
            values.push(self.value()?);
        }
        Ok(Json::Array(values))
    }

    fn object(&mut self) -> Result<Json<'a>, JsonError> {
        let mut members = Vec::new();
        let mut places = Vec::new();
        while !self.ends(b'}') {
            places.push(self.at);
            members.push(self.member()?);
        }
        self.refuse_duplicates(&members, &places)?;
        Ok(Json::Object(members))
    }

    fn member(&mut self) -> Result<Member<'a>, JsonError> {
        let name = self.string()?;
        self.skip(b':');
        self.peek();
        let start = self.at;
        let value = self.value()?;
        Ok(Member { name, value, text: self.text.get(start..self.at).unwrap_or_default() })
    }

    /// Steps to the next item of an array or object, or over its end.
    fn ends(&mut self, close: u8) -> bool {
        self.skip(b',');
        match self.peek() {
            Some(byte) if byte != close => false,
            _ => {
                self.at += 1;
                true
            }
        }
    }

    fn refuse_duplicates(&self, members: &[Member<'a>], places: &[usize]) -> Result<(), JsonError> {
        let mut named: Vec<(&str, usize)> =
            members.iter().map(|m| m.name.as_ref()).zip(places.iter().copied()).collect();
        named.sort_unstable();
        let twice = named.iter().zip(named.iter().skip(1)).find(|(first, second)| first.0 == second.0);
        match twice {
            None => Ok(()),
            Some((_, (name, place))) => {
                let problem = format!("the name {:?} comes twice in one object, again", clip(name, QUOTED_BYTES));
                Err(fault(self.text, *place, Fault::DuplicateName, problem))
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        // Half a surrogate pair is found here: the check of the grammar doesn't look for it.
        self.take::<Text<'a>>().map(|text| text.0)
    }

    fn scalar(&mut self) -> Result<Json<'a>, JsonError> {
        let start = self.at;
        let token = self.take::<&'a RawValue>()?.get();
        match token {
            "null" => Ok(Json::Null),
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            integer if !integer.contains(['.', 'e', 'E']) => Ok(Json::Integer(integer)),
            float => match float.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Json::Float(number)),
                _ => {
                    let problem = format!("the number {} is too large for a float", clip(float, QUOTED_BYTES));
                    Err(fault(self.text, start, Fault::Number, problem))
                }
            },
        }
    }

    /// Reads one string or scalar with `serde_json` and steps over it.
    fn take<T: Deserialize<'a>>(&mut self) -> Result<T, JsonError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter();
        match stream.next() {
            Some(Ok(token)) => {
                self.at += stream.byte_offset();
                Ok(token)
            }
            Some(Err(error)) => Err(syntax(self.text, self.at, &error)),
            None => Err(fault(self.text, self.at, Fault::Syntax, "the text ends too early".to_owned())),
        }
    }

    /// Skips white space, and `mark` after it if it is there.
    fn skip(&mut self, mark: u8) {
        if self.peek() == Some(mark) {
            self.at += 1;
        }
    }

    /// Skips white space; then the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let space = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += space;
        rest.get(space).copied()
    }
}

fn fault(text: &str, offset: usize, fault: Fault, problem: String) -> JsonError {
    JsonError { fault, problem, at: position(text, offset) }
}

/// An error of `serde_json` about the part of `text` from `start` on.
fn syntax(text: &str, start: usize, error: &serde_json::Error) -> JsonError {
    let rest = text.get(start..).unwrap_or_default();
    let lines_before: usize = rest.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let offset = start + lines_before + error.column().saturating_sub(1);
    if let Some(word) = no_number(text, offset) {
        return fault(text, offset, Fault::Number, format!("{word} is not a number in JSON"));
    }
    let words = error.to_string();
    // The place is told by `at`, for the whole text.
    let problem = words.rsplit_once(" at line ").map_or(words.as_str(), |(problem, _)| problem);
    fault(text, offset, Fault::Syntax, format!("not JSON: {problem}"))
}

/// The word that Python's `json` would take for a number although JSON has none such.
fn no_number(text: &str, offset: usize) -> Option<&'static str> {
    let rest = text.get(offset..)?;
    ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| rest.starts_with(word))
}

/// The place of a byte of `text`. A byte within a character has that character's place.
fn position(text: &str, offset: usize) -> Position {
    let mut start = offset.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let before = text.get(..start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    Position { line, column: before.get(line_start..).unwrap_or_default().chars().count() + 1 }
}
