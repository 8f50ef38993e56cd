//! Gemini's Batch API (gemini-api, section 2): create with a file or with inline requests, get, list, cancel,
//! delete, and the download of results.
//!
//! A batch's input is kept on disk as it was uploaded, beside an index of its rows with the fault that each will
//! meet. Its output is written when it is first asked for: a function of these two and of the batch's plan.

mod accept;
mod download;
mod ended;
mod input;
mod job;
mod operation;
mod output;
mod routes;
mod row;

use serde_json::{Value, json};

pub(super) use self::download::{Form, Media, download, routes as download_routes};
pub(super) use self::ended::{end, times};
pub(super) use self::job::{Job, Jobs, Record};
pub(super) use self::routes::{create, routes};
pub(super) use self::row::Row;
use crate::domain::time::Millis;

/// RFC 3339 with the fraction of the second, as in operations and files.
pub(super) fn time(at: Millis) -> Value {
    jiff::Timestamp::from_millisecond(at.0).map_or(Value::Null, |time| json!(format!("{time:.9}")))
}
