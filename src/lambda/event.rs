//! The tick's event: an EventBridge rule's own, with or without jobs in its detail, or bare jobs.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use thiserror::Error;

/// An event that is none of the tick's.
#[derive(Debug, Error)]
pub enum EventError {
    /// It is no JSON object, or a field has another form than it must.
    #[error("the event can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Nothing in it says what it is: a slip that must not pass for an empty list of jobs.
    #[error(
        r#"the event is neither an EventBridge rule's (with "detail-type") nor {{"jobs": [...]}}, nor empty: {0} is not known"#
    )]
    Unknown(String),
}

/// As much of an EventBridge event as tells what it is.
#[derive(Deserialize)]
struct Rule<'a> {
    #[serde(default)]
    source: String,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Jobs<'a> {
    #[serde(borrow)]
    jobs: Option<Vec<&'a RawValue>>,
}

/// The jobs of an event as JSONL: each as it was written, on a line of its own. None: it has no jobs.
///
/// # Errors
/// An event that is none of the tick's. One that brings something else in the place of jobs is among them: a misspelt
/// field must not pass for no jobs.
pub fn jobs(event: &RawValue) -> Result<Option<Bytes>, EventError> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(event.get())?;
    let is_rules = fields.get("detail-type").is_some_and(|kind| kind.get() != "null");
    let jobs = if is_rules {
        let rule: Rule<'_> = serde_json::from_str(event.get())?;
        let detail = rule.detail.map(RawValue::get).unwrap_or("{}");
        let other = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(detail)?.into_keys().find(|key| key != "jobs");
        let jobs = serde_json::from_str::<Jobs<'_>>(detail)?.jobs;
        match other {
            // AWS's own events say in their detail what they are about.
            Some(field) if jobs.is_none() && !rule.source.starts_with("aws.") => {
                return Err(EventError::Unknown(format!("detail.{field}")));
            }
            _ => jobs,
        }
    } else {
        if let Some(field) = fields.into_keys().find(|key| key != "jobs") {
            return Err(EventError::Unknown(field));
        }
        serde_json::from_str::<Jobs<'_>>(event.get())?.jobs
    };
    Ok(jobs.filter(|jobs| !jobs.is_empty()).map(|jobs| lines(&jobs)))
}

/// A line break within a JSON text is white space between its tokens, since strings can't hold one: a space will do,
/// and not a digit of a number or a byte of a string changes.
fn lines(jobs: &[&RawValue]) -> Bytes {
    let mut lines = Vec::new();
    for job in jobs {
        let one_line = job.get().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte });
        lines.extend(one_line);
        lines.push(b'\n');
    }
    lines.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(event: &str) -> Result<Option<String>, EventError> {
        let event: Box<RawValue> = serde_json::from_str(event).unwrap();
        jobs(&event).map(|jobs| jobs.map(|jobs| String::from_utf8(jobs.to_vec()).unwrap()))
    }

    #[test]
    fn jobs_keep_their_very_bytes() {
        let bare = "{\"jobs\": [{\"input\": \"ä\\n\\u00e4\",\n \"n\": 1.0e2 }, {\"b\":12345678901234567890123,\r\n\"a\":1}, 7]}";
        let expected = "{\"input\": \"ä\\n\\u00e4\",  \"n\": 1.0e2 }\n{\"b\":12345678901234567890123,  \"a\":1}\n7\n";
        assert_eq!(read(bare).unwrap().unwrap(), expected);
        let rule = format!(r#"{{"detail-type":"nightly","source":"mine","detail":{bare}}}"#);
        assert_eq!(read(&rule).unwrap().unwrap(), expected);
    }

    #[test]
    fn a_schedule_and_an_empty_event_bring_no_jobs() {
        for event in [
            "{}",
            r#"{"jobs": []}"#,
            r#"{"detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}"#,
            r#"{"detail-type": "Scheduled Event", "detail": {"jobs": null}}"#,
            r#"{"detail-type": "Object Created", "source": "aws.s3", "detail": {"object": {"key": "inbox/a"}}}"#,
            r#"{"detail-type": "mine", "source": "mine", "detail": {}}"#,
            r#"{"detail-type": "Scheduled Event"}"#,
        ] {
            assert_eq!(read(event).unwrap(), None, "{event}");
        }
    }

    #[test]
    fn what_is_no_event_of_the_ticks_is_refused() {
        for event in [
            r#"{"job": [{"input": "x"}]}"#,
            r#"{"detail": {"jobs": [{"input": "x"}]}}"#,
            r#"{"jobs": [], "job": [{"input": "x"}]}"#,
            r#"{"detail-type": null, "detail": {"jobs": [{"input": "x"}]}, "jobs": []}"#,
            r#"{"detail-type": "x", "source": "mine", "detail": {"job": [{"input": "x"}]}}"#,
            r#"{"detail-type": "x", "source": "mine", "detail": {"Jobs": [{"input": "x"}]}}"#,
            r#"{"jobs": {"input": "x"}}"#,
            r#"{"detail-type": "x", "detail": {"jobs": "x"}}"#,
            r#"{"detail-type": "x", "detail": "jobs"}"#,
            r#"[{"input": "x"}]"#,
            "null",
        ] {
            assert!(read(event).is_err(), "{event}");
        }
    }
}
