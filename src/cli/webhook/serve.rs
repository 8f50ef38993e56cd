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
use serde_json::json;
use tokio::sync::watch;

use super::door::Door;
use tracing::{Level, enabled};

use crate::app::webhook::{self, Answer, Received, Reception};
use crate::cli::args::Serve;
use crate::cli::console::Console;
use crate::cli::hint::see;
use crate::cli::open::{self, Context};
use crate::cli::outcome::{Exit, Stop};
use crate::cli::signal::Signals;
use crate::cli::table::plain;
use crate::domain::mask::clean;
use crate::domain::webhook::{Body as Event, LARGEST, Outcome, Request};

/// How much of a body that is too long is read and dropped, in bytes, so that who sends it sees the answer.
const DROPPED: usize = 8 << 20;

/// How long a body may take to come, all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long requests under way may take when the program is to end.
const LAST_CALL: Duration = Duration::from_secs(5);

/// The longest line about a request, in characters.
const WORDS: usize = 300;

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
    let server = axum::serve(Door::new(listener, Arc::clone(&clock)), routes(desk)).with_graceful_shutdown(shutdown);
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
    desk.refuse(404, "events are taken at /webhook")
}

async fn take(State(desk): State<Arc<Desk>>, method: Method, headers: HeaderMap, body: Body) -> Response {
    if method != Method::POST {
        let mut response = desk.refuse(405, "events come by POST");
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
        return response;
    }
    let read = tokio::select! {
        read = read(body) => read,
        () = desk.reception.clock.sleep(PATIENCE) => Err(408),
    };
    let body = match read {
        Ok(body) => body,
        Err(status) => return desk.refuse(status, "the body did not come whole"),
    };
    let request = Request { headers: passed_on(&headers), body };
    let answer = webhook::receive(&desk.reception, &request).await;
    desk.tell(&request, &answer);
    respond(answer.status, answer.body)
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

fn respond(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

impl Desk {
    /// Answers what is no event at all.
    fn refuse(&self, status: u16, why: &str) -> Response {
        self.print(status, why);
        respond(status, json!({"error": why}).to_string())
    }

    /// Prints a line about a request, unless the log has one: never a header or a body. What a request calls itself is
    /// told only when somebody whom we know has signed it.
    fn tell(&self, request: &Request, answer: &Answer) {
        const LOG: &str = "gleaner::app::webhook";
        let about = || Event::read(&request.body).map_or_else(|_| "an event".to_owned(), |event| event.about);
        let (is_logged, words) = match &answer.received {
            Received::Event(outcome) => {
                (enabled!(target: LOG, Level::INFO), format!("{}: {}", about(), became(outcome)))
            }
            Received::Duplicate => (enabled!(target: LOG, Level::INFO), format!("{}: came before", about())),
            Received::InHands => (false, format!("{}: is being worked on; it should come again", about())),
            Received::Refused(refusal) => (enabled!(target: LOG, Level::WARN), refusal.to_string()),
            Received::NotNow(why) => (enabled!(target: LOG, Level::ERROR), why.clone()),
        };
        if !is_logged {
            self.print(answer.status, &words);
        }
    }

    fn print(&self, status: u16, words: &str) {
        let now = self.reception.clock.now();
        self.console.note(&plain(&format!("{now} {status} {}", clean(words, WORDS))));
    }
}

fn became(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Queued(item) => format!("work for {item} is queued"),
        Outcome::Over(item) => format!("{item} has ended already"),
        Outcome::Unknown => "of no job that is known here".to_owned(),
        Outcome::Other => "not about a job".to_owned(),
    }
}
