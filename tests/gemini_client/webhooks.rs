//! Webhooks: the requests, that none is sent twice, and that no error shows a secret.

use gleaner::adapters::gemini::{HttpGemini, Offline};
use gleaner::domain::webhook::SigningSecret;
use gleaner::ports::gemini::ReadError;
use gleaner::ports::webhooks::{Revoke, Webhook, Webhooks};
use serde_json::{Value, json};

use super::raw::{Act, Seen, Server, answer_of};
use super::{FIRST, HTML, MAX_BODY, client};

const SECRET: &str = "whsec_YW4gZXhhbXBsZSwgb2Ygbm8gdXNlIGFueXdoZXJl";
const HOOK: &str = r#"{"id":"h-1","name":"n","uri":"https://a.test/w","subscribed_events":["batch.failed"],
    "state":"enabled","create_time":"2026-11-29T22:30:21Z","signing_secrets":[{"truncated_secret":"whsec_YW4..."}]}"#;

fn hook() -> Webhook {
    Webhook {
        id: "h-1".to_owned(),
        name: Some("n".to_owned()),
        uri: "https://a.test/w".to_owned(),
        events: vec!["batch.failed".to_owned()],
        state: "enabled".to_owned(),
    }
}

fn made(field: &str) -> String {
    let mut hook: Value = serde_json::from_str(HOOK).unwrap();
    hook[field] = json!(SECRET);
    hook.to_string()
}

async fn register(client: &HttpGemini) -> Result<(Webhook, SigningSecret), ReadError> {
    client.register("https://a.test/w", &["batch.failed".to_owned()], None).await
}

async fn said(act: Act) -> (Result<(Webhook, SigningSecret), ReadError>, Result<SigningSecret, ReadError>) {
    let server = Server::start([act]).await;
    let registered = register(&client(&server.url())).await;
    assert_eq!(server.requests().len(), 1, "{registered:?}");
    let rotated = client(&server.url()).rotate("h-1", Revoke::InADay).await;
    assert_eq!(server.requests().len(), 2, "{rotated:?}");
    (registered, rotated)
}

#[tokio::test]
async fn each_call_is_one_request_to_the_path_that_the_sdk_uses() {
    let empty = answer_of("200 OK", "{}");
    let server = Server::start([
        Act::Say(answer_of("200 OK", &made("new_signing_secret"))),
        Act::Say(answer_of("200 OK", &json!({"secret": SECRET}).to_string())),
        Act::Say(answer_of("200 OK", &json!({"secret": SECRET}).to_string())),
        Act::Say(answer_of("200 OK", HOOK)),
        Act::Say(empty.clone()),
        Act::Say(answer_of("200 OK", "")),
        Act::Say(empty),
    ])
    .await;
    let client = client(&format!("{}/p/", server.url()));
    let events = ["batch.failed".to_owned()];
    let (webhook, secret) = client.register("https://a.test/w", &events, Some("n")).await.unwrap();
    assert_eq!((webhook, secret.expose()), (hook(), SECRET));
    assert_eq!(client.rotate("h-1", Revoke::InADay).await.unwrap().expose(), SECRET);
    client.rotate("webhooks/h-1", Revoke::AtOnce).await.unwrap();
    assert_eq!(client.enable("h-1").await.unwrap(), hook());
    client.ping("a/b?c:d").await.unwrap();
    client.unregister("h-1").await.unwrap();
    client.unregister("webhooks/h-1").await.unwrap();

    let seen = server.requests();
    assert_eq!(
        seen.iter().map(Seen::line).collect::<Vec<_>>(),
        [
            "POST /p/v1beta/webhooks",
            "POST /p/v1beta/webhooks/h-1:rotateSigningSecret",
            "POST /p/v1beta/webhooks/h-1:rotateSigningSecret",
            "PATCH /p/v1beta/webhooks/h-1?update_mask=state",
            "POST /p/v1beta/webhooks/a%2Fb%3Fc%3Ad:ping",
            "DELETE /p/v1beta/webhooks/h-1",
            "DELETE /p/v1beta/webhooks/h-1",
        ]
    );
    let bodies: Vec<Value> = seen.iter().map(|seen| serde_json::from_str(&seen.body).unwrap_or_default()).collect();
    assert_eq!(
        bodies,
        [
            json!({"uri": "https://a.test/w", "subscribed_events": ["batch.failed"], "name": "n"}),
            json!({"revocation_behavior": "revoke_previous_secrets_after_h24"}),
            json!({"revocation_behavior": "revoke_previous_secrets_immediately"}),
            json!({"state": "enabled"}),
            json!({}),
            Value::Null,
            Value::Null,
        ]
    );
    for request in &seen {
        assert_eq!(request.header("x-goog-api-key"), Some(FIRST));
    }
    for id in ["", ".", "..", "webhooks/"] {
        assert!(client.ping(id).await.is_err() && client.unregister(id).await.is_err(), "{id:?}");
        assert!(client.rotate(id, Revoke::AtOnce).await.is_err() && client.enable(id).await.is_err(), "{id:?}");
    }
    assert_eq!(server.requests().len(), 7, "nothing is sent to another path");
}

#[tokio::test]
async fn the_secret_is_read_whichever_of_its_names_it_has() {
    for field in ["new_signing_secret", "newSigningSecret", "secret"] {
        let (registered, rotated) = said(Act::Say(answer_of("200 OK", &made(field)))).await;
        assert_eq!((registered.unwrap().1.expose(), rotated.unwrap().expose()), (SECRET, SECRET), "{field}");
    }
    // An id in the form of a resource's name is the same id.
    let named = made("secret").replace("\"h-1\"", "\"webhooks/h-1\"");
    let (registered, _) = said(Act::Say(answer_of("200 OK", &named))).await;
    assert_eq!(registered.unwrap().0.id, "h-1");
}

#[tokio::test]
async fn no_create_is_sent_twice_and_no_error_shows_a_secret() {
    let quoting = json!({"error": {"code": 400, "message": format!("not {SECRET}, with {FIRST}")}}).to_string();
    let whole = made("secret");
    for act in [
        Act::Say(answer_of("400 Bad Request", &quoting)),
        Act::Say(answer_of("500 Internal Server Error", &whole)),
        Act::Say(answer_of("502 Bad Gateway", &format!("{HTML} {whole}"))),
        Act::Say(answer_of("200 OK", &whole.replace('}', ""))),
        Act::Say(answer_of("200 OK", &format!("[{whole}]"))),
        Act::Say(answer_of("200 OK", &json!({"id": "h-1", "uri": "u", "secrets": SECRET}).to_string())),
        Act::Say(answer_of("200 OK", &json!({"id": "h-1", "uri": "u", "secret": format!("{SECRET}!")}).to_string())),
        Act::Say(answer_of("200 OK", &quoting)),
        Act::Say(answer_of("302 Found", &whole)),
        Act::SayAndClose(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{whole}", whole.len() + 1)),
        Act::CloseAfter(20),
        Act::Endless("HTTP/1.1 200 OK\r\n\r\n".to_owned(), SECRET),
    ] {
        let (registered, rotated) = said(act.clone()).await;
        let (registered, rotated) = (registered.unwrap_err(), rotated.unwrap_err());
        for told in [format!("{registered} {registered:?}"), format!("{rotated} {rotated:?}")] {
            assert!(!told.contains("YW4g") && !told.contains(FIRST), "{act:?}: {told}");
        }
    }
    let (long, _) = said(Act::Endless("HTTP/1.1 200 OK\r\n\r\n".to_owned(), SECRET)).await;
    assert!(matches!(long, Err(ReadError::TooLong(MAX_BODY))));
    let (refused, _) = said(Act::Say(answer_of("403 Forbidden", r#"{"error":{"code":403}}"#))).await;
    assert!(matches!(refused, Err(ReadError::Refused(failure)) if failure.http == Some(403)));
}

#[tokio::test]
async fn the_list_is_read_to_its_end_and_no_further() {
    let page = |ids: &[&str], next: Value| {
        let webhooks: Vec<Value> = ids.iter().map(|id| json!({"id": id, "uri": "u"})).collect();
        Act::Say(answer_of("200 OK", &json!({"webhooks": webhooks, "next_page_token": next}).to_string()))
    };
    let ids = |listed: Vec<Webhook>| listed.into_iter().map(|webhook| webhook.id).collect::<Vec<_>>();
    let server =
        Server::start([page(&["a", "b"], json!("t&/=")), page(&[], json!("u")), page(&["c"], json!(""))]).await;
    assert_eq!(ids(client(&server.url()).webhooks().await.unwrap()), ["a", "b", "c"]);
    assert_eq!(
        server.requests().iter().map(Seen::line).collect::<Vec<_>>(),
        [
            "GET /v1beta/webhooks?page_size=1000",
            "GET /v1beta/webhooks?page_size=1000&page_token=t%26%2F%3D",
            "GET /v1beta/webhooks?page_size=1000&page_token=u"
        ]
    );
    let server = Server::start([Act::Say(answer_of("200 OK", "{}"))]).await;
    assert!(client(&server.url()).webhooks().await.unwrap().is_empty());

    // Round and round: one page that names itself, and two that name each other.
    let server = Server::start([page(&["a"], json!("t"))]).await;
    assert!(client(&server.url()).webhooks().await.unwrap_err().to_string().contains("goes round"));
    assert_eq!(server.requests().len(), 2);
    let turns = (0..200).map(|n| page(&["a"], json!(format!("t{}", n % 2))));
    let server = Server::start(turns).await;
    assert!(client(&server.url()).webhooks().await.unwrap_err().to_string().contains("doesn't end"));
    assert_eq!(server.requests().len(), 100);

    // A page that can't be read is no shorter list.
    for bad in [r#"{"webhooks": {}}"#, r#"{"webhooks": [{"uri": "u"}]}"#, r#"{"webhooks": [{"id": "a"}]}"#, "[]", ""] {
        let server = Server::start([Act::Say(answer_of("200 OK", bad))]).await;
        assert!(matches!(client(&server.url()).webhooks().await, Err(ReadError::NoAnswer(_))), "{bad}");
    }
}

#[tokio::test]
async fn who_is_offline_asks_nobody() {
    let offline = Offline::default();
    assert!(matches!(offline.webhooks().await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.register("u", &[], None).await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.rotate("h", Revoke::AtOnce).await, Err(ReadError::NoAnswer(_))));
}
