//! What Gemini says of a file that was uploaded (gemini-api.md, 4.2; <https://ai.google.dev/api/files>).

use serde_json::Value;

use crate::domain::failure::Failure;
use crate::domain::interaction::ID_BYTES;
use crate::ports::gemini::ReadError;

/// The name of the file in the answer that ends an upload of `bytes` bytes.
///
/// # Errors
/// `Refused` with the failure that the answer tells, also under a success status; else `NoAnswer` with what is wrong. A
/// name is never made up.
pub(super) fn uploaded(answer: &Value, bytes: u64) -> Result<String, ReadError> {
    if let Some(refusal) = refusal(answer) {
        return Err(refusal);
    }
    let wrong = |why: String| Err(ReadError::NoAnswer(format!("the upload ended, but {why}; it must be made again")));
    let Some(file) = answer.get("file").and_then(Value::as_object) else {
        return wrong("its answer tells of no file".to_owned());
    };
    let name = file.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() {
        return wrong("its file has no name".to_owned());
    }
    if name.len() > ID_BYTES {
        return wrong(format!("its file's name has {} bytes; at most {ID_BYTES} are taken", name.len()));
    }
    if file.get("state").and_then(Value::as_str) == Some("FAILED") {
        return Err(file.get("error").filter(|error| !error.is_null()).map_or_else(
            || ReadError::NoAnswer(format!("Gemini could not process {name}, and says no reason")),
            |error| ReadError::Refused(Box::new(Failure::from_error(error))),
        ));
    }
    let size = match file.get("sizeBytes").or_else(|| file.get("size_bytes")) {
        None | Some(Value::Null) => None,
        Some(Value::String(digits)) => Some(digits.trim().parse().ok()),
        Some(number) => Some(number.as_u64()),
    };
    match size {
        None => Ok(name.to_owned()),
        Some(Some(size)) if size == bytes => Ok(name.to_owned()),
        Some(Some(size)) => wrong(format!("{name} has {size} bytes where {bytes} were sent")),
        Some(None) => wrong(format!("the size of {name} is no number")),
    }
}

/// The failure that an answer tells under whatever status.
pub(super) fn refusal(answer: &Value) -> Option<ReadError> {
    let error = answer.get("error").filter(|error| !error.is_null())?;
    Some(ReadError::Refused(Box::new(Failure::from_error(error))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn why(answer: &Value) -> String {
        uploaded(answer, 5).unwrap_err().to_string()
    }

    #[test]
    fn a_file_has_a_name_and_the_size_that_was_sent() {
        for size in [json!("5"), json!(5), Value::Null] {
            let answer = json!({"file": {"name": "files/a", "sizeBytes": size, "state": "ACTIVE", "error": null}});
            assert_eq!(uploaded(&answer, 5).unwrap(), "files/a");
        }
        assert_eq!(uploaded(&json!({"file": {"name": "files/a", "state": "PROCESSING"}}), 5).unwrap(), "files/a");
        for size in [json!("4"), json!(6), json!("0")] {
            assert!(why(&json!({"file": {"name": "files/a", "sizeBytes": size}})).contains("5 were sent"));
        }
        for size in [json!("five"), json!(-5), json!([5])] {
            assert!(why(&json!({"file": {"name": "files/a", "sizeBytes": size}})).contains("no number"));
        }
    }

    #[test]
    fn no_name_is_made_up() {
        for answer in [Value::Null, json!({}), json!([]), json!({"file": null}), json!({"file": "files/a"})] {
            assert!(why(&answer).contains("no file"), "{answer}");
        }
        for name in [Value::Null, json!(""), json!(7)] {
            assert!(why(&json!({"file": {"name": name, "sizeBytes": "5"}})).contains("no name"));
        }
        assert!(why(&json!({"file": {"name": "n".repeat(ID_BYTES + 1)}})).contains("1025 bytes"));
    }

    #[test]
    fn errors_are_told_wherever_they_stand() {
        let error = json!({"code": 400, "message": "Unsupported MIME type: jsonl", "status": "INVALID_ARGUMENT"});
        for answer in [
            json!({"error": error}),
            json!({"error": error, "file": {"name": "files/a"}}),
            json!({"file": {"name": "files/a", "state": "FAILED", "error": error}}),
        ] {
            let failed = uploaded(&answer, 5).unwrap_err();
            assert!(matches!(&failed, ReadError::Refused(failure) if failure.message.contains("jsonl")), "{failed}");
        }
        assert!(why(&json!({"file": {"name": "files/a", "state": "FAILED"}})).contains("no reason"));
    }
}
