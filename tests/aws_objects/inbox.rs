//! The inbox where it is more than the port says, and its faults.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gleaner::adapters::aws::s3::{S3Inbox, S3Objects};
use gleaner::ports::conformance::inbox::People as _;
use gleaner::ports::conformance::objects::Counting;
use gleaner::ports::inbox::{Arrival, Inbox};
use gleaner::ports::objects::{ObjectError, Objects, Put};
use tokio::io::AsyncReadExt;

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Verdict};
use super::place::{People, Place, header, operation};

const X: Bytes = Bytes::from_static(b"x");

async fn text(inbox: &S3Inbox, arrival: &Arrival) -> String {
    let mut text = String::new();
    inbox.open(arrival).await.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

async fn only_one(inbox: &S3Inbox) -> Arrival {
    let mut arrivals = inbox.list(10).await.unwrap();
    assert_eq!(arrivals.len(), 1, "{arrivals:?}");
    arrivals.remove(0)
}

#[tokio::test]
async fn an_idle_look_costs_one_request_whatever_was_there_before() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let place = Place::behind_a_proxy(kind).await;
        let (inbox, people) = place.inbox().await;
        for n in 0..20 {
            people.put(&format!("taken away {n}"), X).await;
            people.take_away(&format!("taken away {n}")).await;
            people.put(&format!("taken {n}"), X).await;
            inbox.remove(&only_one(&inbox).await).await.unwrap();
        }
        place.judge(|_| Verdict::Pass);
        assert_eq!(inbox.list(100).await.unwrap(), []);
        assert_eq!(place.operations(), ["list"]);
        // Nothing is left of what was taken; what people have deleted keeps its versions.
        let versions = place.client.list_object_versions().bucket(&people.bucket).send().await.unwrap();
        assert!(versions.versions().iter().all(|version| version.key().unwrap().starts_with("inbox/taken away")));
    }
}

#[tokio::test]
async fn only_the_inbox_is_listed() {
    let place = Place::direct(Kind::Moto).await;
    let (inbox, people) = place.inbox().await;
    let objects = S3Objects::new(place.client.clone(), people.bucket.clone());
    for name in ["results/a.json", "inbox", "inboxes/a", "in", "a/inbox/b"] {
        objects.put(name, X).await.unwrap();
    }
    assert_eq!(inbox.list(10).await.unwrap(), []);
}

/// Two files of one name before anybody looked: neither is dropped.
#[tokio::test]
async fn an_older_version_comes_forward_when_the_newer_one_is_removed() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let place = Place::direct(kind).await;
        let (inbox, people) = place.inbox().await;
        people.put("a", Bytes::from_static(b"first")).await;
        people.put("a", Bytes::from_static(b"second")).await;
        let second = only_one(&inbox).await;
        assert_eq!(text(&inbox, &second).await, "second");
        inbox.remove(&second).await.unwrap();
        let first = only_one(&inbox).await;
        assert_eq!(text(&inbox, &first).await, "first");
        inbox.remove(&first).await.unwrap();
        assert_eq!(inbox.list(10).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_removal_names_its_version_or_its_entity_tag() {
    let place = Place::behind_a_proxy(Kind::Ministack).await;
    let (inbox, people) = place.inbox().await;
    people.put("a b", X).await;
    let arrival = only_one(&inbox).await;
    place.judge(|_| Verdict::Pass);
    inbox.remove(&arrival).await.unwrap();
    let seen = place.seen();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].uri.query().unwrap().contains(&format!("versionId={}", arrival.version)), "{:?}", seen[0].uri);

    let bucket = place.fresh_bucket().await;
    let (inbox, people) = (S3Inbox::new(place.client.clone(), bucket.clone()), People { bucket, ..people });
    people.put("a b", X).await;
    let arrival = only_one(&inbox).await;
    place.judge(|_| Verdict::Pass);
    inbox.remove(&arrival).await.unwrap();
    let seen = place.seen();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].uri.query().unwrap_or_default().contains("versionId"));
    assert_eq!(format!("null:{}", header(&seen[0], "if-match")), arrival.version);
}

/// Moto has no such keys.
#[tokio::test]
async fn a_name_with_control_characters_does_not_stop_the_others() {
    let place = Place::direct(Kind::Ministack).await;
    let (inbox, people) = place.inbox().await;
    let names = ["\u{1}", "line\nbreak", "plain", "tab\t"];
    for name in names {
        people.put(name, X).await;
    }
    let arrivals = inbox.list(10).await.unwrap();
    assert_eq!(arrivals.iter().map(|arrival| arrival.name.as_str()).collect::<Vec<_>>(), names);
    for arrival in arrivals {
        assert_eq!(text(&inbox, &arrival).await, "x");
        inbox.remove(&arrival).await.unwrap();
    }
    assert_eq!(inbox.list(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_file_is_read_on_where_it_broke_and_into_an_object() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let (inbox, people) = place.inbox().await;
    const LENGTH: u64 = 10_000_000;
    people.put("a", (0..LENGTH).map(Counting::byte).collect()).await;
    let arrival = only_one(&inbox).await;
    // Something else is put in while it is read.
    people.put("a", Bytes::from_static(b"newer")).await;
    let cuts = Mutex::new(vec![Verdict::Cut(0), Verdict::Cut(1_000_000), Verdict::Cut(10), Verdict::Cut(2_000_000)]);
    place.judge(move |seen| {
        if operation(seen) == "get" && seen.uri.path().ends_with("inbox/a") {
            cuts.lock().unwrap().pop().unwrap_or(Verdict::Pass)
        } else {
            Verdict::Pass
        }
    });
    let objects = S3Objects::new(place.client.clone(), people.bucket.clone());
    let mut source = inbox.open(&arrival).await.unwrap();
    assert_eq!(objects.put_stream("intakes/a", &mut source).await.unwrap(), Put::Written);
    let reads: Vec<_> = place.seen().into_iter().filter(|seen| seen.uri.path().ends_with("inbox/a")).collect();
    assert!(reads.len() >= 7, "{}", reads.len());
    assert!(reads.iter().all(|seen| seen.uri.query().unwrap().contains(&arrival.version)));
    assert!(objects.get("intakes/a").await.unwrap() == (0..LENGTH).map(Counting::byte).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_read_is_told_as_gone() {
    let place = Place::direct(Kind::Moto).await;
    let (inbox, people) = place.inbox().await;
    people.put("a", vec![7; 9_000_000].into()).await;
    let arrival = only_one(&inbox).await;
    let mut source = inbox.open(&arrival).await.unwrap();
    inbox.remove(&arrival).await.unwrap();
    let objects = S3Objects::new(place.client.clone(), people.bucket.clone());
    let error = objects.put_stream("copy", &mut source).await.unwrap_err();
    assert!(matches!(&error, ObjectError::NotFound(name) if name == "inbox/a"), "{error}");
    assert_eq!(objects.size("copy").await.unwrap(), None);
}

#[tokio::test]
async fn a_file_that_goes_away_while_others_are_listed_is_left_out() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let (inbox, people) = place.inbox().await;
    for name in ["a", "b", "c"] {
        people.put(name, X).await;
    }
    place.judge(|seen| match seen.uri.path() {
        path if path.ends_with("/b") => Verdict::Answer(Answer::s3_error(404, "NoSuchKey")),
        _ => Verdict::Pass,
    });
    let names: Vec<String> = inbox.list(2).await.unwrap().into_iter().map(|arrival| arrival.name).collect();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_does_not_hold_up_the_others() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let (inbox, people) = place.inbox().await;
    for name in ["a", "b", "c"] {
        people.put(name, X).await;
    }
    let only =
        |name: &'static str, answer: Answer| {
            let path = format!("/{}/inbox/{name}", people.bucket);
            place.judge(move |seen| {
                if seen.uri.path().starts_with(&path) { Verdict::Answer(answer.clone()) } else { Verdict::Pass }
            });
        };
    only("a", Answer::s3_error(403, "AccessDenied"));
    let names: Vec<String> = inbox.list(2).await.unwrap().into_iter().map(|arrival| arrival.name).collect();
    assert_eq!(names, ["b", "c"]);
    // When it is alone, or when all are so, that is told.
    only("", Answer::s3_error(403, "InvalidObjectState"));
    let error = inbox.list(2).await.unwrap_err();
    assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("archive")), "{error}");
    // What passes by itself is waited for.
    only("a", Answer::s3_error(503, "SlowDown"));
    assert!(matches!(inbox.list(2).await, Err(ObjectError::Busy(_))));
}

#[tokio::test]
async fn a_removal_that_others_hinder_is_tried_again() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let bucket = place.fresh_bucket().await;
    let (inbox, people) =
        (S3Inbox::new(place.client.clone(), bucket.clone()), People { client: place.client.clone(), bucket });
    people.put("a", X).await;
    let arrival = only_one(&inbox).await;
    let conflicts = Arc::new(Mutex::new(2));
    place.judge(move |seen| {
        let mut left = conflicts.lock().unwrap();
        if operation(seen) == "delete" && *left > 0 {
            *left -= 1;
            return Verdict::Answer(Answer::s3_error(409, "ConditionalRequestConflict"));
        }
        Verdict::Pass
    });
    inbox.remove(&arrival).await.unwrap();
    assert_eq!(place.operations(), ["delete"; 3]);
    assert_eq!(inbox.list(10).await.unwrap(), []);
    place.judge(|_| Verdict::Answer(Answer::s3_error(409, "OperationAborted")));
    assert!(matches!(inbox.remove(&arrival).await, Err(ObjectError::Busy(_))));
}

#[tokio::test]
async fn a_missing_bucket_is_a_persons_matter_in_every_call() {
    let place = Place::direct(Kind::Ministack).await;
    let inbox = S3Inbox::new(place.client.clone(), "never-made".to_owned());
    for version in ["7d0c", "null:\"7d0c\""] {
        let arrival = Arrival { name: "a".to_owned(), version: version.to_owned(), bytes: 1 };
        let errors = [
            inbox.list(1).await.unwrap_err(),
            inbox.open(&arrival).await.map(drop).unwrap_err(),
            inbox.remove(&arrival).await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("create the bucket")), "{error}");
        }
    }
}
