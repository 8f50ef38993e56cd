//! What passes: throttling, broken connections, errors for what was done, batches that are not got to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Rev, State};
use gleaner::ports::conformance::sample;
use gleaner::ports::ledger::{CreateError, Ledger, LedgerError, ReplaceError};
use gleaner::ports::testing::TestIds;
use serde_json::{Value, json};

use super::emulator::proxy::{Answer, Seen, Verdict};
use super::table::{behind_proxy, hasty, operations};

/// What DynamoDB answers when it would rather not, and when it fails.
const PASSING: [(u16, &str); 6] = [
    (400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"),
    (400, "com.amazonaws.dynamodb.v20120810#ThrottlingException"),
    (400, "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded"),
    (500, "com.amazonaws.dynamodb.v20120810#InternalServerError"),
    (503, "ServiceUnavailable"),
    (504, "no error of DynamoDB's"),
];

/// The first `times` requests get `verdict`, the others pass.
fn at_first(times: usize, verdict: impl Fn() -> Verdict + Send + 'static) -> impl FnMut(&Seen) -> Verdict + Send {
    let mut left = times;
    move |_| {
        let is_first = left > 0;
        left = left.saturating_sub(1);
        if is_first { verdict() } else { Verdict::Pass }
    }
}

fn job(key: &str, rev: Rev) -> Item {
    Item::Job(sample::job(key, rev))
}

fn next(item: &Item, rev: Rev) -> Item {
    let mut next = item.clone();
    next.set_rev(rev);
    next
}

fn is_busy<T: std::fmt::Debug>(outcome: Result<T, LedgerError>, word: &str) {
    match outcome {
        Err(LedgerError::Busy(why)) => assert!(why.contains(word), "{why}"),
        other => panic!("not busy: {other:?}"),
    }
}

#[tokio::test]
async fn what_passes_is_waited_out() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(1);
    for (n, (status, kind)) in PASSING.into_iter().enumerate() {
        let item = job(&format!("job-{n}"), revs.rev());
        let refuse = move || Verdict::Answer(Answer::json_error(status, kind));
        proxy.judge(at_first(2, refuse));
        ledger.create(&item).await.unwrap();
        proxy.judge(at_first(2, refuse));
        assert_eq!(ledger.get(&item.id()).await.unwrap().as_ref(), Some(&item));
        proxy.judge(at_first(2, refuse));
        assert_eq!(ledger.get_many(&[item.id()]).await.unwrap(), std::slice::from_ref(&item));
        proxy.judge(at_first(2, refuse));
        assert_eq!(ledger.next_due(&[State::Reserving]).await.unwrap(), item.due_at());
        let asked = operations(&proxy);
        assert_eq!((asked["PutItem"], asked["GetItem"], asked["BatchGetItem"], asked["Query"]), (3, 3, 3, 4 + 2));
    }
}

#[tokio::test]
async fn what_does_not_pass_is_busy_and_changes_nothing() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(2);
    let stored = job("stored", revs.rev());
    ledger.create(&stored).await.unwrap();
    // These two the SDK doesn't ask again for: DynamoDB has no such answer, something before it may.
    for (status, kind) in PASSING.into_iter().chain([(429, "TooMuch"), (408, "TooLate")]) {
        proxy.judge(move |_| Verdict::Answer(Answer::json_error(status, kind)));
        match ledger.create(&job("another", revs.rev())).await {
            Err(CreateError::Ledger(error)) => is_busy(Err::<(), _>(error), ledger.table()),
            other => panic!("{other:?}"),
        }
        match ledger.replace(stored.rev(), &next(&stored, revs.rev())).await {
            Err(ReplaceError::Ledger(error)) => is_busy(Err::<(), _>(error), ledger.table()),
            other => panic!("{other:?}"),
        }
        is_busy(ledger.get(&stored.id()).await, ledger.table());
        is_busy(ledger.get_many(&[stored.id()]).await, ledger.table());
        is_busy(ledger.due(&[State::Reserving], sample::minute(9), 10).await, ledger.table());
        is_busy(ledger.next_due(&[State::Reserving]).await, ledger.table());
        is_busy(ledger.in_state(State::Reserving, None, 10).await, ledger.table());
        is_busy(ledger.counts().await, ledger.table());
        is_busy(ledger.by_handle("v1_a").await, ledger.table());
    }
    proxy.judge(|_| Verdict::Pass);
    assert_eq!(ledger.get(&stored.id()).await.unwrap(), Some(stored));
    assert_eq!(ledger.counts().await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn who_is_not_there_is_busy() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ledger = DynamoLedger::new(hasty(&format!("http://{nobody}")), "a-table".to_owned());
    is_busy(ledger.get(&ItemId("job/a".to_owned())).await, "a-table");
}

#[tokio::test]
async fn who_does_not_answer_is_busy() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    // Connections are taken up, and kept.
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            kept.push(connection);
        }
    });
    let patience = TimeoutConfig::builder().read_timeout(Duration::from_millis(50)).build();
    let impatient = hasty(&url).config().to_builder().timeout_config(patience).build();
    let ledger = DynamoLedger::new(Client::from_conf(impatient), "a-table".to_owned());
    is_busy(ledger.get(&ItemId("job/a".to_owned())).await, "no answer in time");
    silent.abort();
}

/// A write that is done, and whose answer is `verdict`, is made again by the SDK and recognized.
async fn is_done_once(verdict: fn() -> Verdict) {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(3);
    let item = job("once", revs.rev());
    proxy.judge(at_first(1, verdict));
    ledger.create(&item).await.unwrap();
    assert_eq!(operations(&proxy)["PutItem"], 2);
    assert_eq!(ledger.get(&item.id()).await.unwrap().as_ref(), Some(&item));

    let changed = next(&item, revs.rev());
    proxy.judge(at_first(1, verdict));
    ledger.replace(item.rev(), &changed).await.unwrap();
    assert_eq!(operations(&proxy)["PutItem"], 2);
    assert_eq!(ledger.get(&item.id()).await.unwrap(), Some(changed));

    // The same for somebody who comes too late: what is told is the other one's, not an error.
    proxy.judge(at_first(1, verdict));
    assert!(matches!(ledger.create(&job("once", revs.rev())).await, Err(CreateError::Exists(_))));
}

#[tokio::test]
async fn an_error_for_what_was_done_is_a_success() {
    is_done_once(|| Verdict::After(Box::new(|_| Answer::json_error(500, "InternalServerError")))).await;
}

#[tokio::test]
async fn a_connection_that_breaks_after_it_was_done_is_a_success() {
    is_done_once(|| Verdict::Break).await;
}

#[tokio::test]
async fn a_write_that_is_done_and_never_answered_can_be_made_again() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(4);
    let item = job("unanswered", revs.rev());
    proxy.judge(|_| Verdict::After(Box::new(|_| Answer::json_error(500, "InternalServerError"))));
    assert!(matches!(ledger.create(&item).await, Err(CreateError::Ledger(LedgerError::Busy(_)))));
    proxy.judge(|_| Verdict::Pass);
    ledger.create(&item).await.unwrap();
    assert_eq!(ledger.get(&item.id()).await.unwrap(), Some(item));
}

/// Takes the last `count` items of a batch out of its answer, as keys that were not got to.
fn leave_out(answer: Answer, count: usize) -> Answer {
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
    let (table, items) = body["Responses"].as_object_mut().unwrap().iter_mut().next().unwrap();
    let (table, items) = (table.clone(), items.as_array_mut().unwrap());
    let left: Vec<Value> =
        items.drain(items.len().saturating_sub(count)..).map(|item| json!({"pk": item["pk"]})).collect();
    body["UnprocessedKeys"] = json!({table: {"Keys": left, "ConsistentRead": true}});
    Answer { body: body.to_string().into(), ..answer }
}

#[tokio::test]
async fn what_a_batch_did_not_get_to_is_asked_for_again() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(5);
    let items: Vec<Item> = (0..20).map(|n| job(&format!("job-{n:02}"), revs.rev())).collect();
    for item in &items {
        ledger.create(item).await.unwrap();
    }
    let ids: Vec<ItemId> = items.iter().map(Item::id).collect();
    proxy.take_seen();
    // 15 are left out, then 5, then none.
    let calls = Arc::new(AtomicUsize::new(0));
    proxy.judge(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Verdict::After(Box::new(|answer| leave_out(answer, 15))),
        1 => Verdict::After(Box::new(|answer| leave_out(answer, 5))),
        _ => Verdict::Pass,
    });
    let mut found = ledger.get_many(&ids).await.unwrap();
    found.sort_by_key(Item::id);
    assert_eq!(found, items);
    let asked = proxy.take_seen();
    let keys = |seen: &Seen| seen.json()["RequestItems"][ledger.table()]["Keys"].as_array().unwrap().len();
    assert_eq!(asked.iter().map(keys).collect::<Vec<_>>(), [20, 15, 5]);
    let consistent = |seen: &Seen| seen.json()["RequestItems"][ledger.table()]["ConsistentRead"] == json!(true);
    assert!(asked.iter().all(consistent));

    proxy.judge(|_| Verdict::After(Box::new(|answer| leave_out(answer, usize::MAX))));
    is_busy(ledger.get_many(&ids).await, ledger.table());
    let asked = proxy.take_seen().len();
    assert!((5..20).contains(&asked), "asked {asked} times");
}

/// A conditional failure without the item that was in the way, as of an emulator, or of a table whose service forgets
/// the parameter.
fn without_the_old_item(seen: &Seen) -> Verdict {
    if seen.operation() != "PutItem" {
        return Verdict::Pass;
    }
    Verdict::After(Box::new(|answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap();
        body.as_object_mut().unwrap().remove("Item");
        Answer { body: body.to_string().into(), ..answer }
    }))
}

#[tokio::test]
async fn what_is_in_the_way_is_read_when_it_is_not_told() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(6);
    let first = job("first", revs.rev());
    let second = next(&first, revs.rev());
    ledger.create(&first).await.unwrap();
    // Ordinarily it is told, and nothing is read for it.
    assert!(matches!(ledger.create(&second).await, Err(CreateError::Exists(_))));
    assert!(matches!(ledger.replace(second.rev(), &next(&first, revs.rev())).await, Err(ReplaceError::Stale(Some(_)))));
    assert_eq!(operations(&proxy), [("PutItem".to_owned(), 3)].into());

    proxy.judge(without_the_old_item);
    match ledger.create(&second).await {
        Err(CreateError::Exists(met)) => assert_eq!(*met, first),
        other => panic!("{other:?}"),
    }
    // The same calls once more are successes all the same.
    ledger.create(&first).await.unwrap();
    ledger.replace(first.rev(), &second).await.unwrap();
    ledger.replace(first.rev(), &second).await.unwrap();
    match ledger.replace(first.rev(), &next(&first, revs.rev())).await {
        Err(ReplaceError::Stale(Some(met))) => assert_eq!(*met, second),
        other => panic!("{other:?}"),
    }
    let absent = job("absent", revs.rev());
    assert!(matches!(ledger.replace(first.rev(), &absent).await, Err(ReplaceError::Stale(None))));
    let seen = proxy.take_seen();
    let reads: Vec<_> = seen.iter().filter(|seen| seen.operation() == "GetItem").map(Seen::json).collect();
    assert_eq!(reads.len(), 5);
    assert!(reads.iter().all(|read| read["ConsistentRead"] == json!(true)));

    // In the way, and gone when it is looked at: nobody knows, and asking again is right.
    proxy.judge(|seen| match seen.operation() {
        "GetItem" => Verdict::Answer(Answer::new(200, "application/x-amz-json-1.0", "{}".to_owned())),
        _ => without_the_old_item(seen),
    });
    let third = next(&first, revs.rev());
    assert!(matches!(ledger.create(&third).await, Err(CreateError::Ledger(LedgerError::Busy(_)))));
}
