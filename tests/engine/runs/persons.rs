//! What people do: letting a run go on that waits for them, cancelling one.

use gleaner::app::batch::cancel::cancel_run;
use gleaner::app::batch::hold::let_go_on;
use gleaner::domain::item::Item;
use gleaner::domain::job::State;
use gleaner::simulator::Config;

use super::plain::{in_parts_of, land_run};
use crate::books::{audit, row, rows};
use crate::world::{HOUR, World};

#[tokio::test]
async fn many_rows_that_die_alike_make_one_dead_letter_and_hold_the_run_up() {
    let mut maker = in_parts_of(600);
    maker.settings.parts.at_once = 2;
    let world = World::with(&["row-safety=1"], Config::default(), maker).await;
    let text = rows(2400);
    let run = land_run(&world, &text).await;
    for _ in 0..60 {
        world.tick().await;
        world.skip().await;
    }
    let progress = world.progress(&run).await;
    let held = progress.run.as_ref().unwrap().run.held.clone().unwrap();
    assert_eq!(held.class, "blocked:SAFETY");
    let sent = world.accepted().await;
    assert!(sent < 4, "the next parts wait: {sent}");
    world.pass(5 * HOUR, HOUR).await;
    assert_eq!(world.accepted().await, sent);
    let let_go = let_go_on(&world.engine, progress.intake).await.unwrap();
    assert_eq!(let_go, Some(held));
    world.set_faults(&["row-safety=0.5"]).await;
    let progress = world.until_over(&run).await;
    audit(&world.engine, &progress, &text).await;
    let parked = gleaner::app::report::every(&world.engine, State::Parked, 10_000).await.unwrap();
    let groups: Vec<_> = parked.iter().filter(|item| matches!(item, Item::DeadGroup(_))).collect();
    assert_eq!(groups.len(), 1);
    assert!(parked.len() < 1300, "{}", parked.len());
}

#[tokio::test]
async fn a_cancelled_run_is_stopped_here_and_at_gemini() {
    for ignored in [false, true] {
        let faults: &[&str] = if ignored { &["cancel-ignored=1"] } else { &[] };
        let mut maker = in_parts_of(10);
        maker.settings.parts.at_once = 2;
        let config = Config { polls_until_done: 2, latency: HOUR, ..Config::default() };
        let world = World::with(faults, config, maker).await;
        let text = rows(50);
        let run = land_run(&world, &text).await;
        for _ in 0..4 {
            world.tick().await;
        }
        let progress = world.progress(&run).await;
        assert_eq!(world.accepted().await, 2);
        let outcomes = cancel_run(&world.engine, progress.intake, "changed my mind").await.unwrap();
        assert_eq!(outcomes.len(), 2, "{outcomes:?}");
        let progress = world.until_over(&run).await;
        let books = audit(&world.engine, &progress, &text).await;
        assert_eq!(world.accepted().await, 2);
        assert_eq!(progress.tally.discarded + books.values.len() as u64, 50);
        if !ignored {
            assert_eq!(progress.tally.discarded, 50);
        }
    }
}

#[tokio::test]
async fn rows_that_are_none_are_dead_letters_and_the_others_go_on() {
    let world = World::with(&[], Config::default(), in_parts_of(3)).await;
    let text = [
        row("a", "one"),
        "{\"key\": \"b\"}\n".to_owned(),
        row("a", "the same key again"),
        row("c", "two"),
        "no JSON\n\n".to_owned(),
        row("d", "three"),
        row("a", "and once more"),
        row("e", "four"),
    ]
    .concat();
    let run = land_run(&world, &text).await;
    let progress = world.until_over(&run).await;
    assert_eq!((progress.tally.jobs, progress.tally.consumed, progress.tally.bad_lines), (4, 4, 4));
    assert_eq!((progress.bad_lines_parked, progress.wrong_sums()), (4, None));
    let good = [row("a", "one"), row("c", "two"), row("d", "three"), row("e", "four")].concat();
    let lines = progress.intake.lines;
    assert_eq!(lines, 8);
    let mut shown = progress.clone();
    shown.intake.lines = 8;
    audit(&world.engine, &shown, &good).await;
}
