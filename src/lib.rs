//! gleaner runs Google Gemini work that nobody waits for, so that no result is lost, none is consumed twice,
//! and nothing is paid for twice without saying so.
//!
//! The folders say what a line may touch: [`domain`] is pure, [`ports`] are the traits that the program needs
//! from outside, [`app`] is what the program does over ports, [`adapters`] are the outside, [`simulator`] is
//! Gemini as a server, [`lambda`] turns events into calls and outcomes into answers, and [`cli`] does the same with
//! arguments and text.

pub mod adapters;
pub mod app;
pub mod cli;
pub mod domain;
pub mod lambda;
pub mod ports;
pub mod simulator;
