//! `webhook serve`: what it answers, and how it ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};

use super::super::{Folder, signal};
use super::SECRETS;

/// The program at work, killed when it is dropped.
pub struct Serving {
    child: Child,
    pub url: String,
}

impl Serving {
    pub fn start(folder: &Folder, settings: &[(&str, &str)]) -> Self {
        let mut command = folder.gleaner(&["webhook", "serve", "--port", "0"]);
        command.envs(settings.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/webhook").unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        TcpStream::connect(address).unwrap()
    }

    /// The whole answer to these bytes, until the connection closes.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it as a service manager would, and gives what it printed on standard error.
    pub fn end(mut self) -> String {
        signal(&self.child, "TERM");
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{err}");
        err
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            eprintln!("it could not be ended: {error}");
        }
    }
}

fn post(length: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("POST /webhook HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn only_events_are_taken_and_a_line_tells_of_each_request() {
    let folder = Folder::new();
    let serving = Serving::start(&folder, &[]);
    let asked = |line: &str| serving.say(format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
    assert!(asked("GET /").starts_with("HTTP/1.1 404"));
    assert!(asked("POST /webhook/").starts_with("HTTP/1.1 404"));
    for method in ["GET", "PUT", "DELETE"] {
        let answer = asked(&format!("{method} /webhook")).to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 405") && answer.contains("\r\nallow: post\r\n"), "{answer}");
    }
    let body = br#"{"type": "evil.\u001b[2J"}"#;
    let unsigned = serving.say(&post(body.len(), body));
    assert!(unsigned.starts_with("HTTP/1.1 400"), "{unsigned}");
    let err = serving.end();
    assert_eq!(err.lines().count(), 6, "{err}");
    assert!(err.contains(" 405 events come by POST") && !err.contains("evil") && !err.contains('\u{1b}'), "{err}");
    assert!(folder.path(".gleaner/ledger.db").exists() && !folder.path(SECRETS).exists());
}

#[test]
fn a_body_that_is_too_long_or_breaks_off_is_answered() {
    let folder = Folder::new();
    let serving = Serving::start(&folder, &[]);
    let long = vec![b'x'; 1 << 20];
    let answer = serving.say(&post(long.len(), &long));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Longer than what is read at all: it is answered while it still comes.
    let mut stream = serving.connect();
    stream.write_all(&post(1 << 30, &[])).unwrap();
    let mut sender = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || while sender.write_all(&[b'x'; 1 << 16]).is_ok() {});
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    // The server may have hung up already, which ends the sending too.
    let hung_up = stream.shutdown(Shutdown::Both);
    assert!(hung_up.as_ref().map_or_else(|error| error.kind() == ErrorKind::NotConnected, |()| true), "{hung_up:?}");
    sending.join().unwrap();
    // Cut off: whether an answer is seen or not, the next one is served.
    let mut cut = serving.connect();
    cut.write_all(&post(100, b"half")).unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    cut.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 2"));
    assert!(serving.say(&post(2, b"{}")).starts_with("HTTP/1.1 "));
    serving.end();
}

#[test]
fn it_ends_although_a_connection_stays_open() {
    let folder = Folder::new();
    let serving = Serving::start(&folder, &[]);
    let idle = serving.connect();
    serving.end();
    drop(idle);
}

#[test]
fn a_port_that_is_taken_and_secrets_that_others_can_read_are_told() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = folder.run(&["webhook", "serve", "--port", &port]).exits(1);
    assert!(said.err.contains("can't be listened on") && said.out.is_empty(), "{}", said.err);
    assert!(!folder.path(".gleaner").exists());
    std::fs::create_dir(folder.path(".gleaner")).unwrap();
    folder.write(SECRETS, r#"{"webhook_secrets": ["whsec_YW4gZXhhbXBsZQ=="]}"#);
    let said = folder.run(&["webhook", "serve", "--port", "0"]).exits(1);
    assert!(said.err.contains("chmod 600") && !said.err.contains("whsec_"), "{}", said.err);
}

#[test]
fn with_json_it_tells_its_url() {
    let folder = Folder::new();
    let mut child =
        folder.gleaner(&["--json", "webhook", "serve", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(told["url"].as_str().unwrap().ends_with("/webhook"), "{line}");
}
