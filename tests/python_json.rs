//! The canonical form and the key against CPython's own `json.dumps` and `hashlib`, run beside the test.
//!
//! Every text that is made here goes to both: they must take the same texts, and make the same bytes and the same
//! key of each. `GLEANER_TEST_PYTHON` names the interpreter; without it `python3` is run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what broke by panicking")]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gleaner::domain::json::{Json, idempotency_key, text_of};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

/// A canonical form and its key; none where the text is refused.
type Outcome = Option<(String, String)>;

/// One Python process that answers for the whole of a test.
struct Python {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start() -> Self {
        let program = std::env::var("GLEANER_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/canonical.py");
        let started = Command::new(&program).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| {
            panic!("{program} can't be started ({error}): install Python 3, or name one in GLEANER_TEST_PYTHON")
        });
        let questions = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, questions, answers }
    }

    fn outcome(&mut self, text: &[u8]) -> Outcome {
        writeln!(self.questions, "{}", hex::encode(text)).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        match answer.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            ["ok", canonical, key] => {
                Some((String::from_utf8(hex::decode(canonical).unwrap()).unwrap(), (*key).to_owned()))
            }
            ["refused", ..] => None,
            _ => panic!("Python answered {answer:?}; its own words are on standard error"),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("Python could not be stopped: {error}");
        }
    }
}

fn ours(text: &[u8]) -> Outcome {
    let canonical = Json::parse(text_of(text).ok()?).ok()?.canonical();
    let key = idempotency_key(&canonical).0;
    Some((canonical, key))
}

/// Runs `cases` texts through both; `may_be_refused` says whether a text that both refuse is fine.
fn compare(cases: u32, texts: impl Strategy<Value = Vec<u8>>, may_be_refused: bool) {
    let python = RefCell::new(Python::start());
    let persistence = FileFailurePersistence::WithSource("regressions");
    let config = ProptestConfig {
        failure_persistence: Some(Box::new(persistence)),
        source_file: Some(file!()),
        max_shrink_iters: 20_000,
        ..ProptestConfig::with_cases(cases)
    };
    let agreement = TestRunner::new(config).run(&texts, |text| {
        let theirs = python.borrow_mut().outcome(&text);
        prop_assert!(may_be_refused || theirs.is_some(), "Python refused {}", String::from_utf8_lossy(&text));
        prop_assert_eq!(ours(&text), theirs, "{}", String::from_utf8_lossy(&text));
        Ok(())
    });
    agreement.unwrap_or_else(|difference| panic!("{difference}"));
}

/// The same float in one of the ways in which JSON may write it.
fn written(number: f64, form: u8, zeros: usize) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let zeros = "0".repeat(zeros);
    let dot = if digits.contains('.') { "" } else { "." };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    match form {
        0 => format!("{number:?}"),
        1 => format!("{digits}E{sign}{exponent}"),
        2 => format!("{digits}{dot}0{zeros}e{exponent}"),
        3 => format!("{digits}e{}{zeros}{}", if sign == "+" { "+" } else { "-" }, exponent.trim_start_matches('-')),
        // All the digits of the number itself, or all its zeros.
        4 => format!("{number:.digits$}", digits = 1 + zeros.len() * 40),
        _ => format!("{number:.25e}"),
    }
}

fn floats() -> impl Strategy<Value = String> {
    let any_bits = any::<u64>().prop_map(f64::from_bits);
    let round = (-330_i32..310, 1_u32..1000).prop_map(|(exponent, n)| format!("{n}e{exponent}").parse().unwrap());
    // The neighbours of powers of two, where the shortest digits are hardest to find.
    let near_powers_of_two = (0_u64..0x7ff, -3_i64..=3)
        .prop_map(|(exponent, step)| f64::from_bits((exponent << 52).wrapping_add_signed(step)));
    let turning_points = (select(vec![1e-5, 1e-4, 1e-3, 1.0, 1e15, 1e16, 1e17, 1e22, 1e23]), -3_i64..=3)
        .prop_map(|(point, step): (f64, i64)| f64::from_bits(point.to_bits().wrapping_add_signed(step)));
    // Where two shortest texts can lie equally near: fractions of a few bits behind 15 digits.
    let ties = (1_u64 << 45..1 << 53, -8_i32..9).prop_map(|(digits, power)| digits as f64 * f64::from(power).exp2());
    let special = select(vec![0.0, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::MIN, f64::EPSILON]);
    let numbers =
        prop_oneof![4 => any_bits, 2 => round, 2 => near_powers_of_two, 2 => ties, 1 => turning_points, 1 => special];
    (numbers.prop_filter("JSON has only finite numbers", |number| number.is_finite()), 0_u8..6, 0_usize..9)
        .prop_map(|(number, form, zeros)| written(number, form, zeros))
}

/// Decimal texts that need not be any float's own: long ones, halfway ones, and some beyond the range.
fn decimals(exponents: std::ops::Range<i32>) -> impl Strategy<Value = String> {
    let exponent = (select(vec!["e", "E", "e+", "E+", "e-", "E-"]), exponents.prop_map(i32::unsigned_abs));
    (integers(25), "[0-9]{1,40}", prop::option::of(exponent)).prop_map(|(whole, fraction, exponent)| {
        let exponent = exponent.map(|(mark, digits)| format!("{mark}{digits}"));
        format!("{whole}.{fraction}{}", exponent.unwrap_or_default())
    })
}

fn integers(digits: usize) -> impl Strategy<Value = String> {
    let any_size =
        (select(vec!["", "-"]), "[1-9]", prop::collection::vec(select(('0'..='9').collect::<Vec<_>>()), 0..digits))
            .prop_map(|(sign, first, rest)| format!("{sign}{first}{}", String::from_iter(rest)));
    let edges = select(vec!["0", "-0", "9007199254740993", "18446744073709551616", "-9223372036854775809"]);
    prop_oneof![4 => any_size, 1 => edges.prop_map(str::to_owned)]
}

/// Characters of every class.
fn characters() -> impl Strategy<Value = char> {
    let points = "\"\\/\u{7f}\u{80}\u{85}\u{a0}\u{ad}\u{301}\u{200b}\u{200d}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}";
    prop_oneof![
        3 => prop::char::range(' ', '~'),
        2 => prop::char::range('\0', '\u{1f}'),
        2 => select(points.chars().collect::<Vec<_>>()),
        1 => prop::char::range('\u{80}', '\u{2ff}'),
        1 => prop::char::range('\u{300}', '\u{36f}'),
        1 => prop::char::range('\u{3040}', '\u{9fff}'),
        // Either side of the surrogates: where the order of UTF-16 and of code points differ.
        1 => prop::char::range('\u{d7f0}', '\u{d7ff}'),
        1 => prop::char::range('\u{e000}', '\u{ffff}'),
        1 => prop::char::range('\u{10000}', '\u{10ffff}'),
    ]
}

/// A character as a JSON string may hold it: as it is where it may be, or escaped in one of the ways.
fn written_character(character: char, form: u8) -> String {
    let short = match character {
        '"' | '\\' | '/' => Some(character),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        _ => None,
    };
    let must_be_escaped = character < ' ' || matches!(character, '"' | '\\');
    let units = |upper: bool| {
        let mut units = [0; 2];
        let escape = |unit: &u16| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        character.encode_utf16(&mut units).iter().map(escape).collect()
    };
    match (form, short) {
        (0 | 1, _) if !must_be_escaped => character.to_string(),
        (0..=2, Some(letter)) => format!("\\{letter}"),
        (form, _) => units(form % 2 == 0),
    }
}

fn strings(length: usize) -> impl Strategy<Value = String> {
    prop::collection::vec((characters(), 0_u8..5), 0..length).prop_map(|characters| {
        let inside: String =
            characters.into_iter().map(|(character, form)| written_character(character, form)).collect();
        format!("\"{inside}\"")
    })
}

fn spaces() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

/// Whole values, names of one object made different by their number where they would be the same.
fn values(decimals: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec!["null", "true", "false"]).prop_map(str::to_owned);
    let leaf = prop_oneof![1 => words, 2 => floats(), 1 => decimals, 2 => integers(60), 4 => strings(12)].boxed();
    let nested = leaf.prop_recursive(6, 60, 8, |inner| {
        let item = (spaces(), inner.clone(), spaces())
            .prop_map(|(before, value, after)| format!("{before}{value}{after}"))
            .boxed();
        let member = (strings(4), spaces(), item.clone());
        let array = prop::collection::vec(item, 0..8).prop_map(|items| format!("[{}]", items.join(",")));
        let object = prop::collection::vec(member, 0..8).prop_map(|members: Vec<_>| object(&members));
        prop_oneof![1 => array, 2 => object]
    });
    nested.prop_map(String::into_bytes)
}

fn object(members: &[(String, String, String)]) -> String {
    let mut names = std::collections::HashSet::new();
    let members = members.iter().enumerate().map(|(place, (name, space, value))| {
        let unescaped: String = serde_json::from_str(name).unwrap();
        let name = if names.insert(unescaped) { name.clone() } else { name.replacen('"', &format!("\"{place}~"), 1) };
        format!("{space}{name}{space}:{value}")
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// One change to a text that may break it.
#[derive(Debug, Clone)]
enum Damage {
    Cut(prop::sample::Index),
    Remove(prop::sample::Index),
    Insert(prop::sample::Index, &'static str),
    Double(prop::sample::Index, prop::sample::Index),
}

/// What is thrown into texts: marks of the grammar, half surrogate pairs, words that only Python reads, numbers
/// beyond the range, bytes that break UTF-8 come from `Remove`.
const DEBRIS: [&str; 30] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "0",
    "-",
    "+",
    ".",
    "e",
    "E9",
    "1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "\\ud800",
    "\\udc00",
    "\\u00",
    "\u{0}",
    "\n",
    "\u{a0}",
    "\u{feff}",
    "null",
    "//",
    "'",
    "\"a\":1,\"a\":1,",
    "\"\\u0061\":",
];

impl Damage {
    fn done(&self, mut text: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Cut(at) => text.truncate(at.index(text.len() + 1)),
            Self::Remove(at) if !text.is_empty() => {
                text.remove(at.index(text.len()));
            }
            Self::Remove(_) => {}
            Self::Insert(at, debris) => {
                let at = at.index(text.len() + 1);
                text.splice(at..at, debris.bytes());
            }
            Self::Double(from, to) => {
                let (from, to) = (from.index(text.len() + 1), to.index(text.len() + 1));
                let (from, to) = (from.min(to), from.max(to));
                let part: Vec<u8> = text.iter().skip(from).take(to - from).copied().collect();
                text.splice(from..from, part);
            }
        }
        text
    }
}

fn damages() -> impl Strategy<Value = Damage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        1 => place().prop_map(Damage::Cut),
        3 => place().prop_map(Damage::Remove),
        5 => (place(), select(DEBRIS.as_slice())).prop_map(|(at, debris)| Damage::Insert(at, debris)),
        2 => (place(), place()).prop_map(|(from, to)| Damage::Double(from, to)),
    ]
}

#[test]
fn floats_of_every_magnitude_and_form() {
    compare(4000, floats().prop_map(String::into_bytes), false);
}

#[test]
fn every_power_of_two_and_its_neighbours() {
    let bits = (0..0x7ff_u64).flat_map(|exponent| (0..3).map(move |step| ((exponent << 52) + step).saturating_sub(1)));
    let texts: Vec<String> = bits.map(|bits| format!("{:?}", f64::from_bits(bits))).collect();
    let text = format!("[{}]", texts.join(","));
    let theirs = Python::start().outcome(text.as_bytes());
    assert!(theirs.is_some());
    assert_eq!(ours(text.as_bytes()), theirs);
}

#[test]
fn decimals_that_are_no_floats_own() {
    compare(3000, decimals(-400..400).prop_map(String::into_bytes), true);
}

#[test]
fn integers_of_any_size() {
    compare(500, integers(6000).prop_map(String::into_bytes), false);
}

#[test]
fn strings_of_every_code_point_class() {
    compare(3000, strings(40).prop_map(String::into_bytes), false);
}

#[test]
fn every_code_point_by_itself_and_escaped() {
    let mut python = Python::start();
    let planes = (0..=0x10_ffff_u32).filter(|point| *point < 0x3000 || point % 0xff == 0 || point & 0xffff > 0xfff0);
    let characters: Vec<char> = planes.filter_map(char::from_u32).collect();
    for form in 0..5 {
        for some in characters.chunks(1000) {
            let text = format!("\"{}\"", some.iter().map(|c| written_character(*c, form)).collect::<String>());
            let theirs = python.outcome(text.as_bytes());
            assert!(theirs.is_some(), "{text}");
            assert_eq!(ours(text.as_bytes()), theirs);
        }
    }
}

#[test]
fn nested_values_with_names_across_the_planes() {
    compare(3000, values(decimals(-270..270)), false);
}

#[test]
fn damaged_texts_are_taken_or_refused_alike() {
    let damaged = (values(decimals(-400..400)), prop::collection::vec(damages(), 1..4));
    let texts = damaged.prop_map(|(text, damages)| damages.iter().fold(text, |text, damage| damage.done(text)));
    compare(6000, texts, true);
}

#[test]
fn what_has_no_canonical_form_is_refused_by_both() {
    let mut python = Python::start();
    let texts = [
        "{\"a\": NaN}",
        "[Infinity]",
        "[-Infinity]",
        "[1e400]",
        "-1e400",
        "[1.7976931348623159e308]",
        "{\"a\": {\"b\": 1, \"\\u0062\": 1}}",
        "[{\"😀\": 1, \"\\ud83d\\ude00\": 2}]",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "{\"\\ud83d\": 1}",
        "\"\\ud83dx\\ude00\"",
    ];
    for text in texts {
        assert_eq!((ours(text.as_bytes()), python.outcome(text.as_bytes())), (None, None), "{text}");
    }
    // The nearest neighbours that both take.
    for text in ["1e308", "[1.7976931348623158e308]", "{\"b\": 1, \"B\": 1}", "\"\\ud83d\\ude00\""] {
        let theirs = python.outcome(text.as_bytes());
        assert!(theirs.is_some(), "{text}");
        assert_eq!(ours(text.as_bytes()), theirs, "{text}");
    }
}
