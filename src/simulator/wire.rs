//! Connections that can be closed in the middle, which an HTTP server never does by itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::serve::{IncomingStream, Listener};
use bytes::Bytes;
use futures::stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A hold on the connection that a request came by.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Arc<AtomicBool>);

impl Line {
    /// Closes the connection without an answer. What this returns is never written.
    pub(super) fn hang_up(&self) -> Response {
        self.0.store(true, Ordering::Release);
        ().into_response()
    }
}

/// An answer of which the head and half of the body arrive, before the connection closes.
pub(super) fn cut_off(body: &Bytes) -> Response {
    let half = body.slice(..body.len() / 2);
    let breaks = async {
        // Lets the first half go out before the error ends the connection.
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let parts = stream::StreamExt::chain(stream::iter([Ok(half)]), stream::once(breaks));
    let head =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_LENGTH, body.len().to_string())];
    (head, Body::from_stream(parts)).into_response()
}

/// Accepts connections that can be hung up.
#[derive(Debug)]
pub(super) struct Door(pub(super) TcpListener);

impl Listener for Door {
    type Io = Connection;
    type Addr = Line;

    async fn accept(&mut self) -> (Connection, Line) {
        let (stream, from) = Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%from, %error, "simulator: no TCP_NODELAY");
        }
        let line = Line::default();
        (Connection { stream, line: line.clone() }, line)
    }

    fn local_addr(&self) -> io::Result<Line> {
        self.0.local_addr().map(|_| Line::default())
    }
}

impl Connected<IncomingStream<'_, Door>> for Line {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A connection that refuses to write once it was hung up, so that the server drops it.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    line: Line,
}

impl Connection {
    fn open(&self) -> io::Result<()> {
        if self.line.0.load(Ordering::Acquire) { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.open()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
