//! Pure rules: no I/O, no clock, no randomness, no async.

pub mod batch;
pub mod changes;
pub mod classify;
pub mod dead;
pub mod extract;
pub mod failure;
pub mod gate;
pub mod generated;
pub mod intake;
pub mod interaction;
pub mod item;
pub mod job;
pub mod json;
pub mod letter;
pub mod line;
pub mod mask;
pub mod moves;
pub mod part;
pub mod pass;
pub mod policy;
pub mod raw;
pub mod refused_lines;
pub mod schema;
pub mod step;
pub mod time;
pub mod webhook;
