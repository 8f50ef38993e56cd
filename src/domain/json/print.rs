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

/// Python's `repr(float)`: the shortest digits that are read as the same float, with an exponent below 1e-4 and
/// from 1e16 on, written `1e-07` and `1e+16`.
fn float(out: &mut String, number: f64) {
    let scientific = shortest(number);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = match digits.strip_prefix('-') {
        None => digits,
        Some(positive) => {
            out.push('-');
            positive
        }
    };
    match exponent.parse::<isize>() {
        Ok(power @ 0..16) => above_one(out, digits, power.unsigned_abs()),
        Ok(power @ -4..0) => below_one(out, digits, power.unsigned_abs()),
        _ => with_exponent(out, digits, exponent),
    }
}

/// The shortest digits of a float as `-1.5e-7`; of several that are as short, those nearest to it, and of two that
/// are as near, the even one. This last rule is Python's; Rust's own `{:e}` prints 600000000000000.25 with a 3 at
/// its end. Rust does follow it when it is told how many digits to print.
fn shortest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let fraction = shortest.split_once('.').and_then(|(_, rest)| rest.split_once('e')).map_or(0, |(f, _)| f.len());
    let nearest = format!("{number:.fraction$e}");
    // Below a power of two floats lie closer, so that the nearest digits can belong to the neighbour.
    if nearest.parse() == Ok(number) { nearest } else { shortest }
}

/// `1.5`, 3 → `1500.0`
fn above_one(out: &mut String, digits: &str, exponent: usize) {
    let (first, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, fraction) = fraction.split_at_checked(exponent).unwrap_or((fraction, ""));
    out.push_str(first);
    out.push_str(whole);
    out.extend(std::iter::repeat_n('0', exponent - whole.len()));
    out.push('.');
    out.push_str(if fraction.is_empty() { "0" } else { fraction });
}

/// `1.5`, 3 → `0.0015`
fn below_one(out: &mut String, digits: &str, zeros: usize) {
    out.push_str("0.");
    out.extend(std::iter::repeat_n('0', zeros - 1));
    out.extend(digits.chars().filter(char::is_ascii_digit));
}

/// `1.5`, `-7` → `1.5e-07`
fn with_exponent(out: &mut String, digits: &str, exponent: &str) {
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
