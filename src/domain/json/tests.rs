use super::*;

fn canonical(text: &str) -> String {
    Json::parse(text).unwrap().canonical()
}

fn refused(text: &str) -> JsonError {
    match Json::parse(text) {
        Err(error) => error,
        Ok(value) => panic!("{text:?} was taken as {value:?}"),
    }
}

#[track_caller]
fn assert_refused(text: &str, fault: Fault, message: &str) {
    let error = refused(text);
    assert_eq!((error.fault, error.to_string().as_str()), (fault, message), "{text:?}");
}

#[test]
fn every_vector_has_its_canonical_form_and_key() {
    let vectors: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../../../tests/vectors/idempotency.json")).unwrap();
    assert_eq!(vectors.len(), 10);
    for vector in vectors {
        let canonical = canonical(vector["job_json"].as_str().unwrap());
        assert_eq!(canonical, vector["canonical"].as_str().unwrap());
        assert_eq!(idempotency_key(&canonical).0, vector["idem"].as_str().unwrap());
    }
}

#[test]
fn floats_are_pythons() {
    let pairs = [
        ("1E5", "100000.0"),
        ("1e+16", "1e+16"),
        ("1e15", "1000000000000000.0"),
        ("9999999999999998.0", "9999999999999998.0"),
        ("0.0001", "0.0001"),
        ("0.00009999999999999999", "9.999999999999999e-05"),
        ("1e-7", "1e-07"),
        ("-1.50e-300", "-1.5e-300"),
        ("-0.0", "-0.0"),
        ("0e999999", "0.0"),
        ("1e-999999", "0.0"),
        ("1e23", "1e+23"),
        // Two shortest texts lie equally near: Python takes the even one.
        ("600000000000000.25", "600000000000000.2"),
        ("2251799813685247.75", "2251799813685247.8"),
        // 2 to the -24th: the nearest digits, with a 2 at their end, are its neighbour's.
        ("5.9604644775390625e-8", "5.960464477539063e-08"),
        ("-123456.789", "-123456.789"),
        ("0.00123", "0.00123"),
        ("1.7976931348623158e308", "1.7976931348623157e+308"),
        ("2.4703282292062328e-324", "5e-324"),
        ("0.1000000000000000055511151231257827", "0.1"),
    ];
    for (written, printed) in pairs {
        assert_eq!(canonical(written), printed, "{written}");
    }
}

#[test]
fn integers_keep_every_digit() {
    let long = "9".repeat(5000);
    assert_eq!(canonical(&format!("[-0, 0, -{long}, {long}]")), format!("[0, 0, -{long}, {long}]"));
}

#[test]
fn only_quotes_backslashes_and_controls_are_escaped() {
    let controls: String = (0..0x20_u8).map(|byte| format!("\\u{byte:04X}")).collect();
    let printed = concat!(
        r#""\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f"#,
        r#"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f""#
    );
    assert_eq!(canonical(&format!("\"{controls}\"")), printed);
    assert_eq!(
        canonical(r#""\"\\\/\u007f\u2028\ufffe\u0301\ud83d\uDE00""#),
        "\"\\\"\\\\/\u{7f}\u{2028}\u{fffe}\u{301}😀\""
    );
    assert_eq!(quoted("a\"\u{1}é"), r#""a\"\u0001é""#);
}

#[test]
fn names_are_sorted_by_code_point_and_space_is_normal() {
    // U+FFFF comes before U+1F600, though its UTF-16 form comes after it.
    assert_eq!(
        canonical(" {\"\u{1f600}\":1,\r\n\"\\uffff\" :\t[ ] , \"\":{ }} "),
        "{\"\": {}, \"\u{ffff}\": [], \"😀\": 1}"
    );
}

#[test]
fn members_keep_their_text() {
    let Ok(Json::Object(members)) = Json::parse(r#"{ "b" : [1.50, "\u0041"] ,"a":1E2 }"#) else { panic!("no object") };
    let texts: Vec<_> = members.iter().map(|member| (member.name.as_ref(), member.text)).collect();
    assert_eq!(texts, [("b", r#"[1.50, "\u0041"]"#), ("a", "1E2")]);
}

#[test]
fn duplicate_names_are_refused_at_any_depth() {
    assert_refused(
        r#"{"é": [{"a": 1, "b": 2, "\u0061": 3}]}"#,
        Fault::DuplicateName,
        r#"the name "a" comes twice in one object, again at column 25"#,
    );
    assert_refused(
        "{\"a\":1,\n \"a\":1}",
        Fault::DuplicateName,
        r#"the name "a" comes twice in one object, again at line 2, column 2"#,
    );
    let error = refused(&format!("{{{0}:1,{0}:2}}", quoted(&"n".repeat(10_000))));
    assert!(error.problem.len() < 120, "{error}");
    assert_eq!(
        canonical(r#"{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]}"#),
        r#"{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}]}"#
    );
}

#[test]
fn numbers_that_json_has_no_word_for_are_refused() {
    assert_refused("[1, 1e400]", Fault::Number, "the number 1e400 is too large for a float at column 5");
    assert_refused(
        r#"{"a": -1.7976931348623159e308}"#,
        Fault::Number,
        "the number -1.7976931348623159e308 is too large for a float at column 7",
    );
    assert_refused(r#"{"é": NaN}"#, Fault::Number, "NaN is not a number in JSON at column 7");
    assert_refused("[Infinity]", Fault::Number, "Infinity is not a number in JSON at column 2");
    assert_eq!(refused("[-Infinity]").fault, Fault::Number);
    for text in ["01", "1.", ".5", "+1", "1e", "-", "0x10", "1_000"] {
        assert_eq!(refused(text).fault, Fault::Syntax, "{text}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [r#"["\ud800"]"#, r#"["\udc00x"]"#, r#"["\ud800\u0041"]"#, r#"{"\udfff": 1}"#, r#"["\ude00\ud83d"]"#] {
        let error = refused(text);
        assert_eq!(error.fault, Fault::Syntax, "{text}");
        assert!(error.problem.contains("surrogate") || error.problem.contains("hex escape"), "{error}");
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    assert_refused(r#"{"a": 1} x"#, Fault::Syntax, "not JSON: trailing characters at column 10");
    assert_refused(r#"{"日本": tru}"#, Fault::Syntax, "not JSON: expected ident at column 11");
    for text in ["", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "\"a\nb\"", "\"\\x41\"", "\u{feff}1", "1 2", "{1:2}"] {
        assert_eq!(refused(text).fault, Fault::Syntax, "{text:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_place() {
    assert_eq!(text_of("é".as_bytes()), Ok("é"));
    let error = text_of(b"{\"\xc3\xa9\": \"\xff\"}").unwrap_err();
    assert_eq!(error.fault, Fault::Utf8);
    assert_eq!(error.to_string(), "not UTF-8: byte 9 (counted from 1) at column 8");
    // A surrogate in the bytes themselves, and a character that is cut off.
    assert!(text_of(b"\"\xed\xa0\x80\"").is_err() && text_of(b"\"\xe3\x81").is_err());
}

#[test]
fn nesting_is_bounded_where_serde_json_bounds_it() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(canonical(&nested(DEPTH)), nested(DEPTH));
    assert!(serde_json::from_str::<serde_json::Value>(&nested(DEPTH)).is_ok());
    assert_refused(&nested(DEPTH + 1), Fault::Syntax, "nested more than 127 levels deep at column 128");
    assert!(serde_json::from_str::<serde_json::Value>(&nested(DEPTH + 1)).is_err());
    assert_eq!(refused(&nested(3_000_000)).at.column, 128);
    assert_eq!(refused(&"{\"a\":".repeat(1_000_000)).fault, Fault::Syntax);
    // Depth is not length.
    assert!(Json::parse(&format!("[{}[]]", "[[]],".repeat(10_000))).is_ok());
}

#[test]
fn values_for_serde_json_keep_what_it_can_hold() {
    let value = Json::parse(r#"{"s": "\u00e9", "n": [null, true, -5, 18446744073709551615, 1.5], "e": {}}"#)
        .unwrap()
        .to_value();
    assert_eq!(
        value,
        serde_json::json!({"s": "é", "n": [null, true, -5, 18_446_744_073_709_551_615_u64, 1.5], "e": {}})
    );
    let beyond = Json::parse(&format!("[123456789012345678901234567890, -1{}]", "0".repeat(400))).unwrap().to_value();
    assert_eq!(beyond, serde_json::json!([1.234_567_890_123_456_8e29, f64::MIN]));
}

#[test]
fn a_long_string_is_borrowed_and_not_copied() {
    let text = format!("[\"{}\"]", "長い".repeat(1_000_000));
    let Ok(Json::Array(values)) = Json::parse(&text) else { panic!("no array") };
    assert!(matches!(values.as_slice(), [Json::Text(Cow::Borrowed(_))]));
    assert_eq!(canonical(&text), text);
}
