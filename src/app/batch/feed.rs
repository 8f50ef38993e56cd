//! A reader that is fed by a writer on the way: what is made piece by piece becomes one object.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How much is gathered before it is passed on, in bytes.
const PIECE: usize = 1 << 20;

/// How many pieces may wait for the reader.
const PIECES: usize = 4;

/// The writing end.
#[derive(Debug)]
pub struct Feed {
    pieces: Sender<Result<Option<Bytes>, io::Error>>,
    gathered: BytesMut,
    written: u64,
}

/// The reading end. It ends when the writer says so, and fails when the writer fails or goes away without a word: half an
/// object must never look like a whole one.
#[derive(Debug)]
pub struct Fed {
    pieces: Receiver<Result<Option<Bytes>, io::Error>>,
    piece: Bytes,
    ended: bool,
}

/// Both ends.
#[must_use]
pub fn feed() -> (Feed, Fed) {
    let (sender, receiver) = channel(PIECES);
    let feed = Feed { pieces: sender, gathered: BytesMut::new(), written: 0 };
    (feed, Fed { pieces: receiver, piece: Bytes::new(), ended: false })
}

impl Feed {
    /// Passes bytes on. A reader that went away has its own error: it is not told here.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE {
            self.pass_on().await;
        }
    }

    /// How many bytes were written.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    async fn pass_on(&mut self) {
        if !self.gathered.is_empty() {
            let piece = self.gathered.split().freeze();
            self.send(Ok(Some(piece))).await;
        }
    }

    async fn send(&self, piece: Result<Option<Bytes>, io::Error>) {
        if self.pieces.send(piece).await.is_err() {
            tracing::debug!("nobody reads any more");
        }
    }

    /// Nothing more comes: the object is whole.
    pub async fn end(&mut self) {
        self.pass_on().await;
        self.send(Ok(None)).await;
    }

    /// It is not to become an object.
    pub async fn fail(&mut self, error: io::Error) {
        self.send(Err(error)).await;
    }
}

impl AsyncRead for Fed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() && !self.ended {
            match std::task::ready!(self.pieces.poll_recv(context)) {
                Some(Ok(Some(piece))) => self.piece = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Err(io::Error::other("its writer went away"))),
            }
        }
        let length = self.piece.len().min(buffer.remaining());
        buffer.put_slice(self.piece.get(..length).unwrap_or_default());
        self.piece.advance(length);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let (mut feed, mut fed) = feed();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let write = async {
            for piece in bytes.chunks(700_001) {
                feed.write(piece).await;
            }
            feed.end().await;
            feed.written()
        };
        let mut read = Vec::new();
        let (written, outcome) = tokio::join!(write, fed.read_to_end(&mut read));
        assert_eq!((written, outcome.unwrap()), (3_000_000, 3_000_000));
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn half_of_it_is_an_error() {
        for told in [true, false] {
            let (mut feed, mut fed) = feed();
            feed.write(b"half").await;
            if told {
                feed.fail(io::Error::other("no more")).await;
            }
            drop(feed);
            let mut read = Vec::new();
            assert!(fed.read_to_end(&mut read).await.is_err());
        }
    }
}
