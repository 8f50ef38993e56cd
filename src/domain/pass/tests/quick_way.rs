//! The quick way says what the general code says, or nothing.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::super::asks::Asked;
use super::super::{quick, rows};
use super::*;
use crate::domain::extract;

/// Schemas of the usual words and some others, and values that mostly fit them.
fn schema(depth: u32) -> BoxedStrategy<(Value, BoxedStrategy<Value>)> {
    let text = "[a-z\u{e9}潮\"\\\\\n\t\u{1}/]{0,9}";
    let leaf = prop_oneof![
        Just((json!({"type": "STRING", "title": "t"}), text.prop_map(Value::from).boxed())),
        (0..4usize, 0..9usize).prop_map(move |(least, most)| (
            json!({"type": "string", "minLength": least, "maxLength": most.to_string()}),
            text.prop_map(Value::from).boxed()
        )),
        Just((
            json!({"type": "STRING", "format": "enum", "enum": ["tide", "潮", "a\"b"], "nullable": true}),
            prop_oneof![3 => prop::sample::select(vec!["tide", "潮", "a\"b", "c"]).prop_map(Value::from), 1 => Just(Value::Null)].boxed()
        )),
        Just((json!({"type": "INTEGER", "enum": ["1", "2"]}), (0..4).prop_map(Value::from).boxed())),
        (-3..3i64, 0..20i64).prop_map(|(least, most)| (
            json!({"type": "NUMBER", "minimum": least, "maximum": most}),
            prop_oneof![(-5..25i64).prop_map(Value::from), (-4.0..21.0f64).prop_map(Value::from)].boxed()
        )),
        Just((
            json!({"type": "integer"}),
            prop_oneof![any::<i64>().prop_map(Value::from), any::<u64>().prop_map(Value::from), Just(json!(2.0)), Just(json!(-0.0))].boxed()
        )),
        Just((json!({"type": ["boolean", "null"]}), prop_oneof![any::<bool>().prop_map(Value::from), Just(Value::Null)].boxed())),
        Just((json!(true), any::<f64>().prop_map(Value::from).boxed())),
        Just((json!({"pattern": "^a"}), text.prop_map(Value::from).boxed())),
    ]
    .boxed();
    if depth == 0 {
        return leaf;
    }
    let inner = schema(depth - 1);
    let array = (inner.clone(), 0..3usize, 1..5usize).prop_map(|((schema, value), least, most)| {
        let values = prop::collection::vec(value, 0..5).prop_map(Value::from).boxed();
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
                let kept = values.into_iter().enumerate().filter(|(place, _)| left >> place & 7 != 7);
                let named = kept.map(|(_, (name, value))| (name.to_owned(), value));
                let more = extra.into_iter().filter(|_| left & 1 == 1);
                Value::Object(named.chain(more).collect())
            });
            (schema, value.boxed())
        },
    );
    prop_oneof![1 => leaf, 2 => array, 4 => object].boxed()
}

/// Small damage to a text.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, &'static str)>> {
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
        "\"a\":1,",
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
        "\"thought\":true,",
        "\"finish_reason\":\"STOP\",",
        "\"error\":null,",
        "\"key\":\"b\",",
        "\"text\":\"\",",
    ];
    prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, prop::sample::select(pieces)), 0..3)
}

fn damaged(text: &str, damage: &[(prop::sample::Index, u8, &str)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, kind, piece) in damage {
        let place = if chars.is_empty() { 0 } else { place.index(chars.len()) };
        match kind {
            0 => drop(chars.splice(place..place, piece.chars())),
            1 => drop(chars.splice(place..(place + 1).min(chars.len()), piece.chars())),
            _ => drop(chars.drain(place..(place + 1).min(chars.len()))),
        }
    }
    chars.into_iter().collect()
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
    if variant % 7 != 0 {
        response["usageMetadata"] = json!({"totalTokenCount": variant, "details": [{"modality": "TEXT"}]});
    }
    if variant % 11 == 0 {
        response["candidates"][0]["finishReason"] = "MAX_TOKENS".into();
    }
    json!({"key": key, "response": response})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn values(
        (schema, value) in schema(2).prop_flat_map(|(schema, value)| (Just(schema), value)),
        with_schema: bool, how: u8, damage in damage(),
    ) {
        let asked = asked(&config(Some(&schema).filter(|_| with_schema), how));
        let text = damaged(&written(&value, how), &damage);
        let (quick, general) = both(&text, &asked);
        if quick.is_some() {
            prop_assert_eq!(quick, general, "{}", text);
        }
    }

    #[test]
    fn lines_of_the_output(
        text in prop_oneof![".{0,12}", "[a-z ]{1,9}", Just("{\"a\": [1, {\"b\": \"\\u6f6e\"}]}".to_owned())],
        how: u8, variant: u8, damage in damage(), key in prop::sample::select(vec!["a", "b", "z", "\u{e9}\\"]),
    ) {
        let row = |key: &str| json!({"key": key, "request": {"generationConfig": config(None, how)}}).to_string() + "\n";
        let input = ["a", "b", "\u{e9}\\"].map(row).concat();
        let index = index(input.as_bytes(), terms(1), 50).unwrap();
        let line = damaged(&answer(key, &text, variant).to_string(), &damage);
        let (quick, slow) = (index.judge(0, line.as_bytes()), index.judge_slowly(0, line.as_bytes()));
        prop_assert_eq!(format!("{quick:?}"), format!("{slow:?}"), "{}", line);
    }

    #[test]
    fn lines_of_the_input(damage in damage(), known: bool, extra in "[a-z]{0,3}") {
        let config = format!("{{\"responseMimeType\": \"application/json\", \"x\": \"{extra}\"}}");
        let line = format!("{{\"key\":\"a\",\"request\":{{\"contents\":[{{\"parts\":[]}}],\"generationConfig\":{config}}}}}");
        let line = damaged(&line, &damage);
        let mut seen = super::super::asks::Known::default();
        if known {
            seen.config = config;
        }
        if let Some((key, config)) = quick::row(&line, &seen) {
            let row = rows::InputLine::of(&line).unwrap();
            prop_assert_eq!(key, row.key.as_ref());
            let asked = super::super::asks::config_of(row.request).unwrap();
            prop_assert_eq!(config.map_or(String::new(), |config| format!("{{\"generationConfig\":{config}}}")), asked);
        }
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
