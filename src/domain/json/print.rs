//! Printing as Python's `json.dumps(value, sort_keys=True, ensure_ascii=False)` does.

use super::{Json, Member};

/// Appends the canonical form of `value`.
pub(super) fn value(out: &mut String, value: &Json<'_>) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        // Python's int has no minus zero.
        Json::Integer("-0") => out.push('0'),
        Json::Integer(digits) => out.push_str(digits),
        Json::Float(number) => float(out, *number),
        Json::Text(text) => string(out, text),
        Json::Array(values) => array(out, values),
        Json::Object(members) => object(out, members),
    }
}

fn array(out: &mut String, values: &[Json<'_>]) {
    out.push('[');
    for (place, item) in values.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        value(out, item);
    }
    out.push(']');
}

fn object(out: &mut String, members: &[Member<'_>]) {
    let mut sorted: Vec<&Member<'_>> = members.iter().collect();
    // The order of UTF-8's bytes is the order of code points, which is how Python compares strings.
    sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    out.push('{');
    for (place, member) in sorted.into_iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        string(out, &member.name);
        out.push_str(": ");
        value(out, &member.value);
    }
    out.push('}');
}

/// Python's `repr(float)`. Rust's `{:?}` finds the same shortest digits and turns to an exponent at the same
/// magnitudes (below 1e-4, from 1e16 on), but writes it `1e16` and `1e-7` where Python writes `1e+16` and `1e-07`.
fn float(out: &mut String, number: f64) {
    let shortest = format!("{number:?}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        out.push_str(&shortest);
        return;
    };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |positive| ('-', positive));
    out.push_str(digits);
    out.push('e');
    out.push(sign);
    if exponent.len() < 2 {
        out.push('0');
    }
    out.push_str(exponent);
}

/// `text` as a JSON string, escaped as Python does it: quotes, backslashes and controls below 0x20, nothing else.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::new();
    string(&mut out, text);
    out
}

fn string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some((plain, escaped, after)) = split_at_escape(rest) {
        out.push_str(plain);
        escape(out, escaped);
        rest = after;
    }
    out.push_str(rest);
    out.push('"');
}

/// What comes before the first byte that must be escaped, that byte, and what comes after it.
fn split_at_escape(text: &str) -> Option<(&str, u8, &str)> {
    let at = text.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')?;
    let (plain, rest) = text.split_at_checked(at)?;
    let escaped = rest.bytes().next()?;
    Some((plain, escaped, rest.get(1..)?))
}

fn escape(out: &mut String, byte: u8) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x08 => out.push_str("\\b"),
        0x0c => out.push_str("\\f"),
        other => {
            out.push_str("\\u00");
            out.push_str(&hex::encode([other]));
        }
    }
}
