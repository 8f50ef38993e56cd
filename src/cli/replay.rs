//! `replay`: dead letters tried anew, or told of.

use serde_json::value::RawValue;

use super::args;
use super::dead::{SHOWN_KEY, all_letters, short_id};
use super::find;
use super::hint::see;
use super::open::{self, Context, Desk};
use super::outcome::{Exit, Stop};
use super::signal::interruptible;
use super::table::{count, limit, low_row, plain, table, text};
use crate::app::replay::{self, LIMIT, Outcome, Replay, Replayed, ReplayedItem};
use crate::domain::job::clip;
use crate::domain::time::Millis;

/// How many are listed for people.
pub(super) const FOR_PEOPLE: usize = 100;

/// Replays, or tells what would be.
pub async fn replay(context: &Context, args: &args::Replay) -> Result<Exit, Stop> {
    // Who only looks needs no key.
    let desk = match args.apply {
        true => open::work_on(context, &args.simulate, None).await?,
        false => open::look(context).await?,
    };
    let request = asked(&desk, args).await?;
    let work = async {
        let replayed = replay::replay(&desk.engine, &request, Millis(i64::MAX)).await?;
        report(context, &desk, replayed).await
    };
    interruptible(&desk.engine, &context.console, work).await
}

async fn asked(desk: &Desk, args: &args::Replay) -> Result<Replay, Stop> {
    let letters = &args.letters;
    let request = args.request.as_ref().map(|json| {
        RawValue::from_string(json.clone()).map_err(|error| Stop::Usage(format!("--request is no JSON: {error}")))
    });
    Ok(Replay {
        limit: letters.limit(),
        dry_run: !args.apply,
        error_class: letters.class.clone(),
        ids: (!letters.ids.is_empty()).then(|| letters.ids.clone()),
        run: letters.run(desk).await?,
        model: args.model.clone(),
        request: request.transpose()?,
        rows_by: args.rows_by.map(Into::into).unwrap_or_default(),
        reason: args.reason.clone(),
    })
}

impl args::Letters {
    /// At most so many; as many as are named, where nobody says.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or_else(|| LIMIT.max(self.ids.len()))
    }

    /// The key of the run that is named.
    pub(super) async fn run(&self, desk: &Desk) -> Result<Option<String>, Stop> {
        match &self.run {
            Some(name) => Ok(Some(find::run(&desk.engine, name).await?.1.key)),
            None => Ok(None),
        }
    }
}

async fn report(context: &Context, desk: &Desk, replayed: Replayed) -> Result<Exit, Stop> {
    let console = &context.console;
    console.tell(&replayed)?;
    let (all, left) = (all_letters(&desk.engine).await?, left(&replayed));
    if replayed.items.is_empty() {
        console.say(match all {
            0 => "There are no dead letters.",
            _ => "No dead letter is one of those.",
        })?;
        return Ok(Exit::Done);
    }
    console.say(&items_table(&replayed.items))?;
    let more = replayed.items.len().saturating_sub(FOR_PEOPLE);
    if more > 0 {
        console.say(&format!("and {more} more (--json lists all of them)\n"))?;
    }
    if replayed.dry_run {
        let would = replayed.items.iter().filter(|item| item.outcome == Outcome::WouldReplay).count();
        console.say(&format!(
            "{would} would be replayed, of {}. Nothing was done{}",
            count(all, "dead letter"),
            if would > 0 { ": add\n--reason WHY --apply to do it." } else { "." },
        ))?;
    } else {
        console.say(&format!(
            "{} taken up: {} recovered, {} still failing, {} tried anew, {} left.",
            count(replayed.scanned, "dead letter"),
            replayed.recovered,
            replayed.still_failing,
            replayed.resubmitted,
            left,
        ))?;
        if replayed.resubmitted > 0 && context.stack.is_none() {
            console.say(&format!("What is tried anew ends by this, again and again:\n  {}", see(context, "tick")))?;
        }
    }
    if left > 0 && left == replayed.items.len() as u64 {
        console.note("None of these can be replayed: name others by --class or by their ids.");
    }
    if let Some(why) = replayed.trouble {
        return Err(Stop::Person(why));
    }
    if desk.engine.is_stopping() {
        return Ok(Exit::Interrupted);
    }
    let is_done = replayed.dry_run || (left == 0 && replayed.still_failing == 0);
    Ok(if is_done { Exit::Done } else { Exit::Parked })
}

fn left(replayed: &Replayed) -> u64 {
    replayed.items.iter().filter(|item| item.outcome == Outcome::Left).count() as u64
}

fn items_table(items: &[ReplayedItem]) -> String {
    let mut rows = table(&["id\nattempts", "class\noutcome"]);
    for item in items.iter().take(FOR_PEOPLE) {
        let outcome = match item.outcome {
            Outcome::WouldReplay => "would be replayed",
            Outcome::Recovered => "recovered",
            Outcome::StillFailing => "still failing",
            Outcome::Resubmitted => "tried anew",
            Outcome::Left => "left",
        };
        let many = item.rows.map(|rows| format!(": {}", count(rows, "row"))).unwrap_or_default();
        let why = item.why.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
        let why = format!("{many}{why}");
        let left = format!("{}\n{}", short_id(&plain(&item.id)), count(item.attempts.into(), "attempt"));
        rows.add_row(low_row([left, class_and_outcome(&item.class, item.key.as_deref(), outcome, &why)], 4));
    }
    limit(&mut rows, 0, 34);
    text(rows)
}

/// What stands beside an id.
pub(super) fn class_and_outcome(class: &str, key: Option<&str>, outcome: &str, why: &str) -> String {
    let key = key.map(|key| format!("row {}: ", plain(&clip(key, SHOWN_KEY)))).unwrap_or_default();
    format!("{}\n{key}{outcome}{why}", plain(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_and_says_why() {
        let item = |id: &str, key: Option<&str>, outcome, why: Option<&str>| ReplayedItem {
            id: id.to_owned(),
            run: None,
            key: key.map(str::to_owned),
            rows: id.starts_with("rows/").then_some(3050),
            class: "exhausted:503".to_owned(),
            attempts: 4,
            outcome,
            why: why.map(str::to_owned),
        };
        let items = [
            item("3f2a9c0d41e7b6885a0c9d1e2f3a4b5c", None, Outcome::WouldReplay, None),
            item(&"my-own-key-".repeat(5), Some("行-1"), Outcome::Resubmitted, None),
            item(&format!("line/{}/12", "9f86d081".repeat(8)), None, Outcome::Left, Some("hand in a corrected line")),
            item(&format!("rows/{}/blocked", "9f86d081".repeat(4)), None, Outcome::WouldReplay, None),
        ];
        insta::assert_snapshot!(items_table(&items), @r#"
ID                                CLASS
ATTEMPTS                          OUTCOME
3f2a9c0d41e7b6885a0c9d1e2f3a4b5c  exhausted:503
4 attempts                        would be replayed
my-own-key-my-own-key-my-own-key  exhausted:503
-my-own-key-my-own-key-           row 行-1: tried anew
4 attempts
line/9f86d0819f86/12              exhausted:503
4 attempts                        left: hand in a corrected line
rows/9f86d0819f86/blocked         exhausted:503
4 attempts                        would be replayed: 3050 rows
"#);
    }
}
