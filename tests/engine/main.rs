//! The engine as it runs: SQLite, a folder, HTTP and the simulator, with a clock that the tests move.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

#[path = "../agree/mod.rs"]
mod agree;
#[path = "../books/mod.rs"]
mod books;
mod call;
mod cancelling;
mod check;
mod consuming;
mod drives;
mod events;
mod gates;
mod holders;
mod importing;
mod intakes;
mod letters;
mod looks;
mod outcomes;
mod paused;
mod plain;
mod replay_rows;
mod replays;
mod runs;
#[path = "../simulated/mod.rs"]
mod simulated;
mod storm;
mod together;
mod unclear;
mod world;
