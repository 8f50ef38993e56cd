//! Replays that nothing comes between.

use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::batch::row::{End, RowState, story};
use gleaner::app::replay::Outcome;
use gleaner::domain::job::State;
use gleaner::domain::part::PartId;
use gleaner::simulator::Config;

use super::{as_they_were, books_of, count, how, letters, merged, replay_all, replays, rows_in};
use crate::books::{lines_of, rows};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, LEASE, World, tick_of};

#[tokio::test]
async fn rows_that_died_for_good_recover_with_another_model_and_limit() {
    let world = World::with(&["row-safety=0.2"], Config::default(), in_parts_of(30)).await;
    let text = rows(60);
    let run = land_run(&world, &text).await;
    let (_, before) = books_of(&world, &run, &text).await;
    assert!(before.dead.len() > 4 && before.dead.values().all(|(_, attempts)| *attempts == 1));
    world.set_faults(&[]).await;
    let changed = how(Some("gemini-other"), Some("{\"generationConfig\": {\"maxOutputTokens\":\n8192}}"));
    let told = replay_all(&world.engine, &changed).await.unwrap();
    assert_eq!(count(&told, Outcome::Resubmitted), before.dead.len(), "{told:?}");
    let out = rows_in(&world.engine, State::Retryable).await;
    assert_eq!(out.len(), before.dead.len());
    assert!(out.values().all(|row| row.replays == 1 && row.due_at.is_some()));
    assert!(out.values().all(|row| row.letter.reason.as_deref() == Some("a test")));
    let progress = world.progress(&run).await;
    assert_eq!((progress.tally.open, progress.tally.parked), (before.dead.len() as u64, 0));
    merged(&world, &progress).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), books.dead.len()), (60, 0));
    assert_eq!(progress.tally.recovered, before.dead.len() as u64);
    for key in before.dead.keys() {
        assert_eq!(books.values[key].1, 2, "attempts are never reset: {key}");
    }
    assert_eq!(rows_in(&world.engine, State::Recovered).await.len(), before.dead.len());
    let (results, dead) = merged(&world, &progress).await;
    assert_eq!((results.len(), dead.len()), (60, 0));
    let parts = replays(&progress);
    assert_eq!(parts.len(), 2);
    for part in parts {
        let key = gleaner::domain::part::attempt_key(&part.run, &part.part, 1);
        let job = world.jobs().await.into_iter().find(|job| job.key == key).unwrap();
        assert_eq!(job.model, "gemini-other");
        for line in lines_of(&world.engine, &part.rows_at).await {
            assert_eq!(line["request"]["generationConfig"]["maxOutputTokens"], 8192, "{line}");
        }
    }
}

#[tokio::test]
async fn rows_that_die_again_are_the_same_dead_letters_with_more_attempts() {
    let world = World::with(&["row-error-13=0.9", "row-safety=0.1"], Config::default(), in_parts_of(30)).await;
    let text = rows(30);
    let run = land_run(&world, &text).await;
    let (_, before) = books_of(&world, &run, &text).await;
    let first = rows_in(&world.engine, State::Parked).await;
    assert!(before.dead.values().any(|(class, attempts)| class.starts_with("exhausted:") && *attempts == 4));
    for round in 1..=2_u32 {
        let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
        assert_eq!(count(&told, Outcome::Left), 0, "{told:?}");
        let (progress, _) = books_of(&world, &run, &text).await;
        let now = rows_in(&world.engine, State::Parked).await;
        assert!(!now.is_empty());
        for (key, row) in &now {
            let was = &first[key];
            assert_eq!((&row.id, row.first_seen, row.replays), (&was.id, was.first_seen, round));
            assert!(row.attempts > was.attempts, "{row:?}");
            assert!(row.attempts <= was.attempts + 4 * round, "{row:?}");
            assert!(row.part.is_replay() && row.since > was.since, "{row:?}");
        }
        let recovered = rows_in(&world.engine, State::Recovered).await;
        assert_eq!(recovered.len() + now.len(), first.len(), "one dead letter a row");
        merged(&world, &progress).await;
    }
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.parked), (30, 0));
    assert!(rows_in(&world.engine, State::Parked).await.is_empty());
}

#[tokio::test]
async fn a_row_tells_of_its_replays() {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(10)).await;
    let run = land_run(&world, rows(3)).await;
    world.until_over(&run).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let progress = world.progress(&run).await;
    let of = async |key: &str| {
        let progress = world.progress(&run).await;
        story(&world.engine, &progress.intake, &progress.run.unwrap().run, key).await.unwrap().unwrap()
    };
    let waiting = of("row-0").await;
    assert_eq!((waiting.state, waiting.part), (RowState::Waiting, Some(PartId::numbered(1).replay(1))));
    world.tick().await;
    world.tick().await;
    assert_eq!(of("row-0").await.state, RowState::UnderWay);
    world.until_over(&run).await;
    let dead = of("row-0").await;
    assert_eq!((dead.state, dead.attempts.len()), (RowState::Dead, 2));
    assert_eq!(dead.attempts.iter().map(|one| one.number).collect::<Vec<_>>(), [1, 2]);
    assert!(dead.attempts.iter().all(|one| matches!(one.end, End::Died(_))), "{:?}", dead.attempts);
    assert_eq!(dead.dead.as_ref().unwrap().attempts, 2);
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.until_over(&run).await;
    let recovered = of("row-0").await;
    assert_eq!((recovered.state, recovered.attempts.len()), (RowState::Recovered, 3));
    assert_eq!(recovered.attempts[2].end, End::Succeeded);
    assert_eq!(of("行-1").await.state, RowState::Recovered);
    assert_eq!(progress.run.unwrap().run.parts, 1, "parts of replayed rows are no parts of the file");
}

#[tokio::test]
async fn two_people_who_replay_at_once_send_each_row_once() {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    books_of(&world, &run, &text).await;
    world.set_faults(&[]).await;
    let other = world.second();
    let (both, way) = (letters(&world.engine).await, as_they_were());
    let (one, two) = tokio::join!(
        gleaner::app::batch::replay::replay_rows(&world.engine, both.clone(), &way),
        gleaner::app::batch::replay::replay_rows(&other, both, &way),
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(count(&one, Outcome::Resubmitted) + count(&two, Outcome::Resubmitted), 20, "{one:?} {two:?}");
    assert_eq!(count(&one, Outcome::Left) + count(&two, Outcome::Left), 20);
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.recovered), (20, 20));
    assert_eq!(replays(&progress).iter().map(|part| part.rows).sum::<u64>(), 20);
}

#[tokio::test]
async fn a_replay_goes_out_although_its_run_waits_for_a_person() {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(10)).await;
    let text = rows(10);
    let run = land_run(&world, &text).await;
    books_of(&world, &run, &text).await;
    let progress = world.progress(&run).await;
    let hold = |intake: &mut gleaner::domain::intake::Intake, now: gleaner::domain::moves::Now<'_>| {
        let held = gleaner::domain::intake::Held { class: "x".into(), message: "y".into(), since: now.at };
        intake.run.as_mut().unwrap().held = Some(held);
        true
    };
    world.engine.settle_intake(progress.intake, hold).await.unwrap();
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (_, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len(), 10);
}

#[tokio::test]
async fn a_cancelled_run_is_left_and_what_it_had_under_way_is_dead_as_before() {
    let world = World::with(&["row-safety=0.5"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    let (_, before) = books_of(&world, &run, &text).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let progress = world.progress(&run).await;
    cancel_run(&world.engine, progress.intake, "changed my mind").await.unwrap();
    world.tick().await;
    let progress = world.progress(&run).await;
    assert!(progress.is_over());
    assert_eq!((progress.tally.parked, progress.tally.discarded), (before.dead.len() as u64, 0));
    merged(&world, &progress).await;
    let (_, after) = books_of(&world, &run, &text).await;
    assert_eq!(before.dead, after.dead);
    assert_eq!(rows_in(&world.engine, State::Parked).await.len(), before.dead.len());
    let told = replay_all(&world.engine, &as_they_were()).await.unwrap();
    assert_eq!(count(&told, Outcome::Left), before.dead.len());
    assert!(told.iter().all(|(_, _, why)| why.as_ref().unwrap().contains("cancelled (changed my mind)")), "{told:?}");
}

#[tokio::test]
async fn what_a_cancelled_run_had_under_way_for_long_is_dead_again_at_once() {
    let config = Config { latency: HOUR * 3, ..Config::default() };
    let world = World::with(&["row-safety=1"], config, in_parts_of(20)).await;
    let text = rows(5);
    let run = land_run(&world, &text).await;
    books_of(&world, &run, &text).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    world.tick().await;
    world.advance(LEASE * 2);
    world.tick().await;
    assert_eq!(rows_in(&world.engine, State::Retryable).await.len(), 5, "looked at, and put off");
    let progress = world.progress(&run).await;
    cancel_run(&world.engine, progress.intake, "changed my mind").await.unwrap();
    // No time passes.
    for _ in 0..4 {
        world.tick().await;
    }
    assert!(world.progress(&run).await.is_over());
    assert_eq!(rows_in(&world.engine, State::Parked).await.len(), 5);
}

#[tokio::test]
async fn a_replay_that_is_too_large_goes_out_in_halves() {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    books_of(&world, &run, &text).await;
    world.set_faults(&["create-429=1"]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    for _ in 0..200 {
        world.skip().await;
        drop(tick_of(&world.engine).await);
        if world.progress(&run).await.run.unwrap().parts.iter().any(|part| part.halved) {
            break;
        }
    }
    world.set_faults(&["row-safety=0.3"]).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert!(replays(&progress).iter().any(|part| part.part.0 == "1r1a"), "{:?}", replays(&progress));
    assert!(books.dead.len() < 15 && books.values.len() > 5);
    let (results, dead) = merged(&world, &progress).await;
    assert_eq!((results.len(), dead.len()), (books.values.len(), books.dead.len()));
    let row = rows_in(&world.engine, State::Parked).await.into_values().next().unwrap();
    assert!(row.part.0.starts_with("1r1") && row.part.0.len() > 3, "{row:?}");
    let found = story(&world.engine, &progress.intake, &progress.run.unwrap().run, &row.key).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.dead.unwrap().id),
        (RowState::Dead, gleaner::domain::item::ItemId::dead_row(&row.id))
    );
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let (_, books) = books_of(&world, &run, &text).await;
    assert_eq!(books.values.len(), 20);
}

#[tokio::test]
async fn rows_that_a_person_gave_up_are_no_dead_letters_any_more() {
    let world = World::with(&["row-safety=0.5"], Config::default(), in_parts_of(20)).await;
    let text = rows(20);
    let run = land_run(&world, &text).await;
    let (_, before) = books_of(&world, &run, &text).await;
    let row = rows_in(&world.engine, State::Parked).await.into_values().next().unwrap();
    let rev = row.rev.clone();
    let given_up = gleaner::domain::dead::DeadRow { state: State::Discarded, due_at: None, ..row.clone() };
    world.engine.replace(&rev, gleaner::domain::item::Item::DeadRow(given_up)).await.unwrap();
    let progress = world.progress(&run).await;
    assert_eq!((progress.tally.parked, progress.tally.discarded), (before.dead.len() as u64 - 1, 1));
    assert_eq!(progress.wrong_sums(), None);
    world.set_faults(&[]).await;
    replay_all(&world.engine, &as_they_were()).await.unwrap();
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.parked, progress.tally.discarded), (0, 1));
    assert_eq!(progress.wrong_sums(), None);
    let (results, dead) = merged(&world, &progress).await;
    assert_eq!((results.len(), dead.len()), (19, 1));
}
