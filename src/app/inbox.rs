//! Emptying the inbox: each file is landed and then removed, by its version; one that can't be used is put aside with
//! the reason.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tracing::{error, info, warn};

use super::engine::{Engine, Trouble};
use super::land::source::{Arrived, Source};
use super::land::{LandError, Landed, digest, land_from};
use super::work::{Work, hand_over};
use crate::domain::time::Millis;
use crate::ports::inbox::{Arrival, Inbox};
use crate::ports::objects::ObjectError;

/// How many files one tick looks at.
const FILES: usize = 100;

/// A file longer than this is landed by whoever works the queue: it may take longer than a tick has.
const LONG: u64 = 32 << 20;

/// How long a file that was handed over is left to whoever works the queue: the longest that one of them may take, and
/// some time in the queue.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Long files that this process has handed over lately, so that it doesn't hand them over again with each tick while
/// somebody lands them. Another process may: the same file twice lands as the same intake.
#[derive(Debug, Default)]
pub struct HandedOver(Mutex<HashMap<Arrival, Millis>>);

impl HandedOver {
    /// Whether `arrival` is to be handed over now. Those that are no longer in the inbox are forgotten with time.
    fn is_time(&self, arrival: &Arrival, now: Millis) -> bool {
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lately.retain(|_, at| now.since(*at) < PATIENCE);
        !lately.contains_key(arrival)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn remember(&self, arrival: &Arrival, now: Millis) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(arrival.clone(), now);
    }
}

/// What became of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Emptied {
    /// Landed and removed.
    pub landed: u64,
    /// Not usable: put aside with the reason.
    pub refused: u64,
    /// Long ones, handed over to the work queue.
    pub handed_over: u64,
}

impl AddAssign for Emptied {
    fn add_assign(&mut self, other: Self) {
        self.landed += other.landed;
        self.refused += other.refused;
        self.handed_over += other.handed_over;
    }
}

/// Lands what lies in the inbox, until `until`. The rest, and what met trouble, stays where it is for the next tick.
/// Returns what became of the files, and the first trouble, after every other file got its turn.
pub async fn empty(
    engine: &Engine,
    inbox: &dyn Inbox,
    handed_over: &HandedOver,
    until: Millis,
) -> (Emptied, Option<Trouble>) {
    let (mut all, mut trouble) = (Emptied::default(), None);
    // Those that somebody else lands already hide no others.
    let listed = match inbox.list(FILES.saturating_add(handed_over.count())).await {
        Ok(listed) => listed,
        Err(error) => return (all, Some(error.into())),
    };
    for arrival in listed {
        if engine.is_stopping() || engine.clock.now() >= until {
            break;
        }
        match take(engine, inbox, handed_over, &arrival).await {
            Ok(outcome) => all += outcome,
            Err(stop) => {
                warn!(file = arrival.name, error = %stop, "the file stays in the inbox for now");
                trouble.get_or_insert(stop);
            }
        }
    }
    (all, trouble)
}

async fn take(
    engine: &Engine,
    inbox: &dyn Inbox,
    handed_over: &HandedOver,
    arrival: &Arrival,
) -> Result<Emptied, Trouble> {
    if arrival.bytes <= LONG || engine.work_queue.is_none() {
        return land_arrival(engine, inbox, arrival).await;
    }
    if !handed_over.is_time(arrival, engine.clock.now()) {
        return Ok(Emptied::default());
    }
    hand_over(engine, &Work::Inbox(arrival.clone())).await?;
    handed_over.remember(arrival, engine.clock.now());
    Ok(Emptied { handed_over: 1, ..Emptied::default() })
}

/// Lands one file and removes it. One that is gone was landed by somebody else, who removed it.
///
/// # Errors
/// Trouble; the file stays where it is. A crash before the end does no harm: the same file lands as the same intake.
pub async fn land_arrival(engine: &Engine, inbox: &dyn Inbox, arrival: &Arrival) -> Result<Emptied, Trouble> {
    let source = Arrived { inbox, arrival };
    let outcome = match land_from(engine, &source, None).await {
        Ok(landed) => {
            tell(&source, &landed);
            Emptied { landed: 1, ..Emptied::default() }
        }
        Err(LandError::Unusable(why)) => {
            put_aside(engine, &source, &why).await?;
            Emptied { refused: 1, ..Emptied::default() }
        }
        Err(LandError::Gone) => {
            info!(file = arrival.name, "somebody else has landed it already");
            return Ok(Emptied::default());
        }
        Err(LandError::Trouble(trouble)) => return Err(trouble),
    };
    inbox.remove(arrival).await?;
    Ok(outcome)
}

/// What a landing found, in the log.
pub fn tell(source: &dyn Source, landed: &Landed) {
    let intake = &landed.intake;
    info!(
        file = intake.file,
        intake.sha256 = intake.sha256,
        intake.lines = intake.lines,
        intake.bad_lines = landed.bad_lines,
        intake.before = landed.before,
        "landed"
    );
    for bad in &landed.bad {
        warn!(file = intake.file, "bad line, kept as a dead letter: {bad}");
    }
    let untold = landed.bad_lines.saturating_sub(landed.bad.len() as u64);
    if untold > 0 {
        warn!(file = intake.file, "and {untold} more bad lines");
    }
    if landed.begins_badly {
        warn!(file = intake.file, "{}: each line must be one whole JSON object", source.shown());
    }
    if !landed.unsent.is_empty() {
        let fields: Vec<&str> = landed.unsent.iter().map(String::as_str).collect();
        info!(file = intake.file, "kept, part of each job's key, and not sent to Gemini: {}", fields.join(", "));
    }
}

/// The reason beside a file that was put aside.
#[derive(Debug, Serialize)]
struct Refusal<'a> {
    file: String,
    sha256: &'a str,
    reason: &'a str,
    at: String,
}

/// Keeps what can't be used as `refused/<sha256>.jsonl`, with the reason in a `.json` beside it, for a person.
async fn put_aside(engine: &Engine, source: &Arrived<'_>, why: &str) -> Result<(), Trouble> {
    let trouble = |error: LandError| match error {
        LandError::Trouble(trouble) => trouble,
        LandError::Gone | LandError::Unusable(_) => Trouble::Passing(error.to_string()),
    };
    let sha256 = digest(source).await.map_err(trouble)?.sha256;
    let mut reader = source.open().await.map_err(trouble)?;
    let kept = format!("refused/{sha256}.jsonl");
    engine.objects.put_stream(&kept, &mut reader).await?;
    let refusal = Refusal { file: source.shown(), sha256: &sha256, reason: why, at: engine.clock.now().to_string() };
    let text = serde_json::to_vec(&refusal).map_err(|error| Trouble::Passing(error.to_string()))?;
    // Each version of each file that was refused has a reason of its own, although two may hold the same bytes.
    let arrival = hex::encode(Sha256::digest(format!("{}\n{}", source.arrival.name, source.arrival.version)));
    let reason = format!("refused/{sha256}.{}.json", arrival.get(..12).unwrap_or_default());
    engine.objects.put(&reason, Bytes::from(text)).await?;
    error!(file = source.arrival.name, kept, "refused: {why}");
    Ok(())
}

impl From<ObjectError> for LandError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::NotFound(_) => Self::Gone,
            other => Self::Trouble(other.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_left_to_the_worker_for_a_while_and_each_version_by_itself() {
        let arrival = |version: &str| Arrival { name: "a".to_owned(), version: version.to_owned(), bytes: LONG + 1 };
        let (lately, now) = (HandedOver::default(), Millis(1_000_000));
        assert!(lately.is_time(&arrival("1"), now));
        lately.remember(&arrival("1"), now);
        assert!(!lately.is_time(&arrival("1"), now.plus(PATIENCE / 2)));
        assert!(lately.is_time(&arrival("2"), now.plus(PATIENCE / 2)));
        assert!(lately.is_time(&arrival("1"), now.plus(PATIENCE)));
        assert!(lately.0.lock().unwrap().is_empty(), "what is long over is forgotten");
    }
}
