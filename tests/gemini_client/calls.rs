//! Plain calls: one request, within a time-out of their own, and all that is known of a failure.

use std::time::Duration;

use bytes::Bytes;
use gleaner::adapters::gemini::{ApiKey, HttpGemini, Options};
use gleaner::ports::gemini::{CallError, Gemini};
use serde_json::value::RawValue;

use super::raw::{Act, Server, answer_of};
use super::{FIRST, HTML, MAX_BODY, client};

const GOOD: &str = r#"{"candidates":[],"n":1.0e2}"#;

async fn call(client: &HttpGemini) -> Result<Box<RawValue>, CallError> {
    client.generate("models/m", Bytes::from_static(br#"{"contents":[]}"#)).await
}

fn said(status: &str, body: &str) -> Act {
    Act::Say(answer_of(status, body))
}

/// What a call comes to when the server does `act`; one request, and no more.
async fn told(act: Act) -> Result<Box<RawValue>, CallError> {
    let server = Server::start([act]).await;
    let outcome = call(&client(&server.url())).await;
    assert_eq!(server.requests().len(), 1, "{outcome:?}");
    outcome
}

#[tokio::test]
async fn a_call_goes_to_its_model_and_its_answer_comes_as_it_was() {
    let server = Server::start([said("200 OK", GOOD)]).await;
    let client = client(&format!("{}/p/", server.url()));
    assert_eq!(call(&client).await.unwrap().get(), GOOD);
    let seen = server.requests();
    assert_eq!(
        (seen[0].line(), seen[0].body.as_str()),
        ("POST /p/v1beta/models/m:generateContent", r#"{"contents":[]}"#)
    );
    assert_eq!(seen[0].header("x-goog-api-key"), Some(FIRST));
    for model in ["", "..", "models/"] {
        let error = client.generate(model, Bytes::new()).await.unwrap_err();
        assert!(matches!(&error, CallError::Refused(failure) if failure.http == Some(400)), "{error}");
        assert!(error.to_string().contains("no URL can be made of the model"), "{error}");
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn every_error_is_told_as_a_whole() {
    let body =
        r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow","details":[{"retryDelay":"45.25s"}]}}"#;
    for (status, http) in
        [("429 Too Many", 429), ("500 Internal", 500), ("503 Busy", 503), ("408 Late", 408), ("409 Conflict", 409)]
    {
        match told(said(status, body)).await {
            Err(CallError::Refused(failure)) => {
                assert_eq!((failure.http, failure.retry_after), (Some(http), Some(Duration::from_millis(45_250))));
            }
            other => panic!("{other:?}"),
        }
    }
    match told(said("200 OK", body)).await {
        Err(CallError::Refused(failure)) => assert_eq!((failure.http, failure.message.as_str()), (None, "slow")),
        other => panic!("{other:?}"),
    }
    let both = r#"{"candidates":[{}],"error":{"code":13}}"#;
    assert_eq!(told(said("200 OK", both)).await.unwrap().get(), both);
}

#[tokio::test]
async fn what_can_not_be_read_is_unclear_and_what_is_too_long_is_told() {
    for (status, body) in [("200 OK", HTML), ("200 OK", ""), ("302 Found", GOOD)] {
        let outcome = told(said(status, body)).await;
        assert!(matches!(outcome, Err(CallError::Unclear(_))), "{status}: {outcome:?}");
    }
    let long = format!("\"{}\"", "x".repeat(usize::try_from(MAX_BODY).unwrap()));
    let outcome = told(said("200 OK", &long)).await;
    assert!(matches!(outcome, Err(CallError::TooLong(MAX_BODY))), "{outcome:?}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = call(&client(&format!("http://{nobody}"))).await;
    assert!(matches!(outcome, Err(CallError::NotSent(_))), "{outcome:?}");
}

/// The time-out of other requests is not that of calls, in neither direction.
#[tokio::test]
async fn a_call_has_a_time_out_of_its_own() {
    let within = |http_timeout, call_timeout, url: String| {
        let keys = vec![ApiKey::new(FIRST).unwrap()];
        HttpGemini::new(Options { base_url: url, http_timeout, call_timeout, ..Options::new(keys) }).unwrap()
    };
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(30));
    let server = Server::start([Act::SayAndHang(String::new())]).await;
    match call(&within(long, short, server.url())).await {
        Err(CallError::Unclear(why)) => assert!(why.contains("no answer within 300ms"), "{why}"),
        other => panic!("{other:?}"),
    }
    let whole = answer_of("200 OK", GOOD);
    let late = Server::start([Act::SayWithPauses(vec![whole], Duration::from_millis(900))]).await;
    assert_eq!(call(&within(short, long, late.url())).await.unwrap().get(), GOOD);
}
