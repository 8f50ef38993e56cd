//! What an event says. Nothing of it is believed; it says where to look.

use serde_json::Value;

use super::request::Refusal;

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
    /// Reads a body.
    ///
    /// # Errors
    /// A body that is no JSON object with a `type`.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let malformed = |why: &str| Refusal::Malformed(format!("the body is no event: {why}"));
        let value: Value = serde_json::from_slice(bytes).map_err(|_| malformed("it can't be read as JSON"))?;
        let about = value.get("type").and_then(Value::as_str).ok_or_else(|| malformed("it has no type"))?;
        let data = value.get("data");
        let id = data.and_then(|data| data.get("id")).and_then(Value::as_str).filter(|id| !id.is_empty());
        let named = match (about.split('.').next(), id) {
            (Some("interaction"), Some(id)) => Named::Interaction(id.to_owned()),
            // Docs show the id without its prefix.
            (Some("batch"), Some(id)) if id.starts_with("batches/") => Named::Batch(id.to_owned()),
            (Some("batch"), Some(id)) => Named::Batch(format!("batches/{id}")),
            _ => Named::Other,
        };
        // Where it sits is not documented: at the top, or in `data`.
        let claim = [Some(&value), data].into_iter().flatten().find_map(claim);
        Ok(Self { about: about.to_owned(), named, claim })
    }
}

fn claim(of: &Value) -> Option<(String, String)> {
    let metadata = of.get("user_metadata").or_else(|| of.get("userMetadata"))?;
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("key")?, text("nonce")?))
}
