//! What to do with an item that is due: one pure function for all duties of a tick (design, section 2).

use super::item::Item;
use super::job::{Fate, Handle, Job, State};
use super::part::Part;
use super::policy::LATER_LOOKS;
use super::time::Millis;

/// What an item asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    Wait,
    /// Its reservation ran out: what became of its create call is unclear.
    TakeOver,
    /// Look for it by its display name among all of Gemini's batch jobs.
    FindByName,
    /// Send the message that stands for this dead letter.
    Tell,
    /// See whether the replay that this dead row is in still goes on.
    Recheck,
    /// Bring a part of a run on: its next attempt, its dead letters.
    BringOn,
    /// Events named handles for it that no look has shown yet: ask Gemini about them. Where there are handles on record to
    /// look at, [`Action::Look`] says both.
    Prove,
    /// It stayed unclear through the grace time: the policy decides.
    EndGrace,
    /// Ask Gemini about these handles.
    Look(Vec<String>),
    /// Gemini has finished: persist the result and hand it on.
    Consume,
    /// Reserve another attempt and send it, as far as the gate allows.
    Submit,
    /// Take the next lines of the intake, as far as the gate and the concurrency allow.
    TakeLines,
}

/// What to do with `item` at `now`.
#[must_use]
pub fn step(item: &Item, now: Millis) -> Action {
    if item.due_at().is_none_or(|due| due > now) {
        return Action::Wait;
    }
    match item {
        Item::Job(job) => step_job(job, now),
        Item::Intake(intake) if intake.state == State::Reading => Action::TakeLines,
        Item::Part(part) => step_part(part, now),
        Item::BadLine(_) | Item::DeadRow(_) | Item::DeadGroup(_) => match item.state() {
            State::Parked => Action::Tell,
            State::Retryable => Action::Recheck,
            _ => Action::Wait,
        },
        Item::Intake(_) | Item::Gate(_) => Action::Wait,
        Item::Event(_) | Item::Stray(_) => Action::Wait,
    }
}

fn step_part(part: &Part, now: Millis) -> Action {
    let leased = part.lease.as_ref().is_some_and(|lease| lease.until > now);
    match part.state {
        State::Waiting | State::UnderWay if !leased => Action::BringOn,
        _ => Action::Wait,
    }
}

fn step_job(job: &Job, now: Millis) -> Action {
    let leased = job.lease.as_ref().is_some_and(|lease| lease.until > now);
    match job.state {
        // A batch attempt that waits to be sent is leased while its rows are uploaded.
        State::Reserving | State::Done | State::Retryable if leased => Action::Wait,
        State::Reserving => Action::TakeOver,
        // Before anything else: it may be the very thing that the job waits for, or is about to pay for again.
        State::Unclear | State::Retryable | State::GivenUp if !job.heard.is_empty() => Action::Prove,
        State::Unclear if job.batch.is_some() => Action::FindByName,
        State::Unclear => Action::EndGrace,
        State::GivenUp if job.batch.is_some() && job.handles.is_empty() => Action::FindByName,
        State::GivenUp if job.batch.is_some() => look(job, now),
        State::Parked if job.letter.is_due(job.since, now) => Action::Tell,
        State::Submitted | State::Parked => match look(job, now) {
            Action::Wait if !job.heard.is_empty() => Action::Prove,
            action => action,
        },
        State::Done => Action::Consume,
        State::Retryable | State::GivenUp => Action::Submit,
        State::Consumed | State::Recovered | State::Discarded | State::Reading | State::Read | State::Gate => {
            Action::Wait
        }
        State::Waiting | State::UnderWay | State::Settled => Action::Wait,
        State::Taken | State::Handled | State::Unmatched => Action::Wait,
    }
}

/// The handles to ask about: those that may still finish, and given-up ones whose later look is due.
fn look(job: &Job, now: Millis) -> Action {
    let due = |handle: &&Handle| match handle.fate {
        Fate::Live => true,
        Fate::GivenUp => later_look(handle).is_some_and(|at| at <= now),
        Fate::Won | Fate::Ended => false,
    };
    let handles: Vec<String> = job.handles.iter().filter(due).map(|handle| handle.id.clone()).collect();
    if handles.is_empty() { Action::Wait } else { Action::Look(handles) }
}

/// When a given-up handle is next looked at: 24 h and 48 h after it was given up, then never.
#[must_use]
pub fn later_look(handle: &Handle) -> Option<Millis> {
    let given_up = handle.given_up_at?;
    let made = usize::try_from(handle.looks).ok()?;
    LATER_LOOKS.get(made).map(|after| given_up.plus(*after))
}

#[cfg(test)]
mod tests;
