//! What every ledger must do.

mod counting;
mod expiring;
mod listing;
mod racing;
mod writing;

use std::sync::Arc;

pub use counting::*;
pub use expiring::*;
pub use listing::*;
pub use racing::*;
pub use writing::*;

use crate::domain::item::{Item, ItemId};
use crate::domain::job::State;
use crate::ports::ledger::{CreateError, Ledger, Place, ReplaceError};

/// Runs every rule, each on an empty ledger that `make` makes.
pub async fn all<T: Ledger + 'static>(make: impl AsyncFn() -> T) {
    let make = async || -> Arc<T> { Arc::new(make().await) };
    every_kind_comes_back_as_it_was_written(make().await).await;
    create_answers_with_the_item_in_the_way(make().await).await;
    a_create_that_is_repeated_is_a_success(make().await).await;
    a_replace_that_is_repeated_is_a_success(make().await).await;
    a_stale_rev_never_wins(make().await).await;
    a_change_must_carry_a_fresh_rev(make().await).await;
    many_items_are_got_at_once(make().await).await;
    an_item_is_found_by_every_handle(make().await).await;
    a_handle_stays_with_the_first_item(make().await).await;

    due_items_come_longest_due_first(make().await).await;
    nothing_closed_is_ever_due(make().await).await;
    the_next_due_time_follows_every_change(make().await).await;
    a_state_is_listed_in_pages_without_gaps(make().await).await;

    an_empty_ledger_answers_with_nothing(make().await).await;
    counts_and_totals_equal_a_recount(make().await).await;
    totals_are_those_of_one_intake(make().await).await;

    events_are_found_by_their_ids_only(make().await).await;
    what_has_expired_is_forgotten_and_nothing_else(make().await).await;
    many_forget_at_once(make().await).await;

    one_of_many_creators_wins(make().await).await;
    no_change_is_lost_among_many_writers(make().await).await;
    one_bad_write_among_many_hurts_no_other(make().await).await;
}

/// Creates an item that must not be there yet.
async fn add(ledger: &dyn Ledger, item: Item) -> Item {
    ledger.create(&item).await.unwrap();
    item
}

/// Every item in `state`, in pages of `page`.
pub async fn list(ledger: &dyn Ledger, state: State, page: usize) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    loop {
        let place = items.last().map(|last| Place(last.since(), last.id()));
        let next = ledger.in_state(state, place.as_ref(), page).await.unwrap();
        assert!(next.len() <= page, "a page of {page} has {} items", next.len());
        let ended = next.len() < page;
        items.extend(next);
        if ended {
            return items;
        }
    }
}

/// The item that was in the way of a create.
fn in_the_way(outcome: Result<(), CreateError>) -> Item {
    match outcome {
        Err(CreateError::Exists(item)) => *item,
        other => panic!("expected an item in the way, not {other:?}"),
    }
}

/// The item that a stale replace met, if there was one.
fn stale(outcome: Result<(), ReplaceError>) -> Option<Item> {
    match outcome {
        Err(ReplaceError::Stale(item)) => item.map(|item| *item),
        other => panic!("expected a stale rev, not {other:?}"),
    }
}

fn ids(items: &[Item]) -> Vec<ItemId> {
    items.iter().map(Item::id).collect()
}
