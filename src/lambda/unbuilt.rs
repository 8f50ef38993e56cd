//! Functions that are deployed and do nothing yet: they say so, and never look as if they had done something.

use lambda_runtime::Error;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Event, Function};

/// As much of an event of API Gateway as tells what it is.
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
    iam: Option<Value>,
}

/// Over HTTP: 501, or 403 for a replay that nobody has authorized, whatever the route was set to. Otherwise an error.
pub(super) fn handle(function: Function, event: &Event) -> Result<Value, Error> {
    let why = format!("{function} is not built yet: nothing was done");
    let request = serde_json::from_str::<Request>(event.payload.get()).ok().and_then(|request| request.context);
    let Some(context) = request else { return Err(why.into()) };
    let is_authorized = context.authorizer.is_some_and(|authorizer| authorizer.iam.is_some_and(|iam| iam.is_object()));
    if function == Function::Replay && !is_authorized {
        return Ok(answer(403, "replay needs a caller whom IAM has authorized"));
    }
    Ok(answer(501, &why))
}

fn answer(status: u16, error: &str) -> Value {
    json!({
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json!({"error": error}).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(function: Function, event: &Value) -> Result<Value, Error> {
        let payload = serde_json::value::to_raw_value(event).unwrap();
        handle(function, &Event { payload, context: lambda_runtime::Context::default() })
    }

    #[test]
    fn a_replay_over_http_needs_an_authorizer() {
        let status =
            |context: Value| ask(Function::Replay, &json!({"requestContext": context})).unwrap()["statusCode"].clone();
        for context in [
            json!({}),
            json!({"authorizer": {}}),
            json!({"authorizer": {"iam": null}}),
            json!({"authorizer": {"jwt": {}}}),
        ] {
            assert_eq!(status(context), 403);
        }
        assert_eq!(status(json!({"authorizer": {"iam": {"userArn": "arn:aws:iam::1:user/a"}}})), 501);
    }

    #[test]
    fn nothing_looks_as_if_it_had_been_done() {
        for function in [Function::Replay, Function::Summary] {
            let error = ask(function, &json!({"limit": 1})).unwrap_err().to_string();
            assert_eq!(error, format!("{function} is not built yet: nothing was done"));
        }
    }
}
