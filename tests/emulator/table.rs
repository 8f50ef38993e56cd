//! A table like the one of the stack's template.

use std::sync::atomic::{AtomicU64, Ordering};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};

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
