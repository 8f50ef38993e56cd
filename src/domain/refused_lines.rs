//! The lines that Gemini refuses a batch for: a sentence on each, joined by line breaks (gemini-api.md, section 2.1).

use std::collections::BTreeMap;

/// The refused lines by number, from 1, each with what is wrong with it. Empty: the message names no line.
#[must_use]
pub fn refused_lines(message: &str) -> BTreeMap<u64, String> {
    let mut lines: BTreeMap<u64, String> = BTreeMap::new();
    for (start, _) in message.match_indices(START) {
        let rest = message.get(start + START.len()..).unwrap_or_default();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let Some(said) = rest.get(digits.len()..).and_then(|rest| rest.strip_prefix(':')) else { continue };
        let Ok(number @ 1..) = digits.parse::<u64>() else { continue };
        // A sentence ends where the next one begins, or with its line.
        let said = said.split(START).next().unwrap_or_default();
        let said = said.lines().next().unwrap_or_default().trim();
        lines.entry(number).or_insert_with(|| said.to_owned());
    }
    lines
}

const START: &str = "Error on line ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_with_a_number_is_read() {
        let message = "Error on line 1: invalid JSON, near column 1032: no such field: 'thinking_config'\n\
                       Error on line 12: invalid JSON, near column 23: unexpected character: '['; expected '{'";
        let lines = refused_lines(message);
        assert_eq!(lines.keys().copied().collect::<Vec<_>>(), [1, 12]);
        assert!(lines[&12].ends_with("expected '{'") && lines[&1].ends_with("'thinking_config'"), "{lines:?}");
        let one_line = refused_lines(&message.replace('\n', " "));
        assert_eq!(one_line.len(), 2);
        assert!(one_line[&1].ends_with("'thinking_config'"));
    }

    #[test]
    fn what_names_no_line_is_none() {
        for message in [
            "",
            "Error on line : x",
            "Error on line x: y",
            "Error on line 0: y",
            "the file is empty",
            "error on line 99999999999999999999: z",
        ] {
            assert!(refused_lines(message).is_empty(), "{message}");
        }
    }
}
