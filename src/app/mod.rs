//! What the program does: free functions over ports.

pub mod batch;
pub mod cancel;
pub mod collect;
pub mod consume;
pub mod cursor;
pub mod drive;
pub mod engine;
pub mod follow;
pub mod gates;
pub mod import;
pub mod inbox;
pub mod land;
pub mod left_work;
pub mod letters;
pub mod lines;
pub mod look;
mod plan;
pub mod recount;
pub mod replay;
pub mod report;
pub mod send;
pub mod settings;
pub mod submit;
pub mod take;
pub mod tick;
pub mod webhook;
pub mod work;
