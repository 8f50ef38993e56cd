//! A part of a run: rows that go out together, attempt after attempt (design, section 5).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::intake::Cursor;
use super::job::{JobKey, Lease, Rev, State, clip};
use super::time::Millis;

/// How many attempts that cost the rows nothing (a create refused for some of its lines) a part may have before its run
/// waits for a person, and again after so many more.
pub const FREE_ATTEMPTS: usize = 16;

/// The class of an attempt whose create Gemini refused as too much: its rows go out in halves.
pub const TOO_LARGE: &str = "queue:too_large";

/// The name of a part within its run: its number, from 1, and behind it an `a` or a `b` for each time that it was
/// halved. Dead rows of it that a person has replayed go out in parts of their own: `3r1` is the first of the rows of
/// part 3, which may be halved too. All of these are the family of the numbered part, their root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartId(pub String);

impl PartId {
    /// The part of that number.
    #[must_use]
    pub fn numbered(number: u32) -> Self {
        Self(number.to_string())
    }

    /// Whether it is a part that the run was cut into, and neither a half of one nor a part of replayed rows.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The part that the run was cut into of which its rows are.
    #[must_use]
    pub fn root(&self) -> Self {
        Self(self.0.chars().take_while(char::is_ascii_digit).collect())
    }

    /// The `number`th part of replayed rows of the root.
    #[must_use]
    pub fn replay(&self, number: u32) -> Self {
        Self(format!("{}r{number}", self.root()))
    }

    /// Whether its rows were dead ones that a person has replayed.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.0.contains('r')
    }

    /// What it was halved from in the end: `3` for `3ab`, `3r1` for `3r1a`; itself when it is no half.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self(self.0.trim_end_matches(['a', 'b']).to_owned())
    }

    /// What it was halved from, the nearest first, itself included.
    pub fn wholes(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), |part| part.0.strip_suffix(['a', 'b']).map(|of| Self(of.to_owned())))
    }

    /// Whether it is that part, or comes of halving it.
    #[must_use]
    pub fn is_within(&self, of: &Self) -> bool {
        self.0.strip_prefix(&of.0).is_some_and(|rest| rest.bytes().all(|byte| matches!(byte, b'a' | b'b')))
    }

    /// Its two halves, in the order of their rows.
    #[must_use]
    pub fn halves(&self) -> [Self; 2] {
        ["a", "b"].map(|half| Self(format!("{}{half}", self.0)))
    }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The idempotency key of an attempt, which is its display name at Gemini: the first 32 hex digits of the sha256 of
/// run, part and attempt.
#[must_use]
pub fn attempt_key(run: &str, part: &PartId, number: u32) -> JobKey {
    JobKey(name_of(&format!("attempt {run} {part} {number}")))
}

/// The first 32 hex digits of the sha256 of a text.
fn name_of(text: &str) -> String {
    clip(&hex::encode(Sha256::digest(text.as_bytes())), 64).chars().take(32).collect()
}

/// What a job of mode `batch` is: one attempt of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The run.
    pub run: String,
    /// The part.
    pub part: PartId,
    /// The attempt's number within the part, from 1.
    pub number: u32,
    /// The object with its rows: what is uploaded.
    pub rows_at: String,
    /// How many rows.
    pub rows: u64,
    /// Bytes of the object.
    pub bytes: u64,
    /// Its input file at Gemini.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Uploaded>,
    /// When a complete listing of Gemini's batches first had none of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_listed: Option<Millis>,
    /// Refusals of the whole queue (429) in a row, met while nothing else of its model was under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// Its output at Gemini, once it has ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// What came of its calls, if its rows go out as plain calls and not as a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
}

/// What an attempt by plain calls leaves to the one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Calls that failed and may have been paid for all the same: made again, each is a possible duplicate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_doubt: u32,
    /// The latest time that Gemini named for a row to be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
}

/// The output of a batch job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `files/…`.
    pub file: String,
    /// How many rows it announces an outcome for.
    #[serde(default, skip_serializing_if = "is_none")]
    pub announced: u64,
    /// How the job ended, when not as `SUCCEEDED`: the class of rows without a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A file that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// `files/…`.
    pub name: String,
    /// When.
    pub at: Millis,
}

/// What a part remembers of one of its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Its number, from 1.
    pub number: u32,
    /// The object with its rows.
    pub rows_at: String,
    /// How many rows.
    pub rows: u64,
    /// Bytes of the object.
    pub bytes: u64,
    /// Which of its rows' attempts it is, itself included.
    pub tries: u32,
    /// Whether it cost its rows nothing: its create was refused for some of its lines, or as too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
    /// Class and message with which it ended without an outcome for its rows, which then go on to the next attempt:
    /// `expired`, `permanent:400`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<(String, String)>,
}

/// What a pass over an attempt's output is to be made of, written down before it begins: so that there is one pass of a
/// part at a time, and whoever takes it up makes the same files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The attempt's number.
    pub attempt: u32,
    /// The object with Gemini's raw output; none: there is no output, and every row gets `blame`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Which download of the output that is, from 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub download: u32,
    /// Whether the attempt's rows are with a successor: then only what succeeded counts.
    #[serde(default)]
    pub late: bool,
    /// Class and message of rows without a line.
    pub blame: (String, String),
    /// How many lines the output must have at least, unless it comes down alike twice.
    #[serde(default, skip_serializing_if = "is_none")]
    pub announced: u64,
    /// Whether no attempt is left for what would be tried again.
    #[serde(default)]
    pub last: bool,
}

impl Intent {
    /// The name under which the files of this pass lie, besides part and attempt: made of everything that it is a
    /// function of, the passes before it included.
    #[must_use]
    pub fn name(&self, before: &[Passed]) -> String {
        let mut text = format!("pass {self:?}");
        for passed in before {
            text.push_str(&format!(" after {} {}", passed.attempt, passed.name));
        }
        name_of(&text).chars().take(12).collect()
    }
}

/// What a pass made of its attempt's rows: `rows = succeeded + retry + dead + settled_before`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The attempt's rows.
    pub rows: u64,
    /// Rows that succeeded, dead ones that now did included.
    pub succeeded: u64,
    /// Rows of the next attempt; of a late pass, rows left to the successor.
    pub retry: u64,
    /// Rows that died.
    pub dead: u64,
    /// Rows that an earlier pass had settled.
    pub settled_before: u64,
    /// Of those that succeeded: rows that had died before.
    pub recovered: u64,
    /// Rows without a line in the output.
    pub missing: u64,
    /// Lines that came again for a row.
    pub duplicates: u64,
    /// Lines with a key that is none of the attempt's.
    pub unknown: u64,
    /// Lines that no row could be told from: without a key, cut, no JSON.
    pub unreadable: u64,
}

/// A pass that counts: its files are the truth about its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The attempt's number.
    pub attempt: u32,
    /// The hash in the names of its files.
    pub name: String,
    /// Whether it was a late one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Whether it was made without an output: its attempt brought none, and no other may follow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_output: bool,
    /// What became of the rows.
    pub counts: Counts,
    /// Dead rows by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, u64>,
    /// How far the dead letters of its `dead` rows are made: bytes of the object.
    #[serde(default)]
    pub told: u64,
    /// Bytes of the object of its dead rows.
    #[serde(default)]
    pub dead_bytes: u64,
    /// How far the dead letters of its recovered rows are settled: bytes of the object.
    #[serde(default)]
    pub mended: u64,
    /// Bytes of the object of its recovered rows.
    #[serde(default)]
    pub recovered_bytes: u64,
    /// Bytes of the object of the rows to retry.
    #[serde(default)]
    pub retry_bytes: u64,
    /// How far the dead letters of rows that have succeeded in a replay are settled: bytes of the object of its results.
    #[serde(default, skip_serializing_if = "is_none")]
    pub healed: u64,
    /// Bytes of that object, in a part of replayed rows.
    #[serde(default, skip_serializing_if = "is_none")]
    pub result_bytes: u64,
}

/// Which file of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum File {
    /// Rows that succeeded.
    Results,
    /// Input lines of the next attempt.
    Retry,
    /// Rows that died.
    Dead,
    /// Names of the keys that it settled.
    Settled,
    /// Rows that had died before and succeeded now.
    Recovered,
}

impl Passed {
    /// The object of one of its files.
    #[must_use]
    pub fn object(&self, run: &str, part: &PartId, file: File) -> String {
        object(run, part, self.attempt, &self.name, file)
    }

    /// Whether every dead letter is made, and every recovered one settled.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.told >= self.dead_bytes && self.mended >= self.recovered_bytes && self.healed >= self.result_bytes
    }
}

/// The object of a file of a pass.
#[must_use]
pub fn object(run: &str, part: &PartId, attempt: u32, name: &str, file: File) -> String {
    match file {
        File::Results => format!("results/{run}/{part}.{attempt}.{name}.jsonl"),
        File::Retry => format!("runs/{run}/{part}.{attempt}.{name}.retry.jsonl"),
        File::Dead => format!("runs/{run}/{part}.{attempt}.{name}.dead.jsonl"),
        File::Settled => format!("runs/{run}/{part}.{attempt}.{name}.settled"),
        File::Recovered => format!("runs/{run}/{part}.{attempt}.{name}.recovered.jsonl"),
    }
}

/// The ledger item of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The run.
    pub run: String,
    /// Its name within the run.
    pub part: PartId,
    /// This version of the item.
    pub rev: Rev,
    /// `Waiting`, `UnderWay`, `Settled` or `Discarded`.
    pub state: State,
    /// Since when it has been in that state.
    pub since: Millis,
    /// When somebody must next look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Millis>,
    /// Who alone may work on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The intake: sha256 of its bytes.
    pub intake: String,
    /// The model.
    pub model: String,
    /// The object with its rows.
    pub rows_at: String,
    /// How many rows.
    pub rows: u64,
    /// Bytes of the object.
    pub bytes: u64,
    /// How far the intake is read with it; none for a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upto: Option<Cursor>,
    /// Attempts that its rows had used before, as rows of the part that it is a half of, or in which they died.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used: u32,
    /// Attempts that a replay allows its rows beyond those of the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted: u32,
    /// How many parts were begun with rows of it that a person has replayed; of a root alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replays: u32,
    /// Whether its rows may have been paid for in the attempt in which they died: nobody has seen that end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_paid: bool,
    /// The class of its rows, if they had no dead letters of their own when they were replayed, but one for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_group: Option<String>,
    /// Whether its rows go out as plain calls and not as a batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_call: bool,
    /// Its attempts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Sending>,
    /// The pass that is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The passes that count, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Passed>,
    /// Whether its open rows went over to its halves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halved: bool,
    /// Rows that a person gave up with the run.
    #[serde(default, skip_serializing_if = "is_none")]
    pub discarded: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
const fn is_none(n: &u64) -> bool {
    *n == 0
}

/// Rows and where they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The object.
    pub at: String,
    /// How many.
    pub rows: u64,
    /// Bytes of the object.
    pub bytes: u64,
}

impl Part {
    /// Goes into `state` at `now`, due at `due_at`. The lease ends.
    pub fn enter(&mut self, state: State, due_at: Option<Millis>, now: Millis) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
        self.due_at = due_at;
        self.lease = None;
    }

    /// The latest attempt.
    #[must_use]
    pub fn latest(&self) -> Option<&Sending> {
        self.attempts.last()
    }

    /// Whether the output of the attempt of that number is taken.
    #[must_use]
    pub fn has_taken(&self, attempt: u32) -> bool {
        self.passes.iter().any(|passed| passed.attempt == attempt && !passed.without_output)
    }

    /// The pass over the attempt of that number that said what becomes of all its rows.
    #[must_use]
    pub fn pass_of(&self, attempt: u32) -> Option<&Passed> {
        self.passes.iter().find(|passed| passed.attempt == attempt && !passed.late)
    }

    /// Rows for which another attempt is to be made once the latest one is over: all of the part before the first
    /// attempt; none when nothing is left, or while the latest attempt is still out.
    #[must_use]
    pub fn rows_left(&self) -> Option<Rows> {
        let Some(latest) = self.latest() else {
            return Some(Rows { at: self.rows_at.clone(), rows: self.rows, bytes: self.bytes });
        };
        if let Some(passed) = self.pass_of(latest.number) {
            let at = passed.object(&self.run, &self.part, File::Retry);
            return (passed.counts.retry > 0).then_some(Rows {
                at,
                rows: passed.counts.retry,
                bytes: passed.retry_bytes,
            });
        }
        latest.ended.is_some().then(|| Rows { at: latest.rows_at.clone(), rows: latest.rows, bytes: latest.bytes })
    }

    /// Whether the latest attempt is still out: nothing has said yet what becomes of its rows.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.latest().is_some_and(|latest| latest.ended.is_none() && self.pass_of(latest.number).is_none())
    }

    /// Whether a pass has said what becomes of the rows of the latest attempt.
    #[must_use]
    pub fn passed_latest(&self) -> bool {
        self.latest().is_some_and(|latest| self.pass_of(latest.number).is_some())
    }

    /// Whether whoever replays rows in it has not put them in yet.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.rows_at.is_empty()
    }

    /// Attempts that its open rows have used.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.latest()
            .map_or(self.used, |latest| if latest.free { latest.tries.saturating_sub(1) } else { latest.tries })
    }

    /// Rows that no pass has settled.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        let settled = |passed: &Passed| passed.counts.succeeded + passed.counts.dead - passed.counts.recovered;
        self.rows.saturating_sub(self.passes.iter().map(settled).sum())
    }

    /// The attempt of that number.
    #[must_use]
    pub fn attempt(&self, number: u32) -> Option<&Sending> {
        self.attempts.iter().find(|sending| sending.number == number)
    }

    /// Whether the rows of an attempt are with nobody else: it is the latest one, and no pass has said what becomes of
    /// them.
    #[must_use]
    pub fn has_rows_of(&self, number: u32) -> bool {
        !self.halved && self.latest().is_some_and(|latest| latest.number == number) && self.pass_of(number).is_none()
    }

    /// Whether some of the rows of the latest attempt, which brought nothing, have been settled by a late result of an
    /// earlier one: then they are to be told apart before any of them goes out again.
    #[must_use]
    pub fn has_settled_rows_among_open_ones(&self) -> bool {
        let late = self.passes.iter().any(|passed| passed.late && passed.counts.succeeded > 0);
        late && self.latest().is_some_and(|latest| latest.ended.is_some() && self.pass_of(latest.number).is_none())
    }

    /// What its rows have become, over all passes. Those of a replay were dead before: who succeeds has recovered, and what
    /// was given up with the run is dead again.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { discarded: self.discarded, ..Tally::default() };
        for passed in &self.passes {
            tally.succeeded += passed.counts.succeeded - passed.counts.recovered.min(passed.counts.succeeded);
            tally.recovered += passed.counts.recovered;
            tally.dead += passed.counts.dead;
        }
        tally.dead = tally.dead.saturating_sub(tally.recovered);
        if self.part.is_replay() {
            tally.recovered += std::mem::take(&mut tally.succeeded);
            tally.dead += std::mem::take(&mut tally.discarded);
        }
        tally
    }
}

/// What rows have become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Succeeded without having died before.
    pub succeeded: u64,
    /// Died, and then succeeded.
    pub recovered: u64,
    /// Dead.
    pub dead: u64,
    /// Given up by a person.
    pub discarded: u64,
}

impl Tally {
    /// All of them.
    #[must_use]
    pub const fn settled(&self) -> u64 {
        self.succeeded + self.recovered + self.dead + self.discarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_stable_and_differ() {
        let part = PartId::numbered(3);
        let key = attempt_key("run", &part, 1);
        assert_eq!(key, attempt_key("run", &part, 1));
        assert_eq!(key.0.len(), 32);
        assert_ne!(key, attempt_key("run", &part, 2));
        let [a, b] = part.halves();
        assert_eq!((a.0.as_str(), b.halves()[1].0.as_str()), ("3a", "3bb"));
        assert_ne!(attempt_key("run", &a, 1), attempt_key("run", &b, 1));
    }

    #[test]
    fn a_name_tells_the_family() {
        let part = |name: &str| PartId(name.to_owned());
        assert_eq!(part("13ab").replay(2), part("13r2"));
        assert_eq!(part("13r2b").replay(3), part("13r3"));
        for (name, numbered, replay, root, whole) in [
            ("13", true, false, "13", "13"),
            ("13ab", false, false, "13", "13"),
            ("13r2", false, true, "13", "13r2"),
            ("13r2ba", false, true, "13", "13r2"),
        ] {
            let id = part(name);
            assert_eq!((id.is_numbered(), id.is_replay()), (numbered, replay), "{name}");
            assert_eq!((id.root(), id.whole()), (part(root), part(whole)), "{name}");
        }
        assert_eq!(part("3r1ab").wholes().collect::<Vec<_>>(), ["3r1ab", "3r1a", "3r1"].map(part));
        for (name, of, within) in
            [("3", "3", true), ("3ab", "3a", true), ("3r1", "3", false), ("3r1a", "3r1", true), ("3r10", "3r1", false)]
        {
            assert_eq!(part(name).is_within(&part(of)), within, "{name} in {of}");
        }
    }
}
