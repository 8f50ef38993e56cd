//! Schemas of the usual words, ready to check answers against while they are read.

use serde_json::{Map, Value};

/// Kinds of values.
pub(super) mod kind {
    pub const NULL: u8 = 1;
    pub const BOOLEAN: u8 = 2;
    pub const INTEGER: u8 = 4;
    /// With a fraction.
    pub const FRACTION: u8 = 8;
    pub const STRING: u8 = 16;
    pub const ARRAY: u8 = 32;
    pub const OBJECT: u8 = 64;
    pub const ANY: u8 = 127;
}

/// A schema of the usual words.
#[derive(Debug)]
pub(in super::super) struct Node {
    pub(super) kinds: u8,
    members: Vec<(Box<str>, Node)>,
    /// A bit for each of `members`.
    pub(super) required: u64,
    /// No other members.
    pub(super) closed: bool,
    pub(super) item: Option<Box<Node>>,
    pub(super) items: (usize, usize),
    pub(super) length: Option<(usize, usize)>,
    pub(super) range: Option<(f64, f64)>,
    pub(super) words: Option<Words>,
}

/// An `enum`: its strings, and whether `null` is in it too.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) strings: Vec<Box<str>>,
    pub(super) null: bool,
}

/// Words of a schema that an answer can't break.
const NOTES: [&str; 9] = [
    "title",
    "description",
    "format",
    "default",
    "example",
    "examples",
    "propertyOrdering",
    "property_ordering",
    "nullable",
];

/// Whole numbers beyond this are not told apart by floats.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;

/// Anything fits.
pub(super) static ANY: Node = Node::any();

impl Node {
    pub(super) const fn any() -> Self {
        Self {
            kinds: kind::ANY,
            members: Vec::new(),
            required: 0,
            closed: false,
            item: None,
            items: (0, usize::MAX),
            length: None,
            range: None,
            words: None,
        }
    }

    /// From JSON Schema; none when it says anything unusual.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let schema = match schema {
            Value::Bool(true) => return Some(Self::any()),
            Value::Object(schema) => schema,
            _ => return None,
        };
        let mut node = Self::any();
        for (word, value) in schema {
            match (word.as_str(), value) {
                ("type", kinds) => node.kinds = kinds_of(kinds)?,
                ("properties", Value::Object(members)) => node.read_members(members)?,
                // Read below, when all members are known.
                ("required", Value::Array(_)) => {}
                ("additionalProperties", Value::Bool(open)) => node.closed = !open,
                ("items", schema) => node.item = Some(Box::new(Self::of(schema)?)),
                ("minItems", limit) => node.items.0 = size(limit)?,
                ("maxItems", limit) => node.items.1 = size(limit)?,
                ("minLength", limit) => node.length.get_or_insert((0, usize::MAX)).0 = size(limit)?,
                ("maxLength", limit) => node.length.get_or_insert((0, usize::MAX)).1 = size(limit)?,
                ("minimum", limit) => node.range.get_or_insert((f64::MIN, f64::MAX)).0 = exact(limit)?,
                ("maximum", limit) => node.range.get_or_insert((f64::MIN, f64::MAX)).1 = exact(limit)?,
                ("enum", Value::Array(words)) => node.words = Some(Words::of(words)?),
                (note, _) if NOTES.contains(&note) => {}
                _ => return None,
            }
        }
        if let Some(Value::Array(required)) = schema.get("required") {
            for name in required {
                let name = name.as_str()?;
                let place = node.members.iter().position(|(member, _)| **member == *name)?;
                node.required |= 1 << place;
            }
        }
        Some(node)
    }

    fn read_members(&mut self, members: &Map<String, Value>) -> Option<()> {
        (members.len() <= 64).then_some(())?;
        for (name, schema) in members {
            self.members.push((name.as_str().into(), Self::of(schema)?));
        }
        Some(())
    }

    /// The member of that name; the search begins with the one that is likely to come next.
    #[inline]
    pub(super) fn member(&self, name: &[u8], next: usize) -> Option<(usize, &Self)> {
        let is = |(_, (member, _)): &(usize, &(Box<str>, Self))| member.as_bytes() == name;
        let likely = self.members.get(next).map(|member| (next, member)).filter(is);
        let (place, (_, node)) = likely.or_else(|| self.members.iter().enumerate().find(is))?;
        Some((place, node))
    }

    #[inline]
    pub(super) fn takes(&self, kind: u8) -> Option<()> {
        (self.kinds & kind != 0).then_some(())
    }
}

impl Words {
    /// Values that are neither strings nor `null` are left to the general code: no answer is taken for one here.
    fn of(values: &[Value]) -> Option<Self> {
        let strings = values.iter().filter_map(Value::as_str).map(Into::into).collect();
        Some(Self { strings, null: values.contains(&Value::Null) })
    }
}

fn kinds_of(value: &Value) -> Option<u8> {
    Some(match value {
        Value::String(word) => match word.as_str() {
            "null" => kind::NULL,
            "boolean" => kind::BOOLEAN,
            "integer" => kind::INTEGER,
            "number" => kind::INTEGER | kind::FRACTION,
            "string" => kind::STRING,
            "array" => kind::ARRAY,
            "object" => kind::OBJECT,
            _ => return None,
        },
        Value::Array(words) => {
            let mut kinds = 0;
            for word in words {
                word.is_string().then_some(())?;
                kinds |= kinds_of(word)?;
            }
            kinds
        }
        _ => return None,
    })
}

fn size(limit: &Value) -> Option<usize> {
    usize::try_from(limit.as_u64()?).ok()
}

fn exact(limit: &Value) -> Option<f64> {
    limit.as_f64().filter(|limit| limit.abs() < EXACT)
}
