//! `status`: what the data folder holds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::hint::see;
use super::open::{self, Context};
use super::outcome::{Exit, Stop};
use super::progress::{closed, out, waits_for_person};
use super::table::{align_right, brief, count, low_row, plain, table, text, wrapped};
use crate::app::batch::report::RunProgress;
use crate::app::engine::Engine;
use crate::app::gates::all_gates;
use crate::app::report::{Progress, Status, every, progress, status as count_ledger};
use crate::domain::gate::{EVERYTHING, Gate};
use crate::domain::intake::Intake;
use crate::domain::item::{Item, Kind};
use crate::domain::job::State;
use crate::domain::time::Millis;

/// How many attempts of a run are told one by one.
const OUT: usize = 10;

/// Counts it.
pub async fn status(context: &Context) -> Result<Exit, Stop> {
    let desk = open::look(context).await?;
    let status = count_ledger(&desk.engine).await?;
    let gates = all_gates(&desk.engine).await?;
    let intakes = reading(&desk.engine).await?;
    let runs = open_runs(&desk.engine, &intakes).await?;
    context.console.tell(&as_json(context, &status, &gates, &intakes, &runs))?;
    context.console.say(&states_table(&status))?;
    if !runs.is_empty() {
        context.console.say(&runs_text(context, &runs, status.at))?;
    }
    context.console.say(&notes(context, &status, &gates, &intakes))?;
    Ok(Exit::Done)
}

/// The runs that are not over.
async fn open_runs(engine: &Engine, reading: &[Intake]) -> Result<Vec<Progress>, Stop> {
    let mut open: BTreeSet<String> =
        reading.iter().filter(|intake| intake.run.is_some()).map(|intake| intake.sha256.clone()).collect();
    for state in [State::Waiting, State::UnderWay] {
        for item in every(engine, state, usize::MAX).await? {
            open.extend(item.intake().map(str::to_owned));
        }
    }
    let mut runs = Vec::new();
    for sha256 in open {
        runs.push(progress(engine, &sha256).await?);
    }
    runs.sort_by(|one, other| {
        (one.intake.landed_at, &one.intake.sha256).cmp(&(other.intake.landed_at, &other.intake.sha256))
    });
    Ok(runs)
}

fn run_json(progress: &Progress, run: &RunProgress) -> Value {
    let tally = run.tally;
    let out = run.parts.iter().filter(|part| part.is_out() && !part.state.is_closed());
    let out = out.filter_map(|part| {
        let latest = part.latest()?;
        let job = run.job_of(part, latest.number);
        Some(json!({
            "part": part.part, "attempt": latest.number, "rows": latest.rows, "job": job.map(|job| &job.key),
            "state": job.map(|job| job.state), "since": job.map(|job| job.since.to_string()),
            "handle": job.and_then(|job| job.handles.last()).map(|handle| &handle.id),
            "class": job.and_then(|job| job.class.as_ref()),
        }))
    });
    json!({
        "run": run.run.key, "file": progress.intake.file, "model": run.run.model, "rows": run.rows(),
        "settled": settled(run), "succeeded": tally.consumed + tally.recovered, "dead": tally.parked,
        "discarded": tally.discarded, "open": tally.open, "waiting": progress.waiting(),
        "bad_lines": tally.bad_lines, "parts": run.parts.iter().filter(|part| !part.halved).count(),
        "attempts": run.attempts(), "out": out.collect::<Vec<_>>(), "held": run.run.held,
        "cancelled": progress.intake.cancelled, "possible_duplicates": tally.possible_duplicates,
    })
}

fn settled(run: &RunProgress) -> u64 {
    run.rows().saturating_sub(run.tally.open)
}

/// A line for each run, and below it what is out of it.
fn runs_text(context: &Context, runs: &[Progress], now: Millis) -> String {
    let mut rows = table(&["run", "rows", "settled", "dead", "parts", "attempts", "key"]);
    let mut below = String::new();
    for progress in runs {
        let Some(run) = &progress.run else { continue };
        let key: String = run.run.key.chars().take(12).collect();
        let parts = run.parts.iter().filter(|part| !part.halved).count();
        let cells = [run.rows(), settled(run), run.tally.parked, parts as u64, run.attempts()];
        let cells = cells.map(|n| n.to_string());
        rows.add_row(low_row(
            std::iter::once(plain(&progress.intake.file)).chain(cells).chain([key.clone()]).collect::<Vec<_>>(),
            2,
        ));
        for line in out(run, Some(now), OUT).into_iter().chain(waits_for_person(context, &run.run)) {
            below.push_str(&wrapped(&format!("{key}: {line}")));
            below.push('\n');
        }
    }
    align_right(&mut rows, 1..6);
    format!("{}{below}", text(rows))
}

/// The intakes whose lines are not all taken yet.
async fn reading(engine: &Engine) -> Result<Vec<Intake>, Stop> {
    let items = every(engine, State::Reading, usize::MAX).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            Item::Intake(intake) => Some(intake),
            _ => None,
        })
        .collect())
}

/// How many items of a kind are in a state, and how long the oldest has been, in whole seconds.
fn of(status: &Status, kind: Kind, state: State) -> (u64, Option<u64>) {
    let found = status.counts.items.iter().find(|count| count.kind == kind && count.state == state);
    found.map_or((0, None), |count| (count.items, count.oldest.map(|oldest| status.at.since(oldest).as_secs())))
}

fn as_json(context: &Context, status: &Status, gates: &[Gate], intakes: &[Intake], runs: &[Progress]) -> Value {
    let states: Map<String, Value> = State::OF_JOBS
        .into_iter()
        .map(|state| {
            let (items, oldest) = of(status, Kind::Job, state);
            let told = status.counts.has_closed || state.is_listed();
            (state.word().to_owned(), json!({"count": told.then_some(items), "oldest_age_s": oldest}))
        })
        .collect();
    let paused = gates.iter().find(|gate| gate.name == EVERYTHING).and_then(|gate| gate.paused.as_deref());
    json!({
        "states": states,
        "waiting": status.waiting,
        "bad_lines": of(status, Kind::BadLine, State::Parked).0,
        "dead_rows": of(status, Kind::DeadRow, State::Parked).0,
        "dead_groups": of(status, Kind::DeadGroup, State::Parked).0,
        "paused": paused,
        "gates": gates.iter().filter(|gate| gate.name != EVERYTHING).map(|gate| json!({
            "name": gate.name, "closed": closed(context, gate, status.at).is_some(),
            "until": gate.until.map(|until| until.to_string()), "class": gate.class, "message": gate.message,
            "needs_person": gate.needs_person,
        })).collect::<Vec<_>>(),
        "intakes": intakes.iter().map(|intake| json!({
            "sha256": intake.sha256, "file": intake.file, "lines": intake.lines, "taken": intake.cursor.taken(),
            "cancelled": intake.cancelled,
        })).collect::<Vec<_>>(),
        "runs": runs.iter().filter_map(|run| Some(run_json(run, run.run.as_ref()?))).collect::<Vec<_>>(),
        // Of the last two days; a ledger that doesn't list them has them as metrics.
        "events": status.counts.has_closed.then(|| json!({
            "handled": of(status, Kind::Event, State::Handled).0, "taken": of(status, Kind::Event, State::Taken).0,
            "unmatched_handles": of(status, Kind::Stray, State::Unmatched).0,
        })),
        "intakes_read": status.counts.has_closed.then(|| of(status, Kind::Intake, State::Read).0),
        "next_due": status.next_due.map(|due| due.to_string()),
        "at": status.at.to_string(),
    })
}

fn states_table(status: &Status) -> String {
    let mut states = table(&["state", "jobs", "oldest"]);
    for state in State::OF_JOBS.into_iter().filter(|state| status.counts.has_closed || state.is_listed()) {
        let (items, oldest) = of(status, Kind::Job, state);
        let age = oldest.filter(|_| items > 0).map(|age| brief(std::time::Duration::from_secs(age)));
        states.add_row(vec![state.word().to_owned(), items.to_string(), age.unwrap_or_default()]);
    }
    align_right(&mut states, [1, 2]);
    text(states)
}

fn notes(context: &Context, status: &Status, gates: &[Gate], intakes: &[Intake]) -> String {
    let mut notes = String::new();
    let mut add = |line: String| {
        notes.push_str(&line);
        notes.push('\n');
    };
    if intakes.is_empty() {
        add("Every line has been taken up.".to_owned());
    } else {
        let mut files = table(&["file", "lines", "waiting", "sha256"]);
        for intake in intakes {
            let waiting = intake.lines.saturating_sub(intake.cursor.taken());
            let sha256 = intake.sha256.chars().take(12).collect();
            files.add_row(low_row([plain(&intake.file), intake.lines.to_string(), waiting.to_string(), sha256], 2));
        }
        align_right(&mut files, [1, 2]);
        add(text(files));
    }
    let bad = of(status, Kind::BadLine, State::Parked).0;
    if bad > 0 {
        add(format!("{}: `{}`", count(bad, "bad line"), see(context, "dead --class bad_line")));
    }
    let (rows, groups) = (of(status, Kind::DeadRow, State::Parked).0, of(status, Kind::DeadGroup, State::Parked).0);
    if rows > 0 {
        add(format!("{} of batch runs: `{}`", count(rows, "dead row"), see(context, "dead")));
    }
    if groups > 0 {
        add(format!("{} of rows that died alike: `{}`", count(groups, "group"), see(context, "dead")));
    }
    let (events, strays) = (of(status, Kind::Event, State::Handled).0, of(status, Kind::Stray, State::Unmatched).0);
    if events > 0 {
        let unmatched = match strays {
            0 => String::new(),
            1 => "; one handle that they named is no job's".to_owned(),
            strays => format!("; {strays} handles that they named are no job's"),
        };
        add(format!("{} of Gemini's came within two days{unmatched}.", count(events, "event")));
    }
    let held: Vec<String> = gates.iter().filter_map(|gate| closed(context, gate, status.at)).collect();
    for held in &held {
        add(wrapped(&format!("Nothing new is sent: {held}")));
    }
    if let Some(next) = next(status, !held.is_empty()) {
        add(next);
    }
    notes
}

/// When something is due next, in a sentence; none when nothing is, or when what is due now waits for a gate that was
/// told already.
pub fn next(status: &Status, is_held: bool) -> Option<String> {
    let wait = status.next_due?.since(status.at);
    let is_now = wait.as_secs() == 0;
    match (status.is_over(), is_now) {
        (true, true) => Some("A given-up attempt is due to be looked at again.".to_owned()),
        (true, false) => Some(format!("A given-up attempt is looked at again in {}.", brief(wait))),
        (false, true) if is_held => None,
        (false, true) => Some("Something is due now.".to_owned()),
        (false, false) => Some(format!("Next due in {}.", brief(wait))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::ledger::{Count, Counts};

    fn counted(items: Vec<Count>) -> Counts {
        Counts { items, has_closed: true }
    }

    fn status() -> Status {
        let count = |kind, state, items, oldest| Count { kind, state, items, oldest: Some(Millis(oldest)) };
        Status {
            counts: counted(vec![
                count(Kind::Job, State::Consumed, 1_234_567, 0),
                count(Kind::Job, State::Parked, 2, 9_000),
                count(Kind::BadLine, State::Parked, 1, 9_000),
                count(Kind::Intake, State::Read, 3, 0),
            ]),
            waiting: 0,
            next_due: None,
            at: Millis(10_000_000),
        }
    }

    #[test]
    fn the_table_has_every_state() {
        insta::assert_snapshot!(states_table(&status()), @r#"
STATE         JOBS  OLDEST
reserving        0
unclear          0
submitted        0
done             0
consumed   1234567  2h 46m
retryable        0
given_up         0
parked           2  2h 46m
recovered        0
discarded        0
"#);
    }

    #[test]
    fn json_has_every_state_with_count_and_age() {
        let context = Context::on_folder("d", false);
        let json = as_json(&context, &status(), &[], &[], &[]);
        let states = json["states"].as_object().unwrap();
        assert_eq!(states.len(), State::OF_JOBS.len());
        assert_eq!(states["parked"], json!({"count": 2, "oldest_age_s": 9991}));
        assert_eq!(states["reserving"], json!({"count": 0, "oldest_age_s": null}));
        assert_eq!((&json["bad_lines"], &json["intakes_read"], &json["paused"]), (&json!(1), &json!(3), &json!(null)));
        assert_eq!(json["events"], json!({"handled": 0, "taken": 0, "unmatched_handles": 0}));
    }

    #[test]
    fn events_and_what_they_named_in_vain_are_told() {
        let context = Context::on_folder("d", false);
        let told = |events, strays| {
            let counted_as = |kind, state, items| Count { kind, state, items, oldest: None };
            let items = vec![
                counted_as(Kind::Event, State::Handled, events),
                counted_as(Kind::Stray, State::Unmatched, strays),
            ];
            notes(&context, &Status { counts: counted(items), ..status() }, &[], &[])
        };
        assert!(!told(0, 0).contains("event"));
        assert!(told(1, 0).contains("1 event of Gemini's came within two days."));
        assert!(
            told(7, 1).contains("7 events of Gemini's came within two days; one handle that they named is no job's.")
        );
        assert!(told(7, 3).contains("; 3 handles that they named are no job's."));
    }

    #[test]
    fn what_is_due_next_is_told_as_it_is() {
        let at = |next_due, counts| Status { next_due: Some(Millis(next_due)), counts, ..status() };
        let over = status().counts;
        let open = counted(vec![Count { kind: Kind::Job, state: State::Submitted, items: 1, oldest: None }]);
        let now = status().at.0;
        assert_eq!(next(&status(), false), None);
        let said = [(now + 3_600_000, &over), (now, &over), (now + 90_000, &open), (now + 400, &open), (0, &open)]
            .map(|(due, counts)| next(&at(due, counts.clone()), false).unwrap());
        let expected = [
            "A given-up attempt is looked at again in 1h.",
            "A given-up attempt is due to be looked at again.",
            "Next due in 1m 30s.",
            "Something is due now.",
            "Something is due now.",
        ];
        assert_eq!(said, expected);
        assert_eq!(next(&at(now, open), true), None, "what holds it up was told");
    }
}
