//! `discard`: dead letters given up by a person.

use super::args;
use super::dead::{all_letters, short_id};
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::replay::{FOR_PEOPLE, class_and_outcome};
use super::table::{count, limit, low_row, plain, table, text};
use crate::app::discard::{self, Discarded, DiscardedItem, Outcome};
use crate::app::engine::Engine;
use crate::app::replay::select::Which;

/// Discards, or tells what would be.
pub async fn discard(context: &Context, args: &args::Discard) -> Result<Exit, Stop> {
    let letters = &args.letters;
    // Whoever names them means them.
    let dry_run = letters.ids.is_empty() && !args.apply;
    if !dry_run && args.reason.is_none() {
        return Err(Stop::Usage("--reason WHY is needed, for whoever wonders later; nothing was done".to_owned()));
    }
    let desk = open::look(context).await?;
    let run = letters.run(&desk).await?;
    let which = Which {
        class: letters.class.as_deref(),
        ids: (!letters.ids.is_empty()).then_some(letters.ids.as_slice()),
        run: run.as_deref(),
        limit: letters.limit(),
        ..Which::default()
    };
    let told = discard::discard(&desk.engine, &which, args.reason.as_deref().unwrap_or_default(), dry_run).await?;
    report(context, &desk.engine, &told).await
}

async fn report(context: &Context, engine: &Engine, told: &Discarded) -> Result<Exit, Stop> {
    let console = &context.console;
    console.tell(told)?;
    let all = all_letters(engine).await?;
    let left = told.items.iter().filter(|item| item.outcome == Outcome::Left).count() as u64;
    if told.items.is_empty() {
        console.say(if all == 0 { "There are no dead letters." } else { "No dead letter is one of those." })?;
        return Ok(Exit::Done);
    }
    console.say(&items_table(&told.items))?;
    let more = told.items.len().saturating_sub(FOR_PEOPLE);
    if more > 0 {
        console.say(&format!("and {more} more (--json lists all of them)\n"))?;
    }
    if told.dry_run {
        let would = told.items.iter().filter(|item| item.outcome == Outcome::WouldDiscard).count();
        console.say(&format!(
            "{would} would be discarded, of {}. Nothing was done{}",
            count(all, "dead letter"),
            if would > 0 { ": add\n--reason WHY --apply to do it." } else { "." },
        ))?;
        return Ok(Exit::Done);
    }
    console.say(&format!("{} discarded, {left} left.", count(told.discarded, "dead letter")))?;
    if told.items.iter().any(|item| item.outcome == Outcome::Discarded && item.why.is_some()) {
        console.note(&format!(
            "Nothing was cancelled at Gemini. This stops what may still run of one there:\n  {}",
            see(context, "cancel ID")
        ));
    }
    Ok(if left == 0 { Exit::Done } else { Exit::Parked })
}

fn items_table(items: &[DiscardedItem]) -> String {
    let mut rows = table(&["id", "class\noutcome"]);
    for item in items.iter().take(FOR_PEOPLE) {
        let outcome = match item.outcome {
            Outcome::WouldDiscard => "would be discarded",
            Outcome::Discarded => "discarded",
            Outcome::Left => "left",
        };
        let why = item.why.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
        let told = class_and_outcome(&item.class, item.key.as_deref(), outcome, &why);
        rows.add_row(low_row([short_id(&plain(&item.id)), told], 4));
    }
    limit(&mut rows, 0, 34);
    text(rows)
}
