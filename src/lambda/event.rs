//! The tick's event: an EventBridge rule's own, with or without jobs in its detail, or bare jobs.

use bytes::Bytes;
use serde::Deserialize;
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

#[derive(Deserialize)]
struct Known<'a> {
    #[serde(rename = "detail-type")]
    detail_type: Option<String>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    jobs: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Detail<'a> {
    #[serde(borrow)]
    jobs: Option<Vec<&'a RawValue>>,
}

/// The jobs of an event as JSONL: each as it was written, on a line of its own. None: it has no jobs.
///
/// # Errors
/// An event that is none of the tick's.
pub fn jobs(event: &RawValue) -> Result<Option<Bytes>, EventError> {
    let known: Known<'_> = serde_json::from_str(event.get())?;
    if known.detail_type.is_none() && known.jobs.is_none() {
        let fields: std::collections::BTreeMap<String, serde::de::IgnoredAny> = serde_json::from_str(event.get())?;
        return match fields.into_keys().next() {
            Some(field) => Err(EventError::Unknown(field)),
            None => Ok(None),
        };
    }
    let in_detail = match (known.detail_type, known.detail) {
        (Some(_), Some(detail)) => serde_json::from_str::<Detail<'_>>(detail.get())?.jobs,
        _ => None,
    };
    let all: Vec<&RawValue> = known.jobs.into_iter().chain(in_detail).flatten().collect();
    Ok((!all.is_empty()).then(|| lines(&all)))
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
