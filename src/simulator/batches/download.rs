//! The download of results, by either form of the URL (gemini-api, section 4.4), streamed from disk.

use std::io;
use std::path::Path as FsPath;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Version, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader};

use super::super::faults::{Fault, Phase, hash};
use super::super::refusal::{Dialect, Kind, Refusal};
use super::super::world::{World, aside};
use super::job::Job;
use super::operation::State as Words;
use super::output;

/// Bytes read from disk at once.
const BLOCK: usize = 1 << 17;

/// Which of the two URLs was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// `/download/{v}/files/…`, the documented one.
    Long,
    /// `/{v}/files/…`, that of the SDKs.
    Short,
}

/// The query.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Media {
    alt: Option<String>,
}

pub(in super::super) fn routes() -> Router<Arc<World>> {
    Router::new().route("/files/{id}", get(long))
}

async fn long(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(query): Query<Media>,
    headers: HeaderMap,
) -> Response {
    match id.strip_suffix(":download") {
        Some(id) => download(&world, id, &query, &headers, Form::Long).await,
        None => {
            world.count("other");
            Refusal::no_such_path(&id).answer(Dialect::Legacy)
        }
    }
}

pub(in super::super) async fn download(
    world: &Arc<World>,
    id: &str,
    query: &Media,
    headers: &HeaderMap,
    form: Form,
) -> Response {
    world.count("download");
    let outcome = give(world, id, query, headers, form).await;
    outcome.unwrap_or_else(|refusal| refusal.answer(Dialect::Legacy))
}

async fn give(
    world: &Arc<World>,
    id: &str,
    query: &Media,
    headers: &HeaderMap,
    form: Form,
) -> Result<Response, Refusal> {
    let key = world.admit(headers)?;
    let invalid = |message: &str| Refusal::new(Kind::InvalidRequest, message);
    if query.alt.as_deref() != Some("media") {
        return Err(invalid("The simulator downloads only with ?alt=media."));
    }
    let Some(batch) = id.strip_prefix("batch-") else {
        world.file_of(&key, id).await?;
        return Err(invalid("Only generated files can be downloaded."));
    };
    let job = world.batch_of(&key, batch).await?;
    let standing = job.standing(&world.shelf(), world.course()).map_err(|error| Refusal::disk(&error))?;
    if job.record.file.is_none() || !Words::of(&job.record, standing).yields() {
        return Err(Refusal::new(Kind::NotFound, format!("File '{id}' was not found.")));
    }
    let (count, refuse) = job.ask_download();
    if refuse {
        return Err(Refusal::unavailable());
    }
    let dice = hash(world.config.seed, "download", job.record.subject, &[job.record.nth, count]);
    let fault = world.draw_download(&job, count, form);
    match fault {
        Some(Fault::Download404) => {
            return Err(Refusal::new(Kind::NotFound, "Requested entity was not found."));
        }
        Some(Fault::Download503) => return Err(Refusal::unavailable()),
        Some(Fault::Download503Middle) => job.refuse_next_download(),
        _ => {}
    }
    let lock = world.lock_of(batch);
    {
        let _alone = lock.lock().await;
        let (shelf, job) = (world.shelf(), Arc::clone(&job));
        aside(move || output::write(&shelf, &job.record)).await?;
    }
    let path = world.shelf().path(batch, "output");
    Flow::open(world, &path, fault, dice).await.map_err(|error| Refusal::disk(&error))
}

impl World {
    fn draw_download(&self, job: &Job, count: u64, form: Form) -> Option<Fault> {
        let tries = [job.record.nth, count];
        let fault = self.faults().draw(self.config.seed, Phase::Download, job.record.subject, &tries);
        let fault = fault.filter(|fault| *fault != Fault::Download404 || form == Form::Long);
        self.count_faults(fault);
        fault
    }
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All of it was sent, or so it seems.
    Clean,
    /// The connection breaks.
    Broken,
}

/// A file on its way.
struct Flow {
    world: Arc<World>,
    file: File,
    /// Bytes to be sent yet.
    left: u64,
    end: End,
    /// After so many bytes each there is a pause.
    stride: Option<u64>,
    until_pause: u64,
}

impl Flow {
    async fn open(world: &Arc<World>, path: &FsPath, fault: Option<Fault>, dice: u64) -> io::Result<Response> {
        let file = File::open(path).await?;
        let whole = file.metadata().await?.len();
        let part = cut(path, whole, dice).await?;
        let (left, end) = match fault {
            Some(Fault::DownloadCut | Fault::DownloadCutChunked | Fault::Download503Middle) => (part, End::Broken),
            Some(Fault::DownloadCutSilent) => (part, End::Clean),
            _ => (whole, End::Clean),
        };
        let stride = (fault == Some(Fault::DownloadSlow)).then_some((whole / 4).max(1));
        let flow = Self { world: Arc::clone(world), file, left, end, stride, until_pause: stride.unwrap_or(u64::MAX) };
        let body = Body::from_stream(stream::unfold(Some(flow), |flow| async { flow?.next().await }));
        let mut answer = ([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response();
        match fault {
            Some(Fault::DownloadCutChunked) => {}
            Some(Fault::DownloadUnsized) if dice.is_multiple_of(2) => {}
            // An answer to HTTP/1.0 ends where the connection does.
            Some(Fault::DownloadCutSilent | Fault::DownloadUnsized) => *answer.version_mut() = Version::HTTP_10,
            _ => {
                answer.headers_mut().insert(header::CONTENT_LENGTH, whole.into());
            }
        }
        Ok(answer)
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Option<Self>)> {
        if self.left == 0 {
            // Lets what was sent go out before the error ends the connection.
            tokio::task::yield_now().await;
            let broken = || (Err(io::ErrorKind::ConnectionAborted.into()), None);
            return (self.end == End::Broken).then(broken);
        }
        if self.until_pause == 0 {
            self.world.pause(self.world.config.late).await;
            self.until_pause = self.stride.unwrap_or(u64::MAX);
        }
        let size = self.left.min(self.until_pause).min(u64::try_from(BLOCK).unwrap_or(u64::MAX));
        let mut block = vec![0; usize::try_from(size).unwrap_or(BLOCK)];
        let read = self.file.read(&mut block).await;
        match read {
            Ok(0) => Some((Err(io::ErrorKind::UnexpectedEof.into()), None)),
            Ok(length) => {
                block.truncate(length);
                let length = u64::try_from(length).unwrap_or(u64::MAX);
                self.left = self.left.saturating_sub(length);
                self.until_pause = self.until_pause.saturating_sub(length);
                Some((Ok(block.into()), Some(self)))
            }
            Err(error) => Some((Err(error), None)),
        }
    }
}

/// Where a cut-off download ends: anywhere in the file, every other time at the end of a line.
async fn cut(path: &FsPath, whole: u64, dice: u64) -> io::Result<u64> {
    let place = (dice / 2).checked_rem(whole).unwrap_or(0);
    if dice.is_multiple_of(2) {
        return Ok(place);
    }
    let mut file = BufReader::new(File::open(path).await?);
    file.seek(io::SeekFrom::Start(place)).await?;
    let mut rest = Vec::new();
    let length = file.read_until(b'\n', &mut rest).await?;
    let end = place + u64::try_from(length).unwrap_or(0);
    // The whole file would be no cut.
    Ok(if end < whole { end } else { place })
}
