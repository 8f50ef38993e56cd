//! Structured logs: one JSON object a line, with the invocation's id.

use lambda_runtime::Error;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged when `GLEANER_LOG` says nothing.
const DEFAULT: &str = "info";

/// Starts them, on standard output, which Lambda collects.
///
/// A filter is a level, and targets with levels of their own: `info,gleaner::aws=debug`. What else the command line's filters
/// can say (fields, spans) would cost the functions a tenth of a megabyte, and the template takes none of it.
pub(super) fn start() -> Result<(), Error> {
    let text = std::env::var("GLEANER_LOG").ok().filter(|text| !text.trim().is_empty());
    let filter: Targets = text
        .as_deref()
        .unwrap_or(DEFAULT)
        .parse()
        .map_err(|error| format!("the setting GLEANER_LOG can't be read: {error}"))?;
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_span_list(false);
    Ok(tracing_subscriber::registry().with(lines).with(filter).try_init()?)
}
