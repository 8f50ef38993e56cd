//! `show`: all about one item.

use serde_json::{Value, json};

use super::args::Show;
use super::find::find;
use super::hint::{quoted, see};
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::progress::waits_for_person;
use super::table::{align_right, brief, count, facts, low_row, plain, table, text};
use crate::app::consume::result_object;
use crate::app::engine::{Engine, Trouble};
use crate::app::lines::object_name;
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::gate::Gate;
use crate::domain::intake::{Intake, Run};
use crate::domain::item::{BadLine, Item};
use crate::domain::job::{InputRef, Job, excerpt};
use crate::domain::letter::Letter;
use crate::domain::part::{Counts, Part, Passed, attempt_key};
use crate::domain::time::Millis;
use crate::domain::webhook::{Event, Outcome, Stray};

/// How much of a line is shown, in bytes.
const EXCERPT: usize = 500;

/// Shows it.
pub async fn show(context: &Context, args: &Show) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    let item = find(&desk.engine, &args.id).await?;
    let paths = Paths::of(context, &desk.engine, &item).await?;
    context.console.tell(&as_json(&item, &paths)?)?;
    let now = desk.engine.clock.now();
    let text = match &item {
        Item::Job(job) => job_text(job, &paths, now),
        Item::Intake(intake) => intake_text(context, intake, &paths),
        Item::BadLine(bad) => bad_line_text(bad, &paths),
        Item::Gate(gate) => gate_text(gate),
        Item::Part(part) => part_text(part, &paths, now),
        Item::DeadRow(row) => dead_row_text(context, row, &paths),
        Item::DeadGroup(group) => dead_group_text(context, group),
        Item::Event(event) => event_text(event),
        Item::Stray(stray) => stray_text(stray),
    };
    context.console.say(&text)?;
    Ok(Exit::Done)
}

/// Where the files of an item lie, and the beginning of its line.
#[derive(Debug, Default)]
struct Paths {
    intake: Option<String>,
    result: Option<String>,
    answer: Option<String>,
    /// Of a part, an attempt or a dead row: the object that it lies in.
    rows: Option<String>,
    input: Option<String>,
    /// What a replay put in the place of a line's own fields.
    changes: Option<String>,
}

impl Paths {
    async fn of(context: &Context, engine: &Engine, item: &Item) -> Result<Self, Stop> {
        let mut paths = Self::default();
        match item {
            Item::Job(job) => {
                let result = result_object(&job.key);
                let size = engine.objects.size(&result).await.map_err(Trouble::from)?;
                paths.result = size.map(|_| context.path(&result));
                paths.answer = job.answer.as_deref().map(|name| context.path(name));
                if let Some(name) = &job.changes {
                    let bytes = engine.objects.read(name, 0..2 * EXCERPT as u64).await.map_err(Trouble::from)?;
                    paths.changes = Some(excerpt(&bytes, EXCERPT));
                }
                match &job.batch {
                    // Its input is not a line.
                    Some(attempt) => paths.rows = Some(context.path(&attempt.rows_at)),
                    None => paths.line(context, engine, &job.input).await?,
                }
            }
            Item::BadLine(bad) => paths.line(context, engine, &bad.input).await?,
            Item::Intake(intake) => paths.intake = Some(context.path(&object_name(&intake.sha256))),
            Item::Part(part) => paths.rows = Some(context.path(&part.rows_at)),
            Item::DeadRow(row) => {
                let (object, at, length) = &row.at;
                let shown = (*length).min(2 * EXCERPT as u64);
                let bytes = engine.objects.read(object, *at..*at + shown).await.map_err(Trouble::from)?;
                paths.input = Some(excerpt(&bytes, EXCERPT));
                paths.rows = Some(context.path(object));
            }
            Item::Gate(_) | Item::DeadGroup(_) | Item::Event(_) | Item::Stray(_) => {}
        }
        Ok(paths)
    }

    async fn line(&mut self, context: &Context, engine: &Engine, input: &InputRef) -> Result<(), Stop> {
        let name = object_name(&input.intake);
        let shown = input.length.min(2 * EXCERPT as u64);
        let bytes = engine.objects.read(&name, input.offset..input.offset + shown).await.map_err(Trouble::from)?;
        self.input = Some(excerpt(&bytes, EXCERPT));
        self.intake = Some(context.path(&name));
        Ok(())
    }
}

/// The whole item as it is stored, with `id`, `paths` and the beginning of its line beside it.
fn as_json(item: &Item, paths: &Paths) -> Result<Value, Stop> {
    let value = serde_json::to_value(item);
    let mut value = value.map_err(|error| Stop::Person(format!("the item can't be written as JSON: {error}")))?;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("id".to_owned(), json!(item.id()));
        let mut files = json!({"intake": paths.intake, "result": paths.result, "answer": paths.answer});
        if let (Some(rows), Some(files)) = (&paths.rows, files.as_object_mut()) {
            files.insert("rows".to_owned(), json!(rows));
        }
        fields.insert("paths".to_owned(), files);
        fields.insert("line".to_owned(), json!(paths.input));
        if let Some(changes) = &paths.changes {
            fields.insert("changed_by".to_owned(), json!(changes));
        }
    }
    Ok(value)
}

fn place(input: &InputRef, paths: &Paths) -> String {
    format!("line {} of {}", input.line, plain(paths.intake.as_deref().unwrap_or_default()))
}

fn job_text(job: &Job, paths: &Paths, now: Millis) -> String {
    let state = format!("{}, for {}", job.state, brief(now.since(job.since)));
    let mut known = vec![
        ("job", plain(&job.key.0)),
        ("state", state),
        ("model", plain(&job.model)),
        ("attempts", format!("{} of {}", job.attempts, job.max_attempts)),
    ];
    let due = job.due_at.map(|due| if due > now { format!("in {}", brief(due.since(now))) } else { "now".to_owned() });
    known.extend(due.map(|due| ("due", due)));
    if job.possible_duplicates > 0 {
        known.push(("duplicates", format!("{} possible", job.possible_duplicates)));
    }
    if !job.heard.is_empty() {
        let heard: Vec<String> = job.heard.iter().map(|heard| plain(&heard.id)).collect();
        known.push(("heard of", format!("{}, which Gemini has not shown yet", heard.join(", "))));
    }
    known.extend(letter_facts(job.replays, &job.letter));
    known.extend(paths.changes.as_deref().map(|changes| ("changes", plain(changes))));
    known.extend(job.class.as_deref().map(|class| ("class", plain(class))));
    known.extend(job.message.as_deref().map(|message| ("message", plain(message))));
    known.extend(paths.result.as_deref().map(|path| ("result", plain(path))));
    let answer = paths.answer.as_deref().filter(|answer| paths.result.as_deref() != Some(answer));
    known.extend(answer.map(|path| ("answer", plain(path))));
    match &job.batch {
        Some(attempt) => {
            known.push((
                "attempt of",
                format!("attempt {} of part {}, run {}", attempt.number, attempt.part, attempt.run),
            ));
            known.push(("rows", format!("{} ({} bytes)", attempt.rows, attempt.bytes)));
            known.extend(paths.rows.as_deref().map(|path| ("input", plain(path))));
            known.extend(attempt.file.as_ref().map(|file| ("uploaded", plain(&format!("{}, {}", file.name, file.at)))));
        }
        None => known.push(("from", place(&job.input, paths))),
    }
    known.extend(paths.input.as_deref().map(|line| ("line", plain(line))));
    let mut told = facts(known);
    if !job.handles.is_empty() {
        told.push('\n');
        told.push_str(&handles_table(job));
    }
    told.push('\n');
    told.push_str(&history_table(job));
    told
}

/// How often it was replayed, why a person did what last, and which message stands for it.
fn letter_facts(replays: u32, letter: &Letter) -> Vec<(&'static str, String)> {
    let mut known = Vec::new();
    if replays > 0 {
        known.push(("replays", replays.to_string()));
    }
    known.extend(letter.reason.as_deref().map(|reason| ("reason", plain(reason))));
    match (letter.number, letter.sent) {
        (0, _) => {}
        (number, Some(sent)) => known.push(("letter", format!("message {number}, sent {sent}"))),
        (number, None) => known.push(("letter", format!("message {number}, and a newer one is to be sent"))),
    }
    known
}

fn handles_table(job: &Job) -> String {
    let mut handles = table(&["handle at gemini", "attempt", "fate", "made"]);
    for handle in &job.handles {
        let fate = handle.fate.word().to_owned();
        handles.add_row(low_row([plain(&handle.id), handle.attempt.to_string(), fate, handle.at.to_string()], 8));
    }
    align_right(&mut handles, [1]);
    text(handles)
}

fn history_table(job: &Job) -> String {
    let mut history = table(&["time", "state", "attempts", "class"]);
    for moment in &job.history {
        let class = plain(moment.3.as_deref().unwrap_or_default());
        history.add_row(low_row([moment.0.to_string(), moment.1.to_string(), moment.2.to_string(), class], 2));
    }
    align_right(&mut history, [2]);
    text(history)
}

fn intake_text(context: &Context, intake: &Intake, paths: &Paths) -> String {
    let cursor = intake.cursor;
    let became = match &intake.run {
        Some(_) => format!("{} rows, {} bad lines", cursor.jobs, cursor.bad_lines),
        None => format!("{} jobs, {} repeats, {} bad lines", cursor.jobs, cursor.repeats, cursor.bad_lines),
    };
    let mut known = vec![
        ("file", plain(&intake.file)),
        ("sha256", intake.sha256.clone()),
        ("state", intake.state.to_string()),
        ("landed", intake.landed_at.to_string()),
        ("lines", format!("{}, {} of them taken", intake.lines, cursor.taken())),
        ("became", became),
        ("bytes", intake.bytes.to_string()),
    ];
    if let Some(run) = &intake.run {
        known.push(("run", run.key.clone()));
        known.push(("model", plain(&run.model)));
        known.push(("parts", format!("{} so far; `{}` tells of one", run.parts, see(context, &part_of(run)))));
        known.extend(waits_for_person(context, run).map(|held| ("held", held)));
    }
    known.extend(intake.cancelled.as_deref().map(|reason| ("cancelled", plain(reason))));
    known.extend(paths.intake.as_deref().map(|path| ("object", plain(path))));
    known.push(("more", format!("`{}` counts the states of all jobs", see(context, "status"))));
    facts(known)
}

fn part_of(run: &Run) -> String {
    format!("show part/{}/1", run.key.chars().take(12).collect::<String>())
}

fn part_text(part: &Part, paths: &Paths, now: Millis) -> String {
    let tally = part.tally();
    let mut became = vec![format!("{} succeeded", tally.succeeded + tally.recovered), format!("{} dead", tally.dead)];
    if tally.discarded > 0 {
        became.push(format!("{} discarded", tally.discarded));
    }
    let mut known = vec![
        ("part", format!("{} of run {}", part.part, part.run)),
        ("state", format!("{}, for {}", part.state.word().replace('_', " "), brief(now.since(part.since)))),
        ("model", plain(&part.model)),
        ("rows", format!("{}: {}", part.rows, became.join(", "))),
    ];
    if part.halved {
        let [one, other] = part.part.halves();
        known.push(("halved", format!("what was open went on as the parts {one} and {other}")));
    }
    known.extend(paths.rows.as_deref().map(|path| ("input", plain(path))));
    let mut told = facts(known);
    if !part.attempts.is_empty() {
        told.push('\n');
        told.push_str(&attempts_table(part));
    }
    told
}

fn attempts_table(part: &Part) -> String {
    let mut rows = table(&["attempt", "rows", "succeeded", "dead", "again", "ended", "job"]);
    for sending in &part.attempts {
        let passed = part.pass_of(sending.number).or_else(|| late_pass_of(part, sending.number));
        let of = |count: fn(&Counts) -> u64| passed.map(|passed| count(&passed.counts).to_string()).unwrap_or_default();
        let ended = sending.ended.as_ref().map(|(class, _)| plain(class)).unwrap_or_default();
        rows.add_row(low_row(
            [
                sending.number.to_string(),
                sending.rows.to_string(),
                of(|counts| counts.succeeded),
                of(|counts| counts.dead),
                of(|counts| counts.retry),
                ended,
                attempt_key(&part.run, &part.part, sending.number).0,
            ],
            3,
        ));
    }
    align_right(&mut rows, 0..5);
    text(rows)
}

fn late_pass_of(part: &Part, attempt: u32) -> Option<&Passed> {
    part.passes.iter().find(|passed| passed.attempt == attempt)
}

fn dead_row_text(context: &Context, row: &DeadRow, paths: &Paths) -> String {
    let start: String = row.run.chars().take(12).collect();
    let mut known = vec![
        ("dead row", plain(&row.key)),
        ("state", row.state.to_string()),
        ("class", plain(&row.class)),
        ("message", plain(&row.message)),
        ("attempts", format!("{}; it died in attempt {} of part {}", row.attempts, row.attempt, row.part)),
        ("first seen", row.first_seen.to_string()),
        ("last seen", row.since.to_string()),
    ];
    known.extend(letter_facts(row.replays, &row.letter));
    known.extend(row.replayed_in.as_ref().map(|part| ("replayed in", format!("part {part}"))));
    known.extend([
        ("kept in", format!("{}, from byte {}", plain(paths.rows.as_deref().unwrap_or_default()), row.at.1)),
        ("line", plain(paths.input.as_deref().unwrap_or_default())),
        ("more", format!("`{}`", see(context, &format!("row {start} {}", quoted(&plain(&row.key)))))),
    ]);
    facts(known)
}

fn event_text(event: &Event) -> String {
    let outcome = match &event.outcome {
        None => "it is being worked on".to_owned(),
        Some(Outcome::Queued(id)) => format!("work for {id} was queued"),
        Some(Outcome::Over(id)) => format!("{id} had ended"),
        Some(Outcome::Unknown) => "no job has what it names".to_owned(),
        Some(Outcome::Other) => "it is not about a job".to_owned(),
    };
    format!("Event {}, {} since {}: {outcome}", event.about, event.state, event.since)
}

fn stray_text(stray: &Stray) -> String {
    let events = count(stray.events.into(), "event");
    format!("No job has {} on record: {events} named it, the latest at {}", stray.handle, stray.since)
}

fn dead_group_text(context: &Context, group: &DeadGroup) -> String {
    let places = group.rows.iter().map(|(place, rows)| format!("{rows} in {place}")).collect::<Vec<_>>().join(", ");
    let start: String = group.run.chars().take(12).collect();
    let mut known = vec![
        ("dead rows", format!("{} of run {}", group.count(), group.run)),
        ("state", group.state.to_string()),
        ("class", plain(&group.class)),
        ("one message", plain(&group.message)),
        ("by attempt", places),
        ("first seen", group.first_seen.to_string()),
        ("last seen", group.since.to_string()),
    ];
    known.extend(letter_facts(group.replays, &group.letter));
    if !group.replayed_in.is_empty() {
        let parts: Vec<String> = group.replayed_in.iter().map(ToString::to_string).collect();
        known.push(("replayed in", format!("parts {}", parts.join(", "))));
    }
    known
        .push(("more", format!("`{}` has each with its error", see(context, &format!("results {start} --with-dead")))));
    facts(known)
}

fn bad_line_text(bad: &BadLine, paths: &Paths) -> String {
    let mut known = vec![
        ("bad line", format!("line {} of {}", bad.input.line, plain(&bad.file))),
        ("state", bad.state.to_string()),
        ("class", plain(&bad.class)),
        ("message", plain(&bad.message)),
        ("first seen", bad.first_seen.to_string()),
    ];
    known.extend(letter_facts(0, &bad.letter));
    known.extend([
        ("kept in", place(&bad.input, paths)),
        ("line", plain(paths.input.as_deref().unwrap_or(&bad.excerpt))),
    ]);
    facts(known)
}

fn gate_text(gate: &Gate) -> String {
    let mut known = vec![("gate", plain(&gate.name)), ("since", gate.since.to_string())];
    known.extend(gate.paused.as_deref().map(|reason| ("paused", plain(reason))));
    known.extend(gate.until.map(|until| ("closed until", until.to_string())));
    known.extend(gate.class.as_deref().map(|class| ("class", plain(class))));
    known.extend(gate.message.as_deref().map(|message| ("message", plain(message))));
    facts(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::job::{Fate, Handle, KeyId, Moment, Rev, State};
    use crate::ports::conformance::sample;

    fn job() -> Job {
        let at = Millis(1_764_455_421_000);
        let handle = |id: &str, fate| Handle {
            id: id.to_owned(),
            attempt: 1,
            key: KeyId("c29199065265".to_owned()),
            at,
            deadline: at,
            polls: 0,
            missing_since: None,
            fate,
            given_up_at: None,
            looks: 0,
        };
        let mut job = sample::job("3f2a9c0d41e7b6885a0c9d1e2f3a4b5c", Rev("r".to_owned()));
        job.input.line = 3;
        job.enter(State::Parked, None, at);
        job.attempts = 2;
        job.possible_duplicates = 1;
        job.handles = vec![handle(&format!("v1_{}", "Chda".repeat(30)), Fate::GivenUp), handle("v1_b", Fate::Ended)];
        job.class = Some("blocked:SAFETY".to_owned());
        job.message = Some(format!("安全フィルタにより拒否されました。\u{1b}[2J{}", "とても長い説明。".repeat(12)));
        job.answer = Some("answers/x.json".to_owned());
        job.parked_at = Some(at);
        job.replays = 1;
        job.letter.number = 2;
        job.letter.sent = Some(at);
        job.letter.reason = Some("the other model takes it".to_owned());
        job.history = vec![
            Moment(at, State::Reserving, 1, None),
            Moment(at, State::Submitted, 1, None),
            Moment(at, State::Parked, 2, Some("blocked:SAFETY".to_owned())),
        ];
        job
    }

    #[test]
    fn a_job_is_told_in_80_columns_and_harmlessly() {
        let paths = Paths {
            intake: Some(".gleaner/intakes/9f86.jsonl".to_owned()),
            result: None,
            answer: Some(".gleaner/answers/x.json".to_owned()),
            rows: None,
            input: Some("{\"input\": \"x\"}".to_owned()),
            changes: Some("{\"model\":\"gemini-pro-latest\"}".to_owned()),
        };
        let job = job();
        insta::assert_snapshot!(job_text(&job, &paths, job.since.plus(std::time::Duration::from_secs(3700))), @r#"
job         3f2a9c0d41e7b6885a0c9d1e2f3a4b5c
state       parked, for 1h 1m
model       gemini-flash-latest
attempts    2 of 4
duplicates  1 possible
replays     1
reason      the other model takes it
letter      message 2, sent 2025-11-29T22:30:21Z
changes     {"model":"gemini-pro-latest"}
class       blocked:SAFETY
message     安全フィルタにより拒否されました。�[2Jとても長い説明。とても長い説
            明。とても長い説明。とても長い説明。とても長い説明。とても長い説明
            。とても長い説明。とても長い説明。とても長い説明。とても長い説明。
            とても長い説明。とても長い説明。
answer      .gleaner/answers/x.json
from        line 3 of .gleaner/intakes/9f86.jsonl
line        {"input": "x"}

HANDLE AT GEMINI                       ATTEMPT  FATE      MADE
v1_ChdaChdaChdaChdaChdaChdaChdaChdaCh        1  given up  2025-11-29T22:30:21Z
daChdaChdaChdaChdaChdaChdaChdaChdaChd
aChdaChdaChdaChdaChdaChdaChdaChdaChda
ChdaChdaChda
v1_b                                         1  ended     2025-11-29T22:30:21Z

TIME                  STATE      ATTEMPTS  CLASS
2025-11-29T22:30:21Z  reserving         1
2025-11-29T22:30:21Z  submitted         1
2025-11-29T22:30:21Z  parked            2  blocked:SAFETY
"#);
    }
}
