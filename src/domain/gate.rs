//! The gate: per API key, model and mode, until when no new work is submitted (design, section 2).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::classify::{Judgement, Verdict};
use super::job::{CLASS_BYTES, KeyId, Lease, MESSAGE_BYTES, Mode, Rev, clip};
use super::moves::{Now, named_time};
use super::time::Millis;

/// The name of the gate that a person closes for everything.
pub const EVERYTHING: &str = "everything";

/// A gate. Collection goes on whatever it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// `<key id>/<mode>/<model>`, or [`EVERYTHING`].
    pub name: String,
    /// This version of the item.
    pub rev: Rev,
    /// When it was last changed.
    pub since: Millis,
    /// Closed until then; afterwards one probe may go through. None: open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// Refusals in a row that named no delay of their own: the default delay grows with them.
    #[serde(default)]
    pub refusals: u32,
    /// Creates in a row that stayed unclear.
    #[serde(default)]
    pub unclear: u32,
    /// Why it was closed: a class such as `queue:429`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Gemini's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether only a person can mend the reason (a rejected key, billing).
    #[serde(default)]
    pub needs_person: bool,
    /// Who is probing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Lease>,
    /// A person's pause, with its reason. No expiry lifts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
}

/// How soon to ask again while somebody probes.
const PROBE_WAIT: Duration = Duration::from_secs(2);

/// The shortest closing, unless the default is shorter still: an answer that names no time at all to wait must not
/// make a loop of probes.
const SHORTEST_CLOSING: Duration = Duration::from_secs(1);

/// What a gate answers to somebody who wants to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Submit.
    Open,
    /// Its time is over: one may try, after claiming the probe.
    MayProbe,
    /// Closed until then at least, or until a person opens it.
    Closed(Option<Millis>),
}

impl Gate {
    /// An open gate that nobody has written yet.
    #[must_use]
    pub fn open(name: String, rev: Rev, now: Millis) -> Self {
        Self {
            name,
            rev,
            since: now,
            until: None,
            refusals: 0,
            unclear: 0,
            class: None,
            message: None,
            needs_person: false,
            probe: None,
            paused: None,
        }
    }

    /// Whether somebody may submit at `now`.
    #[must_use]
    pub fn ask(&self, now: Millis) -> Answer {
        let probing = self.probe.as_ref().filter(|probe| probe.until > now);
        match (&self.paused, self.until, probing) {
            (Some(_), _, _) => Answer::Closed(None),
            (None, None, _) => Answer::Open,
            (None, Some(until), _) if until > now => Answer::Closed(Some(until)),
            // A probe is answered within seconds: worth asking again soon.
            (None, Some(_), Some(probe)) => Answer::Closed(Some(probe.until.min(now.plus(PROBE_WAIT)))),
            (None, Some(_), None) => Answer::MayProbe,
        }
    }

    /// Takes the probe: until its lease ends nobody else may try.
    pub fn claim_probe(&mut self, holder: &str, now: Now<'_>) {
        let until = now.policy.lease_from(now.at);
        self.probe = Some(Lease { holder: holder.to_owned(), until });
    }

    /// Gives the probe back when it told nothing: the next one may try at once.
    pub fn drop_probe(&mut self, holder: &str) {
        if self.probe.as_ref().is_some_and(|probe| probe.holder == holder) {
            self.probe = None;
        }
    }

    /// A create was refused for the whole queue: closed until the named time, or for a default that doubles with
    /// each refusal in a row that named none; never earlier than it already was. Class and message stay those of the
    /// refusal that said until when.
    pub fn close(&mut self, judgement: &Judgement, message: &str, now: Now<'_>) {
        // Refusals of calls that were under way together are one refusal in a row, not many.
        let closed_before = self.until.is_some_and(|old| old > now.at);
        let until = if let Some(named) = named_time(judgement.delay, now.at) {
            named.max(now.at.plus(now.policy.gate_wait.min(SHORTEST_CLOSING)))
        } else {
            if !closed_before {
                self.refusals = self.refusals.saturating_add(1);
            }
            now.at.plus(now.policy.gate_closes(self.refusals.saturating_sub(1)))
        };
        let extends = self.until.is_none_or(|old| old < until);
        if extends {
            self.until = Some(until);
        }
        self.probe = None;
        self.since = now.at;
        // What only a person can mend is not covered up by a passing refusal that came with it.
        let needs_person = judgement.verdict == Verdict::Operator;
        let is_covered = closed_before && (self.needs_person || !extends);
        if needs_person || !is_covered {
            self.class = Some(clip(&judgement.class, CLASS_BYTES));
            self.message = Some(clip(message, MESSAGE_BYTES));
            self.needs_person = needs_person;
        }
    }

    /// A create was answered otherwise: open. A person's pause stays.
    pub fn reopen(&mut self, now: Millis) {
        self.until = None;
        self.refusals = 0;
        self.unclear = 0;
        self.probe = None;
        self.class = None;
        self.message = None;
        self.needs_person = false;
        self.since = now;
    }
}

/// The name of the gate of a key, mode and model.
#[must_use]
pub fn name(key: &KeyId, mode: Mode, model: &str) -> String {
    format!("{key}/{}/{model}", mode.word())
}

#[cfg(test)]
mod tests;
