//! The header: an intake's first line, when it holds options.

use std::time::Duration;

use serde_json::value::RawValue;

use super::super::job::Mode;
use super::super::json::{Json, Member};
use super::fields::{Fields, is_create_field};
use super::{Header, LineError, call, member, members_of, raw, text_of};

/// The member that makes an object a header.
pub(super) const NAME: &str = "gleaner";

const OPTIONS: [&str; 6] = ["mode", "model", "expect", "deadline", "max_attempts", "request"];

/// Job items keep deadlines in whole seconds.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

/// Reads the first line of an intake that is not blank: its header, or none when it is a line like any other.
///
/// A line that can't be read at all is a header all the same if it begins with `{"gleaner"`: its options were meant
/// for every line.
///
/// # Errors
/// An object with a field `gleaner` that has others too, or whose options can't be read. The whole intake is
/// refused for it, since every line would be understood wrongly.
pub fn parse_header(line: &[u8]) -> Result<Option<Header>, LineError> {
    let read = text_of(line).and_then(|text| Ok(Json::parse(text)?));
    match read {
        Err(error) if begins_like_a_header(line) => Err(error),
        Err(_) => Ok(None),
        Ok(value) => match members_of(value) {
            Ok(members) if member(&members, NAME).is_some() => options(&members).map(Some),
            _ => Ok(None),
        },
    }
}

fn begins_like_a_header(line: &[u8]) -> bool {
    let inside = line.trim_ascii_start().strip_prefix(b"{");
    inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"\"gleaner\""))
}

fn options(members: &[Member<'_>]) -> Result<Header, LineError> {
    let line = Fields::of_header("", members);
    if let Some(other) = members.iter().find(|member| member.name != NAME) {
        return Err(line.bad(&other.name, "stands beside gleaner; the options are alone in their line"));
    }
    let Some(Member { value: Json::Object(options), .. }) = line.object(NAME)? else { return Ok(Header::default()) };
    let options = Fields::of_header("gleaner.", options);
    if let Some(unknown) = options.members.iter().find(|member| !OPTIONS.contains(&member.name.as_ref())) {
        return Err(options.bad(&unknown.name, &format!("no such option; there are {}", OPTIONS.join(", "))));
    }
    let mode = options.mode()?;
    Ok(Header {
        mode,
        model: options.model()?.map(str::to_owned),
        expect: options.object("expect")?.map(|expect| raw(expect.text)).transpose()?,
        deadline: deadline(&options)?,
        max_attempts: max_attempts(&options)?,
        request: request(&options, mode)?,
    })
}

fn deadline(options: &Fields<'_, '_>) -> Result<Option<Duration>, LineError> {
    let Some(text) = options.text("deadline")? else { return Ok(None) };
    match humantime::parse_duration(text) {
        Ok(duration) if duration >= SHORTEST_DEADLINE => Ok(Some(duration)),
        Ok(_) => Err(options.bad("deadline", "must be at least 1s")),
        Err(_) => Err(options.bad("deadline", "must be a duration such as 10s, 15m or 72h")),
    }
}

fn max_attempts(options: &Fields<'_, '_>) -> Result<Option<u32>, LineError> {
    let Some(member) = options.get("max_attempts") else { return Ok(None) };
    let number = match member.value {
        Json::Integer(digits) => digits.parse().ok(),
        _ => None,
    };
    match number {
        Some(attempts @ 1..=100) => Ok(Some(attempts)),
        _ => Err(options.bad("max_attempts", "must be a whole number from 1 to 100")),
    }
}

fn request(options: &Fields<'_, '_>, mode: Option<Mode>) -> Result<Vec<(String, Box<RawValue>)>, LineError> {
    let Some(Member { value: Json::Object(members), .. }) = options.object("request")? else { return Ok(Vec::new()) };
    let request = Fields::of_header("gleaner.request.", members);
    match mode {
        Some(Mode::Batch) => check_rows_fields(&request)?,
        Some(Mode::Call) => check_calls_fields(&request)?,
        Some(Mode::Interaction) | None => check_jobs_fields(&request, options)?,
    }
    members.iter().map(|field| Ok((field.name.clone().into_owned(), raw(field.text)?))).collect()
}

/// Fields for rows go into `generateContent` requests, whose fields Gemini checks when a batch is created.
fn check_rows_fields(request: &Fields<'_, '_>) -> Result<(), LineError> {
    if request.get("contents").is_some() {
        return Err(request.bad("contents", "each row has its own"));
    }
    if request.get("model").is_some() {
        return Err(request.bad("model", "the model of a run is gleaner.model"));
    }
    match request
        .members
        .iter()
        .find(|member| ["input", "background", "store", "stream"].contains(&member.name.as_ref()))
    {
        Some(other) => {
            Err(request.bad(&other.name, "a field of interactions; a row's request is a generateContent request"))
        }
        None => Ok(()),
    }
}

/// Fields for plain calls, in either spelling.
fn check_calls_fields(request: &Fields<'_, '_>) -> Result<(), LineError> {
    for own in ["input", "contents"] {
        if request.get(own).is_some() {
            return Err(request.bad(own, "each line has its own"));
        }
    }
    if request.get("model").is_some() {
        return Err(request.bad("model", "the model of calls is gleaner.model"));
    }
    call::check(request)?;
    match request.members.iter().find(|member| call::sent_as(&member.name).is_none()) {
        Some(unknown) => Err(request.bad(&unknown.name, "generateContent has no such field")),
        None => Ok(()),
    }
}

fn check_jobs_fields(request: &Fields<'_, '_>, options: &Fields<'_, '_>) -> Result<(), LineError> {
    request.check_create_fields()?;
    if request.get("input").is_some() {
        return Err(request.bad("input", "each line has its own"));
    }
    if let Some(unknown) = request.members.iter().find(|member| !is_create_field(&member.name)) {
        return Err(request.bad(&unknown.name, "the create call has no such field"));
    }
    if request.target()?.is_some() && options.get("model").is_some() {
        let twice = if request.get("agent").is_some() { "agent" } else { "model" };
        return Err(request.bad(twice, "gleaner.model names a model already"));
    }
    Ok(())
}
