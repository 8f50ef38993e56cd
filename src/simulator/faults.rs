//! The ways in which the simulator can be told to fail, and the dice that decide when.
//!
//! # What a rate means
//!
//! A [`Phase`] is an occasion on which something can go wrong: one create request, one GET, one interaction's
//! outcome. On each occasion at most one fault is met, and a rate is the share of occasions that meet that
//! fault. So the rates of one phase add up to at most 1 (counted apart for passing and lasting faults), and a
//! set that doesn't is refused.
//!
//! A batch meets the same faults of creates, of first moments and of GETs as an interaction, and others of its own,
//! each drawn apart: of its course, its end, its cancel, its output as a whole, each download, each page of the
//! list, each chunk of an upload, and of each of its rows.
//!
//! `passing=0.2` gives every passing fault an even share: 20 % of the create requests meet one of the passing
//! create faults, 20 % of the accepted interactions are hidden at first, 20 % take an unusual course, 20 % of
//! the GETs meet one of the GET faults, and 20 % of the accepted interactions have a passing bad outcome. Each
//! draw is independent of the others.
//!
//! # What decides
//!
//! A hash of the seed, the phase and the digest of the input (of a batch: its display name; of a row: its
//! contents); for a passing fault also of how many times this
//! input was sent or accepted, or this interaction was asked for. Never the time, and never the order in which
//! different inputs arrive. So the same seed gives the same faults whatever the concurrency, a passing fault
//! usually goes away when the same thing is tried again, and a lasting one never does.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// An occasion on which something can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// A request with an API key.
    Key,
    /// A request that creates: an interaction, a batch, or a `generateContent` call.
    Create,
    /// The first moments of an accepted interaction or batch.
    Hidden,
    /// The statuses that an interaction shows before it ends.
    Course,
    /// A GET of an interaction or a batch.
    Get,
    /// How an accepted interaction, or a `generateContent` call, ends.
    Outcome,
    /// A request that uploads bytes.
    Upload,
    /// A request for a page of the list of batches.
    List,
    /// The first moments of an accepted batch in the list.
    Unlisted,
    /// The states that a batch shows, and how.
    BatchCourse,
    /// How an accepted batch ends.
    BatchOutcome,
    /// The cancel of a batch.
    Cancel,
    /// The output of a batch as a whole.
    Output,
    /// A request that downloads an output.
    Download,
    /// A row when its batch is created.
    RowCreate,
    /// What becomes of a row of an accepted batch.
    Row,
}

impl Phase {
    const fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Create => "create",
            Self::Hidden => "hidden",
            Self::Course => "course",
            Self::Get => "get",
            Self::Outcome => "outcome",
            Self::Upload => "upload",
            Self::List => "list",
            Self::Unlisted => "unlisted",
            Self::BatchCourse => "batch-course",
            Self::BatchOutcome => "batch-outcome",
            Self::Cancel => "cancel",
            Self::Output => "output",
            Self::Download => "download",
            Self::RowCreate => "row-create",
            Self::Row => "row",
        }
    }

    /// Whether a fault of a batch counts when the batch is accepted, rather than at each request that meets it.
    pub(super) const fn counts_when_accepted(self) -> bool {
        matches!(self, Self::BatchCourse | Self::BatchOutcome | Self::Output)
    }
}

/// Whether a fault goes away when the same thing is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// The next try is drawn anew.
    Passing,
    /// Every try of the same input meets it.
    Lasting,
}

/// Makes the enum, its names and its table from one list, so that none can miss a fault.
macro_rules! faults {
    ($($variant:ident $name:literal $phase:ident $stay:ident $about:literal;)*) => {
        /// A way to fail. The variants are described by [`Fault::about`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $(#[doc = $about] $variant,)*
        }

        impl Fault {
            /// Every fault, in the order of the help.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name on the command line, in the log and in the counts.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// When it can happen.
            #[must_use]
            pub const fn phase(self) -> Phase {
                match self { $(Self::$variant => Phase::$phase,)* }
            }

            /// Whether it goes away.
            #[must_use]
            pub const fn stay(self) -> Stay {
                match self { $(Self::$variant => Stay::$stay,)* }
            }

            /// One line for the help.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

faults! {
    KeyRejected "key-rejected" Key Lasting "the API key is refused: legacy 400 API_KEY_INVALID (in an array for interactions)";

    CreateDrop "create-drop" Create Passing "accept, then close the connection without an answer";
    Create503 "create-503" Create Passing "accept, then answer 503";
    Create503Refused "create-503-refused" Create Passing "answer 503 and accept nothing";
    CreateDelay "create-delay" Create Passing "accept, and answer late";
    Create408 "create-408" Create Passing "accept, then answer 408";
    Create409 "create-409" Create Passing "answer 409 `aborted` and accept nothing";
    CreateResetBefore "create-reset-before" Create Passing "close the connection without an answer and accept nothing";
    Create429 "create-429" Create Passing "answer 429 and accept nothing: with RetryInfo in whole or broken seconds, or only Help";
    CreateArray "create-array" Create Passing "answer a legacy 503 wrapped in an array and accept nothing";
    Create429Long "create-429-long" Create Lasting "answer 429 with a RetryInfo of 52758 s and accept nothing";
    Create429Daily "create-429-daily" Create Lasting "answer 429 with a QuotaFailure per day and accept nothing";

    Get404 "get-404" Hidden Passing "404 for the first moments after creation";
    Get403 "get-403" Hidden Passing "403 for the first moments after creation";
    Get404Forever "get-404-forever" Hidden Lasting "404 for ever, although the create was acknowledged";

    Queued "queued" Course Passing "`queued` until a GET has seen it once";
    StatusUnknown "status-unknown" Course Passing "a status that no client knows, while it runs";

    Get503 "get-503" Get Passing "answer a GET with 503";
    Get429 "get-429" Get Passing "answer a GET with 429";
    GetHtml "get-html" Get Passing "answer a GET with 502 and a page of HTML";
    GetCut "get-cut" Get Passing "cut the body of a GET off and close the connection";
    GetArray "get-array" Get Passing "answer a GET with a legacy 503 wrapped in an array";

    FailedErrors "failed-errors" Outcome Passing "`failed`, with the reason in `errors`: api_error, service_unavailable, deadline_exceeded or 13";
    FailedStep "failed-step" Outcome Passing "`failed`, with the reason only in `model_output.error`: gRPC 4, 8, 13 or 14";
    FailedSilent "failed-silent" Outcome Passing "`failed`, with no reason at all";
    CancelledRemote "cancelled-remote" Outcome Passing "`cancelled`, although nobody asked for it";
    EmptyAnswer "empty-answer" Outcome Passing "`completed` with an empty text, no parts or only thoughts";
    Incomplete "incomplete" Outcome Lasting "`incomplete`: the token limit was reached in the middle of the answer";
    BudgetExceeded "budget-exceeded" Outcome Lasting "`budget_exceeded`, without an answer";
    RequiresAction "requires-action" Outcome Lasting "`requires_action`: a function call waits for its result";
    Blocked "blocked" Outcome Lasting "`failed` with the code `safety`";
    BadJson "bad-json" Outcome Lasting "broken JSON, where JSON was asked for";

    Upload503 "upload-503" Upload Passing "answer a chunk of an upload with 503 and take nothing of it";
    UploadDrop "upload-drop" Upload Passing "take the beginning of a chunk, then close the connection";
    UploadNoFile "upload-no-file" Upload Passing "end an upload with an answer that names no file, although it is there";
    UploadMime "upload-mime" Upload Passing "end an upload of JSONL with a 200 that holds the error `Unsupported MIME type`";

    List503 "list-503" List Passing "answer a page of the list of batches with 503";
    ListLag "list-lag" Unlisted Passing "a new batch is missing from the list for the first moments";

    BatchUnnamed "batch-unnamed" BatchCourse Passing "a batch has succeeded, but the first looks do not see its output's name";
    BatchStateUnknown "batch-state-unknown" BatchCourse Passing "a batch shows a state that no client knows, while it runs";
    BatchTopLevel "batch-top-level" BatchCourse Passing "a batch shows its fields without `metadata`, its counters as numbers, and JOB_STATE_";
    BatchStuck "batch-stuck" BatchCourse Lasting "a batch stays PENDING until it expires";

    BatchFailed "batch-failed" BatchOutcome Passing "a batch ends FAILED with code 13";
    BatchPartly "batch-partly" BatchOutcome Passing "a batch ends PARTIALLY_SUCCEEDED: a third of its rows, with code 4, is not done";
    BatchCancelled "batch-cancelled" BatchOutcome Passing "a batch ends CANCELLED, although nobody asked for it";
    BatchExpired "batch-expired" BatchOutcome Passing "a batch ends EXPIRED early";
    CancelIgnored "cancel-ignored" Cancel Passing "the cancel of a batch is acknowledged, and the batch succeeds all the same";

    OutputShuffled "output-shuffled" Output Passing "the rows of an output come in another order";
    OutputMissing "output-missing" Output Passing "rows are missing from an output";
    OutputRepeated "output-repeated" Output Passing "rows come twice: the same, or once with an error";
    OutputUnknownKey "output-unknown-key" Output Passing "an output holds keys that nobody sent";
    OutputNoKey "output-no-key" Output Passing "rows come without their key";
    OutputNull "output-null" Output Passing "rows come with `response: null`";
    OutputBlank "output-blank" Output Passing "an output holds blank lines";
    OutputStatus "output-status" Output Passing "rows come with a `status` in place of an `error`";
    OutputBoth "output-both" Output Passing "rows come with both a `response` and an `error`";
    OutputLongLine "output-long-line" Output Passing "a row comes in a line of more than 3 MB";
    OutputCut "output-cut" Output Passing "the last line of an output is cut off";
    OutputNoNewline "output-no-newline" Output Passing "the last line of an output has no end";
    OutputCrlf "output-crlf" Output Passing "the lines of an output end with CRLF";

    Download404 "download-404" Download Passing "404 for /download/v1/files/…; /v1/files/… works";
    Download503 "download-503" Download Passing "answer a download with 503";
    Download503Middle "download-503-middle" Download Passing "break a download off, and answer the next one with 503";
    DownloadCut "download-cut" Download Passing "break a download with Content-Length off";
    DownloadCutChunked "download-cut-chunked" Download Passing "break a download in chunks off";
    DownloadCutSilent "download-cut-silent" Download Passing "end a download too early, with nothing to tell by that it did";
    DownloadSlow "download-slow" Download Passing "pause in the middle of a download";
    DownloadUnsized "download-unsized" Download Passing "a whole download without Content-Length";

    RowRefused "row-refused" RowCreate Lasting "the create of a batch is refused for a row, with `Error on line N`";

    RowParts "row-parts" Row Passing "a row's answer comes in parts, behind a thought, with a second candidate: it is good";
    RowEmpty "row-empty" Row Passing "a row ends with STOP and no parts";
    RowThoughts "row-thoughts" Row Passing "a row's answer holds only thoughts";
    RowCitations "row-citations" Row Passing "a row's answer holds only citations";
    RowMalformedCall "row-malformed-call" Row Passing "a row ends with MALFORMED_FUNCTION_CALL";
    RowOther "row-other" Row Passing "a row ends with OTHER";
    RowError1 "row-error-1" Row Passing "a row fails with code 1, CANCELLED";
    RowError4 "row-error-4" Row Passing "a row fails with code 4, DEADLINE_EXCEEDED";
    RowError8 "row-error-8" Row Passing "a row fails with code 8, RESOURCE_EXHAUSTED";
    RowError13 "row-error-13" Row Passing "a row fails with code 13, INTERNAL";
    RowError14 "row-error-14" Row Passing "a row fails with code 14, UNAVAILABLE";
    RowErrorBare "row-error-bare" Row Passing "a row fails with a message only";
    RowErrorHttp "row-error-http" Row Passing "a row fails with code 503, as HTTP has it";
    RowErrorWord "row-error-word" Row Passing "a row fails with a word as its code";
    RowSafety "row-safety" Row Lasting "a row's answer is blocked: SAFETY";
    RowPromptBlocked "row-prompt-blocked" Row Lasting "a row's prompt is blocked: PROHIBITED_CONTENT";
    RowMaxTokens "row-max-tokens" Row Lasting "a row ends with MAX_TOKENS in the middle of its answer";
    RowMaxTokensEmpty "row-max-tokens-empty" Row Lasting "a row ends with MAX_TOKENS before its answer began";
    RowBadJson "row-bad-json" Row Lasting "a row's answer is broken JSON, where JSON was asked for";
    RowError3 "row-error-3" Row Lasting "a row fails with code 3, INVALID_ARGUMENT";
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Fault {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(name: &str) -> Result<Self, FaultError> {
        let found = Self::ALL.iter().find(|fault| fault.name() == name);
        found.copied().ok_or_else(|| FaultError::Unknown(name.to_owned()))
    }
}

/// The word that stands for all passing faults together.
const PASSING: &str = "passing";

/// A set of faults that can't be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FaultError {
    /// There is no fault of that name.
    #[error("there is no fault `{0}`; there are: {PASSING}, {names}", names = names())]
    Unknown(String),
    /// Not of the form `NAME=RATE`.
    #[error("`{0}` is not of the form NAME=RATE, as in create-drop=0.2")]
    Form(String),
    /// A rate is a share.
    #[error("the rate of {0} must be between 0 and 1, not {1}")]
    Rate(String, f64),
    /// One occasion meets one fault at most, see the module's page.
    #[error("the rates of the {stay} faults of one {phase} add up to {sum:.3}; they can be 1 at most")]
    Sum {
        /// `passing` or `lasting`.
        stay: &'static str,
        /// The phase's word.
        phase: &'static str,
        /// What they add up to.
        sum: f64,
    },
}

fn names() -> String {
    Fault::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
}

/// Which faults happen how often.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Faults(BTreeMap<Fault, f64>);

impl Faults {
    /// No fault at all.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// On each occasion one of its passing faults with probability `rate`, evenly chosen. Lasting faults never.
    pub fn passing(rate: f64) -> Result<Self, FaultError> {
        Self::from_rates([(PASSING, rate)])
    }

    /// Reads `create-drop=0.2` and `passing=0.2`. A later setting replaces an earlier one of the same fault.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Self, FaultError> {
        let rates = settings.into_iter().map(|setting| {
            let form = || FaultError::Form(setting.to_owned());
            let (name, rate) = setting.split_once('=').ok_or_else(form)?;
            Ok((name.trim(), rate.trim().parse().map_err(|_| form())?))
        });
        Self::from_rates(rates.collect::<Result<Vec<_>, _>>()?)
    }

    /// The same from names and rates.
    pub fn from_rates<'a>(rates: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Self, FaultError> {
        let mut faults = Self::none();
        for (name, rate) in rates {
            if !(0.0..=1.0).contains(&rate) {
                return Err(FaultError::Rate(name.to_owned(), rate));
            }
            if name == PASSING {
                faults.set_passing(rate);
            } else {
                faults.0.insert(name.parse()?, rate);
            }
        }
        faults.check().map(|()| faults)
    }

    fn set_passing(&mut self, rate: f64) {
        let passing = |phase| Fault::ALL.iter().filter(move |f| f.stay() == Stay::Passing && f.phase() == phase);
        for fault in Fault::ALL.iter().filter(|fault| fault.stay() == Stay::Passing) {
            let among = u32::try_from(passing(fault.phase()).count()).unwrap_or(u32::MAX);
            self.0.insert(*fault, rate / f64::from(among));
        }
    }

    fn check(&self) -> Result<(), FaultError> {
        for fault in self.0.keys() {
            let (phase, stay) = (fault.phase(), fault.stay());
            let sum: f64 = self.of(phase, stay).map(|(_, rate)| rate).sum();
            // Shares such as ten times 0.1 add up to a little more than they should.
            if sum > 1.0 + 1e-9 {
                let stay = if stay == Stay::Passing { PASSING } else { "lasting" };
                return Err(FaultError::Sum { stay, phase: phase.word(), sum });
            }
        }
        Ok(())
    }

    fn of(&self, phase: Phase, stay: Stay) -> impl Iterator<Item = (Fault, f64)> {
        self.0.iter().filter(move |(f, _)| f.phase() == phase && f.stay() == stay).map(|(f, rate)| (*f, *rate))
    }

    /// The fault that one occasion meets, if any. `subject` names the thing, `tries` the occasion.
    pub(super) fn draw(&self, seed: u64, phase: Phase, subject: u64, tries: &[u64]) -> Option<Fault> {
        if self.0.is_empty() {
            return None;
        }
        let lasting = || cast(self.of(phase, Stay::Lasting), fraction(seed, phase, "lasting", subject, &[]));
        let passing = || cast(self.of(phase, Stay::Passing), fraction(seed, phase, PASSING, subject, tries));
        lasting().or_else(passing)
    }
}

/// The fault in whose share of `0.0..1.0` the number falls.
fn cast(shares: impl Iterator<Item = (Fault, f64)>, fraction: f64) -> Option<Fault> {
    let mut upper = 0.0;
    for (fault, share) in shares {
        upper += share;
        // The last share of a sum of 1 must not miss a number just below 1 by rounding.
        if fraction < upper || upper >= 1.0 - 1e-9 {
            return Some(fault);
        }
    }
    None
}

/// A number that is the same whenever the same is asked, and is otherwise as good as random.
pub(super) fn hash(seed: u64, what: &str, subject: u64, tries: &[u64]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update(what.as_bytes());
    hash.update(subject.to_be_bytes());
    for count in tries {
        hash.update(count.to_be_bytes());
    }
    hash.finalize().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn fraction(seed: u64, phase: Phase, stay: &str, subject: u64, tries: &[u64]) -> f64 {
    let number = hash(seed, &format!("{}/{stay}", phase.word()), subject, tries);
    // 53 bits are what an f64 holds exactly.
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn met(faults: &Faults, phase: Phase, occasions: u64) -> BTreeMap<Fault, u64> {
        let mut met = BTreeMap::new();
        for fault in (0..occasions).filter_map(|n| faults.draw(7, phase, n, &[0])) {
            *met.entry(fault).or_default() += 1;
        }
        met
    }

    #[test]
    fn passing_means_one_evenly_chosen_fault_an_occasion() {
        let faults = Faults::passing(0.2).unwrap();
        let with_passing = |fault: &&Fault| fault.stay() == Stay::Passing;
        let phases: BTreeSet<Phase> = Fault::ALL.iter().filter(with_passing).map(|fault| fault.phase()).collect();
        assert_eq!(phases.len(), 14, "all but those of keys and of rows at create");
        for phase in phases {
            let met = met(&faults, phase, 20_000);
            let all: Vec<_> = Fault::ALL.iter().filter(|f| f.phase() == phase && f.stay() == Stay::Passing).collect();
            assert_eq!(met.keys().collect::<Vec<_>>(), all, "every passing fault of {phase:?}, and no other");
            let total: u64 = met.values().sum();
            assert!((3_600..=4_400).contains(&total), "{phase:?}: {total} of 20000");
            let even = 4_000 / met.len() as u64;
            assert!(met.values().all(|n| (even / 2..=even * 2).contains(n)), "{phase:?}: {met:?}");
        }
        assert!(met(&faults, Phase::Key, 20_000).is_empty());
    }

    #[test]
    fn a_rate_of_one_always_happens_and_of_zero_never() {
        for fault in Fault::ALL {
            let always = Faults::from_rates([(fault.name(), 1.0)]).unwrap();
            assert_eq!(met(&always, fault.phase(), 500), BTreeMap::from([(*fault, 500)]));
            let never = Faults::from_rates([(fault.name(), 0.0)]).unwrap();
            assert!(met(&never, fault.phase(), 500).is_empty());
        }
        let all = Faults::passing(1.0).unwrap();
        assert_eq!(met(&all, Phase::Create, 5_000).values().sum::<u64>(), 5_000);
    }

    #[test]
    fn passing_faults_go_away_and_lasting_ones_stay() {
        let faults = Faults::parse(["passing=0.5", "bad-json=0.5"]).unwrap();
        let tries = |subject| (0..50).map(move |n| Faults::draw(&faults, 1, Phase::Outcome, subject, &[n]));
        let (mut bad, mut others) = (0, 0);
        for subject in 0..50 {
            let met: Vec<_> = tries.clone()(subject).collect();
            if met.first() == Some(&Some(Fault::BadJson)) {
                assert!(met.iter().all(|f| *f == Some(Fault::BadJson)));
                bad += 1;
            } else {
                assert!(met.contains(&None) && met.iter().any(Option::is_some));
                others += 1;
            }
        }
        assert!(bad > 5 && others > 5);
    }

    #[test]
    fn settings_are_read_and_mistakes_named() {
        let faults = Faults::parse(["passing=0.9", " create-drop = 0 "]).unwrap();
        assert_eq!(faults.0.get(&Fault::CreateDrop), Some(&0.0));
        assert_eq!(faults.0.get(&Fault::Get404), Some(&0.45));
        let unknown = Faults::parse(["create-dorp=0.2"]).unwrap_err().to_string();
        assert!(unknown.contains("create-dorp") && unknown.contains("create-drop") && unknown.contains("passing"));
        assert_eq!(Faults::parse(["create-drop"]), Err(FaultError::Form("create-drop".into())));
        assert_eq!(Faults::parse(["create-drop=1.5"]), Err(FaultError::Rate("create-drop".into(), 1.5)));
        assert!(matches!(Faults::parse(["create-drop=NaN"]), Err(FaultError::Rate(..))));
        assert!(matches!(Faults::parse(["passing=0.5", "get-cut=0.7"]), Err(FaultError::Sum { phase: "get", .. })));
    }
}
