//! The idle time-out of transfers: they may take as long as they need while something moves.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::ports::clock::Clock;

/// Stands in place of the time-out of a whole request, which nothing can switch off for a single one: a month.
pub(super) const NO_TOTAL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// In what pieces a body is handed to the connection, in bytes.
const PIECE: usize = 64 << 10;

/// How many bytes have moved.
#[derive(Debug, Clone, Default)]
pub(super) struct Moved(Arc<AtomicU64>);

/// A request body that counts what the connection has taken of it.
#[derive(Debug)]
pub(super) struct Pieces {
    rest: Bytes,
    moved: Moved,
}

impl Pieces {
    pub(super) const fn new(bytes: Bytes, moved: Moved) -> Self {
        Self { rest: bytes, moved }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.moved.0.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// Runs `work` to its end, or gives it up and returns none once nothing has moved for `idle`, and at the latest after
/// twice that.
pub(super) async fn while_moving<T>(
    clock: &dyn Clock,
    idle: Duration,
    moved: &Moved,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        let before = moved.0.load(Ordering::Relaxed);
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = clock.sleep(idle) => {
                if moved.0.load(Ordering::Relaxed) == before {
                    return None;
                }
            }
        }
    }
}

/// What is said of a transfer that was given up.
pub(super) fn stood_still(idle: Duration) -> String {
    format!("nothing came or went for {}, so that the transfer was given up", humantime::format_duration(idle))
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;
    use crate::domain::time::Millis;
    use crate::ports::testing::TestClock;

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_moves_may_take_as_long_as_it_needs() {
        let clock = TestClock::skipping(Millis(0));
        let moved = Moved::default();
        let work = async {
            for _ in 0..100 {
                moved.0.fetch_add(1, Ordering::Relaxed);
                // A turn of the clock's own sleep, so that an idle time passes between two of these.
                yield_now().await;
                yield_now().await;
            }
            "done"
        };
        assert_eq!(while_moving(&clock, IDLE, &moved, work).await, Some("done"));
        assert!(clock.now() > Millis(0).plus(IDLE * 20), "hardly any time passed: {:?}", clock.now());
    }

    #[tokio::test]
    async fn what_stands_still_is_given_up_after_twice_the_time() {
        let clock = TestClock::skipping(Millis(0));
        let moved = Moved::default();
        let work = async {
            moved.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        assert_eq!(while_moving(&clock, IDLE, &moved, work).await, None);
        assert!(clock.now() <= Millis(0).plus(IDLE * 2), "{:?}", clock.now());
    }

    #[tokio::test]
    async fn pieces_are_the_whole_body_and_count_themselves() {
        let moved = Moved::default();
        let bytes: Bytes = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let mut pieces = Pieces::new(bytes.clone(), moved.clone());
        assert_eq!(pieces.size_hint().exact(), Some(200_000));
        let mut seen = Vec::new();
        while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut pieces).poll_frame(cx)).await {
            seen.extend_from_slice(&frame.into_data().unwrap());
            assert_eq!(moved.0.load(Ordering::Relaxed), seen.len() as u64);
        }
        assert!(pieces.is_end_stream() && seen == bytes);
    }
}
