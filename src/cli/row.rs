//! `row`: what became of one row of a run.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::args::Row;
use super::find;
use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::progress::standing;
use super::table::{align_right, count, facts, limit, low_row, plain, table, text};
use crate::app::batch::row::{Blame, End, Found, Letter, LetterItem, RowState, Story, Try, story};
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{BadLine, Item};
use crate::domain::job::clip;
use crate::domain::part::PartId;
use crate::domain::pass::find as lines;
use crate::domain::time::Millis;

/// How much of a value is shown, in bytes.
const SHOWN: usize = 500;

/// Tells it.
pub async fn row(context: &Context, args: &Row) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    let (intake, run) = find::run(&desk.engine, &args.run).await?;
    let Some(story) = story(&desk.engine, &intake, &run, &args.key).await? else {
        return Err(Stop::Usage(format!(
            "the run {} ({}) has no row with the key {}",
            run.key.chars().take(12).collect::<String>(),
            intake.file,
            args.key
        )));
    };
    let telling = Telling { context, intake: &intake, run: &run, key: &args.key, story: &story };
    context.console.tell(&telling.json()?)?;
    context.console.say(&telling.text(desk.engine.clock.now())?)?;
    Ok(Exit::Done)
}

/// What `--json` prints. A struct, since the value's own text is kept, integers of any size included.
#[derive(Serialize)]
struct RowJson<'a> {
    run: &'a str,
    file: &'a str,
    key: &'a str,
    state: &'a str,
    part: Option<&'a PartId>,
    attempts: Vec<Value>,
    result: Option<ResultJson<'a>>,
    dead: Option<Value>,
    bad_lines: Vec<Value>,
}

#[derive(Serialize)]
struct ResultJson<'a> {
    object: &'a str,
    offset: u64,
    length: usize,
    value: &'a RawValue,
    usage: &'a RawValue,
    attempt: u32,
}

struct Telling<'a> {
    context: &'a Context,
    intake: &'a Intake,
    run: &'a Run,
    key: &'a str,
    story: &'a Story,
}

impl Telling<'_> {
    fn json(&self) -> Result<RowJson<'_>, Stop> {
        let Story { state, part, attempts, result, dead, bad_lines } = self.story;
        let bad_line =
            |bad: &BadLine| json!({"id": Item::BadLine(bad.clone()).id(), "class": bad.class, "message": bad.message});
        Ok(RowJson {
            run: &self.run.key,
            file: &self.intake.file,
            key: self.key,
            state: state.word(),
            part: part.as_ref(),
            attempts: attempts.iter().map(try_json).collect(),
            result: result.as_ref().map(result_json).transpose()?,
            dead: dead.as_ref().map(letter_json),
            bad_lines: bad_lines.iter().map(bad_line).collect(),
        })
    }

    fn text(&self, now: Millis) -> Result<String, Stop> {
        let story = self.story;
        let mut known = vec![
            ("row", plain(self.key)),
            ("of", plain(&format!("{}, run {}", self.intake.file, self.run.key))),
            ("state", self.state()),
        ];
        if let Some(found) = &story.result {
            let line = lines::result(&found.line).map_err(|why| broken(found, &why))?;
            known.push(("value", plain(&clip(line.value.get(), SHOWN))));
            known.push(("result", plain(&self.place(found))));
        }
        if let Some(letter) = &story.dead {
            known.push(("class", plain(&letter.blame.class)));
            known.push(("message", plain(&letter.blame.message)));
            known.push(("dead letter", self.letter(letter)));
            known.push(("dead row", plain(&self.place(&letter.line))));
        }
        for bad in &story.bad_lines {
            let id = Item::BadLine(bad.clone()).id().to_string();
            known.push(("bad line", plain(&format!("line {}: {} ({id})", bad.input.line, bad.message))));
        }
        let mut told = facts(known);
        if !story.attempts.is_empty() {
            told.push('\n');
            told.push_str(&tries_table(&story.attempts, now));
        }
        Ok(told)
    }

    fn state(&self) -> String {
        let word = self.story.state.word().replace('_', " ");
        let tries = self.story.attempts.last().map(|last| last.number);
        match self.story.state {
            RowState::UnderWay => format!("{word}, in attempt {}", tries.unwrap_or(1)),
            RowState::Waiting if self.run.held.is_some() && !self.is_replayed() => {
                format!("{word}; the run is held: `{}`", see(self.context, "status"))
            }
            RowState::Waiting => format!("{word} for attempt {}", tries.unwrap_or(0) + 1),
            _ => word,
        }
    }

    /// Whether a replay has it now, which goes out although its run waits for a person.
    fn is_replayed(&self) -> bool {
        self.story.part.as_ref().is_some_and(PartId::is_replay)
    }

    /// Where a line lies.
    fn place(&self, found: &Found) -> String {
        format!("{}, from byte {}", self.context.path(&found.object), found.at)
    }

    fn letter(&self, letter: &Letter) -> String {
        let id = letter.id.to_string();
        let id = plain(id.strip_prefix("row/").unwrap_or(&id));
        match &letter.item {
            LetterItem::None => "is still to be made".to_owned(),
            LetterItem::Row(row) => match &row.replayed_in {
                Some(part) => {
                    let times = count(u64::from(row.replays), "time");
                    format!("{id}, {}; replayed {times}, the last one in part {part}", row.state)
                }
                None => format!("{id}, {}", row.state),
            },
            LetterItem::Group(group) => format!("{id}, {}, with {} more", group.state, group.count().saturating_sub(1)),
        }
    }
}

fn broken(found: &Found, why: &str) -> Stop {
    Stop::Person(format!("{} is broken at byte {}: {why}", found.object, found.at))
}

fn result_json(found: &Found) -> Result<ResultJson<'_>, Stop> {
    let line = lines::result(&found.line).map_err(|why| broken(found, &why))?;
    Ok(ResultJson {
        object: &found.object,
        offset: found.at,
        length: found.line.len(),
        value: line.value,
        usage: line.usage,
        attempt: line.attempt,
    })
}

fn letter_json(letter: &Letter) -> Value {
    let (state, replays) = match &letter.item {
        LetterItem::None => (None, 0),
        LetterItem::Row(row) => (Some(row.state), row.replays),
        LetterItem::Group(group) => (Some(group.state), group.replays),
    };
    json!({
        "id": letter.id, "state": state, "class": letter.blame.class, "message": letter.blame.message,
        "attempts": letter.attempts, "replays": replays, "object": letter.line.object, "offset": letter.line.at,
        "length": letter.line.line.len(),
    })
}

fn try_json(one: &Try) -> Value {
    let blame = blame(&one.end);
    let job = one.job.as_ref();
    json!({
        "attempt": one.number, "part": one.part, "part_attempt": one.attempt, "outcome": outcome(&one.end),
        "class": blame.map(|blame| &blame.class), "message": blame.map(|blame| &blame.message),
        "job": job.map(|job| &job.key), "job_state": job.map(|job| job.state),
        "handle": handle(one), "output": job.and_then(|job| job.answer.as_ref()),
    })
}

/// The batch job that the attempt came to be, the latest if there were several.
fn handle(one: &Try) -> Option<&str> {
    one.job.as_ref()?.handles.last().map(|handle| handle.id.as_str())
}

const fn blame(end: &End) -> Option<&Blame> {
    match end {
        End::Died(blame) | End::Failed(blame) | End::Lost(blame) => Some(blame),
        End::Succeeded | End::Open => None,
    }
}

const fn outcome(end: &End) -> &'static str {
    match end {
        End::Succeeded => "succeeded",
        End::Died(_) => "died",
        End::Failed(_) => "failed",
        End::Lost(_) => "no_outcome",
        End::Open => "open",
    }
}

fn tries_table(tries: &[Try], now: Millis) -> String {
    let mut rows = table(&["attempt", "part", "batch at gemini", "outcome", "why"]);
    for one in tries {
        let why = match (&one.end, &one.job) {
            (End::Open, Some(job)) => standing(job, Some(now)),
            (end, _) => blame(end).map_or_else(String::new, |blame| match blame.message.as_str() {
                "" => blame.class.clone(),
                message => format!("{}: {message}", blame.class),
            }),
        };
        let part = format!("{}.{}", one.part, one.attempt);
        let outcome = outcome(&one.end).replace('_', " ");
        let handle = plain(handle(one).unwrap_or_default());
        rows.add_row(low_row([one.number.to_string(), part, handle, outcome, plain(&why)], 4));
    }
    align_right(&mut rows, [0]);
    limit(&mut rows, 2, 26);
    text(rows)
}
