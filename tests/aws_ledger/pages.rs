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

use super::emulator::proxy::{Answer, Seen, Verdict};
use super::table::{behind_proxy, operations};

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
