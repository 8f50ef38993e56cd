//! Who may have sent an event: signatures of all three kinds, made by others and by this test, and everything that must
//! be refused.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it found by failing"
)]

mod fetching;
mod fuzz;
mod kit;
mod python;
mod refusals;
mod tampering;
mod tokens;
mod vectors;
