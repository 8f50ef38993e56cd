//! The operation object, as create, get and list show it (gemini-api, section 2.4).

use serde_json::{Map, Value, json};

use super::super::faults::{Fault, hash};
use super::job::{Record, Standing};
use super::time;
use crate::domain::time::Millis;

const TYPE: &str = "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch";

/// Where a batch stands, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Running,
    Unknown,
    Succeeded,
    Partly,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    pub(super) fn of(batch: &Record, standing: Standing) -> Self {
        let unknown = batch.plan.course == Some(Fault::BatchStateUnknown);
        match (standing, batch.plan.outcome) {
            (Standing::Pending, _) => Self::Pending,
            (Standing::Running, _) if unknown => Self::Unknown,
            (Standing::Running, _) => Self::Running,
            (Standing::Cancelled(_), _) | (_, Some(Fault::BatchCancelled)) => Self::Cancelled,
            (Standing::Expired, _) | (_, Some(Fault::BatchExpired)) => Self::Expired,
            (Standing::Ended(_), Some(Fault::BatchFailed)) => Self::Failed,
            (Standing::Ended(_), Some(Fault::BatchPartly)) => Self::Partly,
            (Standing::Ended(_), _) => Self::Succeeded,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Unknown => "WARMING_UP",
            Self::Succeeded => "SUCCEEDED",
            Self::Partly => "PARTIALLY_SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Expired => "EXPIRED",
        }
    }

    /// Whether there is an output.
    pub(super) const fn yields(self) -> bool {
        matches!(self, Self::Succeeded | Self::Partly)
    }

    /// Whether it will never be another.
    pub(super) const fn ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }
}

/// What an operation shows beside the batch itself.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) standing: Standing,
    /// When it ended, or was last changed.
    pub(super) changed: Millis,
    /// The inline responses, for a batch of inline requests that has ended.
    pub(super) inline: Option<Value>,
    /// How many GETs of an ended batch do not see the name of its output, if the fault says so.
    pub(super) unnamed: u32,
}

/// The operation.
pub(super) fn operation(batch: &Record, sight: Sight) -> Value {
    let state = State::of(batch, sight.standing);
    let name = format!("batches/{}", batch.id);
    let mut metadata = fields(json!({
        "@type": TYPE, "name": name, "model": format!("models/{}", batch.model), "displayName": batch.display_name,
        "createTime": time(batch.at), "updateTime": time(sight.changed), "batchStats": stats(batch, state),
        "state": format!("BATCH_STATE_{}", state.word()),
    }));
    if let Some(file) = &batch.file {
        metadata.insert("inputConfig".into(), json!({"fileName": format!("files/{file}")}));
    }
    metadata.extend(batch.webhook_config.clone().map(|config| ("webhookConfig".into(), config)));
    let mut operation = fields(json!({"name": name}));
    if state.ended() {
        metadata.insert("endTime".into(), time(sight.changed));
        operation.extend(end(batch, state, sight, &mut metadata));
    }
    if batch.plan.course == Some(Fault::BatchTopLevel) {
        let count = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).map(|n| json!(n));
        if let Some(Value::Object(stats)) = metadata.get_mut("batchStats") {
            stats.values_mut().for_each(|value| *value = count(value).unwrap_or(Value::Null));
        }
        metadata.insert("state".into(), json!(format!("JOB_STATE_{}", state.word())));
        operation.extend(metadata);
    } else {
        operation.insert("metadata".into(), metadata.into());
    }
    Value::Object(operation)
}

/// `done` with `response` or `error`. An expired one has only its state, or an error too: neither is documented.
fn end(batch: &Record, state: State, sight: Sight, metadata: &mut Map<String, Value>) -> Map<String, Value> {
    let error = |code: i32, message: &str| json!({"done": true, "error": {"code": code, "message": message}});
    let end = match state {
        State::Failed => error(13, "An internal error has occurred."),
        State::Cancelled => error(1, "The operation was cancelled."),
        State::Expired if hash(batch.seed, &batch.id, 0, &[]).is_multiple_of(2) => json!({}),
        State::Expired => error(4, "The batch has expired."),
        _ => {
            let unnamed = batch.plan.course == Some(Fault::BatchUnnamed)
                && matches!(sight.standing, Standing::Ended(seen) if seen < sight.unnamed);
            let kind = format!("{TYPE}Output");
            match (sight.inline, &batch.file) {
                _ if unnamed => json!({"done": true}),
                (Some(inline), _) => {
                    metadata.insert("output".into(), json!({"inlinedResponses": inline}));
                    json!({"done": true, "response": {"@type": kind, "inlinedResponses": inline}})
                }
                (None, None) => json!({"done": true}),
                (None, Some(_)) => {
                    let file = format!("files/batch-{}", batch.id);
                    metadata.insert("output".into(), json!({"responsesFile": file}));
                    json!({"done": true, "response": {"@type": kind, "responsesFile": file}})
                }
            }
        }
    };
    fields(end)
}

/// int64 counters are strings, and zero ones are left out.
fn stats(batch: &Record, state: State) -> Value {
    let (pending, good, failed) = match state {
        State::Pending | State::Running | State::Unknown => (batch.rows, 0, 0),
        state if state.yields() => (0, batch.rows.saturating_sub(batch.failed), batch.failed),
        _ => (0, 0, 0),
    };
    let counters = [
        ("requestCount", batch.rows),
        ("pendingRequestCount", pending),
        ("successfulRequestCount", good),
        ("failedRequestCount", failed),
    ];
    let shown = counters.into_iter().filter(|(_, count)| *count > 0);
    shown.map(|(name, count)| (name.to_owned(), json!(count.to_string()))).collect()
}

fn fields(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}
