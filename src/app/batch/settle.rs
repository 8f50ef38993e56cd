//! Taking the outcome of an attempt: Gemini's raw output is brought down and stored, a pass is made over it, and counts
//! once one conditional write has put it on the part.
//!
//! What a pass is to be made of is written on the part before it begins. So there is one pass of a part at a time, two
//! workers make the same files, and an object under `results/` never turns out not to count.

use tracing::{error, info, warn};

use super::files::{NoOutput, alike, bring_down, delete_input};
use super::items::{self, attempt_of};
use super::pass::{Made, make};
use crate::app::engine::{Engine, Trouble};
use crate::domain::intake::{Intake, Run};
use crate::domain::job::{Fate, Job, JobKey, State};
use crate::domain::part::{Attempt, FREE_ATTEMPTS, File, Intent, Part, Passed};
use crate::domain::pass::Blame;
use crate::ports::handover::HandoverError;

/// How often an output is brought down at one try, where it comes short.
const DOWNLOADS: u32 = 3;

/// Why an outcome could not be taken now.
#[derive(Debug)]
struct Failure {
    why: String,
    /// Whether it uses a try up.
    charged: bool,
    /// The machine's or the operator's matter: it is told to the caller.
    trouble: Option<Trouble>,
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        let stops = matches!(trouble, Trouble::NeedsPerson(_));
        Self { why: trouble.to_string(), charged: false, trouble: stops.then_some(trouble) }
    }
}

impl From<crate::ports::objects::ObjectError> for Failure {
    fn from(error: crate::ports::objects::ObjectError) -> Self {
        Trouble::from(error).into()
    }
}

impl From<NoOutput> for Failure {
    fn from(error: NoOutput) -> Self {
        match error {
            NoOutput::Refused(why) => Self { why, charged: true, trouble: None },
            NoOutput::Passing(why) => Self { why, charged: false, trouble: None },
            NoOutput::Trouble(trouble) => trouble.into(),
        }
    }
}

/// Takes the outcome of an attempt that is `done`, under a lease. True: it is taken and handed on, and the attempt is
/// closed.
///
/// # Errors
/// Trouble that is not this attempt's own; it stays `done` and is taken up again.
pub async fn take(engine: &Engine, job: &Job) -> Result<bool, Trouble> {
    let holder = engine.ids.token();
    let mut taken = false;
    let Some(job) = engine.change(job, |job, now| taken = job.consume_again(&holder, now)).await? else {
        return Ok(false);
    };
    if !taken {
        warn!(job.key = %job.key, job.class = job.class, "its output could not be taken in five tries: parked");
        super::part::look_soon(engine, attempt_of(&job)?).await?;
        return Ok(false);
    }
    let (job, outcome) = engine.hold(job.clone(), take_outcome(engine, &job)).await;
    let mine = |job: &Job| job.state == State::Done && job.lease.as_ref().is_some_and(|lease| lease.holder == holder);
    match outcome {
        Ok(answer) => {
            let job = engine.settle(job, |job, now| mine(job) && job.outcome_taken(answer.clone(), now)).await?;
            info!(job.key = %job.key, job.state = %job.state, "its outcome is taken");
            Ok(true)
        }
        Err(failure) => {
            warn!(job.key = %job.key, job.tries = job.consume_tries, error = failure.why, "its outcome could not be taken");
            let job = engine
                .settle(job, |job, now| {
                    let mine = mine(job);
                    if mine {
                        job.consume_failed(&failure.why, failure.charged, now);
                    }
                    mine
                })
                .await?;
            if job.state == State::Parked {
                super::part::look_soon(engine, attempt_of(&job)?).await?;
            }
            failure.trouble.map_or(Ok(false), Err)
        }
    }
}

/// The object that the pass was made over.
async fn take_outcome(engine: &Engine, job: &Job) -> Result<Option<String>, Failure> {
    let attempt = attempt_of(job)?;
    let answer = count(engine, job, attempt).await?;
    hand_on(engine, &job.key, attempt).await?;
    delete_input(engine, job, true).await;
    Ok(answer)
}

/// Makes the pass, and has it count. The object it was made over; none when it counted before.
async fn count(engine: &Engine, job: &Job, attempt: &Attempt) -> Result<Option<String>, Failure> {
    let mut downloads = 0;
    loop {
        let part = items::part(engine, &attempt.run, &attempt.part).await?;
        if part.has_taken(attempt.number) {
            return Ok(None);
        }
        let (intake, run) = items::run_of(engine, &part.intake).await?;
        let Some((part, intent)) = intend(engine, job, attempt, part, &run).await? else { continue };
        let expect = items::expect_of(engine, &intake.sha256).await?;
        match make(engine, &part, &intent, expect).await? {
            Made::Passed(passed) => {
                if add(engine, &part, *passed, job).await? {
                    return Ok(intent.output);
                }
            }
            Made::TooFew(outcomes) => {
                downloads += 1;
                let short = format!("its output has {outcomes} outcomes of the {} announced", intent.announced);
                if downloads >= DOWNLOADS {
                    let why = format!("{short}, and comes down differently each time");
                    return Err(Failure { why, charged: true, trouble: None });
                }
                warn!(job.key = %job.key, "{short}; bringing it down again");
                once_more(engine, job, &part, intent).await?;
            }
        }
    }
}

/// The part with the intent of this attempt's pass on it. None: somebody else changed the part first.
async fn intend(
    engine: &Engine,
    job: &Job,
    attempt: &Attempt,
    part: Part,
    run: &Run,
) -> Result<Option<(Part, Intent)>, Failure> {
    if let Some(intent) = part.intent.clone() {
        if intent.attempt == attempt.number && intent.output.is_some() {
            return Ok(Some((part, intent)));
        }
        let why = format!("another pass of part {} is under way, that of attempt {}", part.part, intent.attempt);
        return Err(Failure { why, charged: false, trouble: None });
    }
    let Some(sending) = part.attempt(attempt.number) else {
        let why = format!("part {} doesn't know of it yet", part.part);
        return Err(Failure { why, charged: false, trouble: None });
    };
    let won = job.handles.iter().find(|handle| handle.fate == Fate::Won);
    let late = !part.has_rows_of(attempt.number);
    let missing = Blame::missing();
    let intent = match (won, &attempt.output) {
        (Some(handle), Some(output)) => Intent {
            attempt: attempt.number,
            output: Some(bring_down(engine, job, &handle.id, 1).await?),
            download: 1,
            late,
            blame: match &output.ended {
                Some(class) => (class.clone(), format!("{}; Gemini's job ended without it", missing.message)),
                None => (missing.class, missing.message),
            },
            announced: output.announced,
            last: sending.tries >= run.max_attempts.saturating_add(part.granted),
        },
        // The answers of its calls, brought together here.
        _ if attempt.calls.is_some() => Intent {
            attempt: attempt.number,
            output: job.answer.clone(),
            download: 0,
            late,
            blame: (missing.class, missing.message),
            announced: 0,
            last: sending.tries >= run.max_attempts.saturating_add(part.granted),
        },
        _ => Intent {
            attempt: attempt.number,
            output: job.answer.clone(),
            download: 0,
            late,
            blame: ("beside_refused".to_owned(), "sent with rows that Gemini refused".to_owned()),
            announced: 0,
            // It was not created, so nothing of it was tried.
            last: false,
        },
    };
    if intent.output.is_none() {
        return Err(Trouble::NeedsPerson(format!("the attempt {} is done, and has no output", job.key)).into());
    }
    let mut next = part.clone();
    next.intent = Some(intent.clone());
    Ok(items::replace(engine, &part, next).await?.map(|part| (part, intent)))
}

/// Brings the output down once more. The same bytes again are believed; others are taken in their place.
async fn once_more(engine: &Engine, job: &Job, part: &Part, intent: Intent) -> Result<(), Failure> {
    let (Some(output), Some(won)) = (&intent.output, job.handles.iter().find(|handle| handle.fate == Fate::Won)) else {
        return Ok(());
    };
    let download = intent.download + 1;
    let again = bring_down(engine, job, &won.id, download).await?;
    let next = if alike(&engine.objects, output, &again).await? {
        Intent { announced: 0, ..intent }
    } else {
        Intent { output: Some(again), download, ..intent }
    };
    let mut changed = part.clone();
    changed.intent = Some(next);
    // Whoever was faster has done the same.
    drop(items::replace(engine, part, changed).await?);
    Ok(())
}

/// Puts a pass on its part. False: somebody else changed the part first.
async fn add(engine: &Engine, part: &Part, passed: Passed, job: &Job) -> Result<bool, Trouble> {
    let now = engine.clock.now();
    let counts = passed.counts;
    if counts.unknown + counts.unreadable + counts.duplicates > 0 {
        warn!(job.key = %job.key, output.unknown_keys = counts.unknown, output.unreadable = counts.unreadable,
            output.repeated = counts.duplicates, "its output has lines that are no row's; the raw output is kept");
    }
    let mut next = part.clone();
    next.intent = None;
    let by_call = job.batch.as_ref().is_some_and(|attempt| attempt.calls.is_some());
    let refused = !by_call && job.handles.iter().all(|handle| handle.fate != Fate::Won);
    if let Some(sending) = next.attempts.iter_mut().find(|sending| sending.number == passed.attempt) {
        sending.free |= refused;
    }
    let free = next.attempts.iter().filter(|sending| sending.free).count();
    if refused && free.is_multiple_of(FREE_ATTEMPTS) {
        let class = job.class.clone().unwrap_or_default();
        let message = job.message.clone().unwrap_or_default();
        super::hold::hold(engine, &part.intake, &class, &message).await?;
        error!(run = part.run, part = %part.part, refusals = free, "Gemini refuses one line after the other: the run waits for a person");
    }
    if next.state == State::Discarded {
        // They were given up with their run, and have come all the same.
        next.discarded = next.discarded.saturating_sub(counts.succeeded - counts.recovered.min(counts.succeeded));
    }
    next.passes.push(passed);
    if !next.state.is_closed() || !next.passes.iter().all(Passed::is_told) {
        next.enter(State::Waiting, Some(now), now);
    }
    let written = items::replace(engine, part, next).await?.is_some();
    if written {
        info!(run = part.run, part = %part.part, job.key = %job.key, rows.succeeded = counts.succeeded,
            rows.retry = counts.retry, rows.dead = counts.dead, rows.settled_before = counts.settled_before, "counted");
    }
    Ok(written)
}

/// Hands the results of an attempt on, to the command that its run names.
async fn hand_on(engine: &Engine, key: &JobKey, attempt: &Attempt) -> Result<(), Failure> {
    let part = items::part(engine, &attempt.run, &attempt.part).await?;
    let passes = part.passes.iter().filter(|passed| passed.attempt == attempt.number && passed.counts.succeeded > 0);
    let receiver = receiver(engine, &part.intake).await?;
    for passed in passes {
        let object = passed.object(&part.run, &part.part, File::Results);
        match engine.handover.hand_on(key, receiver.as_deref(), &object).await {
            Ok(()) => {}
            Err(HandoverError::Refused(why)) => return Err(Failure { why, charged: true, trouble: None }),
            Err(error @ HandoverError::NeedsPerson(_)) => return Err(Trouble::NeedsPerson(error.to_string()).into()),
        }
    }
    Ok(())
}

async fn receiver(engine: &Engine, sha256: &str) -> Result<Option<String>, Trouble> {
    let (Intake { on_result, .. }, _) = items::run_of(engine, sha256).await?;
    Ok(on_result)
}
