//! What a message says: who the dead letter is, why it is one, and what it asked for.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::app::engine::{Engine, Trouble};
use crate::app::lines::object_name;
use crate::app::report::letter;
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::item::{BadLine, Item, ItemId};
use crate::domain::job::{InputRef, Job};
use crate::domain::json::quoted;
use crate::domain::part::{File, PartId};
use crate::domain::pass::find;

/// The longest payload that a message carries itself, in bytes as it is sent. With all that is said besides, it stays below
/// what SQS takes and what another place would have to be found for.
pub const INLINE: usize = 100_000;

/// How many objects a message of many rows names.
const NAMED: usize = 100;

/// Where a payload lies; of many rows, also how many of that object are meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct At {
    object: String,
    offset: u64,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
}

impl At {
    const fn of(object: String, offset: u64, length: u64) -> Self {
        Self { object, offset, length, rows: None }
    }
}

/// What a dead letter asked for, in its own words where they are short.
#[derive(Debug, Default)]
pub(super) struct Payload {
    inline: Option<Box<RawValue>>,
    at: Vec<At>,
    /// How many more objects hold some of it.
    more: usize,
    trouble: Option<String>,
}

/// A message's body.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    item: &'a ItemId,
    number: u32,
    run: Option<&'a str>,
    key: Option<&'a str>,
    class: &'a str,
    message: &'a str,
    attempts: u32,
    replays: u32,
    first_seen: &'a str,
    last_seen: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_at: Option<Places<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    more_objects: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_trouble: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// One place, or the places of many rows.
#[derive(Serialize)]
#[serde(untagged)]
enum Places<'a> {
    One(&'a At),
    Many(&'a [At]),
}

/// What a message names: which one it is, of which item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Named {
    /// The item that it stands for.
    pub item: ItemId,
    /// Its number among the item's messages, from 1.
    pub number: u32,
}

/// Which message a body is of. None: it is none of this program's.
#[must_use]
pub fn named(body: &str) -> Option<Named> {
    serde_json::from_str(body).ok()
}

/// The body of an item's latest message: one JSON object, in ASCII. None: the item is no dead letter.
pub(super) fn text(item: &Item, payload: &Payload) -> Option<String> {
    let (about, number) = (letter(item)?, item.letter()?.number);
    let places = match payload.at.as_slice() {
        [] => None,
        [one] if one.rows.is_none() => Some(Places::One(one)),
        many => Some(Places::Many(many)),
    };
    let body = Body {
        id: &about.id,
        item: &item.id(),
        number,
        run: about.run.as_deref(),
        key: about.key.as_deref(),
        class: &about.class,
        message: &about.message,
        attempts: about.attempts,
        replays: about.replays,
        first_seen: &about.first_seen,
        last_seen: &about.last_seen,
        payload: payload.inline.as_deref(),
        payload_at: places,
        more_objects: payload.more,
        payload_trouble: payload.trouble.as_deref(),
    };
    // A struct of texts and numbers can always be written.
    serde_json::to_string(&body).ok().map(|text| ascii(&text))
}

/// What a dead letter asked for, read from where it lies. What can't be read now is told with the reason, and with where it
/// lies: a message is worth more than its payload.
pub(super) async fn payload(engine: &Engine, item: &Item) -> Payload {
    match item {
        Item::Job(job) => of_job(engine, job).await,
        Item::BadLine(bad) => of_bad_line(engine, bad).await,
        Item::DeadRow(row) => {
            let (object, offset, length) = row.at.clone();
            let place = At::of(object, offset, length);
            if length > READ {
                return Payload { at: vec![place], ..Payload::default() };
            }
            match read(engine, &place).await {
                Ok(line) => of_row(row, &line),
                Err(why) => Payload { at: vec![place], trouble: Some(why), ..Payload::default() },
            }
        }
        Item::DeadGroup(group) => of_group(engine, group).await,
        Item::Intake(_) | Item::Gate(_) | Item::Part(_) | Item::Event(_) | Item::Stray(_) => Payload::default(),
    }
}

/// The most that is read of a place to be sent as it is: what is longer can't be short as it is sent.
const READ: u64 = INLINE as u64 + 2_000;

async fn of_job(engine: &Engine, job: &Job) -> Payload {
    if let Some(attempt) = &job.batch {
        return Payload { at: vec![At::of(attempt.rows_at.clone(), 0, attempt.bytes)], ..Payload::default() };
    }
    let place = place_of(&job.input);
    if job.input.length > READ {
        return Payload { at: vec![place], ..Payload::default() };
    }
    let line = read(engine, &place).await.and_then(|line| String::from_utf8(line).map_err(|error| error.to_string()));
    with(place, line)
}

/// A bad line's text. It is told where it lies, too, since what isn't UTF-8 in it is replaced.
async fn of_bad_line(engine: &Engine, bad: &BadLine) -> Payload {
    let place = place_of(&bad.input);
    if bad.input.length > READ {
        return Payload { at: vec![place], ..Payload::default() };
    }
    let text = read(engine, &place).await.map(|line| quoted(&String::from_utf8_lossy(&line)));
    Payload { at: vec![place.clone()], ..with(place, text) }
}

/// A dead row's own line, from its line of the object of dead rows.
pub(super) fn of_row(row: &DeadRow, line: &[u8]) -> Payload {
    let (object, offset, length) = row.at.clone();
    let own = str::from_utf8(line).map_err(|error| error.to_string()).and_then(|line| {
        let dead = find::dead(line.trim_end_matches('\n'))?;
        Ok(format!("{{\"key\":{},\"request\":{}}}", quoted(&dead.key), dead.request))
    });
    with(At::of(object, offset, length), own)
}

/// Many rows: the objects of dead rows that they are among.
async fn of_group(engine: &Engine, group: &DeadGroup) -> Payload {
    let named: Vec<(PartId, &str, u64)> = group
        .rows
        .iter()
        .filter_map(|(entry, rows)| entry.split_once('.').map(|(part, pass)| (PartId(part.to_owned()), pass, *rows)))
        .collect();
    let more = named.len().saturating_sub(NAMED);
    let named = named.get(..NAMED).unwrap_or(&named);
    let ids: BTreeSet<ItemId> = named.iter().map(|(part, ..)| ItemId::part(&group.run, part)).collect();
    let ids: Vec<ItemId> = ids.into_iter().collect();
    let parts = match engine.ledger.get_many(&ids).await {
        Ok(parts) => parts,
        Err(error) => return Payload { trouble: Some(error.to_string()), more, ..Payload::default() },
    };
    let at = named.iter().filter_map(|(part, pass, rows)| {
        let of_part = |item: &Item| matches!(item, Item::Part(found) if found.part == *part);
        let Some(Item::Part(part)) = parts.iter().find(|item| of_part(item)) else { return None };
        let passed = part.passes.iter().find(|passed| passed.name == *pass)?;
        let object = passed.object(&part.run, &part.part, File::Dead);
        Some(At { rows: Some(*rows), ..At::of(object, 0, passed.dead_bytes) })
    });
    Payload { at: at.collect(), more, ..Payload::default() }
}

/// The payload that was read, or where it lies when it is long or could not be read.
fn with(place: At, read: Result<String, String>) -> Payload {
    let checked = read.map(|text| ascii(&text)).and_then(|text| {
        if text.len() > INLINE {
            return Ok(None);
        }
        RawValue::from_string(text).map(Some).map_err(|error| format!("it is no JSON: {error}"))
    });
    match checked {
        Ok(Some(inline)) => Payload { inline: Some(inline), ..Payload::default() },
        Ok(None) => Payload { at: vec![place], ..Payload::default() },
        Err(why) => Payload { at: vec![place], trouble: Some(why), ..Payload::default() },
    }
}

fn place_of(input: &InputRef) -> At {
    At::of(object_name(&input.intake), input.offset, input.length)
}

/// # Errors
/// Why it can't be read, in words.
async fn read(engine: &Engine, at: &At) -> Result<Vec<u8>, String> {
    let bytes = engine.objects.read(&at.object, at.offset..at.offset + at.length).await;
    let bytes = bytes.map_err(|error| Trouble::from(error).to_string())?;
    if bytes.len() as u64 == at.length {
        return Ok(bytes.to_vec());
    }
    Err(format!("{} ends before it does: was the object changed?", at.object))
}

/// JSON with every character that isn't ASCII written as an escape: what is not ASCII in JSON is within a text.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            // Writing to a text can't fail.
            write!(out, "\\u{unit:04x}").unwrap_or_default();
        }
    }
    out
}
