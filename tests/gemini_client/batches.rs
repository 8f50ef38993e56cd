//! Batch jobs: the requests, the verdicts, and that a create is sent once.

use gleaner::adapters::gemini::Offline;
use gleaner::domain::batch::{Batch, Page, Standing};
use gleaner::domain::job::KeyId;
use gleaner::ports::batches::Batches;
use gleaner::ports::gemini::{CreateError, Gemini, ReadError};

use super::raw::{Act, Seen, Server, answer_of};
use super::{ERROR_BODY, FIRST, HTML, MAX_BODY, SECOND, client, second};

const BATCH: &str = r#"{"name":"batches/a","metadata":{"state":"BATCH_STATE_PENDING","displayName":"run-1"}}"#;

fn unknown() -> KeyId {
    KeyId("000000000000".to_owned())
}

/// What a create, a look, a list and a cancel say when the server does `act` to each; one request each, and no more.
type Said = (Result<Batch, CreateError>, Result<Batch, ReadError>, Result<Page, ReadError>, Result<(), ReadError>);

async fn each(act: Act) -> Said {
    let server = Server::start([act]).await;
    // A client each, so that a connection that was kept plays no part.
    let created = client(&server.url()).create_batch("m", "files/a", "run-1", None).await;
    assert_eq!(server.requests().len(), 1, "{created:?}");
    let looked = client(&server.url()).get_batch("batches/a", &second()).await;
    let listed = client(&server.url()).list_batches(None).await;
    let cancelled = client(&server.url()).cancel_batch("batches/a", &second()).await;
    assert_eq!((server.requests().len(), server.connections()), (4, 4));
    (created, looked, listed, cancelled)
}

#[tokio::test]
async fn requests_name_what_they_are_about_and_carry_the_key_that_may() {
    let server = Server::start([Act::Say(answer_of("200 OK", BATCH))]).await;
    let client = client(&format!("{}/p/", server.url()));
    let created = client.create_batch("models/m-1.5", "files/a\"b", "run-1", None).await.unwrap();
    assert_eq!((created.name.as_str(), created.display_name.as_deref()), ("batches/a", Some("run-1")));
    assert_eq!(created.standing(), Standing::Running);
    client.create_batch("m-1.5", "files/a", "run-1", None).await.unwrap();
    client.get_batch("batches/a", &second()).await.unwrap();
    client.get_batch("a", &unknown()).await.unwrap();
    client.list_batches(None).await.unwrap();
    client.list_batches(Some("t&/=")).await.unwrap();
    client.cancel_batch("batches/a", &second()).await.unwrap();
    client.delete_file("files/a", &second()).await.unwrap();

    let seen = server.requests();
    let lines: Vec<_> = seen.iter().map(Seen::line).collect();
    assert_eq!(
        lines,
        [
            "POST /p/v1beta/models/m-1.5:batchGenerateContent",
            "POST /p/v1beta/models/m-1.5:batchGenerateContent",
            "GET /p/v1beta/batches/a",
            "GET /p/v1beta/batches/a",
            "GET /p/v1beta/batches?pageSize=100",
            "GET /p/v1beta/batches?pageSize=100&pageToken=t%26%2F%3D",
            "POST /p/v1beta/batches/a:cancel",
            "DELETE /p/v1beta/files/a",
        ]
    );
    let keys: Vec<_> = seen.iter().map(|request| request.header("x-goog-api-key").unwrap()).collect();
    assert_eq!(keys, [FIRST, FIRST, SECOND, FIRST, FIRST, FIRST, SECOND, SECOND]);
    assert_eq!(seen[0].body, r#"{"batch":{"displayName":"run-1","inputConfig":{"fileName":"files/a\"b"}}}"#);
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[6].header("content-length"), Some("0"));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn names_that_no_url_can_carry_are_not_sent() {
    let server = Server::start([Act::Say(answer_of("200 OK", BATCH))]).await;
    let client = client(&server.url());
    for id in ["", ".", ".."] {
        let created = client.create_batch(&format!("models/{id}"), "files/a", "run-1", None).await;
        assert!(matches!(&created, Err(CreateError::Refused(failure)) if failure.http == Some(400)), "{created:?}");
        let name = format!("batches/{id}");
        assert!(matches!(client.get_batch(&name, &second()).await, Err(ReadError::NoAnswer(_))));
        assert!(matches!(client.cancel_batch(&name, &second()).await, Err(ReadError::NoAnswer(_))));
        let name = format!("files/{id}");
        assert!(matches!(client.delete_file(&name, &second()).await, Err(ReadError::NoAnswer(_))));
        assert!(matches!(client.download(&name, &second()).await, Err(ReadError::NoAnswer(_))));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_no_create() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let client = client(&format!("http://localhost:{port}"));
    let created = client.create_batch("m", "files/a", "run-1", None).await;
    assert!(matches!(created, Err(CreateError::NotSent(_))), "{created:?}");
    assert!(matches!(client.list_batches(None).await, Err(ReadError::NoAnswer(_))));
}

#[tokio::test]
async fn a_create_without_a_readable_answer_is_unclear_and_sent_once() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 470\r\n\r\n{\"name\":\"batches/a\",";
    let bodies = [HTML, "", "{}", "[]", "null", r#"{"name":""}"#, r#"{"name":"batches/a""#, r#"{"id":"v1_a"}"#];
    let answers = bodies.iter().map(|body| Act::SayAndClose(answer_of("200 OK", body)));
    let breaks = [Act::CloseAfter(1), Act::CloseAfter(100), Act::SayAndClose(String::new())];
    let moved = "HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n";
    let others = [Act::SayAndClose(half.to_owned()), Act::SayAndClose(moved.to_owned())];
    for act in answers.chain(breaks).chain(others) {
        let (created, looked, _, _) = each(act.clone()).await;
        assert!(matches!(&created, Err(CreateError::Unclear(why)) if why.len() < 500), "{act:?}: {created:?}");
        assert!(matches!(looked, Err(ReadError::NoAnswer(_))), "{act:?}: {looked:?}");
    }
    // The SDKs read an `error` under 200 as well; here it proves nothing about the create.
    let error = r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    let (created, looked, listed, cancelled) = each(Act::SayAndClose(answer_of("200 OK", error))).await;
    assert!(matches!(&created, Err(CreateError::Unclear(why)) if why.contains("overloaded")), "{created:?}");
    for said in [looked.map(drop), listed.map(drop), cancelled] {
        assert!(matches!(&said, Err(ReadError::NoAnswer(why)) if why.contains("overloaded")), "{said:?}");
    }
}

#[tokio::test]
async fn only_a_definite_refusal_of_a_create_is_told_as_one() {
    let lines = "Error on line 1: invalid JSON, near column 1032: no such field: 'x'\\nError on line 7: bad";
    let json = format!(r#"{{"error":{{"code":400,"message":"{lines}","status":"INVALID_ARGUMENT"}}}}"#);
    for (code, definite) in [
        (400, true),
        (401, true),
        (403, true),
        (404, true),
        (408, false),
        (409, false),
        (429, true),
        (500, false),
        (503, false),
        (504, false),
    ] {
        for body in [json.as_str(), HTML, ""] {
            let (created, looked, listed, cancelled) =
                each(Act::SayAndClose(answer_of(&format!("{code} So"), body))).await;
            match created {
                Err(CreateError::Refused(failure)) if definite => {
                    assert_eq!(failure.http, Some(code));
                    assert_eq!(failure.message.contains("Error on line 7: bad"), body == json, "{failure:?}");
                }
                Err(CreateError::Unclear(_)) if !definite => {}
                other => panic!("{code}: {other:?}"),
            }
            for said in [looked.map(drop), listed.map(drop), cancelled] {
                assert!(matches!(&said, Err(ReadError::Refused(failure)) if failure.http == Some(code)), "{said:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_create_over_a_kept_connection_that_breaks_is_not_sent_again() {
    for bytes in [1, 60] {
        let server = Server::start([Act::Say(answer_of("200 OK", BATCH)), Act::CloseAfter(bytes)]).await;
        let client = client(&server.url());
        client.create_batch("m", "files/a", "run-1", None).await.unwrap();
        let created = client.create_batch("m", "files/a", "run-2", None).await;
        assert!(matches!(created, Err(CreateError::Unclear(_))), "{created:?}");
        assert_eq!((server.requests().len(), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn answers_without_an_end_are_cut() {
    let head = |status| format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = "10\r\n                \r\n";
    let (created, looked, listed, cancelled) = each(Act::Endless(head("200 OK"), chunk)).await;
    assert!(matches!(created, Err(CreateError::Unclear(_))), "{created:?}");
    for said in [looked.map(drop), listed.map(drop), cancelled] {
        assert!(matches!(said, Err(ReadError::TooLong(MAX_BODY))), "{said:?}");
    }
    let (created, looked, ..) = each(Act::Endless(head("400 Bad"), chunk)).await;
    let Err(CreateError::Refused(failure)) = created else { panic!("{created:?}") };
    assert!(failure.message.len() as u64 <= ERROR_BODY);
    assert!(matches!(looked, Err(ReadError::Refused(_))), "{looked:?}");
}

#[tokio::test]
async fn a_page_is_read_whole_or_not_at_all() {
    let list = async |body: &str, page: Option<&str>| {
        let server = Server::start([Act::Say(answer_of("200 OK", body))]).await;
        client(&server.url()).list_batches(page).await
    };
    let page = list(&format!(r#"{{"operations":[{BATCH}],"nextPageToken":"u"}}"#), Some("t")).await.unwrap();
    assert_eq!((page.batches[0].display_name.as_deref(), page.next.as_deref()), (Some("run-1"), Some("u")));
    assert_eq!(list("{}", None).await.unwrap(), Page { batches: Vec::new(), next: None });
    for body in [
        format!(r#"{{"operations":[{BATCH},{{}}],"nextPageToken":"u"}}"#),
        format!(r#"{{"operations":[{BATCH}"#),
        format!("[{BATCH}]"),
        String::new(),
        HTML.to_owned(),
    ] {
        let listed = list(&body, Some("t")).await;
        assert!(
            matches!(&listed, Err(ReadError::NoAnswer(why)) if why.contains("no page of batch jobs")),
            "{listed:?}"
        );
    }
    // A token that comes back would make whoever wants all pages ask for ever.
    let round = list(r#"{"operations":[],"nextPageToken":"t"}"#, Some("t")).await;
    assert!(matches!(&round, Err(ReadError::NoAnswer(why)) if why.contains("goes round")), "{round:?}");
}

#[tokio::test]
async fn a_cancel_is_taken_when_nothing_speaks_against_it() {
    let error = r#"{"error":{"code":13,"message":"internal"}}"#;
    let at_once = r#"{"name":"batches/a","done":true,"error":{"code":1,"message":"The operation was cancelled."}}"#;
    for (body, taken) in [("{}", true), ("", true), (" \n", true), (at_once, true), (error, false), (HTML, false)] {
        let server = Server::start([Act::Say(answer_of("200 OK", body))]).await;
        let client = client(&server.url());
        for said in [client.cancel_batch("a", &second()).await, client.delete_file("a", &second()).await] {
            assert!(
                matches!((&said, taken), (Ok(()), true) | (Err(ReadError::NoAnswer(_)), false)),
                "{body}: {said:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_file_that_is_not_found_is_deleted_if_its_own_key_says_so() {
    let server = Server::start([Act::Say(answer_of("404 Gone", ""))]).await;
    let client = client(&server.url());
    client.delete_file("files/a", &second()).await.unwrap();
    client.delete_file("files/a", client.creates_as()).await.unwrap();
    let with_another = client.delete_file("files/a", &unknown()).await;
    assert!(matches!(with_another, Err(ReadError::Refused(_))), "{with_another:?}");
    let cancelled = client.cancel_batch("batches/a", &second()).await;
    assert!(matches!(cancelled, Err(ReadError::Refused(_))), "{cancelled:?}");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn keys_are_masked_in_whatever_is_said_of_batch_jobs() {
    let error = format!(r#"{{"error":{{"code":400,"message":"key {FIRST} or {SECOND}"}}}}"#);
    for status in ["400 Bad", "500 Oops", "200 OK"] {
        let (created, looked, listed, cancelled) = each(Act::SayAndClose(answer_of(status, &error))).await;
        for text in [format!("{created:?}"), format!("{looked:?}"), format!("{listed:?}"), format!("{cancelled:?}")] {
            // Under 200 the error is read first, and what looks like a key is masked there.
            let masked = if status == "200 OK" { "key [masked] or [masked]" } else { "key [API key] or [API key]" };
            assert!(text.contains(masked), "{text}");
        }
    }
}

#[tokio::test]
async fn offline_nothing_is_asked() {
    let offline = Offline::default();
    let key = offline.creates_as().clone();
    assert!(matches!(offline.create_batch("m", "files/a", "run-1", None).await, Err(CreateError::NotSent(_))));
    assert!(matches!(offline.get_batch("a", &key).await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.list_batches(None).await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.cancel_batch("a", &key).await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.download("a", &key).await, Err(ReadError::NoAnswer(_))));
    assert!(matches!(offline.delete_file("a", &key).await, Err(ReadError::NoAnswer(_))));
}
