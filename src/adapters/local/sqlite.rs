//! The ledger in SQLite.
