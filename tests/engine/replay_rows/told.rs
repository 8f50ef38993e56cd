//! What keeps rows from being replayed is told before anything is claimed, and by a dry run too.

use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::lines::object_name;
use gleaner::app::replay::{Outcome, Replay};
use gleaner::domain::job::State;
use gleaner::simulator::Config;
use serde_json::value::RawValue;

use super::{books_of, rows_in};
use crate::books::rows;
use crate::replays::{apply, replay_by};
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::World;

async fn dead_rows() -> (World, String) {
    let world = World::with(&["row-safety=1"], Config::default(), in_parts_of(20)).await;
    let text = rows(4);
    let run = land_run(&world, &text).await;
    books_of(&world, &run, &text).await;
    world.set_faults(&[]).await;
    (world, run)
}

/// Each row is left with these words, by a dry run and by a real one, and nothing has changed.
async fn all_left(world: &World, request: Option<&str>, said: &str) {
    let before = rows_in(&world.engine, State::Parked).await;
    for asked in [Replay::default(), apply()] {
        let request = request.map(|request| RawValue::from_string(request.to_owned()).unwrap());
        let replayed = replay_by(&world.engine, &Replay { request, ..asked }).await;
        assert_eq!(replayed.items.len(), 4, "{replayed:?}");
        for item in &replayed.items {
            assert_eq!(item.outcome, Outcome::Left, "{item:?}");
            assert!(item.why.as_deref().unwrap().contains(said), "{item:?}");
        }
    }
    assert_eq!(rows_in(&world.engine, State::Parked).await, before);
}

#[tokio::test]
async fn rows_are_left_whose_request_would_be_bad() {
    let (world, run) = dead_rows().await;
    for (request, said) in [
        (r#"{"contents": null}"#, "its request would be bad: request.contents: must be an array"),
        (r#"{"generationConfig": 7}"#, "its request would be bad: request.generationConfig: must be an object"),
        (r#"{"max_output_tokens": 7}"#, "its request would be bad: request.max_output_tokens: Gemini's request has no"),
        (
            r#"{"generationConfig": {"responseSchema": {"type": 5}}}"#,
            "its request would be bad: request.generationConfig.",
        ),
    ] {
        all_left(&world, Some(request), said).await;
    }
    let progress = world.progress(&run).await;
    assert!(progress.run.unwrap().parts.iter().all(|part| !part.part.is_replay()), "no part was begun for them");
}

#[tokio::test]
async fn rows_are_left_whose_run_was_cancelled_or_whose_file_is_gone() {
    let (world, run) = dead_rows().await;
    let object = world.data().join(object_name(&run));
    let kept = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    all_left(&world, None, "hand the same file in again").await;
    std::fs::write(&object, kept).unwrap();
    let intake = world.progress(&run).await.intake;
    cancel_run(&world.engine, intake, "changed my mind").await.unwrap();
    all_left(&world, None, "was cancelled (changed my mind)").await;
}
