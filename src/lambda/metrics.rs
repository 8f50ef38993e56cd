//! Metrics in CloudWatch's embedded metric format: a line of the log that CloudWatch reads
//! (<https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>).

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tracing::warn;

use super::Service;
use crate::app::engine::{Engine, Trouble};
use crate::app::inbox::Emptied;
use crate::app::report::waiting;
use crate::app::summary::{Summary, held_runs};
use crate::app::tick::Ticked;
use crate::app::webhook::Received;
use crate::domain::item::Kind;
use crate::domain::job::State;
use crate::domain::time::Millis;
use crate::domain::webhook::Outcome;
use crate::ports::ledger::Count;

const NAMESPACE: &str = "gleaner";

/// How many classes of dead letters have a metric of their own: each costs money.
const CLASSES: usize = 10;

/// The most characters of a class in a metric.
const DIMENSION: usize = 100;

/// A metric: its name, its unit, its value.
type Metric = (&'static str, &'static str, u64);

/// What one tick did.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) ticked: Ticked,
    pub(super) emptied: Emptied,
    pub(super) troubles: u64,
}

/// Prints what a tick did; nothing when it did nothing.
pub(super) fn print_done(service: &Service, done: &Done) -> io::Result<()> {
    let submitted = done.ticked.submitted;
    let metrics = [
        ("Consumed", "Count", done.ticked.consumed()),
        ("Submitted", "Count", submitted.first + submitted.again),
        ("RefusedFiles", "Count", done.emptied.refused),
        ("TickTroubles", "Count", done.troubles),
    ];
    let news: Vec<Metric> = metrics.into_iter().filter(|(.., value)| *value > 0).collect();
    if news.is_empty() { Ok(()) } else { print(service, &news) }
}

/// Prints that results were consumed outside of a tick.
pub(super) fn print_consumed(service: &Service, results: u64) -> io::Result<()> {
    print(service, &[("Consumed", "Count", results)])
}

/// Prints what became of a request that may have been an event.
pub(super) fn print_received(service: &Service, received: &Received) -> io::Result<()> {
    let name = match received {
        Received::Event(Outcome::Queued(_) | Outcome::Over(_)) => "EventsTaken",
        Received::Event(Outcome::Unknown | Outcome::Other) => "EventsUnknown",
        Received::Duplicate | Received::InHands => "EventsDuplicate",
        Received::Refused(_) => "EventsRefused",
        Received::NotNow(_) => "EventsNotTaken",
    };
    print(service, &[(name, "Count", 1)])
}

/// Counts the ledger and prints what alarms look at. That it can't be counted now is told and is no reason to fail.
pub(super) async fn print_ledger(service: &Service, engine: &Engine) -> io::Result<()> {
    match measure(engine).await {
        Ok(metrics) => print(service, &metrics),
        Err(trouble) => {
            warn!(error = %trouble, "the ledger could not be counted for the metrics");
            Ok(())
        }
    }
}

async fn measure(engine: &Engine) -> Result<Vec<Metric>, Trouble> {
    let counts = engine.ledger.counts().await?;
    let mut metrics = of_counts(&counts.items, waiting(engine).await?, engine.clock.now());
    metrics.push(("HeldRuns", "Count", held_runs(&*engine.ledger, &counts).await?.len() as u64));
    Ok(metrics)
}

fn of_counts(counts: &[Count], waiting: u64, now: Millis) -> Vec<Metric> {
    let open_of = |kind: Kind| move |count: &&Count| count.kind == kind && !count.state.is_ended();
    let (open, open_parts) = (open_of(Kind::Job), open_of(Kind::Part));
    // A file whose lines wait for ever is as bad as a job that does, and so is a part of a run.
    let waits = |count: &&Count| open(count) || open_parts(count) || count.state == State::Reading;
    // A part that waits for a person waits with its attempt, which is the dead letter.
    let dead = |count: &&Count| count.state == State::Parked && count.kind != Kind::Part;
    let sum = |counts: &mut dyn Iterator<Item = &Count>| counts.map(|count| count.items).sum::<u64>();
    let oldest = |counts: &mut dyn Iterator<Item = &Count>| {
        counts.filter_map(|count| count.oldest).map(|oldest| now.since(oldest).as_secs()).max().unwrap_or_default()
    };
    vec![
        ("OpenItems", "Count", sum(&mut counts.iter().filter(open))),
        ("OldestOpenItemAge", "Seconds", oldest(&mut counts.iter().filter(waits))),
        ("OldestDoneAge", "Seconds", oldest(&mut counts.iter().filter(|count| count.state == State::Done))),
        ("OpenParts", "Count", sum(&mut counts.iter().filter(open_parts))),
        ("DeadLetters", "Count", sum(&mut counts.iter().filter(dead))),
        ("WaitingLines", "Count", waiting),
    ]
}

/// Prints what the summary of a day came to: of the whole stack, and of the classes with the most dead letters.
pub(super) fn print_summary(service: &Service, summary: &Summary) -> io::Result<()> {
    for document in of_summary(&service.stack_name, summary, service.clock.now()) {
        print_line(&document)?;
    }
    Ok(())
}

fn of_summary(stack: &str, summary: &Summary, now: Millis) -> Vec<Value> {
    let whole = [
        ("OldestDeadLetterAge", "Seconds", json!(summary.oldest_age_s.unwrap_or_default())),
        ("DaysUntilExpiry", "None", json!(summary.days_until_expiry)),
    ];
    let known: Vec<_> = whole.into_iter().filter(|(.., value)| !value.is_null()).collect();
    let mut documents = vec![document(&[("Stack", stack)], &known, now)];
    let mut of_class = |class: &str, count: u64| {
        let metrics = [("DeadLetters", "Count", json!(count))];
        documents.push(document(&[("Stack", stack), ("Class", class)], &metrics, now));
    };
    for class in summary.classes.iter().take(CLASSES) {
        of_class(&dimension(&class.class), class.count);
    }
    let others: u64 = summary.classes.iter().skip(CLASSES).map(|class| class.count).sum();
    if others > 0 {
        of_class("other", others);
    }
    documents
}

/// A class as a dimension's value: CloudWatch takes ASCII only, and no more than 1024 of it.
fn dimension(class: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() { c } else { '_' };
    let value: String = class.chars().map(plain).take(DIMENSION).collect();
    if value.is_empty() { "none".to_owned() } else { value }
}

fn print(service: &Service, metrics: &[Metric]) -> io::Result<()> {
    let metrics: Vec<_> = metrics.iter().map(|(name, unit, value)| (*name, *unit, json!(value))).collect();
    print_line(&document(&[("Stack", &service.stack_name)], &metrics, service.clock.now()))
}

fn print_line(document: &Value) -> io::Result<()> {
    let mut line = document.to_string();
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes())
}

/// A line with these dimensions and these metrics: name, unit, value.
fn document(dimensions: &[(&str, &str)], metrics: &[(&str, &str, Value)], now: Millis) -> Value {
    let named: Vec<Value> = metrics.iter().map(|(name, unit, _)| json!({"Name": name, "Unit": unit})).collect();
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let mut document = Map::from_iter([(
        "_aws".to_owned(),
        json!({
            "Timestamp": now.0,
            "CloudWatchMetrics": [{"Namespace": NAMESPACE, "Dimensions": [names], "Metrics": named}],
        }),
    )]);
    document.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    document.extend(metrics.iter().map(|(name, _, value)| ((*name).to_owned(), value.clone())));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::adapters::gemini::Offline;
    use crate::adapters::local::DataFolder;
    use crate::app::summary::Class;
    use crate::domain::intake::{Held, Intake, Run};
    use crate::domain::item::Item;
    use crate::ports::conformance::sample::{self, START};
    use crate::ports::handover::Nobody;
    use crate::ports::testing::{TestClock, TestIds};

    /// An engine that only looks, on a ledger of its own.
    fn looking(folder: &tempfile::TempDir) -> Engine {
        let data = DataFolder::open(folder.path(), START).unwrap();
        let clock = Arc::new(TestClock::standing(START));
        let dead_letters = Arc::new(data.dead_letters(clock.clone()).unwrap());
        Engine {
            ledger: data.ledger,
            objects: data.objects,
            gemini: Arc::new(Offline::default()),
            clock,
            ids: Arc::new(TestIds::new(1)),
            work_queue: None,
            left_work: None,
            dead_letters,
            ends: None,
            handover: Arc::new(Nobody),
            settings: Default::default(),
            headers: Default::default(),
            sweeps: Default::default(),
            stopping: Default::default(),
        }
    }

    /// A run of one part; its sha256.
    async fn land_run(engine: &Engine, sha256: &str, held: bool, state: State) {
        let held =
            held.then(|| Held { class: "permanent:400".to_owned(), message: "no such field".to_owned(), since: START });
        let run = Run {
            key: sha256.to_owned(),
            model: "m".to_owned(),
            max_attempts: 4,
            deadline_s: 60,
            parts: 1,
            held,
            let_go: Vec::new(),
        };
        let mut intake = Intake { run: Some(run), ..sample::intake(sha256, engine.rev()) };
        (intake.state, intake.due_at, intake.lease) = (State::Read, None, None);
        let mut part = sample::part(1, engine.rev());
        (part.run, part.intake) = (sha256.to_owned(), sha256.to_owned());
        part.enter(state, None, START);
        for item in [Item::Intake(intake), Item::Part(Box::new(part))] {
            engine.ledger.create(&item).await.unwrap();
        }
    }

    #[tokio::test]
    async fn runs_that_wait_for_a_person_are_counted_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let engine = looking(&folder);
        let held = async || {
            let measured = measure(&engine).await.unwrap();
            measured.into_iter().find_map(|(name, _, value)| (name == "HeldRuns").then_some(value))
        };
        assert_eq!(held().await, Some(0));
        land_run(&engine, "goes-on", false, State::Waiting).await;
        land_run(&engine, "nothing-waits", true, State::Settled).await;
        assert_eq!(held().await, Some(0));
        land_run(&engine, "waits", true, State::Waiting).await;
        let mut second = sample::part(2, engine.rev());
        (second.run, second.intake) = ("waits".to_owned(), "waits".to_owned());
        second.enter(State::Waiting, None, START);
        engine.ledger.create(&Item::Part(Box::new(second))).await.unwrap();
        land_run(&engine, "waits-too", true, State::Waiting).await;
        assert_eq!(held().await, Some(2));
    }

    #[test]
    fn a_document_has_a_value_for_every_metric_that_it_names() {
        let metrics = [("A", "Count", json!(3)), ("B", "Seconds", json!(0))];
        let document = document(&[("Stack", "s")], &metrics, Millis(1_795_991_400_000));
        assert_eq!(
            document,
            json!({
                "_aws": {
                    "Timestamp": 1_795_991_400_000_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "gleaner", "Dimensions": [["Stack"]],
                        "Metrics": [{"Name": "A", "Unit": "Count"}, {"Name": "B", "Unit": "Seconds"}],
                    }],
                },
                "Stack": "s", "A": 3, "B": 0,
            })
        );
    }

    fn summary(classes: usize) -> Summary {
        let at = "2026-11-30T06:00:00Z".to_owned();
        let class = |n: usize| Class {
            class: format!("malformed:{n} 値"),
            count: 100 - n as u64,
            oldest: at.clone(),
            newest: at.clone(),
        };
        Summary {
            at: at.clone(),
            clean: classes == 0,
            dead_letters: classes as u64,
            parked: classes as u64,
            classes: (0..classes).map(class).collect(),
            modes: Default::default(),
            files: Vec::new(),
            oldest: None,
            newest: None,
            oldest_age_s: (classes > 0).then_some(90),
            expiries: Vec::new(),
            days_until_expiry: (classes > 0).then_some(3.5),
            unsent_messages: 0,
            no_payload: 0,
            possible_duplicates: 0,
            held_runs: Vec::new(),
        }
    }

    #[test]
    fn a_summary_has_a_metric_for_each_of_the_ten_largest_classes_and_one_for_the_others() {
        let documents = of_summary("s", &summary(14), Millis(7));
        assert_eq!((&documents[0]["OldestDeadLetterAge"], &documents[0]["DaysUntilExpiry"]), (&json!(90), &json!(3.5)));
        assert_eq!(documents.len(), 12);
        let told: Vec<_> = documents[1..].iter().map(|line| (line["Class"].as_str(), &line["DeadLetters"])).collect();
        assert_eq!(told[0], (Some("malformed:0__"), &json!(100)));
        assert_eq!(told[10], (Some("other"), &json!(90 + 89 + 88 + 87)));
        for line in &documents[1..] {
            assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"], json!([["Stack", "Class"]]));
        }
        // Nothing that expires has no metric: CloudWatch takes no null.
        let clean = of_summary("s", &summary(0), Millis(7));
        assert_eq!((clean.len(), &clean[0]["OldestDeadLetterAge"]), (1, &json!(0)));
        assert!(clean[0].get("DaysUntilExpiry").is_none() && !clean[0].to_string().contains("DaysUntilExpiry"));
    }

    #[test]
    fn what_alarms_look_at_is_counted() {
        let count = |kind, state, items, oldest| Count { kind, state, items, oldest: Some(Millis(oldest)) };
        let counts = [
            count(Kind::Job, State::Submitted, 3, 40_000),
            count(Kind::Job, State::Done, 2, 90_000),
            count(Kind::Job, State::Parked, 5, 1_000),
            count(Kind::BadLine, State::Parked, 1, 1_000),
            count(Kind::DeadRow, State::Parked, 10, 1_000),
            count(Kind::DeadGroup, State::Parked, 2, 1_000),
            count(Kind::Part, State::Parked, 1, 1_000),
            count(Kind::Part, State::Waiting, 4, 20_000),
            count(Kind::Part, State::UnderWay, 5, 25_000),
            count(Kind::Intake, State::Reading, 1, 30_000),
            count(Kind::Gate, State::Gate, 1, 3_000),
        ];
        let values: Vec<(&str, u64)> =
            of_counts(&counts, 7, Millis(100_000)).into_iter().map(|(name, _, value)| (name, value)).collect();
        assert_eq!(
            values,
            [
                ("OpenItems", 5),
                ("OldestOpenItemAge", 80),
                ("OldestDoneAge", 10),
                ("OpenParts", 9),
                ("DeadLetters", 18),
                ("WaitingLines", 7)
            ]
        );
        assert!(of_counts(&[], 0, Millis(5)).iter().all(|(.., value)| *value == 0));
    }
}
