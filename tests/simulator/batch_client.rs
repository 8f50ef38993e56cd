//! What a client of batches does, without any care: for tests that look at what the simulator answers.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::simulated::Sim;

pub const MODEL: &str = "gemini-flash-latest";

/// A line of an input: its contents say only `text`.
pub fn row(key: &str, text: &str) -> Value {
    json!({"key": key, "request": {"contents": contents(text)}})
}

pub fn contents(text: &str) -> Value {
    json!([{"role": "user", "parts": [{"text": text}]}])
}

/// Rows with the keys `row-0`, `row-1`, …, each with its own text.
pub fn some_rows(count: usize) -> Vec<Value> {
    (0..count).map(|n| row(&format!("row-{n}"), &format!("text {n}"))).collect()
}

pub fn jsonl(rows: &[Value]) -> Vec<u8> {
    rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

/// JSON of an answer, beside its status.
pub async fn read(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    let body = answer.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body))))
}

pub fn head(answer: &Response, name: &str) -> String {
    answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

impl Sim {
    /// Begins an upload: the answer's status, and the URL to go on at, on this machine.
    pub async fn begin(&self, name: &str, mime: &str, bytes: usize) -> (u16, String) {
        let begun = self.raw().post(format!("{}/upload/v1/files", self.running.base_url()));
        let begun = begun.header("x-goog-api-key", "test-key").header("x-goog-upload-protocol", "resumable");
        let begun = begun.header("x-goog-upload-command", "start").header("x-goog-upload-header-content-type", mime);
        let begun = begun.header("x-goog-upload-header-content-length", bytes);
        let begun = begun.body(json!({"file": {"displayName": name}}).to_string()).send().await.unwrap();
        (begun.status().as_u16(), head(&begun, "x-goog-upload-url"))
    }

    /// One command of an upload.
    pub async fn chunk(&self, url: &str, command: &str, offset: usize, bytes: &[u8]) -> reqwest::Result<Response> {
        let chunk = self.raw().post(url).header("x-goog-upload-command", command);
        chunk.header("x-goog-upload-offset", offset).body(bytes.to_vec()).send().await
    }

    /// Uploads a file in one piece, and says its name.
    pub async fn upload(&self, bytes: &[u8]) -> String {
        let (status, url) = self.begin("input", "application/jsonl", bytes.len()).await;
        assert_eq!(status, 200);
        let (status, answer) = read(self.chunk(&url, "upload, finalize", 0, bytes).await.unwrap()).await;
        assert_eq!(status, 200, "{answer}");
        answer["file"]["name"].as_str().unwrap().to_owned()
    }

    /// A create with a file.
    pub async fn create_batch(&self, name: &str, file: &str) -> (u16, Value) {
        let batch = json!({"batch": {"displayName": name, "inputConfig": {"fileName": file}}});
        self.json(Method::POST, &format!("/v1/models/{MODEL}:batchGenerateContent"), Some(&batch)).await
    }

    /// A batch of rows, which must be accepted. Its operation.
    pub async fn batch(&self, name: &str, rows: &[Value]) -> Value {
        let (status, operation) = self.create_batch(name, &self.upload(&jsonl(rows)).await).await;
        assert_eq!(status, 200, "{operation}");
        operation
    }

    /// Polls until `done`, or a state that ends one.
    pub async fn batch_end(&self, operation: &Value) -> Value {
        for _ in 0..10 {
            let seen = self.get(&path(operation)).await;
            let ended = ["SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"];
            let named = seen["response"]["responsesFile"].is_string() || seen["error"].is_object();
            if named || ended[1..].iter().any(|state| state_of(&seen).ends_with(state)) {
                return seen;
            }
        }
        panic!("{operation} does not end");
    }

    /// The bytes of a batch's output by the documented URL; an error when there is no whole answer.
    pub async fn output(&self, operation: &Value) -> reqwest::Result<(u16, Vec<u8>)> {
        self.send(Method::GET, &format!("/download/v1/{}:download?alt=media", file_of(operation)), None).await
    }

    /// The lines of a batch's output.
    pub async fn output_lines(&self, operation: &Value) -> Vec<Value> {
        let (status, body) = self.output(operation).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status, 200, "{body}");
        body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn raw(&self) -> reqwest::Client {
        reqwest::Client::builder().no_proxy().build().unwrap()
    }
}

/// Where a batch is asked for.
pub fn path(operation: &Value) -> String {
    format!("/v1/{}", operation["name"].as_str().unwrap())
}

/// The name of a batch's output.
pub fn file_of(operation: &Value) -> String {
    operation["name"].as_str().unwrap().replace("batches/", "files/batch-")
}

pub fn state_of(operation: &Value) -> String {
    let state = operation["metadata"]["state"].as_str().or(operation["state"].as_str());
    state.unwrap().to_owned()
}

/// The first text of a response.
pub fn text_of(line: &Value) -> &str {
    line["response"]["candidates"][0]["content"]["parts"][0]["text"].as_str().unwrap_or_default()
}
