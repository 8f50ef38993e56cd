//! What is swept out of the queue, and what is left in it.

use std::collections::BTreeMap;
use std::time::Duration;

use gleaner::app::cancel::{cancel_bad_line, cancel_job};
use gleaner::app::drive::drive;
use gleaner::app::letters::sweep;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;

use super::{BAD, with_dead_letters};
use crate::agree::{agree, all_messages, dead_letters};
use crate::world::{HOUR, World, lines};

/// One job and the bad line are closed by a person.
async fn close_two(world: &World) {
    for item in dead_letters(&world.engine).await.into_values() {
        match item {
            Item::BadLine(bad) => drop(cancel_bad_line(&world.engine, bad, "not needed").await.unwrap()),
            Item::Job(job) if job.input.line == 1 => {
                drop(cancel_job(&world.engine, job, "not needed").await.unwrap());
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_a_person_has_settled_is_due_no_more_and_its_message_goes_with_the_next_sweep() {
    let world = with_dead_letters(3).await;
    let before = world.agree().await.len();
    close_two(&world).await;
    for item in gleaner::app::report::every(&world.engine, State::Discarded, 10).await.unwrap() {
        assert_eq!(item.due_at(), None);
    }
    assert_eq!(all_messages(&world.engine).await.len(), before, "nobody has swept");
    world.advance(HOUR);
    for _ in 0..10 {
        world.tick().await;
        world.advance(Duration::from_secs(31));
    }
    assert_eq!(agree(&world.engine).await.len(), before - 2);
}

/// How often each message was received before this look, which counts as one.
async fn receives(world: &World) -> BTreeMap<String, u32> {
    all_messages(&world.engine).await.into_iter().map(|message| (message.body, message.receives - 1)).collect()
}

#[tokio::test]
async fn what_is_left_is_visible_at_once_and_a_process_sweeps_twice_a_minute_at_most() {
    let world = with_dead_letters(12).await;
    let mut before = receives(&world).await;
    assert!(before.len() > 20, "{}", before.len());
    // How long after the last one, and how many messages are looked at: a handful, of which none is stale.
    for (wait, handful) in [(3600, 10), (29, 0), (1, 10), (0, 0), (31, 10)] {
        world.advance(Duration::from_secs(wait));
        world.tick().await;
        let after = receives(&world).await;
        assert_eq!(after.len(), before.len(), "each is there at once");
        let looked_at = after.iter().filter(|(body, receives)| **receives == before[*body] + 2).count();
        assert_eq!(looked_at, handful, "after {wait} s");
        before = after;
    }
}

#[tokio::test]
async fn messages_of_others_are_left_there() {
    let world = with_dead_letters(1).await;
    let foreign = [
        "hello".to_owned(),
        "{}".to_owned(),
        r#"{"item": "job/of-another-ledger", "number": 1}"#.to_owned(),
        format!("{{\"gleaner_object\": \"messages/{}.json\"}}", world.engine.ids.token()),
    ];
    world.engine.dead_letters.send(&foreign).await.into_iter().for_each(|sent| sent.unwrap());
    for _ in 0..3 {
        world.advance(HOUR);
        world.tick().await;
    }
    let bodies: Vec<String> = all_messages(&world.engine).await.into_iter().map(|message| message.body).collect();
    assert!(foreign.iter().all(|body| bodies.contains(body)), "{bodies:?}");
}

#[tokio::test]
async fn a_message_that_came_twice_is_dropped_once() {
    let world = with_dead_letters(1).await;
    let bodies: Vec<String> = all_messages(&world.engine).await.into_iter().map(|message| message.body).collect();
    world.engine.dead_letters.send(&bodies).await.into_iter().for_each(|sent| sent.unwrap());
    let swept = sweep(&world.engine, world.now().plus(HOUR)).await.unwrap();
    assert_eq!((swept.dropped, swept.seen), (2, 6), "the second handful has no stale one");
    assert_eq!(agree(&world.engine).await.len(), 2);
}

#[tokio::test]
async fn a_run_leaves_one_message_for_each_dead_letter() {
    let world = World::new(&["blocked=1"]).await;
    let intake = world.land(lines(12) + BAD).await;
    let clock = world.clock.clone();
    let pump = tokio::spawn(async move {
        loop {
            clock.advance(Duration::from_millis(500));
            crate::world::a_moment().await;
        }
    });
    let drove = drive(&world.engine, &intake, |_, _| ()).await.unwrap();
    pump.abort();
    assert_eq!((drove.progress.tally.parked, drove.progress.bad_lines_parked), (12, 1));
    assert_eq!(agree(&world.engine).await.len(), 13);
}
