//! Connections that don't stay for ever: who opens many and says nothing must not keep events out.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ports::clock::Clock;

/// Connections at once. Others wait outside.
const ROOM: usize = 128;

/// How long one may last. Whoever has more to say comes again.
const STAY: Duration = Duration::from_secs(30);

/// Lets so many in at once, each for so long.
pub(super) struct Door {
    listener: TcpListener,
    room: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
}

impl Door {
    pub(super) fn new(listener: TcpListener, clock: Arc<dyn Clock>) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(ROOM)), clock }
    }
}

impl Listener for Door {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        // It is never closed.
        let place = Arc::clone(&self.room).acquire_owned().await.ok();
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let clock = Arc::clone(&self.clock);
        let end: End = Box::pin(async move { clock.sleep(STAY).await });
        (Guest { stream, end, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, until its time is over.
pub(super) struct Guest {
    stream: TcpStream,
    end: End,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsyncRead for Guest {
    /// What has come is read; who says nothing more when its time is over is shown out.
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            read => read,
        }
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Pending => self.end.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            written => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::domain::time::Millis;
    use crate::ports::testing::TestClock;

    #[tokio::test]
    async fn who_says_nothing_makes_room_for_others_when_its_time_is_over() {
        let clock = Arc::new(TestClock::standing(Millis(0)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let app = axum::Router::new().fallback(async || "yes");
        let door = Door::new(listener, clock.clone());
        let server = tokio::spawn(async move { axum::serve(door, app).await });
        let mut silent = Vec::new();
        for _ in 0..ROOM {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\nx-half: ").await.unwrap();
            silent.push(stream);
        }
        let mut late = TcpStream::connect(at).await.unwrap();
        late.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let answer = tokio::spawn(async move {
            let mut text = String::new();
            late.read_to_string(&mut text).await.unwrap();
            text
        });
        // Time passes only while nobody is left outside for want of it.
        while !answer.is_finished() {
            clock.advance(STAY);
            tokio::task::yield_now().await;
        }
        assert!(answer.await.unwrap().ends_with("yes"));
        server.abort();
    }
}
