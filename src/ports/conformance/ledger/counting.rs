//! Counts and totals.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{add, list};
use crate::domain::item::{Item, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ledger::Ledger;
use crate::ports::testing::TestIds;

/// An empty ledger has no items, counts, totals or handles.
pub async fn an_empty_ledger_answers_with_nothing(ledger: Arc<dyn Ledger>) {
    assert_eq!(ledger.counts().await.unwrap().items, []);
    for intake in [sample::INTAKE, ""] {
        assert_eq!(ledger.totals(intake).await.unwrap().unwrap_or_default(), []);
    }
    assert_eq!(ledger.by_handle("").await.unwrap(), None);
    assert_eq!(list(&*ledger, State::Parked, 10).await, []);
}

/// After many changes, refused ones among them, counts and totals are what counting the items gives.
pub async fn counts_and_totals_equal_a_recount(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(21);
    let has_closed = ledger.counts().await.unwrap().has_closed;
    let mut seen = 0;
    for item in sample::one_of_each(|| revs.rev()) {
        let item = add(&*ledger, item).await;
        seen += u64::from(has_closed || item.state().is_listed());
    }
    for n in 0..12_u64 {
        let mut job = sample::job(&format!("job-{n}"), revs.rev());
        job.input.intake = format!("{:064x}", n % 2);
        let mut stored = add(&*ledger, Item::Job(job.clone())).await;
        for step in 0..n {
            let state = State::OF_JOBS[((n * 5 + step * 3) % 10) as usize];
            job.enter(state, (!state.is_ended()).then(|| minute(step + 1)), minute(step));
            job.possible_duplicates += u32::from(state == State::Unclear);
            job.rev = revs.rev();
            ledger.replace(stored.rev(), &Item::Job(job.clone())).await.unwrap();
            stored = Item::Job(job.clone());
            // Neither of these changes anything.
            ledger.replace(&revs.rev(), &Item::Job(sample::job(&job.key.0, revs.rev()))).await.unwrap_err();
            ledger.create(&Item::Job(sample::job(&job.key.0, revs.rev()))).await.unwrap_err();
        }
        seen += u64::from(has_closed || stored.state().is_listed());
    }
    let states = [State::Waiting, State::UnderWay, State::Parked, State::Settled];
    for n in 2..9_u32 {
        let mut part = sample::part(n, revs.rev());
        let mut stored = add(&*ledger, Item::Part(Box::new(part.clone()))).await;
        for step in 0..n {
            part.enter(states[(step % 4) as usize], Some(minute(9)), minute(u64::from(step)));
            part.rev = revs.rev();
            ledger.replace(stored.rev(), &Item::Part(Box::new(part.clone()))).await.unwrap();
            stored = Item::Part(Box::new(part.clone()));
        }
        let mut row = sample::dead_row(&format!("row-{n}"), revs.rev());
        row.state = if n % 2 == 0 { State::Recovered } else { State::Parked };
        let row = add(&*ledger, Item::DeadRow(row)).await;
        seen +=
            [stored.state(), row.state()].map(|state| u64::from(has_closed || state.is_listed())).iter().sum::<u64>();
    }
    assert_eq!(assert_recount(&*ledger).await, seen);
    assert!(seen > 10, "{seen}");
}

/// Totals are of one intake: its jobs and bad lines, parts and dead rows, with their possible duplicates.
pub async fn totals_are_those_of_one_intake(ledger: Arc<dyn Ledger>) {
    let revs = TestIds::new(22);
    let other = format!("{:064x}", 7);
    for (key, intake, state, duplicates) in [
        ("a", sample::INTAKE, State::Consumed, 2),
        ("b", sample::INTAKE, State::Consumed, 1),
        ("c", sample::INTAKE, State::Parked, 0),
        ("d", other.as_str(), State::Consumed, 9),
    ] {
        let mut job = sample::job_in(key, revs.rev(), state, minute(1), None);
        job.input.intake = intake.to_owned();
        job.possible_duplicates = duplicates;
        add(&*ledger, Item::Job(job)).await;
    }
    add(&*ledger, Item::BadLine(sample::bad_line(1, revs.rev()))).await;
    add(&*ledger, Item::Intake(sample::intake(sample::INTAKE, revs.rev()))).await;
    add(&*ledger, Item::Part(Box::new(sample::part(1, revs.rev())))).await;
    add(&*ledger, Item::DeadRow(sample::dead_row("row", revs.rev()))).await;
    add(&*ledger, Item::DeadGroup(sample::dead_group("blocked:SAFETY", revs.rev()))).await;

    let Some(mut totals) = ledger.totals(sample::INTAKE).await.unwrap() else { return };
    totals.sort_by_key(|total| (total.kind, total.state));
    let totals: Vec<_> =
        totals.iter().map(|total| (total.kind, total.state, total.items, total.possible_duplicates)).collect();
    assert_eq!(
        totals,
        [
            (Kind::Job, State::Consumed, 2, 3),
            (Kind::Job, State::Parked, 1, 0),
            (Kind::BadLine, State::Parked, 1, 0),
            (Kind::Part, State::UnderWay, 1, 0),
            (Kind::DeadRow, State::Parked, 1, 0),
            (Kind::DeadGroup, State::Parked, 1, 0),
        ]
    );
}

/// Lists every item that the ledger lists and checks that [`Ledger::counts`] and [`Ledger::totals`] say the same.
/// Returns how many there are.
pub async fn assert_recount(ledger: &dyn Ledger) -> u64 {
    let told = ledger.counts().await.unwrap();
    let mut listed = 0;
    let mut counts: BTreeMap<(Kind, State), (u64, Option<Millis>)> = BTreeMap::new();
    let mut totals: BTreeMap<(String, Kind, State), (u64, u64)> = BTreeMap::new();
    for state in State::all() {
        if !told.has_closed && !state.is_listed() {
            continue;
        }
        for item in list(ledger, state, 1000).await {
            assert_eq!(item.state(), state);
            listed += 1;
            if !told.has_closed && state == State::Read {
                continue;
            }
            let count = counts.entry((item.kind(), state)).or_default();
            count.0 += 1;
            count.1 = Some(count.1.map_or(item.since(), |oldest| oldest.min(item.since())));
            if let Some(intake) = item.intake() {
                let total = totals.entry((intake.to_owned(), item.kind(), state)).or_default();
                total.0 += 1;
                total.1 += u64::from(item.possible_duplicates());
            }
        }
    }
    let told = told.items.iter().map(|count| ((count.kind, count.state), (count.items, count.oldest)));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), counts);

    let intakes: std::collections::BTreeSet<String> = totals.keys().map(|(intake, ..)| intake.clone()).collect();
    let mut told = BTreeMap::new();
    for intake in intakes {
        let Some(found) = ledger.totals(&intake).await.unwrap() else { return listed };
        for total in found {
            told.insert((intake.clone(), total.kind, total.state), (total.items, total.possible_duplicates));
        }
    }
    assert_eq!(told, totals);
    listed
}
