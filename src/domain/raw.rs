//! A look into JSON that is kept as Gemini's own bytes. Each part is read on its own and without recursion, so a
//! part that can't be read (nested too deep, half a surrogate pair) never takes the rest with it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// The members of an object, the last of each name; none when it is no object.
pub(crate) fn members(raw: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// The elements of an array; none when it is no array.
pub(crate) fn elements(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// A string; none when it is none. Half a surrogate pair, which JSON may hold and UTF-8 can't, becomes U+FFFD.
pub(crate) fn text(raw: &RawValue) -> Option<String> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    serde_json::Deserializer::from_str(raw.get()).deserialize_bytes(Bytes).ok()
}

/// A string member of an object.
pub(crate) fn field(fields: &BTreeMap<String, &RawValue>, name: &str) -> Option<String> {
    fields.get(name).and_then(|value| text(value))
}

/// Valid JSON without the white space between its tokens, so that it fits on one line. Numbers, escapes and
/// order stay as they were written.
pub(crate) fn one_line(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|&c| {
            let keep = in_string || !c.is_ascii_whitespace();
            if escaped {
                escaped = false;
            } else if c == '"' {
                in_string = !in_string;
            } else {
                escaped = in_string && c == '\\';
            }
            keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_part_that_cannot_be_read_leaves_the_rest() {
        let deep = format!("{{\"a\":{}1{},\"b\":\"\\ud83d!\",\"c\":1e999}}", "[".repeat(5000), "]".repeat(5000));
        let raw = raw(&deep);
        let members = members(&raw).unwrap();
        assert_eq!(text(members["b"]).as_deref(), Some("\u{fffd}\u{fffd}\u{fffd}!"));
        assert_eq!(members["c"].get(), "1e999");
        assert_eq!(elements(members["a"]).unwrap().len(), 1);
        assert!(text(members["a"]).is_none() && elements(members["b"]).is_none());
    }

    proptest! {
        #[test]
        fn one_line_changes_nothing_but_white_space(words in prop::collection::vec(".*", 0..4), number in any::<f64>()) {
            let value = json!({"words": words, "n": number, "in": [[], {"a b": " \\\" "}]});
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(one_line(&pretty), serde_json::to_string(&value).unwrap());
        }
    }
}
