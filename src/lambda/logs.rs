//! Structured logs: one JSON object a line, with the invocation's id.

use lambda_runtime::Error;
use tracing_subscriber::EnvFilter;

/// What is logged when `GLEANER_LOG` says nothing.
const DEFAULT: &str = "info";

/// Starts them, on standard output, which Lambda collects.
pub(super) fn start() -> Result<(), Error> {
    let text = std::env::var("GLEANER_LOG").ok().filter(|text| !text.trim().is_empty());
    let filter = EnvFilter::try_new(text.as_deref().unwrap_or(DEFAULT))
        .map_err(|error| format!("the setting GLEANER_LOG can't be read: {error}"))?;
    tracing_subscriber::fmt().json().flatten_event(true).with_span_list(false).with_env_filter(filter).try_init()
}
