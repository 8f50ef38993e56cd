//! Whatever bytes a file holds: a line is taken whole or refused with a short reason.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Pieces that lines and headers are made of, right and wrong ones.
const PIECES: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    " ",
    "1",
    "1e999",
    "null",
    "true",
    "\"gleaner\"",
    "\"input\"",
    "\"a\"",
    "\"\"",
    "\"labels\"",
    "\"model\"",
    "\"agent\"",
    "\"mode\"",
    "\"call\"",
    "\"expect\"",
    "\"request\"",
    "\"key\"",
    "\"idempotency_key\"",
    "\"deadline\"",
    "\"1h\"",
    "\"max_attempts\"",
    "\"store\"",
    "\"date\"",
    "\\ud800",
    "日本",
    "\u{feff}",
    "{\"gleaner\":{\"request\":{",
];

/// JSON values that a field may hold, as written.
const VALUES: [&str; 9] = [
    "\"text\"",
    "[ 1, 2.50 ]",
    "{\"type\": \"text\"}",
    "1E5",
    "-0",
    "null",
    "{}",
    "\"\\u00e9\\/\"",
    "123456789012345678901",
];

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(select(PIECES.as_slice()), 0..20).prop_map(|pieces| pieces.concat().into_bytes());
    (text, any::<Index>(), prop::option::of(any::<u8>())).prop_map(|(mut text, at, byte)| {
        let at = at.index(text.len() + 1);
        text.splice(at..at, byte);
        text
    })
}

/// Good lines: an input, and some more fields of all kinds in any order.
fn good_lines() -> impl Strategy<Value = String> {
    let names = ["tools", "generation_config", "system_instruction", "date", "metadata", "response_format", "n"];
    let fields = prop::sample::subsequence(names.to_vec(), 0..=names.len()).prop_shuffle();
    let values = prop::collection::vec(select(VALUES.as_slice()), names.len());
    (fields, values, select(vec!["\"hi\"", "[1]", "{\"a\": 1.50}"]), any::<Index>()).prop_map(
        |(names, values, input, at)| {
            let mut fields: Vec<_> =
                names.iter().zip(values).map(|(name, value)| format!("\"{name}\": {value}")).collect();
            fields.insert(at.index(fields.len() + 1), format!("\"input\": {input}"));
            format!("{{{}}}", fields.join(", "))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn any_line_is_taken_or_refused_with_a_short_reason(line in pieces()) {
        let header = parse_header(&line);
        let job = parse_line(&line, &Header::default());
        for error in [header.err(), job.err()].into_iter().flatten() {
            prop_assert!(error.class.starts_with("bad_line:"));
            prop_assert!(!error.message.is_empty() && error.message.chars().count() < 160, "{}", error);
            prop_assert!(!error.message.contains(['\n', '\r', '\0']), "{}", error);
        }
    }

    #[test]
    fn what_is_sent_is_what_was_written(line in good_lines()) {
        let job = parse_line(line.as_bytes(), &Header::default()).unwrap().unwrap();
        let members = members_of(Json::parse(&line).unwrap()).unwrap();
        let body = String::from_utf8(job.create_body("m", None)).unwrap();
        let sent = members_of(Json::parse(&body).unwrap()).unwrap();
        for field in &members {
            let there = member(&sent, &field.name).map(|sent| sent.text);
            let unsent = job.unsent.iter().any(|name| *name == field.name);
            prop_assert_eq!(there, (!unsent).then_some(field.text), "{}", field.name);
        }
        // Besides the line's own: model, background, store and labels.
        prop_assert_eq!(sent.len(), members.len() - job.unsent.len() + 4);
        prop_assert_eq!(job.key, json::idempotency_key(&Json::Object(members).canonical()));
    }
}
