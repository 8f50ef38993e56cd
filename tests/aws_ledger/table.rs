//! Tables on the emulators. The real one is made by the stack's template; this is what it must look like.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use tokio::sync::OnceCell;

use super::emulator::proxy::{Proxy, Verdict};
pub use super::emulator::table::create_table;
use super::emulator::{Emulator, Kind, config};

/// The emulator of that kind, one for all tests of this binary.
pub async fn emulator(kind: Kind) -> &'static Emulator {
    static MINISTACK: OnceCell<Emulator> = OnceCell::const_new();
    static MOTO: OnceCell<Emulator> = OnceCell::const_new();
    let cell = match kind {
        Kind::Ministack => &MINISTACK,
        Kind::Moto => &MOTO,
    };
    cell.get_or_init(|| Emulator::start(kind)).await
}

/// The ledger in a fresh table of an emulator.
pub async fn ledger(kind: Kind) -> DynamoLedger {
    let config = emulator(kind).await.config();
    let table = create_table(&config).await;
    DynamoLedger::new(Client::new(&config), table)
}

/// A client of the AWS at `url` that asks again without waiting for long, and has tries of its own to use up: what it
/// would wait for is made by a proxy.
pub fn hasty(url: &str) -> Client {
    let config = config(url);
    let retries = config.retry_config().unwrap().clone();
    let retries = retries.with_initial_backoff(Duration::from_millis(1)).with_max_backoff(Duration::from_millis(5));
    let partition = RetryPartition::new(url.to_owned());
    Client::from_conf(Builder::from(&config).retry_config(retries).retry_partition(partition).build())
}

/// The ledger in a fresh table of ministack, behind a proxy that passes everything on.
pub async fn behind_proxy() -> (Proxy, DynamoLedger) {
    let emulator = emulator(Kind::Ministack).await;
    let proxy = Proxy::start(&emulator.url(), |_| Verdict::Pass).await;
    let table = create_table(&emulator.config()).await;
    let ledger = DynamoLedger::new(hasty(&proxy.url), table);
    (proxy, ledger)
}

/// How often each operation went by, and forgets it.
pub fn operations(proxy: &Proxy) -> BTreeMap<String, usize> {
    let mut operations = BTreeMap::new();
    for seen in proxy.take_seen() {
        *operations.entry(seen.operation().to_owned()).or_default() += 1;
    }
    operations
}
