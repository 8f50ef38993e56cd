//! A TCP server that does to each request what a test says, and counts what it sees.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gleaner::adapters::system::SystemClock;
use gleaner::ports::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does to one request.
#[derive(Debug, Clone)]
pub enum Act {
    /// Reads the whole request, sends these bytes, and keeps the connection.
    Say(String),
    /// Reads the whole request, sends these bytes, and closes the connection.
    SayAndClose(String),
    /// Reads the whole request, sends these bytes, and then the same chunk for ever.
    Endless(String, &'static str),
    /// Reads the whole request, sends these bytes, and is then silent with the connection open.
    SayAndHang(String),
    /// Reads the whole request, sends these texts with a pause before each, and keeps the connection.
    SayWithPauses(Vec<String>, Duration),
    /// Reads this many bytes of the request, and closes the connection.
    CloseAfter(usize),
    /// Reads this many bytes of the request, and is then silent with the connection open.
    HangAfter(usize),
}

/// One request as far as the server read it.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Request line and header lines.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl Seen {
    /// Method and target.
    pub fn line(&self) -> &str {
        self.head.lines().next().and_then(|line| line.strip_suffix(" HTTP/1.1")).unwrap()
    }

    /// The value of a header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        value
    }
}

#[derive(Debug, Default)]
struct Log {
    connections: usize,
    requests: Vec<Seen>,
}

/// The server. It ends with the test's runtime.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
}

impl Server {
    /// Does the first act to the first request, whatever connection it comes over, and so on; the last act to all
    /// further ones.
    pub async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Log::default()));
        let acts: Arc<[Act]> = acts.into_iter().collect();
        let shared = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(stream, Arc::clone(&acts), Arc::clone(&shared)));
            }
        });
        Self { address, log }
    }

    /// Where it is, for a client.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request of which at least one byte came.
    pub fn requests(&self) -> Vec<Seen> {
        self.log.lock().unwrap().requests.clone()
    }

    /// How many connections it took.
    pub fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }
}

async fn serve(mut stream: TcpStream, acts: Arc<[Act]>, log: Arc<Mutex<Log>>) {
    let mut first = [0];
    while matches!(stream.read(&mut first).await, Ok(1)) {
        let number = {
            let mut log = log.lock().unwrap();
            log.requests.push(Seen::default());
            log.requests.len() - 1
        };
        let act = acts.get(number).or(acts.last()).unwrap().clone();
        if let Act::CloseAfter(bytes) | Act::HangAfter(bytes) = act {
            let mut rest = vec![0; bytes.saturating_sub(1)];
            // A client that gives up before has sent as much as it was going to.
            let came = stream.read_exact(&mut rest).await.is_ok();
            if came && matches!(act, Act::HangAfter(_)) {
                std::future::pending::<()>().await;
            }
            return;
        }
        let Some(seen) = read_request(&mut stream, first[0]).await else { return };
        log.lock().unwrap().requests[number] = seen;
        if !answer(&mut stream, act).await {
            return;
        }
    }
}

/// Whether the connection stays.
async fn answer(stream: &mut TcpStream, act: Act) -> bool {
    match act {
        Act::Say(text) => stream.write_all(text.as_bytes()).await.is_ok(),
        Act::SayAndClose(text) => {
            stream.write_all(text.as_bytes()).await.unwrap();
            false
        }
        Act::Endless(text, chunk) => {
            stream.write_all(text.as_bytes()).await.unwrap();
            // Ends when the client closes the connection.
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
            false
        }
        Act::SayAndHang(text) => {
            stream.write_all(text.as_bytes()).await.unwrap();
            std::future::pending().await
        }
        Act::SayWithPauses(texts, pause) => {
            for text in texts {
                SystemClock.sleep(pause).await;
                if stream.write_all(text.as_bytes()).await.is_err() {
                    return false;
                }
            }
            true
        }
        Act::CloseAfter(_) | Act::HangAfter(_) => false,
    }
}

async fn read_request(stream: &mut TcpStream, first: u8) -> Option<Seen> {
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: String::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}

/// An answer with a body of known length.
pub fn answer_of(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
