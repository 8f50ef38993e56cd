//! Nothing goes wrong.

use gleaner::app::tick::Ticked;
use gleaner::domain::job::State;

use super::world::{World, lines};

#[tokio::test]
async fn thirty_lines_become_thirty_results_and_a_further_tick_does_nothing() {
    let world = World::new(&[]).await;
    let intake = world.land(lines(30)).await;
    let over = world.until_over(&intake).await;
    assert_eq!((over.tally.jobs, over.tally.consumed, over.tally.possible_duplicates), (30, 30, 0));
    assert_eq!((world.accepted().await, world.hands.count()), (30, 30));
    assert!(world.jobs().await.iter().all(|job| job.attempts == 1 && job.consume_tries == 1));

    let (revs, gets) = (world.revs().await, world.requests("get").await);
    assert_eq!(world.tick().await, Ticked::default());
    world.advance(super::world::HOUR * 100);
    assert_eq!(world.tick().await, Ticked::default());
    assert_eq!((world.revs().await, world.requests("get").await), (revs, gets));
    assert_eq!(over.states.iter().find(|(state, _)| *state == State::Consumed), Some(&(State::Consumed, 30)));
}
