//! The outside: each port on real things.

pub mod aws;
pub mod gemini;
pub mod local;
pub mod system;
