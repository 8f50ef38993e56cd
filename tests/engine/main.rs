//! The engine as it runs: SQLite, a folder, HTTP and the simulator, with a clock that the tests move.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

#[allow(dead_code)]
mod check;
#[path = "../simulated/mod.rs"]
mod simulated;
#[allow(dead_code)]
mod world;

mod gates;
mod holders;
mod intakes;
mod looks;
mod outcomes;
mod plain;
mod unclear;
