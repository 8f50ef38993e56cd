//! The summary: once a day what waits for a person is counted, printed, and sent to whoever has subscribed.

use lambda_runtime::Error;
use serde_json::Value;
use tracing::info;

use super::{Service, metrics};
use crate::app::summary::Summary;
use crate::app::summary::expiry::SQS_KEEPS;
use crate::app::summary::summary;

/// Serves one invocation, whatever its event is: nothing in it is asked for.
///
/// # Errors
/// Trouble with the table; a topic that does not take the summary. Lambda then tries again: metrics are maxima, and a
/// mail that comes twice is better than none.
pub(super) async fn handle(service: &Service) -> Result<Value, Error> {
    let desk = service.desk()?;
    let summary = summary(&*desk.ledger, service.clock.now(), Some(SQS_KEEPS)).await?;
    metrics::print_summary(service, &summary)?;
    info!(
        summary.clean = summary.clean,
        summary.dead_letters = summary.dead_letters,
        summary.parked = summary.parked,
        summary.oldest_age_s = summary.oldest_age_s,
        summary.days_until_expiry = summary.days_until_expiry,
        summary.unsent_messages = summary.unsent_messages,
        summary.possible_duplicates = summary.possible_duplicates,
        summary.held_runs = summary.held_runs.len(),
        "{}",
        summary.line()
    );
    if let Some(topic) = desk.topic.as_ref().filter(|_| !summary.clean) {
        topic.tell(&subject(service, &summary), &text(service, &summary)).await?;
    }
    Ok(serde_json::to_value(&summary)?)
}

fn subject(service: &Service, summary: &Summary) -> String {
    format!("{}: {}", service.stack_name, summary.line())
}

fn text(service: &Service, summary: &Summary) -> String {
    let stack = &service.stack_name;
    let text = summary.text(&|command| format!("gleaner --stack {stack} {command}"));
    format!("The stack {stack} at {}.\n\n{text}\n", summary.at)
}
