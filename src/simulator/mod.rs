//! Gemini as a server: for trying out, and for tests that count paid work.
//!
//! A real HTTP server that answers like Gemini's interactions, batches, files, webhooks and `generateContent`, under
//! `/v1` and `/v1beta`, and sends signed events to addresses on this machine when work ends.
//! Google's own `google-genai` client works against it unchanged. An answer is a function of its input
//! ([`answer`]), so a result under the wrong key is seen; and the server fails as often, and in as many ways, as
//! it is told ([`faults`]). It does not stream.
//!
//! `/simulator/log`, `/simulator/stats` and `/simulator/rows` tell what was accepted, and so would have been paid for;
//! `/simulator/events` tells what was sent to webhooks; `/simulator/faults` shows the faults and takes others.

mod accepted;
mod admin;
pub mod answer;
mod batches;
mod content;
pub mod faults;
mod files;
mod generate;
mod interactions;
mod journal;
mod refusal;
mod request;
mod shape;
mod timeline;
mod webhooks;
mod wire;
mod world;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::faults::Faults;
pub use self::journal::JournalConfig;
use self::refusal::{Dialect, Refusal};
use self::wire::{Door, Line};
use self::world::World;
use crate::ports::clock::Clock;

/// The longest request, in bytes. A longer one is refused with 400, as at Gemini.
const LONGEST: usize = 100 << 20;
/// How long requests that are under way may hold up a stop.
const LAST_CALL: Duration = Duration::from_secs(5);

/// How the simulator behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Decides ids and faults: the same seed and the same requests give the same of both.
    pub seed: u64,
    /// How long work takes at least. A foreground create and a `generateContent` call wait for it.
    pub latency: Duration,
    /// How many GETs see a background interaction or a batch running before one sees its end.
    pub polls_until_done: u32,
    /// What goes wrong, to begin with.
    pub faults: Faults,
    /// How late the fault `create-delay` answers.
    pub late: Duration,
    /// How long after its creation the faults `get-404` and `get-403` hide an interaction or a batch.
    pub hidden: Duration,
    /// How long after its creation the fault `list-lag` keeps a batch out of the list.
    pub list_lag: Duration,
    /// How many GETs the fault `batch-unnamed` shows a batch that has succeeded, but not the name of its output.
    pub unnamed_polls: u32,
    /// When a batch that has not ended expires, without results. None: never.
    pub batch_expiry: Option<Duration>,
    /// Batches that one API key can have under way.
    pub batch_jobs: usize,
    /// Tokens that the batches of one API key and one model can have under way, at four bytes of input each.
    pub enqueued_tokens: Option<u64>,
    /// The largest file, in bytes.
    pub file_bytes: u64,
    /// What all files of one API key can weigh, in bytes.
    pub file_quota: u64,
    /// How long the text of a row's or a call's whole answer is at least, in bytes.
    pub answer_bytes: usize,
    /// Whether the cancel of an ended interaction or batch succeeds without effect; else it is answered with 400. Which of the
    /// two Gemini does is not documented.
    pub cancel_ended: bool,
    /// How late the fault `event-late` sends an event.
    pub event_late: Duration,
    /// How long the fault `event-shuffled` holds an event back for a later one to overtake it.
    pub event_held: Duration,
    /// After how long an event that was not accepted is sent again. Doubled each time, up to ten minutes.
    pub event_retry: Duration,
    /// For how long an event is sent again. Gemini does so for 24 hours, and disables a registered webhook that accepted
    /// nothing meanwhile.
    pub event_retry_for: Duration,
    /// Where to remember accepted work, so that it outlives the process. None: in memory only.
    pub journal: Option<JournalConfig>,
}

impl Default for Config {
    /// No faults, no latency; the second GET sees the end.
    fn default() -> Self {
        Self {
            seed: 0,
            latency: Duration::ZERO,
            polls_until_done: 1,
            faults: Faults::none(),
            late: Duration::from_secs(1),
            hidden: Duration::from_secs(1),
            list_lag: Duration::from_secs(1),
            unnamed_polls: 2,
            batch_expiry: Some(Duration::from_secs(48 * 3600)),
            batch_jobs: 100,
            enqueued_tokens: None,
            file_bytes: 2 << 30,
            file_quota: 20 << 30,
            answer_bytes: 0,
            cancel_ended: false,
            event_late: Duration::from_secs(1),
            event_held: Duration::from_secs(1),
            event_retry: Duration::from_secs(1),
            event_retry_for: Duration::from_secs(24 * 3600),
            journal: None,
        }
    }
}

/// A simulator at work. Dropping it stops it too, without waiting for requests that are under way.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    clock: Arc<dyn Clock>,
    closing: watch::Sender<bool>,
    server: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What to use in place of `https://generativelanguage.googleapis.com`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Takes no more connections from now on, and cuts every wait of a request short.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// [Closes](Self::close), and returns when the requests under way are answered, or after five seconds.
    pub async fn stop(mut self) -> io::Result<()> {
        self.close();
        tokio::select! {
            ended = &mut self.server => ended.map_err(io::Error::other).flatten(),
            () = self.clock.sleep(LAST_CALL) => {
                self.server.abort();
                Ok(())
            }
        }
    }
}

/// Starts a simulator in the background of the current runtime.
///
/// # Errors
/// When the journal can't be read or written, or the listener has no address.
pub async fn start(listener: TcpListener, config: Config, clock: Arc<dyn Clock>) -> io::Result<Running> {
    let addr = listener.local_addr()?;
    let (closing, closed) = watch::channel(false);
    let loading = (config, Arc::clone(&clock), closed.clone());
    let world = tokio::task::spawn_blocking(move || World::new(loading.0, loading.1, loading.2));
    let world = Arc::new(world.await.map_err(io::Error::other).flatten()?);
    let app = routes(world).into_make_service_with_connect_info::<Line>();
    let mut closed = closed;
    let shutdown = async move {
        // An error means that `Running` was dropped, which is the end too.
        let _closed = closed.wait_for(|closing| *closing).await;
    };
    let server = axum::serve(Door(listener), app).with_graceful_shutdown(shutdown);
    let server = tokio::spawn(async move { server.await });
    Ok(Running { addr, clock, closing, server })
}

fn routes(world: Arc<World>) -> Router {
    let work = interactions::routes().merge(generate::routes()).merge(batches::routes());
    let gemini = work.merge(files::routes()).merge(webhooks::routes());
    Router::new()
        .nest("/upload/v1", files::upload_routes("v1"))
        .nest("/upload/v1beta", files::upload_routes("v1beta"))
        .nest("/download/v1", batches::download_routes())
        .nest("/download/v1beta", batches::download_routes())
        .nest("/v1", gemini.clone())
        .nest("/v1beta", gemini)
        .route("/.well-known/jwks.json", get(webhooks::jwks))
        .nest("/simulator", admin::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(LONGEST))
        .with_state(world)
}

async fn unknown(State(world): State<Arc<World>>, uri: Uri) -> Response {
    world.count("other");
    Refusal::no_such_path(uri.path()).answer(Dialect::Legacy)
}
