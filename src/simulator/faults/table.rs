//! The table of faults: what can go wrong, when, and whether it goes away.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::FaultError;

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
    /// An event on its way to one address. A ping meets none.
    Event,
    /// A `generateContent` call, beside what any create can meet.
    Call,
}

impl Phase {
    pub(super) const fn word(self) -> &'static str {
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
            Self::Event => "event",
            Self::Call => "call",
        }
    }

    /// Whether a fault of a batch counts when the batch is accepted, rather than at each request that meets it.
    pub(in super::super) const fn counts_when_accepted(self) -> bool {
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

    EventJwt "event-jwt" Event Passing "an event for a request's own webhook is signed by a JWT, not by v1a";
    EventTwoSignatures "event-two-signatures" Event Passing "an event has two signatures, the first by a key that nobody knows";
    EventTwice "event-twice" Event Passing "an event is sent twice, with one id";
    EventLate "event-late" Event Passing "an event is sent late";
    EventShuffled "event-shuffled" Event Passing "an event is held until a later one was sent, or for a moment";
    EventBadSignature "event-bad-signature" Event Passing "the first try of an event has a wrong signature";
    EventOldTimestamp "event-old-timestamp" Event Passing "the first try of an event is dated ten minutes back";
    EventLost "event-lost" Event Passing "an event is never sent; the work itself is as good";

    Call429 "call-429" Call Passing "answer a call with 429 and accept nothing: with a RetryInfo of 7 s or 45.25 s, or none";
    Call500 "call-500" Call Passing "accept a call, then answer 500";
    Call503 "call-503" Call Passing "answer a call with 503 and accept nothing";
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
