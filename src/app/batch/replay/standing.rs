//! Whether dead rows may go out again: only when no attempt that had them can bring anything any more. Else a late result
//! and that of the replay would give a key twice.

use std::collections::HashMap;

use crate::app::batch::items;
use crate::app::batch::look::{Seen, look, look_at};
use crate::app::batch::part::{Out, bring_on};
use crate::app::engine::{Engine, Trouble};
use crate::domain::item::{Item, ItemId};
use crate::domain::job::{Fate, Job, State};
use crate::domain::part::{Part, PartId, Passed, attempt_key};

/// How the attempts stand that had the rows which died in one of them.
#[derive(Debug, Clone)]
pub(super) enum Standing {
    /// All are over.
    Over {
        /// Whether the last of them may have been paid for, without anybody having seen its end.
        maybe_paid: bool,
    },
    /// One of them may still bring something, in words for a person.
    Open(String),
}

/// Standings that were found before, by part and attempt.
#[derive(Debug, Default)]
pub(super) struct Standings(HashMap<(String, PartId, u32), Standing>);

impl Standings {
    /// How the attempts stand that had rows which died in that attempt of that part: it and those before it, and those of
    /// what the part was halved from. Handles of open ones are looked at once more first.
    ///
    /// # Errors
    /// Trouble with the ledger or the objects; a key that Gemini refuses.
    pub async fn of(&mut self, engine: &Engine, run: &str, part: &PartId, attempt: u32) -> Result<Standing, Trouble> {
        let name = (run.to_owned(), part.clone(), attempt);
        if let Some(known) = self.0.get(&name) {
            return Ok(known.clone());
        }
        let standing = standing(engine, run, part, attempt).await?;
        self.0.insert(name, standing.clone());
        Ok(standing)
    }
}

async fn standing(engine: &Engine, run: &str, part: &PartId, attempt: u32) -> Result<Standing, Trouble> {
    let mut keys = Vec::new();
    for whole in part.wholes() {
        let attempts = items::part(engine, run, &whole).await?.attempts;
        let had = attempts.iter().filter(|sending| whole != *part || sending.number <= attempt);
        keys.extend(had.map(|sending| ItemId::job(&attempt_key(run, &whole, sending.number))));
    }
    for job in jobs(engine, &keys).await?.into_iter().filter(|job| !job.state.is_closed()) {
        look_once_more(engine, &job).await?;
    }
    let jobs = jobs(engine, &keys).await?;
    // Read after the jobs: whatever those brought that are closed is on the parts by now. It must be told before anything
    // goes out again.
    for whole in part.wholes() {
        let Some(whole) = told(engine, run, &whole).await? else {
            return Ok(Standing::Open(format!("what came of part {whole} is just being written down; try again soon")));
        };
        let of_it = |job: &&Job| job.batch.as_ref().is_some_and(|attempt| attempt.part == whole.part);
        // One whose output is taken brings no other, though it could not be handed on, say.
        let is_open = |job: &&Job| {
            let taken = job.batch.as_ref().is_some_and(|attempt| whole.has_taken(attempt.number));
            !job.state.is_closed() && !taken
        };
        if let Some(open) = jobs.iter().filter(of_it).find(is_open) {
            return Ok(Standing::Open(why(open)));
        }
    }
    let died_in = attempt_key(run, part, attempt);
    let died_in = jobs.iter().find(|job| job.key == died_in);
    let maybe_paid = died_in.is_some_and(|job| {
        let calls = job.batch.as_ref().and_then(|attempt| attempt.calls);
        let given_up = job.handles.iter().any(|handle| handle.fate == Fate::GivenUp);
        job.maybe_accepted || given_up || calls.is_some_and(|calls| calls.in_doubt > 0)
    });
    Ok(Standing::Over { maybe_paid })
}

async fn jobs(engine: &Engine, keys: &[ItemId]) -> Result<Vec<Job>, Trouble> {
    let found = engine.ledger.get_many(keys).await?.into_iter();
    Ok(found
        .filter_map(|item| match item {
            Item::Job(job) => Some(job),
            _ => None,
        })
        .collect())
}

/// Takes what an open attempt has brought meanwhile. That there is nothing counts as none of its later looks.
async fn look_once_more(engine: &Engine, job: &Job) -> Result<(), Trouble> {
    if !matches!(job.state, State::GivenUp | State::Parked) {
        return Ok(());
    }
    for handle in job.handles.iter().filter(|handle| matches!(handle.fate, Fate::Live | Fate::GivenUp)) {
        match look_at(engine, job, handle).await {
            Seen::Rejected(message) => return Err(Trouble::NeedsPerson(message)),
            Seen::Output(_) => return look(engine, job, std::slice::from_ref(&handle.id)).await.map(drop),
            Seen::Failed(..) if job.state == State::GivenUp => {
                return look(engine, job, std::slice::from_ref(&handle.id)).await.map(drop);
            }
            _ => {}
        }
    }
    Ok(())
}

/// A part whose dead letters are made and settled, those of a late result that came just now included. None: somebody else
/// is at that.
async fn told(engine: &Engine, run: &str, id: &PartId) -> Result<Option<Part>, Trouble> {
    let is_told = |part: &Part| part.passes.iter().all(Passed::is_told);
    let part = items::part(engine, run, id).await?;
    if is_told(&part) {
        return Ok(Some(part));
    }
    if part.lease.as_ref().is_none_or(|lease| lease.until <= engine.clock.now()) {
        bring_on(engine, part, &mut Out::default()).await?;
    }
    Ok(Some(items::part(engine, run, id).await?).filter(is_told))
}

fn why(job: &Job) -> String {
    let of = job
        .batch
        .as_ref()
        .map_or_else(String::new, |attempt| format!("attempt {} of part {}", attempt.number, attempt.part));
    match (job.state, job.due_at) {
        (State::GivenUp, Some(due)) => format!(
            "{of} was given up and may still bring its result; it is looked at again at {due}. Replay it after that"
        ),
        (State::Parked, _) => format!(
            "{of} is a dead letter itself ({}), and may still bring its result: replay or discard that one first",
            job.key
        ),
        (State::Done, _) => format!("the outcome of {of} is just being taken; try again soon"),
        _ => format!("{of}, which has this row, is still under way"),
    }
}
