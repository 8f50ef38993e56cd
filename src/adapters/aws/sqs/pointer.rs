//! Bodies that SQS would not take: they are kept as objects, and a pointer is sent in their place.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ports::objects::{ObjectError, Objects};

/// The longest body, in bytes, that is sent as it is. A queue takes 256 KiB unless it is told to take 1 MiB, and bodies
/// are paid for by 64 KiB: far longer ones are cheaper as objects.
pub const LONGEST: usize = 200_000;

/// Where the bodies are kept.
const FOLDER: &str = "messages/";

/// What is sent in place of a body.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pointer {
    gleaner_object: String,
}

/// The body of a message as it was sent, from the body as it came: of a receive, or of a Lambda event. A body that was
/// kept as an object is read from there; any other one is handed back as it is.
///
/// # Errors
/// [`ObjectError::NotFound`] when what was kept is no more, by whatever there is under its name; the others as those
/// of [`Objects::get`].
pub async fn open(objects: &dyn Objects, body: String) -> Result<String, ObjectError> {
    let Some(name) = target(&body) else { return Ok(body) };
    let bytes = objects.get(&name).await?;
    if name_of(&bytes) == name
        && let Ok(body) = String::from_utf8(bytes.into())
    {
        return Ok(body);
    }
    tracing::error!(object = name, "the object is not what was kept as the body of a message");
    Err(ObjectError::NotFound(name))
}

/// What to send for `body`.
///
/// # Errors
/// Those of [`Objects::put`].
pub async fn close(objects: &dyn Objects, body: &str) -> Result<String, ObjectError> {
    if fits(body) {
        return Ok(body.to_owned());
    }
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let gleaner_object = name_of(&bytes);
    objects.put(&gleaner_object, bytes).await?;
    serde_json::to_string(&Pointer { gleaner_object })
        .map_err(|error| ObjectError::NeedsPerson(format!("a pointer could not be written as JSON: {error}")))
}

/// Whether `body` can be sent as it is.
pub fn fits(body: &str) -> bool {
    body.len() <= LONGEST && is_sendable(body) && target(body).is_none()
}

/// Whether SQS takes that text: at least one character, and only those that XML 1.0 has
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>). JSON escapes control
/// characters, but not all of the others.
fn is_sendable(body: &str) -> bool {
    let is_allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
    !body.is_empty() && body.chars().all(is_allowed)
}

/// The object that a pointer points at. Only what this program may have written is one: nobody who can send a message
/// can have another object read.
fn target(body: &str) -> Option<String> {
    // Most bodies are not parsed for this.
    if !body.contains("gleaner_object") {
        return None;
    }
    let Pointer { gleaner_object } = serde_json::from_str(body).ok()?;
    let hash = gleaner_object.strip_prefix(FOLDER)?.strip_suffix(".json")?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then_some(gleaner_object)
}

fn name_of(bytes: &[u8]) -> String {
    format!("{FOLDER}{}.json", hex::encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::local::folder::FolderObjects;
    use crate::domain::time::Millis;

    fn objects() -> (tempfile::TempDir, FolderObjects) {
        let folder = tempfile::tempdir().unwrap();
        let objects = FolderObjects::open(folder.path(), Millis(0)).unwrap();
        (folder, objects)
    }

    #[tokio::test]
    async fn only_what_sqs_refuses_goes_by_a_pointer() {
        let (_folder, objects) = objects();
        let long = "x".repeat(LONGEST);
        for body in ["{}", "a\tb\nc\rd", "日本 \u{1f600} \u{fffd}", "{\"gleaner_object\": 7}", &long] {
            assert_eq!(close(&objects, body).await.unwrap(), body);
            assert_eq!(open(&objects, body.to_owned()).await.unwrap(), body);
        }
        let longer = "値".repeat(LONGEST / 3 + 1);
        for body in ["", "a\0b", "\u{ffff}", "\u{fffe}", "\u{b}", &longer] {
            let sent = close(&objects, body).await.unwrap();
            assert!(sent.starts_with("{\"gleaner_object\":\"messages/") && sent.len() < 120, "{sent}");
            assert_eq!(open(&objects, sent.clone()).await.unwrap(), body);
            // A body that is itself a pointer comes back as that pointer.
            let twice = close(&objects, &sent).await.unwrap();
            assert_ne!(twice, sent);
            assert_eq!(open(&objects, twice).await.unwrap(), sent);
        }
    }

    #[tokio::test]
    async fn nothing_else_can_be_pointed_at() {
        let (_folder, objects) = objects();
        objects.put("results/a.json", Bytes::from_static(b"secret")).await.unwrap();
        let hash = "0".repeat(64);
        for body in [
            "{\"gleaner_object\":\"results/a.json\"}".to_owned(),
            "{\"gleaner_object\":\"messages/../results/a.json\"}".to_owned(),
            format!("{{\"gleaner_object\":\"messages/{hash}.json\",\"more\":1}}"),
        ] {
            assert_eq!(open(&objects, body.clone()).await.unwrap(), body);
        }
        let pointer = format!("{{\"gleaner_object\":\"messages/{hash}.json\"}}");
        assert!(matches!(open(&objects, pointer.clone()).await, Err(ObjectError::NotFound(_))));
        objects.put(&format!("messages/{hash}.json"), Bytes::from_static(b"other")).await.unwrap();
        assert!(matches!(open(&objects, pointer).await, Err(ObjectError::NotFound(_))));
    }
}
