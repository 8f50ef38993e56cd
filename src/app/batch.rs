//! Batch runs: rows that go out in parts, attempt after attempt, each accounted for (design, section 5).

pub mod blocks;
pub mod cut;
pub mod feed;
pub mod merge;
pub mod report;
pub mod row;
