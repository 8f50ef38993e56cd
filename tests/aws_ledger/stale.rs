//! Indexes that are behind. The proxy answers questions to an index from another table, which was left as it was when
//! the items moved on.

use bytes::Bytes;
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::State;
use gleaner::domain::time::Millis;
use gleaner::ports::conformance::sample::minute;
use gleaner::ports::conformance::{ledger as rules, sample};
use gleaner::ports::ledger::{Ledger, Place};
use gleaner::ports::testing::TestIds;
use serde_json::json;

use super::emulator::Kind;
use super::emulator::proxy::{Answer, Proxy, Verdict};
use super::table::{behind_proxy, create_table, emulator, hasty};

/// A ledger whose indexes show what is in the other one.
async fn behind() -> (Proxy, DynamoLedger, DynamoLedger) {
    let (proxy, ledger) = behind_proxy().await;
    let emulator = emulator(Kind::Ministack).await;
    let table = create_table(&emulator.config()).await;
    let index = DynamoLedger::new(hasty(&emulator.url()), table.clone());
    proxy.judge(move |seen| {
        if seen.operation() != "Query" {
            return Verdict::Pass;
        }
        let mut body = seen.json();
        body["TableName"] = json!(table);
        Verdict::Instead(Bytes::from(body.to_string()))
    });
    (proxy, ledger, index)
}

fn places(items: &[Item]) -> Vec<(Millis, ItemId)> {
    items.iter().map(|item| (item.since(), item.id())).collect()
}

fn job_in(key: &str, revs: &TestIds, state: State, since: u64, due: Option<u64>) -> Item {
    Item::Job(sample::job_in(key, revs.rev(), state, minute(since), due.map(minute)))
}

#[tokio::test]
async fn what_has_moved_on_does_not_hide_what_is_due_behind_it() {
    let (_proxy, ledger, index) = behind().await;
    let revs = TestIds::new(1);
    let both = [State::Submitted, State::Retryable];
    for n in 0..60_u64 {
        let was = job_in(&format!("job-{n}"), &revs, both[n as usize % 2], 0, Some(n));
        index.create(&was).await.unwrap();
        let key = format!("job-{n}");
        let (state, due) = match n {
            0..=29 => (State::Consumed, None),
            // Still in the state, and due much later.
            30..=39 => (State::Submitted, Some(500)),
            // Due in another state than the index says.
            40 => (State::Retryable, Some(40)),
            // A little later than the index says, and yet by now.
            45 => (State::Submitted, Some(99)),
            // Never written, or taken away by a person.
            46 | 47 => continue,
            _ => (both[n as usize % 2], Some(n)),
        };
        ledger.create(&job_in(&key, &revs, state, 1, due)).await.unwrap();
    }
    let due = async |states: &[State], limit| -> Vec<u64> {
        let items = ledger.due(states, minute(100), limit).await.unwrap();
        items.iter().map(|item| item.due_at().unwrap().since(minute(0)).as_secs() / 60).collect()
    };
    assert_eq!(due(&both, 3).await, [40, 41, 42]);
    assert_eq!(due(&both, 100).await, [40, 41, 42, 43, 44, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 99]);
    assert_eq!(due(&[State::Retryable], 2).await, [41, 43]);
    // The next due time may be one that has passed: who asks comes too early, never too late.
    assert_eq!(ledger.next_due(&both).await.unwrap(), Some(minute(0)));
}

#[tokio::test]
async fn a_listing_has_no_gaps_although_the_index_is_behind() {
    let (proxy, ledger, index) = behind().await;
    let revs = TestIds::new(2);
    let mut expected = Vec::new();
    for n in 0..40_u64 {
        let key = format!("job-{n:02}");
        index.create(&job_in(&key, &revs, State::Parked, n, None)).await.unwrap();
        let now = match n % 5 {
            0 => job_in(&key, &revs, State::Recovered, 90, None),
            // Parked again since: it stands where it stands now, not where the index has it.
            1 => job_in(&key, &revs, State::Parked, (n + 13).min(50), None),
            2 => job_in(&key, &revs, State::Parked, 80, None),
            _ => job_in(&key, &revs, State::Parked, n, None),
        };
        ledger.create(&now).await.unwrap();
        if now.state() == State::Parked {
            expected.push(now);
        }
    }
    // Not in the index yet: a moment later.
    ledger.create(&job_in("new", &revs, State::Parked, 95, None)).await.unwrap();
    expected.sort_by_key(|item| (item.since(), item.id()));
    for (page, kept) in [(1, 50_000), (3, 50_000), (7, 4), (100, 50_000), (100, 4)] {
        let ledger = DynamoLedger::new(hasty(&proxy.url), ledger.table().to_owned()).keeping(kept);
        let listed = rules::list(&ledger, State::Parked, page).await;
        assert_eq!(places(&listed), places(&expected), "pages of {page}, {kept} kept");
    }
    let place = Place(Millis(i64::MAX), ItemId("job/z".to_owned()));
    assert_eq!(ledger.in_state(State::Parked, Some(&place), 10).await.unwrap(), []);
}

#[tokio::test]
async fn an_item_that_the_index_shows_twice_is_due_once() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(3);
    for n in 0..8 {
        ledger.create(&job_in(&format!("job-{n}"), &revs, State::Submitted, 0, Some(n))).await.unwrap();
    }
    // As while it follows a move: the entry of before is still there.
    proxy.judge(|seen| {
        if seen.operation() != "Query" || seen.json()["ExpressionAttributeValues"][":hash"]["S"] != "retryable#0" {
            return Verdict::Pass;
        }
        Verdict::After(Box::new(|answer| {
            // And one of an item that was taken away, so that a second look at the index is needed.
            let old = ["job/gone", "job/job-5"].map(|pk| json!({"pk": {"S": pk}, "due": {"N": "0"}}));
            let page = json!({"Items": old, "Count": 2, "ScannedCount": 2});
            Answer { body: page.to_string().into(), ..answer }
        }))
    });
    let due = ledger.due(&[State::Retryable, State::Submitted], minute(9), 7).await.unwrap();
    let keys: Vec<String> = due.iter().map(|item| item.id().0).collect();
    assert_eq!(keys, [0, 1, 2, 3, 4, 5, 6].map(|n| format!("job/job-{n}")));
    let batches = proxy.take_seen().into_iter().filter(|seen| seen.operation() == "BatchGetItem");
    let asked = batches.map(|seen| seen.json()["RequestItems"][ledger.table()]["Keys"].as_array().unwrap().len());
    assert_eq!(asked.sum::<usize>(), 8, "each was asked for once");
}

#[tokio::test]
async fn a_listing_goes_on_after_its_place_even_when_a_clock_was_set_back() {
    let (_proxy, ledger, index) = behind().await;
    let revs = TestIds::new(4);
    for (key, in_index, now) in [("a", 20, 5), ("b", 30, 30)] {
        index.create(&job_in(key, &revs, State::Parked, in_index, None)).await.unwrap();
        ledger.create(&job_in(key, &revs, State::Parked, now, None)).await.unwrap();
    }
    let place = Place(minute(10), ItemId("job/x".to_owned()));
    let page = ledger.in_state(State::Parked, Some(&place), 1).await.unwrap();
    assert_eq!(places(&page), [(minute(30), ItemId("job/b".to_owned()))]);
}
