use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use proptest::prelude::*;

use super::attributes::{self, Attributes};
use crate::domain::dead::{DeadGroup, DeadRow};
use crate::domain::gate::Gate;
use crate::domain::intake::{Cursor, Held, Intake, Run};
use crate::domain::item::{BadLine, Item, ItemId, Kind};
use crate::domain::job::{Fate, Handle, Heard, InputRef, Job, JobKey, KeyId, Lease, Mode, Moment, Rev, State};
use crate::domain::part::{Attempt, Counts, Intent, Output, Part, PartId, Passed, Sending, Uploaded};
use crate::domain::time::Millis;
use crate::domain::webhook::{Event, Outcome, Stray};
use crate::ports::conformance::sample::{self, minute};
use crate::ports::ledger::LedgerError;
use crate::ports::testing::TestIds;

mod size;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("\u{0}\u{1f}\u{7f}\r\n\t\u{feff}\u{10ffff}".to_owned()),
        "[a-z0-9_-]{1,63}",
        any::<String>(),
    ]
}

fn time() -> impl Strategy<Value = Millis> {
    prop_oneof![Just(0), Just(i64::MAX), Just(i64::MIN), any::<i64>(), 1_700_000_000_000_i64..1_900_000_000_000]
        .prop_map(Millis)
}

fn state() -> impl Strategy<Value = State> {
    let all: Vec<State> = State::all().collect();
    prop::sample::select(all)
}

fn maybe<T: std::fmt::Debug + Clone + 'static>(of: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Option<T>> {
    prop::option::of(of).boxed()
}

fn lease() -> impl Strategy<Value = Lease> {
    (text(), time()).prop_map(|(holder, until)| Lease { holder, until })
}

fn input() -> impl Strategy<Value = InputRef> {
    (text(), any::<[u64; 3]>()).prop_map(|(intake, [line, offset, length])| InputRef { intake, line, offset, length })
}

fn handle() -> impl Strategy<Value = Handle> {
    let fate = prop::sample::select(vec![Fate::Live, Fate::Won, Fate::Ended, Fate::GivenUp]);
    (text(), any::<[u32; 3]>(), time(), maybe(time()), fate).prop_map(
        |(id, [attempt, polls, looks], at, gone, fate)| {
            let key = KeyId(id.clone());
            Handle { id, attempt, key, at, deadline: at, polls, missing_since: gone, fate, given_up_at: gone, looks }
        },
    )
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let output = (text(), any::<u64>(), maybe(text()));
    let output = output.prop_map(|(file, announced, ended)| Output { file, announced, ended });
    let file = (text(), time()).prop_map(|(name, at)| Uploaded { name, at });
    let found = (maybe(file), maybe(time()), maybe(output));
    (prop::array::uniform3(text()), any::<[u32; 2]>(), any::<[u64; 2]>(), found).prop_map(
        |([run, part, rows_at], [number, refusals], [rows, bytes], (file, not_listed, output))| {
            let part = PartId(part);
            Attempt { run, part, number, rows_at, rows, bytes, file, not_listed, refusals, output }
        },
    )
}

fn job() -> impl Strategy<Value = Item> {
    let mode = prop::sample::select(vec![Mode::Interaction, Mode::Call, Mode::Batch]);
    let moment = (time(), state(), any::<u32>(), maybe(text()));
    let moment = moment.prop_map(|(at, state, attempt, class)| Moment(at, state, attempt, class));
    let heard =
        (text(), text(), time(), any::<u32>()).prop_map(|(id, nonce, at, polls)| Heard { id, nonce, at, polls });
    let (doubtful, heard) = (prop::collection::vec((any::<u32>(), text()), 0..3), prop::collection::vec(heard, 0..3));
    let lists = (prop::collection::vec(handle(), 0..4), prop::collection::vec(moment, 0..5), doubtful, heard);
    let texts = prop::array::uniform5(text());
    let optional = (maybe(time()), maybe(lease()), maybe(text()), maybe(text()), maybe(attempt()));
    let plain = (any::<[u32; 5]>(), any::<u64>(), any::<[bool; 2]>(), mode, state(), time());
    (texts, optional, plain, lists, input()).prop_map(
        |(texts, optional, plain, (handles, history, doubtful, heard), input)| {
            let [key, rev, content, model, nonce] = texts;
            let (due_at, lease, class, message, batch) = optional;
            let (numbers, deadline_s, [maybe_accepted, counted_duplicate], mode, state, since) = plain;
            let [max_attempts, attempts, consume_tries, replays, possible_duplicates] = numbers;
            Item::Job(Job {
                key: JobKey(key),
                rev: Rev(rev),
                answer: message.clone(),
                parked_at: due_at,
                batch: batch.map(Box::new),
                state,
                since,
                due_at,
                lease,
                input,
                content,
                mode,
                model,
                max_attempts,
                deadline_s,
                attempts,
                consume_tries,
                replays,
                possible_duplicates,
                maybe_accepted,
                counted_duplicate,
                nonce,
                doubtful,
                heard,
                handles,
                class,
                message,
                history,
            })
        },
    )
}

fn run() -> impl Strategy<Value = Run> {
    let held = (text(), text(), time()).prop_map(|(class, message, since)| Held { class, message, since });
    let let_go = prop::collection::vec(text(), 0..3);
    (text(), text(), any::<[u32; 2]>(), any::<u64>(), maybe(held), let_go).prop_map(
        |(key, model, [max_attempts, parts], deadline_s, held, let_go)| Run {
            key,
            model,
            max_attempts,
            deadline_s,
            parts,
            held,
            let_go,
        },
    )
}

fn intake() -> impl Strategy<Value = Item> {
    let optional = (maybe(time()), maybe(lease()), maybe(text()), maybe(text()), maybe(run()));
    (prop::array::uniform3(text()), optional, any::<[u64; 7]>(), state(), time(), any::<bool>()).prop_map(
        |([sha256, rev, file], (due_at, lease, on_result, cancelled, run), numbers, state, since, mixed)| {
            let [bytes, lines, offset, line, jobs, repeats, bad_lines] = numbers;
            let cursor = Cursor { offset, line, jobs, repeats, bad_lines };
            let (rev, landed_at) = (Rev(rev), since);
            Item::Intake(Intake {
                sha256,
                rev,
                state,
                since,
                due_at,
                lease,
                file,
                bytes,
                lines,
                landed_at,
                mixed,
                on_result,
                run,
                cancelled,
                cursor,
            })
        },
    )
}

fn gate() -> impl Strategy<Value = Item> {
    let optional = (maybe(time()), maybe(text()), maybe(text()), maybe(lease()), maybe(text()));
    (prop::array::uniform2(text()), optional, any::<[u32; 2]>(), time(), any::<bool>()).prop_map(
        |([name, rev], (until, class, message, probe, paused), [refusals, unclear], since, needs_person)| {
            let rev = Rev(rev);
            Item::Gate(Gate { name, rev, since, until, refusals, unclear, class, message, needs_person, probe, paused })
        },
    )
}

fn bad_line() -> impl Strategy<Value = Item> {
    (prop::array::uniform5(text()), maybe(time()), input(), state(), time()).prop_map(
        |([rev, file, class, message, excerpt], due_at, input, state, since)| {
            let (rev, first_seen) = (Rev(rev), since);
            Item::BadLine(BadLine { rev, state, since, due_at, input, file, class, message, excerpt, first_seen })
        },
    )
}

/// A map of numbers. No name in DynamoDB is empty.
fn numbers() -> impl Strategy<Value = BTreeMap<String, u64>> {
    prop::collection::btree_map(text().prop_filter("a name", |name| !name.is_empty()), any::<u64>(), 0..4)
}

fn passed() -> impl Strategy<Value = Passed> {
    (any::<u32>(), text(), any::<[bool; 2]>(), any::<[u64; 10]>(), numbers(), any::<[u64; 5]>()).prop_map(
        |(attempt, name, [late, without_output], counts, classes, places)| {
            let [rows, succeeded, retry, dead, settled_before, recovered, missing, duplicates, unknown, unreadable] =
                counts;
            let counts = Counts {
                rows,
                succeeded,
                retry,
                dead,
                settled_before,
                recovered,
                missing,
                duplicates,
                unknown,
                unreadable,
            };
            let [told, dead_bytes, mended, recovered_bytes, retry_bytes] = places;
            Passed {
                attempt,
                name,
                late,
                without_output,
                counts,
                classes,
                told,
                dead_bytes,
                mended,
                recovered_bytes,
                retry_bytes,
            }
        },
    )
}

fn intent() -> impl Strategy<Value = Intent> {
    (any::<[u32; 2]>(), maybe(text()), any::<[bool; 2]>(), (text(), text()), any::<u64>()).prop_map(
        |([attempt, download], output, [late, last], blame, announced)| Intent {
            attempt,
            output,
            download,
            late,
            blame,
            announced,
            last,
        },
    )
}

fn part() -> impl Strategy<Value = Item> {
    let sending = (any::<[u32; 2]>(), text(), any::<[u64; 2]>(), any::<bool>(), maybe((text(), text())));
    let sending = sending.prop_map(|([number, tries], rows_at, [rows, bytes], free, ended)| Sending {
        number,
        rows_at,
        rows,
        bytes,
        tries,
        free,
        ended,
    });
    let cursor = any::<[u64; 5]>();
    let cursor =
        cursor.prop_map(|[offset, line, jobs, repeats, bad_lines]| Cursor { offset, line, jobs, repeats, bad_lines });
    let optional = (maybe(time()), maybe(lease()), maybe(cursor), maybe(intent()));
    let lists = (prop::collection::vec(sending, 0..4), prop::collection::vec(passed(), 0..3));
    let plain = (any::<u32>(), any::<[u64; 3]>(), any::<bool>(), state(), time());
    ([text(), text()], prop::array::uniform4(text()), optional, lists, plain).prop_map(
        |([run, part], [rev, intake, model, rows_at], (due_at, lease, upto, intent), (attempts, passes), plain)| {
            let (used, [rows, bytes, discarded], halved, state, since) = plain;
            Item::Part(Box::new(Part {
                run,
                part: PartId(part),
                rev: Rev(rev),
                state,
                since,
                due_at,
                lease,
                intake,
                model,
                rows_at,
                rows,
                bytes,
                upto,
                used,
                attempts,
                intent,
                passes,
                halved,
                discarded,
            }))
        },
    )
}

fn dead_row() -> impl Strategy<Value = Item> {
    let texts = (prop::array::uniform4(text()), prop::array::uniform4(text()));
    (texts, maybe(time()), any::<[u32; 2]>(), any::<[u64; 2]>(), state(), time()).prop_map(
        |(
            ([id, rev, intake, run], [part, key, class, message]),
            due_at,
            [attempt, attempts],
            [from, length],
            state,
            since,
        )| {
            Item::DeadRow(DeadRow {
                at: (key.clone(), from, length),
                id,
                rev: Rev(rev),
                state,
                since,
                due_at,
                intake,
                run,
                part: PartId(part),
                attempt,
                attempts,
                key,
                class,
                message,
                first_seen: since,
            })
        },
    )
}

fn dead_group() -> impl Strategy<Value = Item> {
    (prop::array::uniform5(text()), maybe(time()), numbers(), state(), time()).prop_map(
        |([rev, intake, run, class, message], due_at, rows, state, since)| {
            let (rev, first_seen) = (Rev(rev), since);
            Item::DeadGroup(DeadGroup { rev, state, since, due_at, intake, run, class, message, rows, first_seen })
        },
    )
}

fn event() -> impl Strategy<Value = Item> {
    let outcome = prop_oneof![
        text().prop_map(Outcome::Queued),
        text().prop_map(Outcome::Over),
        Just(Outcome::Unknown),
        Just(Outcome::Other),
    ];
    (prop::array::uniform3(text()), state(), [time(), time()], maybe(time()), maybe(outcome)).prop_map(
        |([name, rev, about], state, [since, expires], lease, outcome)| {
            Item::Event(Event { name, rev: Rev(rev), state, since, about, lease, outcome, expires })
        },
    )
}

fn stray() -> impl Strategy<Value = Item> {
    (text(), text(), time(), any::<u32>(), time()).prop_map(|(handle, rev, since, events, expires)| {
        Item::Stray(Stray { handle, rev: Rev(rev), since, events, expires })
    })
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![job(), intake(), gate(), bad_line(), part(), dead_row(), dead_group(), event(), stray()]
}

proptest! {
    #[test]
    fn any_item_comes_back_as_it_was_written(item in item()) {
        let (id, written) = (item.id(), attributes::of(&item).unwrap());
        prop_assert_eq!(attributes::text(&written, "pk"), Some(id.0.as_str()));
        prop_assert_eq!(written.contains_key("open"), item.state().is_listed());
        prop_assert_eq!(written.contains_key("due"), item.state().is_listed());
        prop_assert_eq!(written.contains_key("handle"), item.handles().any(|handle| !handle.is_empty()));
        prop_assert_eq!(written.contains_key("expires_at"), matches!(item, Item::Event(_) | Item::Stray(_)));
        // A key that can't be one would make the whole write fail.
        for key in ["open", "handle"] {
            prop_assert!(attributes::text(&written, key).is_none_or(|key| (1..=2048).contains(&key.len())));
        }
        prop_assert_eq!(attributes::read("table", written).unwrap(), item);
    }
}

#[test]
fn what_is_written_is_what_a_person_reads() {
    let mut job = sample::full_job("0123", Rev("r1".to_owned()));
    job.state = State::Unclear;
    let written = attributes::of(&Item::Job(job)).unwrap();
    let text = |name: &str| written[name].as_s().unwrap().as_str();
    assert_eq!((text("pk"), text("kind"), text("rev"), text("state")), ("job/0123", "job", "r1", "unclear"));
    assert_eq!(text("handle"), "v1_ünï-日本語");
    assert_eq!(text("open"), format!("unclear#{}", attributes::shard(&ItemId("job/0123".to_owned()))));
    assert_eq!(written["due"], AttributeValue::N(minute(2).0.to_string()));
    let handles = written["handles"].as_l().unwrap();
    assert_eq!(handles[1].as_m().unwrap()["fate"], AttributeValue::S("given_up".to_owned()));
}

#[test]
fn only_what_is_listed_is_in_the_index_and_what_is_never_due_stands_behind_every_time() {
    let rev = || Rev("r".to_owned());
    let due = |item: Item| attributes::of(&item).unwrap().get("due").map(|due| due.as_n().unwrap().clone());
    for state in State::OF_JOBS {
        let written = due(Item::Job(sample::job_in("a", rev(), state, minute(1), Some(minute(7)))));
        assert_eq!(written, (!state.is_closed()).then(|| minute(7).0.to_string()), "{state}");
    }
    for item in [
        Item::Gate(sample::gate("everything", rev())),
        Item::BadLine(sample::bad_line(1, rev())),
        Item::DeadRow(sample::dead_row("row", rev())),
        Item::DeadGroup(sample::dead_group("missing", rev())),
    ] {
        let never: i128 = due(item).unwrap().parse().unwrap();
        assert!(never > i128::from(i64::MAX));
    }
}

#[test]
fn dynamodb_deletes_what_has_expired_and_nothing_before() {
    let written = |item: Item| attributes::of(&item).unwrap().get("expires_at").cloned();
    let at = |ms| written(Item::Stray(Stray { expires: Millis(ms), ..sample::stray("v1_a", Rev("r".to_owned())) }));
    // In whole seconds: up, since it must not go while it is of use.
    for (ms, seconds) in [(1_796_164_200_000, "1796164200"), (1_796_164_200_001, "1796164201"), (999, "1"), (0, "0")] {
        assert_eq!(at(ms), Some(AttributeValue::N(seconds.to_owned())));
    }
    let revs = TestIds::new(1);
    for item in sample::one_of_each(|| revs.rev()) {
        let expires = matches!(item.kind(), Kind::Event | Kind::Stray);
        assert_eq!(written(item.clone()).is_some(), expires, "{}", item.id());
    }
    for state in State::OF_JOBS {
        assert_eq!(written(Item::Job(sample::job_in("a", revs.rev(), state, minute(0), None))), None, "{state}");
    }
}

#[test]
fn a_shard_is_the_same_for_ever_and_shards_are_about_even() {
    let shard = |n: u32| attributes::shard(&ItemId(format!("job/{n}")));
    // Another hash would hide every item that was written before: this must never change.
    assert_eq!((0..12).map(shard).collect::<Vec<_>>(), [0, 3, 3, 2, 1, 1, 0, 2, 3, 3, 3, 3]);
    let mut sizes = [0; 4];
    (0..4000).for_each(|n| sizes[usize::from(shard(n))] += 1);
    assert!(sizes.iter().all(|size| (900..1100).contains(size)), "{sizes:?}");
}

#[test]
fn long_handles_are_found_by_their_digest() {
    let key = |handle: &str| attributes::handle_key(handle);
    assert_eq!(key(""), None);
    assert_eq!(key("v1_日本").as_deref(), Some("v1_日本"));
    let long = "x".repeat(3000);
    assert!(key(&long).unwrap().starts_with("sha256:") && key(&long) != key(&format!("{long}x")));
}

#[test]
fn what_cannot_be_read_is_named() {
    let revs = TestIds::new(1);
    let good = attributes::of(&Item::Job(sample::full_job("a", revs.rev()))).unwrap();
    let broken = |change: fn(&mut Attributes)| {
        let mut attributes = good.clone();
        change(&mut attributes);
        match attributes::read("some-table", attributes) {
            Err(LedgerError::NeedsPerson(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let whys = [
        broken(|item| drop(item.remove("rev"))),
        broken(|item| drop(item.insert("attempts".to_owned(), AttributeValue::S("one".to_owned())))),
        broken(|item| drop(item.insert("attempts".to_owned(), AttributeValue::N("1.5".to_owned())))),
        broken(|item| drop(item.insert("kind".to_owned(), AttributeValue::S("run".to_owned())))),
        broken(|item| drop(item.insert("key".to_owned(), AttributeValue::S("b".to_owned())))),
    ];
    for why in whys {
        assert!(why.contains("job/a") && why.contains("some-table") && why.contains("mend"), "{why}");
    }
    assert!(broken(|item| drop(item.remove("pk"))).contains("without an id"));
}
