//! A proxy before an emulator that makes what no emulator makes: throttling, unprocessed items, conflicts, and errors
//! for what was done.

use std::fmt;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use futures::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it went by.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    /// The operation of a JSON protocol: `PutItem`, `SendMessageBatch`; empty for S3.
    pub fn operation(&self) -> &str {
        let target = self.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
        target.rsplit('.').next().unwrap_or_default()
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An answer that the proxy makes, or has got.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// An error of a JSON protocol, such as `ThrottlingException`.
    pub fn json_error(status: u16, kind: &str) -> Self {
        let body = serde_json::json!({"__type": kind, "message": "made by the proxy"}).to_string();
        Self::new(status, "application/x-amz-json-1.0", body)
    }

    /// An error of S3, such as `ConditionalRequestConflict`.
    pub fn s3_error(status: u16, code: &str) -> Self {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>made by the proxy</Message></Error>");
        Self::new(status, "application/xml", body)
    }

    pub fn new(status: u16, kind: &'static str, body: String) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Self { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }
}

/// What to do with a request.
pub enum Verdict {
    /// Send it on, and hand its answer back.
    Pass,
    /// Don't send it on; answer so.
    Answer(Answer),
    /// Send it on, then answer otherwise.
    After(Box<dyn FnOnce(Answer) -> Answer + Send>),
    /// Send another request on in its place.
    Instead(Bytes),
    /// Send it on, then break the connection without an answer.
    Break,
    /// Send it on, then break the connection after the head of its answer and that many bytes of its body.
    Cut(usize),
}

type Judge = Box<dyn FnMut(&Seen) -> Verdict + Send>;

struct Shared {
    target: String,
    client: reqwest::Client,
    judge: Mutex<Judge>,
    seen: Mutex<Vec<Seen>>,
}

/// A running proxy; dropping it ends it.
pub struct Proxy {
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.url)
    }
}

impl Proxy {
    /// Before the server at `target`; `judge` is asked about each request.
    pub async fn start(target: &str, judge: impl FnMut(&Seen) -> Verdict + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            judge: Mutex::new(Box::new(judge)),
            seen: Mutex::default(),
        });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, shared, server }
    }

    /// From now on another judge is asked.
    pub fn judge(&self, judge: impl FnMut(&Seen) -> Verdict + Send + 'static) {
        *self.shared.judge.lock().unwrap() = Box::new(judge);
    }

    /// The requests so far, which are forgotten.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let seen = Seen { method: parts.method, uri: parts.uri, headers: parts.headers, body };
    shared.seen.lock().unwrap().push(seen.clone());
    let verdict = (shared.judge.lock().unwrap())(&seen);
    let answer = match verdict {
        Verdict::Pass => forward(&shared, &seen, seen.body.clone()).await,
        Verdict::Answer(answer) => answer,
        Verdict::After(change) => change(forward(&shared, &seen, seen.body.clone()).await),
        Verdict::Instead(body) => forward(&shared, &seen, body).await,
        Verdict::Cut(length) => return cut(forward(&shared, &seen, seen.body.clone()).await, length),
        Verdict::Break => {
            drop(forward(&shared, &seen, seen.body.clone()).await);
            // A body that is shorter than announced: the client can't read this answer.
            let mut broken = Response::new(Body::from_stream(stream::once(async {
                Err::<Bytes, _>(std::io::Error::other("broken by the proxy"))
            })));
            broken.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("100"));
            return broken;
        }
    };
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The first bytes of an answer that announces all of them.
fn cut(answer: Answer, length: usize) -> Response {
    let announced = answer.body.len();
    let start = stream::once(std::future::ready(Ok(answer.body.slice(..length))));
    let end = stream::once(async {
        // What was written goes out while the body has nothing to add.
        tokio::task::yield_now().await;
        Err::<Bytes, _>(std::io::Error::other("cut off by the proxy"))
    });
    let mut response = Response::new(Body::from_stream(start.chain(end)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response.headers_mut().insert(header::CONTENT_LENGTH, announced.into());
    response
}

async fn forward(shared: &Shared, seen: &Seen, body: Bytes) -> Answer {
    let path = seen.uri.path_and_query().map_or("/", |path| path.as_str());
    let skipped: [HeaderName; 4] =
        [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::EXPECT];
    let headers: HeaderMap = seen
        .headers
        .iter()
        .filter(|(name, _)| !skipped.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let sent =
        shared.client.request(seen.method.clone(), format!("{}{path}", shared.target)).headers(headers).body(body);
    let answered = sent.send().await.unwrap();
    let status = answered.status();
    let mut headers = answered.headers().clone();
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONNECTION);
    if seen.method != Method::HEAD {
        headers.remove(header::CONTENT_LENGTH);
    }
    Answer { status, headers, body: answered.bytes().await.unwrap() }
}
