//! Streams that go in parts, with faults.

use std::io;

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use gleaner::adapters::aws::s3::S3Objects;
use gleaner::ports::conformance::objects::Counting;
use gleaner::ports::objects::{ObjectError, Objects, Put};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Seen, Verdict};
use super::place::{Place, header, operation};

/// Three parts.
const LENGTH: u64 = 20 << 20;

struct Store {
    place: Place,
    bucket: String,
    objects: S3Objects,
}

async fn store(kind: Kind) -> Store {
    let place = Place::behind_a_proxy(kind).await;
    let bucket = place.fresh_bucket().await;
    let objects = S3Objects::new(place.client.clone(), bucket.clone());
    place.judge(|_| Verdict::Pass);
    Store { place, bucket, objects }
}

impl Store {
    async fn stream(&self, name: &str) -> Result<Put, ObjectError> {
        self.objects.put_stream(name, &mut Counting::up_to(LENGTH)).await
    }

    /// Judges requests of one kind so, one after the other, and lets everything else pass.
    fn judge(&self, kind: &'static str, verdicts: Vec<Verdict>) {
        let mut verdicts = verdicts.into_iter();
        self.place.judge(move |seen| {
            if operation(seen) == kind { verdicts.next().unwrap_or(Verdict::Pass) } else { Verdict::Pass }
        });
    }

    fn judge_always(&self, kind: &'static str, verdict: impl Fn() -> Verdict + Send + 'static) {
        self.place.judge(move |seen| if operation(seen) == kind { verdict() } else { Verdict::Pass });
    }

    async fn uploads(&self) -> usize {
        let listed = self.place.client.list_multipart_uploads().bucket(&self.bucket).send().await.unwrap();
        listed.uploads().len()
    }

    /// Nothing under the name, and no parts that somebody pays for.
    async fn assert_nothing(&self, name: &str) {
        self.place.judge(|_| Verdict::Pass);
        assert_eq!(self.objects.size(name).await.unwrap(), None);
        assert_eq!(self.uploads().await, 0);
    }

    async fn assert_whole(&self, name: &str) {
        self.place.judge(|_| Verdict::Pass);
        assert_eq!(self.objects.size(name).await.unwrap(), Some(LENGTH));
        let bytes = self.objects.get(name).await.unwrap();
        assert!(bytes == (0..LENGTH).map(Counting::byte).collect::<Vec<_>>());
        assert_eq!(self.uploads().await, 0);
    }
}

fn error(status: u16, code: &'static str) -> Verdict {
    Verdict::Answer(Answer::s3_error(status, code))
}

fn but_done(status: u16, code: &'static str) -> Verdict {
    Verdict::After(Box::new(move |_| Answer::s3_error(status, code)))
}

fn count(operations: &[&str], kind: &str) -> usize {
    operations.iter().filter(|operation| **operation == kind).count()
}

#[tokio::test]
async fn a_long_stream_goes_in_parts_and_appears_at_once() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let store = store(kind).await;
        assert_eq!(store.stream("intakes/a.jsonl").await.unwrap(), Put::Written);
        let seen = store.place.seen();
        let operations: Vec<_> = seen.iter().map(operation).collect();
        assert_eq!(operations, ["get", "create", "part", "part", "part", "complete"]);
        assert_eq!(header(&seen[1], "x-amz-meta-gleaner-put").len(), 32);
        assert!(seen[2..5].iter().all(|part| !header(part, "x-amz-checksum-crc32").is_empty()));
        assert_eq!(header(&seen[5], "if-none-match"), "*");
        let completed = String::from_utf8(seen[5].body.to_vec()).unwrap();
        assert_eq!(completed.matches("<ChecksumCRC32>").count(), 3, "{completed}");
        store.assert_whole("intakes/a.jsonl").await;
    }
}

#[tokio::test]
async fn a_stream_that_fits_is_one_put() {
    let store = store(Kind::Moto).await;
    for (name, length, operations) in [
        ("empty", 0, vec!["put"]),
        ("short", (8 << 20) - 1, vec!["put"]),
        ("a part", 8 << 20, vec!["get", "create", "part", "complete"]),
        ("more", (8 << 20) + 1, vec!["get", "create", "part", "part", "complete"]),
    ] {
        let name = name.replace(' ', "-");
        let put = store.objects.put_stream(&name, &mut Counting::up_to(length)).await.unwrap();
        assert_eq!(put, Put::Written);
        assert_eq!(store.place.operations(), operations);
        assert_eq!(store.objects.size(&name).await.unwrap(), Some(length));
        store.place.judge(|_| Verdict::Pass);
    }
}

#[tokio::test]
async fn what_is_there_already_is_not_sent_again() {
    let store = store(Kind::Moto).await;
    store.objects.put("a", Bytes::from_static(b"first")).await.unwrap();
    store.place.judge(|_| Verdict::Pass);
    let mut source = Counting::up_to(LENGTH);
    assert_eq!(store.objects.put_stream("a", &mut source).await.unwrap(), Put::AlreadyThere);
    assert_eq!(store.place.operations(), ["get"]);
    let mut rest = Vec::new();
    source.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest.len() as u64, LENGTH - (8 << 20));
}

#[tokio::test]
async fn a_part_that_never_goes_through_leaves_nothing() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let store = store(kind).await;
        store.place.judge(|seen| match seen.uri.query() {
            Some(query) if query.contains("partNumber=2") => error(500, "InternalError"),
            _ => Verdict::Pass,
        });
        let failed = store.stream("a").await.unwrap_err();
        assert!(matches!(&failed, ObjectError::Busy(why) if why.contains("part 2 of")), "{failed}");
        let operations = store.place.operations();
        assert_eq!((count(&operations, "abort"), count(&operations, "complete")), (1, 0), "{operations:?}");
        store.assert_nothing("a").await;
        // The same call may be made again.
        assert_eq!(store.stream("a").await.unwrap(), Put::Written);
        store.assert_whole("a").await;
    }
}

#[tokio::test]
async fn a_part_that_goes_through_late_is_only_later() {
    let store = store(Kind::Moto).await;
    store.judge("part", vec![error(503, "SlowDown"), Verdict::Pass, but_done(500, "InternalError"), Verdict::Break]);
    assert_eq!(store.stream("a").await.unwrap(), Put::Written);
    assert_eq!(count(&store.place.operations(), "part"), 6);
    store.assert_whole("a").await;
}

#[tokio::test]
async fn a_source_that_breaks_late_leaves_no_parts_and_its_own_error_comes_back() {
    let store = store(Kind::Moto).await;
    let broken = io::Error::new(io::ErrorKind::ConnectionReset, "the cable is cut");
    let mut source = Counting::up_to(LENGTH).chain(Failing(Some(broken)));
    let failed = store.objects.put_stream("a", &mut source).await.unwrap_err();
    assert!(matches!(&failed, ObjectError::Busy(why) if why.contains("the cable")), "{failed}");
    assert_eq!(count(&store.place.operations(), "abort"), 1);
    store.assert_nothing("a").await;

    for length in [0, LENGTH] {
        let carried = io::Error::other(ObjectError::NotFound("inbox/b".to_owned()));
        let mut source = Counting::up_to(length).chain(Failing(Some(carried)));
        let failed = store.objects.put_stream("a", &mut source).await.unwrap_err();
        assert!(matches!(&failed, ObjectError::NotFound(name) if name == "inbox/b"), "{failed}");
        store.assert_nothing("a").await;
    }
}

struct Failing(Option<io::Error>);

impl AsyncRead for Failing {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(self.0.take().map_or(Ok(()), Err))
    }
}

#[tokio::test]
async fn an_upload_that_was_completed_and_reported_as_failed_is_known_again() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let store = store(kind).await;
        let gone = || error(404, "NoSuchUpload");
        for (n, verdicts) in [
            vec![but_done(500, "InternalError")],
            vec![but_done(500, "InternalError"), gone()],
            vec![Verdict::Break, gone()],
            // S3 sends its 200 before it knows how it ends.
            vec![but_done(200, "InternalError"), gone()],
            vec![but_done(200, "InternalError"), error(412, "PreconditionFailed")],
            vec![but_done(409, "ConditionalRequestConflict")],
            vec![but_done(403, "AccessDenied")],
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{kind:?}/{n}");
            store.judge("complete", verdicts);
            assert_eq!(store.stream(&name).await.unwrap(), Put::Written, "{name}");
            assert_eq!(count(&store.place.operations(), "abort"), 0);
            store.assert_whole(&name).await;
        }
    }
}

#[tokio::test]
async fn an_upload_that_others_were_faster_than_is_given_back() {
    let store = store(Kind::Ministack).await;
    let (client, bucket) = (store.place.client.clone(), store.bucket.clone());
    let mut source = Counting::up_to(LENGTH).chain(Meanwhile(Box::pin(async move {
        let request = client.put_object().bucket(bucket).key("a").body(ByteStream::from_static(b"theirs"));
        request.send().await.unwrap();
    })));
    assert_eq!(store.objects.put_stream("a", &mut source).await.unwrap(), Put::AlreadyThere);
    assert_eq!(count(&store.place.operations(), "abort"), 1);
    assert_eq!(store.objects.get("a").await.unwrap(), "theirs");
    assert_eq!(store.uploads().await, 0);
}

/// Ends after something has happened.
struct Meanwhile(futures::future::BoxFuture<'static, ()>);

impl AsyncRead for Meanwhile {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        self.0.as_mut().poll(context).map(Ok)
    }
}

#[tokio::test]
async fn a_conflict_at_the_end_is_tried_again_and_told_when_it_stays() {
    let store = store(Kind::Moto).await;
    store.judge("complete", vec![error(409, "ConditionalRequestConflict")]);
    assert_eq!(store.stream("a").await.unwrap(), Put::Written);
    assert_eq!(count(&store.place.operations(), "complete"), 2);
    store.assert_whole("a").await;

    store.judge_always("complete", || error(409, "ConditionalRequestConflict"));
    let failed = store.stream("b").await.unwrap_err();
    assert!(matches!(&failed, ObjectError::Busy(why) if why.contains("under way")), "{failed}");
    let operations = store.place.operations();
    assert_eq!((count(&operations, "complete"), count(&operations, "abort")), (5, 1));
    store.assert_nothing("b").await;
}

#[tokio::test]
async fn an_end_that_fails_for_good_leaves_nothing() {
    let store = store(Kind::Moto).await;
    store.judge_always("complete", || error(503, "SlowDown"));
    assert!(matches!(store.stream("a").await, Err(ObjectError::Busy(_))));
    store.assert_nothing("a").await;
    store.judge_always("complete", || error(403, "AccessDenied"));
    assert!(matches!(store.stream("a").await, Err(ObjectError::NeedsPerson(_))));
    store.assert_nothing("a").await;
    // Somebody, or a lifecycle rule, has removed the parts.
    store.judge_always("complete", || error(404, "NoSuchUpload"));
    let failed = store.stream("a").await.unwrap_err();
    assert!(matches!(&failed, ObjectError::Busy(why) if why.contains("the upload is gone")), "{failed}");
    store.assert_nothing("a").await;
}

#[tokio::test]
async fn an_abort_that_fails_does_not_hide_why() {
    let store = store(Kind::Moto).await;
    store.place.judge(|seen: &Seen| match operation(seen) {
        "part" => error(403, "AccessDenied"),
        "abort" => error(503, "SlowDown"),
        _ => Verdict::Pass,
    });
    let failed = store.stream("a").await.unwrap_err();
    assert!(matches!(&failed, ObjectError::NeedsPerson(why) if why.contains("AccessDenied")), "{failed}");
    store.place.judge(|_| Verdict::Pass);
    assert_eq!(store.uploads().await, 1);
    assert_eq!(store.objects.size("a").await.unwrap(), None);
}

#[tokio::test]
async fn an_upload_that_cannot_begin_is_told() {
    let store = store(Kind::Moto).await;
    store.judge_always("create", || error(403, "AccessDenied"));
    assert!(matches!(store.stream("a").await, Err(ObjectError::NeedsPerson(_))));
    let operations = store.place.operations();
    assert_eq!((count(&operations, "part"), count(&operations, "abort")), (0, 0));
}
