//! What an answer must be, from the request that asks for it and the line's `expect`.

use serde_json::{Map, Value};

use super::super::mask::bound;
use super::super::schema::Schema;
use super::Expectation;

/// Types of a response format that are no text.
const MEDIA: [&str; 3] = ["image", "audio", "video"];

impl Expectation {
    /// From the create call's fields (`response_format`, `response_mime_type`, `response_modalities`,
    /// `generation_config`) and the line's `expect`, which decides where both speak.
    ///
    /// Older and camelCase spellings of these fields count too, at the top and in `generation_config`, so that a
    /// generateContent request is read by the same rules. JSON is asked for by its MIME type or by a schema.
    /// `expect` is `{"format": "text" | "json", "schema": {...}, "retry": true | false}`, all of them optional; a
    /// schema implies JSON, and `text` sets the request's own schema aside.
    ///
    /// # Errors
    /// A field that can't be read or a schema that is no schema, in words that name the field.
    pub fn of(request: &Value, expect: Option<&Value>) -> Result<Self, String> {
        let mut asked = Asked::default();
        asked.read(request.as_object().ok_or("the request is no object")?, "")?;
        for name in ["generation_config", "generationConfig"] {
            match request.get(name) {
                None | Some(Value::Null) => {}
                Some(Value::Object(config)) => asked.read(config, &format!("{name}."))?,
                Some(_) => return Err(format!("{name}: must be an object")),
            }
        }
        let wanted = Wanted::of(expect)?;
        let schema = match (wanted.schema, wanted.json) {
            (Some(_), Some(false)) => return Err("expect.schema: a schema needs the format \"json\"".to_owned()),
            (Some(schema), _) => Some(("expect.schema".to_owned(), schema)),
            (None, Some(false)) => None,
            (None, _) => asked.schema.clone(),
        };
        if let Some((name, schema)) = &schema {
            Schema::compile(schema).map_err(|error| format!("{name}: {error}"))?;
        }
        let by_schema = schema.as_ref().is_some_and(|(name, _)| !asked.one_of_enum || name == "expect.schema");
        Ok(Self {
            json: wanted.json.unwrap_or(asked.json || by_schema),
            schema: schema.map(|(_, schema)| schema),
            retry: wanted.retry,
            media: asked.media,
        })
    }
}

/// What a request asks for.
#[derive(Default)]
struct Asked {
    /// A JSON MIME type was named.
    json: bool,
    /// The MIME type of a bare word out of an enum, whose schema is about that word.
    one_of_enum: bool,
    /// The schema, and the field it came from.
    schema: Option<(String, Value)>,
    media: bool,
}

impl Asked {
    fn read(&mut self, fields: &Map<String, Value>, place: &str) -> Result<(), String> {
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let place = format!("{place}{name}");
            match name.as_str() {
                "response_format" | "responseFormat" => self.read_formats(value, &place)?,
                "response_mime_type" | "responseMimeType" => self.read_mime_type(value, &place)?,
                "response_modalities" | "responseModalities" => self.read_modalities(value, &place)?,
                "response_schema"
                | "responseSchema"
                | "response_json_schema"
                | "responseJsonSchema"
                | "_responseJsonSchema" => {
                    self.schema = Some((place, value.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_formats(&mut self, formats: &Value, place: &str) -> Result<(), String> {
        match formats {
            Value::Object(format) => self.read_format(format, place),
            Value::Array(formats) => formats.iter().enumerate().try_for_each(|(index, format)| {
                let place = format!("{place}[{index}]");
                self.read_format(format.as_object().ok_or_else(|| format!("{place}: must be an object"))?, &place)
            }),
            _ => Err(format!("{place}: must be an object or an array of objects")),
        }
    }

    fn read_format(&mut self, format: &Map<String, Value>, place: &str) -> Result<(), String> {
        let kind = format.get("type").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        if MEDIA.contains(&kind.as_str()) {
            self.media = true;
            return Ok(());
        }
        let mime_type = format.get("mime_type").or_else(|| format.get("mimeType")).filter(|value| !value.is_null());
        if let Some(mime_type) = mime_type {
            self.read_mime_type(mime_type, &format!("{place}.mime_type"))?;
        }
        match format.get("schema").filter(|schema| !schema.is_null()) {
            Some(schema) => self.schema = Some((format!("{place}.schema"), schema.clone())),
            None if mime_type.is_none() && is_bare_schema(format, &kind) => {
                self.schema = Some((place.to_owned(), Value::Object(format.clone())));
            }
            None => {}
        }
        Ok(())
    }

    fn read_mime_type(&mut self, value: &Value, place: &str) -> Result<(), String> {
        let mime_type = value.as_str().ok_or_else(|| format!("{place}: must be a string"))?;
        let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.json |= essence == "application/json" || essence.ends_with("+json");
        self.one_of_enum |= essence == "text/x.enum";
        self.media |= MEDIA.iter().any(|kind| essence.split('/').next() == Some(kind));
        Ok(())
    }

    fn read_modalities(&mut self, value: &Value, place: &str) -> Result<(), String> {
        let modalities = match value {
            Value::Array(modalities) => modalities.iter().collect(),
            one => vec![one],
        };
        for modality in modalities {
            let word = modality.as_str().ok_or_else(|| format!("{place}: must be an array of strings"))?;
            self.media |= MEDIA.iter().any(|kind| word.eq_ignore_ascii_case(kind));
        }
        Ok(())
    }
}

/// Before May 2026 a response format was a schema and nothing else.
fn is_bare_schema(format: &Map<String, Value>, kind: &str) -> bool {
    matches!(kind, "object" | "array" | "string" | "number" | "integer" | "boolean")
        || (kind.is_empty()
            && ["properties", "items", "anyOf", "oneOf", "allOf", "enum", "$ref", "$schema"]
                .iter()
                .any(|name| format.contains_key(*name)))
}

/// What `expect` says.
#[derive(Default)]
struct Wanted {
    json: Option<bool>,
    schema: Option<Value>,
    retry: bool,
}

impl Wanted {
    fn of(expect: Option<&Value>) -> Result<Self, String> {
        let mut wanted = Self::default();
        let members = match expect {
            None | Some(Value::Null) => return Ok(wanted),
            Some(Value::Object(members)) => members,
            Some(_) => return Err("expect: must be an object".to_owned()),
        };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("format", Value::String(word)) if word == "json" => wanted.json = Some(true),
                ("format", Value::String(word)) if word == "text" => wanted.json = Some(false),
                ("format", _) => return Err("expect.format: must be \"text\" or \"json\"".to_owned()),
                ("schema", schema) => wanted.schema = Some(schema.clone()),
                ("retry", Value::Bool(retry)) => wanted.retry = *retry,
                ("retry", _) => return Err("expect.retry: must be true or false".to_owned()),
                (unknown, _) => {
                    return Err(format!(
                        "expect.{}: there is no such option (format, schema, retry)",
                        bound(unknown, 60)
                    ));
                }
            }
        }
        Ok(wanted)
    }
}
