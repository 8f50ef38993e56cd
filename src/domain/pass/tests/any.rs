//! The pass over any lines, against a model that knows what each line was meant to say.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Keys of the input are the first of these.
const KEYS: [&str; 8] = ["a", "b", "潮", "d \"q\"", "e\\", "f\u{0}", "", "h"];
const ROWS: usize = 6;

#[derive(Debug, Clone)]
enum Means {
    Value(usize),
    Fails(usize, bool),
    Nothing,
}

#[derive(Debug, Clone)]
struct Line {
    bytes: Vec<u8>,
    means: Means,
}

fn of(bytes: impl Into<Vec<u8>>, means: Means) -> Line {
    let mut bytes = bytes.into();
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Line { bytes, means }
}

fn line() -> impl Strategy<Value = Line> {
    let key = 0..KEYS.len();
    let with = |key: usize, rest: &str| format!("{{{rest},\"key\":{}}}", json!(KEYS[key]));
    let response = "\"response\":{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\\u00e4\"}]}}]}";
    prop_oneof![
        4 => (key.clone(), "[a-z\"\\\\ \u{0}é]{0,5}x").prop_map(|(key, text)| of(good(KEYS[key], &text), Means::Value(key))),
        2 => (key.clone(), prop::sample::select(vec![1, 4, 8, 13, 14]))
            .prop_map(|(key, code)| of(bad(KEYS[key], code), Means::Fails(key, true))),
        2 => (key.clone(), prop::sample::select(vec![3, 5, 404])).prop_map(|(key, code)| of(bad(KEYS[key], code), Means::Fails(key, false))),
        1 => key.clone().prop_map(move |key| of(with(key, response), Means::Value(key))),
        1 => key.clone().prop_map(move |key| of(with(key, &format!("{response},\"error\":{{\"code\":3}}")), Means::Fails(key, false))),
        1 => key.clone().prop_map(move |key| of(with(key, "\"response\":null"), Means::Fails(key, true))),
        1 => key.clone().prop_map(move |key| of(with(key, "\"status\":{\"code\":14}"), Means::Fails(key, true))),
        1 => key.clone().prop_map(move |key| of(with(key, "\"response\":{\"candidates\":[{\"finishReason\":\"SAFETY\"}]}"), Means::Fails(key, false))),
        1 => key.clone().prop_map(move |key| of(with(key, "\"other\":1"), Means::Fails(key, true))),
        1 => (key, 1..8usize).prop_map(|(key, cut)| {
            let line = good(KEYS[key], "cut");
            of(&line.as_bytes()[..line.len() - 1 - cut], Means::Nothing)
        }),
        1 => Just(of(format!("{{{response}}}"), Means::Nothing)),
        1 => Just(of(format!("{{\"key\":7,{response}}}"), Means::Nothing)),
        1 => Just(of(format!("{{\"key\":\"\\udc00\",{response}}}"), Means::Nothing)),
        1 => prop::sample::select(vec![&b""[..], b" \r", b"[1]", b"null", b"{\"key\":\"a\",\"response\":\"\xff\"}", b"\xfe", b"{}", b"{"])
            .prop_map(|bytes| of(bytes, Means::Nothing)),
    ]
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec(line(), 0..14)
}

fn bytes(lines: &[Line], end: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        bytes.extend_from_slice(&line.bytes);
        if number + 1 < lines.len() || end.len() > 1 {
            bytes.extend_from_slice(end.as_bytes());
        }
    }
    bytes
}

fn set(lines: &str) -> BTreeSet<String> {
    let all = keys(lines);
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(set.len(), all.len(), "no key comes twice in {lines}");
    set
}

/// Asserts that the sets have nothing in common and are `whole` together.
fn parted(whole: &BTreeSet<String>, parts: &[&BTreeSet<String>]) -> Result<(), TestCaseError> {
    let together: BTreeSet<String> = parts.iter().flat_map(|part| part.iter().cloned()).collect();
    prop_assert_eq!(&together, whole);
    prop_assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), whole.len());
    Ok(())
}

/// What the lines mean for the rows: a value, or a failure that may pass or not; none for rows without a line.
fn model(lines: &[Line]) -> Vec<Option<Means>> {
    let mut rows: Vec<Option<Means>> = vec![None; ROWS];
    for line in lines {
        let (Means::Value(key) | Means::Fails(key, _)) = line.means else { continue };
        let Some(row) = rows.get_mut(key) else { continue };
        match (&row, &line.means) {
            (None, _) | (Some(Means::Fails(..)), Means::Value(_)) => *row = Some(line.means.clone()),
            _ => {}
        }
    }
    rows
}

fn chosen(rows: &[Option<Means>], wanted: impl Fn(&Option<Means>) -> bool) -> BTreeSet<String> {
    (0..ROWS).filter(|row| wanted(&rows[*row])).map(|row| KEYS[row].to_owned()).collect()
}

fn all_keys() -> BTreeSet<String> {
    KEYS[..ROWS].iter().map(|key| (*key).to_owned()).collect()
}

fn named(mask: u8) -> Vec<KeyName> {
    (0..KEYS.len()).filter(|row| mask & 1 << row != 0).map(|row| KeyName::of(KEYS[row])).collect()
}

fn texts(mask: u8) -> BTreeSet<String> {
    (0..ROWS).filter(|row| mask & 1 << row != 0).map(|row| KEYS[row].to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_row_ends_once_and_as_it_should(
        lines in lines(), end in prop::sample::select(vec!["\n", "\r\n"]), last: bool, late: bool,
        good: u8, died: u8, sizes in (1..200usize, 1..200usize),
    ) {
        let output = bytes(&lines, end);
        let input = input(&KEYS[..ROWS]);
        let earlier = settled::write(named(good).into_iter(), named(died).into_iter());
        let terms = Terms { last, late, ..terms(3) };
        let all = run(input.as_bytes(), &output, &[(&earlier, 2)], terms.clone(), sizes.0);
        // Twice, and cut another way, it is the same.
        prop_assert_eq!(&all, &run(input.as_bytes(), &output, &[(&earlier, 2)], terms, sizes.1));

        let (results, retry, dead) = (set(&all.results), set(&all.retry), set(&all.dead));
        let rows = model(&lines);
        let values = chosen(&rows, |row| matches!(row, Some(Means::Value(_))));
        let succeeded_before = texts(good);
        let died_before: BTreeSet<_> = texts(died).difference(&succeeded_before).cloned().collect();
        let expected: BTreeSet<_> = values.difference(&succeeded_before).cloned().collect();
        prop_assert_eq!(&results, &expected);
        let recovered: BTreeSet<_> = results.intersection(&died_before).cloned().collect();
        prop_assert_eq!(&set(&all.recovered), &recovered);
        let before: BTreeSet<_> =
            succeeded_before.union(&died_before).filter(|key| !recovered.contains(*key)).cloned().collect();
        let open: BTreeSet<_> = all_keys().difference(&before).filter(|key| !results.contains(*key)).cloned().collect();
        if late {
            prop_assert!(retry.is_empty() && dead.is_empty());
            prop_assert_eq!((all.counts.retry, all.counts.dead), (open.len() as u64, 0));
        } else {
            parted(&all_keys(), &[&results, &retry, &dead, &before])?;
            let lasting = chosen(&rows, |row| last || matches!(row, Some(Means::Fails(_, false))));
            prop_assert_eq!(&dead, &open.intersection(&lasting).cloned().collect());
            // `retry` is made of just the lines of the input, in their order.
            let lines: String = input.split_inclusive('\n').filter(|line| set(line).is_subset(&retry)).collect();
            prop_assert_eq!(&all.retry, &lines);
        }
        let Counts { rows, succeeded, settled_before, outcomes, lines: counted, .. } = all.counts;
        prop_assert_eq!((rows, succeeded, settled_before), (6, results.len() as u64, before.len() as u64));
        prop_assert_eq!(outcomes, chosen(&model(&lines), Option::is_some).len() as u64);
        prop_assert_eq!(counted, output.split_inclusive(|byte| *byte == b'\n').count() as u64);
    }

    /// An attempt that was given up, its successor, and the successor's successor, whose input is what is left.
    #[test]
    fn no_row_is_settled_twice(first in lines(), second in lines(), third in lines(), late_at in 0..3usize) {
        let input = input(&KEYS[..ROWS]);
        let outputs = [bytes(&first, "\n"), bytes(&second, "\n"), bytes(&third, "\n")];
        let late = Terms { late: true, ..terms(1) };
        let mut settled: Vec<(Vec<u8>, u32)> = Vec::new();
        let (mut succeeded, mut dead) = (BTreeSet::new(), BTreeSet::new());
        let mut next = input.clone();
        for turn in 0..3 {
            let (of, number, output, terms) = match turn {
                _ if turn == late_at => (input.clone(), 1, &outputs[0], late.clone()),
                _ if turn < 2 && (late_at == 0 || turn == 0) => (next.clone(), 2, &outputs[1], terms(2)),
                _ => (next.clone(), 3, &outputs[2], Terms { last: true, ..terms(3) }),
            };
            let known: Vec<(&[u8], u32)> = settled.iter().rev().map(|(object, attempt)| (&object[..], *attempt)).collect();
            let all = run(of.as_bytes(), output, &known, terms, 100);
            let (results, retry, buried) = (set(&all.results), set(&all.retry), set(&all.dead));
            prop_assert!(results.is_disjoint(&succeeded), "no row succeeds twice");
            prop_assert!(retry.is_disjoint(&succeeded) && retry.is_disjoint(&dead), "what is settled stays so");
            prop_assert!(buried.is_disjoint(&succeeded) && buried.is_disjoint(&dead));
            let recovered: BTreeSet<_> = results.intersection(&dead).cloned().collect();
            prop_assert_eq!(&recovered, &set(&all.recovered));
            succeeded.extend(results);
            dead.extend(buried);
            dead.retain(|key| !recovered.contains(key));
            if turn != late_at {
                next = all.retry;
            }
            settled.push((all.settled, number));
        }
        parted(&all_keys(), &[&succeeded, &dead, &set(&next).difference(&succeeded).cloned().collect()])?;
    }

    #[test]
    fn any_bytes(output in prop::collection::vec(prop::sample::select(&b"{}[]\":,\\u d8\nkeya\xff0"[..]), 0..60), size in 1..20usize) {
        let all = run(input(&["a"]).as_bytes(), &output, &[], terms(1), size);
        prop_assert_eq!(all.counts.succeeded + all.counts.retry + all.counts.dead, 1);
    }
}
