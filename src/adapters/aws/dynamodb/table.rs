//! The calls to DynamoDB, each with its errors in words.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};

use super::attributes::{Attributes, PK, REV, text};
use super::fault;
use super::spent::{Operation, Spent};
use crate::domain::job::Rev;
use crate::ports::ledger::LedgerError;

/// What must hold for a put.
#[derive(Debug, Clone, Copy)]
pub enum Condition<'a> {
    /// Nothing: it may be made again and again.
    None,
    /// No item is there.
    Absent,
    /// The stored item has this rev.
    Rev(&'a Rev),
}

/// What came of a put.
#[derive(Debug)]
pub enum Put {
    /// It is durable.
    Written,
    /// The condition didn't hold: this is stored, or nothing, or DynamoDB doesn't say.
    Refused(Option<Attributes>),
}

/// A question to an index.
#[derive(Debug, Clone)]
pub struct Question {
    /// The index.
    pub index: &'static str,
    /// The hash key's name, and its value.
    pub hash: (&'static str, String),
    /// The range key's name, and the greatest number that is wanted.
    pub up_to: Option<(&'static str, i64)>,
    /// The attribute that is wanted besides the item's id.
    pub wanted: Option<&'static str>,
    /// Entries of one page at most; none: as many as DynamoDB puts into 1 MB.
    pub page: Option<i32>,
}

/// A page of an index.
#[derive(Debug, Default)]
pub struct Page {
    /// Its entries, in the order of the range key.
    pub entries: Vec<Attributes>,
    /// Where the next page begins; none after the last one.
    pub next: Option<Attributes>,
}

/// The table.
#[derive(Clone)]
pub struct Table {
    client: Client,
    name: String,
    spent: Option<Arc<Spent>>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Table {
    /// The table of that name.
    pub fn new(client: Client, name: String) -> Self {
        Self { client, name, spent: None }
    }

    /// From now on calls ask what they cost.
    pub fn count_in(&mut self, spent: Arc<Spent>) {
        self.spent = Some(spent);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn consumed(&self) -> Option<ReturnConsumedCapacity> {
        self.spent.as_ref().map(|_| ReturnConsumedCapacity::Total)
    }

    /// Writes an item, if the condition holds.
    pub async fn put(&self, item: Attributes, condition: Condition<'_>) -> Result<Put, LedgerError> {
        let doing = format!("writing {}", text(&item, PK).unwrap_or_default());
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item));
        let put = put.set_return_consumed_capacity(self.consumed());
        let put = match condition {
            Condition::None => put,
            Condition::Absent => {
                put.condition_expression("attribute_not_exists(#pk)").expression_attribute_names("#pk", PK)
            }
            Condition::Rev(rev) => put
                .condition_expression("#rev = :read")
                .expression_attribute_names("#rev", REV)
                .expression_attribute_values(":read", AttributeValue::S(rev.0.clone())),
        };
        let put = match condition {
            Condition::None => put,
            _ => put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld),
        };
        match put.send().await {
            Ok(done) => {
                self.add(Operation::PutItem, done.consumed_capacity());
                Ok(Put::Written)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                    Ok(Put::Refused(failed.item().filter(|item| !item.is_empty()).cloned()))
                }
                _ => Err(fault::of(&self.name, doing, &error)),
            },
        }
    }

    /// The item under `id`, as last written by anybody.
    pub async fn get(&self, id: &str) -> Result<Option<Attributes>, LedgerError> {
        let get = self.client.get_item().table_name(&self.name).set_key(Some(key(id))).consistent_read(true);
        let got = get.set_return_consumed_capacity(self.consumed()).send().await;
        let got = got.map_err(|error| fault::of(&self.name, format!("reading {id}"), &error))?;
        self.add(Operation::GetItem, got.consumed_capacity());
        Ok(got.item.filter(|item| !item.is_empty()))
    }

    /// Those of at most 100 different ids that are there, as last written by anybody, and the ids that DynamoDB did
    /// not get to.
    pub async fn get_batch(&self, ids: &[String]) -> Result<(Vec<Attributes>, Vec<String>), LedgerError> {
        let doing = "reading many items";
        let keys = ids.iter().map(|id| key(id)).collect();
        let asked = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let asked = asked.map_err(|error| LedgerError::NeedsPerson(format!("{doing}: {error}; report it")))?;
        let get = self.client.batch_get_item().request_items(&self.name, asked);
        let got = get.set_return_consumed_capacity(self.consumed()).send().await;
        let got = got.map_err(|error| fault::of(&self.name, doing, &error))?;
        self.add(Operation::BatchGetItem, got.consumed_capacity());
        // One table was asked: whatever name it goes by in the answer, what is there is of it.
        let left = got.unprocessed_keys.unwrap_or_default();
        let left = left.values().flat_map(KeysAndAttributes::keys);
        let left = left.filter_map(|key| text(key, PK)).map(str::to_owned).collect();
        Ok((got.responses.unwrap_or_default().into_values().flatten().collect(), left))
    }

    /// A page of an index, after the place where the page before ended.
    pub async fn query(&self, question: &Question, after: Option<Attributes>) -> Result<Page, LedgerError> {
        let (hash, value) = &question.hash;
        let mut names = HashMap::from([("#hash".to_owned(), (*hash).to_owned()), ("#pk".to_owned(), PK.to_owned())]);
        let mut values = HashMap::from([(":hash".to_owned(), AttributeValue::S(value.clone()))]);
        let mut condition = "#hash = :hash".to_owned();
        if let Some((range, greatest)) = question.up_to {
            condition.push_str(" AND #range <= :greatest");
            names.insert("#range".to_owned(), range.to_owned());
            values.insert(":greatest".to_owned(), AttributeValue::N(greatest.to_string()));
        }
        let mut wanted = "#pk".to_owned();
        if let Some(name) = question.wanted {
            wanted.push_str(", #wanted");
            names.insert("#wanted".to_owned(), name.to_owned());
        }
        let query = self
            .client
            .query()
            .table_name(&self.name)
            .index_name(question.index)
            .key_condition_expression(condition)
            .projection_expression(wanted)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values))
            .set_limit(question.page)
            .set_exclusive_start_key(after)
            .set_return_consumed_capacity(self.consumed());
        let page = query.send().await;
        let page = page.map_err(|error| fault::of(&self.name, format!("asking its index {}", question.index), &error))?;
        self.add(Operation::Query, page.consumed_capacity());
        let next = page.last_evaluated_key.filter(|key| !key.is_empty());
        Ok(Page { entries: page.items.unwrap_or_default(), next })
    }

    fn add<'a>(
        &self,
        operation: Operation,
        told: impl IntoIterator<Item = &'a aws_sdk_dynamodb::types::ConsumedCapacity>,
    ) {
        if let Some(spent) = &self.spent {
            spent.add(operation, told);
        }
    }
}

fn key(id: &str) -> Attributes {
    HashMap::from([(PK.to_owned(), AttributeValue::S(id.to_owned()))])
}
