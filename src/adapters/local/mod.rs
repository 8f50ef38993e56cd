//! One machine: the ledger in SQLite, objects in a folder.

pub mod folder;
pub mod sqlite;
