//! The Gemini client against servers that misbehave: what it says is known after each failure, and that it never
//! sends a create twice.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "gemini_client/batches.rs"]
mod batches;
#[path = "gemini_client/calls.rs"]
mod calls;
#[path = "gemini_client/downloads.rs"]
mod downloads;
#[path = "gemini_client/ends.rs"]
mod ends;
#[path = "gemini_client/parts.rs"]
mod parts;
#[path = "gemini_client/raw.rs"]
mod raw;
#[path = "gemini_client/uploads.rs"]
mod uploads;
#[path = "gemini_client/webhooks.rs"]
mod webhooks;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gleaner::adapters::gemini::{ApiKey, ERROR_BODY, HttpGemini, Options, OptionsError};
use gleaner::domain::interaction::Interaction;
use gleaner::domain::job::KeyId;
use gleaner::ports::gemini::{CreateError, Gemini, ReadError};
use raw::{Act, Server, answer_of};

const FIRST: &str = "AIzaSyFirst-0123456789_abcdefghijklmnopq";
const SECOND: &str = "AQ.second-0123456789_abcdefghijklmnopqrs";
const GOOD: &str = r#"{"id":"v1_a","status":"in_progress","news":[1]}"#;
const HTML: &str = "<!doctype html><title>Error</title><p>The server is <b>busy";
const MAX_BODY: u64 = 64 << 10;

fn client(base_url: &str) -> HttpGemini {
    client_within(base_url, Duration::from_secs(20))
}

fn client_within(base_url: &str, timeout: Duration) -> HttpGemini {
    HttpGemini::new(Options {
        base_url: base_url.to_owned(),
        keys: vec![ApiKey::new(FIRST).unwrap(), ApiKey::new(SECOND).unwrap()],
        http_timeout: timeout,
        call_timeout: timeout,
        connect_timeout: timeout,
        max_body: MAX_BODY,
    })
    .unwrap()
}

async fn create(client: &HttpGemini) -> Result<Interaction, CreateError> {
    client.create_interaction(Bytes::from_static(br#"{"input":"hi"}"#)).await
}

async fn get(client: &HttpGemini) -> Result<Interaction, ReadError> {
    client.get_interaction("v1_a", client.creates_as()).await
}

fn second() -> KeyId {
    ApiKey::new(SECOND).unwrap().fingerprint()
}

fn unclear(outcome: Result<Interaction, CreateError>) -> String {
    match outcome {
        Err(CreateError::Unclear(why)) => why,
        other => panic!("not unclear: {other:?}"),
    }
}

fn not_sent(outcome: Result<Interaction, CreateError>) -> String {
    match outcome {
        Err(CreateError::NotSent(why)) => why,
        other => panic!("not told as unsent: {other:?}"),
    }
}

fn no_answer(outcome: Result<Interaction, ReadError>) -> String {
    match outcome {
        Err(ReadError::NoAnswer(why)) => why,
        other => panic!("an answer: {other:?}"),
    }
}

/// What a create and a look say when the server does `act` to each; one request each, and no more.
async fn both(act: Act) -> (Result<Interaction, CreateError>, Result<Interaction, ReadError>) {
    let server = Server::start([act]).await;
    let created = create(&client(&server.url())).await;
    assert_eq!(server.requests().len(), 1, "{created:?}");
    let looked = get(&client(&server.url())).await;
    assert_eq!(server.requests().len(), 2, "{looked:?}");
    assert_eq!(server.connections(), 2);
    (created, looked)
}

#[tokio::test]
async fn requests_carry_what_gemini_asks_for_and_the_key_in_a_header_only() {
    let cookie = format!("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: {}\r\n\r\n{GOOD}", GOOD.len());
    let server = Server::start([Act::Say(cookie)]).await;
    let client = client(&format!("{}/some/prefix/", server.url()));
    let created = create(&client).await.unwrap();
    assert_eq!((created.id.as_str(), created.status.as_str(), created.raw.get()), ("v1_a", "in_progress", GOOD));
    get(&client).await.unwrap();
    client.cancel_interaction("v1_a", client.creates_as()).await.unwrap();

    let seen = server.requests();
    let lines: Vec<_> = seen.iter().map(raw::Seen::line).collect();
    assert_eq!(
        lines,
        [
            "POST /some/prefix/v1beta/interactions",
            "GET /some/prefix/v1beta/interactions/v1_a",
            "POST /some/prefix/v1beta/interactions/v1_a/cancel"
        ]
    );
    assert_eq!(seen[0].body, r#"{"input":"hi"}"#);
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    // A POST without a length is refused by servers of Google's kind (411).
    assert_eq!(seen[2].header("content-length"), Some("0"));
    for request in &seen {
        assert_eq!(request.header("x-goog-api-key"), Some(FIRST));
        assert_eq!(request.header("api-revision"), Some("2026-05-20"));
        assert_eq!(request.header("accept"), Some("application/json"));
        assert_eq!(request.header("user-agent"), Some(concat!("gleaner/", env!("CARGO_PKG_VERSION"))));
        for name in ["accept-encoding", "authorization", "cookie", "referer"] {
            assert_eq!(request.header(name), None, "{name}");
        }
    }
    assert_eq!(server.connections(), 1, "connections are shared");
}

#[tokio::test]
async fn a_handle_is_looked_at_with_the_key_that_made_it() {
    let server = Server::start([Act::Say(answer_of("200 OK", GOOD))]).await;
    let client = client(&server.url());
    assert_eq!(client.creates_as(), &ApiKey::new(FIRST).unwrap().fingerprint());
    let unknown = KeyId("000000000000".to_owned());
    assert!(client.has_key(client.creates_as()) && client.has_key(&second()) && !client.has_key(&unknown));
    client.get_interaction("v1_a", &second()).await.unwrap();
    client.cancel_interaction("v1_a", &second()).await.unwrap();
    client.get_interaction("v1_a", &unknown).await.unwrap();
    let seen = server.requests();
    let keys: Vec<_> = seen.iter().map(|request| request.header("x-goog-api-key").unwrap()).collect();
    assert_eq!(keys, [SECOND, SECOND, FIRST]);
}

#[tokio::test]
async fn ids_of_any_kind_stay_within_their_segment() {
    let server = Server::start([Act::Say(answer_of("200 OK", GOOD))]).await;
    let client = client(&server.url());
    for (id, segment) in
        [("../../x", "..%2F..%2Fx"), ("a?b#c%2F", "a%3Fb%23c%252F"), ("日", "%E6%97%A5"), ("a\nb", "a%0Ab")]
    {
        client.get_interaction(id, &second()).await.unwrap();
        assert_eq!(server.requests().last().unwrap().line(), format!("GET /v1beta/interactions/{segment}"));
    }
    let sent = server.requests().len();
    for id in ["", ".", ".."] {
        no_answer(client.get_interaction(id, &second()).await);
        no_answer(client.cancel_interaction(id, &second()).await);
    }
    assert_eq!(server.requests().len(), sent, "what no URL can name is not sent");
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let client = client(&format!("http://localhost:{port}"));
    let why = not_sent(create(&client).await);
    assert!(why.contains("refused") && !why.contains("http://"), "{why}");
    no_answer(get(&client).await);
}

#[tokio::test]
async fn a_name_that_does_not_exist_was_sent_nothing() {
    let client = client_within("https://gemini.invalid", Duration::from_secs(6));
    not_sent(create(&client).await);
    no_answer(get(&client).await);
}

#[tokio::test]
async fn failed_and_hanging_tls_was_sent_nothing() {
    let broken = Server::start([Act::CloseAfter(1)]).await;
    not_sent(create(&client(&format!("https://{}", broken.address))).await);
    assert_eq!(broken.connections(), 1);

    // It waits for an end of the request's head that a TLS greeting doesn't have.
    let hanging = Server::start([Act::Say(String::new())]).await;
    not_sent(create(&client_within(&format!("https://{}", hanging.address), Duration::from_secs(1))).await);
    assert_eq!(hanging.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_a_create_unclear() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"id\":\"v1_a\",";
    for act in [
        Act::CloseAfter(1),
        Act::CloseAfter(100),
        Act::SayAndClose(String::new()),
        Act::SayAndClose("HTTP/1.1 200 OK\r\nContent-".to_owned()),
        Act::SayAndClose(half.to_owned()),
        Act::SayAndClose(format!("HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n{GOOD}")),
        Act::SayAndClose(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2f\r\n{GOOD}\r\n")),
        Act::SayAndClose("SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
    ] {
        let (created, looked) = both(act).await;
        unclear(created);
        no_answer(looked);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_no_longer_than_told() {
    for text in ["", "HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"id\":\"v1_a\","] {
        let server = Server::start([Act::SayAndHang(text.to_owned())]).await;
        let client = client_within(&server.url(), Duration::from_millis(300));
        let why = unclear(create(&client).await);
        assert!(why.contains("timed out"), "{why}");
        no_answer(get(&client).await);
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_success_without_a_readable_interaction_is_unclear() {
    let deep = "[".repeat(50_000);
    for body in [HTML, "[]", "", "null", "{}", r#"{"id":""}"#, r#"{"id":7}"#, r#"{"id":"v1_a""#, "\u{feff}", &deep] {
        let (created, looked) = both(Act::SayAndClose(answer_of("200 OK", body))).await;
        let why = unclear(created);
        assert!(why.contains("HTTP 200") && why.len() < 500, "{why}");
        no_answer(looked);
    }
    // A length that cuts the answer short.
    let (created, looked) =
        both(Act::SayAndClose(format!("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{GOOD}"))).await;
    unclear(created);
    no_answer(looked);
}

#[tokio::test]
async fn an_answer_without_a_length_ends_with_its_connection() {
    let (created, looked) = both(Act::SayAndClose(format!("HTTP/1.1 200 OK\r\n\r\n{GOOD}"))).await;
    assert_eq!(created.unwrap().raw.get(), GOOD);
    assert_eq!(looked.unwrap().raw.get(), GOOD);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent", "304 Not Modified"] {
        let elsewhere = Server::start([Act::Say(answer_of("200 OK", GOOD))]).await;
        let location = format!("HTTP/1.1 {status}\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", elsewhere.url());
        let (created, looked) = both(Act::SayAndClose(location)).await;
        let why = unclear(created);
        assert!(why.contains("redirect"), "{why}");
        no_answer(looked);
        assert_eq!(elsewhere.connections(), 0);
    }
}

#[tokio::test]
async fn only_a_definite_refusal_is_told_as_one() {
    let json = r#"{"error":{"code":"x","message":"no"}}"#;
    for (code, definite) in [
        (400, true),
        (401, true),
        (402, true),
        (403, true),
        (404, true),
        (408, false),
        (409, false),
        (413, true),
        (422, true),
        (429, true),
        (499, true),
        (500, false),
        (501, false),
        (502, false),
        (503, false),
        (504, false),
    ] {
        for body in [json, HTML, "", "[]"] {
            let (created, looked) = both(Act::SayAndClose(answer_of(&format!("{code} So"), body))).await;
            match created {
                Err(CreateError::Refused(failure)) if definite => assert_eq!(failure.http, Some(code)),
                Err(CreateError::Unclear(why)) if !definite => assert!(why.len() < 500, "{why}"),
                other => panic!("{code}: {other:?}"),
            }
            match looked {
                Err(ReadError::Refused(failure)) => assert_eq!(failure.http, Some(code)),
                other => panic!("{code}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn the_status_of_a_refusal_is_enough_when_its_body_breaks() {
    let cut = "HTTP/1.1 400 Bad\r\nContent-Length: 500\r\n\r\n{\"error\":{";
    let (created, looked) = both(Act::SayAndClose(cut.to_owned())).await;
    assert!(matches!(created, Err(CreateError::Refused(failure)) if failure.http == Some(400)));
    assert!(matches!(looked, Err(ReadError::Refused(failure)) if failure.http == Some(400)));
}

#[tokio::test]
async fn a_wait_that_the_header_names_reaches_the_failure() {
    let (created, _) =
        both(Act::SayAndClose("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".to_owned())).await;
    let Err(CreateError::Refused(failure)) = created else { panic!("{created:?}") };
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn an_endless_answer_ends_at_the_limit() {
    let head = |status| format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = "10\r\n                \r\n";
    let (created, looked) = both(Act::Endless(head("200 OK"), chunk)).await;
    unclear(created);
    assert!(matches!(looked, Err(ReadError::TooLong(MAX_BODY))), "{looked:?}");

    let (created, looked) = both(Act::Endless(head("400 Bad"), chunk)).await;
    let Err(CreateError::Refused(failure)) = created else { panic!("{created:?}") };
    assert!(failure.message.len() as u64 <= ERROR_BODY);
    assert!(matches!(looked, Err(ReadError::Refused(_))), "{looked:?}");

    let (created, _) = both(Act::Endless(head("503 Busy"), chunk)).await;
    unclear(created);

    // A length beyond the limit is not believed: the answer is read until the limit all the same.
    let (_, looked) =
        both(Act::Endless(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX / 2), chunk)).await;
    assert!(matches!(looked, Err(ReadError::TooLong(MAX_BODY))), "{looked:?}");
}

#[tokio::test]
async fn an_answer_of_just_the_limit_is_taken() {
    let body = |length: u64| {
        let length = usize::try_from(length).unwrap();
        format!("{GOOD}{}", " ".repeat(length - GOOD.len()))
    };
    let (created, _) = both(Act::SayAndClose(answer_of("200 OK", &body(MAX_BODY)))).await;
    assert_eq!(created.unwrap().id, "v1_a");
    let (_, looked) = both(Act::SayAndClose(answer_of("200 OK", &body(MAX_BODY + 1)))).await;
    assert!(matches!(looked, Err(ReadError::TooLong(MAX_BODY))), "{looked:?}");
}

#[tokio::test]
async fn a_create_over_a_kept_connection_that_breaks_is_unclear_and_not_sent_again() {
    for bytes in [1, 60] {
        let server = Server::start([Act::Say(answer_of("200 OK", GOOD)), Act::CloseAfter(bytes)]).await;
        let client = client(&server.url());
        create(&client).await.unwrap();
        unclear(create(&client).await);
        assert_eq!((server.requests().len(), server.connections()), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kept_connection_that_the_server_has_closed_never_makes_two_creates() {
    // The server closes after each answer without announcing it, so that a create meets a connection which is
    // open, closing or closed, as chance will have it.
    let server = Server::start([Act::SayAndClose(answer_of("200 OK", GOOD))]).await;
    let client = Arc::new(client(&server.url()));
    let mut outcomes = Vec::new();
    for round in 0..100 {
        let creates: Vec<_> = (0..8)
            .map(|place| {
                let (client, body) = (Arc::clone(&client), format!("create {round}.{place}"));
                tokio::spawn(async move {
                    let outcome = client.create_interaction(Bytes::from(body.clone())).await;
                    (body, outcome)
                })
            })
            .collect();
        for create in creates {
            outcomes.push(create.await.unwrap());
        }
    }
    let seen: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    let mut accepted = 0;
    for (body, outcome) in outcomes {
        let times = seen.iter().filter(|seen| **seen == body).count();
        assert!(times <= 1, "{body} was sent {times} times");
        match outcome {
            Ok(_) => {
                assert_eq!(times, 1, "{body} was answered and not seen");
                accepted += 1;
            }
            Err(CreateError::Unclear(_)) => {}
            Err(other) => panic!("{body}: {other:?}"),
        }
    }
    assert!(accepted > 0);
}

#[tokio::test]
async fn keys_are_masked_in_whatever_gemini_says_and_in_debug_output() {
    let body =
        format!(r#"{{"error":{{"code":400,"message":"bad key {FIRST} or {SECOND}","status":"INVALID_ARGUMENT"}}}}"#);
    let (refused, _) = both(Act::SayAndClose(answer_of("400 Bad", &body))).await;
    let (unclear, looked) = both(Act::SayAndClose(answer_of("500 Oops", &body))).await;
    let shown = [format!("{refused:?}"), format!("{unclear:?}"), format!("{looked:?}")];
    for text in shown {
        assert!(text.contains("bad key [API key] or [API key]"), "{text}");
    }
    let debug = format!("{:?}", client("http://127.0.0.1:1"));
    assert!(!debug.contains("First") && !debug.contains("second"), "{debug}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let with = |change: fn(&mut Options)| {
        let mut options = Options::new(vec![ApiKey::new(FIRST).unwrap()]);
        change(&mut options);
        HttpGemini::new(options)
    };
    with(|_| {}).unwrap();
    assert!(matches!(with(|o| o.keys.clear()).unwrap_err(), OptionsError::NoKey));
    assert!(matches!(with(|o| o.base_url = "http://gemini.test".into()).unwrap_err(), OptionsError::PlainHttp(_)));
    assert!(matches!(with(|o| o.base_url = "gemini.test".into()).unwrap_err(), OptionsError::BaseUrl(_)));
    assert!(matches!(with(|o| o.http_timeout = Duration::ZERO).unwrap_err(), OptionsError::Zero(_)));
    assert!(matches!(with(|o| o.connect_timeout = Duration::ZERO).unwrap_err(), OptionsError::Zero(_)));
    assert!(matches!(with(|o| o.max_body = 0).unwrap_err(), OptionsError::Zero(_)));
}

#[test]
fn plain_http_goes_past_proxies_and_needs_no_certificates() {
    // Settings of a process can't be changed safely from within, so another test runs once more under other ones.
    let proxy = "http://127.0.0.1:9";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "requests_carry_what_gemini_asks_for_and_the_key_in_a_header_only"])
        .envs([("HTTP_PROXY", proxy), ("http_proxy", proxy), ("ALL_PROXY", proxy), ("NO_PROXY", ""), ("no_proxy", "")])
        .envs([("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_DIR", "/nonexistent")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
