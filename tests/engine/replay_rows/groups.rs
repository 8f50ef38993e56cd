//! Grouped dead letters: more than a thousand rows of one class.

use gleaner::app::batch::replay::replay_rows;
use gleaner::app::replay::{Outcome, Replay};
use gleaner::domain::dead::DeadGroup;
use gleaner::domain::intake::Intake;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::domain::moves::Now;
use gleaner::simulator::Config;

use super::{as_they_were, books_of, count, letters, merged, replay_all, replays, rows_in};
use crate::books::{Books, rows};
use crate::intakes::killed;
use crate::replays::replay_by;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{LEASE, World};

async fn groups_in(world: &World, state: State) -> Vec<DeadGroup> {
    let items = gleaner::app::report::every(&world.engine, state, usize::MAX).await.unwrap().into_iter();
    items
        .filter_map(|item| match item {
            Item::DeadGroup(group) => Some(group),
            _ => None,
        })
        .collect()
}

/// A run of 1,300 rows in two parts, of which all have died: one group of them.
async fn all_dead() -> (World, String, String, Books) {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(1200)).await;
    let text = rows(1300);
    let run = land_run(&world, &text).await;
    let (_, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.dead.len(), 1300);
    let [group] = &groups_in(&world, State::Parked).await[..] else { panic!("one group") };
    assert!(group.count() >= 1200, "{group:?}");
    (world, run, text, books)
}

/// The group's replay has ended, and the group knows: nobody waits for another tick.
async fn group_ends(world: &World) {
    assert!(groups_in(world, State::Retryable).await.is_empty());
}

#[tokio::test]
async fn a_group_is_replayed_and_recovers() {
    let (world, run, text, _) = all_dead().await;
    world.set_faults(&[]).await;
    let [group] = &groups_in(&world, State::Parked).await[..] else { panic!("one group") };
    let only_it = || Replay { ids: Some(vec![format!("rows/{}/{}", group.run, group.class)]), ..Replay::default() };
    let dry = replay_by(&world.engine, &only_it()).await;
    assert_eq!((dry.items[0].outcome, dry.items[0].rows), (Outcome::WouldReplay, Some(group.count())), "{dry:?}");
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    assert_eq!(count(&told, Outcome::Left), 0, "{told:?}");
    let [group] = &groups_in(&world, State::Retryable).await[..] else { panic!("one group") };
    assert!(group.replays == 1 && group.rows.is_empty() && !group.replayed_in.is_empty(), "{group:?}");
    world.until_over(&run).await;
    group_ends(&world).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.recovered, progress.tally.parked), (1300, 1300, 0));
    assert_eq!(groups_in(&world, State::Recovered).await.len(), 1);
    let (results, dead) = merged(&world, &progress).await;
    assert_eq!((results.len(), dead.len()), (1300, 0));
    assert_eq!(replays(&progress).iter().map(|part| part.rows).sum::<u64>(), 1300);
}

#[tokio::test]
async fn rows_of_a_group_that_die_again_are_dead_letters_as_usual() {
    let (world, run, text, _) = all_dead().await;
    // Too few of another class for a group.
    world.set_faults(&["row-prompt-blocked=0.3"]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.until_over(&run).await;
    group_ends(&world).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(groups_in(&world, State::Recovered).await.len(), 1, "each of them ended in another way");
    let parked = rows_in(&world.engine, State::Parked).await;
    assert!(books.dead.len() > 200 && parked.len() == books.dead.len(), "{} {}", books.dead.len(), parked.len());
    assert!(parked.values().all(|row| row.attempts == 2 && row.class == "blocked:PROHIBITED_CONTENT"));
    merged(&world, &progress).await;
    // And once more, by their own.
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (_, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len(), 1300);
}

#[tokio::test]
async fn a_group_that_dies_alike_once_more_is_the_same_group() {
    let (world, run, text, _) = all_dead().await;
    let intake = world.progress(&run).await.intake;
    let let_go = |intake: &mut Intake, _: Now<'_>| intake.run.as_mut().is_some_and(|run| run.held.take().is_some());
    assert!(world.engine.settle_intake(intake, let_go).await.unwrap().run.unwrap().held.is_none());
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.until_over(&run).await;
    group_ends(&world).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    let [group] = &groups_in(&world, State::Parked).await[..] else { panic!("one group") };
    assert!(progress.intake.run.as_ref().unwrap().held.is_none(), "a replay holds nothing up");
    assert_eq!(books.dead.len(), 1300);
    assert!(group.replays == 1 && group.taken.is_empty(), "{group:?}");
    assert!(group.rows.keys().all(|entry| entry.contains('r')), "{group:?}");
    assert!(books.dead.values().all(|(_, attempts)| *attempts == 2));
    merged(&world, &progress).await;
    // Once more, and half of them recover; what is left is still the same group.
    world.set_faults(&["row-safety=0.5"]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.until_over(&run).await;
    group_ends(&world).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert!((500..800).contains(&books.values.len()), "{}", books.values.len());
    assert!(books.dead.values().all(|(_, attempts)| *attempts == 3));
    merged(&world, &progress).await;
    let [group] = &groups_in(&world, State::Parked).await[..] else { panic!("one group") };
    // It is given up: those rows are no dead letters any more.
    let rev = group.rev.clone();
    let given_up = DeadGroup { state: State::Discarded, due_at: None, ..group.clone() };
    world.engine.replace(&rev, Item::DeadGroup(given_up)).await.unwrap();
    let progress = world.progress(&run).await;
    let dead = books.dead.len() as u64;
    assert_eq!((progress.tally.discarded, progress.tally.parked), (group.count(), dead - group.count()));
    assert_eq!(progress.wrong_sums(), None);
}

#[tokio::test]
async fn a_replay_of_a_group_that_is_killed_loses_no_row() {
    let (mut polls, mut ended) = (3, false);
    while !ended {
        let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(1002)).await;
        let text = rows(1003);
        let run = land_run(&world, &text).await;
        world.until_over(&run).await;
        world.set_faults(&[]).await;
        let (all, way, engine) = (letters(&world.engine).await, as_they_were(), world.second());
        ended = killed(replay_rows(&engine, all, &way), polls).await;
        assert_eq!(world.progress(&run).await.wrong_sums(), None);
        world.advance(LEASE);
        world.tick().await;
        world.until_over(&run).await;
        group_ends(&world).await;
        books_of(&world, &run, &text).await;
        replay_all(&world.engine, &as_they_were()).await.unwrap();
        world.until_over(&run).await;
        group_ends(&world).await;
        let (progress, books) = books_of(&world, &run, &text).await;
        assert_eq!((books.values.len(), progress.tally.recovered), (1003, 1003), "killed at {polls}");
        assert_eq!(groups_in(&world, State::Parked).await.len(), 0, "killed at {polls}");
        polls += 7;
    }
    assert!(polls > 20, "it has only {polls} moments");
}
