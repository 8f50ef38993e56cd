//! Reads that break.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use gleaner::ports::conformance::objects::Counting;
use gleaner::ports::objects::{ObjectError, Objects};

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Seen, Verdict};
use super::place::{Place, header, operation};

const LENGTH: u64 = 100_000;

fn bytes(range: std::ops::Range<u64>) -> Vec<u8> {
    range.map(Counting::byte).collect()
}

/// A store with one object of [`LENGTH`] bytes that tell their places.
async fn place() -> (Place, impl Objects) {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let objects = place.objects().await;
    objects.put("a", bytes(0..LENGTH).into()).await.unwrap();
    (place, objects)
}

/// Judges the reads so, one after the other, and lets everything else pass.
fn reads(verdicts: Vec<Verdict>) -> impl FnMut(&Seen) -> Verdict + Send + 'static {
    let mut verdicts = verdicts.into_iter();
    move |seen| if operation(seen) == "get" { verdicts.next().unwrap_or(Verdict::Pass) } else { Verdict::Pass }
}

fn ranges(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| header(seen, "range")).collect()
}

#[tokio::test]
async fn a_read_that_is_cut_off_goes_on_where_it_broke() {
    let (place, objects) = place().await;
    place.judge(reads(vec![Verdict::Cut(10_000), Verdict::Cut(1), Verdict::Cut(0), Verdict::Cut(0)]));
    assert!(objects.read("a", 500..60_500).await.unwrap() == bytes(500..60_500));
    let seen = place.seen();
    let expected = ["500-60499", "10500-60499", "10501-60499", "10501-60499", "10501-60499"];
    assert_eq!(ranges(&seen), expected.map(|range| format!("bytes={range}")));
    // Only from the object that it began with.
    assert_eq!(header(&seen[0], "if-match"), "");
    assert!(seen[1..].iter().all(|seen| header(seen, "if-match").len() > 10));
}

#[tokio::test]
async fn a_whole_object_is_gone_on_with_too() {
    let (place, objects) = place().await;
    place.judge(reads(vec![Verdict::Cut(99_999)]));
    assert!(objects.get("a").await.unwrap() == bytes(0..LENGTH));
    assert_eq!(ranges(&place.seen()), ["", "bytes=99999-"]);
}

#[tokio::test]
async fn a_read_gets_to_its_end_however_often_it_breaks_and_ends_when_nothing_comes() {
    let (place, objects) = place().await;
    place.judge(|_| Verdict::Cut(10_000));
    assert!(objects.read("a", 0..100_000).await.unwrap() == bytes(0..LENGTH));
    assert_eq!(place.seen().len(), 10);

    place.judge(|_| Verdict::Cut(0));
    let error = objects.read("a", 0..100_000).await.unwrap_err();
    assert!(matches!(&error, ObjectError::Busy(why) if why.contains("/a")), "{error}");
    assert_eq!(place.seen().len(), 5);
}

#[tokio::test]
async fn what_took_the_place_of_an_object_is_not_mixed_with_it() {
    let (place, objects) = place().await;
    let changed = || Verdict::Answer(Answer::s3_error(412, "PreconditionFailed"));
    place.judge(reads(vec![Verdict::Cut(10_000), changed()]));
    assert!(objects.read("a", 0..100_000).await.unwrap() == bytes(0..LENGTH));
    assert_eq!(ranges(&place.seen()), ["bytes=0-99999", "bytes=10000-99999", "bytes=0-99999"]);
    let gone = Verdict::Answer(Answer::s3_error(404, "NoSuchKey"));
    place.judge(reads(vec![Verdict::Cut(10_000), gone]));
    assert!(matches!(objects.read("a", 0..100_000).await, Err(ObjectError::NotFound(_))));
}

/// Moto sends back the checksum that came with the object, as S3 does.
#[tokio::test]
async fn a_whole_object_that_came_damaged_is_read_again() {
    let (place, objects) = place().await;
    let damaged = || {
        Verdict::After(Box::new(|answer: Answer| {
            let mut bytes = answer.body.to_vec();
            bytes[50_000] ^= 1;
            Answer { body: bytes.into(), ..answer }
        }))
    };
    place.judge(reads(vec![damaged(), damaged()]));
    assert!(objects.get("a").await.unwrap() == bytes(0..LENGTH));
    assert_eq!(ranges(&place.seen()), ["", "", ""]);

    place.judge(move |_| damaged());
    let error = objects.get("a").await.unwrap_err();
    assert!(matches!(&error, ObjectError::Busy(why) if why.contains("checksum")), "{error}");
}

#[tokio::test]
async fn an_answer_with_other_bytes_than_asked_for_is_not_believed() {
    let (place, objects) = place().await;
    let with_range = |range: Option<&'static str>| {
        Verdict::After(Box::new(move |mut answer: Answer| {
            answer.headers.remove("content-range");
            if let Some(range) = range {
                answer.headers.insert("content-range", range.parse().unwrap());
            }
            answer
        }))
    };
    for range in [Some("bytes 0-9/100000"), Some("bytes 11-20/100000"), Some("pages 1-2")] {
        place.judge(move |_| with_range(range));
        let error = objects.read("a", 10..20).await.unwrap_err();
        assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("AWS_ENDPOINT_URL")), "{error}");
    }
}

/// As ministack does when a version is asked for, and as HTTP allows.
#[tokio::test]
async fn a_server_that_ignores_ranges_is_read_all_the_same() {
    let (place, objects) = place().await;
    let whole: Bytes = bytes(0..LENGTH).into();
    place.judge(move |_| {
        let mut answer = Answer::new(200, "binary/octet-stream", String::new());
        answer.headers.insert("etag", "\"7d0c\"".parse().unwrap());
        Verdict::Answer(Answer { body: whole.clone(), ..answer })
    });
    for range in [0..10, 10..20, 50_000..100_000, 99_999..u64::MAX] {
        let end = range.end.min(LENGTH);
        assert!(objects.read("a", range.clone()).await.unwrap() == bytes(range.start..end), "{range:?}");
    }
    assert_eq!(objects.read("a", 100_000..100_001).await.unwrap(), "");
}

#[tokio::test]
async fn a_length_costs_one_request() {
    let (place, objects) = place().await;
    place.judge(|_| Verdict::Pass);
    assert_eq!(objects.size("a").await.unwrap(), Some(LENGTH));
    assert_eq!(objects.size("b").await.unwrap(), None);
    assert_eq!(place.operations(), ["get", "get"]);
    objects.put("empty", Bytes::new()).await.unwrap();
    place.judge(|_| Verdict::Pass);
    assert_eq!(objects.size("empty").await.unwrap(), Some(0));
    assert_eq!(place.operations(), ["get", "head"]);
}

#[tokio::test]
async fn many_readers_share_a_client() {
    let (_place, objects) = place().await;
    let at = AtomicU64::new(0);
    let readers = (0..20).map(|_| async {
        let from = at.fetch_add(5_000, Ordering::Relaxed);
        assert!(objects.read("a", from..from + 5_000).await.unwrap() == bytes(from..from + 5_000));
    });
    futures::future::join_all(readers).await;
}
