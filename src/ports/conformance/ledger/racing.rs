//! Many at once.

use std::sync::Arc;

use futures::future::join_all;

use super::{assert_recount, in_the_way};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{JobKey, Rev, State};
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ids::Ids;
use crate::ports::ledger::{CreateError, Ledger, ReplaceError};
use crate::ports::testing::TestIds;

const TASKS: u64 = 8;

/// Of many who create one id, exactly one wins, and the others are told of the winner's item.
pub async fn one_of_many_creators_wins(ledger: Arc<dyn Ledger>) {
    for round in 0..50 {
        let key = format!("contested-{round}");
        let creators = (0..TASKS).map(|task| {
            let (ledger, key) = (Arc::clone(&ledger), key.clone());
            tokio::spawn(async move {
                let item = Item::Job(sample::job(&key, TestIds::new(task).rev()));
                (item.clone(), ledger.create(&item).await)
            })
        });
        let outcomes: Vec<_> = join_all(creators).await.into_iter().map(Result::unwrap).collect();
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(_, outcome)| outcome.is_ok());
        assert_eq!(won.len(), 1, "round {round}");
        for (_, outcome) in lost {
            assert_eq!(in_the_way(outcome), won[0].0, "round {round}");
        }
    }
    assert_eq!(assert_recount(&*ledger).await, 50);
}

/// Many who read, change and replace one item: each change that succeeded is in the end there, and nothing else is.
pub async fn no_change_is_lost_among_many_writers(ledger: Arc<dyn Ledger>) {
    const CHANGES: u32 = 20;
    let key = JobKey("counter".to_owned());
    let mut job = sample::job(&key.0, TestIds::new(99).rev());
    job.attempts = 0;
    ledger.create(&Item::Job(job)).await.unwrap();
    let writers = (0..TASKS).map(|task| {
        let (ledger, id) = (Arc::clone(&ledger), ItemId::job(&key));
        tokio::spawn(async move {
            let revs = TestIds::new(task);
            for _ in 0..CHANGES {
                add_one(&*ledger, &id, &revs).await;
            }
        })
    });
    join_all(writers).await.into_iter().for_each(Result::unwrap);
    let Some(Item::Job(job)) = ledger.get(&ItemId::job(&key)).await.unwrap() else { panic!("the job is gone") };
    assert_eq!(u64::from(job.attempts), TASKS * u64::from(CHANGES));
}

/// Reads the job, adds one to its attempts, and replaces it, as often as it takes.
pub async fn add_one(ledger: &dyn Ledger, id: &ItemId, revs: &dyn Ids) {
    let mut read = ledger.get(id).await.unwrap().unwrap();
    loop {
        let Item::Job(mut job) = read.clone() else { panic!("{read:?} is no job") };
        job.attempts += 1;
        job.rev = Rev(revs.token());
        match ledger.replace(read.rev(), &Item::Job(job)).await {
            Ok(()) => return,
            Err(ReplaceError::Stale(Some(stored))) => {
                assert_ne!(stored.rev(), read.rev(), "stale although nobody changed it");
                read = *stored;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Writes that are made at once are judged one by one: those that come too late or meet a taken id fail alone.
pub async fn one_bad_write_among_many_hurts_no_other(ledger: Arc<dyn Ledger>) {
    const ITEMS: u64 = 120;
    let revs = TestIds::new(31);
    for n in 0..ITEMS {
        ledger.create(&Item::Job(sample::job(&format!("job-{n}"), revs.rev()))).await.unwrap();
    }
    let writes = (0..ITEMS).map(|n| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let revs = TestIds::new(1000 + n);
            let id = ItemId::job(&JobKey(format!("job-{n}")));
            let stored = ledger.get(&id).await.unwrap().unwrap();
            let next = sample::job_in(&format!("job-{n}"), revs.rev(), State::Consumed, minute(n), None);
            match n % 3 {
                0 => {
                    let late = ledger.replace(&revs.rev(), &Item::Job(next)).await;
                    assert!(matches!(late, Err(ReplaceError::Stale(Some(met))) if *met == stored));
                }
                1 => {
                    let taken = ledger.create(&Item::Job(next)).await;
                    assert!(matches!(taken, Err(CreateError::Exists(met)) if *met == stored));
                }
                _ => ledger.replace(stored.rev(), &Item::Job(next)).await.unwrap(),
            }
        })
    });
    join_all(writes).await.into_iter().for_each(Result::unwrap);
    let counts = ledger.counts().await.unwrap();
    let mut told: Vec<_> = counts.items.iter().map(|count| (count.state, count.items)).collect();
    told.sort_unstable();
    let all = [(State::Reserving, ITEMS * 2 / 3), (State::Consumed, ITEMS / 3)];
    assert_eq!(told, all[..1 + usize::from(counts.has_closed)]);
    assert_recount(&*ledger).await;
}
