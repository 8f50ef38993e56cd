//! Whatever is sent: nothing panics, and nothing is proved that was not signed.
//!
//! Each of the three runs a small number of cases; with `GLEANER_TEST_FUZZ_SECONDS` it goes on for so long, and says
//! how many cases it ran.

mod bodies;
mod headers;
mod tokens;

use std::cell::Cell;
use std::time::Duration;

use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{TestCaseError, TestRunner};

/// Runs at least `cases` cases, each of which says whether something was taken, and returns how many of a hundred did:
/// a test that nothing gets past would show nothing.
fn run<S: Strategy>(name: &str, cases: u32, inputs: S, test: impl Fn(S::Value) -> Result<bool, TestCaseError>) -> u64 {
    let longer = std::env::var("GLEANER_TEST_FUZZ_SECONDS").ok();
    let longer = longer.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let begun = SystemClock.now();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
    let (mut ran, taken) = (0_u64, Cell::new(0_u64));
    let counted = |input| {
        taken.set(taken.get() + u64::from(test(input)?));
        Ok(())
    };
    loop {
        // A fresh runner each time, and so fresh random inputs.
        TestRunner::new(config.clone()).run(&inputs, counted).unwrap_or_else(|found| panic!("{name}: {found}"));
        ran += u64::from(cases);
        if longer.is_none_or(|longer| SystemClock.now().since(begun) >= longer) {
            break;
        }
    }
    eprintln!("{name}: {ran} cases in {:?}, {} taken", SystemClock.now().since(begun), taken.get());
    taken.get() * 100 / ran
}

/// One change to a text.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Remove(Index),
    Insert(Index, String),
    Cut(Index),
    Double(Index, Index),
    Swap(Index, Index),
}

impl Damage {
    fn done(&self, mut text: Vec<u8>) -> Vec<u8> {
        let places = text.len() + 1;
        match self {
            Self::Insert(at, more) => {
                let at = at.index(places);
                text.splice(at..at, more.bytes());
            }
            Self::Cut(at) => text.truncate(at.index(places)),
            Self::Double(from, to) => {
                let (from, to) = (from.index(places), to.index(places));
                let part = text[from.min(to)..from.max(to)].to_vec();
                text.splice(from..from, part);
            }
            _ if text.is_empty() => {}
            Self::Flip(at, bit) => {
                let at = at.index(text.len());
                text[at] ^= 1 << (bit % 8);
            }
            Self::Remove(at) => {
                text.remove(at.index(text.len()));
            }
            Self::Swap(one, other) => {
                let length = text.len();
                text.swap(one.index(length), other.index(length));
            }
        }
        text
    }
}

/// What is thrown into texts.
const DEBRIS: [&str; 34] = [
    "",
    " ",
    ",",
    ".",
    "=",
    "==",
    "v1,",
    "v1a,",
    "v2,",
    "\t",
    "\n",
    "\0",
    "é",
    "\u{feff}",
    "0",
    "9",
    "-",
    "_",
    "+",
    "/",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    "\\",
    "\\ud800",
    "null",
    "1e999",
    "\"type\":",
    "\"data\":",
    "msg_",
    "batches/",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let debris = prop_oneof![3 => select(DEBRIS.as_slice()).prop_map(str::to_owned), 1 => "\\PC{1,8}"];
    prop_oneof![
        3 => (at(), any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => at().prop_map(Damage::Remove),
        3 => (at(), debris).prop_map(|(at, more)| Damage::Insert(at, more)),
        1 => at().prop_map(Damage::Cut),
        1 => (at(), at()).prop_map(|(from, to)| Damage::Double(from, to)),
        1 => (at(), at()).prop_map(|(one, other)| Damage::Swap(one, other)),
    ]
}

fn damages(most: usize) -> impl Strategy<Value = Vec<Damage>> {
    prop::collection::vec(damage(), 0..=most)
}

fn damaged(text: &[u8], damages: &[Damage]) -> Vec<u8> {
    damages.iter().fold(text.to_vec(), |text, damage| damage.done(text))
}

/// As a server reads it.
fn damaged_text(text: &str, damages: &[Damage]) -> String {
    String::from_utf8_lossy(&damaged(text.as_bytes(), damages)).into_owned()
}

/// Bytes of any kind.
fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}
