//! What a batch run costs: write units for each of its rows, from the requests themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gleaner::app::report::{Progress, every};
use gleaner::domain::job::State;
use gleaner::simulator::Config;
use gleaner::simulator::faults::Faults;
use serde_json::json;

use super::units::Written;
use super::world::World;

/// The goal (design, section 11): write units of a row, where one in a hundred fails.
const GOAL: f64 = 0.05;

/// One in a hundred rows fails, and succeeds when it is sent again.
const PASSING: [&str; 4] = ["row-error-13=0.0025", "row-error-14=0.0025", "row-error-8=0.0025", "row-empty=0.0025"];

/// One in a hundred rows is dead, of four classes, so that none is of more than a thousand in a run of 100,000: those
/// would share one dead letter, which costs less.
const LASTING: [&str; 4] =
    ["row-safety=0.0025", "row-prompt-blocked=0.0025", "row-max-tokens-empty=0.0025", "row-error-3=0.0025"];

/// A part that is full by its tokens, of rows of about 1 KB: so a long run has one for each so many of its rows.
const PART: usize = 9_000;

/// Rows of about 1 KB.
fn rows(count: usize) -> String {
    let chapter = "It was a bright cold day in April, and the clocks were striking thirteen. ".repeat(13);
    (0..count).fold(String::new(), |mut text, n| {
        let request =
            json!({"contents": [{"role": "user", "parts": [{"text": format!("Rate chapter {n}: {chapter}")}]}]});
        writeln!(text, "{}", json!({"key": format!("chapter-{n:06}"), "request": request})).unwrap();
        text
    })
}

/// Sends a run through with these faults, in parts as they are by default, by ticks that hand over what takes long. A
/// batch is found running for about a quarter of an hour.
async fn run(count: usize, faults: &[&str]) -> (Progress, Vec<Written>) {
    let faults = Faults::parse(faults.iter().copied()).unwrap();
    let world = World::new(Config { faults, polls_until_done: 7, ..Config::default() }).await.hand_over();
    let run = world.land_rows(&rows(count)).await;
    let over = world.until_over(&run).await;
    let written = world.written();
    // Each dead letter, of a row or of many, has its message: what it costs is among this.
    let letters = every(&world.engine, State::Parked, usize::MAX).await.unwrap();
    assert_eq!(world.messages().await, letters.len());
    assert!(letters.iter().all(|item| item.letter().is_some_and(|letter| letter.number == 1)));
    assert_eq!(over.tally.jobs, count as u64);
    assert_eq!(over.tally.consumed + over.tally.parked, count as u64);
    (over, written)
}

/// Prints what was written by kind, and returns write units a row.
fn units(what: &str, count: usize, over: &Progress, written: &[Written]) -> f64 {
    let mut kinds: BTreeMap<(&str, &str), (usize, usize, usize)> = BTreeMap::new();
    for put in written {
        let kind = kinds.entry((put.pk.split('/').next().unwrap(), &put.state)).or_default();
        *kind = (kind.0 + 1, kind.1 + put.units, kind.2.max(put.bytes));
    }
    let run = over.run.as_ref().unwrap();
    let all: usize = written.iter().map(|put| put.units).sum();
    println!(
        "{what}: {count} rows, {} parts, {} attempts, {} dead",
        run.parts.len(),
        run.attempts(),
        over.tally.parked
    );
    for ((kind, state), (puts, units, bytes)) in kinds {
        println!("  {kind} into {state}: {puts} writes, {units} units, at most {bytes} bytes");
    }
    println!("  {all} units, {:.4} a row", all as f64 / count as f64);
    all as f64 / count as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_costs_at_most_a_twentieth_of_a_write_unit_when_one_in_a_hundred_is_sent_again() {
    let (over, written) = run(PART, &PASSING).await;
    let again: u64 = over.run.as_ref().unwrap().parts.iter().map(|part| part.passes[0].counts.retry).sum();
    assert!((60..140).contains(&again), "{again} rows were sent again");
    assert_eq!((over.run.as_ref().unwrap().parts.len(), over.tally.parked), (1, 0));
    assert!(units("passing failures", PART, &over, &written) <= GOAL);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_costs_at_most_a_twentieth_of_a_write_unit_when_one_in_a_hundred_dies() {
    let (over, written) = run(PART, &LASTING).await;
    let dead = over.tally.parked;
    assert!((60..140).contains(&dead), "{dead} rows are dead");
    let letters: Vec<&Written> = written.iter().filter(|put| put.pk.starts_with("row/")).collect();
    assert_eq!(letters.len() as u64, dead, "each has a dead letter of its own, written once");
    assert!(letters.iter().all(|put| put.units == 2 && put.bytes <= 1024), "{:?}", letters[0]);
    assert!(units("lasting failures", PART, &over, &written) <= GOAL);
}

/// The figure of the design itself, with failures of both kinds at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_rows_of_which_one_in_a_hundred_dies_and_one_is_sent_again() {
    const ROWS: usize = 100_000;
    let (over, written) = run(ROWS, &[PASSING, LASTING].concat()).await;
    let parts = &over.run.as_ref().unwrap().parts;
    let again: u64 = parts.iter().map(|part| part.passes[0].counts.retry).sum();
    assert!((800..1200).contains(&again) && (800..1200).contains(&over.tally.parked), "{again}, {:?}", over.tally);
    assert!(units("both", ROWS, &over, &written) <= GOAL);
}
