//! Uploads: the protocol, chunks that get lost, and MIME types that are refused.

use std::time::Duration;

use gleaner::ports::batches::UploadError;
use gleaner::ports::gemini::ReadError;

use super::parts::{Gemini, IDLE, Text, Waits, active, bare, begun, ended, file, received, standing};
use super::raw::{Act, Seen};
use super::{FIRST, HTML};

const CHUNK: usize = 8 << 20;
const MIME: &str =
    r#"{"error":{"code":400,"message":"Unsupported MIME type: application/jsonl","status":"INVALID_ARGUMENT"}}"#;

#[tokio::test]
async fn an_upload_goes_out_in_chunks_and_its_bytes_carry_no_key() {
    let text = Text::of(2 * CHUNK + 5);
    let gemini = Gemini::taking([active(), active(), ended(2 * CHUNK + 5)]).await;
    assert_eq!(gemini.upload(&text).await.unwrap(), "files/abc");

    let begun = gemini.api.requests();
    assert_eq!(begun.iter().map(Seen::line).collect::<Vec<_>>(), ["POST /upload/v1beta/files"]);
    for (name, value) in [
        ("x-goog-api-key", FIRST),
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("x-goog-upload-header-content-length", "16777221"),
        ("x-goog-upload-header-content-type", "application/jsonl"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(begun[0].header(name), Some(value), "{name}");
    }
    assert_eq!(begun[0].body, r#"{"file":{"displayName":"part \"1\"","mimeType":"application/jsonl"}}"#);

    let sent = gemini.target.requests();
    assert_eq!(
        gemini.commands(),
        ["upload at 0 +8388608", "upload at 8388608 +8388608", "upload, finalize at 16777216 +5"]
    );
    for chunk in &sent {
        assert_eq!(chunk.line(), "POST /u?upload_id=secret");
        assert_eq!(chunk.header("x-goog-api-key"), None);
        assert_eq!(chunk.header("content-length"), Some(chunk.body.len().to_string().as_str()));
        assert_eq!(chunk.header("transfer-encoding"), None);
        assert!(!chunk.head.contains(FIRST));
    }
    let came: String = sent.iter().map(|chunk| chunk.body.as_str()).collect();
    assert!(came == text.text());
    assert!(gemini.clock.waited().is_empty());
}

#[tokio::test]
async fn a_short_object_and_an_empty_one_take_one_request() {
    for (length, command) in [(0, "upload, finalize at 0"), (1, "upload, finalize at 0 +1")] {
        let gemini = Gemini::taking([ended(length)]).await;
        gemini.upload(&Text::of(length)).await.unwrap();
        assert_eq!(gemini.commands(), [command]);
        let seen = gemini.target.requests();
        assert_eq!(seen[0].header("content-length"), Some(length.to_string().as_str()));
    }
    let gemini = Gemini::taking([ended(CHUNK)]).await;
    gemini.upload(&Text::of(CHUNK)).await.unwrap();
    assert_eq!(gemini.commands(), ["upload, finalize at 0 +8388608"]);
}

#[tokio::test]
async fn chunks_keep_to_the_grain_that_gemini_names() {
    for (grain, first) in [("3145728", 9 << 20), ("262144", CHUNK), ("0", CHUNK), ("-1", CHUNK), ("9e9", CHUNK)] {
        let header = format!("X-Goog-Upload-Chunk-Granularity: {grain}\r\n");
        let target = super::Server::start([active(), ended(10 << 20)]).await;
        let gemini = Gemini::beginning(Waits::Endless(IDLE), |_| vec![begun(&target.url(), &header)], [active()]).await;
        gemini.upload(&Text::of(10 << 20)).await.unwrap();
        let sent: Vec<_> = target.requests().iter().map(|chunk| chunk.body.len()).collect();
        assert_eq!(sent, [first, (10 << 20) - first], "{grain}");
    }
}

#[tokio::test]
async fn a_chunk_that_may_be_lost_is_asked_about_and_goes_on_from_there() {
    let length = CHUNK + 7;
    let lost = [
        Act::CloseAfter(1),
        Act::CloseAfter(2_000_000),
        Act::SayAndClose(String::new()),
        Act::SayAndClose("HTTP/1.1 200 OK\r\nX-Goog-Upload-Sta".to_owned()),
        bare("200 OK", ""),
        bare("200 OK", "{}"),
        bare("200 OK", HTML),
        bare("500 Oops", ""),
        bare("503 Busy", HTML),
        bare("429 Slow", r#"{"error":{"code":429,"message":"slow"}}"#),
        bare("408 Late", ""),
    ];
    for act in lost {
        for (has, rest) in [
            (0, vec!["upload at 0 +8388608", "upload, finalize at 8388608 +7"]),
            (CHUNK, vec!["upload, finalize at 8388608 +7"]),
        ] {
            let mut acts = vec![act.clone(), received(has)];
            acts.extend(vec![active(); rest.len() - 1]);
            acts.push(ended(length));
            let gemini = Gemini::taking(acts).await;
            assert_eq!(gemini.upload(&Text::of(length)).await.unwrap(), "files/abc", "{act:?}");
            assert_eq!(gemini.commands()[1..], [vec!["query"], rest].concat(), "{act:?}");
            assert_eq!(gemini.clock.waited(), [1]);
        }
    }
}

#[tokio::test]
async fn a_chunk_that_came_in_part_goes_on_in_its_midst() {
    let text = Text::of(CHUNK + 100);
    let gemini = Gemini::taking([Act::CloseAfter(5_000_000), received(4_000_001), ended(CHUNK + 100)]).await;
    assert_eq!(gemini.upload(&text).await.unwrap(), "files/abc");
    let sent = gemini.target.requests();
    assert_eq!(gemini.commands()[1..], ["query", "upload, finalize at 4000001 +4388707"]);
    assert!(sent[2].body == text.text().split_at(4_000_001).1);
}

#[tokio::test]
async fn a_server_that_lost_earlier_bytes_gets_them_again() {
    let text = Text::of(2 * CHUNK + 1);
    let acts = [active(), bare("503 Busy", ""), received(3), active(), ended(2 * CHUNK + 1)];
    let gemini = Gemini::taking(acts).await;
    gemini.upload(&text).await.unwrap();
    let sent = gemini.target.requests();
    assert_eq!(gemini.commands()[2..], ["query", "upload at 3 +8388608", "upload, finalize at 8388611 +8388606"]);
    assert!(text.text() == format!("{}{}{}", text.text().split_at(3).0, sent[3].body, sent[4].body));
}

#[tokio::test]
async fn three_tries_in_a_row_are_made_and_no_more() {
    let busy = bare("503 Busy", r#"{"error":{"code":503,"message":"still busy"}}"#);
    // Questions without an answer.
    let gemini = Gemini::taking([busy.clone()]).await;
    let failed = gemini.upload(&Text::of(9)).await;
    assert!(
        matches!(&failed, Err(UploadError::Gemini(ReadError::Refused(failure))) if failure.http == Some(503)),
        "{failed:?}"
    );
    assert_eq!(gemini.commands(), ["upload, finalize at 0 +9", "query", "query", "query"]);
    assert_eq!(gemini.clock.waited(), [1, 2, 4]);
    assert_eq!(gemini.api.requests().len(), 1, "to begin anew is the caller's matter");

    // Answers, and a chunk that is never taken.
    let acts = [busy.clone(), received(0), busy.clone(), received(0), busy.clone(), received(0), busy];
    let gemini = Gemini::taking(acts).await;
    gemini.upload(&Text::of(9)).await.unwrap_err();
    let chunk = "upload, finalize at 0 +9";
    assert_eq!(gemini.commands(), [chunk, "query", chunk, "query", chunk, "query", chunk]);
    assert_eq!(gemini.clock.waited(), [1, 2, 4]);

    // The last try of them succeeds.
    let gone = Act::CloseAfter(1);
    let gemini = Gemini::taking([gone.clone(), bare("502 Oops", ""), gone, received(0), ended(9)]).await;
    gemini.upload(&Text::of(9)).await.unwrap();
    assert_eq!(gemini.clock.waited(), [1, 2, 4]);
}

#[tokio::test]
async fn tries_are_counted_anew_once_the_upload_has_come_further() {
    let busy = || bare("503 Busy", "");
    let length = CHUNK + 1;
    let acts = [busy(), busy(), received(0), active(), busy(), busy(), busy(), received(CHUNK), ended(length)];
    let gemini = Gemini::taking(acts).await;
    gemini.upload(&Text::of(length)).await.unwrap();
    assert_eq!(gemini.clock.waited(), [1, 2, 1, 2, 4]);

    // Going back and forth is not further.
    let back = [active(), busy(), received(0), active(), busy(), received(0), active(), busy(), received(0), active()];
    let gemini = Gemini::taking(back.into_iter().chain([busy()])).await;
    gemini.upload(&Text::of(length)).await.unwrap_err();
    assert_eq!(gemini.clock.waited(), [1, 2, 4]);
}

#[tokio::test]
async fn a_question_may_find_the_upload_ended_or_gone() {
    let busy = || bare("503 Busy", "");
    let gemini = Gemini::taking([busy(), ended(9)]).await;
    assert_eq!(gemini.upload(&Text::of(9)).await.unwrap(), "files/abc");

    let more = received(10);
    let gone = bare("404 Gone", r#"{"error":{"code":404,"message":"no such upload"}}"#);
    for (answer, words) in [
        (standing("final", "", ""), "no file"),
        (standing("final", "", &file(8)), "9 were sent"),
        (standing("cancelled", "", ""), "gave the upload up"),
        (more, "10 of 9"),
        (gone, "no such upload"),
    ] {
        let gemini = Gemini::taking([busy(), answer]).await;
        let failed = gemini.upload(&Text::of(9)).await.unwrap_err();
        assert!(failed.to_string().contains(words), "{failed}");
        assert_eq!(gemini.commands().len(), 2);
    }
}

#[tokio::test]
async fn a_refused_mime_type_leads_to_the_next_which_is_then_kept() {
    let refused = bare("400 Bad", MIME);
    // While the upload begins.
    let begin = |begun: Act| vec![refused.clone(), begun.clone(), begun];
    let gemini = Gemini::beginning(Waits::Endless(IDLE), begin, [ended(9)]).await;
    gemini.upload(&Text::of(9)).await.unwrap();
    gemini.upload(&Text::of(9)).await.unwrap();
    assert_eq!(gemini.types(), ["application/jsonl", "application/json", "application/json"]);
    let begun = gemini.api.requests();
    assert!(begun[1].body.contains(r#""mimeType":"application/json""#), "{}", begun[1].body);

    // The same under a success status, without a URL.
    let begin = |begun: Act| vec![bare("200 OK", MIME), bare("415 No", ""), begun];
    let gemini = Gemini::beginning(Waits::Endless(IDLE), begin, [ended(9)]).await;
    gemini.upload(&Text::of(9)).await.unwrap();
    assert_eq!(gemini.types(), ["application/jsonl", "application/json", "text/plain"]);

    // At the last chunk, in each of the ways that were seen.
    for refusal in [refused.clone(), bare("200 OK", MIME), standing("final", "", MIME)] {
        let gemini = Gemini::taking([refusal, ended(9)]).await;
        gemini.upload(&Text::of(9)).await.unwrap();
        assert_eq!(gemini.types(), ["application/jsonl", "application/json"]);
        assert_eq!(gemini.commands(), ["upload, finalize at 0 +9", "upload, finalize at 0 +9"]);
        assert!(gemini.clock.waited().is_empty());
    }
}

#[tokio::test]
async fn when_every_mime_type_is_refused_that_is_told() {
    let gemini = Gemini::taking([standing("final", "", MIME)]).await;
    let failed = gemini.upload(&Text::of(9)).await;
    assert!(
        matches!(&failed, Err(UploadError::Gemini(ReadError::Refused(failure))) if failure.message.contains("MIME")),
        "{failed:?}"
    );
    assert_eq!(gemini.types(), ["application/jsonl", "application/json", "text/plain"]);
    // Another refusal is not the type's fault, nor is a passing one that names it.
    for refusal in [
        bare("400 Bad", r#"{"error":{"code":400,"message":"too large","status":"INVALID_ARGUMENT"}}"#),
        standing("final", "", r#"{"error":{"code":403,"message":"quota of files"}}"#),
    ] {
        let gemini = Gemini::taking([refusal]).await;
        gemini.upload(&Text::of(9)).await.unwrap_err();
        assert_eq!((gemini.types().len(), gemini.commands().len()), (1, 1));
    }
    let gemini = Gemini::beginning(Waits::Endless(IDLE), |_| vec![bare("503 Busy", MIME)], []).await;
    gemini.upload(&Text::of(9)).await.unwrap_err();
    assert_eq!(gemini.types().len(), 1);
}

#[tokio::test]
async fn a_chunk_that_stands_still_is_given_up_and_asked_about() {
    let waits = Waits::Short(IDLE, Duration::from_millis(500));
    for act in [Act::HangAfter(1), Act::HangAfter(1_000), Act::SayAndHang(String::new())] {
        let gemini = Gemini::waiting(waits, [act]).await;
        let failed = gemini.upload(&Text::of(CHUNK)).await;
        let Err(UploadError::Gemini(ReadError::NoAnswer(why))) = failed else { panic!("{failed:?}") };
        assert!(why.contains("nothing came or went for 20s"), "{why}");
        assert_eq!(gemini.target.requests().len(), 4);
        assert_eq!(gemini.clock.waited(), [1, 2, 4]);
    }
}

#[tokio::test]
async fn a_slow_upload_is_not_cut_by_the_time_for_a_whole_request() {
    // As with downloads: on this clock only a time-out of the whole request could end it, after 400 ms.
    let timeout = Duration::from_millis(400);
    let Act::Say(end) = ended(9) else { panic!() };
    let (head, rest) = end.split_at(40);
    let slow = Act::SayWithPauses(vec![head.to_owned(), rest.to_owned()], timeout);
    let target = super::Server::start([slow]).await;
    let api = super::Server::start([begun(&target.url(), "")]).await;
    let clock = std::sync::Arc::new(super::parts::TestWaits::of(Waits::Endless(timeout)));
    let client = super::client_within(&api.url(), timeout).with_clock(clock.clone());
    let text = Text::of(9);
    let upload =
        gleaner::ports::batches::Upload { objects: &text, object: "runs/in.jsonl", bytes: 9, display_name: "part" };
    let name = gleaner::ports::batches::Batches::upload(&client, upload).await.unwrap();
    assert_eq!((name.as_str(), clock.waited().len(), target.requests().len()), ("files/abc", 0, 1));
}
