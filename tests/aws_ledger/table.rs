//! Tables on the emulators. The real one is made by the stack's template; this is what it must look like.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use gleaner::adapters::aws::dynamodb::DynamoLedger;
use tokio::sync::OnceCell;

use super::emulator::proxy::{Proxy, Verdict};
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

/// Makes a table of a name that no other test has.
pub async fn create_table(config: &SdkConfig) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let name = format!("gleaner-{}", MADE.fetch_add(1, Ordering::SeqCst));
    let attribute =
        |name: &str, of| AttributeDefinition::builder().attribute_name(name).attribute_type(of).build().unwrap();
    let key = |name: &str, of| KeySchemaElement::builder().attribute_name(name).key_type(of).build().unwrap();
    let due = GlobalSecondaryIndex::builder()
        .index_name("due")
        .key_schema(key("open", KeyType::Hash))
        .key_schema(key("due", KeyType::Range))
        .projection(Projection::builder().projection_type(ProjectionType::Include).non_key_attributes("since").build());
    let handle = GlobalSecondaryIndex::builder()
        .index_name("handle")
        .key_schema(key("handle", KeyType::Hash))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build());
    Client::new(config)
        .create_table()
        .table_name(&name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute("pk", ScalarAttributeType::S))
        .attribute_definitions(attribute("open", ScalarAttributeType::S))
        .attribute_definitions(attribute("due", ScalarAttributeType::N))
        .attribute_definitions(attribute("handle", ScalarAttributeType::S))
        .key_schema(key("pk", KeyType::Hash))
        .global_secondary_indexes(due.build().unwrap())
        .global_secondary_indexes(handle.build().unwrap())
        .send()
        .await
        .unwrap();
    name
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
