//! Plain calls: each try a reservation of its own, what came of it durable before anything is said, and every verdict.

mod interactions;
mod killed;
mod lease;
mod many;
mod models;
mod plain;
mod script;
mod stack;
mod table;
