//! What a person is told, and what nobody is told.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Region};
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use gleaner::domain::intake::Intake;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Rev, State};
use gleaner::ports::conformance::sample;
use gleaner::ports::ledger::{CreateError, Ledger, LedgerError};
use serde_json::json;

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Proxy, Verdict};
use super::table::{behind_proxy, emulator, hasty, ledger};

const SECRET: &str = "wJalrXUtnFEMI-the-token";

fn told<T: std::fmt::Debug>(outcome: Result<T, LedgerError>) -> String {
    match outcome {
        Err(LedgerError::NeedsPerson(why)) => why,
        other => panic!("nobody is asked: {other:?}"),
    }
}

fn says(why: &str, words: &[&str]) {
    for word in words {
        assert!(why.contains(word), "{word:?} is not in: {why}");
    }
    assert!(!why.contains(SECRET), "{why}");
}

#[tokio::test]
async fn what_only_a_person_can_mend_says_what_to_do() {
    let proxy = Proxy::start("http://127.0.0.1:9", |_| Verdict::Pass).await;
    let ledger = DynamoLedger::new(hasty(&proxy.url), "the-table".to_owned());
    let cases = [
        (400, "ResourceNotFoundException", "no table", &["the-table", "deploy the stack"][..]),
        (400, "AccessDeniedException", "User: arn:x is not authorized", &["the-table", "PutItem", "arn:x"]),
        (400, "UnrecognizedClientException", SECRET, &["the-table", "credentials", "log in"]),
        (403, "InvalidSignatureException", SECRET, &["credentials", "clock"]),
        (400, "ExpiredTokenException", SECRET, &["credentials", "AWS_PROFILE"]),
        (400, "ValidationException", "no index due", &["the-table", "indexes", "no index due"]),
        (403, "", "", &["403", "AWS_ENDPOINT_URL"]),
        (404, "NoSuchThing", "really", &["404", "NoSuchThing", "really"]),
    ];
    for (status, code, message, words) in cases {
        let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message});
        let body = if code.is_empty() { "<html>no</html>".to_owned() } else { body.to_string() };
        proxy.judge(move |_| Verdict::Answer(Answer::new(status, "application/x-amz-json-1.0", body.clone())));
        says(&told(ledger.get(&ItemId("job/a".to_owned())).await), words);
        says(&told(ledger.get_many(&[ItemId("job/a".to_owned())]).await), words);
        says(&told(ledger.due(&[State::Done], sample::minute(0), 1).await), words);
        match ledger.create(&Item::Job(sample::job("a", Rev("r".to_owned())))).await {
            Err(CreateError::Ledger(error)) => says(&told(Err::<(), _>(error)), words),
            other => panic!("{other:?}"),
        }
        assert_eq!(proxy.take_seen().len(), 3 + 4, "{code}: asking again mends nothing");
    }
}

#[tokio::test]
async fn a_missing_table_is_told_by_both_emulators() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let ledger = DynamoLedger::new(hasty(&emulator(kind).await.url()), "nowhere".to_owned());
        says(&told(ledger.get(&ItemId("job/a".to_owned())).await), &["nowhere", "deploy the stack"]);
        says(&told(ledger.counts().await), &["nowhere", "deploy the stack"]);
    }
}

#[tokio::test]
async fn an_item_that_is_too_large_is_told_by_its_id() {
    for kind in [Kind::Ministack, Kind::Moto] {
        let ledger = ledger(kind).await;
        let intake = sample::intake(sample::INTAKE, Rev("r".to_owned()));
        let intake = Item::Intake(Intake { on_result: Some("x".repeat(500_000)), ..intake });
        let mut group = sample::dead_group("missing", Rev("r".to_owned()));
        group.rows = (0..30_000).map(|part| (format!("{part}.0123456789ab"), 1)).collect();
        for (item, name) in [(intake, sample::INTAKE), (Item::DeadGroup(group), sample::RUN)] {
            match ledger.create(&item).await {
                Err(CreateError::Ledger(error)) => says(&told(Err::<(), _>(error)), &[name, "400 KB"]),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn missing_credentials_and_a_missing_region_are_a_persons_matter() {
    let settings = || Builder::new().behavior_version(BehaviorVersion::latest());
    let elsewhere = || settings().endpoint_url("http://127.0.0.1:9");
    let region = Region::from_static("us-east-1");
    for config in [elsewhere().region(region).build(), settings().build()] {
        let ledger = DynamoLedger::new(Client::from_conf(config), "the-table".to_owned());
        says(&told(ledger.get(&ItemId("job/a".to_owned())).await), &["the-table", "AWS_PROFILE", "AWS_REGION"]);
    }
}

#[tokio::test]
async fn what_is_over_or_an_event_is_not_listed_and_the_error_says_so() {
    let (proxy, ledger) = behind_proxy().await;
    for state in State::all().filter(|state| !state.is_listed()) {
        says(&told(ledger.in_state(state, None, 10).await), &[ledger.table(), state.word(), "by its id"]);
    }
    assert_eq!(proxy.take_seen().len(), 0);
}

#[tokio::test]
async fn what_can_be_no_key_is_not_there() {
    let (proxy, ledger) = behind_proxy().await;
    for id in [String::new(), "x".repeat(2049)] {
        assert_eq!(ledger.get(&ItemId(id.clone())).await.unwrap(), None);
        assert_eq!(ledger.get_many(&[ItemId(id)]).await.unwrap(), []);
    }
    assert_eq!(proxy.take_seen().len(), 0);
    assert_eq!(ledger.get(&ItemId("x".repeat(2048))).await.unwrap(), None);
}
