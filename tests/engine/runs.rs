//! Batch runs as a whole: rows go out in parts, fail in every way, and each is accounted for.

mod broken_off;
mod creates;
mod faults;
mod found;
mod killed;
mod late;
mod persons;
pub mod plain;
