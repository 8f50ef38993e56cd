//! A server that answers every request as it is told, byte for byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A status, further header lines, a body.
    Http(u16, Vec<&'static str>, String),
    /// Nothing: the connection is closed.
    Nothing,
    /// A success whose body ends in the middle.
    Cut(String),
}

/// A request: its method and path, and how many came before it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub nth: u64,
}

type Tell = dyn Fn(&Asked) -> Answer + Send + Sync;

/// The server; it ends with the test.
pub struct Script {
    pub url: String,
    posts: Arc<AtomicU64>,
    server: JoinHandle<()>,
}

impl Script {
    pub async fn start(tell: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, posts): (Arc<Tell>, _) = (Arc::new(tell), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&posts);
        let server = tokio::spawn(async move {
            while let Ok((line, _)) = listener.accept().await {
                tokio::spawn(serve(line, Arc::clone(&tell), Arc::clone(&counted)));
            }
        });
        Self { url, posts, server }
    }

    /// The same answer to everything.
    pub async fn always(answer: Answer) -> Self {
        Self::start(move |_| answer.clone()).await
    }

    /// How many POST requests came.
    pub fn posts(&self) -> u64 {
        self.posts.load(Ordering::SeqCst)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One request, and its answer; then the connection is closed.
async fn serve(mut line: TcpStream, tell: Arc<Tell>, posts: Arc<AtomicU64>) {
    let Some(head) = read(&mut line).await else { return };
    let mut words = head.split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let nth = if method == "POST" { posts.fetch_add(1, Ordering::SeqCst) } else { 0 };
    let (status, headers, body, cut) = match tell(&Asked { method, path, nth }) {
        Answer::Nothing => return,
        Answer::Http(status, headers, body) => (status, headers, body, 0),
        Answer::Cut(body) => (200, vec![], body, 10),
    };
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len() + cut;
    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n{body}");
    // Who asked may be gone by now.
    if line.write_all(answer.as_bytes()).await.is_ok() {
        line.shutdown().await.unwrap_or_default();
    }
}

/// The head of a request, its body read too.
async fn read(line: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|header| header.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some(String::from_utf8_lossy(&bytes[..end]).into_owned());
            }
        }
        if line.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
