//! A batch job as Gemini returns it (gemini-api.md, section 2.4; <https://ai.google.dev/api/batch-api>).

use serde_json::Value;

use super::failure::{Code, Failure};
use super::interaction::ID_BYTES;

/// Where a batch job stands. Open: what this program doesn't know is `Running` until the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// PENDING, QUEUED, RUNNING, PAUSED, CANCELLING, UPDATING, or a word this program doesn't know.
    Running,
    /// SUCCEEDED or PARTIALLY_SUCCEEDED, or done in other words and without an error: it has ended, whatever became of its
    /// rows. The name of its output may still be on its way.
    Succeeded,
    /// FAILED, or ended with an error and no output.
    Failed,
    /// CANCELLED, or ended with the error of having been cancelled.
    Cancelled,
    /// EXPIRED.
    Expired,
}

/// A batch job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// `batches/…`.
    pub name: String,
    /// The name that it was created with.
    pub display_name: Option<String>,
    /// Its state without a prefix: `SUCCEEDED`.
    pub state: String,
    /// How many rows it announces an outcome for: successful and failed ones.
    pub outcomes: Option<u64>,
    /// How many rows it has.
    pub requests: Option<u64>,
    /// The file with its output. This program gives every job a file and never inline requests, so that a `response` with
    /// inline answers is none of its own, and none is read.
    pub output: Option<String>,
    /// Its error: that of the operation (`code` is gRPC's number), else one under `metadata`.
    pub failure: Option<Failure>,
    /// Whether it says that it is done.
    pub done: bool,
}

impl Batch {
    /// Reads an operation. The state and the counters may lie under `metadata` or on top, the state with either prefix, the
    /// counters as strings or numbers; a counter of zero and `done` of a running job are left out. The output's name may
    /// lie under `response`, `metadata.output`, `output` or `dest`.
    ///
    /// # Errors
    /// What is wrong, in words without the content; an `error` that came without a name is told.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
        Self::of(&value)
    }

    /// The same from a value that was read.
    ///
    /// # Errors
    /// As [`Batch::parse`].
    pub fn of(value: &Value) -> Result<Self, String> {
        let metadata = value.get("metadata").unwrap_or(&Value::Null);
        let either = |name: &str| [metadata, value].iter().find_map(|place| told(place, name));
        let text = |name: &str| either(name).and_then(Value::as_str).map(str::to_owned);
        let name = value.get("name").and_then(Value::as_str).map(str::to_owned).or_else(|| text("name"));
        let failure = told(value, "error").or_else(|| told(metadata, "error")).map(Failure::from_error);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(failure.map_or_else(
                || "the answer has no name".to_owned(),
                |failure| format!("the answer has no name but an error: {}", failure.summary()),
            ));
        };
        if name.len() > ID_BYTES {
            return Err(format!("the answer's name has {} bytes; at most {ID_BYTES} are taken", name.len()));
        }
        let state = text("state").unwrap_or_default();
        let state =
            ["BATCH_STATE_", "JOB_STATE_"].iter().find_map(|prefix| state.strip_prefix(prefix)).unwrap_or(&state);
        let stats = either("batchStats").or_else(|| either("batch_stats")).unwrap_or(&Value::Null);
        let response = value.get("response").unwrap_or(&Value::Null);
        let output = [
            response,
            metadata.get("output").unwrap_or(&Value::Null),
            value.get("output").unwrap_or(&Value::Null),
            value.get("dest").unwrap_or(&Value::Null),
        ];
        let file = |place: &&Value| {
            let names = ["responsesFile", "responses_file", "fileName", "file_name"];
            let told = names.iter().filter_map(|name| place.get(name).and_then(Value::as_str));
            told.map(str::to_owned).find(|name| !name.is_empty())
        };
        let successful = counter(stats, "successfulRequestCount", "successful_request_count");
        let failed = counter(stats, "failedRequestCount", "failed_request_count");
        Ok(Self {
            display_name: text("displayName").or_else(|| text("display_name")),
            state: state.to_owned(),
            outcomes: match (successful, failed) {
                (None, None) => None,
                (successful, failed) => Some(successful.unwrap_or(0).saturating_add(failed.unwrap_or(0))),
            },
            requests: counter(stats, "requestCount", "request_count"),
            output: output.iter().find_map(file),
            failure,
            done: value.get("done").and_then(Value::as_bool).unwrap_or(false),
            name,
        })
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match (self.state.as_str(), &self.failure) {
            ("SUCCEEDED" | "PARTIALLY_SUCCEEDED", Some(_)) if self.output.is_none() => Standing::Failed,
            ("SUCCEEDED" | "PARTIALLY_SUCCEEDED", _) => Standing::Succeeded,
            ("FAILED", _) => Standing::Failed,
            ("CANCELLED", _) => Standing::Cancelled,
            ("EXPIRED", _) => Standing::Expired,
            (_, Some(failure)) if self.done && was_cancelled(failure) => Standing::Cancelled,
            (_, Some(_)) if self.done => Standing::Failed,
            (_, None) if self.done => Standing::Succeeded,
            _ => Standing::Running,
        }
    }
}

/// A field that says something.
fn told<'a>(place: &'a Value, name: &str) -> Option<&'a Value> {
    place.get(name).filter(|value| !value.is_null())
}

/// Whether an operation's error is that of having been cancelled: gRPC's 1, or its name.
fn was_cancelled(failure: &Failure) -> bool {
    match &failure.code {
        Some(Code::Number(number)) => *number == 1,
        Some(Code::Word(word)) => word.eq_ignore_ascii_case("CANCELLED"),
        None => failure.status.as_deref() == Some("CANCELLED"),
    }
}

/// A counter: a string or a number. What is neither says nothing.
fn counter(stats: &Value, camel: &str, snake: &str) -> Option<u64> {
    match stats.get(camel).or_else(|| stats.get(snake))? {
        Value::String(digits) => digits.trim().parse().ok(),
        number => number.as_u64(),
    }
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The batch jobs on it.
    pub batches: Vec<Batch>,
    /// The token of the next page; none: it is the last one.
    pub next: Option<String>,
}

impl Page {
    /// Reads a page. A listed operation that can't be read makes the page unreadable: it might be the one looked for.
    ///
    /// # Errors
    /// What is wrong, in words without the content.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
        let object = value.as_object().ok_or("the answer is no JSON object")?;
        if let Some(error) = object.get("error").filter(|error| !error.is_null()) {
            return Err(format!("the answer is an error: {}", Failure::from_error(error).summary()));
        }
        let listed = match object.get("operations").or_else(|| object.get("batches")) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(listed)) => listed,
            Some(_) => return Err("operations is no array".to_owned()),
        };
        let batches = listed.iter().map(Batch::of).collect::<Result<_, _>>()?;
        let next =
            ["nextPageToken", "next_page_token"].iter().find_map(|name| object.get(*name)).and_then(Value::as_str);
        Ok(Self { batches, next: next.filter(|next| !next.is_empty()).map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Batch {
        Batch::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_pending_and_a_finished_one() {
        let pending = of(&json!({"name": "batches/a", "metadata": {
            "displayName": "run-1", "batchStats": {"requestCount": "5", "pendingRequestCount": "5"},
            "state": "BATCH_STATE_PENDING", "name": "batches/a"}}));
        assert_eq!(pending.standing(), Standing::Running);
        assert_eq!(
            (pending.display_name.as_deref(), pending.requests, pending.outcomes),
            (Some("run-1"), Some(5), None)
        );
        let done =
            of(&json!({"name": "batches/a", "done": true, "metadata": {"state": "JOB_STATE_PARTIALLY_SUCCEEDED",
            "batchStats": {"requestCount": 5, "successfulRequestCount": "4", "failedRequestCount": 1}},
            "response": {"responsesFile": "files/batch-a"}}));
        assert_eq!(
            (done.standing(), done.outcomes, done.output.as_deref()),
            (Standing::Succeeded, Some(5), Some("files/batch-a"))
        );
    }

    #[test]
    fn states_on_top_and_words_of_tomorrow() {
        for (state, standing) in [
            ("BATCH_STATE_SUCCEEDED", Standing::Succeeded),
            ("JOB_STATE_FAILED", Standing::Failed),
            ("BATCH_STATE_CANCELLED", Standing::Cancelled),
            ("EXPIRED", Standing::Expired),
            ("JOB_STATE_CANCELLING", Standing::Running),
            ("BATCH_STATE_OF_TOMORROW", Standing::Running),
            ("", Standing::Running),
        ] {
            let batch = of(&json!({"name": "batches/a", "state": state, "dest": {"fileName": "files/batch-a"}}));
            assert_eq!((batch.standing(), batch.output.as_deref()), (standing, Some("files/batch-a")), "{state}");
        }
        let failed = of(&json!({"name": "batches/a", "done": true, "error": {"code": 13, "message": "internal"}}));
        assert_eq!(failed.standing(), Standing::Failed);
        assert!(failed.failure.unwrap().summary().contains("internal"));
    }

    #[test]
    fn an_end_is_told_by_done_and_error_when_no_word_says_it() {
        let cancelled = json!({"code": 1, "message": "The operation was cancelled."});
        let internal = json!({"code": 13, "message": "internal"});
        let file = json!({"responsesFile": "files/batch-a"});
        let inline = json!({"inlinedResponses": {"inlinedResponses": []}});
        for (state, done, error, response, standing) in [
            ("CANCELLED", true, &cancelled, &Value::Null, Standing::Cancelled),
            ("FAILED", true, &internal, &Value::Null, Standing::Failed),
            ("FAILED", false, &Value::Null, &Value::Null, Standing::Failed),
            ("EXPIRED", false, &Value::Null, &Value::Null, Standing::Expired),
            ("SUCCEEDED", true, &Value::Null, &Value::Null, Standing::Succeeded),
            ("SUCCEEDED", true, &internal, &file, Standing::Succeeded),
            ("SUCCEEDED", true, &internal, &Value::Null, Standing::Failed),
            ("RUNNING", true, &cancelled, &Value::Null, Standing::Cancelled),
            ("RUNNING", false, &cancelled, &Value::Null, Standing::Running),
            ("OF_TOMORROW", true, &internal, &Value::Null, Standing::Failed),
            ("OF_TOMORROW", true, &Value::Null, &file, Standing::Succeeded),
            ("", true, &Value::Null, &inline, Standing::Succeeded),
        ] {
            let batch = of(&json!({"name": "batches/a", "done": done, "error": error, "response": response,
                "metadata": {"state": format!("BATCH_STATE_{state}")}}));
            assert_eq!(batch.standing(), standing, "{state} {done} {error} {response}");
            assert_eq!(batch.failure.is_some(), !error.is_null());
            assert_eq!(batch.output.is_some(), response == &file);
        }
        let word = of(&json!({"name": "batches/a", "done": true, "error": {"status": "CANCELLED"}}));
        assert_eq!(word.standing(), Standing::Cancelled);
    }

    #[test]
    fn nothing_under_metadata_hides_what_is_on_top() {
        let batch = of(&json!({
            "name": "batches/a", "state": "BATCH_STATE_RUNNING", "displayName": "run-1", "batchStats": {"requestCount": "3"},
            "metadata": {"state": null, "displayName": null, "batchStats": null, "output": {"responsesFile": ""},
                "error": {"code": 3, "message": "bad"}, "name": null},
            "response": {"responsesFile": null, "fileName": "files/batch-a"}}));
        assert_eq!((batch.state.as_str(), batch.display_name.as_deref()), ("RUNNING", Some("run-1")));
        assert_eq!((batch.requests, batch.outcomes, batch.output.as_deref()), (Some(3), None, Some("files/batch-a")));
        assert!(batch.failure.unwrap().summary().contains("bad"));
    }

    #[test]
    fn what_is_none_is_told_without_its_content() {
        assert!(Batch::parse(b"{}").unwrap_err().contains("no name"));
        assert!(Batch::parse(br#"{"error": {"code": 400, "message": "why"}}"#).unwrap_err().contains("why"));
        assert!(Batch::parse(b"<html>").is_err());
        let page = Page::parse(br#"{"operations": [{"name": "batches/a"}], "nextPageToken": "t"}"#).unwrap();
        assert_eq!((page.batches.len(), page.next.as_deref()), (1, Some("t")));
        assert_eq!(Page::parse(b"{}").unwrap(), Page { batches: Vec::new(), next: None });
        for odd in [&br#"{"operations": [{}]}"#[..], br#"{"error": {"code": 503}}"#, b"[]", br#"{"operations": 5}"#] {
            assert!(Page::parse(odd).is_err());
        }
    }
}
