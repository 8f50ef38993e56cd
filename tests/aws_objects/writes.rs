//! Writes in one request, with faults.

use aws_config::profile::ProfileFileCredentialsProvider;
use aws_sdk_s3::config::SharedCredentialsProvider;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use gleaner::adapters::aws::s3::{self, S3Objects};
use gleaner::adapters::aws::tuned;
use gleaner::ports::objects::{ObjectError, Objects, Put};

use super::emulator::proxy::{Answer, Seen, Verdict};
use super::emulator::{self, Kind};
use super::place::{Place, header, operation};

const OWN: Bytes = Bytes::from_static(b"own");

/// Judges the first puts so, one after the other, and lets everything else pass.
fn first_puts(verdicts: Vec<Verdict>) -> impl FnMut(&Seen) -> Verdict + Send + 'static {
    let mut verdicts = verdicts.into_iter();
    move |seen| if operation(seen) == "put" { verdicts.next().unwrap_or(Verdict::Pass) } else { Verdict::Pass }
}

fn conflict() -> Verdict {
    Verdict::Answer(Answer::s3_error(409, "ConditionalRequestConflict"))
}

fn failed_but_done() -> Verdict {
    Verdict::After(Box::new(|_| Answer::s3_error(500, "InternalError")))
}

async fn both() -> [Place; 2] {
    [Place::behind_a_proxy(Kind::Ministack).await, Place::behind_a_proxy(Kind::Moto).await]
}

#[tokio::test]
async fn a_write_is_conditional_and_carries_its_own_token_and_a_checksum() {
    let place = Place::behind_a_proxy(Kind::Ministack).await;
    let objects = place.objects().await;
    place.judge(|_| Verdict::Pass);
    for name in ["a", "b"] {
        assert_eq!(objects.put(name, OWN).await.unwrap(), Put::Written);
    }
    let seen = place.seen();
    assert_eq!(seen.len(), 2);
    for request in &seen {
        assert_eq!(header(request, "if-none-match"), "*");
        assert_eq!(header(request, "x-amz-meta-gleaner-put").len(), 32);
        assert!(!header(request, "x-amz-checksum-crc32").is_empty(), "{:?}", request.headers);
    }
    assert_ne!(header(&seen[0], "x-amz-meta-gleaner-put"), header(&seen[1], "x-amz-meta-gleaner-put"));
}

#[tokio::test]
async fn a_conflict_is_tried_again_and_judged_anew() {
    let place = Place::behind_a_proxy(Kind::Ministack).await;
    let objects = place.objects().await;
    place.judge(first_puts(vec![conflict(), conflict()]));
    assert_eq!(objects.put("a", OWN).await.unwrap(), Put::Written);
    assert_eq!(place.operations(), ["put"; 3]);

    // The other write, which was under way, has won by the second try.
    place.judge(first_puts(vec![conflict()]));
    assert_eq!(objects.put("a", Bytes::from_static(b"late")).await.unwrap(), Put::AlreadyThere);
    assert_eq!(place.operations(), ["put", "put", "get"]);
    assert_eq!(objects.get("a").await.unwrap(), OWN);

    place.judge(|seen| if operation(seen) == "put" { conflict() } else { Verdict::Pass });
    let error = objects.put("b", OWN).await.unwrap_err();
    assert!(matches!(&error, ObjectError::Busy(why) if why.contains("another write of it is under way")), "{error}");
    assert_eq!(place.operations(), ["put"; 5]);
}

#[tokio::test]
async fn a_write_that_was_done_and_reported_as_failed_is_known_again() {
    for place in both().await {
        let objects = place.objects().await;
        for (n, fault) in [failed_but_done(), Verdict::Break].into_iter().enumerate() {
            let name = format!("results/{n}.json");
            place.judge(first_puts(vec![fault]));
            assert_eq!(objects.put(&name, OWN).await.unwrap(), Put::Written, "{name}");
            assert_eq!(place.operations(), ["put", "put", "get"], "{name}");
            assert_eq!(objects.get(&name).await.unwrap(), OWN);
            // For everybody else it is there.
            assert_eq!(objects.put(&name, Bytes::from_static(b"late")).await.unwrap(), Put::AlreadyThere);
            assert_eq!(objects.get(&name).await.unwrap(), OWN);
        }
        // An empty object has no first byte to ask for.
        place.judge(first_puts(vec![failed_but_done()]));
        assert_eq!(objects.put("empty", Bytes::new()).await.unwrap(), Put::Written);
        assert_eq!(place.operations(), ["put", "put", "get", "head"]);
    }
}

#[tokio::test]
async fn a_write_that_failed_while_another_one_won_is_not_taken_for_it() {
    let place = Place::behind_a_proxy(Kind::Ministack).await;
    let objects = place.objects().await;
    objects.put("a", OWN).await.unwrap();
    let not_done = || Verdict::Answer(Answer::s3_error(500, "InternalError"));
    place.judge(first_puts(vec![not_done()]));
    assert_eq!(objects.put("a", OWN).await.unwrap(), Put::AlreadyThere);
    // What a person has put there has no token.
    let foreign = place.fresh_bucket().await;
    place.client.put_object().bucket(&foreign).key("a").body(ByteStream::from(OWN)).send().await.unwrap();
    let objects = S3Objects::new(place.client.clone(), foreign);
    assert_eq!(objects.put("a", OWN).await.unwrap(), Put::AlreadyThere);
}

#[tokio::test]
async fn what_was_there_and_is_gone_does_not_stop_a_write() {
    let place = Place::behind_a_proxy(Kind::Ministack).await;
    let objects = place.objects().await;
    place.judge(first_puts(vec![Verdict::Answer(Answer::s3_error(412, "PreconditionFailed"))]));
    assert_eq!(objects.put("a", OWN).await.unwrap(), Put::Written);
    assert_eq!(place.operations(), ["put", "get", "put"]);
}

#[tokio::test]
async fn throttling_is_waited_out_and_told_when_it_stays() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let objects = place.objects().await;
    let slow_down = || Verdict::Answer(Answer::s3_error(503, "SlowDown"));
    place.judge(first_puts(vec![slow_down(), slow_down(), slow_down()]));
    assert_eq!(objects.put("a", OWN).await.unwrap(), Put::Written);
    assert_eq!(place.operations(), ["put"; 4]);

    place.judge(move |_| slow_down());
    let busy = |error: ObjectError| {
        assert!(matches!(&error, ObjectError::Busy(why) if why.contains("SlowDown")), "{error}");
    };
    busy(objects.put("b", OWN).await.unwrap_err());
    assert_eq!(place.operations(), ["put"; 6]);
    busy(objects.get("a").await.unwrap_err());
    busy(objects.read("a", 0..1).await.unwrap_err());
    busy(objects.size("a").await.unwrap_err());
    busy(objects.put_stream("b", &mut &b"own"[..]).await.unwrap_err());
    place.judge(|_| Verdict::Pass);
    assert_eq!(objects.size("b").await.unwrap(), None);
}

/// What every call on `objects` fails with.
async fn errors(objects: &S3Objects) -> Vec<ObjectError> {
    let mut long = tokio::io::AsyncReadExt::take(tokio::io::repeat(7), 9 << 20);
    vec![
        objects.put("a", OWN).await.unwrap_err(),
        objects.put_stream("a", &mut &b"own"[..]).await.unwrap_err(),
        objects.put_stream("a", &mut long).await.unwrap_err(),
        objects.get("a").await.unwrap_err(),
        objects.read("a", 0..1).await.unwrap_err(),
        objects.size("a").await.unwrap_err(),
    ]
}

#[tokio::test]
async fn a_missing_bucket_is_not_a_missing_object() {
    for place in both().await {
        for error in errors(&S3Objects::new(place.client.clone(), "never-made".to_owned())).await {
            assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("s3://never-made/a")), "{error}");
            assert!(error.to_string().contains("create the bucket, or name the stack that has it"), "{error}");
        }
    }
}

#[tokio::test]
async fn what_only_a_person_can_mend_says_what_to_do() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let objects = place.objects().await;
    for (status, code, words) in [
        (403, "AccessDenied", "s3:ListBucket"),
        (403, "InvalidAccessKeyId", "sign in to AWS"),
        (403, "SignatureDoesNotMatch", "sign in to AWS"),
        (400, "ExpiredToken", "sign in to AWS"),
        (403, "RequestTimeTooSkewed", "clock"),
        (301, "PermanentRedirect", "AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", "AWS_REGION"),
        (403, "InvalidObjectState", "archive"),
        (418, "SomethingNew", "report it"),
    ] {
        place.judge(move |_| Verdict::Answer(Answer::s3_error(status, code)));
        for error in errors(&objects).await {
            assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains(words)), "{code}: {error}");
            assert!(error.to_string().contains(code) && error.to_string().contains("/a: "), "{error}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_body_is_told_by_its_status() {
    let place = Place::behind_a_proxy(Kind::Moto).await;
    let objects = place.objects().await;
    // An empty object is looked for by a HEAD.
    objects.put("empty", Bytes::new()).await.unwrap();
    place.judge(|seen| match operation(seen) {
        "head" => Verdict::Answer(Answer::new(403, "application/xml", String::new())),
        _ => Verdict::Pass,
    });
    let error = objects.size("empty").await.unwrap_err().to_string();
    assert!(error.contains("HTTP status 403") && error.contains("s3:ListBucket"), "{error}");
}

#[tokio::test]
async fn what_is_out_of_reach_is_busy_and_what_is_not_set_up_needs_a_person() {
    let place = Place::direct(Kind::Moto).await;
    // Nothing listens there.
    let nobody = super::place::client("http://127.0.0.1:9");
    for error in errors(&S3Objects::new(nobody, "bucket".to_owned())).await {
        assert!(matches!(error, ObjectError::Busy(_)), "{error}");
    }

    let bare = || emulator::config(&place.url).to_builder();
    let foreign = ProfileFileCredentialsProvider::builder().profile_name("no-such-profile").build();
    let profile = bare().credentials_provider(SharedCredentialsProvider::new(foreign)).build();
    for error in errors(&S3Objects::new(s3::client(&tuned(&profile)), "bucket".to_owned())).await {
        assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("AWS_PROFILE")), "{error}");
    }
    let nowhere = bare().region(None).build();
    for error in errors(&S3Objects::new(s3::client(&tuned(&nowhere)), "bucket".to_owned())).await {
        assert!(matches!(&error, ObjectError::NeedsPerson(why) if why.contains("AWS_REGION")), "{error}");
    }
}
