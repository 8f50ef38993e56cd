//! `webhook serve`: events taken on this machine.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::webhook::{self, Reception};
use crate::cli::args::Serve;
use crate::cli::console::Console;
use crate::cli::hint::see;
use crate::cli::open::{self, Context};
use crate::cli::outcome::{Exit, Stop};
use crate::cli::signal::Signals;
use crate::domain::mask::clean;
use crate::domain::webhook::{Body as Event, LARGEST, Request};

/// How much of a body that is too long is read and dropped, in bytes, so that who sends it sees the answer.
const DROPPED: usize = 8 << 20;

/// How long a body may take to come, all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long requests under way may take when the program is to end.
const LAST_CALL: Duration = Duration::from_secs(5);

/// The longest words of others in a line, in characters.
const WORDS: usize = 120;

/// What requests are answered with.
#[derive(Debug)]
struct Desk {
    reception: Reception,
    console: Console,
}

/// Takes events until Ctrl-C.
pub(super) async fn serve(context: &Context, args: &Serve) -> Result<Exit, Stop> {
    if context.stack.is_some() {
        return Err(Stop::Usage(format!(
            "a stack takes its events itself; this is for a data folder. Have Gemini send them there:\n  {}",
            see(context, "webhook register")
        )));
    }
    let mut signals = Signals::catch()?;
    // Before the folder: whoever can't have the port needs none.
    let listener = open::listen(args.port).await?;
    let address = listener.local_addr().map_err(|error| Stop::Person(format!("the port has no address: {error}")))?;
    let reception = open::reception(context).await?;
    let clock = Arc::clone(&reception.clock);
    let desk = Arc::new(Desk { reception, console: context.console.clone() });
    let (closing, mut closed) = watch::channel(false);
    let shutdown = async move {
        // An error means that the sender is gone, which is the end too.
        let _closed = closed.wait_for(|closing| *closing).await;
    };
    let server = axum::serve(listener, routes(desk)).with_graceful_shutdown(shutdown);
    let mut server = std::pin::pin!(async move { server.await });
    let url = format!("http://{address}/webhook");
    context.console.tell(&json!({"url": url}))?;
    context.console.say(&url)?;
    let ended = tokio::select! {
        ended = &mut server => ended,
        () = signals.next() => {
            closing.send_replace(true);
            tokio::select! {
                ended = &mut server => ended,
                () = signals.next() => Ok(()),
                () = clock.sleep(LAST_CALL) => Ok(()),
            }
        }
    };
    ended.map_err(|error| Stop::Person(format!("the server ended badly: {error}")))?;
    Ok(Exit::Done)
}

fn routes(desk: Arc<Desk>) -> Router {
    Router::new().route("/webhook", axum::routing::any(take)).fallback(unknown).with_state(desk)
}

async fn unknown(State(desk): State<Arc<Desk>>) -> Response {
    let (status, body) = (404, error("events are taken at /webhook"));
    desk.answer(None, status, &body)
}

async fn take(State(desk): State<Arc<Desk>>, method: Method, headers: HeaderMap, body: Body) -> Response {
    if method != Method::POST {
        let (status, body) = (405, error("events come by POST"));
        let mut response = desk.answer(None, status, &body);
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
        return response;
    }
    let read = tokio::select! {
        read = read(body) => read,
        () = desk.reception.clock.sleep(PATIENCE) => Err(408),
    };
    let body = match read {
        Ok(body) => body,
        Err(status) => {
            let body = error("the body did not come whole");
            return desk.answer(None, status, &body);
        }
    };
    let about = Event::read(&body).ok().map(|event| event.about);
    let request = Request { headers: passed_on(&headers), body };
    let answer = webhook::receive(&desk.reception, &request).await;
    desk.answer(about.as_deref(), answer.status, &answer.body)
}

/// The names and values as they came, repeated ones each. What is no UTF-8 can't be a value that is looked at.
fn passed_on(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The body, or one byte more than is taken of one that is too long. The status if it breaks off.
async fn read(body: Body) -> Result<Bytes, u16> {
    let mut pieces = body.into_data_stream();
    let mut taken = BytesMut::new();
    let mut dropped = 0_usize;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| 400_u16)?;
        let room = (LARGEST + 1).saturating_sub(taken.len());
        taken.extend(piece.iter().take(room));
        dropped = dropped.saturating_add(piece.len().saturating_sub(room));
        if dropped > DROPPED {
            break;
        }
    }
    Ok(taken.freeze())
}

fn error(why: &str) -> String {
    json!({"error": why}).to_string()
}

impl Desk {
    /// Answers, and prints a line about it: never a header or a body. What a request calls itself is told only when
    /// somebody whom we know has signed it.
    fn answer(&self, about: Option<&str>, status: u16, body: &str) -> Response {
        let now = self.reception.clock.now();
        let is_known = (200..300).contains(&status) || status == 503;
        let mut line = format!("{now} {status}");
        if let Some(about) = about.filter(|_| is_known) {
            line = format!("{line} {}", clean(about, WORDS));
        }
        if status >= 400
            && let Ok(body) = serde_json::from_str::<Value>(body)
            && let Some(why) = body.get("error").and_then(Value::as_str)
        {
            line = format!("{line} {}", clean(why, WORDS));
        }
        self.console.note(&line);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, "application/json")], body.to_owned()).into_response()
    }
}
