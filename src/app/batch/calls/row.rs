//! The call of one row: marked before it is made, and its outcome an object before anything else is said of it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{Calling, Stop};
use crate::app::batch::lines::broken;
use crate::app::call::{is_definite, judge, keep};
use crate::app::engine::Trouble;
use crate::app::gates::Pass;
use crate::app::send::operator_message;
use crate::domain::classify::{Judgement, Verdict};
use crate::domain::failure::{Code, Failure};
use crate::domain::job::Mode;
use crate::domain::json::quoted;
use crate::domain::moves::{UNCLEAR, named_time};
use crate::domain::time::Millis;
use crate::ports::gemini::CallError;
use crate::ports::objects::Put;

/// Where a row lies in the object of its attempt's rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// From 1.
    pub number: usize,
    pub at: u64,
    pub length: u64,
}

/// What came of a row, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// As a line of a batch's output.
    pub line: Box<RawValue>,
    /// How many calls were made for it before of which nobody knows what became.
    pub again: u32,
    /// Whether this one failed, and may have been paid for all the same.
    pub in_doubt: bool,
    /// When Gemini says that it may be tried again.
    pub not_before: Option<Millis>,
}

/// A row as it is asked.
struct Asked {
    key: String,
    body: Bytes,
    /// Which of its calls it is, from 1.
    number: u32,
    /// Calls before it of which nobody knows what became.
    again: u32,
}

/// What a call that brought no answer leaves.
struct Failed {
    error: Value,
    judgement: Judgement,
    message: String,
    in_doubt: bool,
}

impl Calling<'_> {
    fn object(&self, row: Row, end: &str) -> String {
        let attempt = self.attempt;
        format!("runs/{}/{}.{}.calls/{}{end}", attempt.run, attempt.part, attempt.number, row.number)
    }

    /// The object with a row's outcome.
    pub(super) fn outcome_object(&self, row: Row) -> String {
        self.object(row, ".json")
    }

    /// A row's outcome.
    pub(super) async fn outcome_of(&self, row: Row) -> Result<Outcome, Trouble> {
        let object = self.outcome_object(row);
        let bytes = self.engine.objects.get(&object).await?;
        serde_json::from_slice(&bytes).map_err(|error| broken(&object, 0, &error.to_string()))
    }

    /// Makes the call of a row. An error says why no further one is begun.
    pub(super) async fn call(&self, row: Row, pass: Pass) -> Result<(), Stop> {
        let asked = match self.begin(row).await {
            Ok(Some(asked)) => asked,
            not_begun => {
                let dropped = self.gates.no_news(Mode::Call, &self.job.model, &pass).await;
                not_begun.map_err(|trouble| self.trouble(trouble))?;
                dropped.map_err(|trouble| self.trouble(trouble))?;
                return Err(Stop::at(self.engine.clock.now()));
            }
        };
        let model = &self.job.model;
        let answered = match self.engine.gemini.generate(model, asked.body.clone()).await {
            Ok(response) => Ok(response),
            Err(error) => Err(self.judge_error(error, row, asked.number).await?),
        };
        self.keep_outcome(row, &asked, answered, &pass).await.map_err(|trouble| self.trouble(trouble))
    }

    /// Reads a row, and marks that it is about to be asked. None: the attempt is somebody else's by now.
    async fn begin(&self, row: Row) -> Result<Option<Asked>, Trouble> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            key: Cow<'a, str>,
            #[serde(borrow)]
            request: &'a RawValue,
        }
        let objects = &self.engine.objects;
        let rows_at = &self.attempt.rows_at;
        let bytes = objects.read(rows_at, row.at..row.at + row.length).await?;
        let line: Line<'_> =
            serde_json::from_slice(&bytes).map_err(|error| broken(rows_at, row.at, &error.to_string()))?;
        let (key, body) = (line.key.into_owned(), Bytes::copy_from_slice(line.request.get().as_bytes()));
        if !self.is_ours().await? {
            return Ok(None);
        }
        let (mut number, mut again) = (1, 0);
        while objects.put(&self.object(row, &format!(".{number}.sent")), Bytes::new()).await? == Put::AlreadyThere {
            let was_given_back = objects.size(&self.object(row, &format!(".{number}.back"))).await?.is_some();
            again += u32::from(!was_given_back);
            number += 1;
        }
        if again > 0 {
            warn!(job.key = %self.job.key, row.key = key, "nobody knows what became of its call before: it is asked again");
        }
        Ok(Some(Asked { key, body, number, again }))
    }

    /// What a failed call means for its row. An error: it was refused for the whole queue, or not sent, and costs nothing.
    async fn judge_error(&self, error: CallError, row: Row, number: u32) -> Result<Failed, Stop> {
        let message = error.to_string();
        let (judgement, message) = match error {
            CallError::NotSent(_) => {
                (Judgement { verdict: Verdict::Queue, class: "queue:unreachable".to_owned(), delay: None }, message)
            }
            CallError::Unclear(_) => {
                let error = json!({"code": 500, "status": "UNKNOWN", "message": message});
                return Ok(Failed { error, judgement: Judgement::retryable(UNCLEAR), message, in_doubt: true });
            }
            // It would be as long the next time, and asking again would be paid again.
            CallError::TooLong(_) => {
                let error = json!({"code": 416, "status": "OUT_OF_RANGE", "message": message});
                return Ok(Failed {
                    error,
                    judgement: Judgement::permanent("permanent:416"),
                    message,
                    in_doubt: false,
                });
            }
            CallError::Refused(failure) => {
                let (judgement, message) = (judge(&failure), failure.summary());
                if !matches!(judgement.verdict, Verdict::Queue | Verdict::Operator) {
                    let in_doubt = !is_definite(&failure);
                    return Ok(Failed { error: error_of(&failure), judgement, message, in_doubt });
                }
                (judgement, message)
            }
        };
        self.close(row, number, &judgement, &message).await
    }

    /// Closes the gate, and gives the call back: it was not one.
    async fn close<T>(&self, row: Row, number: u32, judgement: &Judgement, message: &str) -> Result<T, Stop> {
        let engine = self.engine;
        let closed = self.gates.refused(Mode::Call, &self.job.model, judgement, message).await;
        let due = closed.map_err(|trouble| self.trouble(trouble))?;
        let back = engine.objects.put(&self.object(row, &format!(".{number}.back")), Bytes::new()).await;
        back.map_err(|error| self.trouble(error.into()))?;
        let trouble = (judgement.verdict == Verdict::Operator).then(|| {
            let key = engine.gemini.creates_as();
            Trouble::NeedsPerson(operator_message(engine, key, &judgement.class, message))
        });
        Err(Stop { due, why: Some((judgement.class.clone(), message.to_owned())), trouble })
    }

    /// Makes a row's outcome durable, and then tells the gate.
    async fn keep_outcome(
        &self,
        row: Row,
        asked: &Asked,
        answered: Result<Box<RawValue>, Failed>,
        pass: &Pass,
    ) -> Result<(), Trouble> {
        let (engine, model) = (self.engine, &self.job.model);
        let (name, text) = match &answered {
            Ok(response) => ("response", response.get().to_owned()),
            Err(failed) => ("error", failed.error.to_string()),
        };
        // A line end within JSON is white space: none is part of a string.
        let text = text.replace(['\n', '\r'], " ");
        let line = format!("{{\"key\":{},\"{name}\":{text}}}", quoted(&asked.key));
        let strange = |error: serde_json::Error| Trouble::NeedsPerson(format!("an answer is no JSON: {error}"));
        let failed = answered.err();
        let delay = failed.as_ref().and_then(|failed| failed.judgement.delay);
        let outcome = Outcome {
            line: RawValue::from_string(line).map_err(strange)?,
            again: asked.again,
            in_doubt: failed.as_ref().is_some_and(|failed| failed.in_doubt),
            not_before: named_time(delay, engine.clock.now()),
        };
        let bytes = serde_json::to_vec(&outcome).map_err(strange)?;
        if keep(engine, self.job, &self.outcome_object(row), bytes.into()).await? == Put::AlreadyThere {
            warn!(job.key = %self.job.key, row.key = asked.key, "answered twice: the first outcome stays");
        }
        let Some(Failed { judgement, message, .. }) = failed else {
            return self.gates.accepted(Mode::Call, model, pass).await;
        };
        info!(job.key = %self.job.key, row.key = asked.key, class = judgement.class, "a row's call failed");
        match judgement.verdict {
            Verdict::Retryable => self.gates.stumbled(Mode::Call, model, pass, &judgement, &message).await,
            _ => self.gates.refused_alone(Mode::Call, model, pass, &judgement, &message).await,
        }
    }
}

/// A refusal as the error of a batch's row, of which the pass thinks the same.
fn error_of(failure: &Failure) -> Value {
    let word = match &failure.code {
        Some(Code::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    // A conflict without a name passes.
    let nameless = (failure.http == Some(409)).then_some("ABORTED");
    let info = |reason| json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason});
    let mut details: Vec<Value> = failure.reasons.iter().map(info).collect();
    if !failure.quota_ids.is_empty() {
        let violations: Vec<Value> = failure.quota_ids.iter().map(|id| json!({"quotaId": id})).collect();
        details.push(json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}));
    }
    json!({
        "code": failure.http,
        "message": failure.message,
        "status": failure.status.as_deref().or(word).or(nameless),
        "details": details,
    })
}
