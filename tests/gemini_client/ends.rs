//! Uploads that don't begin, or end as no file.

use gleaner::adapters::gemini::Offline;
use gleaner::ports::batches::{Batches, Upload, UploadError};
use gleaner::ports::gemini::ReadError;
use gleaner::ports::objects::ObjectError;

use super::parts::{Gemini, IDLE, Text, Waits, active, bare, begun, ended, file, standing};
use super::raw::{Act, Server, answer_of};
use super::{ERROR_BODY, FIRST, HTML, SECOND, client};

const ERROR: &str = r#"{"error":{"code":13,"message":"An internal error"}}"#;

fn no_answer(outcome: Result<String, UploadError>) -> String {
    match outcome {
        Err(UploadError::Gemini(ReadError::NoAnswer(why))) => why,
        other => panic!("{other:?}"),
    }
}

/// Uploads that begin with `act`, and the number of requests that their bytes took.
async fn beginning_with(act: Act) -> (Result<String, UploadError>, usize) {
    let gemini = Gemini::beginning(Waits::Endless(IDLE), |_| vec![act], [ended(9)]).await;
    let outcome = gemini.upload(&Text::of(9)).await;
    assert_eq!(gemini.api.requests().len(), 1);
    (outcome, gemini.target.connections())
}

#[tokio::test]
async fn an_end_without_a_whole_file_makes_up_no_name() {
    let failed = r#"{"file":{"name":"files/abc","state":"FAILED","error":{"code":3,"message":"not JSONL"}}}"#;
    for (body, words) in [
        ("", "no file"),
        ("{}", "no file"),
        ("[]", "no file"),
        (r#"{"file":null}"#, "no file"),
        (r#"{"file":{}}"#, "no name"),
        (r#"{"file":{"name":""}}"#, "no name"),
        (r#"{"file":{"uri":"https://x/files/abc","sizeBytes":"9"}}"#, "no name"),
        (&file(8), "8 bytes where 9 were sent"),
        (&file(0), "0 bytes where 9 were sent"),
        (r#"{"file":{"name":"files/abc","sizeBytes":"many"}}"#, "no number"),
        (r#"{"file":{"name":"files/abc","state":"FAILED"}}"#, "no reason"),
        (failed, "not JSONL"),
        (ERROR, "An internal error"),
        (r#"{"file":{"name":"files/abc"},"error":{"code":13,"message":"An internal error"}}"#, "An internal error"),
    ] {
        let gemini = Gemini::taking([standing("final", "", body)]).await;
        let failed = gemini.upload(&Text::of(9)).await.unwrap_err();
        assert!(failed.to_string().contains(words), "{body}: {failed}");
        let told = body.contains("message");
        assert_eq!(matches!(failed, UploadError::Gemini(ReadError::Refused(_))), told, "{body}: {failed:?}");
        assert_eq!((gemini.commands().len(), gemini.api.requests().len()), (1, 1), "{body}");
    }
}

#[tokio::test]
async fn a_file_counts_when_only_the_status_header_got_lost() {
    let gemini = Gemini::taking([bare("200 OK", &file(9))]).await;
    assert_eq!(gemini.upload(&Text::of(9)).await.unwrap(), "files/abc");
    assert_eq!(gemini.commands().len(), 1);
    // Before the last chunk it can't be the file.
    let gemini = Gemini::taking([standing("final", "", &file(9))]).await;
    let why = no_answer(gemini.upload(&Text::of((8 << 20) + 1)).await);
    assert!(why.contains("before its last chunk"), "{why}");
    assert_eq!(gemini.commands().len(), 1);
}

#[tokio::test]
async fn a_last_chunk_that_ends_nothing_is_ended_once_more() {
    let all = standing("active", "X-Goog-Upload-Size-Received: 9\r\n", "");
    let gemini = Gemini::taking([active(), all.clone(), ended(9)]).await;
    assert_eq!(gemini.upload(&Text::of(9)).await.unwrap(), "files/abc");
    assert_eq!(gemini.commands(), ["upload, finalize at 0 +9", "query", "upload, finalize at 9"]);

    let gemini = Gemini::taking([all]).await;
    let why = no_answer(gemini.upload(&Text::of(9)).await);
    assert!(why.contains("did not end the upload"), "{why}");
    // One try to learn that all bytes are there, which counts as further, and three to end it.
    assert_eq!(gemini.clock.waited(), [1, 1, 2, 4]);
}

#[tokio::test]
async fn a_chunk_that_is_refused_for_good_is_not_sent_again() {
    for code in [400, 401, 403, 404, 409, 410, 413, 416] {
        let gemini = Gemini::taking([bare(&format!("{code} So"), r#"{"error":{"message":"no"}}"#)]).await;
        let failed = gemini.upload(&Text::of(9)).await;
        assert!(
            matches!(&failed, Err(UploadError::Gemini(ReadError::Refused(failure))) if failure.http == Some(code)),
            "{code}: {failed:?}"
        );
        assert_eq!(gemini.commands().len(), 1, "{code}");
    }
    for answer in [
        Act::Say("HTTP/1.1 308 Resume\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()),
        standing("cancelled", "", ""),
        standing("active", "", ERROR),
        bare("200 OK", ERROR),
    ] {
        let gemini = Gemini::taking([answer]).await;
        gemini.upload(&Text::of(9)).await.unwrap_err();
        assert_eq!(gemini.commands().len(), 1);
    }
}

#[tokio::test]
async fn an_upload_that_does_not_begin_sends_no_bytes() {
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let nobody = client(&format!("http://127.0.0.1:{port}"));
    let text = Text::of(9);
    let upload = Upload { objects: &text, object: "runs/in.jsonl", bytes: 9, display_name: "part" };
    no_answer(nobody.upload(upload).await);
    no_answer(Offline::default().upload(upload).await);

    for act in [
        Act::CloseAfter(1),
        Act::SayAndClose(String::new()),
        bare("200 OK", ""),
        bare("200 OK", "{}"),
        bare("200 OK", HTML),
        Act::Say("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()),
    ] {
        let (outcome, sent) = beginning_with(act.clone()).await;
        no_answer(outcome);
        assert_eq!(sent, 0, "{act:?}");
    }
    for code in [400, 403, 408, 429, 500, 503] {
        let body = format!(r#"{{"error":{{"code":{code},"message":"no {FIRST} {SECOND}"}}}}"#);
        let (outcome, sent) = beginning_with(bare(&format!("{code} So"), &body)).await;
        let Err(UploadError::Gemini(ReadError::Refused(failure))) = outcome else { panic!("{outcome:?}") };
        assert_eq!((failure.http, failure.message.as_str(), sent), (Some(code), "no [API key] [API key]", 0));
    }
    let (outcome, _) = beginning_with(bare("200 OK", &ERROR.replace("An", FIRST))).await;
    let Err(UploadError::Gemini(ReadError::Refused(failure))) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.message, "[API key] internal error");
    let endless = Act::Endless("HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n".into(), "4\r\nabcd\r\n");
    let (outcome, _) = beginning_with(endless).await;
    let Err(UploadError::Gemini(ReadError::Refused(failure))) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.len() as u64 <= ERROR_BODY);
}

#[tokio::test]
async fn bytes_go_only_to_a_url_that_may_have_them() {
    let elsewhere = Server::start([Act::Say(answer_of("200 OK", ""))]).await;
    let port = elsewhere.address.port();
    for url in [
        "http://10.0.0.1/u".to_owned(),
        "http://gemini.invalid/u?secret".to_owned(),
        format!("http://me:secret@127.0.0.1:{port}/u"),
        format!("ftp://127.0.0.1:{port}/secret"),
        "/u?secret".to_owned(),
        "secret".to_owned(),
    ] {
        let (outcome, sent) = beginning_with(begun(&url, "")).await;
        let why = no_answer(outcome);
        assert!(why.contains("nothing was sent there") && !why.contains("secret"), "{url}: {why}");
        assert_eq!((sent, elsewhere.connections()), (0, 0), "{url}");
    }
    // A server that can't be reached is asked about like a lost chunk, and its URL is not told.
    let gemini =
        Gemini::beginning(Waits::Endless(IDLE), |_| vec![begun("https://gemini.invalid/u?secret", "")], []).await;
    let why = no_answer(gemini.upload(&Text::of(9)).await);
    assert!(!why.contains("secret"), "{why}");
    assert_eq!(gemini.clock.waited(), [1, 2, 4]);
}

#[tokio::test]
async fn an_object_that_is_not_as_told_is_not_sent() {
    let gone = Text { bytes: None, told: 9 };
    let gemini = Gemini::taking([ended(9)]).await;
    let failed = gemini.upload(&gone).await;
    assert!(matches!(failed, Err(UploadError::Object(ObjectError::NotFound(_)))), "{failed:?}");
    let short = Text { told: 10, ..Text::of(9) };
    let why = no_answer(gemini.upload(&short).await);
    assert!(why.contains("9 of the 10 bytes"), "{why}");
    assert_eq!(gemini.target.connections(), 0);
}
