//! The port's suite, and races from several clients.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use futures::future::join_all;
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{JobKey, Rev};
use gleaner::ports::conformance::{ledger as rules, sample};
use gleaner::ports::ids::Ids;
use gleaner::ports::ledger::{CreateError, Ledger};
use gleaner::ports::testing::TestIds;

use super::emulator::Kind;
use super::table::{create_table, emulator, ledger};

async fn pass_every_rule(kind: Kind) {
    let made = std::cell::Cell::new(0);
    rules::all(async || {
        made.set(made.get() + 1);
        ledger(kind).await
    })
    .await;
    assert!(made.get() > 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_a_ledger_on_ministack() {
    pass_every_rule(Kind::Ministack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_a_ledger_on_moto() {
    pass_every_rule(Kind::Moto).await;
}

/// Clients that share nothing, as those of as many processes.
const CLIENTS: u64 = 3;
const TASKS: u64 = 4;
const CONTESTED: u64 = 60;
const ADDED: u64 = 10;

async fn race(kind: Kind) {
    let emulator = emulator(kind).await;
    let table = create_table(&emulator.config()).await;
    let counter = ItemId::job(&JobKey("counter".to_owned()));
    let open = || DynamoLedger::new(Client::new(&emulator.config()), table.clone());
    let looking = open();
    let mut job = sample::job("counter", Rev("first".to_owned()));
    job.attempts = 0;
    looking.create(&Item::Job(job)).await.unwrap();

    let tasks = (0..CLIENTS).flat_map(|client| {
        let ledger = Arc::new(open());
        (0..TASKS).map(move |task| (client, Arc::clone(&ledger), TestIds::new(100 * client + task)))
    });
    let tasks = tasks.map(|(client, ledger, ids)| {
        let counter = counter.clone();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for n in 0..CONTESTED {
                let item = Item::Job(sample::job(&format!("contested-{n}"), Rev(ids.token())));
                match ledger.create(&item).await {
                    Ok(()) => won.push((client, item.id(), item.rev().clone())),
                    Err(CreateError::Exists(winner)) => assert_ne!(winner.rev(), item.rev()),
                    Err(error) => panic!("{error}"),
                }
                if n % (CONTESTED / ADDED) == 0 {
                    rules::add_one(&*ledger, &counter, &ids).await;
                }
            }
            won
        })
    });
    let won: Vec<_> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(won.len() as u64, CONTESTED, "an id was won twice or never");
    for (_, id, rev) in &won {
        assert_eq!(looking.get(id).await.unwrap().unwrap().rev(), rev, "{id} is not the winner's");
    }
    let Some(Item::Job(counted)) = looking.get(&counter).await.unwrap() else { panic!("it is gone") };
    assert_eq!(u64::from(counted.attempts), CLIENTS * TASKS * ADDED, "a change was lost or made under a stale rev");
    assert_eq!(rules::assert_recount(&looking).await, CONTESTED + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_clients_of_ministack_one_wins_each_id() {
    race(Kind::Ministack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_clients_of_moto_one_wins_each_id() {
    race(Kind::Moto).await;
}
