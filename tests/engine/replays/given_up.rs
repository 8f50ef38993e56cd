//! Dead letters that a person gives up.

use gleaner::app::discard::{Discarded, Outcome, discard};
use gleaner::app::engine::Engine;
use gleaner::app::replay::select::Which;
use gleaner::app::replay::{Replay, ReplayError};
use gleaner::app::report::every;
use gleaner::domain::item::Item;
use gleaner::domain::job::{Rev, State};
use gleaner::ports::conformance::sample;
use gleaner::simulator::Config;

use super::{apply, dead_by, replay_by};
use crate::books::rows;
use crate::runs::plain::{in_parts_of, land_run};
use crate::world::{HOUR, Maker, World, lines, text};

const ALL: Which<'_> = Which { class: None, ids: None, run: None, mode: None, before: None, limit: 1000 };

async fn discard_by(engine: &Engine, which: &Which<'_>) -> Discarded {
    discard(engine, which, "nobody needs it", false).await.unwrap()
}

#[tokio::test]
async fn every_kind_of_dead_letter_is_closed_with_the_reason() {
    let (world, intake) = dead_by("blocked", &(text("Blocked.") + "no JSON\n")).await;
    let rev = |n: u64| Rev(format!("rev-{n}"));
    for item in [
        Item::DeadRow(sample::dead_row("00112233445566778899aabbccddeeff", rev(1))),
        Item::DeadGroup(sample::dead_group("permanent:400", rev(2))),
    ] {
        world.engine.ledger.create(&item).await.unwrap();
    }
    let before = world.revs().await;
    let dry = discard(&world.engine, &ALL, "", true).await.unwrap();
    assert_eq!((dry.scanned, dry.discarded, dry.dry_run), (4, 0, true), "{dry:?}");
    assert!(dry.items.iter().all(|item| item.outcome == Outcome::WouldDiscard), "{dry:?}");
    assert_eq!(world.revs().await, before, "a dry run writes nothing");
    let error = discard(&world.engine, &ALL, " ", false).await.unwrap_err();
    assert!(matches!(error, ReplayError::Bad(why) if why.contains("reason")));

    let told = discard_by(&world.engine, &ALL).await;
    assert_eq!((told.scanned, told.discarded), (4, 4), "{told:?}");
    assert!(every(&world.engine, State::Parked, 10).await.unwrap().is_empty());
    let closed = every(&world.engine, State::Discarded, 10).await.unwrap();
    assert_eq!(closed.len(), 4);
    for item in &closed {
        let letter = item.letter().unwrap();
        assert_eq!((letter.reason.as_deref(), item.due_at()), (Some("nobody needs it"), None), "{item:?}");
    }
    let tally = world.progress(&intake).await.tally;
    assert_eq!((tally.discarded, tally.parked, world.progress(&intake).await.bad_lines_parked), (1, 0, 0));
    world.check().await;
    world.pass(HOUR * 100, HOUR).await;
    assert_eq!((world.accepted().await, world.requests("cancel").await), (1, 0), "nothing is sent, nothing cancelled");
    assert_eq!(replay_by(&world.engine, &apply()).await.scanned, 0);
}

#[tokio::test]
async fn what_may_run_on_at_gemini_is_told() {
    let mut maker = Maker::default();
    maker.settings.deadline = HOUR;
    maker.settings.max_attempts = 1;
    let world = World::with(&[], Config { latency: HOUR * 9, ..Config::default() }, maker).await;
    let intake = world.land(text("It takes its time.")).await;
    world.until_over(&intake).await;
    let handle = world.job().await.handles[0].id.clone();
    let told = discard_by(&world.engine, &ALL).await;
    let why = told.items[0].why.as_deref().unwrap();
    assert!(why.contains(&handle) && why.contains("gleaner cancel"), "{why}");
    assert_eq!((world.state().await, world.requests("cancel").await), (State::Discarded, 0));
}

#[tokio::test]
async fn an_attempt_of_a_run_is_refused() {
    let world = World::with(&["download-cut-silent=1"], Config::default(), in_parts_of(20)).await;
    let run = land_run(&world, rows(20)).await;
    world.until_over(&run).await;
    let told = discard_by(&world.engine, &ALL).await;
    assert_eq!((told.discarded, told.items[0].outcome), (0, Outcome::Left), "{told:?}");
    assert!(told.items[0].why.as_deref().unwrap().contains("cancel the run"), "{told:?}");
    assert_eq!(every(&world.engine, State::Parked, 10).await.unwrap().len(), 2, "it and its part");
}

/// Whoever is first has it: nothing is replayed that was given up, nor given up that is being replayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_and_a_discard_at_once_share_them() {
    let world =
        World::with(&["blocked=1"], Config { polls_until_done: 0, ..Config::default() }, Maker::default()).await;
    let intake = world.land(lines(60)).await;
    world.until_over(&intake).await;
    world.set_faults(&[]).await;
    let (one, other) = (world.second(), world.second());
    let request = gleaner::app::replay::Replay { limit: 1000, ..apply() };
    let (replayed, discarded) = tokio::join!(replay_by(&one, &request), discard_by(&other, &ALL));
    assert_eq!(replayed.resubmitted + discarded.discarded, 60, "{replayed:?} {discarded:?}");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, tally.discarded), (replayed.resubmitted, discarded.discarded));
    assert_eq!(world.accepted().await as u64, 60 + replayed.resubmitted);
}

#[tokio::test]
async fn nothing_of_a_call_runs_on_at_gemini() {
    let (world, _) = dead_by("create-drop", "{\"mode\": \"call\", \"input\": \"It breaks off.\"}\n").await;
    assert!(world.job().await.maybe_accepted, "{:?}", world.job().await);
    let told = discard_by(&world.engine, &ALL).await;
    assert_eq!((told.items[0].outcome, &told.items[0].why), (Outcome::Discarded, &None), "{told:?}");
    let again = Replay { ids: Some(vec![told.items[0].id.clone()]), ..Replay::default() };
    let replayed = replay_by(&world.engine, &again).await;
    assert_eq!(replayed.items[0].why.as_deref(), Some("it is no dead letter any more, but discarded"));
}
