//! What the ledger costs: write units of a job's life, requests of an idle tick, and whether DynamoDB is asked for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gleaner::adapters::aws::dynamodb::{Operation, Spent, Units};
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::letter::RENEWED_AFTER;
use gleaner::ports::conformance::sample;
use gleaner::ports::ledger::Ledger;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;

use super::emulator::Kind;
use super::table::{behind_proxy, ledger, operations};
use super::units::{Written, written};
use super::world::World;

/// The goal (design, section 11): write units of an interaction from its reservation until it is consumed.
const GOAL: usize = 11;

/// Items that are written at once where many are needed.
const TOGETHER: usize = 32;

/// Runs `jobs` jobs to their end, and returns all that was written, after checking it against what the emulator says.
async fn run(jobs: usize, config: Config) -> Vec<Written> {
    let world = World::new(config).await;
    let intake = world.land(jobs).await;
    let over = world.until_over(&intake).await;
    assert_eq!((over.tally.consumed, over.tally.jobs), (jobs as u64, jobs as u64));
    world.written()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interaction_costs_at_most_11_write_units_from_reserve_to_consumed() {
    let written = run(40, Config { polls_until_done: 0, ..Config::default() }).await;
    let mut lives: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for put in written.iter().filter(|put| put.pk.starts_with("job/")) {
        lives.entry(&put.pk).or_default().push((&put.state, put.units));
        assert!(put.bytes <= 1024, "{put:?}");
    }
    assert_eq!(lives.len(), 40);
    for (pk, life) in &lives {
        assert_eq!(life, &[("reserving", 2), ("submitted", 4), ("done", 3), ("consumed", 2)], "{pk}");
        assert!(life.iter().map(|(_, units)| units).sum::<usize>() <= GOAL);
    }
    let largest = written.iter().filter(|put| put.pk.starts_with("job/")).map(|put| put.bytes).max();
    let others: usize = written.iter().filter(|put| !put.pk.starts_with("job/")).map(|put| put.units).sum();
    println!("the largest item of a job has {largest:?} bytes; intake and gates: {others} units for 40 jobs");
    assert!(others < 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_finds_it_running_costs_3_write_units() {
    let written = run(5, Config { polls_until_done: 2, ..Config::default() }).await;
    let looks: Vec<&Written> =
        written.iter().filter(|put| put.state == "submitted" && put.was.as_deref() == Some("submitted")).collect();
    assert!(looks.len() >= 10, "{}", looks.len());
    assert!(looks.iter().all(|look| look.units == 3), "{looks:?}");
    let jobs = written.iter().filter(|put| put.pk.starts_with("job/"));
    assert_eq!(jobs.map(|put| put.units).sum::<usize>(), 5 * GOAL + 3 * looks.len());
}

/// Of a job: the number of its message before it is sent, and afterwards that it was. Again when it is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_dead_letter_costs_6_write_units() {
    let faults = Faults::parse(["blocked=1"]).unwrap();
    let world = World::new(Config { faults, polls_until_done: 0, ..Config::default() }).await;
    let intake = world.land(5).await;
    assert_eq!(world.until_over(&intake).await.tally.parked, 5);
    world.tick().await;
    world.advance(RENEWED_AFTER + Duration::from_secs(3600));
    world.tick().await;
    let written = world.written();
    let told: Vec<usize> = written
        .iter()
        .filter(|put| put.state == "parked" && put.was.as_deref() == Some("parked"))
        .map(|put| put.units)
        .collect();
    assert_eq!(told, [3; 5 * 4], "sent once, and renewed once");
    assert_eq!(world.messages().await, 5, "and the old ones are gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_tick_asks_the_same_whatever_is_closed() {
    const CLOSED: usize = 3000;
    let world = World::new(Config::default()).await;
    let idle = async || {
        world.proxy.take_seen();
        let before = world.spent.so_far();
        assert!(world.tick().await.was_idle());
        let read = |spent: &BTreeMap<Operation, Units>| spent.values().map(|units| units.read).sum::<f64>();
        (operations(&world.proxy), read(&world.spent.so_far()) - read(&before))
    };
    let (with_none, read) = idle().await;
    let revs = TestIds::new(1);
    let closed = [State::Consumed, State::Recovered, State::Discarded];
    let jobs: Vec<Item> = (0..CLOSED)
        .map(|n| {
            let mut job = sample::job_in(&format!("job-{n}"), revs.rev(), closed[n % 3], sample::minute(1), None);
            job.handles = vec![sample::handle(&format!("v1_{n}"))];
            Item::Job(job)
        })
        .collect();
    for jobs in jobs.chunks(TOGETHER) {
        futures::future::try_join_all(jobs.iter().map(|job| world.ledger.create(job))).await.unwrap();
    }
    assert_eq!(idle().await, (with_none.clone(), read));
    // Ten states in four shards, and nothing else: half a read unit each.
    assert_eq!(with_none, [("Query".to_owned(), 40)].into());
    println!("an idle tick: {with_none:?}, {read} read units");
}

#[tokio::test]
async fn an_event_costs_2_write_units() {
    let (proxy, ledger) = behind_proxy().await;
    let spent = Arc::new(Spent::default());
    let ledger = ledger.counting(Arc::clone(&spent));
    let revs = TestIds::new(1);
    let taken = Item::Event(sample::event("0123456789abcdef0123456789abcdef", revs.rev()));
    ledger.create(&taken).await.unwrap();
    let handled = Item::Event(sample::handled_event("0123456789abcdef0123456789abcdef", revs.rev()));
    ledger.replace(taken.rev(), &handled).await.unwrap();
    let written = written(&proxy.take_seen());
    let states: Vec<_> = written.iter().map(|put| (put.state.as_str(), put.units)).collect();
    assert_eq!(states, [("taken", 1), ("handled", 1)]);
    assert_eq!(spent.so_far()[&Operation::PutItem], Units { calls: 2, read: 0.0, write: 2.0 });
    assert_eq!(ledger.forget(sample::minute(1_000_000), 100).await.unwrap(), 0, "DynamoDB does so by itself");
    assert_eq!(proxy.take_seen().len(), 0);
    // What DynamoDB has not deleted yet is there as ever: the event would be a duplicate for longer.
    assert_eq!(ledger.get(&taken.id()).await.unwrap(), Some(handled));
}

#[tokio::test]
async fn what_is_told_is_summed_up_by_operation() {
    let spent = Arc::new(Spent::default());
    let ledger = ledger(Kind::Moto).await.counting(Arc::clone(&spent));
    assert!(spent.so_far().is_empty());
    let revs = TestIds::new(1);
    let items: Vec<Item> = (0..150).map(|n| Item::Job(sample::job(&format!("job-{n}"), revs.rev()))).collect();
    for item in &items {
        ledger.create(item).await.unwrap();
    }
    let ids: Vec<_> = items.iter().map(Item::id).collect();
    assert_eq!(ledger.get_many(&ids).await.unwrap().len(), 150);
    let so_far = spent.so_far();
    assert_eq!(so_far[&Operation::BatchGetItem], Units { calls: 2, read: 150.0, write: 0.0 });
    // moto knows of no sizes and no indexes: a put is one unit to it.
    assert_eq!(so_far[&Operation::PutItem], Units { calls: 150, read: 0.0, write: 150.0 });
}

#[tokio::test]
async fn nobody_is_asked_for_the_cost_unless_somebody_counts() {
    let (proxy, ledger) = behind_proxy().await;
    let revs = TestIds::new(1);
    for item in sample::one_of_each(|| revs.rev()) {
        ledger.create(&item).await.unwrap();
    }
    ledger.counts().await.unwrap();
    ledger.get_many(&[sample::one_of_each(|| revs.rev())[0].id()]).await.unwrap();
    let seen = proxy.take_seen();
    assert!(seen.len() > 10 && seen.iter().all(|seen| seen.json().get("ReturnConsumedCapacity").is_none()));
}
