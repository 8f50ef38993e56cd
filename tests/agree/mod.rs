//! What the queue of dead letters and the ledger say of each other, once things are quiet.

use std::collections::BTreeMap;
use std::time::Duration;

use gleaner::app::drive::OPEN;
use gleaner::app::engine::Engine;
use gleaner::app::letters::{Named, named};
use gleaner::app::report::{every, letter};
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::State;
use gleaner::ports::queue::Message;
use serde_json::Value;

/// Every dead letter has exactly one message in the queue, its current one, and there is no other message. What is open is
/// due some time, and a dead letter at the latest when its message is to be renewed.
///
/// Returns the messages by item.
pub async fn agree(engine: &Engine) -> BTreeMap<ItemId, Value> {
    for state in OPEN {
        for item in every(engine, state, usize::MAX).await.unwrap() {
            assert!(item.letter().is_none() || item.due_at().is_some(), "open and never due: {item:?}");
        }
    }
    let dead = dead_letters(engine).await;
    let mut told: BTreeMap<ItemId, Value> = BTreeMap::new();
    for message in all_messages(engine).await {
        let Named { item: id, number } = named(&message.body).unwrap_or_else(|| panic!("{}", message.body));
        let item = dead.get(&id).unwrap_or_else(|| panic!("a message of no dead letter: {}", message.body));
        assert_eq!(item.letter().map(|letter| letter.number), Some(number), "a stale message: {}", message.body);
        let said = check_body(item, &message.body);
        assert!(told.insert(id, said).is_none(), "two messages: {}", message.body);
    }
    for (id, item) in &dead {
        let letter = item.letter().unwrap();
        assert!(told.contains_key(id), "a dead letter without a message: {item:?}");
        assert!(letter.sent.is_some() && letter.sender.is_none(), "{item:?}");
        assert!(item.due_at() <= Some(letter.due(item.since())), "due too late for its renewal: {item:?}");
    }
    told
}

/// Every dead letter.
pub async fn dead_letters(engine: &Engine) -> BTreeMap<ItemId, Item> {
    let parked = every(engine, State::Parked, usize::MAX).await.unwrap();
    parked.into_iter().filter(|item| item.letter().is_some()).map(|item| (item.id(), item)).collect()
}

/// A message says what `dead` says, and what was asked or where that lies.
fn check_body(item: &Item, body: &str) -> Value {
    assert!(body.is_ascii() && body.len() < 200_000, "{body}");
    let said: Value = serde_json::from_str(body).unwrap();
    let listed = serde_json::to_value(letter(item).unwrap()).unwrap();
    for (name, value) in listed.as_object().unwrap() {
        assert_eq!(said[name], *value, "{name} of {}", item.id());
    }
    let bad_line = matches!(item, Item::BadLine(_));
    assert!(bad_line || said["payload"].is_null() != said["payload_at"].is_null(), "{body}");
    assert!(said["payload_trouble"].is_null(), "{body}");
    said
}

/// Every message that can be received, each once; they are visible again afterwards.
pub async fn all_messages(engine: &Engine) -> Vec<Message> {
    let mut all = Vec::new();
    loop {
        let some = engine.dead_letters.receive(10, Duration::from_secs(3600)).await.unwrap();
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    for message in &all {
        engine.dead_letters.release(message).await.unwrap();
    }
    all
}
