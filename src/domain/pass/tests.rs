//! The pass over lines that were written by hand; over any lines in `any`.

mod any;
mod bounds;
mod quick_way;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

/// Everything that a pass yields.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Yield {
    results: String,
    recovered: String,
    retry: String,
    dead: String,
    counts: Counts,
    settled: Vec<u8>,
}

/// The keys of lines.
fn keys(lines: &str) -> Vec<String> {
    lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].as_str().unwrap().to_owned()).collect()
}

fn terms(attempt: u32) -> Terms {
    Terms { attempt, last: false, late: false, expect: None, missing: Blame::missing() }
}

/// Blocks of about that many bytes, cut at line ends.
fn blocks(bytes: &[u8], size: usize) -> Vec<(u64, &[u8])> {
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let from = (start + size).min(bytes.len());
        let end = bytes[from - 1..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| from + n);
        blocks.push((start as u64, &bytes[start..end]));
        start = end;
    }
    blocks
}

fn index(input: &[u8], terms: Terms, size: usize) -> Result<Arc<Index>, PassError> {
    let mut rows = Rows::default();
    for (at, block) in blocks(input, size) {
        rows.append(Rows::read(at, block)?)?;
    }
    Index::of(rows, terms).map(Arc::new)
}

fn run(input: &[u8], output: &[u8], settled: &[(&[u8], u32)], terms: Terms, size: usize) -> Yield {
    let index = index(input, terms, size).unwrap();
    let mut pass = Pass::new(Arc::clone(&index));
    for (object, attempt) in settled {
        pass.settle(object, *attempt).unwrap();
    }
    let (mut results, mut recovered) = (Vec::new(), Vec::new());
    for (at, block) in blocks(output, size) {
        let judged = index.judge(at, block);
        let lines: Vec<_> =
            index.undecided(&judged).map(|range| input[range.start as usize..range.end as usize].to_vec()).collect();
        let merged = pass.merge(index.decide(judged, &lines).unwrap()).unwrap();
        results.extend(merged.results);
        recovered.extend(merged.recovered);
    }
    let (mut retry, mut dead) = (Vec::new(), Vec::new());
    for (at, block) in blocks(input, size) {
        let rest = pass.rest(at, block).unwrap();
        if !pass.wants(at, at + block.len() as u64) {
            assert_eq!(rest, Pass::skip(at, at + block.len() as u64));
        }
        let (more, buried) = pass.count(rest).unwrap();
        retry.extend(more);
        dead.extend(buried);
    }
    let Outcome { counts, settled } = pass.finish().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Yield { results: text(results), recovered: text(recovered), retry: text(retry), dead: text(dead), counts, settled }
}

fn input(keys: &[&str]) -> String {
    keys.iter()
        .map(|key| json!({"key": key, "request": {"contents": [{"parts": [{"text": key}]}]}}).to_string() + "\n")
        .collect()
}

fn good(key: &str, text: &str) -> String {
    let parts = json!([{"text": text}]);
    let response = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": 3}});
    json!({"key": key, "response": response}).to_string() + "\n"
}

fn bad(key: &str, code: i64) -> String {
    json!({"key": key, "error": {"code": code, "message": "no"}}).to_string() + "\n"
}

#[test]
fn every_row_ends_once() {
    let input = input(&["a", "b", "c", "d", "e"]);
    let output = [good("c", "C"), bad("a", 13), bad("b", 3), good("d", "")].concat();
    let all = run(input.as_bytes(), output.as_bytes(), &[], terms(2), 4096);
    let line = "{\"key\":\"c\",\"value\":\"C\",\"usage\":{\"totalTokenCount\":3},\"attempt\":2}\n";
    assert_eq!(all.results, line);
    let rows: Vec<&str> = input.lines().collect();
    assert_eq!(all.retry.lines().collect::<Vec<_>>(), [rows[0], rows[3], rows[4]]);
    let dead: Value = serde_json::from_str(&all.dead).unwrap();
    let request: Value = serde_json::from_str::<Value>(rows[1]).unwrap()["request"].clone();
    assert_eq!(
        dead,
        json!({"key": "b", "class": "permanent:400", "message": "code 3: no", "attempts": 2, "request": request})
    );
    let expected = Counts {
        rows: 5,
        succeeded: 1,
        retry: 3,
        dead: 1,
        missing: 1,
        lines: 4,
        outcomes: 4,
        dead_by_class: [("permanent:400".to_owned(), 1)].into(),
        ..Counts::default()
    };
    assert_eq!(all.counts, expected);
}

#[test]
fn in_the_last_attempt_nothing_is_left_to_retry() {
    let output = [bad("a", 14), good("b", " ")].concat();
    let all = run(input(&["a", "b", "c"]).as_bytes(), output.as_bytes(), &[], Terms { last: true, ..terms(4) }, 64);
    let classes: Vec<String> = all.dead.lines().map(|line| find::dead(line).unwrap().class.into_owned()).collect();
    assert_eq!(classes, ["exhausted:503", "exhausted:empty", "exhausted:missing"]);
    assert_eq!((all.counts.dead, all.counts.retry, all.retry.as_str()), (3, 0, ""));
}

#[test]
fn what_a_line_says() {
    let response = json!({"candidates": [{"content": {"parts": [{"text": "x"}]}}]});
    let table = [
        (json!({"response": null}), "empty", true),
        (json!({}), "unknown", true),
        (json!({"response": null, "status": {"code": 8}}), "retryable:429", true),
        (json!({"error": null, "status": {"code": 7}}), "permanent:403", false),
        (json!({"response": response, "error": {"code": 1}}), "retryable:499", true),
        (json!({"response": response, "error": {}}), "unknown", true),
        (json!({"error": {"message": "blocked by SAFETY"}}), "blocked:SAFETY", false),
        (json!({"error": "no"}), "unknown", true),
        (json!({"response": {"promptFeedback": {"blockReason": "SAFETY"}}}), "blocked:SAFETY", false),
        (json!({"response": 5}), "empty", true),
    ];
    for (mut line, class, passing) in table {
        line["key"] = "a".into();
        let all =
            run(input(&["a"]).as_bytes(), line.to_string().as_bytes(), &[], Terms { late: false, ..terms(1) }, 64);
        assert_eq!((all.counts.retry == 1, all.counts.dead == 1), (passing, !passing), "{line}");
        let last = Terms { last: true, ..terms(1) };
        let all = run(input(&["a"]).as_bytes(), line.to_string().as_bytes(), &[], last, 64);
        let expected = if passing { crate::domain::classify::exhausted(class) } else { class.to_owned() };
        assert_eq!(find::dead(all.dead.trim()).unwrap().class, expected, "{line}");
    }
    let status = json!({"key": "a", "response": response, "status": {"code": 13}}).to_string();
    assert_eq!(run(input(&["a"]).as_bytes(), status.as_bytes(), &[], terms(1), 64).counts.succeeded, 1);
}

#[test]
fn lines_that_say_nothing_of_a_row() {
    let deep =
        format!("{{\"key\":\"a\",\"error\":{{\"code\":3,\"details\":{}1{}}}}}", "[".repeat(9_000), "]".repeat(9_000));
    let output = [
        b"\xef\xbb\xbf \r\n".to_vec(),
        good("z", "?").into_bytes(),
        b"{\"key\":\"\\ud800\",\"response\":{}}\n".to_vec(),
        b"{\"key\":5,\"response\":{}}\n".to_vec(),
        b"{\"response\":{}}\n".to_vec(),
        b"{\"key\":\"b\",\"response\":\xff}\n".to_vec(),
        b"[]\n\n7\n".to_vec(),
        deep.into_bytes(),
        b"\r\n{\"key\":\"b\",\"respo".to_vec(),
    ]
    .concat();
    let all = run(input(&["a", "b"]).as_bytes(), &output, &[], terms(1), 10);
    let Counts { blank, unknown_keys, without_key, unreadable, outcomes, dead, missing, lines, .. } = all.counts;
    assert_eq!((blank, unknown_keys, without_key, unreadable), (2, 2, 2, 4));
    assert_eq!((outcomes, dead, missing, lines), (1, 1, 1, 11));
    assert_eq!(keys(&all.dead), ["a"]);
}

#[test]
fn the_first_success_counts_else_the_first_failure() {
    let output = [bad("a", 3), bad("b", 13), good("a", "1"), good("a", "2"), bad("b", 3), good("c", "3"), bad("c", 3)];
    let all = run(input(&["a", "b", "c"]).as_bytes(), output.concat().as_bytes(), &[], terms(1), 1 << 20);
    let values: Vec<String> = all.results.lines().map(|line| find::result(line).unwrap().value.to_string()).collect();
    assert_eq!(
        (keys(&all.results), values),
        (vec!["a".to_owned(), "c".to_owned()], vec!["\"1\"".to_owned(), "\"3\"".to_owned()])
    );
    assert_eq!((keys(&all.retry), all.dead.as_str()), (vec!["b".to_owned()], ""));
    assert_eq!((all.counts.duplicates, all.counts.outcomes), (4, 3));
}

#[test]
fn late_results() {
    let input = input(&["a", "b", "c", "d"]);
    // The successor settled `a`, `b` died in it, `c` goes on.
    let second = [good("a", "2"), bad("b", 3), bad("c", 13)].concat();
    let second = run(input.as_bytes(), second.as_bytes(), &[], terms(2), 64);
    assert_eq!((second.counts.succeeded, second.counts.dead, second.counts.retry), (1, 1, 2));
    let first = [good("a", "1"), good("b", "1"), good("c", "1"), bad("d", 3)].concat();
    let late = Terms { late: true, ..terms(1) };
    let first = run(input.as_bytes(), first.as_bytes(), &[(&second.settled, 2)], late, 64);
    assert_eq!(keys(&first.results), ["b", "c"]);
    assert_eq!((first.retry.as_str(), first.dead.as_str()), ("", ""));
    let Counts { succeeded, recovered, retry, dead, settled_before, .. } = first.counts;
    assert_eq!((succeeded, recovered, retry, dead, settled_before), (2, 1, 1, 0, 1));
    let recovered: Value = serde_json::from_str(&first.recovered).unwrap();
    assert_eq!(recovered, json!({"key": "b", "name": KeyName::of("b").to_string(), "attempt": 2}));
    // In whichever order they are read, `b` has succeeded.
    for order in
        [[(&first.settled[..], 1), (&second.settled[..], 2)], [(&second.settled[..], 2), (&first.settled[..], 1)]]
    {
        let third = run(input.as_bytes(), good("b", "3").as_bytes(), &order, terms(3), 64);
        assert_eq!((third.counts.settled_before, keys(&third.retry)), (3, vec!["d".to_owned()]));
    }
}

#[test]
fn a_job_that_failed_as_a_whole() {
    let missing = Blame { class: "permanent:400".to_owned(), message: "the job failed".to_owned(), passing: false };
    let all = run(input(&["a", "b"]).as_bytes(), b"", &[], Terms { missing, ..terms(1) }, 64);
    assert_eq!((keys(&all.dead), all.counts.missing), (vec!["a".to_owned(), "b".to_owned()], 2));
}

#[test]
fn a_line_that_is_too_long() {
    let index = index(input(&["a", "b"]).as_bytes(), terms(1), 64).unwrap();
    let table: [(&[u8], &[u8], Option<&str>); 8] = [
        (b"{\"key\":\"a\",\"response\":{\"cand", b"abc\"}]}}", Some("a")),
        (b"{\"n\": [1, {\"key\":\"b\"}], \"key\" : \"a\" , \"re", b"..}}", Some("a")),
        (b"{\"response\":{\"key\":\"b\",", b"}]},\"key\":\"a\"}", Some("a")),
        (b"{\"response\":{\"key\":\"b\",", b"}]} , \"key\" : \"\\u0061\" }\r", Some("a")),
        (b"{\"response\":{\"key\":\"b\",", b"\"key\":\"a\"}}", None),
        (b"{\"response\":\"", b"\\\"key\\\":\\\"a\"}", None),
        (b"{\"key\":\"a\",\"response\":\"", b"\",\"key\":\"b\"}", None),
        (b"\xff", b"", None),
    ];
    for (head, tail, key) in table {
        let line = Oversized { at: 0, length: 100_000_000, head, tail, limit: 64 };
        let judged = index.judge_oversized(&line);
        let mut pass = Pass::new(Arc::clone(&index));
        assert_eq!(pass.merge(judged).unwrap(), Merged::default());
        let counts = pass.count(pass.rest(0, input(&["a", "b"]).as_bytes()).unwrap()).map(|(_, dead)| dead);
        let dead = String::from_utf8(counts.unwrap()).unwrap();
        assert_eq!(keys(&dead).first().map(String::as_str), key, "{}", String::from_utf8_lossy(head));
        let counts = pass.finish().unwrap().counts;
        assert_eq!((counts.unreadable, counts.dead), (u64::from(key.is_none()), u64::from(key.is_some())));
    }
}

#[test]
fn broken_inputs_are_refused() {
    let twice = index(input(&["a", "b", "a"]).as_bytes(), terms(1), 32).unwrap_err();
    assert!(matches!(twice, PassError::Input { at, .. } if at as usize == input(&["a", "b"]).len()), "{twice}");
    for line in [
        "[]",
        "{\"key\":1,\"request\":{}}",
        "{\"key\":\"a\"}",
        "{\"key\":\"\\ud800\",\"request\":{}}",
        "{\"key\":\"a\",\"request\":[]}",
    ] {
        assert!(index(line.as_bytes(), terms(1), 32).is_err(), "{line}");
    }
    let index = index(input(&["a"]).as_bytes(), terms(1), 32).unwrap();
    let mut pass = Pass::new(Arc::clone(&index));
    let good = settled::write([KeyName::of("a")].into_iter(), std::iter::empty());
    pass.settle(&good, 1).unwrap();
    for object in [&b""[..], &good[..good.len() - 1], &good[1..], &[&good[..], &good[..]].concat()] {
        assert!(matches!(pass.settle(object, 7), Err(PassError::Settled { attempt: 7, .. })));
    }
    pass.merge(index.judge(0, b"\n")).unwrap();
    assert!(matches!(pass.settle(&good, 1), Err(PassError::Order { at: 1, .. })));
    assert!(matches!(pass.merge(index.judge(5, b"")), Err(PassError::Order { at: 5, expected: 1, .. })));
    assert!(pass.rest(0, input(&["b"]).as_bytes()).is_ok(), "a settled row is not read");
    assert!(matches!(
        Pass::new(Arc::clone(&index)).rest(0, input(&["b"]).as_bytes()),
        Err(PassError::Input { at: 0, .. })
    ));
    assert!(matches!(pass.finish(), Err(PassError::Sums(_))), "the input was not read again");
}

#[test]
fn ids_of_rows() {
    let id = row_id("run", "key", 2);
    assert_eq!((id.len(), id.as_str()), (32, row_id("run", "key", 2).as_str()));
    for other in [row_id("runk", "ey", 2), row_id("run", "key", 3), row_id("ru", "nkey", 2)] {
        assert_ne!(id, other);
    }
    assert_eq!(KeyName::of("abc").to_string(), "ba7816bf8f01cfea414140de5dae2223");
}

#[test]
fn a_row_is_found_in_every_file() {
    let rows = input(&["a", "b"]);
    let output = [bad("b", 3), good("a", "x"), bad("a", 13)].concat();
    let all = run(rows.as_bytes(), output.as_bytes(), &[], terms(1), 64);
    let one = |text: &str, key: &str| {
        find::lines(0, text.as_bytes(), key).map(|found| found.line.to_owned()).collect::<Vec<_>>()
    };
    let request = one(&rows, "a");
    let said: Vec<find::Said> =
        one(&output, "a").iter().map(|line| find::said(line, &request[0], None).unwrap()).collect();
    let [find::Said::Value(value, usage), find::Said::Failed(blame)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((value.get(), usage.get(), blame.class.as_str()), ("\"x\"", "{\"totalTokenCount\":3}", "retryable:500"));
    assert_eq!(find::result(&one(&all.results, "a")[0]).unwrap().attempt, 1);
    assert_eq!(find::dead(&one(&all.dead, "b")[0]).unwrap().message, "code 3: no");
    assert_eq!(one(&output, "c"), Vec::<String>::new());
}
