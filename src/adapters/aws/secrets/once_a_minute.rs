//! Reads that cost, made at most once a minute, however many ask.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::SecretError;
use crate::domain::time::Millis;
use crate::ports::clock::Clock;

/// How long what was read is taken for true: each read costs, and a changed secret may take a minute to be seen.
const FRESH: Duration = Duration::from_secs(60);

/// What becomes of a read that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// Whoever asks next tries again.
    TriedAgain,
    /// It is the answer for its minute: strangers can make this process ask as often as they like.
    Counts,
}

/// What was read last.
#[derive(Debug)]
pub(super) struct OnceAMinute<T> {
    clock: Arc<dyn Clock>,
    failed: Failed,
    read: Mutex<Read<T>>,
}

#[derive(Debug)]
struct Read<T> {
    /// The answer, and when it was asked for.
    answer: Option<(Millis, Result<Arc<T>, SecretError>)>,
    /// What was read when it last could be, for telling whether it changed. It is no answer.
    last: Option<Arc<T>>,
}

impl<T> OnceAMinute<T> {
    pub(super) fn new(clock: Arc<dyn Clock>, failed: Failed) -> Self {
        Self { clock, failed, read: Mutex::new(Read { answer: None, last: None }) }
    }

    /// What was read within the last minute, else what `read` brings: one at a time, and whoever comes meanwhile gets the
    /// same answer. The same [`Arc`] as long as `same` finds no change. Nothing older than a minute is used, whatever
    /// becomes of the read. A read that is dropped before it ended counts as one that failed with `unfinished`.
    pub(super) async fn get(
        &self,
        read: impl Future<Output = Result<T, SecretError>>,
        same: impl FnOnce(&T, &T) -> bool,
        unfinished: impl FnOnce() -> SecretError,
    ) -> Result<Arc<T>, SecretError> {
        let mut known = self.read.lock().await;
        let now = self.clock.now();
        if let Some((at, answer)) = &known.answer
            && *at <= now
            && now.since(*at) < FRESH
            && (answer.is_ok() || self.failed == Failed::Counts)
        {
            return answer.clone();
        }
        known.answer = Some((now, Err(unfinished())));
        let answer = read.await.map(|fresh| {
            let unchanged = known.last.as_ref().filter(|last| same(last, &fresh)).map(Arc::clone);
            unchanged.unwrap_or_else(|| Arc::new(fresh))
        });
        if let Ok(fresh) = &answer {
            known.last = Some(Arc::clone(fresh));
        }
        known.answer = Some((now, answer.clone()));
        answer
    }

    /// Has the next one who asks read anew.
    pub(super) async fn forget(&self) {
        self.read.lock().await.answer = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt as _;

    use super::*;
    use crate::ports::testing::TestClock;

    fn busy(why: &str) -> SecretError {
        SecretError::Busy("s".to_owned(), why.to_owned())
    }

    async fn get(
        from: &OnceAMinute<u32>,
        read: impl Future<Output = Result<u32, SecretError>>,
    ) -> Result<u32, SecretError> {
        from.get(read, |one, other| one == other, || busy("unfinished")).await.map(|read| *read)
    }

    #[tokio::test]
    async fn a_minute_has_one_read_and_no_answer_is_older() {
        let clock = Arc::new(TestClock::standing(Millis(0)));
        let reads = AtomicU32::new(0);
        let read = async || Ok(reads.fetch_add(1, Ordering::Relaxed) + 1);
        let kept = OnceAMinute::new(clock.clone(), Failed::Counts);
        let all = futures::future::join_all((0..1000).map(|_| get(&kept, read()))).await;
        assert!(all.into_iter().all(|answer| answer == Ok(1)));
        clock.set(Millis(59_999));
        assert_eq!(get(&kept, read()).await, Ok(1));
        clock.set(Millis(60_000));
        assert_eq!(get(&kept, read()).await, Ok(2));
        // A clock that was set back makes nothing last longer.
        clock.set(Millis(0));
        assert_eq!(get(&kept, read()).await, Ok(3));
        kept.forget().await;
        assert_eq!(get(&kept, read()).await, Ok(4));
    }

    #[tokio::test]
    async fn a_failure_counts_for_its_minute_where_strangers_ask() {
        let clock = Arc::new(TestClock::standing(Millis(0)));
        let kept = OnceAMinute::new(clock.clone(), Failed::Counts);
        assert_eq!(get(&kept, async { Ok(1) }).await, Ok(1));
        clock.advance(FRESH);
        assert_eq!(get(&kept, async { Err(busy("a")) }).await, Err(busy("a")));
        assert_eq!(get(&kept, async { Ok(1) }).await, Err(busy("a")));
        clock.advance(FRESH);
        // Nobody waits for it any more.
        assert!(get(&kept, std::future::pending()).now_or_never().is_none());
        assert_eq!(get(&kept, async { Ok(1) }).await, Err(busy("unfinished")));

        let patient = OnceAMinute::new(clock, Failed::TriedAgain);
        assert_eq!(get(&patient, async { Err(busy("a")) }).await, Err(busy("a")));
        assert_eq!(get(&patient, async { Ok(1) }).await, Ok(1));
    }
}
