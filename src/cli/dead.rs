//! `dead`: the dead letters.

use std::time::Duration;

use serde_json::json;

use super::args;
use super::find;
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::table::{brief, count, limit, low_row, plain, table, text};
use crate::app::report::{Dead, dead as letters, status};
use crate::domain::job::{State, clip};
use crate::domain::time::Millis;

/// How much of a row's key is shown, in bytes.
const SHOWN_KEY: usize = 60;

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
    let found = letters(&desk.engine, args.class.as_deref(), run.as_deref(), most).await?;
    context.console.tell(&json!({"dead": found}))?;
    let status = status(&desk.engine).await?;
    let all: u64 =
        status.counts.items.iter().filter(|count| count.state == State::Parked).map(|count| count.items).sum();
    if found.is_empty() {
        let none = if all == 0 {
            "There are no dead letters.".to_owned()
        } else {
            let which = if run.is_some() { "of that run and class" } else { "of that class" };
            format!("None of the {} is {which}.", count(all, "dead letter"))
        };
        context.console.say(&none)?;
        return Ok(Exit::Done);
    }
    context.console.say(&letters_table(&found, status.at))?;
    context.console.say(&format!(
        "{} of {}. `{}` tells one's whole story.",
        found.len(),
        count(all, "dead letter"),
        see(context, "show ID")
    ))?;
    Ok(Exit::Done)
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
fn short_id(id: &str) -> String {
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
