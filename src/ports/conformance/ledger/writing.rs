//! Creating, replacing, and what is found afterwards.

use std::sync::Arc;

use super::{add, in_the_way, stale};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, State};
use crate::ports::conformance::sample;
use crate::ports::ledger::{Ledger, LedgerError, ReplaceError};
use crate::ports::testing::TestIds;

/// Items of all kinds round trip, whatever characters they hold, when created and when replaced.
pub async fn every_kind_comes_back_as_it_was_written(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(1);
    for item in sample::one_of_each(|| ids.rev()) {
        add(&*ledger, item.clone()).await;
        assert_eq!(ledger.get(&item.id()).await.unwrap().as_ref(), Some(&item));
        let mut next = item.clone();
        next.set_rev(ids.rev());
        ledger.replace(item.rev(), &next).await.unwrap();
        assert_eq!(ledger.get(&item.id()).await.unwrap().as_ref(), Some(&next));
    }
    assert_eq!(ledger.get(&ItemId::job(&JobKey("another".to_owned()))).await.unwrap(), None);
}

/// A create of an id that is taken changes nothing and answers with what is there.
pub async fn create_answers_with_the_item_in_the_way(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(2);
    let first = add(&*ledger, Item::Job(sample::full_job("taken", ids.rev()))).await;
    let second = Item::Job(sample::job("taken", ids.rev()));
    assert_eq!(in_the_way(ledger.create(&second).await), first);
    assert_eq!(ledger.get(&first.id()).await.unwrap(), Some(first));
}

/// The same create once more is a success as long as nobody changed the item, and counts once.
pub async fn a_create_that_is_repeated_is_a_success(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(3);
    let item = add(&*ledger, Item::Job(sample::job("repeated", ids.rev()))).await;
    ledger.create(&item).await.unwrap();
    let counts = ledger.counts().await.unwrap().items;
    assert_eq!(counts.iter().map(|count| count.items).sum::<u64>(), 1);

    let mut next = item.clone();
    next.set_rev(ids.rev());
    ledger.replace(item.rev(), &next).await.unwrap();
    assert_eq!(in_the_way(ledger.create(&item).await), next);
}

/// The same replace once more is a success as long as nobody changed the item since, and counts once.
pub async fn a_replace_that_is_repeated_is_a_success(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(4);
    let item = add(&*ledger, Item::Job(sample::job("repeated", ids.rev()))).await;
    let next = Item::Job(sample::job_in("repeated", ids.rev(), State::Unclear, sample::minute(1), None));
    ledger.replace(item.rev(), &next).await.unwrap();
    ledger.replace(item.rev(), &next).await.unwrap();
    let counts = ledger.counts().await.unwrap().items;
    assert_eq!(counts.iter().map(|count| (count.state, count.items)).collect::<Vec<_>>(), [(State::Unclear, 1)]);

    let last = Item::Job(sample::job_in("repeated", ids.rev(), State::Submitted, sample::minute(2), None));
    ledger.replace(next.rev(), &last).await.unwrap();
    assert_eq!(stale(ledger.replace(item.rev(), &next).await), Some(last));
}

/// A replace under any rev but the stored one changes nothing and answers with what is there.
pub async fn a_stale_rev_never_wins(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(5);
    let old = add(&*ledger, Item::Job(sample::job("contested", ids.rev()))).await;
    let stored = Item::Job(sample::full_job("contested", ids.rev()));
    ledger.replace(old.rev(), &stored).await.unwrap();

    let late = Item::Job(sample::job_in("contested", ids.rev(), State::Consumed, sample::minute(9), None));
    assert_eq!(stale(ledger.replace(old.rev(), &late).await), Some(stored.clone()));
    assert_eq!(stale(ledger.replace(&ids.rev(), &late).await), Some(stored.clone()));
    assert_eq!(ledger.get(&stored.id()).await.unwrap(), Some(stored));

    let absent = Item::Job(sample::job("absent", ids.rev()));
    assert_eq!(stale(ledger.replace(old.rev(), &absent).await), None);
    assert_eq!(ledger.get(&absent.id()).await.unwrap(), None);
}

/// A replace whose item still has the rev that was read can't be told from a repeated one: it is an error, not a
/// change that is lost in silence.
pub async fn a_change_must_carry_a_fresh_rev(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(6);
    let item = add(&*ledger, Item::Job(sample::job("careless", ids.rev()))).await;
    let mut changed = sample::job_in("careless", ids.rev(), State::Submitted, sample::minute(1), None);
    changed.rev = item.rev().clone();
    let outcome = ledger.replace(item.rev(), &Item::Job(changed)).await;
    assert!(matches!(outcome, Err(ReplaceError::Ledger(LedgerError::NeedsPerson(_)))), "{outcome:?}");
    assert_eq!(ledger.get(&item.id()).await.unwrap(), Some(item));
}

/// Many are got as each by itself is, those that aren't there left out, however many are asked for and how often.
pub async fn many_items_are_got_at_once(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(9);
    let mut expected = sample::one_of_each(|| revs.rev());
    expected.extend((0..230).map(|n| Item::Job(sample::full_job(&format!("job-{n}"), revs.rev()))));
    for item in &expected {
        add(&*ledger, item.clone()).await;
    }
    let mut asked: Vec<ItemId> = expected.iter().map(Item::id).collect();
    asked.extend(asked.clone());
    asked.extend((0..50).map(|n| ItemId(format!("job/absent-{n}"))));
    let mut found = ledger.get_many(&asked).await.unwrap();
    found.sort_by_key(Item::id);
    expected.sort_by_key(Item::id);
    assert_eq!(found, expected);
    assert_eq!(ledger.get_many(&[]).await.unwrap(), []);
}

/// Every handle finds its item: those of its creation and those that were added later.
pub async fn an_item_is_found_by_every_handle(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(7);
    let mut job = sample::full_job("handled", ids.rev());
    add(&*ledger, Item::Job(job.clone())).await;
    for id in ["v1_second", "v1_third/with?every&thing=日本"] {
        let read = job.rev.clone();
        job.handles.push(sample::handle(id));
        job.rev = ids.rev();
        ledger.replace(&read, &Item::Job(job.clone())).await.unwrap();
    }
    assert_eq!(job.handles.len(), 4);
    for handle in &job.handles {
        assert_eq!(ledger.by_handle(&handle.id).await.unwrap(), Some(ItemId::job(&job.key)), "{}", handle.id);
    }
    assert_eq!(ledger.by_handle("v1_fourth").await.unwrap(), None);
}

/// A handle that is on record for another item doesn't make a write fail, and stays with the first.
pub async fn a_handle_stays_with_the_first_item(ledger: Arc<dyn Ledger>) {
    let ids = TestIds::new(8);
    for key in ["first", "second"] {
        let mut job = sample::job(key, ids.rev());
        job.handles = vec![sample::handle("v1_shared"), sample::handle(&format!("v1_{key}"))];
        add(&*ledger, Item::Job(job)).await;
    }
    let job = |key: &str| Some(ItemId::job(&JobKey(key.to_owned())));
    assert_eq!(ledger.by_handle("v1_shared").await.unwrap(), job("first"));
    assert_eq!(ledger.by_handle("v1_second").await.unwrap(), job("second"));
}
