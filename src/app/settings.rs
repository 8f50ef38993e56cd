//! Settings: `GLEANER_*` and `GEMINI_*`, the same names everywhere (design, section 10).

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::domain::model::{NO_URL, path};
use crate::domain::policy::{OnUnclear, Policy};

/// Gemini's own address.
pub const GEMINI_BASE_URL: &str = "https://generativelanguage.googleapis.com";

/// A setting that can't be read. Nothing starts with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the setting {name} can't be read: {why} (it is {value:?})")]
pub struct SettingError {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

/// Every setting, read once at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `GEMINI_BASE_URL`.
    pub base_url: String,
    /// Where the API keys are set, as people call it.
    pub keys_in: String,
    /// `GLEANER_MODEL`: for lines that name none.
    pub model: String,
    /// `GLEANER_MAX_ATTEMPTS`: per job, where the intake says nothing.
    pub max_attempts: u32,
    /// `GLEANER_DEADLINE`: of one attempt, where the intake says nothing.
    pub deadline: Duration,
    /// `GLEANER_CONCURRENCY`: requests to Gemini under way at once.
    pub concurrency: usize,
    /// `GLEANER_HTTP_TIMEOUT`: one request.
    pub http_timeout: Duration,
    /// `GLEANER_ON_RESULT_TIMEOUT`: how long a command may take that a result is handed on to.
    pub on_result_timeout: Duration,
    /// Where runs are split into parts, and how many go out at once.
    pub parts: Parts,
    /// How Gemini calls back.
    pub webhook: Webhook,
    /// The waits and choices behind a job's moves.
    pub policy: Policy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_url: GEMINI_BASE_URL.to_owned(),
            keys_in: "GEMINI_API_KEY".to_owned(),
            model: "gemini-flash-latest".to_owned(),
            max_attempts: 4,
            deadline: Duration::from_secs(72 * 3600),
            concurrency: 16,
            http_timeout: Duration::from_secs(60),
            on_result_timeout: Duration::from_secs(10 * 60),
            parts: Parts::default(),
            webhook: Webhook::default(),
            policy: Policy::default(),
        }
    }
}

/// How Gemini calls back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Webhook {
    /// `GLEANER_WEBHOOK_URL`: where the event of each job is to be sent. None: nowhere, or to the webhooks that are
    /// registered.
    pub url: Option<String>,
    /// `GLEANER_WEBHOOK_KEYS`: where Gemini's public keys are. None: at [`KEYS_PATH`] of `GEMINI_BASE_URL`.
    pub keys: Option<String>,
    /// `GLEANER_WEBHOOK_AUDIENCE`: whom tokens must be for. None: for anybody.
    pub audience: Option<String>,
}

/// Where Gemini's public keys are (<https://ai.google.dev/gemini-api/docs/webhooks>).
pub const KEYS_PATH: &str = "/.well-known/jwks.json";

/// How batch runs go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// `GLEANER_PART_ROWS`.
    pub rows: u64,
    /// `GLEANER_PART_BYTES`.
    pub bytes: u64,
    /// `GLEANER_PART_TOKENS`: estimated, four bytes of a request each.
    pub tokens: u64,
    /// `GLEANER_BATCH_JOBS`: batch jobs under way at once.
    pub at_once: usize,
}

impl Default for Parts {
    fn default() -> Self {
        Self { rows: 200_000, bytes: 1_900_000_000, tokens: 2_500_000, at_once: 100 }
    }
}

/// The names of all settings, with their defaults and what they are, for `--help` and for telling unknown ones.
pub const NAMES: &[(&str, &str, &str)] = &[
    ("GEMINI_API_KEY", "", "the API key; several with commas between: the first creates, all read"),
    ("GEMINI_BASE_URL", GEMINI_BASE_URL, "where Gemini is"),
    ("GLEANER_DATA", ".gleaner", "the data folder"),
    ("GLEANER_MODEL", "gemini-flash-latest", "for lines that name none"),
    ("GLEANER_MAX_ATTEMPTS", "4", "per job"),
    ("GLEANER_DEADLINE", "72h", "of one attempt; then it is given up"),
    ("GLEANER_CONCURRENCY", "16", "requests to Gemini under way at once"),
    ("GLEANER_HTTP_TIMEOUT", "60s", "one request"),
    ("GLEANER_CALL_TIMEOUT", "10m", "one plain call; Gemini answers when it is done"),
    ("GLEANER_SUBMIT_LEASE", "120s", "submit and consume leases"),
    ("GLEANER_UNCLEAR_GRACE", "15m", "how long an unclear create waits before the policy decides"),
    ("GLEANER_ON_UNCLEAR", "resubmit", "or park"),
    ("GLEANER_POLL_MIN", "10s", "first wait between two looks at a running job"),
    ("GLEANER_POLL_MAX", "5m", "longest wait between two looks (at a batch job a tenth of its age, if that is longer)"),
    ("GLEANER_NOT_FOUND_GRACE", "10m", "how long 403 or 404 on a known handle is not believed"),
    ("GLEANER_BACKOFF_BASE", "2s", "back-off between attempts: base"),
    ("GLEANER_BACKOFF_MAX", "30s", "back-off between attempts: cap"),
    ("GLEANER_GATE_WAIT", "30s", "how long submission stops when Gemini refuses and names no time; doubles"),
    ("GLEANER_GATE_WAIT_MAX", "10m", "where that doubling ends"),
    ("GLEANER_ON_RESULT_TIMEOUT", "10m", "one command of --on-result"),
    ("GLEANER_LIST_GAP", "2m", "between the two listings that prove a batch was not created"),
    ("GLEANER_PART_ROWS", "200000", "where a batch run is split into parts: rows"),
    ("GLEANER_PART_BYTES", "1900MB", "the same: bytes; Gemini takes files of at most 2 GB"),
    ("GLEANER_PART_TOKENS", "2500000", "the same: estimated tokens; Gemini bounds those that wait, by tier"),
    ("GLEANER_BATCH_JOBS", "100", "batch jobs under way at once"),
    (
        "GLEANER_WEBHOOK_URL",
        "",
        "where Gemini is to send the event of each job; unset for none, or for registered webhooks",
    ),
    ("GLEANER_WEBHOOK_KEYS", "", "where Gemini's public keys are [/.well-known/jwks.json of GEMINI_BASE_URL]"),
    ("GLEANER_WEBHOOK_AUDIENCE", "", "whom tokens that sign events must be for; unset for anybody"),
    ("GLEANER_LOG", "warn", "log filter for standard error, such as info or gleaner=debug"),
];

/// Where settings come from: a name in, its value out. An empty value counts as not set.
pub type Source<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Settings {
    /// Where Gemini's public keys are.
    #[must_use]
    pub fn webhook_keys(&self) -> String {
        self.webhook.keys.clone().unwrap_or_else(|| format!("{}{KEYS_PATH}", self.base_url.trim_end_matches('/')))
    }

    /// Reads every setting; those that are not set keep the value they have in `self`.
    ///
    /// # Errors
    /// The first setting that can't be read, with its name.
    pub fn read(mut self, source: Source<'_>) -> Result<Self, SettingError> {
        let at_least_a_moment = Duration::from_millis(1);
        text(source, "GEMINI_BASE_URL", &mut self.base_url);
        model(source, "GLEANER_MODEL", &mut self.model)?;
        number(source, "GLEANER_MAX_ATTEMPTS", 1..=100, &mut self.max_attempts)?;
        number(source, "GLEANER_CONCURRENCY", 1..=1000, &mut self.concurrency)?;
        duration(source, "GLEANER_DEADLINE", Duration::from_secs(1), &mut self.deadline)?;
        duration(source, "GLEANER_HTTP_TIMEOUT", at_least_a_moment, &mut self.http_timeout)?;
        duration(source, "GLEANER_ON_RESULT_TIMEOUT", at_least_a_moment, &mut self.on_result_timeout)?;
        number(source, "GLEANER_PART_ROWS", 1..=u64::MAX, &mut self.parts.rows)?;
        number(source, "GLEANER_PART_TOKENS", 1..=u64::MAX, &mut self.parts.tokens)?;
        number(source, "GLEANER_BATCH_JOBS", 1..=10_000, &mut self.parts.at_once)?;
        bytes(source, "GLEANER_PART_BYTES", &mut self.parts.bytes)?;
        url(source, "GLEANER_WEBHOOK_URL", &mut self.webhook.url)?;
        url(source, "GLEANER_WEBHOOK_KEYS", &mut self.webhook.keys)?;
        if let Some(audience) = set(source, "GLEANER_WEBHOOK_AUDIENCE") {
            self.webhook.audience = Some(audience);
        }
        let policy = &mut self.policy;
        duration(source, "GLEANER_CALL_TIMEOUT", at_least_a_moment, &mut policy.call_timeout)?;
        duration(source, "GLEANER_SUBMIT_LEASE", Duration::from_millis(100), &mut policy.submit_lease)?;
        duration(source, "GLEANER_UNCLEAR_GRACE", Duration::ZERO, &mut policy.unclear_grace)?;
        duration(source, "GLEANER_POLL_MIN", at_least_a_moment, &mut policy.poll_min)?;
        duration(source, "GLEANER_POLL_MAX", at_least_a_moment, &mut policy.poll_max)?;
        duration(source, "GLEANER_NOT_FOUND_GRACE", Duration::ZERO, &mut policy.not_found_grace)?;
        duration(source, "GLEANER_LIST_GAP", Duration::ZERO, &mut policy.list_gap)?;
        duration(source, "GLEANER_BACKOFF_BASE", Duration::ZERO, &mut policy.backoff_base)?;
        duration(source, "GLEANER_BACKOFF_MAX", Duration::ZERO, &mut policy.backoff_max)?;
        duration(source, "GLEANER_GATE_WAIT", at_least_a_moment, &mut policy.gate_wait)?;
        duration(source, "GLEANER_GATE_WAIT_MAX", at_least_a_moment, &mut policy.gate_wait_max)?;
        on_unclear(source, &mut policy.on_unclear)?;
        Ok(self)
    }
}

/// Names in `given` that begin with `GLEANER_` and are no setting: most likely misspelt.
pub fn unknown(given: impl Iterator<Item = String>) -> Vec<String> {
    let known = |name: &str| NAMES.iter().any(|(known, ..)| *known == name);
    given.filter(|name| name.starts_with("GLEANER_") && !name.starts_with("GLEANER_TEST_") && !known(name)).collect()
}

fn set(source: Source<'_>, name: &str) -> Option<String> {
    source(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn text(source: Source<'_>, name: &str, into: &mut String) {
    if let Some(value) = set(source, name) {
        *into = value;
    }
}

fn model(source: Source<'_>, name: &'static str, into: &mut String) -> Result<(), SettingError> {
    match set(source, name) {
        Some(value) if path(&value).is_none() => Err(SettingError { name, value, why: NO_URL.to_owned() }),
        Some(value) => {
            *into = value;
            Ok(())
        }
        None => Ok(()),
    }
}

fn number<N>(
    source: Source<'_>,
    name: &'static str,
    range: std::ops::RangeInclusive<N>,
    into: &mut N,
) -> Result<(), SettingError>
where
    N: std::str::FromStr + PartialOrd + fmt::Display,
{
    let Some(value) = set(source, name) else { return Ok(()) };
    match value.parse::<N>() {
        Ok(number) if range.contains(&number) => *into = number,
        _ => {
            let why = format!("it must be a whole number from {} to {}", range.start(), range.end());
            return Err(SettingError { name, value, why });
        }
    }
    Ok(())
}

fn duration(source: Source<'_>, name: &'static str, least: Duration, into: &mut Duration) -> Result<(), SettingError> {
    let Some(value) = set(source, name) else { return Ok(()) };
    match humantime::parse_duration(&value) {
        Ok(duration) if duration >= least => *into = duration,
        Ok(_) => {
            let why = format!("it must be at least {}", humantime::format_duration(least));
            return Err(SettingError { name, value, why });
        }
        Err(error) => {
            let why = format!("{error}; durations are written 250ms, 10s, 15m, 72h");
            return Err(SettingError { name, value, why });
        }
    }
    Ok(())
}

/// The largest file that Gemini takes (<https://ai.google.dev/gemini-api/docs/files>).
const LARGEST_FILE: u64 = 2_000_000_000;

fn bytes(source: Source<'_>, name: &'static str, into: &mut u64) -> Result<(), SettingError> {
    let Some(value) = set(source, name) else { return Ok(()) };
    match value.parse::<bytesize::ByteSize>() {
        Ok(size) if (1..=LARGEST_FILE).contains(&size.0) => *into = size.0,
        Ok(_) => return Err(SettingError { name, value, why: "it must be from 1B to 2GB".to_owned() }),
        Err(error) => {
            return Err(SettingError { name, value, why: format!("{error}; sizes are written 500kB, 100MB, 1900MB") });
        }
    }
    Ok(())
}

/// An address that events or keys come over: `https`, or `http` on this machine.
fn url(source: Source<'_>, name: &'static str, into: &mut Option<String>) -> Result<(), SettingError> {
    let Some(value) = set(source, name) else { return Ok(()) };
    let why = match value.parse::<reqwest::Url>() {
        Ok(url) if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() => {
            Some("it must have no user name, password or # in it".to_owned())
        }
        Ok(url) if url.scheme() == "https" && url.has_host() => None,
        Ok(url) if url.scheme() == "http" && url.host_str().is_some_and(is_this_machine) => None,
        Ok(_) => Some("it must be an https URL; http only for this machine".to_owned()),
        Err(error) => Some(format!("{error}; it must be like https://example.com/webhook")),
    };
    match why {
        None => *into = Some(value),
        Some(why) => return Err(SettingError { name, value, why }),
    }
    Ok(())
}

/// Whether a host is this machine: names that end with `localhost` are nobody else's
/// (<https://www.rfc-editor.org/rfc/rfc6761#section-6.3>).
fn is_this_machine(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]") || host.ends_with(".localhost")
}

fn on_unclear(source: Source<'_>, into: &mut OnUnclear) -> Result<(), SettingError> {
    let name = "GLEANER_ON_UNCLEAR";
    let Some(value) = set(source, name) else { return Ok(()) };
    *into = match value.as_str() {
        "resubmit" => OnUnclear::Resubmit,
        "park" => OnUnclear::Park,
        _ => return Err(SettingError { name, value, why: "it must be resubmit or park".to_owned() }),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &'static [(&'static str, &'static str)]) -> Result<Settings, SettingError> {
        let source = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Settings::default().read(&source)
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let documented = |name: &str| {
            let found = NAMES.iter().find(|(known, ..)| *known == name);
            found.map(|(_, value, _)| (*value).to_owned())
        };
        let mut blank = Settings::default();
        blank.policy.poll_max = Duration::from_secs(1);
        blank.max_attempts = 99;
        assert_eq!(blank.read(&documented), Ok(Settings::default()));
    }

    #[test]
    fn every_form_of_duration_is_read() {
        let settings =
            read(&[("GLEANER_POLL_MIN", "250ms"), ("GLEANER_POLL_MAX", "15m"), ("GLEANER_DEADLINE", "72h")]).unwrap();
        assert_eq!(settings.policy.poll_min, Duration::from_millis(250));
        assert_eq!(settings.policy.poll_max, Duration::from_secs(900));
        assert_eq!(settings.deadline, Duration::from_secs(72 * 3600));
    }

    #[test]
    fn what_cannot_be_read_is_an_error_with_its_name() {
        for (name, value) in [
            ("GLEANER_POLL_MIN", "ten"),
            ("GLEANER_POLL_MIN", "0s"),
            ("GLEANER_POLL_MIN", "10"),
            ("GLEANER_MODEL", ".."),
            ("GLEANER_MODEL", "models/."),
            ("GLEANER_MODEL", "tunedModels/"),
            ("GLEANER_MAX_ATTEMPTS", "0"),
            ("GLEANER_MAX_ATTEMPTS", "four"),
            ("GLEANER_CONCURRENCY", "-1"),
            ("GLEANER_ON_UNCLEAR", "retry"),
            ("GLEANER_SUBMIT_LEASE", "0s"),
            ("GLEANER_PART_BYTES", "many"),
            ("GLEANER_PART_BYTES", "3GB"),
            ("GLEANER_PART_ROWS", "0"),
            ("GLEANER_WEBHOOK_URL", "example.test/hook"),
            ("GLEANER_WEBHOOK_URL", "http://example.test/hook"),
            ("GLEANER_WEBHOOK_URL", "https://me:secret@example.test/hook"),
            ("GLEANER_WEBHOOK_URL", "https://example.test/hook#here"),
            ("GLEANER_WEBHOOK_URL", "http://localhost.test/hook"),
            ("GLEANER_WEBHOOK_URL", "http://notlocalhost/hook"),
            ("GLEANER_WEBHOOK_KEYS", "file:///etc/passwd"),
        ] {
            let source = |asked: &str| (asked == name).then(|| value.to_owned());
            let error = Settings::default().read(&source).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), (name, value));
            assert!(error.to_string().contains(name));
        }
    }

    #[test]
    fn events_come_over_plain_http_on_this_machine_only() {
        for url in ["http://127.0.0.1:1/a", "http://localhost/", "http://a1.execute-api.localhost:2/webhook"] {
            let source = |asked: &str| (asked == "GLEANER_WEBHOOK_URL").then(|| url.to_owned());
            assert_eq!(Settings::default().read(&source).unwrap().webhook.url.as_deref(), Some(url));
        }
    }

    #[test]
    fn misspelt_names_are_told() {
        let given = ["GLEANER_MODEL", "GLEANER_POLLMIN", "PATH", "GLEANER_TEST_PYTHON"].map(str::to_owned);
        assert_eq!(unknown(given.into_iter()), ["GLEANER_POLLMIN"]);
    }
}
