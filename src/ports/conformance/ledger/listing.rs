//! What is due, and what is in a state.

use std::sync::Arc;

use super::{add, ids, list};
use crate::domain::item::Item;
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ledger::Ledger;
use crate::ports::testing::TestIds;

/// Due items come in the order of their due times, of the wanted states only, up to the limit, at `now` inclusive.
pub async fn due_items_come_longest_due_first(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(11);
    let states = [State::Submitted, State::Retryable, State::Unclear];
    // Written in another order than they are due.
    for n in [7_u64, 2, 9, 4, 0, 5, 3, 8, 1, 6] {
        let state = states[(n % 3) as usize];
        let job = sample::job_in(&format!("job-{n}"), revs.rev(), state, minute(0), Some(minute(n)));
        add(&*ledger, Item::Job(job)).await;
    }
    add(&*ledger, Item::Intake(sample::intake(sample::INTAKE, revs.rev()))).await;

    let minutes = |items: &[Item]| {
        items.iter().map(|item| item.due_at().unwrap().since(minute(0)).as_secs() / 60).collect::<Vec<_>>()
    };
    let due = |states: Vec<State>, now: Millis, limit: usize| {
        let ledger = Arc::clone(&ledger);
        async move { ledger.due(&states, now, limit).await.unwrap() }
    };
    assert_eq!(minutes(&due(states.to_vec(), minute(7), 100).await), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(minutes(&due(states.to_vec(), Millis(minute(7).0 - 1), 100).await), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(minutes(&due(states.to_vec(), minute(7), 3).await), [0, 1, 2]);
    assert_eq!(minutes(&due(vec![State::Retryable], minute(9), 100).await), [1, 4, 7]);
    assert_eq!(minutes(&due(vec![State::Unclear, State::Submitted, State::Unclear], minute(4), 100).await), [0, 2, 3]);
    assert_eq!(due(vec![State::Done], minute(9), 100).await, []);
    assert_eq!(due(vec![], minute(9), 100).await, []);
    assert_eq!(due(states.to_vec(), minute(9), 0).await, []);
    assert_eq!(due(vec![State::Reading], minute(9), 100).await.len(), 1);
    for (n, state) in [State::Waiting, State::UnderWay].into_iter().enumerate() {
        let mut part = sample::part(n as u32 + 1, revs.rev());
        part.enter(state, Some(minute(n as u64 + 1)), minute(0));
        add(&*ledger, Item::Part(Box::new(part))).await;
    }
    assert_eq!(minutes(&due(vec![State::UnderWay, State::Waiting], minute(9), 100).await), [1, 2]);
    assert_eq!(minutes(&due(vec![State::UnderWay], minute(9), 100).await), [2]);
    assert_eq!(due(vec![State::UnderWay], minute(1), 100).await, []);
}

/// Items without a due time are never due, however late it gets, and an item that closes is due no more.
pub async fn nothing_closed_is_ever_due(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(12);
    let every: Vec<State> = State::all().collect();
    let open = add(&*ledger, Item::Job(sample::job("closing", revs.rev()))).await;
    add(&*ledger, Item::Job(sample::job_in("closed", revs.rev(), State::Discarded, minute(0), None))).await;
    add(&*ledger, Item::Gate(sample::gate("everything", revs.rev()))).await;
    add(&*ledger, Item::BadLine(sample::bad_line(1, revs.rev()))).await;
    add(&*ledger, Item::DeadRow(sample::dead_row("row", revs.rev()))).await;
    add(&*ledger, Item::DeadGroup(sample::dead_group("missing", revs.rev()))).await;
    add(&*ledger, Item::Event(sample::event("event", revs.rev()))).await;
    add(&*ledger, Item::Stray(sample::stray("v1_nobodys", revs.rev()))).await;
    let mut settled = sample::part(1, revs.rev());
    settled.enter(State::Settled, None, minute(0));
    add(&*ledger, Item::Part(Box::new(settled))).await;
    assert_eq!(ledger.due(&every, Millis(i64::MAX), 100).await.unwrap(), std::slice::from_ref(&open));

    let closed = Item::Job(sample::job_in("closing", revs.rev(), State::Consumed, minute(1), None));
    ledger.replace(open.rev(), &closed).await.unwrap();
    assert_eq!(ledger.due(&every, Millis(i64::MAX), 100).await.unwrap(), []);
    assert_eq!(ledger.next_due(&every).await.unwrap(), None);
}

/// The next due time is the earliest of the wanted states, past ones too, and follows items as they move.
pub async fn the_next_due_time_follows_every_change(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(13);
    let both = [State::Submitted, State::Retryable];
    assert_eq!(ledger.next_due(&both).await.unwrap(), None);
    let late = sample::job_in("late", revs.rev(), State::Submitted, minute(0), Some(minute(9)));
    let soon = sample::job_in("soon", revs.rev(), State::Retryable, minute(0), Some(minute(3)));
    add(&*ledger, Item::Job(late)).await;
    let soon = add(&*ledger, Item::Job(soon)).await;
    assert_eq!(ledger.next_due(&both).await.unwrap(), Some(minute(3)));
    assert_eq!(ledger.next_due(&[State::Submitted]).await.unwrap(), Some(minute(9)));
    assert_eq!(ledger.next_due(&[]).await.unwrap(), None);

    let moved = Item::Job(sample::job_in("soon", revs.rev(), State::Submitted, minute(1), Some(minute(2))));
    ledger.replace(soon.rev(), &moved).await.unwrap();
    assert_eq!(ledger.next_due(&both).await.unwrap(), Some(minute(2)));
    assert_eq!(ledger.next_due(&[State::Retryable]).await.unwrap(), None);
}

/// Pages of any size hold every item of a state once, by the time they entered it and then by id, although many
/// entered at the same time, and items of several kinds are in it.
pub async fn a_state_is_listed_in_pages_without_gaps(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(14);
    let mut expected = Vec::new();
    for n in 0..20_u64 {
        // Several at each time, in an order that is neither that of ids nor that of times.
        let (mixed, since) = (n * 7 % 20, minute(n % 3));
        let mut bad = sample::bad_line(mixed, revs.rev());
        bad.since = since;
        let job = sample::job_in(&format!("job-{mixed}"), revs.rev(), State::Parked, since, Some(minute(60)));
        let mut row = sample::dead_row(&format!("{mixed}"), revs.rev());
        row.since = since;
        expected.push(add(&*ledger, Item::BadLine(bad)).await);
        expected.push(add(&*ledger, Item::Job(job)).await);
        expected.push(add(&*ledger, Item::DeadRow(row)).await);
        let other = sample::job_in(&format!("other-{n}"), revs.rev(), State::Consumed, since, None);
        add(&*ledger, Item::Job(other)).await;
    }
    expected.sort_by_key(|item| (item.since(), item.id()));
    for page in [1, 2, 3, 7, 60, 100] {
        assert_eq!(ids(&list(&*ledger, State::Parked, page).await), ids(&expected), "pages of {page}");
    }
    assert_eq!(list(&*ledger, State::Parked, 9).await, expected);
    assert_eq!(list(&*ledger, State::GivenUp, 9).await, []);
}
