//! A model that no URL can be made of: refused where it is named, and a dead letter where it turns up all the same.

use gleaner::app::gates::closed_gates;
use gleaner::app::land::{LandError, land};
use gleaner::app::report::dead;
use gleaner::app::settings::Settings;
use gleaner::domain::job::{Mode, State};
use gleaner::simulator::Config;

use super::plain::calls;
use crate::books::rows;
use crate::world::{Maker, World};

/// A world whose default model is no model, as one before the check could have it.
async fn without_model() -> World {
    let settings = Settings { model: "models/..".to_owned(), ..Settings::default() };
    World::with(&[], Config::default(), Maker { settings, ..Maker::default() }).await
}

#[tokio::test]
async fn a_line_is_bad_and_a_header_is_refused() {
    let world = World::new(&[]).await;
    let intake = world.land("{\"input\": \"a\", \"mode\": \"call\", \"model\": \"..\"}\n").await;
    assert_eq!(world.until_over(&intake).await.tally.bad_lines, 1);
    let listed = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    assert_eq!(listed[0].class, "bad_line:field");
    assert!(listed[0].message.contains("line 1: model: no URL can be made"), "{}", listed[0].message);
    for mode in ["call", "batch", "interaction"] {
        let text =
            format!("{{\"gleaner\": {{\"mode\": \"{mode}\", \"model\": \"models/.\"}}}}\n{{\"input\": \"a\"}}\n");
        let error = world.try_land("headed.jsonl", text).await.unwrap_err();
        assert!(matches!(&error, LandError::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains("model: no URL can be made"), "{error}");
    }
    assert_eq!(world.requests("generate").await, 0);
}

#[tokio::test]
async fn a_call_is_a_dead_letter_and_closes_no_gate() {
    let world = without_model().await;
    let intake = world.land(calls((0..20).map(|n| format!("Question {n}?")))).await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.parked, tally.possible_duplicates, world.requests("generate").await), (20, 0, 0), "{tally:?}");
    for job in world.jobs().await {
        assert_eq!((job.state, job.class.as_deref(), job.attempts), (State::Parked, Some("permanent:400"), 1));
        assert!(job.message.as_deref().is_some_and(|message| message.contains("no URL can be made of the model")));
    }
    assert!(closed_gates(&world.engine).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_is_dead_and_closes_no_gate() {
    let world = without_model().await;
    let path = world.path("rows.jsonl");
    std::fs::write(&path, rows(3)).unwrap();
    let run = land(&world.engine, &path, Some(Mode::Batch)).await.unwrap().intake.sha256;
    let tally = world.until_over(&run).await.tally;
    assert_eq!((tally.jobs, tally.parked), (3, 3), "{tally:?}");
    let listed = dead(&world.engine, None, None, usize::MAX).await.unwrap();
    assert!(!listed.is_empty());
    for letter in listed {
        assert_eq!(letter.class, "exhausted:permanent:400", "as whatever refuses a part as a whole");
        assert!(letter.message.contains("no URL can be made of the model"), "{}", letter.message);
    }
    assert!(closed_gates(&world.engine).await.unwrap().is_empty());
}
