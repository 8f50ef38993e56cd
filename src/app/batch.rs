//! Batch runs: rows that go out in parts, attempt after attempt, each accounted for (design, section 5).

pub mod cut;
mod feed;
pub mod report;
