//! The table `jobs`: background interactions.

use std::path::Path;

use futures::{StreamExt, TryStreamExt, stream};
use tracing::info;

use super::prepare::JOBS;
use super::{ImportError, Outcomes, stored, then};
use crate::app::engine::{Engine, Trouble};
use crate::domain::item::Item;
use crate::domain::job::{Fate, Handle, InputRef, Job, JobKey, Mode, State, Work};
use crate::domain::moves::{NO_PAYLOAD, Now, fresh_handle};
use crate::ports::ledger::CreateError;
use crate::ports::seed::SeedJob;

/// The class of a job that the script had seen to fail.
const FAILED: &str = "import:failed";

/// The same in words: the script kept no error.
const WHY_FAILED: &str = "the script saw it fail, and kept neither the error nor the payload: hand in the file with its \
                          line, and it can be replayed";

/// The class of a job that the script had consumed.
const CONSUMED: &str = "import:consumed";

/// Items that are made at once, at least: they share the ledger's writes.
const AT_ONCE: usize = 64;

pub(super) async fn import(
    engine: &Engine,
    jobs: &[(SeedJob, InputRef)],
    scratch: &Path,
) -> Result<Outcomes, ImportError> {
    if jobs.is_empty() {
        return Ok(Outcomes::new());
    }
    let (sha256, _) = stored(engine, &scratch.join(JOBS)).await?;
    let outcomes = stream::iter(jobs)
        .map(|(seed, place)| take(engine, seed, InputRef { intake: sha256.clone(), ..place.clone() }))
        .buffer_unordered(engine.settings.concurrency.max(AT_ONCE));
    let count = |mut all: Outcomes, outcome: &'static str| async move {
        *all.entry(outcome).or_default() += 1;
        Ok(all)
    };
    Ok(outcomes.try_fold(Outcomes::new(), count).await?)
}

/// Creates a job's item, unless one of its key is there.
async fn take(engine: &Engine, seed: &SeedJob, input: InputRef) -> Result<&'static str, Trouble> {
    let (job, outcome) = job(engine, seed, input);
    match engine.create(&Item::Job(job)).await {
        Ok(()) => Ok(outcome),
        Err(CreateError::Exists(found)) => match *found {
            Item::Job(found) => again(engine, seed, found).await.map(|()| "before"),
            other => Err(Trouble::NeedsPerson(format!("the ledger item {} is no job", other.id()))),
        },
        Err(CreateError::Ledger(error)) => Err(error.into()),
    }
}

fn is_open(seed: &SeedJob) -> bool {
    matches!(seed.status.as_str(), "submitted" | "done")
}

/// The job, and what it is told as.
fn job(engine: &Engine, seed: &SeedJob, input: InputRef) -> (Job, &'static str) {
    let now = engine.now();
    let settings = &engine.settings;
    let work = Work {
        key: JobKey(seed.idem.clone()),
        input,
        content: String::new(),
        mode: Mode::Interaction,
        model: settings.model.clone(),
        // It can't be sent again before its line is there.
        max_attempts: 1,
        deadline_s: settings.deadline.as_secs().max(1),
    };
    let mut job = Job::planned(work, engine.rev(), now.at);
    job.attempts = 1;
    let changed = then(now, seed.updated_at.or(seed.submitted_at));
    let fate = match seed.status.as_str() {
        "consumed" => Fate::Won,
        "failed" => Fate::Ended,
        _ => Fate::Live,
    };
    job.handles.extend(handle(engine, seed, &job, fate));
    let outcome = match seed.status.as_str() {
        "consumed" => {
            let why = "the script had consumed it: its result is where the script put it, and none is here";
            job.blame(CONSUMED, why);
            job.enter(State::Consumed, None, changed.at);
            "consumed"
        }
        "failed" => {
            job.park(FAILED, WHY_FAILED, changed);
            "failed"
        }
        _ if is_open(seed) && job.has_live_handle() => {
            job.enter(State::Submitted, Some(now.at), then(now, seed.submitted_at.or(seed.updated_at)).at);
            "submitted"
        }
        _ => {
            job.wait_for_line(changed);
            "no_payload"
        }
    };
    (job, outcome)
}

/// Its handle, by the API key that is at hand: nobody knows which one made it.
fn handle(engine: &Engine, seed: &SeedJob, job: &Job, fate: Fate) -> Option<Handle> {
    let now = engine.now();
    let at = then(now, seed.submitted_at.or(seed.updated_at)).at;
    let key = engine.gemini.creates_as().clone();
    let mut handle = fresh_handle(seed.handle.clone()?, 1, key, job.deadline(), at);
    // One that would be given up by now is given the same time again: it is looked at once in any case.
    if handle.deadline <= now.at {
        handle.deadline = now.at.plus(job.deadline());
    }
    handle.fate = fate;
    Some(handle)
}

/// The job is here already, and what has become of it here stays. What the script has done since it was taken over counts
/// besides: a handle is paid for, and what it has consumed is not consumed again.
async fn again(engine: &Engine, seed: &SeedJob, found: Job) -> Result<(), Trouble> {
    let fresh = handle(engine, seed, &found, Fate::Live).filter(|_| is_open(seed));
    let change = |job: &mut Job, now: Now<'_>| {
        let waits = job.state == State::Submitted || job.class.as_deref() == Some(NO_PAYLOAD);
        if seed.status == "consumed" && job.has_no_line() && waits {
            job.blame(CONSUMED, "the script has consumed it since it was taken over");
            job.enter(State::Consumed, None, now.at);
            return true;
        }
        let Some(fresh) = fresh.clone() else { return false };
        let attached = job.attach(fresh, "", now);
        if attached && job.attempts <= 1 {
            // It is of the very create that was in doubt.
            job.maybe_accepted = false;
        }
        attached
    };
    let before = found.rev.clone();
    let stored = engine.settle(found, change).await?;
    if stored.rev != before {
        info!(job.key = %stored.key, job.state = %stored.state, "the script has gone on with it since it was taken over");
    }
    Ok(())
}
