//! The quick way says what the general code says, or nothing.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::value::RawValue;

use super::super::asks::Asked;
use super::super::{quick, rows};
use super::*;
use crate::domain::extract;

/// Schemas of the usual words and some others, and values that mostly fit them.
fn schema(depth: u32) -> BoxedStrategy<(Value, BoxedStrategy<Value>)> {
    let text = "[a-z\u{e9}潮\"\\\\\n\t\u{1}/]{0,9}";
    let other =
        prop::sample::select(vec![json!(1), json!("x"), json!(null), json!(true), json!(0.5), json!([]), json!({})]);
    let mostly = move |usual: BoxedStrategy<Value>| prop_oneof![30 => usual, 1 => other.clone()].boxed();
    let leaf = prop_oneof![
        6 => Just((json!({"type": "STRING", "title": "t"}), text.prop_map(Value::from).boxed())),
        6 => (0..4usize, 3..9usize).prop_map(move |(least, most)| (
            json!({"type": "string", "minLength": least, "maxLength": most.to_string()}),
            "[a-z\u{e9}潮]{2,6}".prop_map(Value::from).boxed()
        )),
        4 => any::<bool>().prop_map(move |nullable| (
            json!({"type": "STRING", "format": "enum", "enum": ["tide", "潮", "a\"b"], "nullable": nullable}),
            prop_oneof![
                20 => prop::sample::select(vec!["tide", "潮"]).prop_map(Value::from),
                1 => prop::sample::select(vec![json!("a\"b"), json!("c"), Value::Null]),
            ].boxed()
        )),
        2 => Just((json!({"enum": ["tide"]}), prop::sample::select(vec![json!("tide"), json!(null)]).boxed())),
        4 => (-3..3i64, 15..20i64).prop_map(|(least, most)| (
            json!({"type": "NUMBER", "minimum": least, "maximum": most}),
            prop_oneof![(-1..18i64).prop_map(Value::from), (-2.0..17.0f64).prop_map(Value::from)].boxed()
        )),
        4 => Just((json!({"type": "integer"}), prop_oneof![9 => any::<i32>().prop_map(Value::from), 1 => any::<u64>().prop_map(Value::from)].boxed())),
        4 => Just((json!({"type": ["boolean", "null"]}), prop_oneof![any::<bool>().prop_map(Value::from), Just(Value::Null)].boxed())),
        1 => Just((json!(true), any::<f64>().prop_map(Value::from).boxed())),
    ]
    .prop_map(move |(schema, value)| (schema, mostly(value)))
    .boxed();
    if depth == 0 {
        return leaf;
    }
    let inner = schema(depth - 1);
    let array = (inner.clone(), 0..3usize, 3..6usize).prop_map(|((schema, value), least, most)| {
        let values = prop::collection::vec(value, 1..5).prop_map(Value::from).boxed();
        (json!({"type": "ARRAY", "items": schema, "minItems": least, "maxItems": most}), values)
    });
    let names = prop::sample::subsequence(vec!["a", "b", "c c", "d\"", "潮"], 0..5);
    let object = (names, prop::collection::vec(inner, 5), any::<u8>(), any::<u8>()).prop_map(
        |(names, inner, required, open)| {
            let members: serde_json::Map<_, _> =
                names.iter().zip(&inner).map(|(name, (schema, _))| ((*name).to_owned(), schema.clone())).collect();
            let needed: Vec<&str> = names
                .iter()
                .enumerate()
                .filter(|(place, _)| required & 1 << place != 0)
                .map(|(_, name)| *name)
                .collect();
            let mut schema =
                json!({"type": "OBJECT", "properties": members, "required": needed, "propertyOrdering": names});
            if open & 3 == 0 {
                schema["additionalProperties"] = (open & 4 == 0).into();
            }
            let values: Vec<_> = names.iter().zip(inner).map(|(name, (_, value))| (Just(*name), value)).collect();
            let extra = prop::collection::vec(("[ax]", Just(json!([1, {"z": ""}]))), 0..2);
            let value = (values, extra, any::<u8>()).prop_map(|(values, extra, left)| {
                let kept = values.into_iter().enumerate().filter(|(place, _)| left >> place & 3 != 3);
                let named = kept.map(|(_, (name, value))| (name.to_owned(), value));
                let more = extra.into_iter().filter(|_| left & 1 == 1);
                Value::Object(named.chain(more).collect())
            });
            (schema, value.boxed())
        },
    );
    let odd = Just((json!({"pattern": "^a"}), "[ab]".prop_map(Value::from).boxed()));
    prop_oneof![1 => odd, 10 => leaf, 20 => array, 40 => object].boxed()
}

type Damage = Vec<(prop::sample::Index, u8, &'static str)>;

/// Small damage to a text: pieces of JSON where they don't belong, characters left out, further members.
fn damage() -> impl Strategy<Value = Damage> {
    let pieces = vec![
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\t",
        "0",
        "1e5",
        ".5",
        "-",
        "null",
        "\\u0041",
        "\\ud800",
        "\\ud83d\\ude00",
        "\u{1}",
        "潮",
        "true",
        "e",
        "99999999999999999999",
        "\u{a0}",
        "```",
    ];
    let members = vec![
        "\"a\":1,",
        "\"thought\":true,",
        "\"finish_reason\":\"STOP\",",
        "\"error\":null,",
        "\"key\":\"b\",",
        "\"text\":\"y\",",
        "\"usage_metadata\":{\"a\":1},",
        "\"finishReason\":\"OTHER\",",
        "\"request\":{},",
        "\"n\":01,",
        "\"n\":1.,",
        "\"n\":-,",
        "\"generationConfig\":{\"a\":1},",
        "\"response_schema\":{},",
        "\"response\":{\"candidates\":[]},",
        "\"x\":\"\\ud800\",",
        "\"parts\":[{\"text\":\"z\"}],",
        "\"candidates\":[],",
        "\"content\":{},",
        "\"usageMetadata\":{},",
        "\"\\u006bey\":\"a\",",
    ];
    let damage = prop_oneof![(0..3u8, prop::sample::select(pieces)), (Just(3), prop::sample::select(members)),];
    let damage = (any::<prop::sample::Index>(), damage).prop_map(|(place, (kind, piece))| (place, kind, piece));
    prop_oneof![Just(Damage::new()), prop::collection::vec(damage, 1..3)]
}

fn damaged(text: &str, damage: &[(prop::sample::Index, u8, &str)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, kind, piece) in damage {
        let braces: Vec<usize> = (0..chars.len()).filter(|place| chars[*place] == '{').collect();
        let place = match (chars.len(), braces.len()) {
            (0, _) => 0,
            (_, 1..) if *kind == 3 => braces[place.index(braces.len())] + 1,
            (length, _) => place.index(length),
        };
        let end = if matches!(kind, 1 | 2) { (place + 1).min(chars.len()) } else { place };
        let piece = if *kind == 2 { "" } else { piece };
        drop(chars.splice(place..end, piece.chars()));
    }
    chars.into_iter().collect()
}

/// Runs a property of which at least that share of cases must have gone the quick way, else it says little.
fn mostly_quick<S: Strategy>(share: f64, cases: S, quick: impl Fn(S::Value) -> Result<bool, TestCaseError>) {
    let went = std::cell::Cell::new((0_u32, 0_u32));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() });
    let run = runner.run(&cases, |case| {
        let quick = quick(case)?;
        went.set((went.get().0 + u32::from(quick), went.get().1 + 1));
        Ok(())
    });
    run.unwrap();
    let (quick, all) = went.get();
    assert!(f64::from(quick) > share * f64::from(all), "{quick} of {all} went the quick way");
}

fn written(value: &Value, how: u8) -> String {
    match how % 3 {
        0 => value.to_string(),
        1 => serde_json::to_string_pretty(value).unwrap(),
        _ => format!(" \n{}\t", value.to_string().replace("潮", "\\u6f6e")),
    }
}

fn asked(config: &Value) -> Asked {
    let request = RawValue::from_string(json!({"generationConfig": config}).to_string()).unwrap();
    Asked::of(request.get(), None)
}

/// By the quick way, and by the general code; the value of each.
fn both(text: &str, asked: &Asked) -> (Option<String>, Option<String>) {
    let mut out = Vec::new();
    let plan = asked.plan.as_ref().and_then(|plan| plan.write(text.as_bytes(), &mut out));
    let quick = plan.map(|()| String::from_utf8(out).unwrap());
    let general = asked.expectation.as_ref().ok().and_then(|expectation| extract::value(text, &[], expectation).ok());
    (quick, general.map(|value| value.get().to_owned()))
}

fn config(schema: Option<&Value>, how: u8) -> Value {
    match (schema, how % 4) {
        (Some(schema), _) => json!({"responseMimeType": "application/json", "responseSchema": schema}),
        (None, 0) => json!({}),
        (None, 1) => json!({"responseMimeType": "text/x.enum", "responseSchema": {"enum": ["x"]}}),
        (None, _) => json!({"responseMimeType": "application/json"}),
    }
}

fn answer(key: &str, text: &str, variant: u8) -> Value {
    let (front, back) = text.split_at(text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2).unwrap_or(0));
    let parts = match variant % 5 {
        0 => json!([{"text": front}, {"text": back, "thoughtSignature": "s"}]),
        1 => json!([{"text": "hm", "thought": true}, {"text": text}]),
        _ => json!([{"text": text}]),
    };
    let mut response =
        json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"}, 7]});
    if !variant.is_multiple_of(7) {
        response["usageMetadata"] = json!({"totalTokenCount": variant, "details": [{"modality": "TEXT"}]});
    }
    if variant.is_multiple_of(11) {
        response["candidates"][0]["finishReason"] = "MAX_TOKENS".into();
    }
    json!({"key": key, "response": response})
}

#[test]
fn values() {
    let schemas = schema(2).prop_flat_map(|(schema, value)| (Just(schema), value));
    mostly_quick(
        0.3,
        (schemas, any::<bool>(), any::<u8>(), damage()),
        |((schema, value), with_schema, how, damage)| {
            let asked = asked(&config(Some(&schema).filter(|_| with_schema), how));
            let text = damaged(&written(&value, how), &damage);
            let (quick, general) = both(&text, &asked);
            if quick.is_some() {
                prop_assert_eq!(&quick, &general, "{}", text);
            }
            Ok(quick.is_some())
        },
    );
}

#[test]
fn lines_of_the_output() {
    let text = prop_oneof![".{0,12}", "[a-z ]{1,9}", Just("{\"a\": [1, {\"b\": \"\\u6f6e\"}]}".to_owned())];
    let key = prop::sample::select(vec!["a", "b", "z", "\u{e9}\\"]);
    mostly_quick(0.2, (text, any::<u8>(), any::<u8>(), damage(), key), |(text, how, variant, damage, key)| {
        let row =
            |key: &str| json!({"key": key, "request": {"generationConfig": config(None, how)}}).to_string() + "\n";
        let input = ["a", "b", "\u{e9}\\"].map(row).concat();
        let index = index(input.as_bytes(), terms(1), 50).unwrap();
        let line = damaged(&answer(key, &text, variant).to_string(), &damage);
        let (quick, slow) = (index.judge(0, line.as_bytes()), index.judge_slowly(0, line.as_bytes()));
        prop_assert_eq!(format!("{quick:?}"), format!("{slow:?}"), "{}", line);
        Ok(quick::answer(&line, &mut Vec::new()).is_some())
    });
}

#[test]
fn lines_of_the_input() {
    mostly_quick(0.3, (damage(), any::<bool>(), "[a-z]{0,3}"), |(damage, known, extra)| {
        let config = format!("{{\"responseMimeType\": \"application/json\", \"x\": \"{extra}\"}}");
        let line =
            format!("{{\"key\":\"a\",\"request\":{{\"contents\":[{{\"parts\":[]}}],\"generationConfig\":{config}}}}}");
        let line = damaged(&line, &damage);
        let seen = super::super::asks::Known::at(if known { &config } else { "" });
        let quick = quick::row(&line, &seen);
        if let Some((key, config)) = quick {
            let row = rows::InputLine::of(&line).unwrap();
            prop_assert_eq!(key, row.key.as_ref());
            let asked = super::super::asks::config_of(row.request).unwrap();
            let config = config.map_or(String::new(), |config| format!("{{\"generationConfig\":{config}}}"));
            prop_assert_eq!(config, asked);
        }
        Ok(quick.is_some())
    });
}

/// Texts that no value may be made of, each for a reason of its own.
#[test]
fn what_is_left_to_the_general_code() {
    let open =
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING", "maxLength": 3}, "n": {"type": "NUMBER"}}});
    let closed = json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "additionalProperties": false});
    let huge = format!("{{\"n\": {}.0}}", "9".repeat(400));
    let table = [
        (&open, "{\"a\": \"x\", \"a\": \"x\"}"),
        (&open, "{\"z\": 1, \"z\": 1}"),
        (&open, "{\"z\": {\"y\": 1, \"y\": 1}}"),
        (&open, "{\"a\": \"xxxx\"}"),
        (&open, "{\"a\": true}"),
        (&open, "{\"n\": 1e999}"),
        (&open, huge.as_str()),
        (&open, "{\"n\": 01}"),
        (&open, "{\"n\": 1}}"),
        (&open, "{\"n\": 1,}"),
        (&open, "{\"z\": \"\\ud800\"}"),
        (&open, "[]"),
        (&closed, "{\"b\": 1}"),
    ];
    for (schema, text) in table {
        let (quick, general) = both(text, &asked(&config(Some(schema), 0)));
        assert_eq!((quick, general), (None, None), "{text}");
    }
}

/// Lines that differ from the usual shape in one thing each.
#[test]
fn odd_lines_are_judged_alike() {
    let index = index(input(&["a", "b"]).as_bytes(), terms(1), 50).unwrap();
    let line = |candidate: &str, response: &str, line: &str| {
        let content = "\"content\":{\"parts\":[{\"text\":\"x\"}]}";
        let response = format!("\"response\":{{\"candidates\":[{{{content}{candidate}}}]{response}}}");
        format!("{{\"key\":\"a\",{response}{line}}}")
    };
    let table = [
        line("", "", ""),
        line(",\"finish_reason\":\"MAX_TOKENS\"", "", ""),
        line(",\"finishReason\":\"STOP\",\"finishReason\":\"SAFETY\"", "", ""),
        line(",\"finishReason\":null", "", ""),
        line(",\"content\":{\"parts\":[{\"text\":\"y\"}]}", "", ""),
        line(",\"content\":{\"parts\":[{\"text\":\"y\",\"text\":\"z\"}]}", "", ""),
        line("", ",\"usage_metadata\":{\"n\":1}", ""),
        line("", ",\"usageMetadata\":{\"n\":1},\"usageMetadata\":{\"n\":2}", ""),
        line("", ",\"usageMetadata\":null", ""),
        line("", ",\"candidates\":[]", ""),
        line("", ",\"promptFeedback\":{\"blockReason\":\"SAFETY\"}", ""),
        line("", "", ",\"key\":\"b\""),
        line("", "", ",\"key\":7"),
        line("", "", ",\"\\u006bey\":\"b\""),
        line("", "", ",\"response\":null"),
        line("", "", ",\"error\":null"),
        line("", "", ",\"n\":01"),
        line("", "", ",\"n\":\"\\ud800\""),
        line("", "", ",\"\\ud800\":1"),
        line("", "", "}"),
        line(",\"n\":1.5e3,\"m\":-0.1E-2", ",\"t\":true,\"f\":[false,null,{}]", ",\"n\":0"),
        line("", "", "").replace("{\"text\":\"x\"}", "{\"text\":\"x\",\"text\":\"y\"}"),
        line("", "", "").replace("{\"text\":\"x\"}", "{\"text\":\"x\",\"text\":null}"),
        line("", "", "").replace("{\"text\":\"x\"}", "{\"text\":\"x\",\"thought\":true},{\"text\":\"y\"}"),
        line("", "", "").replace("{\"text\":\"x\"}", "{\"inlineData\":{}},{\"text\":\"y\\ud83d\"}"),
    ];
    for line in table {
        let (quick, slow) = (index.judge(0, line.as_bytes()), index.judge_slowly(0, line.as_bytes()));
        assert_eq!(format!("{quick:?}"), format!("{slow:?}"), "{line}");
    }
}

/// Requests whose asking is not the usual one.
#[test]
fn odd_requests_ask_alike() {
    let table = [
        "\"generationConfig\":{\"a\":1},\"generationConfig\":{\"a\":2}",
        "\"generationConfig\":{\"a\":1},\"generation_config\":{\"a\":2}",
        "\"responseSchema\":{\"type\":\"OBJECT\"}",
        "\"generationConfig\":null",
        "\"generationConfig\":{\"a\":1},\"\\u0067enerationConfig\":{\"a\":2}",
        "\"contents\":[]",
    ];
    for request in table {
        let line = format!("{{\"key\":\"a\",\"request\":{{{request}}}}}");
        let row = rows::InputLine::of(&line).unwrap();
        let asked = super::super::asks::config_of(row.request).unwrap();
        for known in ["", "{\"a\":1}", "{\"a\":2}"] {
            let known = super::super::asks::Known::at(known);
            if let Some((_, config)) = quick::row(&line, &known) {
                let config = config.map_or(String::new(), |config| format!("{{\"generationConfig\":{config}}}"));
                assert_eq!(config, asked, "{line}");
            }
        }
    }
    for line in ["{\"key\":\"a\",\"key\":\"b\",\"request\":{}}", "{\"key\":\"a\",\"request\":{},\"request\":{}}"] {
        assert!(Rows::read(0, line.as_bytes()).is_err(), "{line}");
    }
}

#[test]
fn the_usual_lines_go_the_quick_way() {
    let schema = json!({"type": "OBJECT", "properties": {
        "title": {"type": "STRING"}, "kind": {"type": "STRING", "enum": ["tide", "wind"]}, "score": {"type": "NUMBER", "minimum": 0},
        "tags": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": 1}, "more": {"type": "OBJECT", "nullable": true},
    }, "required": ["title", "kind"], "propertyOrdering": ["title"]});
    let value = json!({"title": "潮 \"slack\"\n\u{1}", "kind": "wind", "score": 0.25, "tags": ["a"], "more": null, "other": {"a": 1}});
    for how in 0..3 {
        let (quick, general) = both(&written(&value, how), &asked(&config(Some(&schema), 0)));
        assert!(quick.is_some() && quick == general, "{quick:?} {general:?}");
        let (quick, general) = both(&written(&value, how), &asked(&config(None, 0)));
        assert!(quick.is_some() && quick == general, "{quick:?} {general:?}");
    }
    let mut text = Vec::new();
    let line = answer("a", "x 潮 \u{1F30A}", 2).to_string();
    for line in
        [line.clone(), line.replace('潮', "\\u6f6e").replace('\u{1F30A}', "\\ud83c\\udf0a"), format!(" {line}\r")]
    {
        let answer = quick::answer(&line, &mut text).unwrap();
        assert_eq!((answer.key, str::from_utf8(&text).unwrap()), ("a", "x 潮 \u{1F30A}"));
        assert_eq!(answer.usage, Some("{\"details\":[{\"modality\":\"TEXT\"}],\"totalTokenCount\":2}"));
    }
    let row =
        quick::row("{\"key\":\"a\",\"request\":{\"contents\":[],\"generationConfig\":{\"a\":1}}}", &Default::default());
    assert_eq!(row, Some(("a", Some("{\"a\":1}"))));
}
