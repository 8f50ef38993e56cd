//! The ledger in DynamoDB: the port's suite on two emulators, what neither of them does (made by a proxy), and what it
//! costs.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

mod cost;
#[path = "../emulator/mod.rs"]
mod emulator;
mod handles;
mod pages;
mod passing;
mod runs;
mod stale;
mod suite;
mod table;
mod units;
mod words;
mod world;
