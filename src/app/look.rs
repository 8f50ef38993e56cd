//! Looking at one handle: what Gemini says of it, and what that means for the job.

use std::time::Duration;

use serde_json::value::RawValue;
use tracing::error;

use super::engine::{Engine, Trouble};
use super::send::operator_message;
use crate::domain::classify::{Delay, Judgement, Met, Verdict, classify};
use crate::domain::extract::extract;
use crate::domain::failure::Failure;
use crate::domain::interaction::{Interaction, Standing};
use crate::domain::item::ItemId;
use crate::domain::job::{Handle, Job};
use crate::domain::line::KEY_LABEL;
use crate::ports::gemini::ReadError;

/// A finished interaction with a usable value.
#[derive(Debug)]
pub struct Answer {
    /// Gemini's own answer.
    pub interaction: Interaction,
    /// What the job wanted of it.
    pub value: Box<RawValue>,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// A result was made durable and handed on.
    Consumed,
    /// What it showed was written down, as far as it is news.
    Noted,
    /// Nothing: somebody else changed the job meanwhile.
    Stale,
}

impl Looked {
    /// Whether a result was consumed.
    #[must_use]
    pub const fn has_consumed(self) -> bool {
        matches!(self, Self::Consumed)
    }
}

/// What a look at a handle showed.
#[derive(Debug)]
pub enum Seen {
    /// Still under way, or a status that this program doesn't know.
    Running,
    /// Finished, with a usable value.
    Value(Box<Answer>),
    /// Failed, or finished without a usable value.
    Failed(Judgement, String, Option<Box<Interaction>>),
    /// Cancelled at Gemini: an attempt that is given up, with its class and message.
    GivenUp(&'static str, String),
    /// 403 or 404 with a key that may see it.
    Missing(String),
    /// 403 or 404 with another key than the one that made it, which is not at hand: it can't be looked at.
    Hidden(String),
    /// Nothing that says anything about the remote job; and a delay, when Gemini names one.
    NoNews(String, Option<Duration>),
    /// The key itself is refused: nobody's job, the operator's, in words for a person.
    Rejected(String),
}

/// Asks Gemini about a handle, and judges the answer against the job's line.
///
/// # Errors
/// Trouble with the job's own line.
pub async fn look_at(engine: &Engine, job: &Job, handle: &Handle) -> Result<Seen, Trouble> {
    match engine.gemini.get_interaction(&handle.id, &handle.key).await {
        Ok(interaction) => match contradiction(job, &handle.id, &interaction) {
            None => judge(engine, job, interaction).await,
            Some(why) => {
                error!(job.key = %job.key, job.handle = handle.id, error = why, "Gemini's answer is not this job's");
                Ok(Seen::NoNews(why, None))
            }
        },
        Err(ReadError::Refused(failure)) => Ok(judge_refusal(engine, handle, &failure)),
        Err(error @ ReadError::NoAnswer(_)) => Ok(Seen::NoNews(error.to_string(), None)),
        // It would be as long the next time, and sending again would be paid again: a person decides.
        Err(error @ ReadError::TooLong(_)) => {
            let judgement =
                Judgement { verdict: Verdict::Permanent, class: "internal:too_long".to_owned(), delay: None };
            Ok(Seen::Failed(judgement, error.to_string(), None))
        }
    }
}

/// What in an answer says that it is another job's: then nothing of it is believed.
pub(super) fn contradiction(job: &Job, handle: &str, interaction: &Interaction) -> Option<String> {
    if interaction.id != handle {
        return Some(format!("asked for {handle}, answered with {}", interaction.id));
    }
    let key = interaction.label(KEY_LABEL).filter(|key| *key != job.key.0)?;
    Some(format!("it carries the label of another job, {key}"))
}

/// Judges an interaction, which is this job's, against the job's line.
///
/// # Errors
/// Trouble with the job's own line.
pub(super) async fn judge(engine: &Engine, job: &Job, interaction: Interaction) -> Result<Seen, Trouble> {
    let fixed = |verdict, class: &str| Judgement { verdict, class: class.to_owned(), delay: None };
    let status = interaction.status.clone();
    if interaction.standing() == Standing::Completed
        && let Some(owner) = engine.ledger.by_handle(&interaction.id).await?
        && owner != ItemId::job(&job.key)
    {
        error!(job.key = %job.key, job.handle = interaction.id, owner = %owner, "Gemini gave one handle to two jobs");
        return Ok(Seen::GivenUp("foreign_handle", format!("its handle is that of {owner}")));
    }
    Ok(match interaction.standing() {
        Standing::Running => Seen::Running,
        Standing::Completed => {
            let expectation = engine.expectation_of(job).await?;
            match extract(&interaction, &expectation) {
                Ok(value) => Seen::Value(Box::new(Answer { interaction, value })),
                Err((judgement, message)) => Seen::Failed(judgement, message, Some(Box::new(interaction))),
            }
        }
        Standing::Failed => {
            let failure = interaction.failure();
            Seen::Failed(classify(&failure, Met::InWork), failure.summary(), Some(Box::new(interaction)))
        }
        Standing::Truncated => {
            let message = format!("the answer was cut short (status {status}): a higher max_output_tokens may help");
            Seen::Failed(fixed(Verdict::Permanent, "truncated"), message, Some(Box::new(interaction)))
        }
        Standing::RequiresAction => {
            let message = "the model asks for the result of a function call, which nobody gives here".to_owned();
            Seen::Failed(fixed(Verdict::Permanent, "requires_action"), message, Some(Box::new(interaction)))
        }
        Standing::Cancelled => Seen::GivenUp("cancelled", "it was cancelled at Gemini, not from here".to_owned()),
    })
}

pub(super) fn judge_refusal(engine: &Engine, handle: &Handle, failure: &Failure) -> Seen {
    let judgement = classify(failure, Met::OnCreate);
    let delay = match judgement.delay {
        Some(Delay::After(wait)) => Some(wait),
        // A daily quota on reading is no reason to leave results alone until midnight.
        Some(Delay::NextPacificMidnight) | None => None,
    };
    match (judgement.verdict, failure.http) {
        (Verdict::Operator, _) => {
            let key = if engine.gemini.has_key(&handle.key) { &handle.key } else { engine.gemini.creates_as() };
            Seen::Rejected(operator_message(engine, key, &judgement.class, &failure.summary()))
        }
        (_, Some(403 | 404)) if engine.gemini.has_key(&handle.key) => Seen::Missing(failure.summary()),
        (_, Some(403 | 404)) => {
            Seen::Hidden(format!("made with another API key ({}), which is not at hand", handle.key))
        }
        _ => Seen::NoNews(failure.summary(), delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::Rev;
    use crate::ports::conformance::sample;

    #[test]
    fn an_answer_that_is_another_jobs_is_not_believed() {
        let job = sample::job("mine", Rev("r".to_owned()));
        let told = |body: &str| contradiction(&job, "v1_a", &Interaction::parse(body.as_bytes()).unwrap());
        assert_eq!(told(r#"{"id":"v1_a"}"#), None);
        assert_eq!(told(r#"{"id":"v1_a","labels":{"gleaner":"mine","team":"x"}}"#), None);
        assert_eq!(told(r#"{"id":"v1_a","labels":"odd"}"#), None);
        assert_eq!(told(r#"{"id":"v1_b"}"#).unwrap(), "asked for v1_a, answered with v1_b");
        let other = told(r#"{"id":"v1_a","labels":{"gleaner":"other"}}"#).unwrap();
        assert_eq!(other, "it carries the label of another job, other");
    }
}
