//! `summary`: what waits for a person, and what is deleted when.

use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::table::{WIDTH, wrapped};
use crate::app::summary::expiry::SQS_KEEPS;
use crate::app::summary::summary as summarize;

/// Tells it.
pub async fn summary(context: &Context) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    // The queue of a folder keeps what nobody deletes.
    let messages_kept = context.stack.is_some().then_some(SQS_KEEPS);
    let summary = summarize(&*desk.engine.ledger, desk.engine.clock.now(), messages_kept).await?;
    context.console.tell(&summary)?;
    let text = summary.text(&|command| see(context, command));
    context.console.say(&text.lines().map(fitted).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

/// A line as it is, or a sentence that is too long for one as several.
fn fitted(line: &str) -> String {
    if line.starts_with(' ') || line.chars().count() <= WIDTH.into() { line.to_owned() } else { wrapped(line) }
}
