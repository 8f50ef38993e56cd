//! What every store of objects must do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::join_all;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::ports::objects::{ObjectError, Objects, Put};

/// Runs every rule, each on an empty store that `make` makes.
pub async fn all<T: Objects + 'static>(make: impl AsyncFn() -> T) {
    let make = async || -> Arc<T> { Arc::new(make().await) };
    an_object_comes_back_as_it_was_written(make().await).await;
    an_object_is_never_replaced(make().await).await;
    ranges_end_where_the_object_ends(make().await).await;
    what_is_not_there_is_not_found(make().await).await;
    a_name_may_have_folders(make().await).await;
    other_names_are_refused(make().await).await;
    one_of_many_writers_wins(make().await).await;
    a_stream_becomes_an_object(make().await).await;
    a_stream_that_breaks_leaves_nothing(make().await).await;
    a_streams_own_error_comes_back(make().await).await;
    a_long_stream_is_read_in_pieces(make().await).await;
}

async fn put(objects: &dyn Objects, name: &str, bytes: &'static [u8]) -> Put {
    objects.put(name, Bytes::from_static(bytes)).await.unwrap()
}

fn assert_not_found<T: std::fmt::Debug>(outcome: Result<T, ObjectError>, name: &str) {
    assert!(matches!(&outcome, Err(ObjectError::NotFound(missing)) if missing == name), "{outcome:?}");
}

async fn assert_nothing_under(objects: &dyn Objects, name: &str) {
    assert_eq!(objects.size(name).await.unwrap(), None, "{name}");
    assert_not_found(objects.get(name).await, name);
    assert_not_found(objects.read(name, 0..10).await, name);
}

/// Any bytes, none at all too.
pub async fn an_object_comes_back_as_it_was_written(objects: Arc<dyn Objects>) {
    for (name, bytes) in [("empty", &b""[..]), ("text", "{\"値\":1}\n".as_bytes()), ("bytes", &[0, 255, 10, 13, 0])] {
        assert_eq!(objects.put(name, Bytes::copy_from_slice(bytes)).await.unwrap(), Put::Written);
        assert_eq!(objects.get(name).await.unwrap(), bytes);
        assert_eq!(objects.size(name).await.unwrap(), Some(bytes.len() as u64));
    }
}

/// A second write under a name leaves the first one's bytes, and says so; a stream too.
pub async fn an_object_is_never_replaced(objects: Arc<dyn Objects>) {
    assert_eq!(put(&*objects, "results/a.json", b"first").await, Put::Written);
    assert_eq!(put(&*objects, "results/a.json", b"second, longer").await, Put::AlreadyThere);
    let again = objects.put_stream("results/a.json", &mut &b"third"[..]).await.unwrap();
    assert_eq!(again, Put::AlreadyThere);
    assert_eq!(objects.get("results/a.json").await.unwrap(), &b"first"[..]);
}

/// A range brings the bytes that exist.
pub async fn ranges_end_where_the_object_ends(objects: Arc<dyn Objects>) {
    put(&*objects, "digits", b"0123456789").await;
    for (range, bytes) in [
        (0..10, "0123456789"),
        (3..7, "3456"),
        (9..10, "9"),
        (8..15, "89"),
        (0..u64::MAX, "0123456789"),
        (10..20, ""),
        (u64::MAX - 1..u64::MAX, ""),
        (4..4, ""),
    ] {
        assert_eq!(objects.read("digits", range.clone()).await.unwrap(), bytes, "{range:?}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a caller's slip, which must not read or break anything")]
    let backwards = 7..3;
    assert_eq!(objects.read("digits", backwards).await.unwrap(), "");
}

/// A name without an object, and a name that is but a folder of others.
pub async fn what_is_not_there_is_not_found(objects: Arc<dyn Objects>) {
    assert_nothing_under(&*objects, "results/missing.json").await;
    put(&*objects, "results/run/part.jsonl", b"a row").await;
    for name in ["results/run", "results", "results/run/part.jsonl/deeper", "results/run/part"] {
        assert_nothing_under(&*objects, name).await;
    }
}

/// Parts may be many, long, and begin with a dot or a dash.
pub async fn a_name_may_have_folders(objects: Arc<dyn Objects>) {
    let long = "x".repeat(200);
    for name in ["a/b/c/d/e/f", ".hidden/-dash", "A-Z_a-z.0-9", long.as_str(), "...", "a/..b/c.."] {
        assert_eq!(put(&*objects, name, b"here").await, Put::Written, "{name}");
        assert_eq!(objects.get(name).await.unwrap(), &b"here"[..], "{name}");
    }
}

/// A name that isn't one is an error in every call, and reaches nothing.
pub async fn other_names_are_refused(objects: Arc<dyn Objects>) {
    put(&*objects, "real", b"here").await;
    for name in [
        "",
        "/",
        "/etc/passwd",
        "a//b",
        "a/",
        "/a",
        ".",
        "..",
        "../real",
        "a/../real",
        "./real",
        "a/./b",
        "a b",
        "a\\b",
        "C:real",
        "ä",
        "日本",
        "a\0b",
        "a\nb",
        "a*",
        "real/..",
    ] {
        let refused = |outcome: Result<(), ObjectError>| {
            assert!(matches!(outcome, Err(ObjectError::NeedsPerson(_))), "{name:?}: {outcome:?}");
        };
        refused(objects.put(name, Bytes::from_static(b"x")).await.map(drop));
        refused(objects.put_stream(name, &mut &b"x"[..]).await.map(drop));
        refused(objects.get(name).await.map(drop));
        refused(objects.read(name, 0..1).await.map(drop));
        refused(objects.size(name).await.map(drop));
    }
}

/// Of many who write one name, exactly one wins, and all bytes are its own.
pub async fn one_of_many_writers_wins(objects: Arc<dyn Objects>) {
    for round in 0..20 {
        let name = format!("contested/{round}");
        let writers = (0..8_u8).map(|writer| {
            let (objects, name) = (Arc::clone(&objects), name.clone());
            tokio::spawn(async move {
                let bytes = vec![writer; 10_000 + usize::from(writer)];
                let put = if writer % 2 == 0 {
                    objects.put(&name, bytes.into()).await
                } else {
                    objects.put_stream(&name, &mut bytes.as_slice()).await
                };
                (writer, put.unwrap())
            })
        });
        let outcomes: Vec<_> = join_all(writers).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<_> = outcomes.iter().filter(|(_, put)| *put == Put::Written).collect();
        assert_eq!(winners.len(), 1, "round {round}: {outcomes:?}");
        let winner = winners[0].0;
        assert_eq!(objects.get(&name).await.unwrap(), vec![winner; 10_000 + usize::from(winner)]);
    }
}

/// A stream's bytes in their order, none at all too.
pub async fn a_stream_becomes_an_object(objects: Arc<dyn Objects>) {
    assert_eq!(objects.put_stream("empty", &mut tokio::io::empty()).await.unwrap(), Put::Written);
    assert_eq!(objects.size("empty").await.unwrap(), Some(0));
    let mut source = Counting::up_to(100_003);
    assert_eq!(objects.put_stream("counted", &mut source).await.unwrap(), Put::Written);
    let expected: Vec<u8> = (0..100_003).map(Counting::byte).collect();
    assert!(objects.get("counted").await.unwrap() == expected);
}

/// A stream that fails, at once or late, leaves nothing under the name, which can then be written.
pub async fn a_stream_that_breaks_leaves_nothing(objects: Arc<dyn Objects>) {
    for good in [0, 1, 3_000_000] {
        let name = format!("broken/{good}");
        let cut = io::Error::new(io::ErrorKind::ConnectionReset, "the cable is cut");
        let mut source = Counting::up_to(good).chain(Failing(Some(cut)));
        let outcome = objects.put_stream(&name, &mut source).await;
        assert!(matches!(&outcome, Err(ObjectError::Busy(why)) if why.contains("the cable")), "{outcome:?}");
        assert_nothing_under(&*objects, &name).await;
        assert_eq!(put(&*objects, &name, b"whole").await, Put::Written);
        assert_eq!(objects.get(&name).await.unwrap(), &b"whole"[..]);
    }
}

/// What the source says about what can be done is not lost on the way.
pub async fn a_streams_own_error_comes_back(objects: Arc<dyn Objects>) {
    for good in [0, 3_000_000] {
        let carry = |error| Counting::up_to(good).chain(Failing(Some(io::Error::other(error))));
        let mut source = carry(ObjectError::NotFound("inbox/a.jsonl".to_owned()));
        assert_not_found(objects.put_stream("copy", &mut source).await, "inbox/a.jsonl");
        let mut source = carry(ObjectError::NeedsPerson("ask Ann".to_owned()));
        let outcome = objects.put_stream("copy", &mut source).await;
        assert!(matches!(&outcome, Err(ObjectError::NeedsPerson(why)) if why == "ask Ann"), "{outcome:?}");
        assert_nothing_under(&*objects, "copy").await;
    }
}

/// A stream is never asked for more than a few MB at once, and comes out right at every place.
///
/// What a store holds in memory beyond that can only be seen from outside of it, by the adapter's own test.
pub async fn a_long_stream_is_read_in_pieces(objects: Arc<dyn Objects>) {
    const LENGTH: u64 = 48 << 20;
    let mut source = Counting::up_to(LENGTH);
    assert_eq!(objects.put_stream("long", &mut source).await.unwrap(), Put::Written);
    assert!(source.asked <= 8 << 20, "asked for {} bytes at once", source.asked);
    assert_eq!(objects.size("long").await.unwrap(), Some(LENGTH));
    for at in [0, 12_345_678, LENGTH - 1000] {
        let piece = objects.read("long", at..at + 1000).await.unwrap();
        assert!(piece == (at..at + 1000).map(Counting::byte).collect::<Vec<_>>(), "at {at}");
    }
}

/// A source of bytes that tell their place.
#[derive(Debug)]
pub struct Counting {
    at: u64,
    end: u64,
    /// The most bytes that it was asked for at once.
    pub asked: usize,
}

impl Counting {
    /// That many bytes.
    #[must_use]
    pub const fn up_to(end: u64) -> Self {
        Self { at: 0, end, asked: 0 }
    }

    /// The byte at a place.
    #[must_use]
    pub const fn byte(at: u64) -> u8 {
        // 251 is prime, so that pieces of any usual length that change places are seen.
        (at % 251) as u8
    }
}

impl AsyncRead for Counting {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.asked = self.asked.max(buffer.remaining());
        // Pieces of uneven length, as a network brings them.
        let length = (buffer.remaining() as u64).min(self.end - self.at).min(70_001);
        let bytes: Vec<u8> = (self.at..self.at + length).map(Self::byte).collect();
        buffer.put_slice(&bytes);
        self.at += length;
        Poll::Ready(Ok(()))
    }
}

/// A source that breaks at once.
struct Failing(Option<io::Error>);

impl AsyncRead for Failing {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.take().map_or(Ok(()), Err))
    }
}
