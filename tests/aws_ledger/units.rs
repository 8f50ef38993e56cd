//! What puts cost, from the requests themselves and the rules that DynamoDB documents: nothing that an emulator says
//! comes into it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::emulator::proxy::Seen;

/// Bytes of one write unit.
const UNIT: usize = 1024;

/// The indexes of the table: hash key, range key, and what else they hold besides the table's key.
const INDEXES: [(&str, Option<&str>, &[&str]); 2] = [("open", Some("due"), &["since"]), ("handle", None, &[])];

type Attributes = Map<String, Value>;

/// A put as DynamoDB carried it out.
#[derive(Debug)]
pub struct Written {
    /// The item's id.
    pub pk: String,
    /// The state that the item came into, empty for what is no item.
    pub state: String,
    /// The state that it was in before.
    pub was: Option<String>,
    /// Its bytes.
    pub bytes: usize,
    /// What it cost.
    pub units: usize,
}

/// Every put among `seen`, in order, on a table that was empty before. One whose condition did not hold costs what the
/// item that it met weighs.
pub fn written(seen: &[Seen]) -> Vec<Written> {
    let mut table: BTreeMap<String, Attributes> = BTreeMap::new();
    let puts = seen.iter().filter(|seen| seen.operation() == "PutItem");
    puts.map(|seen| put(&mut table, &seen.json())).collect()
}

fn put(table: &mut BTreeMap<String, Attributes>, request: &Value) -> Written {
    let after = request["Item"].as_object().unwrap().clone();
    let pk = text(&after, "pk").unwrap().to_owned();
    let before = table.get(&pk).cloned();
    let holds = match request["ConditionExpression"].as_str() {
        None => true,
        Some("attribute_not_exists(#pk)") => before.is_none(),
        Some("#rev = :read") => {
            let read = request["ExpressionAttributeValues"][":read"]["S"].as_str();
            before.as_ref().is_some_and(|before| text(before, "rev") == read)
        }
        Some(other) => panic!("what does {other} cost?"),
    };
    let sizes = before.iter().chain(holds.then_some(&after)).map(size);
    let mut units = sizes.max().unwrap_or(0).div_ceil(UNIT).max(1);
    let (state, was) = (
        text(&after, "state").unwrap_or_default().to_owned(),
        before.as_ref().and_then(|before| text(before, "state")),
    );
    let (was, bytes) = (was.map(str::to_owned), size(&after));
    if holds {
        units += INDEXES.iter().map(|index| index_units(index, before.as_ref(), &after)).sum::<usize>();
        table.insert(pk.clone(), after);
    }
    Written { pk, state, was, bytes, units }
}

/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes>
fn index_units(index: &(&str, Option<&str>, &[&str]), before: Option<&Attributes>, after: &Attributes) -> usize {
    let (hash, range, included) = index;
    let keys: Vec<&str> = [*hash].into_iter().chain(*range).collect();
    let entry = |item: &Attributes| -> Option<Attributes> {
        let has_keys = keys.iter().all(|key| item.contains_key(*key));
        let names = keys.iter().chain(included.iter()).chain(&["pk"]);
        has_keys.then(|| names.filter_map(|name| Some(((*name).to_owned(), item.get(*name)?.clone()))).collect())
    };
    let cost = |entry: &Attributes| size(entry).div_ceil(UNIT);
    match (before.and_then(entry), entry(after)) {
        (None, None) => 0,
        (None, Some(entry)) | (Some(entry), None) => cost(&entry),
        (Some(old), Some(new)) if old == new => 0,
        (Some(old), Some(new)) if keys.iter().all(|key| old[*key] == new[*key]) => cost(&old).max(cost(&new)),
        (Some(old), Some(new)) => cost(&old) + cost(&new),
    }
}

fn text<'a>(item: &'a Attributes, name: &str) -> Option<&'a str> {
    item.get(name)?["S"].as_str()
}

/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>
fn size(item: &Attributes) -> usize {
    item.iter().map(|(name, value)| name.len() + size_of(value)).sum()
}

fn size_of(value: &Value) -> usize {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "S" => value.as_str().unwrap().len(),
        "N" => {
            // A byte for two digits, wherever the pairs begin.
            let digits = value.as_str().unwrap().trim_start_matches('-').trim_matches('0').len();
            2 + digits / 2 + usize::from(value.as_str().unwrap().starts_with('-'))
        }
        "BOOL" | "NULL" => 1,
        "L" => 3 + value.as_array().unwrap().iter().map(|value| 1 + size_of(value)).sum::<usize>(),
        "M" => {
            let map = value.as_object().unwrap();
            3 + map.len() + size(map)
        }
        other => panic!("nothing writes {other}"),
    }
}
