//! Holders of leases: late ones, which others took for dead, and slow ones, which nobody may.

use std::sync::Arc;
use std::time::Duration;

use gleaner::app::cancel::{Cancelled, cancel_job};
use gleaner::app::engine::{Engine, Trouble};
use gleaner::app::tick::Ticked;
use gleaner::domain::item::{Item, ItemId};
use gleaner::domain::job::{Fate, State};
use gleaner::domain::policy::OnUnclear;
use gleaner::ports::testing::TestClock;
use gleaner::simulator::Config;
use tokio::task::JoinHandle;

use super::world::{GRACE, HOUR, LEASE, MINUTE, Maker, World, a_moment, eventually, text, tick_of};

type Ticking = JoinHandle<Result<Ticked, Trouble>>;

fn ticking(engine: Engine) -> Ticking {
    tokio::spawn(async move { tick_of(&engine).await })
}

/// A holder whose create call was accepted, and is answered after `late`; meanwhile it was taken for dead and its
/// job is unclear.
struct Late {
    world: World,
    intake: String,
    holder: Ticking,
    _clock: Arc<TestClock>,
}

impl Late {
    async fn new(late: Duration, maker: Maker) -> Self {
        let world = World::with(&["create-delay=1"], Config { late, ..Config::default() }, maker).await;
        let intake = world.land(text("Its holder stalls.")).await;
        let (engine, clock) = world.paused();
        let holder = ticking(engine);
        eventually("the create is accepted", async || world.accepted().await == 1).await;
        world.set_faults(&[]).await;
        world.advance(LEASE);
        world.tick().await;
        assert_eq!(world.state().await, State::Unclear);
        Self { world, intake, holder, _clock: clock }
    }

    /// The answer comes, and the holder writes down what it brought.
    async fn answered(self) -> (World, String) {
        self.world.advance(HOUR * 2);
        self.holder.await.unwrap().unwrap();
        self.world.check().await;
        (self.world, self.intake)
    }
}

#[tokio::test]
async fn a_late_holder_still_attaches_its_handle() {
    let (world, intake) = Late::new(HOUR, Maker::default()).await.answered().await;
    let job = world.job().await;
    assert_eq!((job.state, job.handles.len()), (State::Submitted, 1));
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 0, 1));
    assert_eq!((world.job().await.attempts, world.hands.count()), (1, 1));
}

#[tokio::test]
async fn after_it_was_sent_again_the_late_handle_is_added() {
    let late = Late::new(HOUR, Maker::default()).await;
    late.world.advance(GRACE);
    late.world.tick().await;
    assert_eq!((late.world.state().await, late.world.accepted().await), (State::Submitted, 2));
    let (world, intake) = late.answered().await;
    let job = world.job().await;
    assert_eq!((job.state, job.handles.len(), job.possible_duplicates), (State::Submitted, 2, 1));
    assert_ne!(job.handles[0].id, job.handles[1].id);
    world.tick().await;
    assert_eq!(world.requests("get").await, 2, "both are polled");
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
    assert_eq!(world.hands.count(), 1);
}

#[tokio::test]
async fn the_late_handle_can_be_the_one_that_brings_the_result() {
    let late = Late::new(HOUR, Maker::default()).await;
    late.world.set_faults(&["get-404-forever=1"]).await;
    late.world.advance(GRACE);
    late.world.tick().await;
    let (world, intake) = late.answered().await;
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
    assert_eq!(world.job().await.handles.iter().map(|h| h.fate).collect::<Vec<_>>()[1], Fate::Won);
}

#[tokio::test]
async fn a_late_handle_brings_a_job_back_that_the_policy_parked() {
    let mut maker = Maker::default();
    maker.settings.policy.on_unclear = OnUnclear::Park;
    let late = Late::new(HOUR, maker).await;
    late.world.advance(GRACE);
    late.world.tick().await;
    assert_eq!(late.world.state().await, State::Parked);
    let (world, intake) = late.answered().await;
    assert_eq!(world.state().await, State::Submitted);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.recovered, tally.parked, tally.possible_duplicates), (1, 0, 0));
    assert_eq!((world.accepted().await, world.hands.count()), (1, 1));
}

#[tokio::test]
async fn a_late_handle_of_a_discarded_job_is_kept_and_can_be_cancelled() {
    let late = Late::new(HOUR, Maker::default()).await;
    let job = late.world.job().await;
    assert_eq!(cancel_job(&late.world.engine, job, "not needed").await.unwrap(), Cancelled::Discarded);
    let (world, intake) = late.answered().await;
    let job = world.job().await;
    assert_eq!((job.state, job.handles.len(), job.due_at), (State::Discarded, 1, None));
    assert_eq!(cancel_job(&world.engine, job, "not needed").await.unwrap(), Cancelled::Discarded);
    assert_eq!(world.requests("cancel").await, 1);
    assert_eq!(world.job().await.handles[0].fate, Fate::Ended);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.discarded, world.accepted().await, world.hands.count()), (1, 1, 0));
}

/// Waits until everything that is held at this moment is held for most of a lease.
async fn renewed(world: &World, intake: Option<&str>) {
    let enough = world.now().plus(Duration::from_secs(100));
    eventually("the leases are renewed", async || {
        let job = world.job().await.lease.is_some_and(|lease| lease.until > enough);
        let Some(sha256) = intake else { return job };
        let intake = match world.engine.ledger.get(&ItemId::intake(sha256)).await.unwrap() {
            Some(Item::Intake(intake)) => intake.lease.is_some_and(|lease| lease.until > enough),
            other => panic!("{other:?}"),
        };
        job && intake
    })
    .await;
}

#[tokio::test]
async fn a_slow_create_is_never_taken_over() {
    let world = World::with(&["create-delay=1"], Config { late: HOUR, ..Config::default() }, Maker::default()).await;
    let intake = world.land(text("It takes its time.")).await;
    let holder = ticking(world.engine.clone());
    eventually("the create is accepted", async || world.accepted().await == 1).await;
    world.set_faults(&[]).await;
    let other = world.second();
    for _ in 0..80 {
        world.advance(Duration::from_secs(40));
        renewed(&world, Some(&intake)).await;
        assert_eq!(tick_of(&other).await.unwrap(), Ticked::default());
    }
    assert_eq!(world.state().await, State::Reserving);
    world.advance(MINUTE * 10);
    holder.await.unwrap().unwrap();
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates), (1, 0));
    assert_eq!((world.accepted().await, world.job().await.attempts), (1, 1));
}

#[tokio::test]
async fn a_slow_handover_is_never_taken_over() {
    let world = World::new(&[]).await;
    let intake = world.land(text("Its receiver takes its time.")).await;
    world.tick().await;
    world.advance(MINUTE);
    world.tick().await;
    world.hands.open.send_replace(false);
    world.advance(MINUTE);
    let holder = ticking(world.engine.clone());
    eventually("it is being handed on", async || world.hands.count() == 1).await;
    let other = world.second();
    for _ in 0..30 {
        world.advance(Duration::from_secs(40));
        renewed(&world, None).await;
        assert_eq!(tick_of(&other).await.unwrap(), Ticked::default());
    }
    world.hands.open.send_replace(true);
    holder.await.unwrap().unwrap();
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, world.hands.count(), world.job().await.consume_tries), (1, 1, 1));
}

/// The handle of a late holder is written beside a reservation that somebody else holds by now. That one is as alive
/// as before.
#[tokio::test]
async fn a_late_handle_does_not_cost_the_next_holder_its_lease() {
    let late = Late::new(HOUR, Maker::default()).await;
    late.world.set_faults(&["create-delay=1"]).await;
    late.world.advance(GRACE);
    let second = ticking(late.world.second());
    eventually("it is sent again", async || late.world.accepted().await == 2).await;
    // Up to the first answer, in steps that let the second holder renew.
    while late.world.job().await.handles.is_empty() {
        late.world.advance(Duration::from_secs(40));
        for _ in 0..10 {
            a_moment().await;
        }
    }
    let other = late.world.second();
    for _ in 0..10 {
        late.world.advance(Duration::from_secs(40));
        renewed(&late.world, None).await;
        tick_of(&other).await.unwrap();
        assert_eq!(late.world.state().await, State::Reserving);
    }
    let (world, intake) = late.answered().await;
    second.await.unwrap().unwrap();
    assert_eq!(world.job().await.handles.len(), 2);
    let tally = world.until_over(&intake).await.tally;
    assert_eq!((tally.consumed, tally.possible_duplicates, world.accepted().await), (1, 1, 2));
}
