//! Rows that are replayed by plain calls.

use std::collections::BTreeMap;
use std::time::Duration;

use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::batch::replay::{How, replay_rows};
use gleaner::app::engine::Engine;
use gleaner::app::replay::{Outcome, Replay, RowsBy, replay};
use gleaner::domain::job::{Job, State};
use gleaner::ports::ids::Ids;
use gleaner::ports::testing::TestIds;
use gleaner::simulator::Config;

use super::{as_they_were, books_of, count, how, letters, merged, replay_all, replays, rows_in};
use crate::books::{lines_of, rows};
use crate::intakes::killed_tick;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, LEASE, World};

/// Shorter than any wait of the program.
const MOMENT: Duration = Duration::from_millis(500);

fn by_call(how: How) -> How {
    How { by: RowsBy::Call, ..how }
}

/// A run of so many rows, all dead, and nothing goes wrong any more.
async fn dead_rows(count: usize, seed: u64) -> (World, String, String) {
    let config = Config { seed, ..Config::default() };
    let world = World::with(&["row-safety=1"], config, in_parts_of(count as u64)).await;
    let text = rows(count);
    let run = land_run(&world, &text).await;
    world.until_over(&run).await;
    world.set_faults(&[]).await;
    (world, run, text)
}

/// The attempts that were made by calls.
async fn calling(world: &World) -> Vec<Job> {
    let mut jobs = world.jobs().await;
    jobs.retain(|job| job.batch.as_ref().is_some_and(|attempt| attempt.calls.is_some()));
    jobs
}

/// How many rows have an outcome of their own in the attempts of a run.
fn outcomes(world: &World, run_key: &str) -> usize {
    let folder = world.data().join("runs").join(run_key);
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let calls = folders.filter(|path| path.extension().is_some_and(|end| end == "calls"));
    let files = calls.flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).count()
}

async fn run_key(world: &World, run: &str) -> String {
    world.progress(run).await.run.unwrap().run.key
}

fn asked_for() -> Replay {
    let request = r#"{"generationConfig": {"maxOutputTokens": 8192}}"#.to_owned();
    Replay {
        dry_run: false,
        model: Some("gemini-other".to_owned()),
        request: Some(serde_json::value::RawValue::from_string(request).unwrap()),
        rows_by: RowsBy::Call,
        reason: Some("urgent".to_owned()),
        limit: 100,
        ..Replay::default()
    }
}

#[tokio::test]
async fn rows_recover_at_once_with_another_model_and_limit() {
    let (world, run, text) = dead_rows(20, 1).await;
    let replayed = replay(&world.engine, &asked_for(), world.now().plus(HOUR)).await.unwrap();
    assert_eq!((replayed.scanned, replayed.recovered, replayed.resubmitted), (20, 20, 0), "{replayed:?}");
    let calls = world.calls().await;
    assert_eq!(calls.len(), 20, "one call a row");
    assert!(calls.iter().all(|call| call["status"] == 200), "{:?}", calls[0]);
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), progress.tally.recovered, progress.tally.parked), (20, 20, 0));
    assert!(books.values.values().all(|(_, attempts)| *attempts == 2), "attempts are never reset");
    assert_eq!(rows_in(&world.engine, State::Recovered).await.len(), 20);
    let (results, dead) = merged(&world, &progress).await;
    assert_eq!((results.len(), dead.len()), (20, 0));
    let job = calling(&world).await.pop().unwrap();
    assert_eq!((job.state, job.attempts, job.possible_duplicates), (State::Consumed, 1, 0), "{job:?}");
    let asked = world.log().await.into_iter().filter(|entry| entry["kind"] == "call");
    assert!(asked.into_iter().all(|entry| entry["model"] == "gemini-other"));
    for line in lines_of(&world.engine, &replays(&progress)[0].rows_at).await {
        assert_eq!(line["request"]["generationConfig"]["maxOutputTokens"], 8192, "{line}");
    }
    assert_eq!(world.requests("generate").await, 20, "nothing was asked later");
}

#[tokio::test]
async fn rows_that_die_again_are_told_at_once() {
    let (world, run, text) = dead_rows(6, 2).await;
    world.set_faults(&["blocked=1"]).await;
    let replayed = replay(&world.engine, &asked_for(), world.now().plus(HOUR)).await.unwrap();
    assert_eq!((replayed.scanned, replayed.recovered, replayed.still_failing), (6, 0, 6), "{replayed:?}");
    let why = replayed.items[0].why.as_deref().unwrap();
    assert!(why.starts_with("blocked:"), "{why}");
    let (progress, _) = books_of(&world, &run, &text).await;
    assert_eq!((progress.tally.recovered, progress.tally.parked), (0, 6));
    let parked = rows_in(&world.engine, State::Parked).await;
    assert!(parked.values().all(|row| row.attempts == 2 && row.replays == 1), "{parked:?}");
}

#[tokio::test]
async fn a_replay_whose_time_is_over_goes_on_by_the_ticks() {
    let (world, run, text) = dead_rows(5, 3).await;
    let replayed = replay(&world.engine, &asked_for(), world.now()).await.unwrap();
    assert_eq!((replayed.resubmitted, world.calls().await.len()), (5, 0), "{replayed:?}");
    let (progress, _) = books_of(&world, &run, &text).await;
    assert_eq!((progress.tally.recovered, world.calls().await.len()), (5, 5));
}

#[tokio::test]
async fn a_process_that_is_about_to_end_begins_no_call() {
    let (world, run, text) = dead_rows(5, 4).await;
    let short = Engine { ends: Some(world.now().plus(Duration::from_secs(30))), ..world.second() };
    let replayed = replay(&short, &asked_for(), world.now().plus(HOUR)).await.unwrap();
    assert_eq!((replayed.resubmitted, world.calls().await.len()), (5, 0), "{replayed:?}");
    books_of(&world, &run, &text).await;
    assert_eq!(world.calls().await.len(), 5);
}

#[tokio::test]
async fn in_bad_weather_each_row_recovers_or_is_a_dead_letter_again() {
    for seed in 1..=3 {
        let (world, run, text) = dead_rows(40, seed).await;
        world.set_faults(&["call-429=0.1", "call-500=0.1", "call-503=0.1"]).await;
        let told = replay_all(&world.engine, &by_call(as_they_were())).await.unwrap();
        assert_eq!(count(&told, Outcome::Resubmitted), 40, "{told:?}");
        let (progress, books) = books_of(&world, &run, &text).await;
        assert_eq!(books.values.len() + books.dead.len(), 40, "seed {seed}");
        assert!(books.values.len() > 30, "seed {seed}: 0.3^4 of them die");
        merged(&world, &progress).await;
        let attempts = books.values.values().map(|(_, attempts)| *attempts);
        let attempts: Vec<u64> = attempts.chain(books.dead.values().map(|(_, attempts)| *attempts)).collect();
        // One attempt each was the batch's; each other one was a call.
        let calls = world.calls().await.len() as u64;
        assert_eq!(attempts.iter().map(|attempts| attempts - 1).sum::<u64>(), calls, "seed {seed}");
        assert!(attempts.iter().any(|attempts| *attempts > 2) && attempts.iter().all(|attempts| *attempts <= 5));
        for (class, attempts) in books.dead.values() {
            assert!(class.starts_with("exhausted:") && *attempts == 5, "seed {seed}: {class} {attempts}");
        }
        let jobs = calling(&world).await;
        assert!(jobs.len() > 1 && jobs.iter().all(|job| job.attempts == 1), "seed {seed}");
        // A 5xx may have been paid: the call after it is told.
        let duplicates: u32 = jobs.iter().map(|job| job.possible_duplicates).sum();
        assert!(duplicates > 0, "seed {seed}");
        for pair in replays(&progress)[0].attempts.windows(2) {
            assert!(pair[1].rows <= pair[0].rows && pair[1].rows < 30, "only what failed goes out again: {pair:?}");
        }
        let row = rows_in(&world.engine, State::Recovered).await;
        assert_eq!(row.len(), books.values.len());
    }
}

#[tokio::test]
async fn a_refused_key_costs_no_row_an_attempt() {
    let (world, run, text) = dead_rows(5, 5).await;
    world.set_faults(&["key-rejected=1"]).await;
    let replayed = replay(&world.engine, &asked_for(), world.now().plus(MOMENT)).await.unwrap();
    assert_eq!(replayed.resubmitted, 5, "{replayed:?}");
    assert!(replayed.trouble.as_ref().is_some_and(|why| why.contains("operator:key")), "{replayed:?}");
    world.set_faults(&[]).await;
    world.advance(HOUR * 24);
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((progress.tally.recovered, progress.tally.parked), (5, 0));
    assert!(books.values.values().all(|(_, attempts)| *attempts == 2), "{:?}", books.values);
    assert!(calling(&world).await.iter().all(|job| job.possible_duplicates == 0), "a refusal is no doubt");
}

#[tokio::test]
async fn a_gemini_out_of_reach_costs_no_row_an_attempt() {
    let (world, run, text) = dead_rows(5, 6).await;
    let replayed = replay(&world.unreachable(), &asked_for(), world.now().plus(MOMENT)).await.unwrap();
    assert_eq!((replayed.resubmitted, &replayed.trouble), (5, &None), "{replayed:?}");
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!(progress.tally.recovered, 5);
    assert!(books.values.values().all(|(_, attempts)| *attempts == 2), "{:?}", books.values);
    assert_eq!(world.calls().await.len(), 5);
    assert!(calling(&world).await.iter().all(|job| job.possible_duplicates == 0));
}

#[tokio::test]
async fn a_run_that_is_cancelled_has_no_call_made() {
    let (world, run, text) = dead_rows(5, 7).await;
    replay_all(&world.engine, &by_call(as_they_were())).await.unwrap();
    let short = Engine { ends: Some(world.now().plus(Duration::from_secs(30))), ..world.second() };
    crate::world::tick_of(&short).await.unwrap();
    cancel_run(&world.engine, world.progress(&run).await.intake, "changed my mind").await.unwrap();
    let (progress, _) = books_of(&world, &run, &text).await;
    assert_eq!((progress.tally.recovered, progress.tally.parked, world.calls().await.len()), (0, 5, 0));
    assert_eq!(rows_in(&world.engine, State::Parked).await.len(), 5, "dead as before");
}

#[tokio::test]
async fn killed_at_each_moment_of_three_calls() {
    for polls in 1..400 {
        let (world, run, text) = dead_rows(3, 8).await;
        replay_all(&world.engine, &by_call(as_they_were())).await.unwrap();
        world.tick().await;
        let key = run_key(&world, &run).await;
        let ended = killed_tick(&world.second(), polls).await;
        world.check().await;
        let durable = outcomes(&world, &key);
        world.advance(LEASE);
        let (progress, _) = books_of(&world, &run, &text).await;
        assert_eq!((progress.tally.recovered, progress.tally.parked), (3, 0), "killed at {polls}");
        let all = world.requests("generate").await;
        let jobs = calling(&world).await;
        let told: u32 = jobs.iter().map(|job| job.possible_duplicates).sum();
        assert!(all <= 3 + u64::from(told), "killed at {polls}: {all} calls, {told} told");
        assert!(told as usize <= 3 - durable, "killed at {polls}: who has an outcome is not asked again");
        assert!(jobs.iter().all(|job| job.state == State::Consumed && job.attempts == 1), "killed at {polls}");
        merged(&world, &progress).await;
        if ended {
            assert!(polls > 20, "it has only {polls} moments");
            assert_eq!((all, told), (3, 0));
            return;
        }
    }
    panic!("three calls have more than 400 moments");
}

#[tokio::test]
async fn killed_at_any_moment_in_bad_weather() {
    let mut kills = 0;
    for seed in 1..=5 {
        let (world, run, text) = dead_rows(20, seed).await;
        world.set_faults(&["call-500=0.1", "call-503=0.1", "call-429=0.1"]).await;
        replay_all(&world.engine, &by_call(as_they_were())).await.unwrap();
        let dice = TestIds::new(seed * 7919);
        for _ in 0..25 {
            let polls = 1 + (dice.fraction() * 80.0) as u32;
            kills += u32::from(!killed_tick(&world.second(), polls).await);
            world.check().await;
            world.advance([LEASE, HOUR][usize::from(dice.fraction() < 0.5)]);
        }
        let mut progress = world.until_over(&run).await;
        while progress.run.as_ref().unwrap().attempts_parked() > 0 {
            assert!(gleaner::app::consume::hand_on_again(&world.engine, &run).await.unwrap() > 0);
            world.tick().await;
            progress = world.until_over(&run).await;
        }
        let (progress, books) = books_of(&world, &run, &text).await;
        assert_eq!(books.values.len() + books.dead.len(), 20, "seed {seed}");
        merged(&world, &progress).await;
        let told: u64 = calling(&world).await.iter().map(|job| u64::from(job.possible_duplicates)).sum();
        let attempts = books.values.values().map(|(_, attempts)| *attempts);
        let attempts: u64 = attempts.chain(books.dead.values().map(|(_, attempts)| *attempts)).sum();
        let calls = world.requests("generate").await;
        assert!(calls <= attempts - 20 + told, "seed {seed}: {calls} calls, {attempts} attempts, {told} told");
        world.set_faults(&[]).await;
        let letters = letters(&world.engine).await;
        replay_rows(&world.engine, letters, &by_call(how(Some("gemini-other"), None))).await.unwrap();
        let (_, books) = books_of(&world, &run, &text).await;
        assert_eq!(books.values.len(), 20, "seed {seed}");
    }
    assert!(kills > 20, "only {kills} ticks were killed");
}

#[tokio::test]
async fn the_same_calls_make_the_same_object() {
    let (world, run, text) = dead_rows(4, 9).await;
    replay_all(&world.engine, &by_call(as_they_were())).await.unwrap();
    let two = [&world.engine, &world.second()];
    world.until_over_by(&two, &run).await;
    let (progress, books) = books_of(&world, &run, &text).await;
    assert_eq!((books.values.len(), world.calls().await.len()), (4, 4));
    let job = calling(&world).await.pop().unwrap();
    let lines = lines_of(&world.engine, job.answer.as_deref().unwrap()).await;
    let sent = lines_of(&world.engine, &replays(&progress)[0].rows_at).await;
    let keys = |lines: &[serde_json::Value]| -> Vec<String> {
        lines.iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&lines), keys(&sent), "in the order of the rows");
    let by_key: BTreeMap<String, _> = keys(&lines).into_iter().zip(lines).collect();
    assert!(by_key.values().all(|line| line["response"]["candidates"].is_array()), "{by_key:?}");
}
