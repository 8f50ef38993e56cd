//! The replay: dead letters are tried anew because a person says so, over the API or by invoking the function.

use std::time::Duration;

use bytes::Bytes;
use lambda_runtime::Error;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{error, info};

use super::http::{Http, HttpError, answer};
use super::{Event, Service, metrics};
use crate::app::engine::Trouble;
use crate::app::replay::{Replay, ReplayError, Replayed, replay};
use crate::domain::webhook::LARGEST;

/// How long API Gateway waits for an answer is 30 s; so long new things are begun for it.
const OVER_HTTP: Duration = Duration::from_secs(20);

/// And so long what is begun may take in all, if it says before how long that is.
const ANSWERED: Duration = Duration::from_secs(25);

/// The longest that a direct invocation begins new things: its time-out is what bounds it.
const LONGEST: Duration = Duration::from_secs(3600);

/// As much of an event of API Gateway as tells who sent it.
#[derive(Deserialize)]
struct Request {
    #[serde(rename = "requestContext")]
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Context {
    authorizer: Option<Authorizer>,
}

#[derive(Deserialize)]
struct Authorizer {
    iam: Option<Caller>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Caller {
    user_arn: Option<String>,
}

/// Serves one request: an event of API Gateway, or the bare request of a direct invocation.
///
/// # Errors
/// Of a direct invocation: what an answer over HTTP would say. Over HTTP every outcome is an answer.
pub(super) async fn handle(service: &Service, event: &Event) -> Result<Value, Error> {
    let text = event.payload.get();
    match serde_json::from_str::<Request>(text).ok().and_then(|request| request.context) {
        Some(context) => over_http(service, event, context).await,
        None => {
            let request = read(text.as_bytes())?;
            let replayed = run(service, event.context.deadline, None, &request, "a direct invocation").await;
            Ok(serde_json::to_value(replayed.map_err(|failed| failed.why)?)?)
        }
    }
}

async fn over_http(service: &Service, event: &Event, context: Context) -> Result<Value, Error> {
    // Whatever the route was set to: nobody replays without a name.
    let Some(caller) = context.authorizer.and_then(|authorizer| authorizer.iam) else {
        return Ok(refusal(403, &[], "replay needs a caller whom IAM has authorized"));
    };
    let http = match Http::read(event.payload.get()) {
        Ok(http) => http,
        Err(error @ (HttpError::NotHttp | HttpError::Base64)) => return Ok(refusal(400, &[], &error.to_string())),
    };
    if http.method != "POST" {
        return Ok(refusal(405, &[("allow", "POST")], "a replay is asked for with POST"));
    }
    let body: Bytes = http.request.body;
    if body.len() > LARGEST {
        return Ok(refusal(413, &[], &format!("the request is longer than {LARGEST} bytes")));
    }
    let request = match read(&body) {
        Ok(request) => request,
        Err(why) => return Ok(refusal(400, &[], &why)),
    };
    let caller = caller.user_arn.unwrap_or_else(|| "a caller without an ARN".to_owned());
    let replayed = run(service, event.context.deadline, Some(ANSWERED), &request, &caller).await;
    Ok(match replayed {
        Ok(replayed) => answer(200, &[], &serde_json::to_string(&replayed)?),
        Err(failed) => {
            let again = [("retry-after", "60")];
            refusal(failed.status, if failed.status == 503 { &again } else { &[] }, &failed.why)
        }
    })
}

/// Reads a request. Nothing at all asks for what a request without fields does: a dry run.
fn read(body: &[u8]) -> Result<Replay, String> {
    let body = body.trim_ascii();
    if body.is_empty() || body == b"null" {
        return Ok(Replay::default());
    }
    // A list would be taken for the fields in their order.
    if !body.starts_with(b"{") {
        return Err("the request can't be read: it is no JSON object".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| format!("the request can't be read: {error}"))
}

/// Why nothing, or not everything, was replayed.
struct Failed {
    status: u16,
    why: String,
}

impl From<ReplayError> for Failed {
    fn from(error: ReplayError) -> Self {
        let status = match &error {
            ReplayError::Bad(_) => 400,
            ReplayError::Trouble(Trouble::Passing(_)) => 503,
            ReplayError::Trouble(Trouble::NeedsPerson(_)) => 500,
        };
        Self { status, why: error.to_string() }
    }
}

async fn run(
    service: &Service,
    deadline: u64,
    answered: Option<Duration>,
    request: &Replay,
    caller: &str,
) -> Result<Replayed, Failed> {
    let failed = |why: String| Failed { status: 500, why };
    let until =
        service.until(deadline, answered.map_or(LONGEST, |_| OVER_HTTP)).map_err(|short| failed(short.to_string()))?;
    let (mut engine, no_gemini) = service.engine_until(deadline).await.map_err(|error| failed(error.to_string()))?;
    // Only looking needs no key.
    if let Some(why) = no_gemini.filter(|_| !request.dry_run) {
        return Err(failed(why.to_string()));
    }
    // Nobody waits for the answer any more after that: as if it were ended then.
    let answered = answered.map(|answered| engine.clock.now().plus(answered));
    engine.ends = engine.ends.into_iter().chain(answered).min();
    let outcome = replay(&engine, request, until).await;
    match &outcome {
        Ok(done) => {
            info!(
                replay.caller = caller,
                replay.dry_run = done.dry_run,
                replay.scanned = done.scanned,
                replay.recovered = done.recovered,
                replay.still_failing = done.still_failing,
                replay.resubmitted = done.resubmitted,
                "replayed"
            );
            if let Some(trouble) = &done.trouble {
                error!(replay.caller = caller, error = trouble, "a replay stopped: a person must act first");
            }
            if done.recovered > 0 {
                metrics::print_consumed(service, done.recovered).map_err(|error| failed(error.to_string()))?;
            }
        }
        Err(why) => error!(replay.caller = caller, error = %why, "a replay was refused or met trouble"),
    }
    outcome.map_err(Failed::from)
}

fn refusal(status: u16, headers: &[(&str, &str)], error: &str) -> Value {
    answer(status, headers, &json!({"error": error}).to_string())
}
