//! Late results and replays: whichever comes first, a key has one result.

use std::time::Duration;

use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::replay::Outcome;
use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::{as_they_were, books_of, count, merged, replay_all, replays, rows_in};
use crate::books::rows;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, LEASE, World, tick_of};

fn with_deadline(text: &str, deadline: &str) -> String {
    format!("{{\"gleaner\": {{\"deadline\": \"{deadline}\"}}}}\n{text}")
}

#[tokio::test]
async fn rows_that_a_late_result_may_settle_are_left() {
    let config = Config { latency: 12 * HOUR, ..Config::default() };
    let world = World::with(&["row-safety=0.2"], config, in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    world.until_over(&run).await;
    for _ in 0..5 {
        let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
        assert_eq!(count(&told, Outcome::Left), 20, "{told:?}");
        let why = told[0].2.clone().unwrap();
        assert!(why.contains("was given up and may still bring its result; it is looked at again at 2026-"), "{why}");
    }
    // Looking in between takes nothing from the later looks.
    let open = world.jobs().await.into_iter().filter(|job| job.state == State::GivenUp);
    assert!(open.flat_map(|job| job.handles).all(|handle| handle.looks == 0));
    // They have ended meanwhile, and nobody has looked: the replay does.
    world.advance(13 * HOUR);
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (recovered, left) = (count(&told, Outcome::Recovered), count(&told, Outcome::Resubmitted));
    assert!(recovered > 10 && recovered + left == 20, "{told:?}");
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len() + books.dead.len(), 20);
    merged(&world, &progress).await;
    world.pass(60 * HOUR, HOUR).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert!(books.values.len() >= recovered);
    merged(&world, &progress).await;
}

#[tokio::test]
async fn what_nothing_can_bring_any_more_goes_out_again_as_a_possible_duplicate() {
    let config = Config { batch_expiry: Some(2 * HOUR), ..Config::default() };
    let world = World::with(&["batch-stuck=1"], config, in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    let before = world.until_over(&run).await.tally.possible_duplicates;
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    assert_eq!(count(&told, Outcome::Left), 20, "{told:?}");
    world.pass(60 * HOUR, HOUR).await;
    world.set_faults(&[]).await;
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    assert_eq!(count(&told, Outcome::Resubmitted), 20, "{told:?}");
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.possible_duplicates), (20, before + 1));
    assert!(books.values.values().all(|(_, attempt)| *attempt == 5));
}

#[tokio::test]
async fn a_replay_that_is_given_up_itself_is_settled_by_its_own_late_result() {
    let world =
        World::with(&["row-safety=1"], Config { latency: HOUR / 2, ..Config::default() }, in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "40m")).await;
    world.until_over(&run).await;
    // Now each attempt takes longer than it may.
    world.set_faults(&["batch-stuck=1"]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.until_over(&run).await;
    let parked = rows_in(&world.engine, State::Parked).await;
    assert!(parked.values().all(|row| row.class == "exhausted:deadline" && row.attempts == 5), "{parked:?}");
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    assert_eq!(count(&told, Outcome::Left), 20, "{told:?}");
    world.set_faults(&[]).await;
    world.pass(80 * HOUR, HOUR).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len() + books.dead.len(), 20);
    merged(&world, &progress).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len(), 20, "{:?}", replays(&progress));
}

#[tokio::test]
async fn a_slow_maker_can_finish_nothing_once_its_lease_is_over() {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    world.until_over(&run).await;
    world.set_faults(&[]).await;
    for polls in [12, 20, 28, 36, 44, 52] {
        let engine = world.second();
        let (letters, way) = (super::letters(&engine).await, as_they_were());
        let mut slow = Box::pin(gleaner::app::batch::replay::replay_rows(&engine, letters, &way));
        let ended = crate::intakes::stalled(&mut slow, polls).await;
        let begun = world.progress(&run).await.run.unwrap().parts.iter().any(|part| part.is_unfinished());
        world.advance(LEASE);
        drop(tick_of(&world.engine).await);
        world.advance(Duration::from_secs(1));
        drop(tick_of(&world.engine).await);
        // It wakes up.
        if !ended && !begun {
            drop(slow);
        } else if !ended {
            let told = slow.await.unwrap();
            assert_eq!(count(&told, Outcome::Left), told.len(), "stalled at {polls}: {told:?}");
        }
        let (progress, books) = books_of(&world, &run, &text).await;
        merged(&world, &progress).await;
        if books.dead.is_empty() {
            return;
        }
        assert_eq!((books.dead.len(), replays(&progress).len()), (20, 0), "stalled at {polls}");
    }
}

#[tokio::test]
async fn a_late_outcome_that_cannot_be_taken_blocks_no_part() {
    // The first attempt is given up after an hour and ends after an hour and a half: late, and its output comes short.
    let config = Config { latency: Duration::from_secs(90 * 60), ..Config::default() };
    let world = World::with(&[], config, in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    world.pass(Duration::from_secs(70 * 60), Duration::from_secs(60)).await;
    assert_eq!(world.progress(&run).await.run.unwrap().attempts(), 2);
    let first = world.jobs().await.into_iter().find(|job| job.state == State::GivenUp).unwrap();
    // It has ended at Gemini by now; a replay, say, looks at it, and cannot take it.
    world.advance(Duration::from_secs(30 * 60));
    world.set_faults(&["download-cut-silent=1"]).await;
    gleaner::app::batch::look::look(&world.engine, &first, &[first.handles[0].id.clone()]).await.unwrap();
    let state = async || world.jobs().await.into_iter().find(|job| job.key == first.key).unwrap().state;
    for _ in 0..100 {
        if state().await == State::Parked {
            break;
        }
        world.advance(Duration::from_secs(601));
        let job = world.jobs().await.into_iter().find(|job| job.key == first.key).unwrap();
        if job.state == State::Done && job.due_at.is_some_and(|due| due <= world.now()) {
            drop(gleaner::app::batch::settle::take(&world.engine, &job).await);
        }
    }
    assert_eq!(state().await, State::Parked, "its output could not be taken");
    let part = world.progress(&run).await.run.unwrap().parts.remove(0);
    assert!(part.intent.as_ref().is_some_and(|intent| intent.late), "{part:?}");
    // The others go on, and end late as well: their later looks find what came of them.
    world.set_faults(&[]).await;
    world.until_over(&run).await;
    world.pass(60 * HOUR, HOUR).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len(), 20);
    assert_eq!(progress.run.unwrap().attempts_parked(), 1);
}

#[tokio::test]
async fn a_replay_that_was_cancelled_with_its_run_is_settled_by_its_late_result_all_the_same() {
    let config = Config { latency: Duration::from_secs(90 * 60), ..Config::default() };
    let world = World::with(&["row-refused=1"], config, in_parts_of(20)).await;
    let text = rows(5);
    let run = land_run(&world, with_deadline(&text, "1h")).await;
    let (_, before) = books_of(&world, &run, &text).await;
    assert_eq!(before.dead.len(), 5);
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.pass(Duration::from_secs(80 * 60), Duration::from_secs(60)).await;
    let progress = world.progress(&run).await;
    assert_eq!(replays(&progress)[0].attempts.len(), 2, "the first one is given up");
    world.advance(Duration::from_secs(15 * 60));
    cancel_run(&world.engine, progress.intake, "no").await.unwrap();
    world.tick().await;
    let (progress, _) = books_of(&world, &run, &text).await;
    assert_eq!((progress.tally.parked, progress.tally.discarded), (5, 0), "dead as before");
    assert_eq!(rows_in(&world.engine, State::Parked).await.len(), 5);
    world.pass(60 * HOUR, HOUR).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.recovered, progress.tally.parked), (5, 5, 0));
    assert_eq!(rows_in(&world.engine, State::Recovered).await.len(), 5);
    merged(&world, &progress).await;
}
