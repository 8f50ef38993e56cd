//! Batch runs: rows that go out in parts, attempt after attempt, each accounted for (design, section 5).
//!
//! | file | does |
//! |---|---|
//! | `cut` | the intake into parts |
//! | `part` | brings a part on: its next attempt, its dead letters, its end |
//! | `send` | an attempt's rows uploaded, its batch created once |
//! | `calls` | an attempt's rows made as plain calls, if a person wants that |
//! | `look` | batch jobs looked at, unclear ones found by their name |
//! | `settle` | Gemini's output brought down, and a pass over it that counts once |
//! | `back` | an attempt that brought nothing: its rows go to the next one |
//! | `pass`, `blocks`, `feed` | the pass over objects of any size |
//! | `dead`, `halve`, `hold`, `cancel` | dead letters of rows; parts that are too much; what a person does |
//! | `report` | how far a run is |
//! | `replay`, `origins` | dead rows that a person has replayed: a part of their own, and what comes of them |
//! | `row`, `merge`, `lines` | what became of one row; the results of all as one file |

mod back;
pub mod blocks;
mod calls;
pub mod cancel;
pub mod cut;
mod dead;
mod feed;
mod files;
mod halve;
pub mod hold;
pub(super) mod items;
pub mod lines;
pub mod look;
pub mod merge;
mod origins;
pub mod part;
pub mod pass;
pub mod replay;
pub mod report;
pub mod row;
pub mod send;
pub mod settle;
