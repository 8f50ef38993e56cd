//! An object to upload, a clock that never really waits, and what an upload's server says.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gleaner::adapters::gemini::HttpGemini;
use gleaner::adapters::system::SystemClock;
use gleaner::domain::time::Millis;
use gleaner::ports::batches::{Batches, Upload, UploadError};
use gleaner::ports::clock::Clock;
use gleaner::ports::objects::{ObjectError, Objects, Put};
use tokio::io::AsyncRead;

use super::client;
use super::raw::{Act, Seen, Server, answer_of};

/// The time-out of [`client`], by which its idle waits are told from others.
pub const IDLE: Duration = Duration::from_secs(20);

/// What becomes of the waits for something to move, told by their length. All others end at once.
#[derive(Debug, Clone, Copy)]
pub enum Waits {
    /// They never end.
    Endless(Duration),
    /// They end after so much real time.
    Short(Duration, Duration),
}

/// A clock that notes how long it was asked to wait between tries.
#[derive(Debug)]
pub struct TestWaits {
    idle: Waits,
    waited: Mutex<Vec<u64>>,
}

impl TestWaits {
    pub fn of(idle: Waits) -> Self {
        Self { idle, waited: Mutex::default() }
    }

    /// The seconds waited between tries.
    pub fn waited(&self) -> Vec<u64> {
        self.waited.lock().unwrap().clone()
    }
}

#[async_trait]
impl Clock for TestWaits {
    fn now(&self) -> Millis {
        Millis(0)
    }

    async fn sleep(&self, wait: Duration) {
        match self.idle {
            Waits::Endless(idle) if wait == idle => std::future::pending().await,
            Waits::Short(idle, real) if wait == idle => SystemClock.sleep(real).await,
            _ => self.waited.lock().unwrap().push(wait.as_secs()),
        }
    }
}

/// An object of so many bytes, or none at all.
#[derive(Debug)]
pub struct Text {
    pub bytes: Option<Bytes>,
    /// What it is said to have.
    pub told: u64,
}

impl Text {
    /// Lines of text, no two alike, so that a chunk at a wrong place is seen.
    pub fn of(length: usize) -> Self {
        let mut lines: String = (0..=length / 16).map(|line| format!("line {line:010}\n")).collect();
        lines.truncate(length);
        Self { bytes: Some(lines.into()), told: length as u64 }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes.as_ref().unwrap()).unwrap()
    }
}

#[async_trait]
impl Objects for Text {
    async fn put(&self, _name: &str, _bytes: Bytes) -> Result<Put, ObjectError> {
        panic!("an upload writes no object")
    }

    async fn put_stream(&self, _: &str, _: &mut (dyn AsyncRead + Send + Unpin)) -> Result<Put, ObjectError> {
        panic!("an upload writes no object")
    }

    async fn get(&self, _name: &str) -> Result<Bytes, ObjectError> {
        panic!("an upload reads no whole object")
    }

    async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        assert_eq!(name, "runs/in.jsonl");
        let bytes = self.bytes.as_ref().ok_or_else(|| ObjectError::NotFound(name.to_owned()))?;
        let place = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
        Ok(bytes.slice(place(range.start)..place(range.end)))
    }

    async fn size(&self, _name: &str) -> Result<Option<u64>, ObjectError> {
        Ok(Some(self.told))
    }
}

/// Gemini in two servers, as it may be: one that begins uploads, and one that takes their bytes.
pub struct Gemini {
    pub api: Server,
    pub target: Server,
    pub client: HttpGemini,
    pub clock: Arc<TestWaits>,
}

impl Gemini {
    /// Each upload begins well; its bytes meet `acts`.
    pub async fn taking(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::waiting(Waits::Endless(IDLE), acts).await
    }

    /// The same on another clock.
    pub async fn waiting(waits: Waits, acts: impl IntoIterator<Item = Act>) -> Self {
        Self::beginning(waits, |begun| vec![begun], acts).await
    }

    /// Uploads begin as `begin` says, which gets what is said when all is well.
    pub async fn beginning(
        waits: Waits,
        begin: impl FnOnce(Act) -> Vec<Act>,
        acts: impl IntoIterator<Item = Act>,
    ) -> Self {
        let target = Server::start(acts).await;
        let api = Server::start(begin(begun(&format!("{}/u?upload_id=secret", target.url()), ""))).await;
        let clock = Arc::new(TestWaits::of(waits));
        let client = client(&api.url()).with_clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { api, target, client, clock }
    }

    pub async fn upload(&self, text: &Text) -> Result<String, UploadError> {
        let upload = Upload { objects: text, object: "runs/in.jsonl", bytes: text.told, display_name: "part \"1\"" };
        self.client.upload(upload).await
    }

    /// Command and offset of each request for bytes.
    pub fn commands(&self) -> Vec<String> {
        self.target.requests().iter().map(command).collect()
    }

    /// The MIME type of each upload that was begun.
    pub fn types(&self) -> Vec<String> {
        let types = self.api.requests();
        types.iter().map(|seen| seen.header("x-goog-upload-header-content-type").unwrap().to_owned()).collect()
    }
}

/// Command, offset and length of the body, as far as the server read the head.
fn command(seen: &Seen) -> String {
    if seen.head.is_empty() {
        return "cut".to_owned();
    }
    let offset = seen.header("x-goog-upload-offset").map(|offset| format!(" at {offset}")).unwrap_or_default();
    let length = if seen.body.is_empty() { String::new() } else { format!(" +{}", seen.body.len()) };
    format!("{}{offset}{length}", seen.header("x-goog-upload-command").unwrap())
}

/// What is said when an upload begins.
pub fn begun(target: &str, headers: &str) -> Act {
    Act::Say(format!(
        "HTTP/1.1 200 OK\r\nX-Goog-Upload-Status: active\r\nX-Goog-Upload-URL: {target}\r\n{headers}Content-Length: 0\r\n\r\n"
    ))
}

/// An answer with the upload's status in a header, and perhaps more headers.
pub fn standing(status: &str, headers: &str, body: &str) -> Act {
    let length = body.len();
    Act::Say(format!(
        "HTTP/1.1 200 OK\r\nX-Goog-Upload-Status: {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// A chunk was taken, and more may come.
pub fn active() -> Act {
    standing("active", "", "")
}

/// So many bytes were taken, and more may come.
pub fn received(bytes: usize) -> Act {
    standing("active", &format!("X-Goog-Upload-Size-Received: {bytes}\r\n"), "")
}

/// The upload is a file of so many bytes.
pub fn ended(bytes: usize) -> Act {
    standing("final", "", &file(bytes))
}

/// What Gemini says of a file.
pub fn file(bytes: usize) -> String {
    format!(r#"{{"file":{{"name":"files/abc","sizeBytes":"{bytes}","state":"ACTIVE"}}}}"#)
}

/// An answer without a word about the upload.
pub fn bare(status: &str, body: &str) -> Act {
    Act::Say(answer_of(status, body))
}
