//! The table `dead_letter`: plain calls that failed.

use std::path::Path;

use futures::{StreamExt, TryStreamExt, stream};

use super::prepare::LETTERS;
use super::{ImportError, Outcomes, stored, then};
use crate::app::engine::{Engine, Trouble};
use crate::app::lines::{RawLine, Reading, read_line};
use crate::domain::item::Item;
use crate::domain::job::{InputRef, Job, JobKey, Mode, State, Work, clip};
use crate::domain::json::{Json, Member, digest, quoted};
use crate::domain::line::{Header, is_label_text};
use crate::domain::moves::BAD_PAYLOAD;
use crate::domain::raw::one_line;
use crate::ports::ledger::CreateError;
use crate::ports::seed::SeedLetter;

/// Items that are made at once, at least: they share the ledger's writes.
const AT_ONCE: usize = 64;

/// The member of a line that says what the file called it. It is not sent.
const ORIGIN: &str = "dead_letter";

/// Members of a line that are not the payload's to set.
const OWN: [&str; 4] = ["idempotency_key", "mode", "expect", ORIGIN];

/// How many bytes of what is wrong with a payload are told beside its own message.
const WHY_BYTES: usize = 160;

/// A dead letter, and what its line came to.
#[derive(Debug)]
pub(super) struct Letter {
    seed: SeedLetter,
    key: JobKey,
    /// The content and the model of its line; or why no job can be made of it.
    line: Result<(String, Option<String>), String>,
    /// Fields of the payload that are not sent.
    pub unsent: Vec<String>,
}

/// The key of a dead letter: its id, if that is one; else one made of it.
fn key(job_id: &str) -> JobKey {
    if is_label_text(job_id) && !job_id.is_empty() {
        return JobKey(job_id.to_owned());
    }
    JobKey(digest(&format!("gleaner seed dead_letter {job_id}")))
}

/// Makes a line of mode `call` of a dead letter: the fields of its payload, with the file's own name for it beside them. One
/// that no job can be made of keeps its payload whole in a member of its own.
pub(super) fn read(mut seed: SeedLetter) -> (Letter, String) {
    let key = key(&seed.job_id);
    let payload = seed.payload.take().unwrap_or_default();
    let (own_key, job_id) = (quoted(&key.0), quoted(&seed.job_id));
    let read = fields(&payload, seed.model.as_deref()).and_then(|fields| {
        let line = format!(
            "{{\"idempotency_key\":{own_key},\"mode\":\"call\",{fields},\"{ORIGIN}\":{{\"job_id\":{job_id}}}}}"
        );
        let length = line.len() as u64;
        let bytes = line.clone().into();
        let raw = RawLine { line: 1, offset: 0, length, end: length + 1, bytes, is_too_long: false };
        match read_line(&raw, &Header::default()) {
            Reading::Job(job, _) => Ok((line, job)),
            Reading::Bad(error) => Err(error.message),
            Reading::Nothing => Err("nothing is there".to_owned()),
        }
    });
    match read {
        Ok((line, job)) => {
            let unsent = job.unsent.into_iter().filter(|field| field != ORIGIN).collect();
            (Letter { seed, key, line: Ok((job.content, job.target)), unsent }, line)
        }
        Err(why) => {
            let payload = if Json::parse(&payload).is_ok() { one_line(&payload) } else { quoted(&payload) };
            let line =
                format!("{{\"idempotency_key\":{own_key},\"{ORIGIN}\":{{\"job_id\":{job_id},\"payload\":{payload}}}}}");
            (Letter { seed, key, line: Err(why), unsent: Vec::new() }, line)
        }
    }
}

/// The members of a line, as JSON, that a payload comes to: a generateContent request as it is; a prompt, or contents that
/// are a mere text as Google's client takes them, as `input`.
fn fields(payload: &str, model: Option<&str>) -> Result<String, String> {
    if payload.is_empty() {
        return Err("there is no payload".to_owned());
    }
    let members = match Json::parse(payload).map_err(|error| format!("the payload is no JSON: {error}"))? {
        Json::Object(members) => members,
        other => return Err(format!("the payload is {}, and no object", other.kind())),
    };
    let has = |name: &str| members.iter().any(|member| member.name == name);
    if let Some(own) = OWN.into_iter().find(|own| has(own)) {
        return Err(format!("the payload has a field {own}, which is not Gemini's"));
    }
    let mut fields: Vec<String> = Vec::new();
    // The script's call went to the model of the table, whatever the payload says.
    fields.extend(model.map(|model| format!("\"model\":{}", quoted(model))));
    for Member { name, value, text } in &members {
        let (name, text) = match (name.as_ref(), value) {
            ("model", _) if model.is_some() => continue,
            ("prompt", Json::Text(_)) if !has("input") && !has("contents") => ("input", (*text).to_owned()),
            ("contents", Json::Text(_)) if !has("input") => ("input", (*text).to_owned()),
            ("contents", Json::Object(_)) => ("contents", format!("[{text}]")),
            (name, _) => (name, (*text).to_owned()),
        };
        fields.push(format!("{}:{}", quoted(name), one_line(&text)));
    }
    if fields.is_empty() { Err("the payload is empty".to_owned()) } else { Ok(fields.join(",")) }
}

pub(super) async fn import(
    engine: &Engine,
    letters: &[(Letter, InputRef)],
    scratch: &Path,
) -> Result<Outcomes, ImportError> {
    if letters.is_empty() {
        return Ok(Outcomes::new());
    }
    let (sha256, _) = stored(engine, &scratch.join(LETTERS)).await?;
    let outcomes = stream::iter(letters)
        .map(|(letter, place)| take(engine, letter, InputRef { intake: sha256.clone(), ..place.clone() }))
        .buffer_unordered(engine.settings.concurrency.max(AT_ONCE));
    let count = |mut all: Outcomes, outcome: &'static str| async move {
        *all.entry(outcome).or_default() += 1;
        Ok(all)
    };
    Ok(outcomes.try_fold(Outcomes::new(), count).await?)
}

async fn take(engine: &Engine, letter: &Letter, input: InputRef) -> Result<&'static str, Trouble> {
    let (job, outcome) = job(engine, letter, input);
    match engine.create(&Item::Job(job)).await {
        Ok(()) => Ok(outcome),
        Err(CreateError::Exists(_)) => Ok("before"),
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}

/// The job, and what it is told as.
fn job(engine: &Engine, letter: &Letter, input: InputRef) -> (Job, &'static str) {
    let now = engine.now();
    let settings = &engine.settings;
    let seed = &letter.seed;
    let (content, model) = letter.line.clone().unwrap_or_default();
    let work = Work {
        key: letter.key.clone(),
        input,
        content,
        mode: Mode::Call,
        model: model.or_else(|| seed.model.clone()).unwrap_or_else(|| settings.model.clone()),
        max_attempts: settings.max_attempts.max(seed.attempts),
        deadline_s: settings.deadline.as_secs().max(1),
    };
    let mut job = Job::planned(work, engine.rev(), now.at);
    job.attempts = seed.attempts;
    let last = then(now, seed.last_seen.or(seed.first_seen));
    job.parked_at = Some(then(last, seed.first_seen).at);
    let class = seed.class.clone().unwrap_or_else(|| "unknown".to_owned());
    let message = seed.message.clone().unwrap_or_else(|| "the script kept no message".to_owned());
    if seed.status == "recovered" {
        job.blame(&class, &message);
        job.enter(State::Recovered, None, last.at);
        return (job, "recovered");
    }
    match &letter.line {
        Ok(_) => {
            job.park(&class, &message, last);
            (job, "parked")
        }
        Err(why) => {
            let why = format!("its payload can't be sent: {}. It died as {class}: {message}", clip(why, WHY_BYTES));
            job.park(BAD_PAYLOAD, &why, last);
            (job, "bad_payload")
        }
    }
}
