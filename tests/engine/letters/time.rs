//! Weeks go by: messages are renewed before the queue forgets them, and none is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner::domain::item::ItemId;
use serde_json::Value;

use super::forgetful::Forgetful;
use super::with_dead_letters;
use crate::agree::{all_messages, dead_letters};
use crate::world::{HOUR, MINUTE, World};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The number of each dead letter's message.
fn numbers(told: &BTreeMap<ItemId, Value>) -> BTreeMap<ItemId, u64> {
    told.iter().map(|(id, said)| (id.clone(), said["number"].as_u64().unwrap())).collect()
}

fn forgetful(world: &mut World) -> Arc<Forgetful> {
    let queue = Arc::new(Forgetful::new(world.engine.dead_letters.clone(), world.clock.clone()));
    world.engine.dead_letters = queue.clone();
    queue
}

#[tokio::test]
async fn a_message_is_renewed_after_ten_days_and_the_old_one_is_dropped() {
    let mut world = with_dead_letters(1).await;
    forgetful(&mut world);
    let told = world.agree().await;
    assert_eq!(told.len(), 2, "a job and a bad line: {told:?}");
    assert!(numbers(&told).values().all(|number| *number == 1), "each was sent once: {told:?}");
    let sent: Vec<_> = dead_letters(&world.engine).await.values().map(|item| item.letter().unwrap().sent).collect();
    let first = sent.iter().min().unwrap().unwrap();
    world.clock.set(first.plus(DAY * 10 - Duration::from_millis(1)));
    world.tick().await;
    assert_eq!(numbers(&world.agree().await), numbers(&told), "not before");
    world.advance(HOUR);
    // Sent first, then the old ones are dropped, in one tick.
    let ticked = world.tick().await;
    assert_eq!(ticked.collected.stepped, 2);
    let messages = all_messages(&world.engine).await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(numbers(&world.agree().await).values().all(|number| *number == 2));
    // What they say is the same, but for the number.
    let [mut before, mut after] = [told, world.agree().await];
    for said in before.values_mut().chain(after.values_mut()) {
        said.as_object_mut().unwrap().remove("number");
    }
    assert_eq!(before, after);
    assert_eq!(world.tick().await.collected.stepped, 0, "and then nothing for another ten days");
}

#[tokio::test]
async fn nothing_is_lost_in_sixty_days_of_odd_ticks_and_days_off() {
    let mut world = with_dead_letters(4).await;
    let dead = dead_letters(&world.engine).await;
    assert!(dead.len() > 8 && dead.keys().any(|id| id.0.starts_with("row/")), "{}", dead.len());
    let queue = forgetful(&mut world);
    world.agree().await;
    let start = world.now();
    let mut hours = [5_u32, 29, 1, 13, 47, 7].into_iter().cycle();
    while world.now().since(start) < DAY * 60 {
        let age = world.now().since(start);
        // Twice the machine is off for three days, the first time right before the messages are to be renewed.
        let off = [DAY * 9, DAY * 40].iter().any(|at| age >= *at && age < *at + DAY);
        world.advance(if off { DAY * 3 } else { HOUR * hours.next().unwrap() + MINUTE * 17 });
        // Whoever looks at any time finds each of them.
        let seen = all_messages(&world.engine).await;
        for id in dead.keys() {
            assert!(seen.iter().any(|message| message.body.contains(&id.0)), "{id} is not in the queue after {age:?}");
        }
        world.tick().await;
        world.tick().await;
        let told = world.agree().await;
        assert_eq!(told.keys().collect::<Vec<_>>(), dead.keys().collect::<Vec<_>>());
    }
    assert_eq!(queue.forgotten.load(Ordering::SeqCst), 0);
    assert!(numbers(&world.agree().await).values().all(|number| (6..=8).contains(number)));
    // A machine that is off for longer than the queue remembers has lost the messages, and no dead letter.
    world.advance(DAY * 16);
    assert_eq!(all_messages(&world.engine).await.len(), 0);
    assert!(queue.forgotten.load(Ordering::SeqCst) >= dead.len() as u64);
    world.tick().await;
    assert_eq!(world.agree().await.len(), dead.len());
}

#[tokio::test]
async fn two_ticks_at_once_send_one() {
    let world = with_dead_letters(4).await;
    let dead = world.agree().await.len();
    for round in 2..5_u64 {
        world.advance(DAY * 10 + HOUR);
        let engines = [world.second(), world.second(), world.second()];
        futures::future::join_all(engines.iter().map(crate::world::tick_of)).await.into_iter().for_each(|ticked| {
            ticked.unwrap();
        });
        let told = numbers(&world.agree().await);
        assert_eq!(told.len(), dead);
        assert!(told.values().all(|number| *number == round), "one new one each: {told:?}");
    }
}
