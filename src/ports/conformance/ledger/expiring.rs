//! Events and what they leave: found by their ids and nowhere else, and forgotten in time.

use std::sync::Arc;

use futures::future::join_all;

use super::{add, assert_recount, in_the_way, stale};
use crate::domain::item::{Item, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::domain::webhook::{Event, Stray};
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ledger::{Ledger, LedgerError};
use crate::ports::testing::TestIds;

/// An event is created once and handled under its rev; it is never due, and neither it nor a stray is found by a handle
/// or stands in the way of a listing.
pub async fn events_are_found_by_their_ids_only(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(41);
    let taken = add(&*ledger, Item::Event(sample::event("again", ids.rev()))).await;
    assert_eq!(in_the_way(ledger.create(&Item::Event(sample::event("again", ids.rev()))).await), taken);
    let handled = Item::Event(sample::handled_event("again", ids.rev()));
    ledger.replace(taken.rev(), &handled).await.unwrap();
    let late = Item::Event(sample::event("again", ids.rev()));
    assert_eq!(stale(ledger.replace(taken.rev(), &late).await), Some(handled.clone()));
    let stray = add(&*ledger, Item::Stray(sample::stray("v1_nobodys", ids.rev()))).await;

    assert_eq!(ledger.get(&handled.id()).await.unwrap().as_ref(), Some(&handled));
    let mut found = ledger.get_many(&[handled.id(), stray.id(), taken.id()]).await.unwrap();
    found.sort_by_key(Item::id);
    assert_eq!(found, [handled.clone(), stray.clone()]);
    let every: Vec<State> = State::all().collect();
    assert_eq!(ledger.due(&every, Millis(i64::MAX), 100).await.unwrap(), []);
    assert_eq!(ledger.next_due(&every).await.unwrap(), None);
    assert_eq!(ledger.by_handle("v1_nobodys").await.unwrap(), None);

    let counts = ledger.counts().await.unwrap();
    let mut told: Vec<_> = counts.items.iter().map(|count| (count.kind, count.state, count.items)).collect();
    told.sort_unstable();
    let both = [(Kind::Event, State::Handled, 1), (Kind::Stray, State::Unmatched, 1)];
    assert_eq!(told, if counts.has_closed { &both[..] } else { &[] });
    for (state, item) in [(State::Taken, None), (State::Handled, Some(&handled)), (State::Unmatched, Some(&stray))] {
        match ledger.in_state(state, None, 10).await {
            Ok(listed) => assert_eq!(listed.first(), item, "{state}"),
            // It keeps no listing of them.
            Err(LedgerError::NeedsPerson(_)) => assert!(!counts.has_closed, "{state} is counted and not listed"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(assert_recount(&*ledger).await, if counts.has_closed { 2 } else { 0 });
}

/// What has expired is forgotten, at most as many as are asked for at a time, and then it is as if it had never been;
/// everything else stays as it is, however old. A ledger that forgets by itself may keep what has expired for a while.
pub async fn what_has_expired_is_forgotten_and_nothing_else(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(42);
    let mut kept: Vec<Item> = sample::one_of_each(|| ids.rev());
    kept.retain(|item| item.expires().is_none());
    for (n, state) in State::OF_JOBS.into_iter().enumerate() {
        kept.push(Item::Job(sample::job_in(&format!("old-{n}"), ids.rev(), state, Millis(0), None)));
    }
    let event = |name: &str, expires| Item::Event(Event { expires, ..sample::handled_event(name, ids.rev()) });
    let stray = |handle: &str, expires| Item::Stray(Stray { expires, ..sample::stray(handle, ids.rev()) });
    let over = [1, 2, 3].map(|n| event(&format!("over-{n}"), minute(n)));
    let over: Vec<Item> = over.into_iter().chain([stray("v1_over", minute(2))]).collect();
    kept.extend([event("young", Millis(minute(3).0 + 1)), stray("v1_young", minute(4))]);
    for item in kept.iter().chain(&over) {
        add(&*ledger, item.clone()).await;
    }
    // One that would have expired, had it not come again.
    let first = add(&*ledger, event("again", minute(1))).await;
    let again = event("again", minute(9));
    ledger.replace(first.rev(), &again).await.unwrap();
    kept.push(again);

    assert_eq!(ledger.forget(Millis(minute(1).0 - 1), 100).await.unwrap(), 0, "nothing has expired yet");
    assert_eq!(ledger.forget(minute(3), 0).await.unwrap(), 0);
    let mut forgotten = Vec::new();
    loop {
        let some = ledger.forget(minute(3), 3).await.unwrap();
        assert!(some <= 3, "{some}");
        if some == 0 {
            break;
        }
        forgotten.push(some);
    }
    if !forgotten.is_empty() {
        assert_eq!(forgotten, [3, 1]);
        for item in &over {
            assert_eq!(ledger.get(&item.id()).await.unwrap(), None, "{}", item.id());
            let mut next = item.clone();
            next.set_rev(ids.rev());
            assert_eq!(stale(ledger.replace(item.rev(), &next).await), None);
        }
    }
    for item in &kept {
        assert_eq!(ledger.get(&item.id()).await.unwrap().as_ref(), Some(item));
    }
    let counts = ledger.counts().await.unwrap();
    if counts.has_closed && !forgotten.is_empty() {
        let counted =
            |kind| counts.items.iter().filter(|count| count.kind == kind).map(|count| count.items).sum::<u64>();
        assert_eq!([Kind::Event, Kind::Stray].map(counted), [2, 1]);
    }
    assert_recount(&*ledger).await;
    // The same event once more, long after: as if it had never been.
    if !forgotten.is_empty() {
        add(&*ledger, event("over-1", minute(99))).await;
    }
}

/// Many who forget at once, beside one who writes, count each item once.
pub async fn many_forget_at_once(ledger: Arc<dyn Ledger>) {
    const ITEMS: u64 = 60;
    let ids = TestIds::new(43);
    for n in 0..ITEMS {
        add(&*ledger, Item::Event(sample::event(&format!("event-{n}"), ids.rev()))).await;
    }
    let later = Millis(i64::MAX - 1);
    let forgetting = (0..4).map(|_| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let mut forgotten = 0;
            loop {
                match ledger.forget(later, 7).await.unwrap() {
                    0 => return forgotten,
                    some => forgotten += some,
                }
            }
        })
    });
    let writing = (0..ITEMS).map(|n| {
        let (ledger, job) = (Arc::clone(&ledger), Item::Job(sample::job(&format!("job-{n}"), ids.rev())));
        tokio::spawn(async move { ledger.create(&job).await.unwrap() })
    });
    let (forgotten, written) = tokio::join!(join_all(forgetting), join_all(writing));
    written.into_iter().for_each(Result::unwrap);
    let forgotten: u64 = forgotten.into_iter().map(Result::unwrap).sum();
    assert!(forgotten == ITEMS || forgotten == 0, "{forgotten} of {ITEMS}");
    assert_eq!(assert_recount(&*ledger).await, ITEMS);
}
