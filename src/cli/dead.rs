//! `dead`: the dead letters.

use std::time::Duration;

use serde_json::json;

use super::args;
use super::find;
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::table::{brief, count, limit, low_row, plain, table, text};
use crate::app::engine::Engine;
use crate::app::replay::select::{Which, select};
use crate::app::report::{Dead, letter, status};
use crate::domain::item::Kind;
use crate::domain::job::{State, clip};
use crate::domain::time::Millis;
use crate::ports::ledger::Count;

/// How much of a row's key is shown, in bytes.
pub(super) const SHOWN_KEY: usize = 60;

/// How many are listed for people who don't say.
const FOR_PEOPLE: usize = 100;

/// Lists them.
pub async fn dead(context: &Context, args: &args::Dead) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    let most = args.limit.unwrap_or(if context.console.json { usize::MAX } else { FOR_PEOPLE });
    let run = match &args.run {
        Some(name) => Some(find::run(&desk.engine, name).await?.1.key),
        None => None,
    };
    let now = desk.engine.clock.now();
    // One of that very age is among them.
    let before = args.older_than.map(|age| Millis(now.0.saturating_sub(millis(age)).saturating_add(1)));
    let which = Which {
        class: args.class.as_deref(),
        ids: (!args.ids.is_empty()).then_some(args.ids.as_slice()),
        run: run.as_deref(),
        mode: args.mode.map(Into::into),
        before,
        limit: most,
    };
    let selected = select(&desk.engine, &which).await?;
    let found: Vec<Dead> = selected.letters.iter().filter_map(letter).collect();
    context.console.tell(&json!({"dead": found}))?;
    for (item, why) in &selected.others {
        context.console.note(&format!("{}: {why}", item.id()));
    }
    let all = all_letters(&desk.engine).await?;
    if found.is_empty() {
        let none = match all {
            0 => "There are no dead letters.".to_owned(),
            1 => "There is one dead letter, and it is not one of those.".to_owned(),
            all => format!("None of the {} is one of those.", count(all, "dead letter")),
        };
        context.console.say(&none)?;
        return Ok(Exit::Done);
    }
    context.console.say(&letters_table(&found, now))?;
    context.console.say(&format!(
        "{} of {}. `{}` tells one's whole story;\n`{}` tries them anew, `{}` gives them up.",
        found.len(),
        count(all, "dead letter"),
        see(context, "show ID"),
        see(context, "replay"),
        see(context, "discard ID"),
    ))?;
    Ok(Exit::Done)
}

fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// How many dead letters there are.
pub(super) async fn all_letters(engine: &Engine) -> Result<u64, Stop> {
    let counts = status(engine).await?.counts;
    let is_letter = |count: &&Count| {
        let kinds = [Kind::Job, Kind::BadLine, Kind::DeadRow, Kind::DeadGroup];
        count.state == State::Parked && kinds.contains(&count.kind)
    };
    Ok(counts.items.iter().filter(is_letter).map(|count| count.items).sum())
}

fn letters_table(letters: &[Dead], now: Millis) -> String {
    let mut rows = table(&["id\nattempts, last seen", "class\nmessage"]);
    for letter in letters {
        let seen = letter.last_seen.parse::<jiff::Timestamp>().map(|seen| Millis(seen.as_millisecond()));
        let seen = seen.map_or_else(|_| letter.last_seen.clone(), |seen| ago(now.since(seen)));
        let left = format!("{}\n{}, {seen}", short_id(&plain(&letter.id)), count(letter.attempts.into(), "attempt"));
        let key = letter.key.as_deref().map(|key| format!("row {}: ", plain(&clip(key, SHOWN_KEY))));
        let message = format!("{}{}", key.unwrap_or_default(), plain(&letter.message));
        rows.add_row(low_row([left, format!("{}\n{message}", plain(&letter.class))], 4));
    }
    // A key that gleaner made has 32 digits; one that people made may take two lines.
    limit(&mut rows, 0, 34);
    text(rows)
}

fn ago(age: Duration) -> String {
    format!("{} ago", brief(age))
}

/// The id as `show` takes it; that of a bad line or of many dead rows shortened, since it is longer than a line.
pub(super) fn short_id(id: &str) -> String {
    let mut parts = id.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(kind @ ("line" | "rows")), Some(of), Some(rest)) => {
            format!("{kind}/{}/{rest}", of.chars().take(12).collect::<String>())
        }
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_whatever_the_message_is() {
        let letter = |id: &str, class: &str, message: String, attempts| Dead {
            id: id.to_owned(),
            run: None,
            key: None,
            class: class.to_owned(),
            message,
            attempts,
            replays: 0,
            first_seen: "2026-11-29T22:00:00Z".to_owned(),
            last_seen: "2026-11-29T22:30:21Z".to_owned(),
        };
        let letters = [
            letter("3f2a9c0d41e7b6885a0c9d1e2f3a4b5c", "blocked:SAFETY", "安全フィルタ。".repeat(40), 1),
            letter(&"my-own-key-".repeat(5), "exhausted:retryable:503", "x\u{1b}[31m ".repeat(3), 4),
            letter(
                &format!("line/{}/12", "9f86d081".repeat(8)),
                "bad_line:json",
                "jobs.jsonl line 12: no".to_owned(),
                0,
            ),
        ];
        let now = "2026-11-29T23:31:21Z".parse::<jiff::Timestamp>().unwrap();
        insta::assert_snapshot!(letters_table(&letters, Millis(now.as_millisecond())), @r#"
ID                                CLASS
ATTEMPTS, LAST SEEN               MESSAGE
3f2a9c0d41e7b6885a0c9d1e2f3a4b5c  blocked:SAFETY
1 attempt, 1h 1m ago              安全フィルタ。安全フィルタ。安全フィルタ。安
                                  全フィルタ。安全フィルタ。安全フィルタ。安全
                                  フィルタ。安全フィルタ。安全フィルタ。安全…
my-own-key-my-own-key-my-own-key  exhausted:retryable:503
-my-own-key-my-own-key-           x�[31m x�[31m x�[31m
4 attempts, 1h 1m ago
line/9f86d0819f86/12              bad_line:json
0 attempts, 1h 1m ago             jobs.jsonl line 12: no
"#);
    }
}
