//! What a failure means for the job that met it: the verdict table of the design, section 6.

mod operator;
mod words;

use std::time::Duration;

use self::words::Named;
use super::failure::{Code, Failure};

/// The longest delay that is taken from an answer. No documented limit lasts longer than a day
/// (<https://ai.google.dev/gemini-api/docs/rate-limits>), and one probe a day costs nothing.
pub const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Longest word that becomes part of a class.
const CLASS_CHARS: usize = 48;

/// Where the failure was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// A request of ours was refused, a create or a plain read: a 429, a rejected key and billing are the whole
    /// queue's matter.
    OnCreate,
    /// The work itself failed, or a plain call did. The same codes inside finished work are that work's own; only an
    /// HTTP refusal of a plain call still shows a rejected key or billing as the queue's matter.
    InWork,
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Passing: try again under the cap.
    Retryable,
    /// Trying again would fail again: park.
    Permanent,
    /// The whole queue's matter, and it passes by itself: close the gate, give the attempt back.
    Queue,
    /// The whole queue's matter, and only a person can mend it (a rejected key, billing): close the gate,
    /// give the attempt back, say so.
    Operator,
}

/// When it may be tried again, if the answer says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// After this long: more than nothing, at most [`LONGEST_DELAY`].
    After(Duration),
    /// A per-day quota: at the next midnight Pacific.
    NextPacificMidnight,
}

/// A judged failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What to do.
    pub verdict: Verdict,
    /// Short and stable: `permanent:400`, `blocked:SAFETY`, `retryable:503`, `unknown`, `queue:429`, `operator:key`.
    ///
    /// The number is HTTP's, whichever dialect spoke: gRPC 3, `INVALID_ARGUMENT` and `invalid_request` are all
    /// `permanent:400`.
    pub class: String,
    /// When Gemini names a time.
    pub delay: Option<Delay>,
}

impl Judgement {
    /// Passing, with no delay named.
    #[must_use]
    pub fn retryable(class: impl Into<String>) -> Self {
        Self { verdict: Verdict::Retryable, class: class.into(), delay: None }
    }

    /// Not passing.
    #[must_use]
    pub fn permanent(class: impl Into<String>) -> Self {
        Self { verdict: Verdict::Permanent, class: class.into(), delay: None }
    }

    /// A limit cut the answer: MAX_TOKENS, `incomplete`, `budget_exceeded`. A replay may raise the limit.
    #[must_use]
    pub fn truncated() -> Self {
        Self::permanent("truncated")
    }

    /// The interaction waits for the result of a function call, which nobody here can give.
    #[must_use]
    pub fn requires_action() -> Self {
        Self::permanent("requires_action")
    }

    /// An answer with nothing to show for it.
    #[must_use]
    pub fn empty() -> Self {
        Self::retryable("empty")
    }
}

/// The class of a failure that is parked because its attempts are used up: `retryable:503` becomes `exhausted:503`,
/// and any other class is put behind `exhausted:` (`exhausted:empty`, `exhausted:unknown`,
/// `exhausted:malformed:MALFORMED_RESPONSE`). A class that is exhausted already stays as it is.
#[must_use]
pub fn exhausted(class: &str) -> String {
    if class.starts_with("exhausted:") {
        return class.to_owned();
    }
    let rest = class.strip_prefix("retryable:").or_else(|| class.strip_prefix("queue:")).unwrap_or(class);
    format!("exhausted:{rest}")
}

/// Whether a refusal with 400 is about `webhook_config`, which is the program's own and the same for every job.
#[must_use]
pub fn refuses_webhook(failure: &Failure) -> bool {
    let text = failure.message.to_lowercase();
    failure.http == Some(400)
        && ["webhook_config", "webhookconfig", "webhook config"].iter().any(|name| text.contains(name))
}

/// Whether a refusal of a create doesn't come from Gemini at all: a path that nobody knows there, and no error of
/// either dialect. A wrong address is no job's fault.
#[must_use]
pub fn is_foreign(failure: &Failure) -> bool {
    let no_dialect = failure.code.is_none() && failure.status.is_none();
    no_dialect && matches!(failure.http, Some(404 | 405 | 407 | 421 | 426))
}

/// Whether a class speaks of something that jobs share (access, the model, the address) rather than of one job's own
/// content: when it comes again and again, the jobs are not to blame.
#[must_use]
pub fn may_be_shared(class: &str) -> bool {
    const SHARED: [&str; 8] = ["401", "402", "403", "404", "405", "407", "421", "451"];
    class.strip_prefix("permanent:").is_some_and(|code| SHARED.contains(&code))
}

/// Judges a failure. A code decides before a status word, a status word before message text.
///
/// In full: `error.code`, then the block and the finish reason, then the status of the HTTP answer (an error's only),
/// then `error.status`, then the message. What says nothing, such as code 0 or an unknown word, is passed over.
/// An HTTP number that several meanings share (400, 409) is made precise by an `error.status` that fits it.
///
/// A per-day quota waits for midnight Pacific, also where `RetryInfo` names less: such a delay is about the
/// per-minute quotas beside it. A delay of zero is none, and none is longer than [`LONGEST_DELAY`].
#[must_use]
pub fn classify(failure: &Failure, met: Met) -> Judgement {
    let meaning = meaning(failure);
    let refused = met == Met::OnCreate || failure.http.is_some_and(|http| http >= 400);
    if let Some(class) = operator::operator(&meaning, failure).filter(|_| refused) {
        return Judgement { verdict: Verdict::Operator, class: class.to_owned(), delay: None };
    }
    if meaning.http() == Some(429) && met == Met::OnCreate {
        return Judgement { verdict: Verdict::Queue, class: "queue:429".to_owned(), delay: delay(failure, true) };
    }
    let mut judgement = meaning.judge(failure);
    if judgement.verdict == Verdict::Retryable {
        judgement.delay = delay(failure, meaning.http() == Some(429));
    }
    judgement
}

/// What a failure means, in no dialect.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// A meaning with a name and a number.
    Named(&'static Named),
    /// An HTTP number that no name makes precise.
    Http(u16),
    /// Blocked, for that reason.
    Blocked(String),
    /// A limit cut it.
    Cut,
    /// It broke while it was made.
    Broken(String),
    /// It ended without an answer.
    Empty,
    /// Nothing is known.
    Unknown,
}

impl Meaning {
    /// Its HTTP number.
    fn http(&self) -> Option<u16> {
        match self {
            Self::Named(named) => Some(named.http),
            Self::Http(http) => Some(*http),
            _ => None,
        }
    }

    fn judge(&self, failure: &Failure) -> Judgement {
        match self {
            Self::Named(Named { http: 400, .. }) | Self::Http(400) if prompt_blocked(&failure.message) => {
                Judgement::permanent("blocked:PROMPT")
            }
            Self::Named(named) if named.passes => Judgement::retryable(format!("retryable:{}", named.http)),
            Self::Named(named) => Judgement::permanent(format!("permanent:{}", named.http)),
            Self::Http(http @ (408 | 429 | 500 | 502 | 503 | 504)) => Judgement::retryable(format!("retryable:{http}")),
            Self::Http(http @ (400..=499 | 501)) => Judgement::permanent(format!("permanent:{http}")),
            Self::Blocked(reason) => Judgement::permanent(format!("blocked:{}", class_word(reason))),
            Self::Cut => Judgement::truncated(),
            Self::Broken(reason) => Judgement::retryable(format!("malformed:{}", class_word(reason))),
            Self::Empty => Judgement::empty(),
            Self::Http(_) | Self::Unknown => Judgement::retryable("unknown"),
        }
    }
}

fn meaning(failure: &Failure) -> Meaning {
    let status = failure.status.as_deref().map(words::normal);
    let status = status.as_deref();
    let code = failure.code.as_ref().and_then(|code| match code {
        Code::Number(number) => of_number(*number, status),
        Code::Word(word) => {
            word.parse().ok().and_then(|number| of_number(number, status)).or_else(|| of_word(&words::normal(word)))
        }
    });
    code.or_else(|| failure.block_reason.as_deref().and_then(of_block))
        .or_else(|| failure.finish_reason.as_deref().and_then(of_finish))
        .or_else(|| failure.http.filter(|http| *http >= 400).and_then(|http| of_number(http.into(), status)))
        .or_else(|| status.and_then(of_word))
        .or_else(|| of_text(&failure.message))
        .unwrap_or(Meaning::Unknown)
}

/// 1 to 16 are gRPC's, 400 to 599 are HTTP's; others say nothing. A status word that fits makes HTTP's precise.
fn of_number(number: i64, status: Option<&str>) -> Option<Meaning> {
    if let Some(named) = words::grpc(number) {
        return Some(Meaning::Named(named));
    }
    let http = u16::try_from(number).ok().filter(|http| (400..600).contains(http))?;
    let precise = status.and_then(words::named).filter(|named| named.comes_as(http));
    Some(precise.map_or(Meaning::Http(http), Meaning::Named))
}

/// A normal word where a code or a status stands.
fn of_word(word: &str) -> Option<Meaning> {
    words::named(word).map(Meaning::Named).or_else(|| of_outcome(word))
}

/// A normal word about how an answer ended.
fn of_outcome(word: &str) -> Option<Meaning> {
    match word {
        "STOP" | "OTHER" => Some(Meaning::Empty),
        _ if words::is_cut(word) => Some(Meaning::Cut),
        _ if words::is_block(word) => Some(Meaning::Blocked(word.to_owned())),
        _ if words::is_broken(word) => Some(Meaning::Broken(word.to_owned())),
        _ => None,
    }
}

/// Any block reason is a block, `OTHER` and those of tomorrow too: a blocked prompt is blocked again.
fn of_block(reason: &str) -> Option<Meaning> {
    let reason = words::normal(reason);
    (!words::is_unset(&reason)).then_some(Meaning::Blocked(reason))
}

fn of_finish(reason: &str) -> Option<Meaning> {
    of_outcome(&words::normal(reason))
}

/// The seeds' reading of a message that comes without any code: what is not passing first.
fn of_text(message: &str) -> Option<Meaning> {
    let text = message.to_uppercase();
    let has = |word: &&str| text.contains(*word);
    let name = |word: &str| words::named(word).map(Meaning::Named);
    if let Some(word) = ["INVALID_ARGUMENT", "FAILED_PRECONDITION"].iter().find(|word| has(word)) {
        return name(word);
    }
    if prompt_blocked(message) {
        return Some(Meaning::Blocked("PROMPT".to_owned()));
    }
    if let Some(word) = ["SAFETY", "RECITATION"].iter().find(|word| has(word)) {
        return Some(Meaning::Blocked((*word).to_owned()));
    }
    if has(&"BLOCKED") {
        return Some(Meaning::Blocked("CONTENT_BLOCKED".to_owned()));
    }
    ["DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"].iter().find(|word| has(word)).and_then(|word| name(word))
}

/// A blocked prompt can come as a plain invalid request, told only by its sentence (gemini-api.md, section 1.8).
fn prompt_blocked(message: &str) -> bool {
    let start = "request blocked due to";
    message.trim_start().get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// When to try again. Quota ids tell a per-day quota; where there are none, `quota_exceeded` does, which the
/// interactions use for daily quotas.
fn delay(failure: &Failure, quota: bool) -> Option<Delay> {
    let daily = if failure.quota_ids.is_empty() {
        let code = match &failure.code {
            Some(Code::Word(word)) => Some(word.as_str()),
            _ => None,
        };
        [code, failure.status.as_deref()].into_iter().flatten().any(|word| words::normal(word) == "QUOTA_EXCEEDED")
    } else {
        failure.quota_ids.iter().any(|id| id.to_ascii_uppercase().contains("PERDAY"))
    };
    if quota && daily {
        return Some(Delay::NextPacificMidnight);
    }
    failure.retry_after.filter(|wait| !wait.is_zero()).map(|wait| Delay::After(wait.min(LONGEST_DELAY)))
}

/// A word as part of a class: letters, digits and underscores, bounded, whatever an answer holds.
fn class_word(word: &str) -> String {
    word.chars().take(CLASS_CHARS).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
