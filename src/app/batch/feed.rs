//! An object that is written piece by piece: it becomes one only when its writer says that it is whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::app::engine::Trouble;
use crate::ports::objects::{ObjectError, Objects, Put};

/// How much is gathered before it is passed on, in bytes.
const PIECE: usize = 1 << 20;

/// How many pieces may wait for the reader.
const PIECES: usize = 4;

/// An object on the way. Nothing is begun before its first byte, so that an empty one never comes to be.
#[derive(Debug)]
pub struct Outlet {
    objects: Arc<dyn Objects>,
    name: String,
    written: u64,
    under_way: Option<(Feed, JoinHandle<Result<Put, ObjectError>>)>,
}

impl Outlet {
    /// Of that name, if it comes to hold anything.
    #[must_use]
    pub fn new(objects: &Arc<dyn Objects>, name: String) -> Self {
        Self { objects: Arc::clone(objects), name, written: 0, under_way: None }
    }

    /// Writes on. A long piece is passed on as it is.
    pub async fn write(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return;
        }
        self.written += bytes.len() as u64;
        if self.under_way.is_none() {
            let (feed, mut fed) = feed();
            let (objects, name) = (Arc::clone(&self.objects), self.name.clone());
            let put = tokio::spawn(async move { objects.put_stream(&name, &mut fed).await });
            self.under_way = Some((feed, put));
        }
        if let Some((feed, _)) = &mut self.under_way {
            feed.write(bytes).await;
        }
    }

    /// It is whole. Returns its length when it is durable; an object of its name that was there before stays.
    ///
    /// # Errors
    /// Trouble with the objects: nothing is there under the name.
    pub async fn close(self) -> Result<u64, Trouble> {
        if let Some((mut feed, put)) = self.under_way {
            feed.end().await;
            put.await.map_err(|error| Trouble::Passing(format!("{} was not written: {error}", self.name)))??;
        }
        Ok(self.written)
    }

    /// It is not to be: nothing is left under the name.
    pub async fn give_up(self) {
        if let Some((mut feed, put)) = self.under_way {
            feed.fail(io::Error::other("given up")).await;
            if let Err(error) = put.await {
                tracing::warn!(object = self.name, %error, "its writer ended badly");
            }
        }
    }
}

/// The writing end.
#[derive(Debug)]
struct Feed {
    pieces: Sender<Result<Option<Bytes>, io::Error>>,
    gathered: BytesMut,
}

/// The reading end. It ends when the writer says so, and fails when the writer fails or goes away without a word: half an
/// object must never look like a whole one.
#[derive(Debug)]
struct Fed {
    pieces: Receiver<Result<Option<Bytes>, io::Error>>,
    piece: Bytes,
    ended: bool,
}

/// Both ends.
fn feed() -> (Feed, Fed) {
    let (sender, receiver) = channel(PIECES);
    let feed = Feed { pieces: sender, gathered: BytesMut::new() };
    (feed, Fed { pieces: receiver, piece: Bytes::new(), ended: false })
}

impl Feed {
    /// Passes bytes on. A reader that went away has its own error: it is not told here.
    async fn write(&mut self, bytes: Bytes) {
        if bytes.len() >= PIECE {
            self.pass_on().await;
            self.send(Ok(Some(bytes))).await;
            return;
        }
        self.gathered.extend_from_slice(&bytes);
        if self.gathered.len() >= PIECE {
            self.pass_on().await;
        }
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
    async fn end(&mut self) {
        self.pass_on().await;
        self.send(Ok(None)).await;
    }

    /// It is not to become an object.
    async fn fail(&mut self, error: io::Error) {
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
            for piece in [700_001, 1_299_999, 1_000_000].iter().scan(0, |at, length| {
                *at += length;
                Some(bytes[*at - length..*at].to_vec())
            }) {
                feed.write(piece.into()).await;
            }
            feed.end().await;
        };
        let mut read = Vec::new();
        let ((), outcome) = tokio::join!(write, fed.read_to_end(&mut read));
        assert_eq!(outcome.unwrap(), 3_000_000);
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn half_of_it_is_an_error() {
        for told in [true, false] {
            let (mut feed, mut fed) = feed();
            feed.write(Bytes::from_static(b"half")).await;
            if told {
                feed.fail(io::Error::other("no more")).await;
            }
            drop(feed);
            let mut read = Vec::new();
            assert!(fed.read_to_end(&mut read).await.is_err());
        }
    }
}
