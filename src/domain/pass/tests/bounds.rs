//! What memory there isn't room for.

use std::fmt::Write as _;

use super::*;

/// Rows whose requests ask for so many different things that not all of them are kept.
#[test]
fn rows_that_wait_for_their_request() {
    let row = |key: usize, padding: usize| {
        let note = "x".repeat(padding);
        let schema = json!({"type": "OBJECT", "description": note, "properties": {"n": {"type": "INTEGER", "maximum": key}}, "required": ["n"]});
        json!({"key": key.to_string(), "request": {"contents": [], "generationConfig": {"responseSchema": schema}}})
            .to_string()
            + "\n"
    };
    let output: String =
        (0..24).rev().map(|key| good(&key.to_string(), &format!("{{ \"n\": {} }}", 20 - key / 4 * 2))).collect();
    let small: String = (0..24).map(|key| row(key, 10)).collect();
    let large: String = (0..24).map(|key| row(key, 1 << 20)).collect();
    let (small, large) = (small.as_bytes(), large.as_bytes());
    let index = index(large, terms(1), 1 << 22).unwrap();
    assert!(index.undecided(&index.judge(0, output.as_bytes())).count() > 5, "some do wait");
    let (few, many) =
        (run(small, output.as_bytes(), &[], terms(1), 300), run(large, output.as_bytes(), &[], terms(1), 300));
    assert_eq!((few.results, &few.counts), (many.results, &many.counts));
    assert!(few.counts.succeeded > 3 && few.counts.dead > 3, "{:?}", few.counts);

    // They must be decided, and by their own lines.
    let judged = || index.judge(0, output.as_bytes());
    assert!(matches!(Pass::new(Arc::clone(&index)).merge(judged()), Err(PassError::Undecided { .. })));
    assert!(matches!(index.decide::<&[u8]>(judged(), &[]), Err(PassError::Undecided { .. })));
    let others = vec![row(0, 10); index.undecided(&judged()).count()];
    assert!(matches!(index.decide(judged(), &others), Err(PassError::Undecided { .. })));
}

#[test]
fn messages_that_there_is_no_room_for_say_where_they_are() {
    let rows = 22_000;
    let (mut input, mut output) = (String::new(), String::new());
    for row in 0..rows {
        let pad = "long ".repeat(80);
        writeln!(input, "{{\"key\":\"{row}\",\"request\":{{}}}}").unwrap();
        writeln!(output, "{{\"key\":\"{row}\",\"error\":{{\"code\":3,\"message\":\"{row} {pad}\"}}}}").unwrap();
    }
    let all = run(input.as_bytes(), output.as_bytes(), &[], terms(1), 1 << 20);
    let dead: Vec<_> = all.dead.lines().map(|line| find::dead(line).unwrap()).collect();
    assert_eq!(dead.len(), rows);
    assert!(dead[0].message.starts_with("code 3: 0 long long"));
    let last = dead.last().unwrap();
    assert_eq!(last.class, "permanent:400");
    let at: usize = last.message.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(output.as_bytes()[at..].starts_with(format!("{{\"key\":\"{}\"", rows - 1).as_bytes()), "{}", last.message);
}

#[test]
fn classes_without_end() {
    let (mut rows, mut output) = (String::new(), String::new());
    for row in 0..400 {
        writeln!(rows, "{{\"key\":\"{row}\",\"request\":{{}}}}").unwrap();
        let line = json!({"key": row.to_string(), "response": {"promptFeedback": {"blockReason": format!("R{row}")}}});
        writeln!(output, "{line}").unwrap();
    }
    let counts = run(rows.as_bytes(), output.as_bytes(), &[], terms(1), 1 << 20).counts;
    assert!(counts.dead_by_class.len() < 300);
    assert_eq!((counts.dead, counts.dead_by_class["blocked:R0"]), (400, 1));
    assert!(counts.dead_by_class["blocked:MANY"] > 100);
}
