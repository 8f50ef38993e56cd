//! What an event says. Nothing of it is believed; it says where to look.

use serde_json::{Map, Value};

use super::request::{LARGEST, Refusal};

/// The longest type, id, key or nonce that is of use, in bytes. Gemini's own are a tenth of it.
const LONGEST: usize = 512;

/// Begins the name of a batch job.
const BATCHES: &str = "batches/";

/// What an event names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// An interaction, by its id.
    Interaction(String),
    /// A batch job, by its name (`batches/…`).
    Batch(String),
    /// Something else, or nothing.
    Other,
}

/// The body of an event, as far as it is of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Its type, such as `interaction.completed`.
    pub about: String,
    /// What it is about.
    pub named: Named,
    /// The key and the nonce that the create call carried, if they came back.
    pub claim: Option<(String, String)>,
}

impl Body {
    /// Reads a body. What is after the first dot of its type doesn't matter, for Gemini's list of them is open; an id,
    /// key or nonce that can't be one is left out, for the event may still be of use without it.
    ///
    /// # Errors
    /// A body that is no JSON object with a `type` of at most 512 bytes, or is too long.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let malformed = |why: &str| Refusal::Malformed(format!("the body is no event: {why}"));
        if bytes.len() > LARGEST {
            return Err(Refusal::TooLarge);
        }
        let value: Value = serde_json::from_slice(bytes).map_err(|_| malformed("it can't be read as JSON"))?;
        let event = value.as_object().ok_or_else(|| malformed("it is no JSON object"))?;
        let about = event.get("type").and_then(usable).ok_or_else(|| malformed("it has no type"))?;
        let data = event.get("data").and_then(Value::as_object);
        let id = data.and_then(|data| data.get("id")).and_then(usable);
        let named = match (about.split('.').next(), id) {
            (Some("interaction"), Some(id)) => Named::Interaction(id.to_owned()),
            // Docs show the id without its prefix.
            (Some("batch"), Some(id)) => match id.strip_prefix(BATCHES).unwrap_or(id) {
                "" => Named::Other,
                id => Named::Batch(format!("{BATCHES}{id}")),
            },
            _ => Named::Other,
        };
        // Where it sits is not documented: at the top, or in `data`.
        let claim = [Some(event), data].into_iter().flatten().find_map(claim);
        Ok(Self { about: about.to_owned(), named, claim })
    }
}

/// A text that can be a type, an id, a key or a nonce.
fn usable(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control))
}

fn claim(of: &Map<String, Value>) -> Option<(String, String)> {
    ["user_metadata", "userMetadata"].iter().find_map(|name| {
        let metadata = of.get(*name)?;
        let text = |name: &str| metadata.get(name).and_then(usable).map(str::to_owned);
        Some((text("key")?, text("nonce")?))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: Value) -> Body {
        Body::read(body.to_string().as_bytes()).unwrap()
    }

    fn named(about: &str, id: Value) -> Named {
        read(json!({"type": about, "version": "v1", "data": {"id": id}})).named
    }

    #[test]
    fn interactions_and_batches_are_named_by_any_event_of_theirs() {
        let interaction = Named::Interaction("v1_Chd".to_owned());
        for about in ["interaction.completed", "interaction.完了", "interaction.requires_action", "interaction"] {
            assert_eq!(named(about, json!("v1_Chd")), interaction, "{about}");
        }
        for id in ["batches/a-1", "a-1"] {
            assert_eq!(named("batch.succeeded", json!(id)), Named::Batch("batches/a-1".to_owned()));
        }
        for about in ["video.generated", "interactions.completed", "Batch.failed", ".batch", "ping"] {
            assert_eq!(named(about, json!("a")), Named::Other, "{about}");
        }
    }

    #[test]
    fn what_can_be_no_id_names_nothing() {
        let long = "x".repeat(LONGEST + 1);
        for id in [json!(""), json!(1), json!(null), json!(["a"]), json!({"id": "a"}), json!("a\nb"), json!(long)] {
            assert_eq!(named("interaction.failed", id.clone()), Named::Other, "{id}");
            assert_eq!(named("batch.failed", id.clone()), Named::Other, "{id}");
        }
        assert_eq!(named("batch.failed", json!("batches/")), Named::Other);
        for body in [json!({"type": "batch.failed"}), json!({"type": "batch.failed", "data": "batches/a"})] {
            assert_eq!(read(body).named, Named::Other);
        }
    }

    #[test]
    fn the_claim_is_found_at_the_top_or_in_the_data_in_both_spellings() {
        let metadata = json!({"key": "k", "nonce": "n", "more": 1});
        for name in ["user_metadata", "userMetadata"] {
            for body in [
                json!({"type": "t", name: metadata}),
                json!({"type": "t", "data": {name: metadata}}),
                json!({"type": "t", "user_metadata": {"idem": "x"}, "userMetadata": "x", "data": {name: metadata}}),
            ] {
                assert_eq!(read(body.clone()).claim, Some(("k".to_owned(), "n".to_owned())), "{body}");
            }
        }
        for metadata in [
            json!({"key": "k"}),
            json!({"key": "k", "nonce": ""}),
            json!({"key": 1, "nonce": "n"}),
            json!([]),
            json!("k"),
        ] {
            assert_eq!(read(json!({"type": "t", "user_metadata": metadata})).claim, None, "{metadata}");
        }
        // Half of it here and half of it there is none.
        let halves = json!({"type": "t", "user_metadata": {"key": "k"}, "data": {"user_metadata": {"nonce": "n"}}});
        assert_eq!(read(halves).claim, None);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let deep = "[".repeat(100_000);
        for body in ["", "null", "[]", "\"type\"", "{}", r#"{"type": 1}"#, r#"{"type": ""}"#, "{", &deep, "\u{feff}{}"]
        {
            assert_eq!(Body::read(body.as_bytes()).map_err(|refusal| refusal.status()), Err(400), "{body:.20}");
        }
        assert_eq!(Body::read(b"{\"type\": \"\xff\"}").map_err(|refusal| refusal.status()), Err(400));
        let event = r#"{"type": "t"}"#;
        let largest = |length: usize| [event, &" ".repeat(length - event.len())].concat().into_bytes();
        assert!(Body::read(&largest(LARGEST)).is_ok());
        assert_eq!(Body::read(&largest(LARGEST + 1)), Err(Refusal::TooLarge));
    }
}
