//! Downloads: both URLs, and every way to break off.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use gleaner::adapters::gemini::HttpGemini;
use gleaner::ports::batches::{Batches, Download};
use gleaner::ports::gemini::ReadError;
use tokio::io::AsyncReadExt;

use super::parts::{TestWaits, Waits};
use super::raw::{Act, Seen, Server, answer_of};
use super::{ERROR_BODY, FIRST, HTML, SECOND, client, client_within, second};

const ROWS: &str = "{\"key\":\"a\",\"response\":{}}\n{\"key\":\"b\",\"error\":{\"code\":13}}\n";

async fn download(client: &HttpGemini) -> Result<Download, ReadError> {
    client.download("files/batch-a", &second()).await
}

/// What came, and how it ended; after the end, each further read says the same.
async fn read(download: Download) -> (String, Result<(), ErrorKind>) {
    let mut reader = download.reader;
    let mut bytes = Vec::new();
    let outcome = reader.read_to_end(&mut bytes).await.map(drop).map_err(|error| error.kind());
    for _ in 0..3 {
        let again = reader.read(&mut [0; 16]).await.map_err(|error| error.kind());
        assert_eq!(again, outcome.map(|()| 0));
    }
    (String::from_utf8(bytes).unwrap(), outcome)
}

#[tokio::test]
async fn the_second_url_is_tried_when_the_first_is_not_found() {
    let (ok, gone) = (Act::Say(answer_of("200 OK", ROWS)), Act::Say(answer_of("404 No", HTML)));
    let endless = Act::Endless("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n".into(), "4\r\n    \r\n");
    for (acts, requests) in [(vec![ok.clone()], 1), (vec![gone, ok.clone()], 2), (vec![endless, ok], 2)] {
        let server = Server::start(acts).await;
        let client = client(&format!("{}/p", server.url()));
        let download = download(&client).await.unwrap();
        assert_eq!(download.bytes, Some(ROWS.len() as u64));
        assert_eq!(read(download).await, (ROWS.to_owned(), Ok(())));
        let seen = server.requests();
        let lines: Vec<_> = seen.iter().map(Seen::line).collect();
        let both = [
            "GET /p/download/v1beta/files/batch-a:download?alt=media",
            "GET /p/v1beta/files/batch-a:download?alt=media",
        ];
        assert_eq!(lines, both[..requests]);
        for request in &seen {
            assert_eq!(request.header("x-goog-api-key"), Some(SECOND));
            assert_eq!((request.header("accept-encoding"), request.header("range")), (None, None));
        }
    }
}

#[tokio::test]
async fn a_refused_download_is_told_and_not_asked_for_again() {
    for (code, requests) in [(400, 1), (401, 1), (403, 1), (404, 2), (408, 1), (410, 1), (429, 1), (500, 1), (503, 1)] {
        let body = format!(r#"{{"error":{{"code":{code},"message":"no {FIRST} {SECOND}"}}}}"#);
        let server = Server::start([Act::Say(answer_of(&format!("{code} So"), &body))]).await;
        let Err(ReadError::Refused(failure)) = download(&client(&server.url())).await else { panic!("{code}") };
        assert_eq!((failure.http, failure.message.as_str()), (Some(code), "no [API key] [API key]"));
        assert_eq!(server.requests().len(), requests);
    }
    let acts = [Act::Say(answer_of("404 No", "")), Act::Say(answer_of("403 No", ""))];
    let server = Server::start(acts).await;
    let both = download(&client(&server.url())).await;
    assert!(matches!(&both, Err(ReadError::Refused(failure)) if failure.http == Some(403)), "{both:?}");
}

#[tokio::test]
async fn an_answer_that_is_not_a_whole_plain_file_is_none() {
    for head in [
        "302 Found\r\nLocation: https://elsewhere.invalid/",
        "307 Elsewhere\r\nLocation: /v1beta/other",
        "304 Not Modified",
        "206 Partial Content\r\nContent-Range: bytes 0-2/9",
        "204 No Content",
        "200 OK\r\nContent-Encoding: gzip",
        "200 OK\r\nContent-Encoding: identity, br",
    ] {
        let length =
            if head.starts_with("20") && !head.starts_with("204") { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
        let server = Server::start([Act::SayAndClose(format!("HTTP/1.1 {head}\r\n{length}"))]).await;
        let said = download(&client(&server.url())).await;
        let Err(ReadError::NoAnswer(why)) = said else { panic!("{head}: {said:?}") };
        assert_eq!(why.contains("redirect"), head.starts_with('3'), "{head}: {why}");
        assert_eq!(server.requests().len(), 1);
    }
    let plain =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: {}\r\n\r\n{ROWS}", ROWS.len());
    let server = Server::start([Act::Say(plain)]).await;
    let whole = read(download(&client(&server.url())).await.unwrap()).await;
    assert_eq!(whole, (ROWS.to_owned(), Ok(())));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_no_answer() {
    for act in [
        Act::CloseAfter(1),
        Act::CloseAfter(90),
        Act::SayAndClose(String::new()),
        Act::SayAndClose("HTTP/1.1 200 O".to_owned()),
        Act::SayAndClose("SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
    ] {
        let server = Server::start([act.clone()]).await;
        let said = download(&client(&server.url())).await;
        assert!(matches!(said, Err(ReadError::NoAnswer(_))), "{act:?}: {said:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_file_that_is_cut_ends_with_an_error_and_what_came_before_it() {
    let length = |more: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ROWS}", ROWS.len() + more);
    let chunked =
        |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{ROWS}{rest}", ROWS.len());
    for (text, announced) in [
        (length(1), Some(ROWS.len() as u64 + 1)),
        (length(1 << 40), Some(ROWS.len() as u64 + (1 << 40))),
        (chunked("\r\n"), None),
        (chunked(""), None),
        (chunked("\r\n5\r\n"), None),
        (chunked("\r\n0\r\n"), None),
        (chunked("\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), None),
        (chunked("\r\nfffffffffffffffff\r\n"), None),
    ] {
        let server = Server::start([Act::SayAndClose(text.clone())]).await;
        let download = download(&client(&server.url())).await.unwrap();
        assert_eq!(download.bytes, announced, "{text}");
        let (came, outcome) = read(download).await;
        assert!(ROWS.starts_with(&came), "{came}");
        outcome.unwrap_err();
        assert_eq!(server.requests().len(), 1, "it is the caller who begins again");
    }
}

#[tokio::test]
async fn a_length_ends_a_file_and_so_does_a_last_chunk_or_else_the_connection() {
    let length = ROWS.len();
    for (head, announced) in [
        (format!("Content-Length: {length}\r\n\r\n{ROWS}more"), Some(length as u64)),
        (format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{ROWS}\r\n0\r\n\r\n"), None),
        (format!("\r\n{ROWS}"), None),
    ] {
        let server = Server::start([Act::SayAndClose(format!("HTTP/1.1 200 OK\r\n{head}"))]).await;
        let download = download(&client(&server.url())).await.unwrap();
        assert_eq!(download.bytes, announced, "{head}");
        assert_eq!(read(download).await, (ROWS.to_owned(), Ok(())), "{head}");
    }
    let server = Server::start([Act::Say(answer_of("200 OK", ""))]).await;
    let download = download(&client(&server.url())).await.unwrap();
    assert_eq!((download.bytes, read(download).await), (Some(0), (String::new(), Ok(()))));
}

#[tokio::test]
async fn silence_ends_a_download_wherever_it_falls() {
    let idle = Duration::from_millis(300);
    let server = Server::start([Act::SayAndHang(String::new())]).await;
    let said = download(&client_within(&server.url(), idle)).await;
    assert!(matches!(&said, Err(ReadError::NoAnswer(why)) if why.contains("for 300ms")), "{said:?}");

    let refusal = "HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n{";
    let server = Server::start([Act::SayAndHang(refusal.to_owned())]).await;
    let said = download(&client_within(&server.url(), idle)).await;
    assert!(matches!(&said, Err(ReadError::Refused(failure)) if failure.http == Some(503)), "{said:?}");

    let half = format!("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{ROWS}");
    let server = Server::start([Act::SayAndHang(half)]).await;
    let download = download(&client_within(&server.url(), idle)).await.unwrap();
    assert_eq!(read(download).await, (ROWS.to_owned(), Err(ErrorKind::TimedOut)));
}

#[tokio::test]
async fn a_slow_download_is_not_cut_by_the_time_for_a_whole_request() {
    // The idle time never ends on this clock, so that only a time-out of the whole request could end it: after 400 ms.
    let timeout = Duration::from_millis(400);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", ROWS.len());
    let (first, second) = ROWS.split_at(20);
    let texts = vec![head, first.to_owned(), second.to_owned()];
    let server = Server::start([Act::SayWithPauses(texts, timeout)]).await;
    let client = client_within(&server.url(), timeout).with_clock(Arc::new(TestWaits::of(Waits::Endless(timeout))));
    assert_eq!(read(download(&client).await.unwrap()).await, (ROWS.to_owned(), Ok(())));
}

#[tokio::test]
async fn a_long_file_comes_through_in_pieces_of_any_size() {
    let rows: String = (0..40_000).map(|row| format!("{{\"key\":\"row-{row:06}\",\"response\":{{}}}}\n")).collect();
    let server = Server::start([Act::Say(answer_of("200 OK", &rows))]).await;
    let mut download = download(&client(&server.url())).await.unwrap();
    let mut came = Vec::new();
    for size in (1..4_000).cycle() {
        let mut piece = vec![0; size];
        let length = download.reader.read(&mut piece).await.unwrap();
        if length == 0 {
            break;
        }
        came.extend_from_slice(&piece[..length]);
    }
    assert!(came == rows.as_bytes(), "{} of {} bytes", came.len(), rows.len());
}

#[tokio::test]
async fn the_body_of_a_refusal_is_read_up_to_the_limit() {
    let head = "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n";
    let server = Server::start([Act::Endless(head.to_owned(), "4\r\nabcd\r\n")]).await;
    let Err(ReadError::Refused(failure)) = download(&client(&server.url())).await else { panic!() };
    assert!(failure.message.len() as u64 <= ERROR_BODY && failure.message.starts_with("abcd"), "{failure:?}");
}
