//! The example that people try first: each of its lines is a job.

use std::collections::BTreeSet;

use gleaner::domain::job::Mode;
use gleaner::domain::line::{parse_header, parse_line};

#[test]
fn every_line_of_the_example_is_a_job_of_its_own() {
    let text = include_str!("../events/jobs.jsonl");
    let (first, rest) = text.split_once('\n').unwrap();
    let header = parse_header(first.as_bytes()).unwrap().unwrap();
    let jobs: Vec<_> = rest.lines().map(|line| parse_line(line.as_bytes(), &header).unwrap().unwrap()).collect();
    assert_eq!(jobs.len(), 11);
    let keys: BTreeSet<_> = jobs.iter().map(|job| &job.key).collect();
    assert_eq!(keys.len(), jobs.len(), "keys repeat");
    assert!(jobs.iter().any(|job| job.key.0 == "title-ja-library-2026-11-29"));
    let unsent: BTreeSet<_> = jobs.iter().flat_map(|job| &job.unsent).map(String::as_str).collect();
    assert_eq!(unsent, BTreeSet::from(["date"]));
    assert!(jobs.iter().all(|job| job.mode == Mode::Interaction));
}
