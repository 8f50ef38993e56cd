//! Handles, and the carriers of all but the first.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Handle, Job, JobKey};
use gleaner::ports::conformance::sample::{self, minute};
use gleaner::ports::ledger::{Ledger, LedgerError};
use gleaner::ports::testing::TestIds;

use super::table::{behind_proxy, hasty, operations};

fn id(key: &str) -> ItemId {
    ItemId::job(&JobKey(key.to_owned()))
}

/// A job with these handles.
fn job(key: &str, revs: &TestIds, handles: &[&str]) -> Job {
    let mut job = sample::job(key, revs.rev());
    job.handles = handles.iter().map(|handle| sample::handle(handle)).collect();
    job
}

#[tokio::test]
async fn handles_of_any_characters_and_lengths_find_their_job() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(1);
    let (long, longer) = (format!("v1_{}", "長".repeat(90)), format!("v1_{}", "x".repeat(4000)));
    let handles = [
        "v1_plain",
        "",
        "handle/job/b/x",
        "/",
        "a/b//c?d=e#f&%20 \\ \"'",
        "\u{0}\u{7f}\r\n",
        "日本語 \u{10ffff}",
        "sha256:0",
        &long,
        &longer,
    ];
    ledger.create(&Item::Job(job("a", &revs, &handles))).await.unwrap();
    // A handle of one job is one of another too, with a slash more or less.
    ledger.create(&Item::Job(job("b", &revs, &["x", "b//c?d=e#f&%20 \\ \"'"]))).await.unwrap();
    for handle in handles.into_iter().filter(|handle| !handle.is_empty()) {
        assert_eq!(ledger.by_handle(handle).await.unwrap(), Some(id("a")), "{handle:?}");
    }
    assert_eq!(ledger.by_handle("").await.unwrap(), None);
    assert_eq!(ledger.by_handle("b//c?d=e#f&%20 \\ \"'").await.unwrap(), Some(id("b")));
    for nobodys in ["x/", &format!("{long}x"), &format!("{longer}x")] {
        assert_eq!(ledger.by_handle(nobodys).await.unwrap(), None, "{nobodys:?}");
    }
    assert_eq!(proxy.take_seen().iter().filter(|seen| seen.operation() == "Scan").count(), 0);
}

#[tokio::test]
async fn a_carrier_is_written_once_and_before_the_item_that_needs_it() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(2);
    let mut item = job("a", &revs, &["v1_first"]);
    ledger.create(&Item::Job(item.clone())).await.unwrap();
    assert_eq!(operations(&proxy), [("PutItem".to_owned(), 1)].into());
    for (handle, written) in [(Some("v1_second"), 2), (None, 1), (Some("v1_third"), 2), (None, 1)] {
        let read = std::mem::replace(&mut item.rev, revs.rev());
        item.handles.extend(handle.map(sample::handle));
        ledger.replace(&read, &Item::Job(item.clone())).await.unwrap();
        let seen = proxy.take_seen();
        let puts = seen.iter().filter(|seen| seen.operation() == "PutItem");
        let puts: Vec<_> = puts.map(|seen| seen.json()["Item"]["pk"]["S"].as_str().unwrap().to_owned()).collect();
        assert_eq!(puts.len(), written, "{puts:?}");
        assert_eq!(puts.last().unwrap(), "job/a");
        assert!(puts.iter().rev().skip(1).all(|pk| pk.starts_with("handle/job/a/v1_")), "{puts:?}");
    }
    for handle in &item.handles {
        assert_eq!(ledger.by_handle(&handle.id).await.unwrap(), Some(id("a")));
    }
}

#[tokio::test]
async fn a_carrier_whose_job_does_not_have_the_handle_leads_nowhere() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(3);
    let stored = job("a", &revs, &["v1_first"]);
    ledger.create(&Item::Job(stored.clone())).await.unwrap();
    // A write that comes too late has written its carriers before it was refused.
    let mut late = job("a", &revs, &["v1_first", "v1_late"]);
    late.attempts = 7;
    ledger.replace(&revs.rev(), &Item::Job(late)).await.unwrap_err();
    assert_eq!(ledger.by_handle("v1_late").await.unwrap(), None);
    // One whose job isn't there at all.
    put(&proxy.url, ledger.table(), &[("pk", "handle/job/nobody/v1_lost"), ("handle", "v1_lost")]).await;
    assert_eq!(ledger.by_handle("v1_lost").await.unwrap(), None);
    // Carriers are no items: nothing but this look-up ever meets them.
    assert_eq!(ledger.counts().await.unwrap().items.len(), 1);
    assert_eq!(ledger.due(&gleaner::app::drive::OPEN, minute(9), 10).await.unwrap(), [Item::Job(stored)]);
}

#[tokio::test]
async fn of_two_jobs_with_one_handle_the_older_record_wins() {
    let (_proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(4);
    let at = |minutes, id: &str| Handle { at: minute(minutes), ..sample::handle(id) };
    for (key, handles) in [
        ("a", vec![at(9, "v1_shared"), at(1, "v1_tie")]),
        ("b", vec![at(0, "v1_own"), at(5, "v1_shared")]),
        ("c", vec![at(1, "v1_tie"), at(6, "v1_shared")]),
    ] {
        let mut job = job(key, &revs, &[]);
        job.handles = handles;
        ledger.create(&Item::Job(job)).await.unwrap();
    }
    assert_eq!(ledger.by_handle("v1_shared").await.unwrap(), Some(id("b")));
    assert_eq!(ledger.by_handle("v1_tie").await.unwrap(), Some(id("a")));
}

#[tokio::test]
async fn an_entry_that_is_no_carrier_of_ours_is_named() {
    let (proxy, ledger) = behind_proxy().await;
    put(&proxy.url, ledger.table(), &[("pk", "handle/nonsense"), ("handle", "v1_a")]).await;
    match ledger.by_handle("v1_a").await {
        Err(LedgerError::NeedsPerson(why)) => assert!(why.contains("handle/nonsense"), "{why}"),
        other => panic!("{other:?}"),
    }
}

async fn put(url: &str, table: &str, texts: &[(&str, &str)]) {
    let texts = texts.iter().map(|(name, value)| ((*name).to_owned(), AttributeValue::S((*value).to_owned())));
    let item: HashMap<_, _> = texts.collect();
    hasty(url).put_item().table_name(table).set_item(Some(item)).send().await.unwrap();
}
