//! The pass over a million rows, beside the script that it stands in for.

fn main() {}
