//! Indexes whose answers come in many pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::ports::conformance::{ledger as rules, sample};
use gleaner::ports::ledger::{Ledger, Place};
use gleaner::ports::testing::TestIds;
use serde_json::json;

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Seen, Verdict};
use super::table::{behind_proxy, emulator, operations};

/// Pages of one entry each, and before the first one a page with none, as DynamoDB may answer when it has read for long.
fn one_by_one(asked_on: &Arc<AtomicUsize>) -> impl FnMut(&Seen) -> Verdict + Send + 'static {
    let asked_on = Arc::clone(asked_on);
    move |seen| {
        if seen.operation() != "Query" {
            return Verdict::Pass;
        }
        let mut body = seen.json();
        let values = &body["ExpressionAttributeValues"];
        if body.get("ExclusiveStartKey").is_some() {
            asked_on.fetch_add(1, Ordering::SeqCst);
        } else if body["IndexName"] == "due" {
            let before_all = json!({"pk": {"S": "a"}, "open": values[":hash"], "due": {"N": "-9999999999999999999"}});
            let page = json!({"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": before_all});
            return Verdict::Answer(Answer::new(200, "application/x-amz-json-1.0", page.to_string()));
        }
        body["Limit"] = json!(1);
        Verdict::Instead(Bytes::from(body.to_string()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_hold_whatever_the_pages() {
    let asked_on = Arc::new(AtomicUsize::new(0));
    let mut proxies = Vec::new();
    let mut fresh = async || {
        let (proxy, ledger) = behind_proxy().await;
        proxy.judge(one_by_one(&asked_on));
        proxies.push(proxy);
        // Few places are kept, so that listings are longer than what is kept.
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.keeping(7));
        ledger
    };
    rules::due_items_come_longest_due_first(fresh().await).await;
    rules::nothing_closed_is_ever_due(fresh().await).await;
    rules::the_next_due_time_follows_every_change(fresh().await).await;
    rules::a_state_is_listed_in_pages_without_gaps(fresh().await).await;
    rules::counts_and_totals_equal_a_recount(fresh().await).await;
    rules::a_handle_stays_with_the_first_item(fresh().await).await;
    assert!(asked_on.load(Ordering::SeqCst) > 100);
}

#[tokio::test]
async fn a_long_listing_reads_the_index_once() {
    const ITEMS: usize = 130;
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(1);
    for n in 0..ITEMS {
        let since = sample::minute(n as u64 % 7);
        ledger
            .create(&Item::Job(sample::job_in(&format!("job-{n}"), revs.rev(), State::Parked, since, None)))
            .await
            .unwrap();
    }
    proxy.take_seen();
    let listed = rules::list(&ledger, State::Parked, 10).await;
    assert_eq!(listed.len(), ITEMS);
    // The four shards once for the first page, and once more to see that nothing came meanwhile.
    let asked = operations(&proxy);
    assert_eq!((asked["Query"], asked["BatchGetItem"]), (8, 13));

    // What was settled between two pages is not listed; what came meanwhile is found at the end.
    let first = ledger.in_state(State::Parked, None, 100).await.unwrap();
    let place = Place(first[99].since(), first[99].id());
    let gone: Vec<&Item> = listed[100..110].iter().collect();
    for item in &gone {
        let Item::Job(job) = item else { panic!("{item:?}") };
        let settled = sample::job_in(&job.key.0, revs.rev(), State::Recovered, sample::minute(9), None);
        ledger.replace(item.rev(), &Item::Job(settled)).await.unwrap();
    }
    let new = Item::Job(sample::job_in("new", revs.rev(), State::Parked, sample::minute(9), None));
    ledger.create(&new).await.unwrap();
    let rest = ledger.in_state(State::Parked, Some(&place), 100).await.unwrap();
    assert_eq!(rest, listed[110..]);
    let last = rest.last().map(|item| Place(item.since(), item.id()));
    assert_eq!(ledger.in_state(State::Parked, last.as_ref(), 100).await.unwrap(), [new]);
}

#[tokio::test]
async fn a_limited_look_takes_no_more_than_it_needs() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(2);
    for n in 0..60 {
        let due = Some(sample::minute(n));
        ledger
            .create(&Item::Job(sample::job_in(&format!("job-{n}"), revs.rev(), State::Submitted, sample::START, due)))
            .await
            .unwrap();
    }
    proxy.take_seen();
    let due = ledger.due(&[State::Submitted], sample::minute(60), 4).await.unwrap();
    assert_eq!(due.iter().map(Item::due_at).collect::<Vec<_>>(), [0, 1, 2, 3].map(|n| Some(sample::minute(n))));
    let seen = proxy.take_seen();
    let got: usize = seen
        .iter()
        .filter(|seen| seen.operation() == "BatchGetItem")
        .map(|seen| seen.json()["RequestItems"][ledger.table()]["Keys"].as_array().unwrap().len())
        .sum();
    assert_eq!(got, 4, "each item that is read costs a read unit");
    assert!(seen.iter().filter(|seen| seen.operation() == "Query").all(|seen| seen.json()["Limit"] == json!(3)));
}

#[tokio::test]
async fn a_handle_of_many_jobs_is_the_oldest_ones_on_whatever_page_it_is() {
    let asked_on = Arc::new(AtomicUsize::new(0));
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(3);
    for n in [3_u64, 1, 4, 0, 2] {
        // Each job is the oldest of one handle.
        let mut job = sample::job(&format!("job-{n}"), revs.rev());
        job.handles = (0..5_u64)
            .map(|oldest| {
                let at = sample::minute(if n == oldest { 0 } else { n + 1 });
                gleaner::domain::job::Handle { at, ..sample::handle(&format!("v1_{oldest}")) }
            })
            .collect();
        ledger.create(&Item::Job(job)).await.unwrap();
    }
    proxy.judge(one_by_one(&asked_on));
    for oldest in 0..5 {
        let owner = ledger.by_handle(&format!("v1_{oldest}")).await.unwrap().unwrap();
        assert_eq!(owner.0, format!("job/job-{oldest}"));
    }
    assert!(asked_on.load(Ordering::SeqCst) >= 20);
}

#[tokio::test]
async fn an_item_that_cannot_be_read_holds_up_no_other() {
    let (_proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(4);
    for n in 0..3 {
        let job =
            sample::job_in(&format!("job-{n}"), revs.rev(), State::Parked, sample::minute(n), Some(sample::minute(n)));
        ledger.create(&Item::Job(job)).await.unwrap();
    }
    let client = aws_sdk_dynamodb::Client::new(&emulator(Kind::Ministack).await.config());
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
    let update = client.update_item().table_name(ledger.table()).key("pk", text("job/job-1"));
    let update = update.update_expression("SET attempts = :odd").expression_attribute_values(":odd", text("many"));
    update.send().await.unwrap();
    let others = ["job/job-0", "job/job-2"];
    let ids = |items: Vec<Item>| items.iter().map(|item| item.id().0).collect::<Vec<_>>();
    assert_eq!(ids(ledger.due(&[State::Parked], sample::minute(9), 10).await.unwrap()), others);
    assert_eq!(ids(ledger.in_state(State::Parked, None, 10).await.unwrap()), others);
    // By its own name it is an error that names it.
    let error = ledger.get(&gleaner::domain::item::ItemId("job/job-1".to_owned())).await.unwrap_err().to_string();
    assert!(error.contains("job/job-1"), "{error}");
}
