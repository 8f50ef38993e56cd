//! Whole intakes by events: lost answers of creates, lost and late events, every way to sign.

use std::sync::atomic::Ordering;
use std::time::Duration;

use gleaner::simulator::Config;

use super::{Asks, Called};
use crate::books::rows;
use crate::runs::plain::land_run;
use crate::world::{HOUR, Maker, lines, tick_of};

/// Less than the grace of an unclear create: nothing is sent again within it.
const SHORT: Duration = Duration::from_secs(14 * 60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_creates_cost_nothing_when_events_bring_the_handles() {
    let called = Called::new(&["create-drop=0.1", "create-503=0.1"], Asks::Each).await;
    let world = &called.world;
    let intake = world.land(lines(500)).await;
    called.until_over_by_events(&intake, SHORT).await;
    let tally = world.progress(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (500, 0), "{tally:?}");
    assert_eq!((world.accepted().await, world.requests("create").await), (500, 500), "nothing was sent twice");
    assert_eq!(world.requests("get").await, 500, "each event costs one look, and nothing is polled");
    let faults = world.sim.get("/simulator/stats").await["faults"].clone();
    let lost = faults["create-drop"].as_u64().unwrap() + faults["create-503"].as_u64().unwrap();
    assert!((50..=150).contains(&lost), "{faults}");
    world.hands.assert_each(1);
    assert_eq!((world.hands.count(), called.seen.refused.load(Ordering::SeqCst)), (500, 0));
    assert!(called.queued().await.is_empty());
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_events_do_not_tell_is_polled() {
    let faults = ["create-drop=0.1", "create-503=0.1", "event-lost=0.2", "event-late=0.1"];
    let config = Config { polls_until_done: 0, event_late: HOUR, ..Config::default() };
    let called = Called::with(&faults, config, Asks::Each, Maker::default()).await;
    let world = &called.world;
    let intake = world.land(lines(500)).await;
    let progress = world.until_over(&intake).await;
    assert_eq!(progress.tally.consumed, 500, "{:?}", progress.tally);
    let again = world.accepted().await as u64 - 500;
    assert_eq!(again, progress.tally.possible_duplicates, "each second acceptance was told, and nothing else");
    assert!((1..=80).contains(&again), "{again}");
    world.hands.assert_each(1);
    assert_eq!(world.hands.count(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_in_every_form_and_disorder_bring_each_result_once() {
    let faults = [
        "event-jwt=0.2",
        "event-two-signatures=0.1",
        "event-twice=0.2",
        "event-shuffled=0.1",
        "event-bad-signature=0.1",
        "event-old-timestamp=0.1",
        "create-drop=0.2",
    ];
    for asks in [Asks::Each, Asks::Registered] {
        // What a registered webhook tells of a lost create names no job: those are for the policy.
        let faults: Vec<&str> = match asks {
            Asks::Each => faults.to_vec(),
            _ => faults[..6].to_vec(),
        };
        let called = Called::new(&faults, asks).await;
        let world = &called.world;
        let intake = world.land(lines(200)).await;
        called.until_over_by_events(&intake, SHORT).await;
        let tally = world.progress(&intake).await.tally;
        assert_eq!((tally.consumed, tally.possible_duplicates), (200, 0), "{asks:?} {tally:?}");
        assert_eq!(world.requests("create").await, 200, "{asks:?}");
        assert_eq!(world.requests("get").await, 200, "{asks:?}");
        assert!(called.seen.refused.load(Ordering::SeqCst) > 10, "{asks:?}: wrong and old signatures are refused");
        world.hands.assert_each(1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_the_work_of_events() {
    let called = Called::new(&["create-drop=0.2", "event-twice=0.3"], Asks::Each).await;
    let world = &called.world;
    let intake = world.land(lines(200)).await;
    let second = called.second();
    let progress = world.until_over_by(&[&world.engine, &second], &intake).await;
    assert_eq!((progress.tally.consumed, world.hands.count()), (200, 200));
    world.hands.assert_each(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_webhook_is_a_persons_matter_and_condemns_no_job() {
    for is_run in [false, true] {
        let called = Called::new(&[], Asks::Each).await;
        let world = &called.world;
        let mut engine = world.engine.clone();
        engine.settings.webhook.url = Some("no-url".to_owned());
        let file = match is_run {
            true => land_run(world, rows(20)).await,
            false => world.land(lines(20)).await,
        };
        let mut told = None;
        for _ in 0..4 {
            told = told.or(tick_of(&engine).await.err());
        }
        let why = told.unwrap().to_string();
        assert!(why.contains("operator:webhook") && why.contains("GLEANER_WEBHOOK_URL"), "{why}");
        let progress = world.progress(&file).await;
        assert_eq!((progress.tally.parked, world.accepted().await), (0, 0), "{:?}", progress.tally);
        // Mended: the gate opens by a probe, and all of it goes out.
        engine.settings.webhook.url = None;
        assert_eq!(world.until_over_by(&[&engine], &file).await.tally.consumed, 20);
    }
}
