//! What every inbox must do.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use tokio::io::AsyncReadExt;

use super::objects::Counting;
use crate::ports::inbox::{Arrival, Inbox};
use crate::ports::objects::{ObjectError, broke_off};

/// People, who put files into an inbox and take them away again by ways that are not the program's.
#[async_trait]
pub trait People: Send + Sync {
    /// Puts a file in, in place of one of the same name.
    async fn put(&self, name: &str, bytes: Bytes);

    /// Takes one away.
    async fn take_away(&self, name: &str);
}

/// An inbox and its people.
pub type Place = (Arc<dyn Inbox>, Arc<dyn People>);

/// Runs every rule, each on an empty inbox that `make` makes.
pub async fn all(make: impl AsyncFn() -> Place) {
    what_is_put_in_arrives(make().await).await;
    any_name_arrives_but_those_of_folders(make().await).await;
    files_come_by_name_and_no_more_than_asked_for(make().await).await;
    a_file_is_read_as_it_was_put_in(make().await).await;
    what_is_removed_is_gone(make().await).await;
    a_newer_file_is_another_arrival(make().await).await;
    what_people_take_away_is_gone(make().await).await;
    more_than_a_thousand_files_are_listed(make().await).await;
}

async fn list(inbox: &dyn Inbox) -> Vec<Arrival> {
    inbox.list(usize::MAX).await.unwrap()
}

async fn names(inbox: &dyn Inbox) -> Vec<String> {
    list(inbox).await.into_iter().map(|arrival| arrival.name).collect()
}

async fn only_one(inbox: &dyn Inbox) -> Arrival {
    let mut arrivals = list(inbox).await;
    assert_eq!(arrivals.len(), 1, "{arrivals:?}");
    arrivals.remove(0)
}

/// All bytes of an arrival.
async fn read(inbox: &dyn Inbox, arrival: &Arrival) -> Result<Vec<u8>, ObjectError> {
    let mut reader = inbox.open(arrival).await?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.map_err(|error| broke_off("a copy", error))?;
    Ok(bytes)
}

fn assert_gone(outcome: &Result<Vec<u8>, ObjectError>) {
    assert!(matches!(outcome, Err(ObjectError::NotFound(_))), "{outcome:?}");
}

/// With its name and its length, and only once it is there.
pub async fn what_is_put_in_arrives((inbox, people): Place) {
    assert_eq!(list(&*inbox).await, []);
    people.put("jobs.jsonl", Bytes::from_static(b"{\"input\": \"1\"}\n")).await;
    let arrival = only_one(&*inbox).await;
    assert_eq!((arrival.name.as_str(), arrival.bytes), ("jobs.jsonl", 15));
    assert!(!arrival.version.is_empty());
    // Looking changes nothing.
    assert_eq!(list(&*inbox).await, std::slice::from_ref(&arrival));
    assert_eq!(read(&*inbox, &arrival).await.unwrap(), b"{\"input\": \"1\"}\n");
    assert_eq!(list(&*inbox).await, [arrival]);
}

/// Whatever people call their files. What ends in a slash is a folder that a console has made.
pub async fn any_name_arrives_but_those_of_folders((inbox, people): Place) {
    let mut expected = [
        "a b.jsonl",
        " leading and trailing ",
        "日本語 の ファイル.jsonl",
        "é.jsonl",
        "e\u{301}.jsonl",
        "😀",
        "folder/deep er/file.jsonl",
        "plus+percent%20%2B%.jsonl",
        "a&b<c>\"d\"'e'.jsonl",
        "#?=;:@$,!*()[]{}|^~`",
        ".hidden",
        "no-ending",
        "inbox/inbox",
    ];
    expected.sort_unstable();
    for name in expected {
        people.put(name, Bytes::copy_from_slice(name.as_bytes())).await;
    }
    people.put("", Bytes::new()).await;
    people.put("folder/", Bytes::new()).await;
    people.put("not empty/", Bytes::from_static(b"a folder all the same")).await;
    let arrivals = list(&*inbox).await;
    let found: Vec<&str> = arrivals.iter().map(|arrival| arrival.name.as_str()).collect();
    assert_eq!(found, expected);
    for arrival in &arrivals {
        assert_eq!(read(&*inbox, arrival).await.unwrap(), arrival.name.as_bytes(), "{arrival:?}");
        inbox.remove(arrival).await.unwrap();
    }
    assert_eq!(list(&*inbox).await, []);
}

/// In the order of their names.
pub async fn files_come_by_name_and_no_more_than_asked_for((inbox, people): Place) {
    for name in ["c", "a", "e/f", "b", "d"] {
        people.put(name, Bytes::from_static(b"x")).await;
    }
    for (limit, expected) in [(0, 0), (1, 1), (3, 3), (5, 5), (6, 5)] {
        let arrivals = inbox.list(limit).await.unwrap();
        let found: Vec<&str> = arrivals.iter().map(|arrival| arrival.name.as_str()).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e/f"][..expected], "limit {limit}");
    }
}

/// None at all, and more than is held in memory.
pub async fn a_file_is_read_as_it_was_put_in((inbox, people): Place) {
    people.put("empty", Bytes::new()).await;
    let arrival = only_one(&*inbox).await;
    assert_eq!(arrival.bytes, 0);
    assert_eq!(read(&*inbox, &arrival).await.unwrap(), b"");
    inbox.remove(&arrival).await.unwrap();

    let long: Vec<u8> = (0..20_000_003).map(Counting::byte).collect();
    people.put("long", Bytes::copy_from_slice(&long)).await;
    let arrival = only_one(&*inbox).await;
    assert_eq!(arrival.bytes, 20_000_003);
    assert!(read(&*inbox, &arrival).await.unwrap() == long);
}

/// Once or twice, and nothing else is.
pub async fn what_is_removed_is_gone((inbox, people): Place) {
    for name in ["a", "a.b", "b"] {
        people.put(name, Bytes::from_static(b"x")).await;
    }
    let arrivals = list(&*inbox).await;
    let opened = inbox.open(&arrivals[0]).await.unwrap();
    for _ in 0..2 {
        inbox.remove(&arrivals[0]).await.unwrap();
        assert_eq!(list(&*inbox).await, arrivals[1..]);
    }
    assert_gone(&read(&*inbox, &arrivals[0]).await);
    drop(opened);
    // The name can be used again.
    people.put("a", Bytes::from_static(b"y")).await;
    assert_eq!(names(&*inbox).await, ["a", "a.b", "b"]);
    inbox.remove(&arrivals[0]).await.unwrap();
    assert_eq!(names(&*inbox).await, ["a", "a.b", "b"]);
}

/// It is listed in place of the older one, keeps its bytes, and outlives the removal of the older one.
pub async fn a_newer_file_is_another_arrival((inbox, people): Place) {
    people.put("jobs.jsonl", Bytes::from_static(b"older")).await;
    let older = only_one(&*inbox).await;
    people.put("jobs.jsonl", Bytes::from_static(b"newer!")).await;
    let newer = only_one(&*inbox).await;
    assert_ne!(older.version, newer.version);
    assert_eq!(newer.bytes, 6);
    assert_eq!(read(&*inbox, &newer).await.unwrap(), b"newer!");
    match read(&*inbox, &older).await {
        // An inbox that keeps both brings the older one's bytes; any other has none, and never the newer one's.
        Ok(bytes) => assert_eq!(bytes, b"older"),
        gone => assert_gone(&gone),
    }
    inbox.remove(&older).await.unwrap();
    assert_eq!(list(&*inbox).await, std::slice::from_ref(&newer));
    assert_eq!(read(&*inbox, &newer).await.unwrap(), b"newer!");
    inbox.remove(&newer).await.unwrap();
    assert_eq!(list(&*inbox).await, []);
}

/// It is not listed any more, and a file of the same name arrives again.
pub async fn what_people_take_away_is_gone((inbox, people): Place) {
    people.put("a", Bytes::from_static(b"x")).await;
    people.put("b", Bytes::from_static(b"x")).await;
    people.take_away("a").await;
    assert_eq!(names(&*inbox).await, ["b"]);
    people.put("a", Bytes::from_static(b"y")).await;
    let arrivals = list(&*inbox).await;
    assert_eq!(arrivals.len(), 2);
    assert_eq!(read(&*inbox, &arrivals[0]).await.unwrap(), b"y");
}

/// Many services list a thousand at once.
pub async fn more_than_a_thousand_files_are_listed((inbox, people): Place) {
    let expected: Vec<String> = (0..1_020).map(|n| format!("file {n:05}.jsonl")).collect();
    let puts = stream::iter(&expected).map(|name| people.put(name, Bytes::from_static(b"x")));
    puts.buffer_unordered(16).collect::<Vec<()>>().await;
    assert_eq!(names(&*inbox).await, expected);
    let some = inbox.list(1_010).await.unwrap();
    assert_eq!(some.len(), 1_010);
    assert_eq!(some[1_009].name, expected[1_009]);
}
